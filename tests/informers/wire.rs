//! The store behind every fault of the wire: it equals a fresh list after each, and no change is told twice or not at all.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use kubediff::{
    cluster::{
        informer::{Delta, Subscription},
        reflector::{Ended, Relist},
    },
    redact::Document,
};

use super::{
    hand::Hand,
    rig::{Parts, Rig},
};
use crate::harness::{self, After, Fault, Matching, PATIENCE, Proxy, Then, poll};

const STREAMING: &str = "sendInitialEvents=true";

/// What happens to a watch that is opened again at the cursor, and what is said of it.
fn breaks() -> Vec<(Fault, Option<&'static str>)> {
    let stream = |then| Fault::Stream(After::Events(1), then);
    vec![
        (stream(Then::Cut), None),
        (stream(Then::Tear), Some("ended inside an event")),
        (stream(Then::End), None),
        (Fault::Stream(After::Bytes(700), Then::Cut), None),
        (stream(Then::EndWith("{\"type\":\"MODI".into())), Some("ended inside an event")),
        (stream(Then::EndWith("what is this\n".into())), Some("no JSON")),
        (Fault::answer(401), Some("not authenticated")),
        (Fault::answer(403), Some("not permitted")),
        (Fault::answer(503), Some("failed with 503")),
        (Fault::too_many_requests(1), Some("wait 1 s")),
        (Fault::Drop, None),
    ]
}

/// Cursors that are good for nothing any more, also when the list that follows breaks in its turn.
fn expiries() -> Vec<Vec<(Matching, Fault)>> {
    let (watch, again) = (Matching::watches("configmaps"), Matching::watches("configmaps").query(STREAMING));
    vec![
        vec![(watch.clone(), Fault::answer(410))],
        vec![(watch.clone(), Fault::error_event(0, 410))],
        vec![(watch.clone(), Fault::answer(504))],
        vec![(watch.clone(), Fault::answer(410)), (again.clone(), Fault::Stream(After::Events(1), Then::Cut))],
        vec![(watch.clone(), Fault::answer(410)), (again.clone(), Fault::too_many_requests(1))],
        vec![(watch, Fault::answer(410)), (again, Fault::answer(503))],
    ]
}

#[tokio::test]
async fn after_every_break_of_a_watch_every_change_was_told_once_and_nothing_was_listed() {
    join_all(breaks().into_iter().map(|(fault, problem)| async move {
        let (rig, _proxy) = struck_by(vec![(Matching::watches("configmaps"), fault)], false).await;
        let status = rig.informer("configmaps").unwrap().status().borrow().clone();
        assert_eq!(status.relists.keys().copied().collect::<Vec<_>>(), [Relist::First], "no reason to list");
        if let Some(words) = problem {
            let said = status.problem.expect("a problem").error.to_string();
            assert!(said.contains(words), "{words:?} in {said:?}");
        }
        rig.stop().await;
    }))
    .await;
}

#[tokio::test]
async fn after_every_lost_cursor_one_list_tells_once_what_became_of_everything() {
    join_all(expiries().into_iter().map(|faults| async move {
        let (rig, _proxy) = struck_by(faults, true).await;
        assert_eq!(rig.relisted("configmaps"), 1);
        rig.stop().await;
    }))
    .await;
}

/// Changes are made while nobody can connect, and whoever connects then meets the faults. What is read goes on for as long
/// as the proxy is there.
async fn struck_by(faults: Vec<(Matching, Fault)>, late: bool) -> (Rig, Proxy) {
    let what = format!("{faults:?}");
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("wire").await;
    let hand = Hand::new(cluster.access(), namespace.name());
    for name in ["kept", "changed", "deleted"] {
        hand.create(name).await;
    }
    let proxy = Proxy::start(cluster.access());
    let rig = Rig::bare(proxy.access()).await;
    let informer = rig.read(hand.feed());
    informer.wait_for_sync().await.unwrap();
    let mut subscription = informer.subscribe().await.unwrap();
    hand.rest_is_news();
    let met = faults.len();
    for (matching, fault) in faults {
        proxy.fault_next(1, matching, fault);
    }
    proxy.refuse(true);
    for name in ["new", "gone"] {
        hand.create(name).await;
    }
    hand.change("changed").await;
    hand.change("changed").await;
    hand.delete("deleted").await;
    hand.delete("gone").await;
    proxy.refuse(false);
    hand.change("new").await;

    rig.agrees_with(&hand).await;
    let mut stored = Objects::new();
    informer
        .lister()
        .await
        .unwrap()
        .for_each(|object| drop(stored.insert(object.meta().name.clone(), object)))
        .unwrap();
    replay(&mut subscription, &stored).await;
    assert_eq!(proxy.struck().values().sum::<usize>(), met, "{what}: {:?}", proxy.struck());
    if late {
        let told = |name: &str| rig.notes.of(&format!("configmaps {}/{name}", namespace.name()));
        // The list is of some moment: what came after it was watched.
        let sums = |name: &str| told(name).iter().filter(|step| step.starts_with("Late")).count();
        assert_eq!([sums("changed"), sums("deleted"), sums("new")], [1, 1, 1], "{what}");
        assert!(told("gone").is_empty(), "{what}: it came and went unseen: {:?}", told("gone"));
        assert_eq!(told("new")[0], "Late created", "{what}");
    }
    (rig, proxy)
}

type Objects = BTreeMap<String, Document>;

/// A subscriber comes to know what is stored: each step begins where the one before it ended, and none is left over.
async fn replay(subscription: &mut Subscription, stored: &Objects) {
    let mut objects = Objects::new();
    while objects != *stored {
        let delta = tokio::time::timeout(PATIENCE, subscription.next()).await.expect("all is told").unwrap();
        let name = delta.object().meta().name.clone();
        let (before, after) = match &delta {
            Delta::Added(new) => (None, Some(new)),
            Delta::Updated { old, new } => (Some(old), Some(new)),
            Delta::Deleted { last, stored, .. } => (Some(stored.as_ref().unwrap_or(last)), None),
        };
        let value = |object: Option<&Document>| object.map(Document::value);
        assert_eq!(value(objects.get(&name)), value(before.map(AsRef::as_ref)), "{name}");
        match after {
            Some(new) => drop(objects.insert(name, Document::clone(new))),
            None => drop(objects.remove(&name)),
        }
    }
    assert_eq!(subscription.waiting(), 0);
}

#[tokio::test]
async fn a_stalled_watch_is_given_up_and_resumed() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("stalled").await;
    let hand = Hand::new(cluster.access(), namespace.name());
    let proxy = Proxy::start(cluster.access());
    let mut parts = Parts::default();
    parts.informers.reflector.watch_timeout = Duration::from_secs(2)..=Duration::from_secs(3);
    parts.informers.reflector.grace = Duration::from_secs(1);
    let rig = Rig::of(proxy.access().config().await, parts);
    let informer = rig.read(hand.feed());
    informer.wait_for_sync().await.unwrap();
    hand.rest_is_news();
    proxy.stall(&Matching::watches("configmaps"));
    hand.create("unheard").await;
    hand.change("unheard").await;
    // A watch may have ended by itself just before it was stalled: then it is the next one's turn.
    poll(PATIENCE, "a watch that is given up", async || {
        let given_up = informer.status().borrow().watches.0.contains_key(&Ended::Silent);
        if !given_up {
            proxy.stall(&Matching::watches("configmaps"));
        }
        given_up.then_some(())
    })
    .await;
    rig.agrees_with(&hand).await;
    assert_eq!(rig.relisted("configmaps"), 0);
    rig.stop().await;
}
