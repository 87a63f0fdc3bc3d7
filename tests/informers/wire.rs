//! The store behind every fault of the wire: it equals a fresh list after each, and no change is told twice or not at all.

use futures::future::join_all;
use kubediff::cluster::{Feed, Resource, Scope};

use super::rig::Rig;
use crate::{
    harness::{self, After, Fault, Matching, Proxy, Then},
    reflector::mirror::Writing,
};

/// A watch that breaks, in all ways that resume at the cursor.
fn breaks() -> Vec<Vec<(Matching, Fault)>> {
    let watch = || Matching::watches("configmaps");
    let stream = |after, then| vec![(watch(), Fault::Stream(after, then))];
    vec![
        stream(After::Events(1), Then::Cut),
        stream(After::Events(1), Then::Tear),
        stream(After::Events(1), Then::End),
        stream(After::Bytes(700), Then::Cut),
        stream(After::Events(1), Then::EndWith("{\"type\":\"MODI".into())),
        stream(After::Events(1), Then::EndWith("what is this\n".into())),
        vec![(watch(), Fault::answer(401))],
        vec![(watch(), Fault::answer(403))],
        vec![(watch(), Fault::answer(503))],
        vec![(watch(), Fault::too_many_requests(1))],
        vec![(watch(), Fault::Drop)],
    ]
}

/// Cursors that are good for nothing any more, also when the list that follows breaks in its turn.
fn expiries() -> Vec<Vec<(Matching, Fault)>> {
    let (watch, again) = (Matching::watches("configmaps"), Matching::watches("configmaps").query("sendInitialEvents"));
    vec![
        vec![(watch.clone(), Fault::answer(410))],
        vec![(watch.clone(), Fault::error_event(0, 410))],
        vec![(watch.clone(), Fault::answer(410)), (again.clone(), Fault::Stream(After::Events(1), Then::Cut))],
        vec![(watch, Fault::answer(410)), (again, Fault::answer(503))],
    ]
}

#[tokio::test]
async fn after_every_break_of_a_watch_the_store_equals_a_fresh_list_and_every_change_was_told_once() {
    join_all(breaks().into_iter().map(|faults| struck_by(faults, false))).await;
}

#[tokio::test]
async fn after_every_lost_cursor_the_store_equals_a_fresh_list_and_what_is_left_of_the_changes_was_told_once() {
    join_all(expiries().into_iter().map(|faults| struck_by(faults, true))).await;
}

async fn struck_by(faults: Vec<(Matching, Fault)>, late: bool) {
    let what = format!("{faults:?}");
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("wire").await;
    let writing = Writing::new(cluster.access(), namespace.name());
    for name in ["kept", "changed", "deleted"] {
        writing.create(name).await;
    }
    let proxy = Proxy::start(cluster.access());
    let rig = Rig::bare(proxy.access()).await;
    let resource = Resource::core("v1", "configmaps", "ConfigMap");
    let informer = rig.factory.informer(Feed::new(resource, Scope::Namespace(namespace.name().into())));
    rig.factory.start();
    informer.caught_up().await.unwrap();
    let met = faults.len();
    for (matching, fault) in faults {
        proxy.fault_next(1, matching, fault);
    }
    proxy.refuse(true);
    for name in ["new", "gone"] {
        writing.create(name).await;
    }
    writing.change("changed").await;
    writing.change("changed").await;
    writing.delete("deleted").await;
    writing.delete("gone").await;
    proxy.refuse(false);
    writing.change("new").await;

    rig.equals_a_fresh_list(cluster.access()).await;
    let told = |name: &str| rig.notes.of(&format!("configmaps {}/{name}", namespace.name()));
    assert_eq!(proxy.struck().values().sum::<usize>(), met, "{what}: {:?}", proxy.struck());
    assert!(told("kept").is_empty(), "{what}: {:?}", told("kept"));
    if late {
        // The list is of some moment: what came after it was watched.
        let sums = |name: &str| told(name).iter().filter(|step| step.starts_with("Late")).count();
        assert_eq!([sums("changed"), sums("deleted"), sums("new")], [1, 1, 1], "{what}");
        assert_eq!(told("deleted"), ["Late deleted"], "{what}");
        assert!(told("gone").is_empty(), "{what}: it came and went unseen: {:?}", told("gone"));
        assert_eq!(told("new")[0], "Late created", "{what}");
    } else {
        assert_eq!(told("changed"), ["Live updated", "Live updated"], "{what}");
        assert_eq!(told("deleted"), ["Live deleted"], "{what}");
        assert_eq!(told("gone"), ["Live created", "Live deleted"], "{what}");
        assert_eq!(told("new"), ["Live created", "Live updated"], "{what}");
    }
    rig.stop().await;
}
