//! How soon a new CRD is watched. The two seconds themselves are shown in time that is counted, in `cluster::fleet`; here
//! the real server is raced by a plain client in the same run.

use std::time::{Duration, Instant};

use kubediff::cluster::{Feed, Resource, Scope, source, source::Source, store::Place};

use super::{
    crds::crd,
    rig::{Rig, all_but_noise, api},
};
use crate::harness::{self, Cluster, Options, PATIENCE, poll};

/// When a plain client, which asks all the time, finds that a resource is served and can be listed.
async fn found_by_asking(source: &impl Source, group: &str) -> Instant {
    let newest = source::List { limit: 1, ..source::List::default() };
    let widgets = Resource { group: group.into(), ..Resource::core("v1", "widgets", "Widget") };
    let feed = Feed::new(widgets, Scope::All);
    poll(PATIENCE, format!("{group} to be served"), async || {
        let served = source.discover().await.ok()?.resources.iter().any(|resource| resource.group == group);
        (served && source.list(&feed, &newest).await.is_ok()).then(Instant::now)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_crd_is_in_sync_within_two_seconds_of_when_a_client_that_asks_all_the_time_finds_it() {
    let cluster = Cluster::start(Options::default()).await;
    let rig = Rig::start(cluster.access(), &Place::Temporary, all_but_noise()).await;
    rig.synced().await;
    let api = api(cluster.access()).await;
    let mut behind = Vec::new();
    // The best of a few: machines are noisy.
    for number in 0..5 {
        let group = format!("race{number}.example.com");
        cluster.apply("default", &crd(&group, &["v1"], "v1")).await;
        let ours = async {
            poll(PATIENCE, "the new resource is in sync", async || {
                let informers = rig.factory.informers();
                let informer = informers.iter().find(|informer| informer.feed().resource.group == group)?;
                informer.has_synced().then(Instant::now)
            })
            .await
        };
        let (ours, asking) = tokio::join!(ours, found_by_asking(&api, &group));
        behind.push(ours.saturating_duration_since(asking));
        if behind.iter().any(|behind| *behind < Duration::from_secs(2)) {
            break;
        }
    }
    harness::say(format!("a new CRD was in sync {behind:?} after a client that asks all the time had found it"));
    assert!(behind.iter().any(|behind| *behind < Duration::from_secs(2)), "{behind:?}");
    rig.stop().await;
}
