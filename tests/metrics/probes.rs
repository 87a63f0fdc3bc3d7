//! `/livez` and `/readyz` of the running program: what they say, and when.

use std::time::Duration;

use super::get;
use crate::{
    delivery::daemon::Kubediff,
    harness::{self, Fault, Matching, PATIENCE, Proxy, cluster::free_port, poll},
    permissions,
};

/// What Kubernetes gives a pod to end.
const GRACE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn the_probes_say_why() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("probes").await;
    let port = free_port();
    let config = format!(
        "[watch]\nnamespaces = [\"{ns}\"]\ninclude = [\"v1/configmaps\"]\n[server]\nprobes = \"127.0.0.1:{port}\"\npage = \"\"\n"
    );
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config);
    kubediff.start().await;
    let ready = poll(PATIENCE, "it is ready", async || {
        let (status, text) = get(port, "/readyz").await;
        (status == 200).then_some(text)
    })
    .await;
    assert!(ready.contains("[+] discovery: done") && ready.contains("[+] state: writable"), "{ready}");
    assert!(ready.contains("[+] informers: 1 of 1 in sync"), "{ready}");
    let (status, alive) = get(port, "/livez").await;
    let turn = ["runtime", "writer", "service", "fleet"].map(|part| format!("[+] {part}: turns\n")).concat();
    assert_eq!((status, alive), (200, turn));
    kubediff.stop().await;
}

#[tokio::test]
async fn it_is_ready_with_one_bad_resource_and_not_with_nothing_in_sync_or_a_full_disk() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("ready").await;
    let reader = permissions::Reader::create(cluster, ns.name()).await;
    let proxy = Proxy::start(&reader.access);
    let secrets = || Matching::all().path(&format!("/namespaces/{ns}/secrets"));
    proxy.fault_next(1, secrets(), Fault::answer(500));
    proxy.fault(secrets(), Fault::Hang);
    let port = free_port();
    let config = format!(
        "[watch]\nnamespaces = [\"{ns}\"]\ninclude = [\"v1/configmaps\", \"v1/secrets\"]\n\
         [server]\nprobes = \"127.0.0.1:{port}\"\npage = \"\"\n"
    );
    let dir = tempfile::tempdir().unwrap();
    let mut kubediff = Kubediff::new(&proxy.kubeconfig(dir.path()), &config);
    let until = async |what: &str, code: u16, part: &str| {
        poll(PATIENCE, what, async || {
            let (status, text) = get(port, "/readyz").await;
            (status == code && text.contains(part)).then_some(text)
        })
        .await
    };
    // One is forbidden and the other fails: it says that it watches, since nothing more comes by waiting alone.
    kubediff.start_to_be_limited().await;
    let (status, text) = get(port, "/readyz").await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("[-] informers: 0 of 2 in sync") && text.contains("v1/configmaps"), "{text}");
    reader.allow(&["configmaps"]).await;
    let text = until("one of two is enough", 200, "[+] informers: 1 of 2 in sync").await;
    assert!(text.contains("\n    v1/secrets"), "{text}");
    // Also while the one that fails is being tried again.
    let listing = "kubediff_informer_state{resource=\"secrets\"";
    poll(PATIENCE, "the Secrets are asked for again", async || {
        let text = get(port, "/metrics").await.1;
        text.lines().any(|line| line.starts_with(listing) && line.contains("state=\"listing\"")).then_some(())
    })
    .await;
    let (status, text) = get(port, "/readyz").await;
    assert_eq!(status, 200, "{text}");

    kubediff.fill_disk(true);
    cluster.kubectl(&["create", "configmap", "a", "-n", ns.name()]).await;
    until("the state file cannot be written", 503, "[-] state: ").await;
    assert_eq!(get(port, "/livez").await.0, 200, "a restart would not make room");
    kubediff.fill_disk(false);
    until("it can be written again", 200, "[+] state: writable").await;
    kubediff.stop().await;
}

#[tokio::test]
async fn a_full_disk_does_not_hold_up_the_end() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("ends").await;
    let port = free_port();
    let config = format!(
        "[watch]\nnamespaces = [\"{ns}\"]\ninclude = [\"v1/configmaps\"]\n[server]\nprobes = \"127.0.0.1:{port}\"\npage = \"\"\n"
    );
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config);
    kubediff.start_to_be_limited().await;
    kubediff.fill_disk(true);
    cluster.kubectl(&["create", "configmap", "a", "-n", ns.name()]).await;
    poll(PATIENCE, "the state file cannot be written", async || {
        get(port, "/readyz").await.1.contains("[-] state: ").then_some(())
    })
    .await;
    let began = std::time::Instant::now();
    kubediff.stop().await;
    assert!(began.elapsed() < GRACE, "{:?}", began.elapsed());
    // And what it could not store is read again.
    kubediff.start().await;
    kubediff.stop().await;
}
