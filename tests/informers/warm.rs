//! A start on the file of an earlier run: nothing is listed, nothing that happened meanwhile is missing, and it is there
//! at once.

use std::time::{Duration, Instant};

use kubediff::cluster::{Feed, Resource, Scope, reflector::Relist, source::Source, store::Place};
use serde_json::json;

use super::{
    crds::{crd, until_served, widget},
    rig::{Rig, all_but_noise, api},
};
use crate::{
    delivery::daemon::Kubediff,
    harness::{self, Cluster, Options, PATIENCE, Proxy, Receiver, Verb, poll},
};

/// Every list that went through the proxy, streaming or paged.
fn lists(proxy: &Proxy) -> Vec<String> {
    let seen = proxy.seen().into_iter();
    let lists = seen.filter(|seen| seen.verb == Verb::List || seen.query.contains("sendInitialEvents=true"));
    lists.map(|seen| format!("{} {}", seen.path, seen.query)).collect()
}

#[tokio::test]
async fn a_warm_restart_makes_no_list_and_misses_nothing_that_happened_meanwhile() {
    // One of its own: CRDs of other tests come and go, are new here and have to be listed.
    let cluster = Cluster::start(Options::default()).await;
    let ns = cluster.namespace("warm").await;
    let proxy = Proxy::start(cluster.access());
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    cluster.kubectl(&["create", "configmap", "gone", "-n", ns.name()]).await;

    let rig = Rig::start(proxy.access(), &place, all_but_noise()).await;
    rig.synced().await;
    rig.stop().await;

    cluster.kubectl(&["create", "configmap", "a", "--from-literal=k=0", "-n", ns.name()]).await;
    for n in 1..=5 {
        let patch = json!({"data": {"k": n.to_string()}}).to_string();
        cluster.kubectl(&["patch", "configmap", "a", "-p", &patch, "-n", ns.name()]).await;
    }
    cluster.kubectl(&["delete", "configmap", "gone", "-n", ns.name()]).await;

    proxy.forget();
    let rig = Rig::start(proxy.access(), &place, all_but_noise()).await;
    rig.synced().await;
    let steps = rig.notes.wait_for(&format!("configmaps {}/a", ns.name()), 6).await;
    assert_eq!(steps[0], "Live created");
    assert_eq!(steps[1..], ["Live updated"; 5], "one by one, as they happened");
    assert_eq!(rig.notes.wait_for(&format!("configmaps {}/gone", ns.name()), 1).await, ["Live deleted"]);
    assert_eq!(lists(&proxy), [""; 0]);
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;
}

#[tokio::test]
async fn caught_up_is_everything_that_the_server_had_and_lists_nothing() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("caught").await;
    let proxy = Proxy::start(cluster.access());
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    let feed = Feed::new(Resource::core("v1", "configmaps", "ConfigMap"), Scope::Namespace(ns.name().into()));
    let rig = Rig::bare_at(proxy.access(), &place).await;
    rig.factory.informer(feed.clone());
    rig.factory.start();
    rig.factory.wait_for_sync().await.unwrap();
    rig.stop().await;

    let create = async |name: &str| {
        let path = format!("/api/v1/namespaces/{}/configmaps", ns.name());
        let object = json!({"metadata": {"name": name}});
        let made = cluster.access().request(reqwest::Method::POST, &path).json(&object).send().await.unwrap();
        assert_eq!(made.status(), 201);
    };
    for n in 0..200 {
        create(&format!("meanwhile-{n}")).await;
    }
    proxy.forget();
    let rig = Rig::bare_at(proxy.access(), &place).await;
    let informer = rig.factory.informer(feed);
    rig.factory.start();
    let ours = async || {
        let mut names = 0;
        let count =
            |document: kubediff::redact::Document| names += usize::from(document.meta().name != "kube-root-ca.crt");
        informer.lister().await.unwrap().for_each(count).unwrap();
        names
    };
    informer.caught_up().await.unwrap();
    assert_eq!(ours().await, 200, "without another look");
    for n in 0..3 {
        create(&format!("own-{n}")).await;
        informer.caught_up().await.unwrap();
        assert_eq!(ours().await, 201 + n, "a write of one's own");
    }
    // The server others use too may be late with a bookmark: then a list is read, as it should be, but not each time.
    let asked = informer.status().borrow().relists.get(&Relist::Asked).copied().unwrap_or(0);
    let (brief, whole): (Vec<_>, Vec<_>) = lists(&proxy).into_iter().partition(|list| list.ends_with(" limit=1"));
    assert!(brief.len() >= 4, "one item each, to know how far the server is: {brief:?}");
    assert!(whole.len() as u64 == asked && asked < 4, "{asked} times without a bookmark: {whole:?}");
    rig.stop().await;
}

