//! The server itself goes away: killed, compacted while nobody reads, restored from a backup, only starting.

use std::time::Duration;

use kubediff::cluster::{
    reflector::{Phase, Relist},
    store::Place,
};

use super::{
    crds::{crd, until_served, widget},
    hand::Hand,
    rig::{Parts, Rig, all_but_noise, until},
};
use crate::harness::{Cluster, Options};

/// All that can happen to objects, those of before and new ones.
async fn work(hand: &Hand, round: usize) {
    hand.change("changed").await;
    hand.change("changed").await;
    hand.write("now-and-then").await;
    let (new, gone) = (format!("new-{round}"), format!("gone-{round}"));
    hand.create(&new).await;
    hand.create(&gone).await;
    hand.change(&new).await;
    hand.delete(&gone).await;
    hand.delete("now-and-then").await;
}

#[tokio::test]
async fn a_killed_server_that_comes_back_costs_one_list_at_most_and_no_change() {
    let mut cluster = Cluster::start(Options::default()).await;
    let hand = Hand::new(cluster.access(), "default");
    for name in ["kept", "changed"] {
        hand.create(name).await;
    }
    let rig = Rig::start(cluster.access(), &Place::Temporary, all_but_noise()).await;
    rig.synced().await;
    hand.rest_is_news();
    for round in 0..3 {
        work(&hand, round).await;
        cluster.kill();
        let informer = rig.informer("configmaps").unwrap();
        until(&informer, "it notices", |status| status.phase == Phase::Waiting).await;
        cluster.restart().await;
        work(&hand, round + 10).await;
        rig.agrees_with(&hand).await;
        assert!(rig.relisted("configmaps") <= round as u64 + 1, "{} lists", rig.relisted("configmaps"));
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_compaction_while_nobody_reads_leads_to_one_list_that_tells_what_became_of_everything() {
    for watch_cache in [true, false] {
        let mut cluster = Cluster::start(Options { watch_cache, ..Options::default() }).await;
        let hand = Hand::new(cluster.access(), "default");
        for name in ["changed", "deleted", "kept"] {
            hand.create(name).await;
        }
        let folder = tempfile::tempdir().unwrap();
        let place = Place::File(folder.path().join("kubediff.db"));
        let rig = Rig::start(cluster.access(), &place, all_but_noise()).await;
        rig.synced().await;
        rig.stop().await;

        hand.rest_is_news();
        work(&hand, 0).await;
        hand.delete("deleted").await;
        cluster.compact().await;
        let rig = Rig::start(cluster.access(), &place, all_but_noise()).await;
        rig.synced().await;
        let told = |name: &str| rig.notes.of(&format!("configmaps default/{name}"));
        rig.agrees_with(&hand).await;
        assert_eq!(told("changed"), ["Late updated"], "watch cache: {watch_cache}");
        assert_eq!(told("deleted"), ["Late deleted"], "watch cache: {watch_cache}");
        assert_eq!(told("new-0"), ["Late created"], "watch cache: {watch_cache}");
        for unseen in ["kept", "gone-0"] {
            assert_eq!(told(unseen), [""; 0], "watch cache: {watch_cache}");
        }
        let relists = rig.informer("configmaps").unwrap().status().borrow().relists.clone();
        assert_eq!(relists, [(Relist::Expired, 1)].into(), "watch cache: {watch_cache}");
        work(&hand, 1).await;
        rig.agrees_with(&hand).await;
        rig.stop().await;
    }
}

#[tokio::test]
async fn a_server_restored_from_a_backup_is_noticed_and_what_it_lost_is_told_once() {
    let mut cluster = Cluster::start(Options::default()).await;
    let hand = Hand::new(cluster.access(), "default");
    for name in ["old", "changed"] {
        hand.create(name).await;
    }
    let backup = cluster.backup().await;
    let lost: Vec<String> = (0..30).map(|number| format!("lost-{number}")).collect();
    for name in &lost {
        hand.create(name).await;
    }
    hand.change("changed").await;
    let mut parts = Parts::default();
    parts.informers.reflector.watch_timeout = Duration::from_secs(3)..=Duration::from_secs(3);
    parts.informers.reflector.mute = Duration::from_secs(2);
    let rig = Rig::of(cluster.access().config().await, parts);
    let informer = rig.read(hand.feed());
    informer.wait_for_sync().await.unwrap();
    cluster.restore(&backup).await;
    until(&informer, "it is noticed", |status| status.relists.contains_key(&Relist::WentBack)).await;
    rig.equals_a_fresh_list(cluster.access()).await;
    let told = |name: &str| rig.notes.of(&format!("configmaps default/{name}"));
    for name in &lost {
        assert_eq!(told(name), ["Late deleted"], "{name}");
    }
    assert_eq!((told("changed"), told("old")), (vec!["Late updated".to_owned()], Vec::new()));
    assert_eq!(informer.status().borrow().relists[&Relist::WentBack], 1);
    rig.stop().await;
}

#[tokio::test]
async fn a_server_that_is_only_starting_makes_nothing_seem_gone() {
    let mut cluster = Cluster::start(Options::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    cluster.apply("default", &crd("starting.example.com", &["v1"], "v1")).await;
    until_served(cluster.access(), "starting.example.com").await;
    cluster.apply("default", &widget("starting.example.com", "v1", "w", 0)).await;
    let rig = Rig::start(cluster.access(), &place, all_but_noise()).await;
    rig.synced().await;
    rig.stop().await;
    for round in 1..4 {
        // It asks all the while, and is answered before the server knows what it serves.
        cluster.kill();
        let rig = Rig::start(cluster.access(), &place, all_but_noise()).await;
        cluster.restart().await;
        let path = "widgets.starting.example.com default/w";
        cluster.apply("default", &widget("starting.example.com", "v1", "w", round)).await;
        let steps = rig.notes.wait_for(path, 1).await;
        assert!(steps.len() == 1 && steps[0].ends_with("updated"), "{steps:?}");
        rig.synced().await;
        rig.equals_a_fresh_list(cluster.access()).await;
        assert_eq!(rig.notes.of(path), steps);
        rig.stop().await;
    }
}
