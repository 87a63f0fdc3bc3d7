//! Two replicas, of which one delivers: whatever happens to it, the other goes on, and nothing is lost.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use kubediff::ha::{HISTORY, LEADS_FIRST};
use reqwest::Method;
use serde_json::Value;

use crate::{
    chart::{CHART, helm::helm},
    delivery::{
        daemon::Kubediff,
        oracle::{Load, Replay},
    },
    harness::{
        self, Answer, Cluster, Fault, Matching, Namespace, PATIENCE, Proxy, Received, Receiver, Verb,
        cluster::free_port, poll,
    },
};

/// The times of the Lease: short, and still long for a machine that is busy with other tests.
const QUICK: &str = "lease_secs = 12\nrenew_secs = 6\nretry_secs = 1\n";
/// So long that whoever waits for it to run out waits in vain.
const LONG: &str = "lease_secs = 600\nrenew_secs = 300\nretry_secs = 2\n";

/// A replica that reads the ConfigMaps of one namespace, and posts to a path that has its name.
fn config(ns: &Namespace, name: &str, receiver: &Receiver, times: &str) -> String {
    format!(
        "[watch]\nnamespaces = [\"{ns}\"]\ninclude = [\"v1/configmaps\"]\n[server]\nprobes = \"\"\npage = \"\"\n\
         [ha]\nenabled = true\nnamespace = \"{ns}\"\nidentity = \"{name}\"\n{times}\
         [sinks.hook]\ntype = \"webhook\"\nurl = \"{}\"\nbatch = 5\nretry_max_secs = 1\n",
        receiver.url(&format!("/{name}")),
        ns = ns.name(),
    )
}

async fn leads(replica: &Kubediff) {
    poll(PATIENCE, "it leads", async || replica.said("this replica leads now").then_some(())).await;
}

/// Who holds the Lease, by the name that it has in the configuration.
async fn holder(cluster: &Cluster, ns: &Namespace) -> String {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/kubediff", ns.name());
    let lease: Value = cluster.access().get(&path).send().await.unwrap().json().await.unwrap();
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    holder.split('_').next().unwrap_or_default().to_owned()
}

fn by(receiver: &Receiver, name: &str) -> Vec<Received> {
    receiver.received().into_iter().filter(|request| request.path == format!("/{name}")).collect()
}

async fn delivers(receiver: &Receiver, name: &str) {
    delivers_times(receiver, name, 1).await;
}

/// Waits until it has sent so many more requests.
async fn delivers_times(receiver: &Receiver, name: &str, times: usize) {
    let goal = by(receiver, name).len() + times;
    poll(PATIENCE, format!("{name} delivers"), async || (by(receiver, name).len() >= goal).then_some(())).await;
}

/// Two of them, of which the first leads; it goes to the API server by a way of its own.
async fn pair(first: &Path, cluster: &Cluster, ns: &Namespace, receiver: &Receiver) -> (Kubediff, Kubediff) {
    let mut a = Kubediff::new(first, &config(ns, "a", receiver, QUICK));
    let mut b = Kubediff::new(cluster.kubeconfig(), &config(ns, "b", receiver, QUICK));
    a.start().await;
    leads(&a).await;
    b.start().await;
    (a, b)
}

#[tokio::test]
async fn a_leader_killed_under_load_is_followed_by_the_other_and_back_and_nothing_is_lost() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("takeover").await;
    let receiver = Receiver::start();
    let (mut a, mut b) = pair(cluster.kubeconfig(), cluster, &ns, &receiver).await;
    let load = Load::new(cluster.access(), ns.name()).slow(Duration::from_millis(60));
    let killing = async {
        delivers_times(&receiver, "a", 30).await;
        assert!(by(&receiver, "b").is_empty(), "the standby delivers nothing while the leader lives");
        a.kill();
        delivers(&receiver, "b").await;
        // The old leader comes back and stands by, then it is its turn again.
        a.start().await;
        let back = by(&receiver, "a").len();
        delivers_times(&receiver, "b", 30).await;
        assert_eq!(by(&receiver, "a").len(), back, "who comes back stands by");
        assert_eq!(holder(cluster, &ns).await, "b");
        b.kill();
        delivers(&receiver, "a").await;
    };
    let done = load.run_until(21, 40, killing).await;
    let replay = Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done).await;
    replay.assert_each_once(done, &load);
    harness::say(format!("takeover: {done} changes over two kills, {} events came twice", replay.duplicates));
    a.stop().await;
}

