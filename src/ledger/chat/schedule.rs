//! Whose turn it is in a chat. Pure: what waits and times in, an order out.
//!
//! Whoever has waited longest since it was due is next, whether its message is new or edited: owners that never stop
//! changing take turns with all the others.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, time::Duration};

use super::{super::seat::millis, group::Group};
use crate::sink::Habits;

/// Between two edits of the same message.
pub(super) const EDIT_INTERVAL: Duration = Duration::from_secs(3);

/// Owners that wait for a message of their own; with more, they get one digest together.
const OVERFLOW: usize = 20;

/// What is to be told next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    One(String),
    Digest(Vec<String>),
}

/// The changes that are not told yet, by their owners.
pub(super) struct Schedule {
    habits: Habits,
    groups: HashMap<String, Group>,
    /// When each open message was last changed.
    edited: HashMap<String, i64>,
    draining: bool,
}

impl Schedule {
    pub(super) fn new(habits: Habits) -> Self {
        Self { habits, groups: HashMap::new(), edited: HashMap::new(), draining: false }
    }

    /// Nothing waits for company any more.
    pub(super) fn drain(&mut self) {
        self.draining = true;
    }

    /// How many changes wait.
    pub(super) fn pending(&self) -> usize {
        self.groups.values().map(|group| group.seqs.len()).sum()
    }

    pub(super) fn newest(&self) -> i64 {
        self.groups.values().filter_map(|group| group.seqs.last()).copied().max().unwrap_or(0)
    }

    pub(super) fn holds(&self, seq: i64) -> bool {
        self.groups.values().any(|group| group.seqs.contains(&seq))
    }

    pub(super) fn get(&self, key: &str) -> Option<&Group> {
        self.groups.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Group> {
        self.groups.get_mut(key)
    }

    pub(super) fn insert(&mut self, key: String, group: Group) {
        self.groups.insert(key, group);
    }

    /// Takes a group out, to be told of.
    pub(super) fn take(&mut self, key: &str) -> Option<Group> {
        self.groups.remove(key)
    }

    /// An owner's message was posted or edited.
    pub(super) fn changed(&mut self, key: String, now: i64) {
        self.edited.insert(key, now);
        self.edited.retain(|_, at| now - *at < millis(EDIT_INTERVAL));
    }

    /// When a group should be told of. One that could not be comes after those that were due when it was tried.
    fn due_at(&self, key: &str, group: &Group) -> i64 {
        if self.draining {
            return group.tried_at;
        }
        let (wait, max) = (millis(self.habits.wait), millis(self.habits.max));
        let due = match &group.message {
            Some(_) => self.edited.get(key).map_or(group.first, |at| group.first.max(at + millis(EDIT_INTERVAL))),
            None if self.habits.edits => group.first + wait,
            // What cannot be edited waits until it is quiet.
            None => (group.last + wait).min(group.first + max),
        };
        due.max(group.tried_at)
    }

    /// Whose turn has come: all that have no message yet when they are too many, or the one that is due for longest.
    pub(super) fn turn(&self, now: i64) -> Option<Turn> {
        let due = || self.groups.iter().filter(|(key, group)| self.due_at(key, group) <= now);
        let new = || due().filter(|(_, group)| group.message.is_none()).map(|(key, _)| key);
        if new().nth(OVERFLOW).is_some() {
            return Some(Turn::Digest(new().cloned().collect()));
        }
        due().min_by_key(|(key, group)| (self.due_at(key, group), *key)).map(|(key, _)| Turn::One(key.clone()))
    }

    /// When the next turn comes.
    pub(super) fn next_at(&self) -> Option<i64> {
        self.groups.iter().map(|(key, group)| self.due_at(key, group)).min()
    }
}
