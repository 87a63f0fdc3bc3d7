//! Several replicas by the chart: what an upgrade must leave alone, what a takeover takes along, and that nothing is left.

use std::{fs, process::Command};

use base64::{Engine, prelude::BASE64_STANDARD};
use kubediff::ha::{HISTORY, LEADS_FIRST};
use serde_json::Value;

use super::{CHART, helm, life};
use crate::{
    delivery::daemon::Kubediff,
    harness::{self, Cluster, PATIENCE, Receiver, cluster::free_port, guard, poll},
};

/// As the chart has configured it, with files where a test can have them.
async fn replica(cluster: &Cluster, namespace: &str, name: &str, key: &str, page: &str) -> Kubediff {
    let config = object(cluster, namespace, "configmap/kubediff").await;
    let mut config: toml::Table = config["data"]["config.toml"].as_str().unwrap().parse().unwrap();
    let set = |table: &mut toml::Table, path: [&str; 2], value: toml::Value| {
        let section = table.entry(path[0]).or_insert_with(|| toml::Table::new().into());
        section.as_table_mut().unwrap().insert(path[1].to_owned(), value);
    };
    assert_eq!(config["redact"]["key"]["file"].as_str(), Some("/run/secrets/kubediff-redaction/key"));
    let file = cluster.dir().join(format!("redaction-key-{namespace}"));
    fs::write(&file, key).unwrap();
    let file = toml::Table::from_iter([("file".to_owned(), file.to_str().unwrap().into())]);
    set(&mut config, ["redact", "key"], file.into());
    set(&mut config, ["state", "path"], "kubediff.db".into());
    set(&mut config, ["server", "probes"], "".into());
    set(&mut config, ["server", "page"], page.into());
    set(&mut config, ["ha", "identity"], name.into());
    let token = cluster.kubectl(&["create", "token", "kubediff", "-n", namespace]).await;
    // In the pod it is the service account that says which namespace it is in.
    set(&mut config, ["ha", "namespace"], namespace.into());
    let access = cluster.access().with_token(token.trim());
    let kubeconfig = access.write_kubeconfig(cluster.dir(), &format!("kubeconfig-{namespace}"));
    Kubediff::new(&kubeconfig, &config.to_string())
}

async fn object(cluster: &Cluster, namespace: &str, name: &str) -> Value {
    serde_json::from_str(&cluster.kubectl(&["get", name, "-n", namespace, "-o", "json"]).await).unwrap()
}

/// A command of kubediff on a replica's state file: whether it succeeded, and what it said.
async fn command(replica: &Kubediff, args: &[&str]) -> (bool, String) {
    kubediff(&[args, &["--state", replica.state().to_str().unwrap()]].concat()).await
}

