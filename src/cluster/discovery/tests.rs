//! What follows from one look after another.

use super::*;
use crate::cluster::source::script::{Request, Script};

fn resource(group: &str, version: &str, plural: &str) -> Resource {
    Resource {
        group: group.into(),
        version: version.into(),
        plural: plural.into(),
        singular: String::new(),
        kind: plural.to_uppercase(),
        short_names: vec![],
        namespaced: true,
    }
}

fn found(resources: &[(&str, &str, &str)], unavailable: &[(&str, &str)]) -> Discovered {
    Discovered {
        resources: resources.iter().map(|(group, version, plural)| resource(group, version, plural)).collect(),
        unavailable: unavailable
            .iter()
            .map(|(group, version)| Unavailable {
                group: (*group).into(),
                version: (*version).into(),
                reason: "503".into(),
            })
            .collect(),
    }
}

/// `started / stopped / moved` in words.
fn told(changes: &Changes) -> [Vec<String>; 3] {
    [
        changes.started.iter().map(ToString::to_string).collect(),
        changes.stopped.iter().map(ToString::to_string).collect(),
        changes.moved.iter().map(|(from, to)| format!("{from} -> {to}")).collect(),
    ]
}

fn after(looks: &[Discovered]) -> (Served, Changes) {
    let mut last = (Served::default(), Changes::default());
    for look in looks {
        last = changes(&last.0, look.clone());
    }
    last
}

const NONE: [Vec<String>; 3] = [vec![], vec![], vec![]];

#[test]
fn resources_start_and_stop() {
    let (_, first) = after(&[found(&[("", "v1", "pods"), ("x.io", "v1", "as")], &[])]);
    assert_eq!(told(&first), [vec!["x.io/v1/as".to_owned(), "v1/pods".into()], vec![], vec![]]);
    let (served, second) = after(&[
        found(&[("", "v1", "pods"), ("x.io", "v1", "as")], &[]),
        found(&[("", "v1", "pods"), ("x.io", "v1", "bs")], &[]),
    ]);
    assert_eq!(told(&second), [vec!["x.io/v1/bs".to_owned()], vec!["x.io/v1/as".into()], vec![]]);
    assert_eq!(served.resources.len(), 2);
}

#[test]
fn what_is_missing_because_its_group_does_not_answer_is_kept() {
    let before = found(&[("", "v1", "pods"), ("x.io", "v1", "as"), ("x.io", "v2", "bs"), ("y.io", "v1", "cs")], &[]);
    let (served, changes) =
        after(&[before.clone(), found(&[("", "v1", "pods"), ("y.io", "v1", "cs")], &[("x.io", "")])]);
    assert_eq!(told(&changes), NONE);
    assert_eq!(served.resources.len(), 4);
    let (_, changes) = after(&[before.clone(), found(&[("", "v1", "pods"), ("y.io", "v1", "cs")], &[("x.io", "v1")])]);
    assert_eq!(told(&changes), [vec![], vec!["x.io/v2/bs".to_owned()], vec![]], "only that version is unknown");
    let (_, changes) = after(&[before.clone(), found(&[("", "v1", "pods")], &[("*", "")])]);
    assert_eq!(told(&changes), NONE, "no named group answers");
    let away = found(&[("", "v1", "pods"), ("y.io", "v1", "cs")], &[("x.io", "")]);
    let gone = found(&[("", "v1", "pods"), ("y.io", "v1", "cs")], &[]);
    let (_, changes) = after(&[before, away, gone]);
    assert_eq!(told(&changes)[1], ["x.io/v1/as", "x.io/v2/bs"], "known to be gone only once the group answers");
}

