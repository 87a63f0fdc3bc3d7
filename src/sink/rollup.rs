//! All changes of one root owner in one window, told as one message: a rollout is a sentence, not forty.
//!
//! A [`Story`] takes in events and forgets most of them at once: it stays small however many there are, and is stored
//! beside the message that tells it, so that a restart goes on where it stopped. Pure: no I/O, no clock.

mod card;
mod flap;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::card::Card;
pub(crate) use self::card::Digest;
use self::flap::Flaps;
use super::{describe, format::object_name};
use crate::event::{Class, Event, Kind, Redacted};

/// Heads that are told in full; more are counted.
const HEADS: usize = 3;
/// Objects with a problem that are remembered by name.
const PROBLEMS: usize = 50;
const NAMES: usize = 3;
/// How a summary says that a rollout has exceeded its deadline.
const STUCK: &str = "rollout stuck";

/// Whose story an event belongs to: the root owner in its cluster, as text.
pub(crate) fn key(event: &Event) -> String {
    match &event.owner {
        Some(owner) => format!("{}/{}/{}/{}", event.cluster.uid, owner.kind, owner.namespace, owner.name),
        None => {
            let r = &event.resource;
            format!("{}/{}/{}/{}", event.cluster.uid, r.kind, r.namespace, r.name)
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Story {
    /// `Deployment shop/web, prod-eu`
    about: String,
    /// Changes of the owner itself that somebody asked for, most telling first.
    heads: Vec<Head>,
    more_heads: usize,
    /// What became of its children, by kind.
    children: BTreeMap<String, Tally>,
    /// What it and its children suffer from now, by kind and name.
    problems: BTreeMap<String, String>,
    /// How many pods there should be, as far as anyone said.
    wanted: Option<u64>,
    rolled_out: Option<Timestamp>,
    flaps: Flaps,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    changes: usize,
    /// The line of its only change, which has no thread yet.
    #[serde(default)]
    alone: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    weight: u8,
    id: String,
    kind: Kind,
    title: String,
    summary: String,
    diff: String,
    colour: String,
}

/// What became of the children of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Tally {
    created: usize,
    updated: usize,
    deleted: usize,
    names: BTreeSet<String>,
}

impl Story {
    /// Takes in one event more. They come in the order in which they happened to each object.
    pub(crate) fn add(&mut self, event: &Redacted) {
        self.take(event);
    }

    /// The same for a message that is shown to who asks, and sent nowhere.
    pub(super) fn take(&mut self, event: &Event) {
        self.changes += 1;
        self.alone = (self.changes == 1).then(|| line_of(event));
        self.first = Some(self.first.map_or(event.time, |first| first.min(event.time)));
        self.last = Some(self.last.map_or(event.time, |last| last.max(event.time)));
        if self.about.is_empty() {
            self.about = about(event);
        }
        self.flaps.add(event);
        self.note_progress(event);
        if event.is_child() {
            self.add_child(event);
        } else {
            self.add_head(event);
        }
    }

    /// The line of the change that it told alone: where others come, the message may tell them in its place.
    pub(crate) fn alone(&self) -> Option<&str> {
        self.alone.as_deref()
    }

    fn add_head(&mut self, event: &Event) {
        let head = Head {
            weight: weight(event),
            id: event.id.clone(),
            kind: event.kind,
            title: describe::title(event),
            summary: event.summary.clone(),
            diff: describe::diff(event, 8, 160),
            colour: describe::colour(event).to_owned(),
        };
        self.note_problem(event);
        // Among equals the newest is on top.
        let at = self.heads.iter().position(|other| other.weight <= head.weight).unwrap_or(self.heads.len());
        self.heads.insert(at, head);
        if self.heads.len() > HEADS {
            self.heads.truncate(HEADS);
            self.more_heads += 1;
        }
    }

    fn add_child(&mut self, event: &Event) {
        let tally = self.children.entry(event.resource.kind.clone()).or_default();
        tally.add(event.kind);
        if tally.names.len() < NAMES {
            tally.names.insert(event.resource.name.clone());
        }
        self.note_problem(event);
    }

    /// What an object suffers from is so until it is gone, or says something better about itself. A rollout that is stuck
    /// is so until it goes on, whatever else comes true meanwhile.
    fn note_problem(&mut self, event: &Event) {
        let key = format!("{}/{}", event.resource.kind, event.resource.name);
        if event.kind == Kind::Deleted {
            self.problems.remove(&key);
        } else if is_bad(event) {
            if self.problems.contains_key(&key) || self.problems.len() < PROBLEMS {
                self.problems.insert(key, event.summary.clone());
            }
        } else if event.classes.contains(&Class::Health) {
            let stuck = self.problems.get(&key).is_some_and(|why| why.contains(STUCK));
            let goes_on = || event.changes.iter().any(|change| change.field.contains("conditions[Progressing]"));
            if !stuck || goes_on() {
                self.problems.remove(&key);
            }
        }
    }

    /// Reads the numbers of a rollout off the owner's own changes.
    fn note_progress(&mut self, event: &Event) {
        if event.is_child() {
            return;
        }
        let of_object = |pointer: &str| event.object.as_ref().and_then(|object| object.pointer(pointer)?.as_u64());
        if let Some(wanted) = of_object("/spec/replicas") {
            self.wanted = Some(wanted);
        }
        for change in &event.changes {
            match (change.field.as_str(), change.to.as_ref()) {
                ("spec.replicas" | "status.desiredNumberScheduled", Some(to)) => {
                    self.wanted = to.as_u64().or(self.wanted);
                }
                ("status.replicas", Some(to)) => self.wanted = self.wanted.or(to.as_u64()),
                ("status.conditions[Progressing].reason", Some(to)) if to == "NewReplicaSetAvailable" => {
                    self.rolled_out = Some(event.time);
                }
                (field, _) if field.starts_with("spec.template.") => self.rolled_out = None,
                _ => {}
            }
        }
    }
}

/// `Deployment shop/web, prod-eu`, of the root owner.
fn about(event: &Event) -> String {
    let Some(owner) = event.owner.as_ref().filter(|_| event.is_child()) else { return describe::what(event) };
    let name =
        if owner.namespace.is_empty() { owner.name.clone() } else { format!("{}/{}", owner.namespace, owner.name) };
    match event.cluster.name.as_str() {
        "" => format!("{} {name}", owner.kind),
        cluster => format!("{} {name}, {cluster}", owner.kind),
    }
}

/// What people want to see first.
fn weight(event: &Event) -> u8 {
    let is = |class: Class| event.classes.contains(&class);
    match event.kind {
        Kind::Deleted => 9,
        Kind::Created => 8,
        Kind::Updated if is(Class::Image) => 7,
        Kind::Updated if is(Class::Rbac) || is(Class::Security) => 6,
        Kind::Updated if is(Class::Spec) || is(Class::Data) || is(Class::Secret) => 5,
        Kind::Updated if is(Class::Health) => 3,
        Kind::Updated if is(Class::Metadata) => 2,
        Kind::Updated => 1,
    }
}

/// Whether the sentence is about something that went wrong.
fn is_bad(event: &Event) -> bool {
    const SIGNS: [&str; 13] = [
        "crash",
        "oom",
        "fail",
        "evicted",
        "cannot",
        "not ready",
        "notready",
        "unschedulable",
        "back-off",
        "unhealthy",
        "unavailable",
        "restarted",
        STUCK,
    ];
    let summary = event.summary.to_lowercase();
    event.classes.contains(&Class::Health) && SIGNS.iter().any(|sign| summary.contains(sign))
}

/// One line about an event, for a thread.
pub(crate) fn line(event: &Redacted) -> String {
    line_of(event)
}

fn line_of(event: &Event) -> String {
    let r = &event.resource;
    let who = event.actors.first().map_or(String::new(), |actor| format!(" ({})", actor.manager));
    format!("{} {} {}: {}{who}", describe::glyph(event.kind), r.kind, object_name(event), event.summary)
}
