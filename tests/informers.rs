//! Informers over the real API server: every resource, live, resumable, equal to a fresh list after every fault.

mod crds;
mod examples;
mod forgetful;
mod hand;
mod huge;
mod notes;
mod odd;
mod oracle;
mod outages;
mod pages;
mod patterns;
mod rig;
mod rights;
mod scope;
mod speed;
mod warm;
mod wire;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use kubediff::cluster::{
    Feed, Resource, Scope,
    informer::{Close, Index, Informer},
    select::Namespaces,
    store::Place,
};
use serde_json::json;

use self::rig::{Rig, all_but_noise, only};
use crate::harness::{self, PATIENCE, poll};

#[tokio::test]
async fn every_resource_is_in_sync_and_every_change_arrives_once_and_in_order() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("informers").await;
    let rig = Rig::start(cluster.access(), &Place::Temporary, all_but_noise()).await;
    rig.synced().await;
    let kinds: BTreeSet<String> = rig.factory.informers().iter().map(|i| i.feed().resource.kind.clone()).collect();
    for kind in
        ["Pod", "Deployment", "ConfigMap", "Secret", "Node", "Namespace", "CustomResourceDefinition", "ClusterRole"]
    {
        assert!(kinds.contains(kind), "{kind} is missing among {kinds:?}");
    }
    for kind in ["Event", "Lease", "EndpointSlice"] {
        assert!(!kinds.contains(kind), "{kind} is noise");
    }
    let refused = |informer: &Informer| (informer.feed().to_string(), informer.status().borrow().refused);
    let all = rig.factory.informers();
    assert!(
        all.len() > 40 && all.iter().map(refused).all(|(_, refused)| refused == 0),
        "{:?}",
        all.iter().map(refused).collect::<Vec<_>>()
    );
    assert!(
        rig.notes.about(ns.name()).iter().all(|note| !note.contains("Initial")),
        "what was there before is no news"
    );

    cluster.kubectl(&["create", "configmap", "a", "--from-literal=k=1", "-n", ns.name()]).await;
    cluster.kubectl(&["patch", "configmap", "a", "-p", r#"{"data":{"k":"2"}}"#, "-n", ns.name()]).await;
    cluster.kubectl(&["label", "configmap", "a", "x=y", "-n", ns.name()]).await;
    cluster.kubectl(&["delete", "configmap", "a", "-n", ns.name()]).await;
    let path = format!("configmaps {}/a", ns.name());
    let steps = rig.notes.wait_for(&path, 4).await;
    assert_eq!(steps, ["Live created", "Live updated", "Live updated", "Live deleted"]);
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;
}

#[tokio::test]
async fn an_informer_is_shared_and_found_by_index_and_ends_with_its_subscribers_told() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("shared").await;
    cluster.kubectl(&["create", "configmap", "a", "--from-literal=color=red", "-n", ns.name()]).await;
    let rig = Rig::bare(cluster.access()).await;
    let feed = Feed::new(Resource::core("v1", "configmaps", "ConfigMap"), Scope::Namespace(ns.name().into()));
    let informer = rig.factory.informer(feed.clone());
    informer.add_index(Index::by_pointers("color", &["/data/color"])).unwrap();
    rig.factory.start();
    let same = rig.factory.informer(feed.clone());
    assert!(same.add_index(Index::by_label()).is_err(), "it runs already");
    same.wait_for_sync().await.unwrap();
    let (mut one, mut two) = (informer.subscribe().await.unwrap(), same.subscribe().await.unwrap());
    cluster.kubectl(&["create", "configmap", "b", "--from-literal=color=red", "-n", ns.name()]).await;
    let mut lister = informer.lister().await.unwrap();
    let named =
        |found: Vec<kubediff::redact::Document>| found.iter().map(|d| d.meta().name.clone()).collect::<Vec<_>>();
    poll(PATIENCE, "both are found by colour", async || {
        (named(lister.by_index("color", "red").unwrap()) == ["a", "b"]).then_some(())
    })
    .await;
    for subscription in [&mut one, &mut two] {
        let mut names = BTreeSet::new();
        while !names.contains("b") {
            names.insert(subscription.next().await.unwrap().object().meta().name.clone());
        }
        assert!(names.contains("a"));
    }
    rig.factory.remove(&feed, Close::Forget).await.unwrap();
    assert!(one.next().await.is_none(), "the end is told");
    rig.stop().await;
}

