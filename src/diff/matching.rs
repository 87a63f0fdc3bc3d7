//! Which item of the old list is which item of the new one.
//!
//! By the keys of the schema, else by a key that the items seem to have, else by value. A way that does not fit, because
//! an item lacks the key or two items share it, gives way to the next one.

use std::collections::HashMap;

use serde_json::Value;

use super::{keys::ListKeys, path::Key, sequence};

/// Members that tell items apart in most APIs, the best first.
const GUESSES: &[&[&str]] = &[
    &["name"],
    &["type"],
    &["key"],
    &["id"],
    &["ip"],
    &["containerPort", "protocol"],
    &["port", "protocol"],
    // Before the server has filled in the protocol.
    &["containerPort"],
    &["port"],
    &["mountPath"],
    &["devicePath"],
    &["topologyKey"],
    &["uid"],
    &["hostname"],
    &["host"],
    &["path"],
];

/// Up to this many items, looking at each is faster than a hash table.
const FEW: usize = 16;

static ABSENT: Value = Value::Null;

/// Chooses the key by which all items of both lists can be told apart, and matches them by it: for every old item the
/// index of the new one.
pub(super) fn by_key<'a>(
    schema: Option<&'a ListKeys>,
    old: &'a [Value],
    new: &'a [Value],
) -> Option<(Key<'a>, Vec<Option<usize>>)> {
    if !old.iter().chain(new).all(Value::is_object) {
        return None;
    }
    let schema_keys = schema.into_iter().flat_map(|keys| [&*keys.map, &*keys.merge]).filter(|names| !names.is_empty());
    let guesses = GUESSES.iter().take(if schema.is_some_and(|keys| keys.set) { 0 } else { GUESSES.len() });
    schema_keys
        .map(Key::Schema)
        .chain(guesses.map(|names| Key::Guess(names)))
        .find_map(|key| Some((key, match_by(key, old, new)?)))
}

fn match_by(key: Key<'_>, old: &[Value], new: &[Value]) -> Option<Vec<Option<usize>>> {
    let width = key.len();
    let mut values: Vec<&Value> = Vec::with_capacity((old.len() + new.len()) * width);
    for item in old.iter().chain(new) {
        let before = values.len();
        let mut has_any = false;
        for name in key.names() {
            match item.get(name) {
                None => values.push(&ABSENT),
                Some(Value::Array(_) | Value::Object(_)) => return None,
                Some(value) => {
                    has_any |= !value.is_null();
                    values.push(value);
                }
            }
        }
        debug_assert_eq!(values.len(), before + width);
        // A key of several members may have defaults for some of them; a guess has to be there in full.
        if !has_any || matches!(key, Key::Guess(_)) && values[before..].iter().any(|value| value.is_null()) {
            return None;
        }
    }
    let (old_values, new_values) = values.split_at(old.len() * width);
    if old.len().max(new.len()) <= FEW {
        return match_few(old_values, new_values, width);
    }
    let mut seen: HashMap<&[&Value], (Option<usize>, Option<usize>)> = HashMap::with_capacity(old.len().max(new.len()));
    for (at, values) in new_values.chunks_exact(width).enumerate() {
        if seen.entry(values).or_default().1.replace(at).is_some() {
            return None;
        }
    }
    let mut matches = Vec::with_capacity(old.len());
    for (at, values) in old_values.chunks_exact(width).enumerate() {
        let entry = seen.entry(values).or_default();
        if entry.0.replace(at).is_some() {
            return None;
        }
        matches.push(entry.1);
    }
    Some(matches)
}

fn match_few(old: &[&Value], new: &[&Value], width: usize) -> Option<Vec<Option<usize>>> {
    let repeats = |values: &[&Value]| {
        values
            .chunks_exact(width)
            .enumerate()
            .any(|(at, one)| values[..at * width].chunks_exact(width).any(|v| v == one))
    };
    if repeats(old) || repeats(new) {
        return None;
    }
    Some(old.chunks_exact(width).map(|one| new.chunks_exact(width).position(|other| other == one)).collect())
}

/// Matches equal items: first those of a longest common subsequence, then the rest in the order in which they come.
pub(super) fn by_value(old: &[Value], new: &[Value]) -> Vec<Option<usize>> {
    let mut matches = vec![None; old.len()];
    if old.len() == 1 && new.len() == 1 {
        if old[0] == new[0] {
            matches[0] = Some(0);
        }
        return matches;
    }
    let (old, new) = sequence::numbered(old, new);
    let mut taken = vec![false; new.len()];
    for (old, new) in sequence::common(&old, &new) {
        matches[old] = Some(new);
        taken[new] = true;
    }
    // For each value the places in the new list that are still free, the first one last.
    let mut free: HashMap<usize, Vec<usize>> = HashMap::new();
    for at in (0..new.len()).rev().filter(|at| !taken[*at]) {
        free.entry(new[at]).or_default().push(at);
    }
    for (at, matched) in matches.iter_mut().enumerate().filter(|(_, matched)| matched.is_none()) {
        *matched = free.get_mut(&old[at]).and_then(Vec::pop);
    }
    matches
}

/// Up to this many comparisons, items that take the place of others are chosen by what they have in common.
const LIKENESS: usize = 256;

/// Couples old items with new ones that take their place, in order, as many as there can be: the most alike, or, when
/// there are too many to look at, one after the other. `left` and `come` are indices, rising.
pub(super) fn by_likeness(old: &[Value], left: &[usize], new: &[Value], come: &[usize]) -> Vec<(usize, usize)> {
    let count = left.len().min(come.len());
    if left.len() == come.len() || count == 0 || left.len() * come.len() > LIKENESS {
        return left.iter().copied().zip(come.iter().copied()).collect();
    }
    // best[i][j]: the most that can be had from left[i..] and come[j..], as (couples, members in common).
    let width = come.len() + 1;
    let mut best = vec![(0, 0); (left.len() + 1) * width];
    let mut alike = vec![0; left.len() * width];
    for i in (0..left.len()).rev() {
        for j in (0..come.len()).rev() {
            let both = likeness(&old[left[i]], &new[come[j]]);
            alike[i * width + j] = both;
            let (couples, common) = best[(i + 1) * width + j + 1];
            best[i * width + j] =
                (couples + 1, common + both).max(best[(i + 1) * width + j]).max(best[i * width + j + 1]);
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut chosen = Vec::with_capacity(count);
    while i < left.len() && j < come.len() {
        let (couples, common) = best[(i + 1) * width + j + 1];
        if best[i * width + j] == (couples + 1, common + alike[i * width + j]) {
            chosen.push((left[i], come[j]));
            (i, j) = (i + 1, j + 1);
        } else if best[i * width + j] == best[(i + 1) * width + j] {
            i += 1;
        } else {
            j += 1;
        }
    }
    chosen
}

/// How many members two objects have in common.
fn likeness(old: &Value, new: &Value) -> usize {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            old.iter().filter(|(name, value)| new.get(*name) == Some(*value)).count()
        }
        _ => 0,
    }
}
