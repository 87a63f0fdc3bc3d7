//! CRDs come, move and go while informers run.

use kubediff::cluster::{
    select::{Namespaces, Settings},
    source::Source,
    store::Place,
};
use serde_json::json;

use super::rig::{Rig, all_but_noise, api, only};
use crate::{
    delivery::daemon::Kubediff,
    harness::{self, Access, Cluster, Matching, Options, PATIENCE, Proxy, Verb, guard, poll},
};

/// A CRD of widgets that take anything, served at some versions.
pub fn crd(group: &str, served: &[&str], stored: &str) -> String {
    let unserved = Some(stored).filter(|stored| !served.contains(stored));
    let versions: Vec<String> = served
        .iter()
        .copied()
        .chain(unserved)
        .map(|version| {
            format!(
                "{{name: {version}, served: {}, storage: {}, schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}}}",
                served.contains(&version),
                version == stored
            )
        })
        .collect();
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: widgets.{group}}}\nspec:\n  \
         group: {group}\n  scope: Namespaced\n  names: {{plural: widgets, singular: widget, kind: Widget}}\n  versions: [{}]\n",
        versions.join(", ")
    )
}

pub fn widget(group: &str, version: &str, name: &str, size: u32) -> String {
    format!("apiVersion: {group}/{version}\nkind: Widget\nmetadata: {{name: {name}}}\nspec: {{size: {size}}}\n")
}

/// Waits until the server says that it serves a group: that lags a little behind its CRD.
pub async fn until_served(access: &Access, group: &str) {
    let api = api(access).await;
    poll(PATIENCE, format!("{group} to be served"), async || {
        api.discover().await.ok()?.resources.iter().any(|resource| resource.group == group).then_some(())
    })
    .await;
}

/// Makes the CRD, and waits until objects of it can be made.
pub async fn establish(cluster: &Cluster, namespace: &str, group: &str, version: &str) {
    cluster.apply(namespace, &crd(group, &[version], version)).await;
    cluster.kubectl(&["wait", "--for=condition=Established", &format!("crd/widgets.{group}"), "--timeout=30s"]).await;
    until_served(cluster.access(), group).await;
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
    poll(PATIENCE, "the new resource has an informer", async || rig.version_of(&group)).await;
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
    poll(PATIENCE, "its informer is gone", async || rig.version_of(&group).is_none().then_some(())).await;
    for path in [&first, &second] {
        let deleted = rig.notes.of(path).iter().filter(|step| step.ends_with("deleted")).count();
        assert_eq!(deleted, 1, "told once, also after the informer has gone");
    }
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_crd_that_is_made_again_as_soon_as_it_is_gone_tells_of_every_life_of_its_objects() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("again").await;
    let group = format!("{}.example.com", ns.name());
    establish(cluster, ns.name(), &group, "v1").await;
    cluster.apply(ns.name(), &widget(&group, "v1", "w", 0)).await;
    let rig = Rig::start(cluster.access(), &Place::Temporary, only(&[&group])).await;
    rig.synced().await;
    let file = cluster.dir().join(format!("{group}.yaml"));
    std::fs::write(&file, widget(&group, "v1", "w", 0)).unwrap();
    let create = ["create", "-n", ns.name(), "-f", file.to_str().unwrap()];
    let path = format!("widgets.{group} {}/w", ns.name());
    let mut lives = Vec::new();
    for _ in 0..4 {
        cluster.kubectl(&["delete", "crd", &format!("widgets.{group}")]).await;
        cluster.apply(ns.name(), &crd(&group, &["v1"], "v1")).await;
        poll(PATIENCE, "the object is there again", async || {
            cluster.try_run("kubectl", &create).await.status.success().then_some(())
        })
        .await;
        lives.extend(["deleted", "created"]);
        let steps = rig.notes.wait_for(&path, lives.len()).await;
        let told: Vec<&str> = steps.iter().filter_map(|step| step.split_once(' ')).map(|(_, what)| what).collect();
        assert_eq!(told, lives, "{steps:?}");
        rig.equals_a_fresh_list(cluster.access()).await;
        assert_eq!(rig.notes.of(&path), steps);
    }
    cluster.kubectl(&["delete", "crd", &format!("widgets.{group}")]).await;
    rig.stop().await;
}

