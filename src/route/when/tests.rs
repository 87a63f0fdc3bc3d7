use std::time::{Duration, Instant};

use super::*;
use crate::{diff::Change, event::Event};

fn holds(text: &str, event: &Event) -> Result<bool, Failure> {
    let when = When::new(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let (value, size) = event_value(event, when.needs());
    let generally = when.holds_generally(value.as_ref(), size, TIME);
    let timed = when.holds_generally(value.as_ref(), Size { text: usize::MAX, ..size }, TIME);
    assert_eq!(timed, generally, "{text}: against the clock it is another answer");
    let answer = when.holds(event, || (value.as_ref(), size));
    assert_eq!(answer, generally, "{text}: the two evaluations differ");
    answer
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

/// Text of which patterns know no end.
fn endless(bytes: u64) -> String {
    let letter = |n: u64| if n.wrapping_mul(0x9e37_79b9_7f4a_7c15).count_ones().is_multiple_of(2) { 'a' } else { 'b' };
    (0..bytes).map(letter).collect()
}

/// Both ways to evaluate, each in a time that is much too short.
fn within(limit: Duration, text: &str, event: &Event) -> Vec<Result<bool, Failure>> {
    let when = When::new(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let (value, size) = event_value(event, when.needs());
    let generally = when.holds_generally(value.as_ref(), size, limit);
    let directly = when.direct.as_ref().map(|test| direct::holds(test, event, limit));
    directly.into_iter().chain([generally]).collect()
}

#[test]
fn an_expensive_function_does_not_get_round_the_clock() {
    let mut event = Event { summary: endless(2 << 20), ..update() };
    event.changes = vec![event.changes[0].clone(); 200];
    let limit = Duration::from_millis(20);
    let late = Failure::Late { millis: 20 };
    for (ways, text) in [
        (2, "event.summary.matches('(?s)[ab]*a[ab]{700}c')"),
        (2, "event.changes.exists(c, event.summary.matches('(?s)[ab]*a[ab]{700}c'))"),
        // What a failure is overruled by does not make it an answer.
        (2, "event.summary.matches('(?s)[ab]*a[ab]{700}c') || event.type == 'updated'"),
        (1, "event.changes.all(c, (event.summary + c.field).size() > 1) || event.type + 'x' == 'updatedx'"),
        (1, "event.changes.map(c, event.summary + c.field).size() == 200"),
    ] {
        let answers = within(limit, text, &event);
        assert_eq!(answers.len(), ways, "{text}");
        for answer in answers {
            let failure = answer.unwrap_err();
            assert!(failure == late || failure == Failure::Large, "{text}: {failure}");
        }
    }
    // With time enough there is an answer.
    let plenty =
        within(Duration::from_secs(3_600), "event.summary.matches('^[ab]*$') && event.type == 'updated'", &event);
    assert_eq!(plenty, [Ok(true), Ok(true)]);
}

#[test]
fn texts_that_are_put_together_have_an_end() {
    let event = Event { summary: "x".repeat(1 << 20), ..update() };
    let several = format!("({}'x').size() > 5", "event.summary + ".repeat(40));
    let doubled = "[event.summary].map(s, s + s).map(s, s + s).map(s, [s, s]).map(s, [s, s, s, s, s]).size() == 1";
    for text in [several.as_str(), doubled] {
        assert_eq!(within(Duration::from_secs(3_600), text, &event), [Err(Failure::Large)], "{text}");
    }
    // What grows without end on any event is found out before there is one.
    for again in [".map(s, s + s)", ".map(s, [s, s])", ".map(s, {'a': s, 'b': s})"] {
        let error = When::new(&format!("[event.summary]{}.size() == 1", again.repeat(40))).unwrap_err().to_string();
        assert!(error.contains("more than 64 MiB of text"), "{again}: {error}");
    }
    let error = When::new(&format!("[[1]]{}.size() == 1", ".map(l, l + l)".repeat(40))).unwrap_err().to_string();
    assert!(error.contains("more than 64 MiB"), "{error}");
    assert_eq!(within(TIME, "(event.summary + event.summary).size() == 2097152", &event), [Ok(true)]);
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

/// What [`direct`] takes over, so that a change of the parser's macros cannot switch it off unseen.
#[test]
fn what_people_write_most_is_asked_of_the_event_itself() {
    for text in [
        "event.changes.exists(c, c.field.endsWith('.image'))",
        "event.actors.exists(a, a.manager.matches('^(kubectl|k9s)'))",
        "'critical' in event.resource.labels && event.type == 'deleted'",
        "event.resource.generation > 5",
        "!(event.resource.kind in ['Pod', 'Job']) || has(event.resource.labels.team)",
        "event.changes.all(c, event.classes.exists(k, c.path.contains(k)))",
        "event.changes.exists(c, c.field.endsWith('.image') && c.to == 'nginx:1.27')",
        "event.changes.exists(c, 0 == c.to || c.from == null)",
    ] {
        assert!(When::new(text).unwrap().direct.is_some(), "{text}");
    }
    for text in ["event.changes.exists(c, c.to == c.from)", "event.time > '2026'", "event.changes.size() + 1 == 2"] {
        assert!(When::new(text).unwrap().direct.is_none(), "{text}");
    }
}

proptest::proptest! {
    /// Random expressions over everything that [`direct`] knows, on events that lack half of it.
    #[test]
    fn both_evaluations_give_the_same_answer(text in expression(), seed in proptest::prelude::any::<u8>()) {
        let mut event = value::samples()[usize::from(seed % 3)].clone();
        if seed & 4 != 0 {
            event.resource.labels.clear();
            event.classes.push(crate::event::Class::Image);
        }
        let when = When::new(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        proptest::prop_assert!(when.direct.is_some(), "{}", text);
        let (value, size) = event_value(&event, when.needs());
        let generally = when.holds_generally(value.as_ref(), size, TIME);
        let timed = when.holds_generally(value.as_ref(), Size { text: usize::MAX, ..size }, TIME);
        proptest::prop_assert_eq!(&timed, &generally, "{}", &text);
        proptest::prop_assert_eq!(when.holds(&event, || (value.as_ref(), size)), generally, "{}", text);
    }
}

fn expression() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::{prelude::*, sample::select};
    let text = || {
        select(vec![
            "event.type",
            "event.resource.kind",
            "event.owner.name",
            "event.resource.labels.app",
            "event.resource.labels['tier']",
            "event.resource.labels[event.resource.name]",
            "event.observed",
            "'web'",
            "'updated'",
            "'spec'",
            "''",
        ])
    };
    let atom = prop_oneof![
        (text(), text()).prop_map(|(a, b)| format!("{a} == {b}")),
        (text(), text()).prop_map(|(a, b)| format!("{a} != {b}")),
        (text(), select(vec!["startsWith", "endsWith", "contains"]), text())
            .prop_map(|(a, method, b)| format!("{a}.{method}({b})")),
        text().prop_map(|a| format!("{a}.matches('^(u|w)')")),
        text().prop_map(|a| format!("{a} in event.classes")),
        text().prop_map(|a| format!("{a} in event.resource.labels")),
        (text(), text(), text()).prop_map(|(a, b, c)| format!("{a} in [{b}, {c}]")),
        select(vec![
            "has(event.resource.labels.app)",
            "event.resource.generation >= 2",
            "size(event.changes) == 2",
            "event.actors.size() < 1",
            "event.changes.exists(c, c.op == 'replace' && c.field.contains('replicas'))",
            "event.changes.all(c, c.path.startsWith('/spec'))",
            "event.changes.exists(c, c.to == 2)",
            "event.changes.exists(c, 2 != c.to && c.from == 'a')",
            "event.changes.all(c, 'b' == c.to || c.from != null)",
            "event.changes.exists(c, c.to == true || c.to == 1)",
            "event.changes.exists(c, event.resource.labels[c.field] == '')",
            "event.actors.exists(a, a.manager.matches('kube') || event.resource.labels.none == 'x')",
            "event.classes.all(k, k in ['spec', 'image'])",
            "event.resource.labels.exists(k, event.resource.labels[k] == event.resource.name)",
            "event.changes.exists(a, event.changes.all(b, a.field == b.field || b.lines == ''))",
        ])
        .prop_map(str::to_owned),
    ];
    atom.prop_recursive(4, 24, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) && ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) || ({b})")),
            inner.prop_map(|a| format!("!({a})")),
        ]
    })
}