#[tokio::test]
async fn a_leader_cut_off_from_the_api_server_alone_stops_before_the_other_begins() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("partition").await;
    let receiver = Receiver::start();
    let (proxy, folder) = (Proxy::start(cluster.access()), tempfile::tempdir().unwrap());
    let (mut a, mut b) = pair(&proxy.kubeconfig(folder.path()), cluster, &ns, &receiver).await;
    let load = Load::new(cluster.access(), ns.name()).slow(Duration::from_millis(60));
    let cutting = async {
        delivers_times(&receiver, "a", 20).await;
        // Nothing is refused: what was sent is never answered, what is open falls silent.
        proxy.fault(Matching::all(), Fault::Hang);
        proxy.stall(&Matching::all());
        delivers(&receiver, "b").await;
        assert!(a.said("this replica leads no more"), "it has stopped by itself");
        proxy.heal();
        delivers(&receiver, "b").await;
    };
    let done = load.run_until(22, 40, cutting).await;
    let replay = Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done).await;
    replay.assert_each_once(done, &load);
    let last = by(&receiver, "a").last().unwrap().at;
    let first = by(&receiver, "b").first().unwrap().at;
    assert!(last < first, "they delivered at the same time, for {:?}", last - first);
    harness::say(format!("partition: {done} changes, {} events came twice", replay.duplicates));
    assert_eq!(holder(cluster, &ns).await, "b");
    // What the other told meanwhile is no longer on the old leader's list.
    poll(PATIENCE, "the old leader's list is empty", async || (a.waiting() == 0).then_some(())).await;
    b.stop().await;
    delivers_a_change(cluster, &ns, &receiver, "a").await;
    let replay = Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done + 1).await;
    // And it tells none of it again under another id.
    replay.assert_each_once(done + 1, &load);
    a.stop().await;
}

/// Waits until this is said there, with a 200.
async fn says(probes: &str, path: &str, text: &str) {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    poll(PATIENCE, format!("{path} says {text}"), async || {
        let answer = http.get(format!("http://{probes}{path}")).send().await.ok()?;
        (answer.status() == 200 && answer.text().await.ok()?.contains(text)).then_some(())
    })
    .await;
}

/// Makes one change, and waits until this replica has told it; gives how long that took.
async fn delivers_a_change(cluster: &Cluster, ns: &Namespace, receiver: &Receiver, name: &str) -> Duration {
    let before = by(receiver, name).len();
    let began = Instant::now();
    let path = format!("/api/v1/namespaces/{}/configmaps", ns.name());
    let object = serde_json::json!({"metadata": {"name": format!("one-{before}-{name}")}, "data": {"k": "v"}});
    let made = cluster.access().request(Method::POST, &path).json(&object).send().await.unwrap();
    assert!(made.status().is_success());
    poll(PATIENCE, format!("{name} tells of it"), async || (by(receiver, name).len() > before).then_some(())).await;
    began.elapsed()
}