#[test]
fn a_version_that_moves_is_no_stop_and_start() {
    let (_, changes) = after(&[found(&[("x.io", "v1beta1", "as")], &[]), found(&[("x.io", "v1", "as")], &[])]);
    assert_eq!(told(&changes), [vec![], vec![], vec!["x.io/v1beta1/as -> x.io/v1/as".to_owned()]]);
    let stale = found(&[("x.io", "v1beta1", "as")], &[("x.io", "v1")]);
    let (served, changes) = after(&[found(&[("x.io", "v1", "as")], &[]), stale]);
    assert_eq!(told(&changes), NONE, "a version that does not answer is not left for another");
    assert_eq!(served.resources["as.x.io"].version, "v1");
}

#[test]
fn a_kind_that_changes_its_scope_is_another_one() {
    let mut cluster_scoped = found(&[("x.io", "v1", "as")], &[]);
    cluster_scoped.resources[0].namespaced = false;
    let (_, changes) = after(&[found(&[("x.io", "v1", "as")], &[]), cluster_scoped]);
    assert_eq!(told(&changes), [vec!["x.io/v1/as".to_owned()], vec!["x.io/v1/as".into()], vec![]]);
}

fn discovery(script: &Script) -> (Discovery, Trigger) {
    let trigger = Trigger::new();
    (Discovery::new(Arc::new(script.clone()), Settings::default(), trigger.clone()), trigger)
}

fn looks(script: &Script) -> usize {
    script.requests().iter().filter(|request| **request == Request::Discover).count()
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_found_within_two_seconds_of_a_trigger_though_discovery_lags() {
    let script = Script::new();
    let before = found(&[("", "v1", "pods")], &[]);
    script.discovers(Ok(before.clone()));
    let (mut discovery, trigger) = discovery(&script);
    assert_eq!(discovery.next().await.started.len(), 1);
    script.discovers(Ok(before.clone())).discovers(Ok(before));
    script.discovers(Ok(found(&[("", "v1", "pods"), ("x.io", "v1", "as")], &[])));
    let began = Instant::now();
    trigger.fire();
    assert_eq!(told(&discovery.next().await)[0], ["x.io/v1/as"]);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn three_hundred_triggers_at_once_are_a_few_looks() {
    let script = Script::new();
    script.discovers(Ok(found(&[("", "v1", "pods")], &[])));
    let (mut discovery, trigger) = discovery(&script);
    discovery.next().await;
    let burst = async {
        for _ in 0..300 {
            trigger.fire();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
    };
    tokio::select! {
        () = burst => {}
        changes = discovery.next() => panic!("{changes:?}"),
    }
    let looks = looks(&script);
    assert!((10..=20).contains(&looks), "{looks} looks");
}

#[tokio::test(start_paused = true)]
async fn it_looks_now_and_then_by_itself() {
    let script = Script::new();
    script.discovers(Ok(found(&[("", "v1", "pods")], &[])));
    let (mut discovery, _trigger) = discovery(&script);
    discovery.next().await;
    script.discovers(Ok(found(&[], &[])));
    let began = Instant::now();
    assert_eq!(told(&discovery.next().await)[1], ["v1/pods"]);
    assert!(began.elapsed() <= Duration::from_secs(360), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_changes_nothing_and_is_tried_again_soon() {
    let script = Script::new();
    script.discovers(Err(Error::Connection("refused".into())));
    script.discovers(Err(Error::Connection("refused".into())));
    script.discovers(Ok(found(&[("", "v1", "pods")], &[])));
    let (mut discovery, _trigger) = discovery(&script);
    let began = Instant::now();
    assert_eq!(discovery.next().await.started.len(), 1);
    assert!(began.elapsed() < Duration::from_secs(4));
    assert_eq!(discovery.problem(), None);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_stops_answering_is_told() {
    let script = Script::new();
    script.discovers(Ok(found(&[("x.io", "v1", "as")], &[])));
    let (mut discovery, trigger) = discovery(&script);
    discovery.next().await;
    script.discovers(Ok(found(&[], &[("x.io", "v1")])));
    trigger.fire();
    assert!(discovery.next().await.is_empty());
    assert_eq!(discovery.served().unavailable.len(), 1);
    assert_eq!(discovery.served().resources.len(), 1);
}