async fn kubediff(args: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubediff"));
    command.args(args);
    let output = guard::run(&mut command).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

/// The event about an object, of this type.
async fn event(receiver: &Receiver, of: &str, name: &str) -> Value {
    poll(PATIENCE, format!("that {name} was {of}"), async || {
        let mut all = receiver.received().into_iter().map(|request| request.json());
        all.find(|event| event["type"] == of && event["resource"]["name"] == name)
    })
    .await
}

#[tokio::test]
async fn upgrades_leave_the_lease_alone_a_takeover_takes_all_along_and_nothing_is_left() {
    let cluster = harness::cluster().await;
    cluster.controllers().await;
    let namespace = life::restricted(cluster).await;
    let name = namespace.name();
    let quiet = cluster.namespace("quiet").await;
    let before = poll(PATIENCE, "what every namespace has", async || {
        let all = life::contents(cluster, name).await;
        all.iter().any(|object| object == "configmap/kube-root-ca.crt").then_some(all)
    })
    .await;
    let receiver = Receiver::start();
    let values = serde_json::json!({
        "replicas": 2, "persistence": {"enabled": false},
        "config": {
            "watch": {"namespaces": [name, quiet.name()], "include": ["v1/configmaps", "v1/secrets"]},
            "ha": {"lease_secs": 20, "renew_secs": 15, "retry_secs": 1},
            "sinks": {"hook": {"type": "webhook", "url": receiver.url("/hook")}},
        },
    });
    let file = cluster.dir().join(format!("values-{name}.json"));
    fs::write(&file, values.to_string()).unwrap();
    let helm = async |verb: &str, more: &[&str]| {
        let values = file.to_string_lossy();
        let args = [verb, "kubediff", CHART, "-n", name, "--wait", "--timeout", "120s", "--values", &values];
        cluster.helm(&[&args[..], more].concat()).await
    };
    helm("install", &[]).await;
    let key = object(cluster, name, "secret/kubediff-redaction-key").await["data"]["key"].clone();
    let text = String::from_utf8(BASE64_STANDARD.decode(key.as_str().unwrap()).unwrap()).unwrap();
    let page = format!("127.0.0.1:{}", free_port());
    let mut a = replica(cluster, name, "kubediff-0", &text, "").await;
    let mut b = replica(cluster, name, "kubediff-1", &text, &page).await;
    a.start().await;
    poll(PATIENCE, "a leads", async || a.said("this replica leads now").then_some(())).await;
    b.start().await;

    let kubectl = async |args: &[&str]| cluster.kubectl(&[args, &["-n", name]].concat()).await;
    kubectl(&["create", "secret", "generic", "key", "--from-literal=password=hunter2"]).await;
    let by_a = event(&receiver, "created", "key").await["object"]["data"]["password"].clone();
    assert!(by_a.as_str().unwrap().starts_with("hmac:"), "{by_a}");

    // What the pods keep on the Lease is theirs.
    let kept = async || {
        let lease = object(cluster, name, "lease/kubediff").await;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        let mark = lease["metadata"]["annotations"]["kubediff.io/delivered"].is_string();
        let key = object(cluster, name, "secret/kubediff-redaction-key").await["data"]["key"].clone();
        (holder.split('_').next().unwrap().to_owned(), mark, lease["metadata"]["labels"]["team"].clone(), key)
    };
    poll(PATIENCE, "the mark is on the Lease", async || kept().await.1.then_some(())).await;
    assert_eq!(kept().await, ("kubediff-0".to_owned(), true, Value::Null, key.clone()));
    helm("upgrade", &["--set", "labels.team=ops"]).await;
    assert_eq!(kept().await, ("kubediff-0".to_owned(), true, "ops".into(), key.clone()));
    cluster.helm(&["rollback", "kubediff", "1", "-n", name, "--wait", "--timeout", "120s"]).await;
    assert_eq!(kept().await, ("kubediff-0".to_owned(), true, Value::Null, key.clone()));
    assert!(!a.said("leads no more") && !b.said("this replica leads now"), "nobody noticed");

    // A silence is made where the leader is, and the other one says where that is.
    let silence = ["silence", "-n", quiet.name(), "--for", "1h", "--reason", "moving"];
    let page = ["--server", &format!("http://{page}")];
    for (way, place) in [("its API", page), ("its file", ["--state", b.state().to_str().unwrap()])] {
        let (done, said) = kubediff(&[&silence[..], &place].concat()).await;
        assert!(!done && said.contains("kubediff-0, which leads"), "by {way}: {said}");
    }
    let (done, said) = command(&a, &silence).await;
    assert!(done, "{said}");
    poll(PATIENCE, "b has the silence too", async || {
        command(&b, &["silence", "list"]).await.1.contains("moving").then_some(())
    })
    .await;
    let (done, said) = command(&b, &["dead-letters", "retry", "--all"]).await;
    assert!(done && said.contains("when this replica leads; now kubediff-0 does"), "{said}");

    a.kill();
    poll(PATIENCE, "b leads", async || b.said("this replica leads now").then_some(())).await;
    cluster.kubectl(&["create", "configmap", "hushed", "-n", quiet.name()]).await;
    kubectl(&["delete", "secret", "key"]).await;
    let by_b = event(&receiver, "deleted", "key").await["object"]["data"]["password"].clone();
    assert_eq!(by_b, by_a, "the same value has the same hash on every replica");
    kubectl(&["create", "configmap", "last"]).await;
    event(&receiver, "created", "last").await;
    let told = |what: &str| receiver.received().iter().any(|request| request.json()["resource"]["name"] == what);
    assert!(!told("hushed"), "the silence holds after the takeover");
    kubectl(&["delete", "configmap", "last"]).await;

    // One that still runs does not make the Lease again.
    cluster.helm(&["uninstall", "kubediff", "-n", name, "--wait"]).await;
    poll(PATIENCE, "b misses the Lease", async || b.said("the lease cannot be read or written").then_some(())).await;
    b.kill();
    let mut left = Vec::new();
    let began = std::time::Instant::now();
    while began.elapsed() < PATIENCE {
        left = life::contents(cluster, name).await;
        if left == before {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
    }
    assert_eq!(left, before, "what uninstalling left");
}

#[tokio::test]
async fn where_a_release_was_before_the_lease_is_first_for_a_pod_with_a_history() {
    let first = async |args: &[&str]| {
        let args = [&["template", "kubediff", CHART, "--namespace", "tools"], args].concat();
        let rendered = helm::objects(&helm::helm(&args, "replicas: 2").await.unwrap());
        helm::find(&rendered, "Lease", "/metadata/annotations")[LEADS_FIRST].clone()
    };
    assert_eq!(first(&[]).await, Value::Null, "of pods that are all new one leads at once");
    assert_eq!(first(&["--is-upgrade"]).await, HISTORY);
}

/// Another key is no storm of changes: a state file keeps the one that it began with, and says so.
#[tokio::test]
async fn a_state_file_keeps_the_key_that_it_began_with() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("rekey").await;
    let receiver = Receiver::start();
    let config = |key: &str| {
        format!(
            "[watch]\nnamespaces = [\"{ns}\"]\ninclude = [\"v1/secrets\"]\n[server]\nprobes = \"\"\npage = \"\"\n{key}\
             [sinks.hook]\ntype = \"webhook\"\nurl = \"{}\"\n",
            receiver.url("/hook")
        )
    };
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config(""));
    kubediff.start().await;
    cluster.kubectl(&["create", "secret", "generic", "key", "--from-literal=password=hunter2", "-n", ns.name()]).await;
    let first = event(&receiver, "created", "key").await["object"]["data"]["password"].clone();
    kubediff.stop().await;
    kubediff.write_config(&config("[redact]\nkey = \"0123456789abcdef0123456789abcdef\"\n"));
    kubediff.start().await;
    assert!(kubediff.said("redact.key is not the key that this state file was begun with"));
    cluster.kubectl(&["label", "secret", "key", "team=shop", "-n", ns.name()]).await;
    let labelled = event(&receiver, "updated", "key").await;
    let changed: Vec<_> =
        labelled["changes"].as_array().unwrap().iter().map(|change| change["field"].as_str().unwrap()).collect();
    assert_eq!(changed, ["metadata.labels"], "{labelled:#}");
    cluster.kubectl(&["delete", "secret", "key", "-n", ns.name()]).await;
    assert_eq!(event(&receiver, "deleted", "key").await["object"]["data"]["password"], first);
    kubediff.stop().await;
}
