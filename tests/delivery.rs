//! What the daemon delivers: everything, in order per object, whatever happens to it, to the receiver or to the cluster.

mod backlog;
mod chat;
pub mod daemon;
mod legacy;
pub mod oracle;
mod slow_disk;

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use self::{
    daemon::Kubediff,
    oracle::{Load, Replay},
};
use crate::harness::{self, Answer, Cluster, Options, PATIENCE, Receiver, Slack, poll, slack};

/// Only the ConfigMaps of one namespace, to one webhook.
fn config(namespace: &str, receiver: &Receiver, more: &str) -> String {
    format!(
        "[watch]\nnamespaces = [\"{namespace}\"]\ninclude = [\"v1/configmaps\"]\n[server]\nprobes = \"\"\npage = \"\"\n\
         [sinks.hook]\ntype = \"webhook\"\nurl = \"{}\"\n{more}",
        receiver.url("/hook")
    )
}

#[tokio::test]
async fn twenty_thousand_changes_arrive_though_the_receiver_fails_hangs_cuts_and_limits() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("storm").await;
    let receiver = Receiver::start();
    let mix = vec![
        (12, Answer::ok()),
        (2, Answer::status(500)),
        (1, Answer::too_many_requests(1)),
        (1, Answer::Hang),
        (1, Answer::Cut),
        (1, Answer::CutInBody),
    ];
    receiver.random(7, mix);
    let mut kubediff = Kubediff::new(
        cluster.kubeconfig(),
        &config(ns.name(), &receiver, "batch = 100\nin_flight = 4\ntimeout_secs = 2\nretry_max_secs = 2\n"),
    );
    kubediff.start().await;
    let load = Load::new(cluster.access(), ns.name());
    let done = load.run(7, 20_000, 200).await;
    assert!(done > 19_900, "the server took only {done}");
    receiver.answer(Answer::ok());
    let replay = Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done).await;
    println!(
        "{} changes in {} requests, {} of them accepted",
        replay.changes,
        receiver.received().len(),
        receiver.accepted().len()
    );
    kubediff.stop().await;
}

#[tokio::test]
async fn a_hundred_kills_under_load_lose_nothing_and_double_nothing_but_ids() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("kill").await;
    let receiver = Receiver::start();
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config(ns.name(), &receiver, "batch = 5\n"));
    kubediff.start().await;
    let load = Load::new(cluster.access(), ns.name()).slow(Duration::from_millis(80));
    let mut random = StdRng::seed_from_u64(11);
    let mut delivering = 0;
    let killing = async {
        for life in 0..100 {
            // Every other one gets as far as to deliver something, however slow the machine is.
            let accepted = receiver.accepted().len();
            if life % 2 == 0 {
                poll(PATIENCE, "it delivers", async || (receiver.accepted().len() > accepted).then_some(())).await;
            }
            tokio::time::sleep(Duration::from_millis(random.random_range(0..700))).await;
            delivering += u32::from(receiver.accepted().len() > accepted);
            kubediff.kill();
            kubediff.spawn();
        }
    };
    let done = load.run_until(11, 60, killing).await;
    assert!(delivering >= 50, "{delivering} of a hundred were killed while they delivered");
    let replay = Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done).await;
    replay.assert_each_once(done, &load);
    println!("{done} changes over 100 kills, {} events came twice", replay.duplicates);
    kubediff.stop().await;
}

#[tokio::test]
async fn dying_right_before_and_after_every_commit_send_and_ack_loses_nothing() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("failpoint").await;
    let receiver = Receiver::start();
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config(ns.name(), &receiver, ""));
    kubediff.start().await;
    kubediff.stop().await;
    let load = Load::new(cluster.access(), ns.name());
    let mut done = 0;
    for (n, name) in kubediff::failpoint::ALL.iter().enumerate() {
        for times in [1, 3] {
            kubediff.spawn_with(&format!("KUBEDIFF_FAILPOINT={name}:{times}"));
            let seed = n as u64 * 10 + times;
            let died = poll(PATIENCE, format!("{name} for the {times}. time"), async || {
                done += load.run(seed + done, 3, 10).await;
                kubediff.died().then_some(())
            });
            died.await;
        }
    }
    kubediff.spawn();
    let replay = Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done).await;
    replay.assert_each_once(done, &load);
    kubediff.stop().await;
}

