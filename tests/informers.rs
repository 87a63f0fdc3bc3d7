//! Informers over the real API server: every resource, live, resumable, equal to a fresh list after every fault.

mod examples;
mod patterns;
mod rig;
mod speed;
mod warm;
mod wire;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use kubediff::cluster::{
    Resource, Scope,
    informer::{Close, Index},
    select::{Namespaces, Pattern, Selector, Settings},
    store::Place,
};
use serde_json::json;

use self::rig::{Rig, all_but_noise, crd, only, until_served, widget};
use crate::harness::{self, Cluster, Options, PATIENCE, poll};

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
async fn a_crd_created_at_run_time_is_watched_and_its_deletion_reports_its_objects_once() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("crd").await;
    let rig = Rig::start(cluster.access(), &Place::Temporary, all_but_noise()).await;
    rig.synced().await;

    let group = format!("{}.example.com", ns.name());
    cluster.apply(ns.name(), &crd(&group, &["v1"], "v1")).await;
    cluster.kubectl(&["wait", "--for=condition=Established", &format!("crd/widgets.{group}"), "--timeout=30s"]).await;
    // The first custom resource may be there before its informer is: it is news all the same.
    cluster.apply(ns.name(), &widget(&group, "v1", "first", 1)).await;
    poll(PATIENCE, "the new resource has an informer", async || {
        rig.factory.informers().iter().any(|informer| informer.feed().resource.group == group).then_some(())
    })
    .await;
    cluster.apply(ns.name(), &widget(&group, "v1", "second", 1)).await;
    let first = format!("widgets.{group} {}/first", ns.name());
    let second = format!("widgets.{group} {}/second", ns.name());
    let seen = rig.notes.wait_for(&first, 1).await;
    assert!(["Live created", "Late created"].contains(&seen[0].as_str()), "{seen:?}");
    rig.notes.wait_for(&second, 1).await;

    cluster.kubectl(&["delete", "crd", &format!("widgets.{group}")]).await;
    for path in [&first, &second] {
        let steps = rig.notes.wait_for_last(path, "deleted").await;
        assert_eq!(steps.iter().filter(|step| step.ends_with("deleted")).count(), 1, "{steps:?}");
    }
    poll(PATIENCE, "the informer of the deleted CRD is gone", async || {
        rig.factory.informers().iter().all(|informer| informer.feed().resource.group != group).then_some(())
    })
    .await;
    for path in [&first, &second] {
        let deleted = rig.notes.of(path).iter().filter(|step| step.ends_with("deleted")).count();
        assert_eq!(deleted, 1, "told once, also after the informer has gone");
    }
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_crd_is_watched_at_once_though_of_crds_only_those_with_a_label_are() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("labelled").await;
    let group = format!("{}.example.com", ns.name());
    let labels = format!("of={}", ns.name());
    let rig = Rig::start(cluster.access(), &Place::Temporary, Settings { labels, ..only(&[&group, "crd"]) }).await;
    rig.synced().await;
    cluster.apply(ns.name(), &crd(&group, &["v1"], "v1")).await;
    // Well before discovery looks by itself, which is every five minutes.
    poll(PATIENCE, "the new resource has an informer", async || {
        rig.factory.informers().iter().any(|informer| informer.feed().resource.group == group).then_some(())
    })
    .await;
    assert_eq!(rig.notes.about("customresourcedefinitions"), [""; 0], "it has no such label");
    cluster.kubectl(&["delete", "crd", &format!("widgets.{group}")]).await;
    rig.stop().await;
}