/// A kubeconfig in `folder` with the token of the ServiceAccount that the chart makes for two replicas.
async fn by_the_chart(cluster: &Cluster, ns: &Namespace, folder: &Path) -> PathBuf {
    let parts = ["rbac", "serviceaccount", "lease"].map(|part| format!("templates/{part}.yaml"));
    let parts: Vec<&str> = parts.iter().flat_map(|part| ["--show-only", part]).collect();
    let args = [&["template", "kubediff", CHART, "--namespace", ns.name()][..], &parts].concat();
    let manifest = helm(&args, "replicas: 2\nrbac: {scope: namespaces}").await.unwrap();
    let file = folder.join("rbac.yaml");
    std::fs::write(&file, manifest).unwrap();
    cluster.kubectl(&["apply", "-f", file.to_str().unwrap()]).await;
    let token = cluster.kubectl(&["create", "token", "kubediff", "-n", ns.name()]).await;
    let access = cluster.access().with_token(token.trim());
    let lease = |name: &str| serde_json::json!({"metadata": {"name": name}, "spec": {"holderIdentity": "x"}});
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", ns.name());
    let other = cluster.access().request(Method::POST, &path).json(&lease("another")).send().await.unwrap();
    assert!(other.status().is_success());
    let (another, away) = (format!("{path}/another"), "/apis/coordination.k8s.io/v1/namespaces/default/leases");
    for (method, path) in
        [(Method::PUT, another.as_str()), (Method::DELETE, &another), (Method::POST, away), (Method::POST, &path)]
    {
        let answer = access.request(method.clone(), path).json(&lease("another")).send().await.unwrap();
        assert_eq!(answer.status(), 403, "{method} {path}");
    }
    access.write_kubeconfig(folder, "kubeconfig")
}

#[tokio::test]
async fn a_leader_that_is_stopped_hands_over_within_seconds_and_tells_nothing_twice() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("handover").await;
    let receiver = Receiver::start();
    let folder = tempfile::tempdir().unwrap();
    // With what the chart allows, and nothing else.
    let kubeconfig = by_the_chart(cluster, &ns, folder.path()).await;
    let probes = ["a", "b"].map(|_| format!("127.0.0.1:{}", free_port()));
    let [mut a, mut b] = [("a", &probes[0]), ("b", &probes[1])].map(|(name, probes)| {
        let config = config(&ns, name, &receiver, LONG);
        Kubediff::new(&kubeconfig, &config.replace("probes = \"\"", &format!("probes = \"{probes}\"")))
    });
    a.start().await;
    leads(&a).await;
    b.start().await;
    let leads = |value: u8| format!("kubediff_leader{{lease=\"{}/kubediff\"}} {value}", ns.name());
    says(&probes[0], "/readyz", "[+] replica: leader").await;
    says(&probes[1], "/readyz", "[+] replica: standby; a_").await;
    says(&probes[0], "/metrics", &leads(1)).await;
    says(&probes[1], "/metrics", &leads(0)).await;
    let load = Load::new(cluster.access(), ns.name());
    let done = load.run(23, 300, 30).await;
    Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done).await;
    a.stop().await;
    let took = delivers_a_change(cluster, &ns, &receiver, "b").await;
    // In time, though the lease has minutes to run.
    harness::say(format!("handover: {took:?} from the end of the leader to a delivery by the other"));
    let replay = Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done + 1).await;
    replay.assert_each_once(done + 1, &load);
    assert_eq!(replay.duplicates, 0);
    says(&probes[1], "/metrics", &leads(1)).await;
    b.stop().await;
}

/// With the times that there are by default: 15, 10 and 2 s.
#[tokio::test]
async fn a_clean_hand_over_takes_no_more_than_the_next_look_at_the_lease() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("clean").await;
    let receiver = Receiver::start();
    let folder = tempfile::tempdir().unwrap();
    let proxies = [(); 2].map(|()| Proxy::start(cluster.access()));
    let [mut a, mut b] = [("a", &proxies[0]), ("b", &proxies[1])]
        .map(|(name, proxy)| Kubediff::new(&proxy.kubeconfig(folder.path()), &config(&ns, name, &receiver, "")));
    a.start().await;
    leads(&a).await;
    b.start().await;
    let looks = Matching::all().verb(Verb::Get).resource("leases");
    let mut took = Vec::new();
    for (name, proxy) in [("b", &proxies[1]), ("a", &proxies[0])] {
        let (leader, next) = if name == "b" { (&mut a, &mut b) } else { (&mut b, &mut a) };
        poll(PATIENCE, "the other stands by", async || (proxy.count(&looks) > 0).then_some(())).await;
        // It gives the Lease up before it ends.
        leader.stop().await;
        proxy.forget();
        took.push(delivers_a_change(cluster, &ns, &receiver, name).await);
        assert!(next.said("this replica leads now"));
        // The one that finds it free, and one that was under way.
        let looks = proxy.count(&looks);
        assert!(looks <= 2, "{name} has looked {looks} times at a Lease that was nobody's");
        leader.start().await;
    }
    harness::say(format!("clean hand-overs: {took:?} from the end of the leader to a delivery by the other"));
    // Looks are 2 s apart. Two tries, since the machine may be busy with something else during one of them.
    let quicker = took.iter().min().unwrap();
    assert!(*quicker < Duration::from_secs(10), "{took:?}");
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn what_the_leader_could_not_deliver_the_other_does_when_it_takes_over() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("backlog").await;
    let receiver = Receiver::start();
    let (mut a, mut b) = pair(cluster.kubeconfig(), cluster, &ns, &receiver).await;
    let load = Load::new(cluster.access(), ns.name());
    let mut done = load.run(24, 50, 10).await;
    Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done).await;
    receiver.answer(Answer::status(503));
    done += load.run(25, 400, 300).await;
    poll(PATIENCE, "both have all of it", async || (a.waiting() >= 390 && b.waiting() >= 390).then_some(())).await;
    a.kill();
    receiver.answer(Answer::ok());
    let replay = Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done).await;
    replay.assert_each_once(done, &load);
    // A mark is at most a renewal old.
    assert!(replay.duplicates <= 50, "{}", replay.duplicates);
    b.stop().await;
}