#[tokio::test]
async fn the_end_of_a_crd_is_no_trouble_in_the_log() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("quiet").await;
    let group = format!("{}.example.com", ns.name());
    establish(cluster, ns.name(), &group, "v1").await;
    cluster.apply(ns.name(), &widget(&group, "v1", "w", 1)).await;
    let watch = format!("[watch]\ninclude = [\"{group}\", \"v1/namespaces\"]\n");
    let rest = "[server]\nprobes = \"\"\npage = \"\"\n[sinks.log]\ntype = \"stdout\"\n";
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &(watch + rest));
    kubediff.start().await;
    cluster.kubectl(&["delete", "crd", &format!("widgets.{group}")]).await;
    let log = kubediff.log();
    let about = || {
        let log = std::fs::read_to_string(&log).unwrap();
        log.lines().filter(|line| line.contains(&group)).map(str::to_owned).collect::<Vec<_>>()
    };
    let said =
        async |words: &str| poll(PATIENCE, words, async || about().iter().position(|line| line.contains(words))).await;
    said("served no more").await;
    cluster.apply(ns.name(), &crd(&group, &["v1"], "v1")).await;
    let back = said("served now").await;
    kubediff.stop().await;
    let with = |words: &str| about()[..back].iter().filter(|line| line.contains(words)).count();
    assert_eq!(["\"type\":\"deleted\"", "WARN", "ERROR"].map(with), [1, 0, 0], "{:?}", about());
    cluster.kubectl(&["delete", "crd", &format!("widgets.{group}")]).await;
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
    poll(PATIENCE, "the new resource has an informer", async || rig.version_of(&group)).await;
    assert_eq!(rig.notes.about("customresourcedefinitions"), [""; 0], "it has no such label");
    cluster.kubectl(&["delete", "crd", &format!("widgets.{group}")]).await;
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
    poll(PATIENCE, "the new resource has an informer", async || rig.version_of(&group)).await;
    cluster.apply(ns.name(), &widget(&group, "v1", "first", 1)).await;
    rig.notes.wait_for(&format!("widgets.{group} {}/first", ns.name()), 1).await;
    cluster.kubectl(&["delete", "crd", &format!("widgets.{group}")]).await;
    poll(PATIENCE, "its informer is gone", async || rig.version_of(&group).is_none().then_some(())).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_crd_and_a_namespace_of_a_pattern_that_went_while_it_was_down_are_told_of() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("went").await;
    let doomed = cluster.namespace("went").await;
    let group = format!("{}.example.com", ns.name());
    establish(cluster, ns.name(), &group, "v1").await;
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
    rig.synced().await;
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_version_that_moves_reports_nothing_and_later_changes_as_ever() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("move").await;
    // Once by way of both versions, and once from one to the other.
    let groups = ["slow", "sudden"].map(|how| format!("{how}.{}.example.com", ns.name()));
    for group in &groups {
        establish(cluster, ns.name(), group, "v1beta1").await;
        cluster.apply(ns.name(), &widget(group, "v1beta1", "w", 1)).await;
    }
    let rig = Rig::start(cluster.access(), &Place::Temporary, only(&groups.each_ref().map(String::as_str))).await;
    rig.synced().await;
    for (group, served) in groups.iter().zip([&["v1beta1", "v1"][..], &["v1"]]) {
        assert_eq!(rig.version_of(group).as_deref(), Some("v1beta1"));
        cluster.apply(ns.name(), &crd(group, served, "v1beta1")).await;
        let is_v1 = async || (rig.version_of(group).as_deref() == Some("v1")).then_some(());
        poll(PATIENCE, format!("the informer of {group} reads v1"), is_v1).await;
        rig.synced().await;
        let (resource, object) = (format!("widgets.{group}"), format!("{}/w", ns.name()));
        assert_eq!(rig.notes.of(&format!("{resource} {object}")), [""; 0], "the same at another version is no change");
        cluster.apply(ns.name(), &widget(group, "v1", "w", 2)).await;
        // The server may not know the old cursor at the new version: then, and only then, a list tells of it.
        rig.told(&resource, &object, &["updated"]).await;
        cluster.apply(ns.name(), &crd(group, &["v1"], "v1beta1")).await;
        cluster.apply(ns.name(), &widget(group, "v1", "w", 3)).await;
        rig.told(&resource, &object, &["updated", "updated"]).await;
        rig.equals_a_fresh_list(cluster.access()).await;
        cluster.kubectl(&["delete", "crd", &resource]).await;
        poll(PATIENCE, "its informer is gone", async || rig.version_of(group).is_none().then_some(())).await;
        let steps = rig.notes.of(&format!("{resource} {object}"));
        assert!(steps.len() == 3 && steps[2].ends_with("deleted"), "deleted once: {steps:?}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_group_whose_server_is_gone_degrades_alone_loses_nothing_and_heals() {
    let cluster = Cluster::start(Options::default()).await;
    let group = "silent.example.com";
    establish(&cluster, "default", group, "v1").await;
    cluster.apply("default", &widget(group, "v1", "w", 1)).await;
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    let rig = Rig::start(cluster.access(), &place, all_but_noise()).await;
    rig.synced().await;

    // From now on another server is to answer for the group, and there is none.
    let service = format!("v1.{group}");
    let elsewhere = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": service, "labels": {"kube-aggregator.kubernetes.io/automanaged": null}},
        "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100,
        "insecureSkipTLSVerify": true, "service": {"name": "absent", "namespace": "default"}}});
    cluster.kubectl(&["patch", "apiservice", &service, "--type=merge", "-p", &elsewhere.to_string()]).await;
    let unavailable = |rig: &Rig| rig.overview.borrow().unavailable.iter().any(|gone| gone.group == group);
    poll(PATIENCE, "the group is said not to answer", async || unavailable(&rig).then_some(())).await;
    cluster.kubectl(&["create", "configmap", "meanwhile"]).await;
    assert_eq!(rig.notes.wait_for("configmaps default/meanwhile", 1).await, ["Live created"], "the rest goes on");
    let (resource, object) = (format!("widgets.{group}"), "default/w");
    assert_eq!(rig.notes.about(&format!("{resource} ")), [""; 0], "what nobody can see is not gone");
    assert_eq!(rig.version_of(group).as_deref(), Some("v1"));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubediff"));
    command.arg("resources").arg("--kubeconfig").arg(cluster.kubeconfig());
    let said = String::from_utf8(guard::run(&mut command).await.unwrap().stdout).unwrap();
    assert!(said.contains(&format!("unknown  {group}/v1  its server does not answer")), "{said}");
    rig.stop().await;

    // Nor for one that starts now.
    let rig = Rig::start(cluster.access(), &place, all_but_noise()).await;
    poll(PATIENCE, "the group is said not to answer", async || unavailable(&rig).then_some(())).await;
    cluster.kubectl(&["delete", "apiservice", &service]).await;
    until_served(cluster.access(), group).await;
    cluster.apply("default", &widget(group, "v1", "w", 2)).await;
    rig.told(&resource, object, &["updated"]).await;
    poll(PATIENCE, "the group is said to answer", async || (!unavailable(&rig)).then_some(())).await;
    rig.synced().await;
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;
}