#[tokio::test]
async fn selectors_are_applied_by_the_server_for_all_resources_and_for_one() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("selectors").await;
    let selector = Selector {
        resource: Pattern::parse("ConfigMap").unwrap(),
        labels: "tier in (front, back)".into(),
        fields: "metadata.name!=left-out".into(),
    };
    let settings = Settings {
        labels: "app=web".into(),
        selectors: vec![selector],
        namespaces: Namespaces { include: vec![ns.name().into()], exclude: vec![] },
        ..only(&["v1/configmaps", "v1/serviceaccounts"])
    };
    let make = async |kind: &str, name: &str, labels: &str| {
        let object = format!("{{apiVersion: v1, kind: {kind}, metadata: {{name: {name}, labels: {labels}}}}}");
        cluster.apply(ns.name(), &object).await;
    };
    make("ConfigMap", "before", "{app: web, tier: front}").await;
    make("ConfigMap", "before-other", "{app: other, tier: front}").await;
    let rig = Rig::start(cluster.access(), &Place::Temporary, settings).await;
    rig.synced().await;
    make("ConfigMap", "other-app", "{app: other, tier: front}").await;
    make("ConfigMap", "no-tier", "{app: web}").await;
    make("ConfigMap", "left-out", "{app: web, tier: front}").await;
    make("ServiceAccount", "other-app", "{app: other}").await;
    make("ConfigMap", "in", "{app: web, tier: back}").await;
    make("ServiceAccount", "left-out", "{app: web}").await;
    let config_map = format!("configmaps {}/in", ns.name());
    let account = format!("serviceaccounts {}/left-out", ns.name());
    for path in [&config_map, &account] {
        assert_eq!(rig.notes.wait_for(path, 1).await, ["Live created"], "{path}");
    }
    // It is there, and none of those that are asked for any more.
    cluster.kubectl(&["label", "configmap", "in", "tier-", "-n", ns.name()]).await;
    assert_eq!(rig.notes.wait_for(&config_map, 2).await, ["Live created", "Live deleted"]);
    let told = rig.notes.about(ns.name());
    assert_eq!(told.len(), 3, "and of no other: {told:?}");
    for (plural, names) in [("configmaps", "before"), ("serviceaccounts", "left-out")] {
        let informer = rig.factory.informers().into_iter().find(|i| i.feed().resource.plural == plural).unwrap();
        let stored = informer.lister().await.unwrap().list(&"".parse().unwrap()).unwrap();
        assert_eq!(stored.iter().map(|object| object.meta().name.as_str()).collect::<Vec<_>>(), [names]);
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_crd_is_watched_at_once_though_crds_themselves_are_not() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("unseen").await;
    let group = format!("{}.example.com", ns.name());
    let rig = Rig::start(cluster.access(), &Place::Temporary, only(&[&group, "v1/namespaces"])).await;
    rig.synced().await;
    assert!(rig.factory.informers().iter().all(|informer| informer.feed().resource.plural == "namespaces"));

    cluster.apply(ns.name(), &crd(&group, &["v1"], "v1")).await;
    // Well before discovery looks by itself, which is every five minutes.
    poll(PATIENCE, "the new resource has an informer", async || {
        rig.factory.informers().iter().any(|informer| informer.feed().resource.group == group).then_some(())
    })
    .await;
    cluster.apply(ns.name(), &widget(&group, "v1", "first", 1)).await;
    rig.notes.wait_for(&format!("widgets.{group} {}/first", ns.name()), 1).await;
    cluster.kubectl(&["delete", "crd", &format!("widgets.{group}")]).await;
    poll(PATIENCE, "the informer of the deleted CRD is gone", async || {
        rig.factory.informers().iter().all(|informer| informer.feed().resource.group != group).then_some(())
    })
    .await;
    rig.stop().await;
}

