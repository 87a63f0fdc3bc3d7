//! What people see in Slack: one message per root owner, edited, its parts in the thread, the same after a restart.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use kubediff::{
    cluster::store::{Place, Store},
    event::{Kind, Redacted},
    ledger::{Ledger, retention::Keep},
    sink::{self, Secret, Target, sample},
};

use super::{
    Rig,
    subject::{Subject, event},
    told::{self, Wish},
};
use crate::harness::{
    PATIENCE, Slack, poll,
    slack::{self, Message},
};

const OLD: Wish<'static> = Wish { image: "nginx:1.25", replicas: 3 };

fn rollout() -> Arc<Redacted> {
    told::updated("web", 1042, "kubectl-edit", OLD, Wish { image: "nginx:1.27", ..OLD })
}

fn pod(n: usize, kind: Kind) -> Arc<Redacted> {
    told::pod(&format!("web-{}-{n}", kind.as_str()), kind)
}

/// The messages of the channel itself, those in threads not counted.
fn on_top(subject: &Subject) -> Vec<Message> {
    subject.slack_far().unwrap().messages().into_iter().filter(|message| message.thread_ts.is_none()).collect()
}

fn text(message: &Message) -> String {
    format!("{} {}", message.text, serde_json::json!(message.blocks))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_of_twenty_pods_is_one_message_that_is_edited_also_over_a_restart() {
    let subject = Subject::slack_bot();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.db");
    let rig = Rig::open(&path, &subject).await;
    rig.append([rollout()]).await;
    rig.delivered("the change").await;
    rig.append((0..10).flat_map(|n| [pod(n, Kind::Created), pod(n, Kind::Deleted)])).await;
    rig.delivered("half of the pods").await;
    rig.close().await;
    let rig = Rig::open(&path, &subject).await;
    rig.append((10..20).flat_map(|n| [pod(n, Kind::Created), pod(n, Kind::Deleted)])).await;
    rig.delivered("all of the pods").await;
    let messages = on_top(&subject);
    assert_eq!(messages.len(), 1, "{messages:#?}");
    let message = text(&messages[0]);
    assert!(messages[0].edits >= 2, "{message}");
    assert!(message.starts_with("~ Deployment shop/web, sample, changed by kubectl-edit (by hand)"), "{message}");
    assert!(message.contains("nginx:1.25 -&gt; nginx:1.27") && message.contains("20 pods replaced"), "{message}");
    let parts: Vec<Message> =
        subject.slack_far().unwrap().messages().into_iter().filter(|m| m.thread_ts.is_some()).collect();
    assert!(!parts.is_empty() && parts.iter().all(|part| part.thread_ts.as_ref() == Some(&messages[0].ts)));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_told_alone_stays_to_be_read_when_others_take_its_place() {
    let subject = Subject::slack_bot();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::open(&folder.path().join("k.db"), &subject).await;
    for version in 0..5 {
        rig.append([event(0, version)]).await;
        rig.delivered("the change").await;
    }
    assert_eq!(on_top(&subject).len(), 1);
    for version in 0..5 {
        assert!(subject.has(0, version), "change {version} in {:#?}", subject.taken());
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_deleted_is_posted_anew() {
    let subject = Subject::slack_bot();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::open(&folder.path().join("k.db"), &subject).await;
    rig.append([rollout()]).await;
    rig.delivered("the change").await;
    subject.slack_far().unwrap().fail_next("message_not_found");
    rig.append([pod(1, Kind::Created)]).await;
    rig.delivered("the pod").await;
    assert_eq!(on_top(&subject).len(), 2);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_becomes_a_digest_with_counts_and_never_silence() {
    for subject in [Subject::slack_bot(), Subject::slack_webhook()] {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::open(&folder.path().join("k.db"), &subject).await;
        let all: Vec<_> = (0..200).map(|n| super::event(n, 0)).collect();
        futures::future::join_all(all.into_iter().map(|event| rig.ledger.append(&rig.store, event))).await;
        rig.delivered(subject.name).await;
        let messages = on_top(&subject);
        assert!(messages.len() < 40, "{}: {} messages", subject.name, messages.len());
        let digests: Vec<&Message> = messages.iter().filter(|m| m.text.contains("changes of")).collect();
        let counted: usize = digests
            .iter()
            .map(|m| m.text.trim_start_matches("~ ").split(' ').next().unwrap().parse::<usize>().unwrap())
            .sum();
        assert_eq!(counted + messages.len() - digests.len(), 200, "{}: every change is counted", subject.name);
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_managers_that_undo_each_other_are_one_message_that_says_so() {
    let subject = Subject::slack_bot();
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::open(&folder.path().join("k.db"), &subject).await;
    for n in 0..6 {
        let (few, many) = (OLD, Wish { replicas: 5, ..OLD });
        let fight = match n % 2 {
            0 => told::updated("web", n, "hpa", few, many),
            _ => told::updated("web", n, "argocd-controller", many, few),
        };
        rig.append([fight]).await;
        // A part of it is told before the rest happens.
        if n == 2 {
            rig.delivered("half of the fight").await;
        }
    }
    rig.delivered("the fight").await;
    let messages = on_top(&subject);
    assert_eq!(messages.len(), 1);
    assert!(text(&messages[0]).contains("argocd-controller and hpa undo each other"), "{}", text(&messages[0]));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_is_a_clear_reason_and_loses_nothing() {
    let subject = Subject::slack_bot();
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..10 {
        subject.slack_far().unwrap().fail_next("token_revoked");
    }
    let rig = Rig::open(&folder.path().join("k.db"), &subject).await;
    rig.append([super::event(0, 0)]).await;
    let counts = rig.ledger.counts().sinks()[0].1.clone();
    // On a busy machine an attempt may also have run out of time.
    let told = |reason: &String| reason.contains("token_revoked");
    let reason = poll(PATIENCE, "a reason", async || counts.health().failing.filter(told)).await;
    assert!(reason.contains("install the app again"), "{reason}");
    rig.delivered("after the token was mended").await;
    assert!(subject.has(0, 0));
    rig.close().await;
}

/// Slack counts by channel, not by who writes there.
#[tokio::test(flavor = "multi_thread")]
async fn two_sinks_to_one_channel_keep_its_pace_together() {
    let slack = Slack::start_with_pace(Duration::ZERO);
    let folder = tempfile::tempdir().unwrap();
    let (ledger, recorder) = Ledger::new(sample::event().cluster);
    let (store, writing) = Store::open(&Place::File(folder.path().join("k.db")), Some(Box::new(recorder))).unwrap();
    let sink = |name: &str, channel: &str| {
        let (token, api_url) = (Secret::new(slack::TOKEN), slack.api_url());
        let mut target =
            sink::slack::Settings::new(sink::slack::Access::Bot { token, channel: channel.into(), api_url });
        target.group_wait = Duration::from_millis(50);
        let target = Target::Slack(Box::new(target));
        let settings = sink::Settings { name: name.into(), target, retry: super::subject::quick() };
        let built = sink::build(&settings).unwrap();
        (settings, built)
    };
    let sinks = vec![sink("ops", "#ops"), sink("again", "ops"), sink("elsewhere", "#elsewhere")];
    let delivery = ledger.start(store.clone(), Keep::default(), sinks).await.unwrap();
    let events: Vec<_> = (0..6).map(|n| super::event(n, 0)).collect();
    futures::future::join_all(events.into_iter().map(|event| ledger.append(&store, event))).await;
    let of = |channel: &str| -> Vec<Instant> {
        let messages = slack.messages().into_iter().filter(|m| m.channel == channel);
        messages.map(|message| message.at).collect()
    };
    let channels: BTreeMap<String, usize> = poll(PATIENCE, "18 messages", async || {
        let mut channels = BTreeMap::new();
        slack.messages().into_iter().for_each(|m| *channels.entry(m.channel).or_default() += 1);
        (channels.values().sum::<usize>() == 18).then_some(channels)
    })
    .await;
    let (shared, _) = channels.iter().find(|(_, n)| **n == 12).expect("two sinks wrote to one channel");
    let (alone, _) = channels.iter().find(|(_, n)| **n == 6).expect("one wrote to another");
    let took = |times: Vec<Instant>| times[times.len() - 1] - times[0];
    // Three at once and nine more, a second each. Each by itself would have taken three.
    assert!(took(of(shared)) >= Duration::from_secs(7), "{:?}", took(of(shared)));
    // Whoever writes elsewhere does not wait for them. On a busy machine that takes longer, so its last is compared.
    assert!(of(alone)[5] < of(shared)[11], "{:?} {:?}", of(alone), of(shared));
    assert!(delivery.drain(Duration::from_secs(10)).await.is_empty());
    drop((ledger, store));
    tokio::task::spawn_blocking(move || writing.join()).await.unwrap();
}