#[tokio::test]
async fn what_happens_while_it_is_down_arrives_one_by_one_and_after_a_compaction_late() {
    let mut own = Cluster::start(Options::default()).await;
    let receiver = Receiver::start();
    let mut kubediff = Kubediff::new(own.kubeconfig(), &config("default", &receiver, ""));
    kubediff.start().await;
    let load = Load::new(own.access(), "default");
    let mut done = load.run(1, 50, 10).await;
    Replay::wait_until_equal(&receiver, own.access(), "default", done).await;
    kubediff.stop().await;

    done += load.run(2, 200, 10).await;
    kubediff.spawn();
    let replay = Replay::wait_until_equal(&receiver, own.access(), "default", done).await;
    replay.assert_each_once(done, &load);
    assert_eq!(replay.late, 0);
    kubediff.stop().await;

    load.run(3, 200, 10).await;
    own.compact().await;
    kubediff.spawn();
    let replay = Replay::wait_until_equal(&receiver, own.access(), "default", done + 1).await;
    assert!(replay.late > 0, "what was compacted away is found by comparing, and said to be late");
    kubediff.stop().await;
}

#[tokio::test]
async fn a_rollout_of_twenty_pods_is_one_slack_message_that_is_edited() {
    let cluster = harness::cluster().await;
    cluster.controllers().await;
    let ns = cluster.namespace("rollout").await;
    cluster.kubectl(&["create", "deployment", "web", "--image=nginx:1.25", "--replicas=20", "-n", ns.name()]).await;
    cluster.kubectl(&["rollout", "status", "deployment/web", "-n", ns.name(), "--timeout=60s"]).await;
    let slack = Slack::start();
    let mut kubediff = Kubediff::new(
        cluster.kubeconfig(),
        &format!(
            "[watch]\nnamespaces = [\"{}\"]\n[server]\nprobes = \"\"\npage = \"\"\n[sinks.ops]\ntype = \"slack\"\ntoken = \"{}\"\n\
             channel = \"#ops\"\napi_url = \"{}\"\ngroup_wait_secs = 1\n",
            ns.name(),
            slack::TOKEN,
            slack.api_url()
        ),
    );
    kubediff.start().await;
    cluster.kubectl(&["set", "image", "deployment/web", "nginx=nginx:1.27", "-n", ns.name()]).await;
    cluster.kubectl(&["rollout", "status", "deployment/web", "-n", ns.name(), "--timeout=60s"]).await;
    let told =
        |text: &str| text.contains("nginx:1.25") && text.contains("nginx:1.27") && text.contains("20 pods replaced");
    let message = poll(PATIENCE, "a message with the image and the pods", async || {
        let messages = slack.messages();
        let all: Vec<String> =
            messages.iter().map(|m| format!("{} {}", m.text, serde_json::to_string(&m.blocks).unwrap())).collect();
        messages.into_iter().zip(all).find(|(m, text)| m.thread_ts.is_none() && told(text)).map(|(m, _)| m)
    })
    .await;
    // However fast the rollout was, a later change goes into the same message.
    cluster.kubectl(&["scale", "deployment/web", "--replicas=19", "-n", ns.name()]).await;
    poll(PATIENCE, "the message is edited", async || {
        slack.messages().iter().any(|m| m.ts == message.ts && m.edits > 0).then_some(())
    })
    .await;
    let top: Vec<_> = slack.messages().into_iter().filter(|m| m.thread_ts.is_none()).map(|m| m.text).collect();
    assert_eq!(top.len(), 1, "not forty: {top:#?}");
    let title = format!("~ Deployment {}/web", ns.name());
    assert!(top[0].starts_with(&title) && top[0].contains("changed by kubectl-set"), "the image is on top: {top:#?}");
    kubediff.stop().await;
}
