//! No blow-up: the worst lists and texts stay within the time that one change may take.

use std::time::{Duration, Instant};

use serde_json::json;

use super::*;

/// The promise is 100 ms in a release build; without optimisation and beside other tests it takes several times that,
/// and a quadratic walk takes many seconds.
const LIMIT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 30_000 } else { 100 });

fn within_limit(name: &str, old: Value, new: Value) {
    let [old, new] = [old, new].map(|value| Value::Object([("x".to_owned(), value)].into_iter().collect()));
    let run = || {
        let begin = Instant::now();
        let diff = diff(&old, &new, &Keys::default());
        (begin.elapsed(), diff)
    };
    // Another test may have had the core meanwhile: one of three has to keep the limit.
    let Some((_, diff)) = (0..3).map(|_| run()).find(|(took, _)| *took < LIMIT) else {
        panic!("{name} took longer than {LIMIT:?}");
    };
    let mut there = old.clone();
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

const ITEMS: u64 = 5000;

fn named(id: u64, value: u64) -> Value {
    json!({"name": format!("item-{id}"), "value": value, "labels": {"a": "b", "c": [1, 2, 3]}})
}

fn unnamed(id: u64, value: u64) -> Value {
    json!({"value": value, "labels": {"a": id, "c": [1, 2, 3]}})
}

#[test]
fn long_lists_with_keys_stay_within_the_limit() {
    let list = |value: u64| -> Vec<Value> { (0..ITEMS).map(|id| named(id, value)).collect() };
    within_limit("every item changed", list(0).into(), list(1).into());
    within_limit("reversed", list(0).into(), list(0).into_iter().rev().collect());
    within_limit("shuffled and changed", list(0).into(), shuffled(list(1)).into());
    within_limit("all others", list(0).into(), (ITEMS..2 * ITEMS).map(|id| named(id, 0)).collect());
    within_limit("every other one gone", list(0).into(), list(0).into_iter().step_by(2).collect());
}

#[test]
fn long_lists_without_keys_stay_within_the_limit() {
    let list = |value: u64| -> Vec<Value> { (0..ITEMS).map(|id| unnamed(id, value)).collect() };
    within_limit("every item changed", list(0).into(), list(1).into());
    within_limit("shuffled", list(0).into(), shuffled(list(0)).into());
    let mut random = noise(1);
    let repeats = |random: &mut dyn FnMut(u64) -> u64, of: u64| -> Value { (0..ITEMS).map(|_| random(of)).collect() };
    for of in [2, 10, 100, 2500] {
        within_limit(&format!("random numbers of {of}"), repeats(&mut random, of), repeats(&mut random, of));
    }
    let objects =
        |random: &mut dyn FnMut(u64) -> u64| -> Value { (0..ITEMS).map(|_| unnamed(random(70), random(2))).collect() };
    within_limit("random objects that repeat", objects(&mut random), objects(&mut random));
}

#[test]
fn a_megabyte_of_text_stays_within_the_limit() {
    let mut random = noise(3);
    let mut text = |lines: usize, of: u64, pad: usize| -> String {
        (0..lines).map(|_| format!("{}{}\n", random(of), "x".repeat(pad))).collect()
    };
    for (name, lines, of, pad) in [
        ("long lines, all different", 10_000, u64::from(u32::MAX), 90),
        ("long lines that repeat", 10_000, 50, 98),
        ("short lines that repeat", 300_000, 100, 0),
        ("middling lines that repeat", 9_500, 3000, 100),
    ] {
        let (old, new) = (text(lines, of, pad), text(lines, of, pad));
        within_limit(name, json!({"file": old}), json!({"file": new}));
    }
    let one = text(20_000, 1000, 45);
    let other = one.replacen("7", "8", 3);
    within_limit("three lines of many", json!({"file": one}), json!({"file": other}));
    within_limit("one long line", "x".repeat(1 << 20).into(), "y".repeat(1 << 20).into());
}

#[test]
fn a_megabyte_of_small_members_stays_within_the_limit() {
    let members = |value: u64| -> Value { (0..50_000).map(|n| (format!("key-{n}"), json!(value))).collect() };
    within_limit("every member changed", members(1), members(2));
    let deep = |leaf: u64| (0..100).fold(json!(vec![leaf; 20_000]), |inner, _| json!([inner]));
    within_limit("at the bottom of a deep document", deep(1), deep(2));
}
