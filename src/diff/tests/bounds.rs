//! No blow-up: on the worst lists and texts the time grows with their size, and stays within what one change may take.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use super::*;

/// The promise, for a release build.
const LIMIT: Duration = Duration::from_millis(100);
/// Four times as much may take so many times as long: a walk that is linear takes four times, a quadratic one sixteen.
const GROWTH: f64 = 10.0;
/// The best of so many runs is taken, as other tests have the caches meanwhile.
const RUNS: usize = 3;
/// So often it is measured again before it counts as a blow-up.
const TRIES: usize = 4;

/// The time that this thread has worked: how busy the machine is, does not matter.
fn worked() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

fn took(old: &Value, new: &Value) -> Duration {
    let run = || {
        let begin = worked();
        std::hint::black_box(diff(old, new, &Keys::default()));
        worked() - begin
    };
    (0..RUNS).map(|_| run()).min().unwrap()
}

/// `pair` gives two documents of a size that goes by its argument, which is 1 or 4.
fn within_limit(name: &str, pair: impl Fn(usize) -> (Value, Value)) {
    let wrapped = |value: Value| Value::Object([("x".to_owned(), value)].into_iter().collect());
    let [small, large] = [1, 4].map(&pair).map(|(old, new)| (wrapped(old), wrapped(new)));
    let growth = |_| took(&large.0, &large.1).as_secs_f64() / took(&small.0, &small.1).as_secs_f64();
    let least = (0..TRIES).map(growth).find(|growth| *growth < GROWTH);
    assert!(least.is_some(), "{name}: four times as much took more than {GROWTH} times as long, {TRIES} times over");
    if !cfg!(debug_assertions) {
        let took = took(&large.0, &large.1);
        assert!(took < LIMIT, "{name} took {took:?}");
    }
    let (old, new) = large;
    let diff = diff(&old, &new, &Keys::default());
    let mut there = old;
    json_patch::patch(&mut there, &diff.patch).unwrap();
    assert_eq!(there, new, "{name}");
    assert!(!diff.changes.is_empty());
}

/// Numbers that repeat every time and look random.
fn noise(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

fn shuffled<T>(mut items: Vec<T>) -> Vec<T> {
    let mut noise = noise(7);
    for at in (1..items.len()).rev() {
        items.swap(at, usize::try_from(noise(at as u64 + 1)).unwrap());
    }
    items
}

/// Of the small ones.
const ITEMS: u64 = 1250;

fn items(size: usize) -> u64 {
    ITEMS * size as u64
}

fn named(id: u64, value: u64) -> Value {
    json!({"name": format!("item-{id}"), "value": value, "labels": {"a": "b", "c": [1, 2, 3]}})
}

fn unnamed(id: u64, value: u64) -> Value {
    json!({"value": value, "labels": {"a": id, "c": [1, 2, 3]}})
}

#[test]
fn long_lists_with_keys_stay_within_the_limit() {
    let list = |size: usize, value: u64| -> Vec<Value> { (0..items(size)).map(|id| named(id, value)).collect() };
    let others = |size: usize| -> Value { (items(size)..2 * items(size)).map(|id| named(id, 0)).collect() };
    within_limit("every item changed", |size| (list(size, 0).into(), list(size, 1).into()));
    within_limit("reversed", |size| (list(size, 0).into(), list(size, 0).into_iter().rev().collect()));
    within_limit("shuffled and changed", |size| (list(size, 0).into(), shuffled(list(size, 1)).into()));
    within_limit("all others", |size| (list(size, 0).into(), others(size)));
    within_limit("every other one gone", |size| (list(size, 0).into(), list(size, 0).into_iter().step_by(2).collect()));
}

#[test]
fn long_lists_without_keys_stay_within_the_limit() {
    let list = |size: usize, value: u64| -> Vec<Value> { (0..items(size)).map(|id| unnamed(id, value)).collect() };
    within_limit("every item changed", |size| (list(size, 0).into(), list(size, 1).into()));
    within_limit("shuffled", |size| (list(size, 0).into(), shuffled(list(size, 0)).into()));
    for of in [2, 10, 100, 2500] {
        let repeats = |size: usize, seed: u64| -> Value {
            let mut random = noise(seed);
            (0..items(size)).map(|_| random(of)).collect()
        };
        within_limit(&format!("random numbers of {of}"), |size| (repeats(size, 1), repeats(size, 2)));
    }
    let objects = |size: usize, seed: u64| -> Value {
        let mut random = noise(seed);
        (0..items(size)).map(|_| unnamed(random(70), random(2))).collect()
    };
    within_limit("random objects that repeat", |size| (objects(size, 1), objects(size, 2)));
}

#[test]
fn a_megabyte_of_text_stays_within_the_limit() {
    let text = |seed: u64, lines: usize, of: u64, pad: usize| -> String {
        let mut random = noise(seed);
        (0..lines).map(|_| format!("{}{}\n", random(of), "x".repeat(pad))).collect()
    };
    for (name, lines, of, pad) in [
        ("long lines, all different", 2_500, u64::from(u32::MAX), 90),
        ("long lines that repeat", 2_500, 50, 98),
        ("short lines that repeat", 75_000, 100, 0),
        ("middling lines that repeat", 2_400, 3000, 100),
    ] {
        let file = |size: usize, seed: u64| json!({"file": text(seed, lines * size, of, pad)});
        within_limit(name, |size| (file(size, 3), file(size, 4)));
    }
    within_limit("three lines of many", |size| {
        let one = text(3, 5_000 * size, 1000, 45);
        let other = one.replacen('7', "8", 3);
        (json!({"file": one}), json!({"file": other}))
    });
    let line = |letter: &str, size: usize| Value::from(letter.repeat(size << 18));
    within_limit("one long line", |size| (line("x", size), line("y", size)));
}

#[test]
fn a_megabyte_of_small_members_stays_within_the_limit() {
    let members =
        |size: usize, value: u64| -> Value { (0..12_500 * size).map(|n| (format!("key-{n}"), json!(value))).collect() };
    within_limit("every member changed", |size| (members(size, 1), members(size, 2)));
    let deep = |size: usize, leaf: u64| (0..100).fold(json!(vec![leaf; 5_000 * size]), |inner, _| json!([inner]));
    within_limit("at the bottom of a deep document", |size| (deep(size, 1), deep(size, 2)));
}