#[tokio::test]
async fn pods_are_found_by_address_node_owner_label_and_whatever_a_user_adds_as_they_are_now() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("found").await;
    cluster.kubectl(&["create", "configmap", "owner", "-n", ns.name()]).await;
    let uid = ["get", "configmap", "owner", "-n", ns.name(), "-o", "jsonpath={.metadata.uid}"];
    let uid = cluster.kubectl(&uid).await;
    let rig = Rig::bare(cluster.access()).await;
    let pods = Feed::new(Resource::core("v1", "pods", "Pod"), Scope::Namespace(ns.name().into()));
    let pods = rig.factory.informer(pods);
    let images = Index::by_pointers("image", &["/spec/containers/0/image"]);
    for index in [Index::by_ip(), Index::by_node(), Index::by_owner(), Index::by_label(), images] {
        pods.add_index(index).unwrap();
    }
    rig.factory.start();
    pods.wait_for_sync().await.unwrap();

    let owner = format!("{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}}}");
    let metadata = format!("{{name: p, labels: {{app: web}}, ownerReferences: [{owner}]}}");
    let spec = "{nodeName: nowhere, containers: [{name: c, image: one}]}";
    cluster.apply(ns.name(), &format!("{{apiVersion: v1, kind: Pod, metadata: {metadata}, spec: {spec}}}")).await;
    let address = async |ip: &str| {
        let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}, {"ip": "fd00::7"}]}}).to_string();
        let patch = ["patch", "pod", "p", "--subresource=status", "--type=merge", "-n", ns.name(), "-p", &status];
        cluster.kubectl(&patch).await;
    };
    address("10.9.8.6").await;
    let mut lister = pods.lister().await.unwrap();
    let mut found = |index: &str, value: &str| !lister.by_index(index, value).unwrap().is_empty();
    poll(PATIENCE, "its address is known", async || found("ip", "10.9.8.6").then_some(())).await;
    let others = [("ip", "fd00::7"), ("node", "nowhere"), ("owner", &uid), ("label", "app=web"), ("image", "one")];
    for (index, value) in others {
        assert!(found(index, value), "by {index} {value}");
    }
    cluster.kubectl(&["label", "pod", "p", "app=api", "--overwrite", "-n", ns.name()]).await;
    cluster.kubectl(&["set", "image", "pod/p", "c=two", "-n", ns.name()]).await;
    address("10.9.8.5").await;
    poll(PATIENCE, "its new address is known", async || found("ip", "10.9.8.5").then_some(())).await;
    for (index, before, now) in
        [("ip", "10.9.8.6", "fd00::7"), ("label", "app=web", "app=api"), ("image", "one", "two")]
    {
        assert!(found(index, now) && !found(index, before), "by {index} {now}, and not by {before}");
    }
    cluster.kubectl(&["delete", "pod", "p", "--grace-period=0", "--force", "-n", ns.name()]).await;
    poll(PATIENCE, "it is gone", async || (!found("node", "nowhere")).then_some(())).await;
    for (index, value) in [("ip", "10.9.8.5"), ("owner", &uid), ("label", "app=api"), ("image", "two")] {
        assert!(!found(index, value), "by {index} {value}");
    }
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;
}

#[tokio::test]
async fn the_audit_finds_what_a_watch_was_made_to_miss() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("audit").await;
    for name in ["a", "gone"] {
        cluster.kubectl(&["create", "configmap", name, "--from-literal=k=0", "-n", ns.name()]).await;
    }
    let mut settings = only(&["v1/configmaps"]);
    settings.namespaces = Namespaces { include: vec![ns.name().into()], exclude: vec![] };
    let rig = Rig::start_auditing(cluster.access(), &Place::Temporary, settings, Duration::from_secs(3)).await;
    rig.synced().await;
    // An audit waits until the watch has come as far as its list; changes move it along faster than bookmarks do.
    let stir = async || {
        let patch = json!({"metadata": {"annotations": {"at": format!("{:?}", Instant::now())}}}).to_string();
        cluster.kubectl(&["patch", "configmap", "stir", "-p", &patch, "-n", ns.name()]).await;
    };
    cluster.kubectl(&["create", "configmap", "stir", "-n", ns.name()]).await;
    poll(PATIENCE, "an audit that finds nothing", async || {
        stir().await;
        (rig.audits().done > 0).then_some(())
    })
    .await;
    assert_eq!(rig.audits().missed, 0, "zero is what to expect");

    let missed: [(&[&str], &str, &str); 3] = [
        (&["patch", "configmap", "a", "-p", r#"{"data":{"k":"missed"}}"#], "a", "Audit updated"),
        (&["create", "configmap", "made"], "made", "Audit created"),
        (&["delete", "configmap", "gone"], "gone", "Audit deleted"),
    ];
    for (number, (args, name, told)) in (1..).zip(missed) {
        rig.forget_next_change(name);
        let args: Vec<&str> = args.iter().copied().chain(["-n", ns.name()]).collect();
        cluster.kubectl(&args).await;
        poll(PATIENCE, "the watch has lost it", async || rig.has_forgotten().then_some(())).await;
        poll(PATIENCE, format!("the miss of {name} is counted"), async || {
            stir().await;
            (rig.audits().missed == number).then_some(())
        })
        .await;
        assert_eq!(rig.notes.of(&format!("configmaps {}/{name}", ns.name())), [told]);
    }
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;
}
