//! The old kubediff's payload, which has the whole object in it: as each change left it, however late that is sent.

use serde_json::{Value, json};

use super::{Kubediff, config};
use crate::harness::{self, Answer, PATIENCE, Receiver, poll};

const UPDATES: usize = 30;

/// What was told of one object, in order.
fn of<'a>(payloads: &'a [Value], kind: &str, name: &str) -> Vec<&'a Value> {
    let named = |p: &&Value| p["meta"]["Kind"] == kind && p["meta"]["Obj"]["metadata"]["name"] == name;
    payloads.iter().filter(named).map(|payload| &payload["meta"]).collect()
}

fn check(payloads: &[Value], namespace: &str) {
    let told = of(payloads, "v1/configmaps", "web");
    let types: Vec<&str> = told.iter().map(|meta| meta["Type"].as_str().unwrap()).collect();
    assert_eq!(types.first(), Some(&"EventAdd"));
    assert_eq!(types.last(), Some(&"EventDelete"));
    assert_eq!(types.iter().filter(|of| **of == "EventUpdate").count(), UPDATES, "{types:?}");
    for (n, meta) in told.iter().enumerate().take(UPDATES + 1) {
        let object = &meta["Obj"];
        assert_eq!(object["data"], json!({"n": n.to_string(), "same": "text"}), "{meta:#}");
        assert_eq!((&object["kind"], &object["metadata"]["namespace"]), (&json!("ConfigMap"), &json!(namespace)));
        let version = object["metadata"]["resourceVersion"].as_str().unwrap();
        assert!(version.parse::<u64>().is_ok(), "{meta:#}");
        if n > 0 {
            assert_eq!(meta["Diff"], json!([{"op": "replace", "path": "/data/n", "value": n.to_string()}]));
        }
    }
    let secret = of(payloads, "v1/secrets", "key");
    assert_eq!(secret.len(), 2, "{secret:#?}");
    for meta in secret {
        let value = meta["Obj"]["data"]["password"].as_str().unwrap();
        assert!(value.starts_with("hmac:"), "{meta:#}");
    }
    let all = serde_json::to_string(payloads).unwrap();
    assert!(!all.contains("aHVudGVyMg") && !all.contains("hunter2"), "no secret leaves");
}

#[tokio::test]
async fn every_update_has_the_whole_object_as_it_was_then() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("legacy").await;
    let receiver = Receiver::start();
    receiver.answer(Answer::status(503));
    let more = "format = \"legacy\"\nretry_max_secs = 1\n[sinks.lines]\ntype = \"stdout\"\nformat = \"legacy\"\n";
    let config = config(ns.name(), &receiver, more).replace("\"v1/configmaps\"", "\"v1/configmaps\", \"v1/secrets\"");
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config);
    kubediff.start().await;

    let kubectl = async |args: &[&str]| cluster.kubectl(&[args, &["-n", ns.name()]].concat()).await;
    kubectl(&["create", "configmap", "web", "--from-literal=n=0", "--from-literal=same=text"]).await;
    for n in 1..=UPDATES {
        let patch = json!({"data": {"n": n.to_string()}}).to_string();
        kubectl(&["patch", "configmap", "web", "--type=merge", "-p", &patch]).await;
    }
    kubectl(&["create", "secret", "generic", "key", "--from-literal=password=hunter2"]).await;
    let patch = json!({"stringData": {"password": "hunter22"}}).to_string();
    kubectl(&["patch", "secret", "key", "--type=merge", "-p", &patch]).await;
    kubectl(&["delete", "configmap", "web"]).await;

    let count = UPDATES + 2 + 2;
    let lines = poll(PATIENCE, "all of it on stdout", async || {
        let log = std::fs::read_to_string(kubediff.log()).unwrap();
        let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        (lines.len() >= count).then_some(lines)
    })
    .await;
    check(&lines, ns.name());

    // By now the object has gone on, and is gone.
    receiver.answer(Answer::ok());
    let received = receiver.wait_for_accepted(count, PATIENCE).await;
    let payloads: Vec<Value> = received.iter().map(harness::Received::json).collect();
    check(&payloads, ns.name());
    kubediff.stop().await;
}