#[tokio::test]
async fn a_crd_and_a_namespace_of_a_pattern_that_went_while_it_was_down_are_told_of() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("went").await;
    let doomed = cluster.namespace("went").await;
    let group = format!("{}.example.com", ns.name());
    cluster.apply(ns.name(), &crd(&group, &["v1"], "v1")).await;
    cluster.kubectl(&["wait", "--for=condition=Established", &format!("crd/widgets.{group}"), "--timeout=30s"]).await;
    until_served(cluster.access(), &group).await;
    cluster.apply(ns.name(), &widget(&group, "v1", "w", 1)).await;
    cluster.kubectl(&["create", "configmap", "doomed", "-n", doomed.name()]).await;
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    let settings = Settings {
        namespaces: Namespaces { include: vec!["went-*".into()], exclude: Vec::new() },
        ..only(&["v1/configmaps", &format!("{group}/*")])
    };
    let rig = Rig::start(cluster.access(), &place, settings.clone()).await;
    rig.synced().await;
    rig.stop().await;

    let path = format!("configmaps {}/doomed", doomed.name());
    cluster.kubectl(&["delete", "crd", &format!("widgets.{group}")]).await;
    drop(doomed);
    let rig = Rig::start(cluster.access(), &place, settings).await;
    for path in [&path, &format!("widgets.{group} {}/w", ns.name())] {
        assert_eq!(rig.notes.wait_for(path, 1).await, ["Live deleted"], "{path}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_version_that_moves_reports_nothing_and_later_changes_as_ever() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("move").await;
    let group = format!("{}.example.com", ns.name());
    cluster.apply(ns.name(), &crd(&group, &["v1beta1"], "v1beta1")).await;
    cluster.kubectl(&["wait", "--for=condition=Established", &format!("crd/widgets.{group}"), "--timeout=30s"]).await;
    cluster.apply(ns.name(), &widget(&group, "v1beta1", "w", 1)).await;
    until_served(cluster.access(), &group).await;
    let rig = Rig::start(cluster.access(), &Place::Temporary, all_but_noise()).await;
    rig.synced().await;
    assert_eq!(rig.version_of(&group).as_deref(), Some("v1beta1"));

    cluster.apply(ns.name(), &crd(&group, &["v1beta1", "v1"], "v1beta1")).await;
    poll(PATIENCE, "the informer reads v1", async || (rig.version_of(&group).as_deref() == Some("v1")).then_some(()))
        .await;
    rig.synced().await;
    let path = format!("widgets.{group} {}/w", ns.name());
    assert_eq!(rig.notes.of(&path), [""; 0], "the same object at another version is no change");
    cluster.apply(ns.name(), &widget(&group, "v1", "w", 2)).await;
    // The server may not know the old cursor at the new version: then, and only then, a list tells of it.
    rig.told_once(&format!("widgets.{group}"), &format!("{}/w", ns.name()), "updated").await;
    cluster.kubectl(&["delete", "crd", &format!("widgets.{group}")]).await;
    rig.stop().await;
}

#[tokio::test]
async fn what_happened_before_a_compaction_is_told_late_and_nothing_is_missing() {
    let mut own = Cluster::start(Options::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    for name in ["changed", "deleted", "same"] {
        own.kubectl(&["create", "configmap", name, "--from-literal=k=0"]).await;
    }
    let rig = Rig::start(own.access(), &place, all_but_noise()).await;
    rig.synced().await;
    rig.stop().await;

    own.kubectl(&["patch", "configmap", "changed", "-p", r#"{"data":{"k":"1"}}"#]).await;
    own.kubectl(&["patch", "configmap", "changed", "-p", r#"{"data":{"k":"2"}}"#]).await;
    own.kubectl(&["delete", "configmap", "deleted"]).await;
    own.kubectl(&["create", "configmap", "created"]).await;
    own.compact().await;

    let rig = Rig::start(own.access(), &place, all_but_noise()).await;
    rig.synced().await;
    assert_eq!(rig.notes.wait_for("configmaps default/changed", 1).await, ["Late updated"]);
    assert_eq!(rig.notes.wait_for("configmaps default/deleted", 1).await, ["Late deleted"]);
    assert_eq!(rig.notes.wait_for("configmaps default/created", 1).await, ["Late created"]);
    assert_eq!(rig.notes.of("configmaps default/same"), [""; 0]);
    rig.equals_a_fresh_list(own.access()).await;

    own.kill();
    own.restart().await;
    own.kubectl(&["patch", "configmap", "same", "-p", r#"{"data":{"k":"1"}}"#]).await;
    assert_eq!(rig.notes.wait_for("configmaps default/same", 1).await.len(), 1, "the killed server is found again");
    rig.equals_a_fresh_list(own.access()).await;
    rig.stop().await;
}

#[tokio::test]
async fn one_namespace_needs_no_cluster_role_and_new_namespaces_of_a_pattern_are_taken_up() {
    let cluster = harness::cluster().await;
    let (mine, other) = (cluster.namespace("role").await, cluster.namespace("role").await);
    cluster.apply(mine.name(), ROLE).await;
    let token = cluster.kubectl(&["create", "token", "reader", "-n", mine.name()]).await;
    let access = cluster.access().with_token(token.trim());
    let mut settings = only(&["v1/configmaps", "Deployment", "Node"]);
    settings.namespaces = Namespaces { include: vec![mine.name().into()], exclude: vec![] };
    let rig = Rig::start(&access, &Place::Temporary, settings).await;
    rig.synced().await;
    cluster.kubectl(&["create", "configmap", "a", "-n", other.name()]).await;
    cluster.kubectl(&["create", "configmap", "a", "-n", mine.name()]).await;
    rig.notes.wait_for(&format!("configmaps {}/a", mine.name()), 1).await;
    assert_eq!(rig.notes.of(&format!("configmaps {}/a", other.name())), [""; 0]);
    let overview = rig.overview.borrow().clone();
    let node = overview.verdicts.iter().find(|(resource, _)| resource.kind == "Node").unwrap();
    assert!(node.1.to_string().contains("in no namespace"), "{}", node.1);
    rig.stop().await;

    let pattern = format!("{}-*", mine.name());
    let mut settings = only(&["v1/configmaps"]);
    settings.namespaces = Namespaces { include: vec![pattern], exclude: vec![] };
    let rig = Rig::start(cluster.access(), &Place::Temporary, settings).await;
    rig.synced().await;
    let late = format!("{}-late", mine.name());
    cluster.kubectl(&["create", "namespace", &late]).await;
    cluster.kubectl(&["create", "configmap", "b", "-n", &late]).await;
    let seen = rig.notes.wait_for(&format!("configmaps {late}/b"), 1).await;
    assert!(seen[0].ends_with("created"), "{seen:?}");
    cluster.kubectl(&["delete", "namespace", &late, "--wait=false"]).await;
    rig.stop().await;
}

const ROLE: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: ["", apps], resources: [configmaps, deployments], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader}]
"#;

#[tokio::test]
async fn what_is_forbidden_degrades_alone_and_is_taken_up_when_permission_comes() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("forbidden").await;
    cluster.apply(ns.name(), ROLE).await;
    let token = cluster.kubectl(&["create", "token", "reader", "-n", ns.name()]).await;
    let access = cluster.access().with_token(token.trim());
    let mut settings = only(&["v1/configmaps", "v1/services"]);
    settings.namespaces = Namespaces { include: vec![ns.name().into()], exclude: vec![] };
    let rig = Rig::start(&access, &Place::Temporary, settings).await;
    let informer = |plural: &str| rig.factory.informers().into_iter().find(|i| i.feed().resource.plural == plural);
    poll(PATIENCE, "both informers are there", async || informer("services").and(informer("configmaps"))).await;
    informer("configmaps").unwrap().wait_for_sync().await.unwrap();
    let services = informer("services").unwrap();
    let problem = poll(PATIENCE, "services are not permitted", async || {
        services.status().borrow().problem.clone().map(|problem| problem.error.to_string())
    })
    .await;
    assert!(problem.starts_with("not permitted"), "{problem}");
    cluster
        .kubectl(&[
            "patch",
            "role",
            "reader",
            "-n",
            ns.name(),
            "--type=json",
            "-p",
            r#"[{"op":"add","path":"/rules/0/resources/-","value":"services"}]"#,
        ])
        .await;
    tokio::time::timeout(PATIENCE, services.wait_for_sync()).await.expect("taken up when permission comes").unwrap();
    cluster.kubectl(&["create", "service", "clusterip", "s", "--tcp=80", "-n", ns.name()]).await;
    rig.notes.wait_for(&format!("services {}/s", ns.name()), 1).await;
    rig.stop().await;
}

#[tokio::test]
async fn an_informer_is_shared_and_found_by_index_and_ends_with_its_subscribers_told() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("shared").await;
    cluster.kubectl(&["create", "configmap", "a", "--from-literal=color=red", "-n", ns.name()]).await;
    let rig = Rig::bare(cluster.access()).await;
    let feed = kubediff::cluster::Feed::new(
        Resource::core("v1", "configmaps", "ConfigMap"),
        Scope::Namespace(ns.name().into()),
    );
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

#[tokio::test]
async fn three_hundred_crds_at_once_are_all_watched() {
    let own = Cluster::start(Options::default()).await;
    let rig = Rig::start(own.access(), &Place::Temporary, all_but_noise()).await;
    rig.synced().await;
    let before = rig.factory.informers().len();
    let all: Vec<String> = (0..300).map(|n| crd(&format!("g{n}.example.com"), &["v1"], "v1")).collect();
    own.apply("default", &all.join("\n---\n")).await;
    poll(PATIENCE * 4, "300 more informers, all in sync", async || {
        let informers = rig.factory.informers();
        let synced = informers.iter().filter(|informer| informer.has_synced()).count();
        (informers.len() >= before + 300 && synced == informers.len()).then_some(())
    })
    .await;
    own.apply("default", &widget("g299.example.com", "v1", "w", 1)).await;
    rig.notes.wait_for("widgets.g299.example.com default/w", 1).await;
    rig.equals_a_fresh_list(own.access()).await;
    rig.stop().await;
}

#[tokio::test]
async fn strange_objects_are_stored_as_they_are() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("strange").await;
    let group = format!("{}.example.com", ns.name());
    cluster.apply(ns.name(), &crd(&group, &["v1"], "v1")).await;
    cluster.kubectl(&["wait", "--for=condition=Established", &format!("crd/widgets.{group}"), "--timeout=30s"]).await;
    until_served(cluster.access(), &group).await;
    let settings = Settings { include: vec![Pattern::parse(&format!("{group}/*")).unwrap()], ..Settings::default() };
    let rig = Rig::start(cluster.access(), &Place::Temporary, settings).await;
    rig.synced().await;
    let mut deep = json!("bottom");
    for _ in 0..150 {
        deep = json!({ "d": deep });
    }
    let strange = [
        ("duplicates", json!({"list": [{"name": "a", "v": 1}, {"name": "a", "v": 2}, {"name": null}]})),
        (
            "numbers",
            json!({"large": 9_007_199_254_740_993_i64, "max": i64::MAX, "min": i64::MIN, "float": 1.5e300, "small": 1e-7}),
        ),
        ("nulls", json!({"a": null, "b": [null, {"c": null}], "empty": {}, "none": []})),
        ("unicode", json!({"\u{1F600} key/~": "z\u{0301}\u{202e}\u{0000}\"\\", "ключ": "\u{FEFF}"})),
    ];
    let create = async |name: &str, spec: &serde_json::Value| {
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": name}, "spec": {"any": spec}});
        cluster.apply(ns.name(), &object.to_string()).await;
        let steps = rig.notes.wait_for(&format!("widgets.{group} {}/{name}", ns.name()), 1).await;
        assert_eq!(steps, ["Live created"]);
    };
    for (name, spec) in &strange {
        create(name, spec).await;
    }
    rig.equals_a_fresh_list(cluster.access()).await;
    create("deep", &deep).await;
    let deep = rig.stored("widgets", ns.name(), "deep").await;
    assert!(deep.to_string().contains("nested too deep"), "the limit is stated in the document itself: {deep}");
    cluster.kubectl(&["delete", "crd", &format!("widgets.{group}")]).await;
    rig.stop().await;
}
