//! The server itself goes away: killed, compacted while nobody reads, restored from a backup.

use std::time::Duration;

use kubediff::cluster::{Feed, Scope, reflector::Relist};

use super::mirror::{Mirror, Reading, Writing, resource};
use crate::harness::{Cluster, Options, Proxy};

fn feed() -> Feed {
    let mut feed = Feed::new(resource("", "v1", "configmaps", "ConfigMap", true), Scope::Namespace("default".into()));
    feed.fields = "metadata.name!=kube-root-ca.crt".into();
    feed
}

#[tokio::test]
async fn a_killed_server_that_comes_back_is_resumed_without_a_gap() {
    let mut cluster = Cluster::start(Options::default()).await;
    let proxy = Proxy::start(cluster.access());
    let writing = Writing::new(cluster.access(), "default");
    writing.create("before").await;
    let mirror = Mirror::default();
    let reading = Reading::of(proxy.access(), feed(), &mirror).await;
    reading.until_live().await;
    writing.change("before").await;
    mirror.until_equal(&writing).await;
    cluster.kill();
    reading.until("it notices", |status| status.problem.is_some()).await;
    cluster.restart().await;
    // A new server may know less of the past than the cursor asks for, and say so only in the open watch.
    reading.until_caught_up().await;
    writing.change("before").await;
    writing.create("after").await;
    mirror.until_equal(&writing).await;
    mirror.assert_each_once(&writing, &["before@1"]);
    reading.stop().await;
}

#[tokio::test]
async fn a_compaction_while_nobody_reads_leads_to_one_list_and_then_all_is_as_it_was() {
    for watch_cache in [true, false] {
        let mut cluster = Cluster::start(Options { watch_cache, ..Options::default() }).await;
        let writing = Writing::new(cluster.access(), "default");
        for name in ["kept", "changed", "deleted"] {
            writing.create(name).await;
        }
        let mirror = Mirror::default();
        let reading = Reading::of(cluster.access(), feed(), &mirror).await;
        reading.until_live().await;
        mirror.until_equal(&writing).await;
        reading.stop().await;
        writing.change("changed").await;
        writing.delete("deleted").await;
        writing.create("made").await;
        cluster.compact().await;
        let reading = Reading::of(cluster.access(), feed(), &mirror).await;
        mirror.until_equal(&writing).await;
        assert_eq!(reading.status().relists, [(Relist::Expired, 1)].into(), "watch cache: {watch_cache}");
        writing.change("kept").await;
        mirror.until_equal(&writing).await;
        reading.stop().await;
    }
}

#[tokio::test]
async fn a_server_restored_from_a_backup_is_noticed_and_listed() {
    let mut cluster = Cluster::start(Options::default()).await;
    let writing = Writing::new(cluster.access(), "default");
    writing.create("old").await;
    let backup = cluster.backup().await;
    for round in 0..30 {
        writing.create(&format!("lost-{round}")).await;
    }
    let mirror = Mirror::default();
    let reading = Reading::with(cluster.access(), feed(), &mirror, |settings| {
        settings.watch_timeout = Duration::from_secs(3)..=Duration::from_secs(3);
        settings.mute = Duration::from_secs(2);
    })
    .await;
    reading.until_live().await;
    mirror.until_equal(&writing).await;
    cluster.restore(&backup).await;
    mirror.until_equal(&writing).await;
    assert_eq!(mirror.objects().len(), 1, "what the backup did not have is gone");
    assert_eq!(reading.status().relists[&Relist::WentBack], 1);
    reading.stop().await;
}