/// What it takes a plain client to do the same: ask what is served, then open a watch for each.
async fn plain(proxy: &Proxy) -> Duration {
    let began = Instant::now();
    let api = api(proxy.access()).await;
    let served = api.discover().await.unwrap().resources;
    let feeds: Vec<Feed> = served.into_iter().map(|resource| Feed::new(resource, Scope::All)).collect();
    let newest = kubediff::cluster::source::List { limit: 1, ..Default::default() };
    let version = api.list(&feeds[0], &newest).await.unwrap().version;
    let watch = kubediff::cluster::source::Watch { version, timeout: Duration::from_secs(60), initial_events: false };
    let open = futures::future::join_all(feeds.iter().map(|feed| api.watch(feed, &watch))).await;
    assert!(open.iter().all(Result::is_ok));
    began.elapsed()
}

#[tokio::test]
async fn the_daemon_restarts_without_a_list_or_a_schema_and_as_fast_as_its_watches_open() {
    let cluster = Cluster::start(Options::default()).await;
    let proxy = Proxy::start(cluster.access());
    let folder = tempfile::tempdir().unwrap();
    cluster.apply("default", &crd("warm.example.com", &["v1"], "v1")).await;
    until_served(cluster.access(), "warm.example.com").await;
    cluster.apply("default", &widget("warm.example.com", "v1", "w", 1)).await;
    let hook = Receiver::start();
    let config = format!(
        "[server]\nprobes = \"\"\npage = \"\"\n[sinks.hook]\ntype = \"webhook\"\nurl = \"{}\"\n",
        hook.url("/hook")
    );
    let mut kubediff = Kubediff::new(&proxy.kubeconfig(folder.path()), &config);
    const LOG: &str = "KUBEDIFF_LOG=info,kubediff::app=debug";
    const LEARNED: &str = "the list keys of all kinds are known";
    let start = async |kubediff: &mut Kubediff| {
        kubediff.spawn_with(LOG);
        poll(PATIENCE, "it is in sync", async || kubediff.said("watching").then_some(())).await;
        poll(PATIENCE, "it knows the list keys", async || kubediff.said(LEARNED).then_some(())).await;
    };
    start(&mut kubediff).await;
    kubediff.stop().await;

    // The best of a few, each beside a plain client in the same moment: machines are noisy.
    let (mut rounds, mut fast) = (Vec::new(), false);
    for round in 0..5 {
        cluster.kubectl(&["create", "configmap", &format!("meanwhile-{round}")]).await;
        proxy.forget();
        start(&mut kubediff).await;
        let documents = proxy.seen().into_iter().filter(|seen| seen.path.starts_with("/openapi/v3/")).count();
        assert_eq!((lists(&proxy), documents), (Vec::new(), 0));
        poll(PATIENCE, "the change that was made meanwhile", async || {
            let told = |request: &harness::Received| request.json().to_string().contains(&format!("meanwhile-{round}"));
            hook.accepted().iter().any(told).then_some(())
        })
        .await;
        assert_eq!(lists(&proxy), [""; 0]);
        kubediff.stop().await;
        let took = kubediff.number_in_log("watching", "after_ms").expect("it says how long it took");
        let beside = u64::try_from(plain(&proxy).await.as_millis()).unwrap();
        rounds.push((took, beside));
        // Beside its watches it opens its file and reads its configuration. A machine on which a plain client needs half a
        // second cannot show that a second is enough.
        fast = took < 3 * beside + 250 && (took < 1_000 || beside > 500);
        if fast {
            break;
        }
    }
    harness::say(format!("warm restart: in sync after so many ms, and a plain client: {rounds:?}"));
    assert!(fast, "none of these was fast: {rounds:?}");
}
