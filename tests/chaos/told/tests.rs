//! The oracle itself: what decision 7 allows two replicas to tell, and that it allows no more.

use super::*;

const UID: &str = "u";

fn event(kind: &str, observed: &str, from: u64, to: u64, more: (&str, Value)) -> Value {
    let mut event = json!({
        "id": format!("id-{to}"), "type": kind, "observed": observed,
        "resource": {"group": "", "resource": "configmaps", "namespace": "chaos-0", "name": "a", "uid": UID,
            "previousResourceVersion": from.to_string(), "resourceVersion": to.to_string()},
    });
    event[more.0] = more.1;
    event
}

/// As the watch told it: the document's one value becomes its version.
fn live(from: u64, to: u64) -> Value {
    event("updated", "live", from, to, ("patch", json!([{"op": "replace", "path": "/v", "value": to}])))
}

fn late(from: u64, to: u64) -> Value {
    Value::from_iter(
        live(from, to)
            .as_object()
            .unwrap()
            .clone()
            .into_iter()
            .map(|(key, value)| if key == "observed" { (key, json!("late")) } else { (key, value) }),
    )
}

fn created(observed: &str, at: u64) -> Value {
    event("created", observed, 0, at, ("object", json!({"v": at})))
}

/// What is wrong with them, and which version the object has in the end.
fn told(replicas: usize, events: &[Value]) -> (Vec<String>, Option<u64>) {
    let mut replay = Replay::new(false, replicas > 1);
    events.iter().for_each(|event| replay.take(event));
    let version = replay.objects.values().next().and_then(|known| known.document["v"].as_u64());
    (replay.wrong, version)
}

#[test]
fn of_two_replicas_one_may_tell_in_sum_what_the_other_tells_one_by_one_in_either_order() {
    for events in [
        // First in sum.
        vec![created("live", 1), late(1, 4), live(1, 2), live(2, 3), live(3, 4), live(4, 5)],
        vec![created("late", 4), created("live", 1), live(1, 2), live(2, 4), live(4, 5)],
        // First one by one.
        vec![created("live", 1), live(1, 2), live(2, 3), live(3, 4), late(1, 4), live(4, 5)],
        vec![created("live", 1), live(1, 2), late(1, 4), live(2, 3), live(3, 4), late(2, 5)],
        // What is told in sum next begins where nothing had been told of until the other told it one by one.
        vec![created("late", 4), created("live", 1), live(1, 2), late(2, 5)],
        // Once more, as it was.
        vec![created("live", 1), live(1, 2), late(1, 2), live(1, 2), live(2, 5)],
    ] {
        assert_eq!(told(2, &events), (Vec::new(), Some(5)), "{events:#?}");
    }
}

#[test]
fn what_one_of_two_replicas_tells_of_an_object_that_the_other_told_the_end_of_does_not_bring_it_back() {
    let deleted = |at: u64| event("deleted", "live", at, at, ("id", json!("id-end")));
    let events = [created("live", 1), deleted(1), created("late", 4), deleted(4)];
    assert_eq!(told(2, &events), (Vec::new(), None));
    let events = [created("live", 1), deleted(1), live(1, 2)];
    assert!(!told(2, &events).0.is_empty(), "with nothing told in sum nobody can have known less");
}

#[test]
fn what_no_decision_allows_is_wrong() {
    let mut other = live(1, 2);
    other["patch"][0]["value"] = json!(7);
    let mut other_sum = late(1, 2);
    other_sum["patch"][0]["value"] = json!(7);
    for (replicas, events) in [
        // The same id, by the watch both times, and not the same; also with a sum in between.
        (2, vec![created("live", 1), live(1, 2), other.clone()]),
        (2, vec![created("live", 1), live(1, 2), late(1, 2), other.clone()]),
        (2, vec![created("live", 1), late(1, 2), live(1, 2), other.clone()]),
        // In sum and by the watch it is one document.
        (2, vec![created("live", 1), live(1, 2), other_sum]),
        (2, vec![created("live", 1), late(1, 2), other]),
        // A gap, and the past again, with nothing in sum.
        (2, vec![created("live", 1), live(2, 3)]),
        (2, vec![created("live", 1), live(1, 3), live(1, 2)]),
        // One alone never tells in two ways.
        (1, vec![created("live", 1), live(1, 2), late(1, 2)]),
        (1, vec![created("live", 1), late(1, 2), live(1, 2)]),
    ] {
        assert!(!told(replicas, &events).0.is_empty(), "{replicas}: {events:#?}");
    }
}

#[test]
fn a_custom_resource_may_be_there_again_after_its_end_and_nothing_else_may() {
    let of = |group: &str, mut event: Value| {
        event["resource"]["group"] = json!(group);
        event["resource"]["resource"] = json!(if group.is_empty() { "configmaps" } else { "widgets" });
        event
    };
    let mut gone = event("deleted", "live", 4, 4, ("object", json!({"v": 4})));
    gone["id"] = json!("the end");
    let story = |group: &str, again: &str| {
        let events = [created("live", 4), gone.clone(), created(again, 4)];
        told(1, &events.map(|event| of(group, event)))
    };
    assert_eq!(story(GROUP, "late"), (Vec::new(), Some(4)));
    // One that is the same to the last letter was sent again, and tells nothing new.
    assert_eq!(story(GROUP, "live"), (Vec::new(), None));
    assert_eq!(story("", "late").0.len(), 1);
}
