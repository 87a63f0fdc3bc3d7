//! A disk that takes seconds for a commit: said, counted, and nothing lost.

use rusqlite::Connection;

use super::{Kubediff, Load, Replay, config};
use crate::harness::{self, PATIENCE, Receiver, cluster::free_port, poll};

async fn get(port: u16, path: &str) -> (u16, String) {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = http.get(format!("http://127.0.0.1:{port}{path}")).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

async fn value(port: u16, name: &str) -> f64 {
    let text = get(port, "/metrics").await.1;
    let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_commit_that_takes_seconds_is_said_and_everything_arrives() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("slow").await;
    let receiver = Receiver::start();
    let port = free_port();
    let config = config(ns.name(), &receiver, "").replace("probes = \"\"", &format!("probes = \"127.0.0.1:{port}\""));
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config);
    kubediff.start().await;
    let load = Load::new(cluster.access(), ns.name());
    let mut done = load.run(1, 20, 5).await;
    Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done).await;
    let before = receiver.received().len();

    // Whoever has the file locked is as good as a disk that does not answer.
    let other = Connection::open(kubediff.state()).unwrap();
    other.busy_timeout(PATIENCE).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    done += load.run(2, 100, 5).await;
    poll(PATIENCE, "the wait is measured", async || {
        (value(port, "kubediff_state_disk_wait_seconds").await > 1.0).then_some(())
    })
    .await;
    poll(PATIENCE, "it is said", async || kubediff.said("the disk of the state file is slow").then_some(())).await;
    let (status, text) = get(port, "/livez").await;
    assert_eq!(status, 200, "a restart would not make the disk faster: {text}");
    assert_eq!(receiver.received().len(), before, "what is not recorded is not told");

    other.execute_batch("ROLLBACK").unwrap();
    let replay = Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done).await;
    replay.assert_each_once(done, &load);
    assert!(value(port, "kubediff_state_slow_commits_total").await >= 1.0);
    poll(PATIENCE, "its end is said", async || kubediff.said("is quick again: nothing was lost").then_some(())).await;
    kubediff.stop().await;
}