#[tokio::test]
async fn three_hundred_crds_at_once_are_all_watched_after_a_few_looks() {
    let own = Cluster::start(Options::default()).await;
    let proxy = Proxy::start(own.access());
    let rig = Rig::start(proxy.access(), &Place::Temporary, all_but_noise()).await;
    rig.synced().await;
    let before = rig.factory.informers().len();
    proxy.forget();
    let groups: Vec<String> = (0..300).map(|n| format!("g{n}.example.com")).collect();
    let all: Vec<String> = groups.iter().map(|group| crd(group, &["v1"], "v1")).collect();
    own.apply("default", &all.join("\n---\n")).await;
    until_served(own.access(), &groups[299]).await;
    // Some of them have objects before they have an informer.
    let some = groups.iter().step_by(20);
    let widgets: Vec<String> = some.clone().map(|group| widget(group, "v1", "w", 1)).collect();
    own.apply("default", &widgets.join("\n---\n")).await;
    poll(PATIENCE * 4, "300 more informers, all in sync", async || {
        let informers = rig.factory.informers();
        let synced = informers.iter().filter(|informer| informer.has_synced()).count();
        (informers.len() >= before + 300 && synced == informers.len()).then_some(())
    })
    .await;
    let looks = proxy.count(&Matching::all().verb(Verb::Other).path("/apis"));
    assert!(looks < 300, "{looks} looks for 300 CRDs");
    own.apply("default", &widget("g299.example.com", "v1", "w", 1)).await;
    assert_eq!(rig.notes.wait_for("widgets.g299.example.com default/w", 1).await, ["Live created"]);
    rig.equals_a_fresh_list(own.access()).await;
    for group in some {
        let told = rig.notes.of(&format!("widgets.{group} default/w"));
        assert!(told == ["Live created"] || told == ["Late created"], "{group}: {told:?}");
    }
    rig.stop().await;
}