/// As `helm upgrade` has it: the Lease and the new one are there first, the old one is restarted last.
#[tokio::test]
async fn from_one_to_two_the_one_that_ran_before_leads_first_and_its_backlog_goes_on() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("second").await;
    let receiver = Receiver::start();
    receiver.answer(Answer::status(503));
    let both = config(&ns, "a", &receiver, QUICK);
    let alone = both.replace("enabled = true", "enabled = false");
    let mut a = Kubediff::new(cluster.kubeconfig(), &alone);
    let mut b = Kubediff::new(cluster.kubeconfig(), &config(&ns, "b", &receiver, QUICK));
    a.start().await;
    let load = Load::new(cluster.access(), ns.name());
    let done = load.run(27, 40, 10).await;
    poll(PATIENCE, "all of it waits", async || (a.waiting() >= 35).then_some(())).await;

    let lease = serde_json::json!({"metadata": {"name": "kubediff", "annotations": {LEADS_FIRST: HISTORY}}});
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", ns.name());
    let made = cluster.access().request(Method::POST, &path).json(&lease).send().await.unwrap();
    assert!(made.status().is_success());
    b.start().await;
    poll(PATIENCE, "b yields", async || b.said("it leaves the lead to the one that ran before").then_some(())).await;
    a.stop().await;
    a.write_config(&both);
    a.start().await;
    leads(&a).await;
    receiver.answer(Answer::ok());
    let replay = Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done).await;
    replay.assert_each_once(done, &load);
    assert_eq!(holder(cluster, &ns).await, "a");
    assert!(by(&receiver, "b").is_empty() && !b.said("this replica leads now"));
    // And from now on either of them may.
    a.stop().await;
    delivers_a_change(cluster, &ns, &receiver, "b").await;
    b.stop().await;
}

#[tokio::test]
async fn a_leader_with_a_full_disk_leaves_the_lead_to_the_other_and_nothing_is_lost() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("disk").await;
    let receiver = Receiver::start();
    let [mut a, mut b] =
        ["a", "b"].map(|name| Kubediff::new(cluster.kubeconfig(), &config(&ns, name, &receiver, QUICK)));
    a.start_to_be_limited().await;
    leads(&a).await;
    b.start().await;
    let load = Load::new(cluster.access(), ns.name()).slow(Duration::from_millis(60));
    let filling = async {
        delivers_times(&receiver, "a", 10).await;
        a.fill_disk(true);
        delivers_times(&receiver, "b", 10).await;
        assert!(a.said("this replica does not lead until it can"));
        assert_eq!(holder(cluster, &ns).await, "b");
        // And leads again when there is room.
        b.kill();
        a.fill_disk(false);
        delivers(&receiver, "a").await;
    };
    let done = load.run_until(26, 40, filling).await;
    let replay = Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done).await;
    replay.assert_each_once(done, &load);
    a.stop().await;
}
