use std::time::{Duration, Instant};

use super::*;
use crate::{diff::Change, event::Event};

fn holds(text: &str, event: &Event) -> Result<bool, Failure> {
    let when = When::new(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let (value, width) = event_value(event, when.needs());
    when.holds(value.as_ref(), width)
}

fn update() -> Event {
    value::samples().last().unwrap().clone()
}

#[test]
fn an_expression_sees_every_field_of_an_event() {
    for text in [
        "event.type == 'updated' && event.observed == 'live'",
        "event.resource.kind == 'Deployment' && event.resource.namespace == 'shop'",
        "event.resource.labels.app == 'web'",
        "event.resource.labels['app'] == 'web'",
        "'app' in event.resource.labels && !('tier' in event.resource.labels)",
        "event.owner.name.startsWith('we')",
        "event.actors.exists(a, a.manager.matches('^kubectl'))",
        "event.changes.exists(c, c.field.endsWith('.replicas'))",
        "event.changes.exists(c, c.field == 'spec.replicas' && int(c.to) > int(c.from))",
        "event.changes.filter(c, c.op == 'replace').size() == 2",
        "event.changes.all(c, c.path.startsWith('/spec')) && size(event.changes) == 2",
        "'spec' in event.classes",
        "event.resource.generation >= 2",
        "event.patch.size() == 1 && event.patch[0].op == 'replace'",
        "event['type'] == 'updated'",
        "has(event.owner) && event.time.startsWith('2026-')",
        "event.cluster.name == 'c' ? true : false",
        "event.changes.map(c, c.field).exists(f, f == 'spec.x')",
        "type(event.changes[1].to) == string && event.changes[1].to == 'b'",
    ] {
        assert_eq!(holds(text, &update()), Ok(true), "{text}");
    }
}

#[test]
fn what_an_event_does_not_have_is_empty_or_no() {
    let created = &value::samples()[0];
    assert_eq!(holds("event.owner.name == ''", created), Ok(true));
    assert_eq!(holds("event.changes.exists(c, true)", created), Ok(false));
    assert_eq!(holds("event.changes[0].op == 'add'", created), Ok(false));
    assert_eq!(holds("event.resource.labels.team == 'a'", created), Ok(false));
    assert_eq!(holds("event.object.spec.replicas == 1", created), Ok(true));
    assert_eq!(holds("event.object.spec.nothing.below == 1", created), Ok(false));
}

#[test]
fn an_expression_that_would_take_too_long_on_an_event_is_not_run() {
    let change = update().changes[0].clone();
    let mut event = Event { changes: vec![change; 3_000], ..update() };
    for (index, change) in event.changes.iter_mut().enumerate() {
        change.field = format!("spec.items[{index}]");
    }
    let nested = "event.changes.exists(a, event.changes.exists(b, a.field == b.path))";
    let start = Instant::now();
    let failure = holds(nested, &event).unwrap_err();
    assert!(matches!(failure, Failure::Costly { steps } if steps > MAX_STEPS), "{failure}");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!(holds("event.changes.exists(a, a.field == 'spec.items[2999]')", &event), Ok(true));
    let narrow = Event { changes: event.changes[..50].to_vec(), ..event };
    assert_eq!(holds(nested, &narrow), Ok(false));
}

#[test]
fn the_most_that_an_expression_may_cost_takes_a_bounded_time() {
    let change: Change = update().changes[0].clone();
    let event = Event { changes: vec![change; 60], ..update() };
    let text = "event.changes.all(a, event.changes.all(b, a.field == b.field && a.path == b.path && a.op == b.op))";
    let start = Instant::now();
    assert_eq!(holds(text, &event), Ok(true));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn a_failure_at_run_time_is_named() {
    let failure = holds("event.changes.exists(c, c.field == 'spec.x' && c.to > 5)", &update()).unwrap_err();
    assert_eq!(failure.to_string(), "found no matching overload for '_>_' applied to '(string, int)'");
}

#[test]
fn deep_and_long_expressions_are_refused_without_a_crash() {
    for (text, message) in [
        ("(".repeat(900) + "true" + &")".repeat(900), "nested more than 48 deep"),
        ("!".repeat(1_900) + "(", ""),
        (format!("1{}== 1", "+1".repeat(900)), "nested more than 48 deep"),
        (format!("{}true", "true?true:".repeat(190)), ""),
        (format!("{}]", "[".repeat(1_900)), ""),
        ("x".repeat(2_001), "more than 2000"),
        (format!("{}event.id == ''", "event.id == '' && ".repeat(90)), ""),
    ] {
        match When::new(&text) {
            Err(error) => assert!(error.to_string().contains(message), "{error}"),
            // A long chain of `&&` is balanced and shallow.
            Ok(_) => assert!(text.starts_with("event"), "{}", &text[..20]),
        }
    }
}

#[test]
fn patterns_are_compiled_once_and_bounded() {
    assert_eq!(holds("event.summary.matches('^s$') && matches(event.id, '^1$')", &update()), Ok(true));
    let error = When::new("event.summary.matches('((a{1,100}){1,100}){1,100}')").unwrap_err();
    assert!(error.to_string().ends_with("is too large"), "{error}");
    assert!(When::new("event.summary.matches(event.id)").is_err());
}
