//! Objects larger than any API server takes, so they are written past it: it serves them all the same.

use std::time::Duration;

use kubediff::cluster::store::Place;
use serde_json::json;

use super::{
    hand::Hand,
    rig::{Rig, only, until},
};
use crate::harness::{Cluster, Options, PATIENCE, poll};

const MIB: usize = 1 << 20;

/// A ConfigMap of so many bytes.
fn config_map(name: &str, bytes: usize, filler: &str) -> String {
    let uid = format!("00000000-0000-4000-8000-{:0>12}", name.len());
    let metadata =
        json!({"name": name, "namespace": "default", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"});
    let data = json!({"x": filler.repeat(bytes)});
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data}).to_string()
}

#[tokio::test]
async fn an_object_of_fifty_megabytes_is_kept_by_its_metadata_and_a_larger_one_is_found_by_the_audit() {
    let etcd_args = vec!["--max-request-bytes=200000000".to_owned()];
    let cluster = Cluster::start(Options { etcd_args, ..Options::default() }).await;
    let hand = Hand::new(cluster.access(), "default");
    hand.create("before").await;
    let settings = only(&["v1/configmaps"]);
    let rig = Rig::start_auditing(cluster.access(), &Place::Temporary, settings.clone(), Duration::from_secs(4)).await;
    rig.synced().await;
    hand.rest_is_news();
    let told = |name: &str| rig.notes.of(&format!("configmaps default/{name}"));

    cluster.put("configmaps/default/large", &config_map("large", 50 * MIB, "x")).await;
    assert_eq!(rig.notes.wait_for("configmaps default/large", 1).await, ["Live created"]);
    let stored = rig.stored("configmaps", "default", "large").await;
    assert!(stored.get("data").is_none() && stored.to_string().contains("larger than"), "{stored}");
    cluster.put("configmaps/default/large", &config_map("large", 50 * MIB, "y")).await;
    rig.notes.wait_for("configmaps default/large", 2).await;
    hand.create("between").await;

    // Larger than an event may be: the watch skips it and goes on, and the audit finds what it did not tell.
    cluster.put("configmaps/default/larger", &config_map("larger", 70 * MIB, "x")).await;
    let informer = rig.informer("configmaps").unwrap();
    until(&informer, "it is skipped and counted", |status| status.refused == 1).await;
    poll(PATIENCE * 3, "the audit to tell of it", async || {
        // An audit waits until the watch has come as far as its list; changes move it along faster than bookmarks do.
        hand.write("stir").await;
        (!told("larger").is_empty()).then_some(())
    })
    .await;
    rig.agrees_with(&hand).await;
    assert_eq!(told("larger"), ["Audit created"]);
    assert_eq!(rig.audits().missed, 1);

    cluster.kubectl(&["delete", "configmap", "large"]).await;
    rig.notes.wait_for("configmaps default/large", 3).await;
    rig.agrees_with(&hand).await;
    assert_eq!(told("large"), ["Live created", "Live updated", "Live deleted"], "each once");
    assert_eq!(rig.relisted("configmaps"), 0, "the watch stays open");
    rig.stop().await;

    let rig = Rig::start(cluster.access(), &Place::Temporary, settings).await;
    rig.synced().await;
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;
}
