//! Flapping: the same field back and forth, two managers fighting.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::super::describe;
use crate::event::Event;

/// Fields that are watched at a time; a story with more has other things to tell.
const FIELDS: usize = 100;
/// A value that came back this often was not corrected, it is fought over.
const RETURNS: usize = 2;
const VALUE_CHARS: usize = 60;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Flaps(BTreeMap<String, Flap>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Flap {
    field: String,
    from: String,
    to: String,
    /// Of both values as a whole: what is shown of them may be cut where they differ.
    #[serde(default)]
    hashes: (u64, u64),
    /// How often a change undid the one before it.
    returns: usize,
    managers: BTreeSet<String>,
}

impl Flaps {
    /// What a controller says of the state of things goes back and forth in every rollout: nobody fights over it.
    pub(super) fn add(&mut self, event: &Event) {
        let asked_for = |field: &str| field != "status" && !field.starts_with("status.");
        for change in event.changes.iter().filter(|change| asked_for(&change.field)) {
            let (Some(from), Some(to)) = (&change.from, &change.to) else { continue };
            let hashes = (hash(from), hash(to));
            let (from, to) = (short(from), short(to));
            let key = format!("{}/{} {}", event.resource.kind, event.resource.name, change.field);
            let managers = event.actors.iter().map(|actor| actor.manager.clone());
            let room = self.0.len() < FIELDS;
            match self.0.get_mut(&key) {
                Some(flap) => {
                    let undone = flap.hashes == (hashes.1, hashes.0);
                    flap.returns = if undone { flap.returns + 1 } else { 0 };
                    if flap.returns == 0 {
                        flap.managers.clear();
                    }
                    (flap.from, flap.to, flap.hashes) = (from, to, hashes);
                    flap.managers.extend(managers);
                }
                None if room => {
                    let field = describe::short_field(&change.field).to_owned();
                    let flap = Flap { field, from, to, hashes, returns: 0, managers: managers.collect() };
                    self.0.insert(key, flap);
                }
                None => {}
            }
        }
    }

    /// `Flapping: replicas went back and forth 4 times between 3 and 5: hpa and kubectl-edit undo each other`
    pub(super) fn text(&self) -> Option<String> {
        let flap = self.0.values().filter(|flap| flap.returns >= RETURNS).max_by_key(|flap| flap.returns)?;
        let managers: Vec<&str> = flap.managers.iter().map(String::as_str).collect();
        let by = match managers.as_slice() {
            [] => String::new(),
            [one] => format!(", all by {one}"),
            [one, other] => format!(": {one} and {other} undo each other"),
            several => format!(": {} undo each other", several.join(", ")),
        };
        let (mut a, mut b) = (&flap.from, &flap.to);
        if a > b {
            (a, b) = (b, a);
        }
        let between = if a == b { String::new() } else { format!(" between {a} and {b}") };
        Some(format!("Flapping: {} went back and forth {} times{between}{by}", flap.field, flap.returns + 1))
    }
}

fn short(value: &serde_json::Value) -> String {
    describe::cut(&describe::value(value), VALUE_CHARS)
}

fn hash(value: &serde_json::Value) -> u64 {
    xxhash_rust::xxh3::xxh3_64(value.to_string().as_bytes())
}
