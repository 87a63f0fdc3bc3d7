//! Two lists: what was removed, added, moved and changed in place.

use serde_json::Value;

use super::{
    matching,
    order::{self, Edit, Place},
    path::{Item, Key, Side, Step},
    walk::Walk,
};
use crate::redact::pair::holds_mark;

impl<'a> Walk<'a> {
    pub(super) fn list(&mut self, old: &'a [Value], new: &'a [Value]) {
        let head = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        if head == old.len() && head == new.len() {
            return;
        }
        let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(old, new)| old == new).count();
        let keys = self.keys;
        let schema = keys.list(self.path.steps());
        // Keys have to tell all items apart, not only those between the equal ends.
        let (key, matches) = match matching::by_key(schema, old, new) {
            Some((key, matches)) => {
                let inner = matches[head..old.len() - tail].iter().map(|new| new.map(|new| new - head)).collect();
                (key, inner)
            }
            None => {
                // Items are compared with each other here, and a mark is only equal to the one at its own place.
                self.inexact |= old.iter().chain(new).any(holds_mark);
                (Key::None, matching::by_value(&old[head..old.len() - tail], &new[head..new.len() - tail]))
            }
        };
        let between = Between {
            head,
            key,
            pairs: pair(matches, &old[head..old.len() - tail], &new[head..new.len() - tail]),
            old: &old[head..old.len() - tail],
            new: &new[head..new.len() - tail],
        };
        self.remove_items(&between);
        self.place_items(&between);
        self.change_items(&between);
    }

    /// From the back, so that every index is that of the old list.
    fn remove_items(&mut self, between: &Between<'a>) {
        let list = self.path.pointer(Side::New).to_owned();
        for (at, _) in between.pairs.of_old.iter().enumerate().rev().filter(|(_, pair)| pair.is_none()) {
            self.take_out(format!("{list}/{}", between.head + at).into(), &between.old[at]);
        }
        for (at, _) in between.pairs.of_old.iter().enumerate().filter(|(_, pair)| pair.is_none()) {
            self.at(between.old_item(at), |walk| walk.removed(&between.old[at]));
        }
    }

    fn place_items(&mut self, between: &Between<'a>) {
        let list = self.path.pointer(Side::New).to_owned();
        let at = |index: usize| format!("{list}/{}", between.head + index).into();
        let (places, old_len) = between.pairs.places(between.new.len());
        for (new, edit) in order::edits(&places, old_len) {
            match edit {
                Edit::Insert { at: index } => {
                    self.insert(at(index), &between.new[new]);
                    self.at(between.new_item(new), |walk| walk.added(&between.new[new]));
                }
                Edit::Move { from, to } => {
                    self.relocate(at(from), at(to));
                    let old = between.pairs.of_new[new].unwrap_or(new);
                    self.at(between.item(old, new), |walk| walk.moved(between.head + old, between.head + new));
                }
            }
        }
    }

    fn change_items(&mut self, between: &Between<'a>) {
        for (new, old) in between.pairs.of_new.iter().enumerate() {
            let Some(old) = *old else { continue };
            if matches!(between.key, Key::None) && between.pairs.is_same[old] {
                continue;
            }
            let (from, to) = (&between.old[old], &between.new[new]);
            let before = self.mark();
            self.at(between.item(old, new), |walk| {
                walk.value(from, to);
                if between.pairs.is_same[old] {
                    return;
                }
                // Another item stands where one stood. The patch may make it out of the old one, people are told what
                // happened: one went and one came; without keys, one was replaced, unless it was changed in part.
                match between.key {
                    Key::None if walk.is_one_replace(before) => {
                        walk.changes.truncate(before.changes);
                        walk.replaced(from, to);
                    }
                    Key::None => {}
                    _ => walk.changes.truncate(before.changes),
                }
            });
            if !between.pairs.is_same[old] && !matches!(between.key, Key::None) {
                self.at(between.old_item(old), |walk| walk.removed(from));
                self.at(between.new_item(new), |walk| walk.added(to));
            }
        }
    }
}

/// The items of two lists between the equal items at both ends.
struct Between<'a> {
    /// How many equal items stand before.
    head: usize,
    key: Key<'a>,
    old: &'a [Value],
    new: &'a [Value],
    pairs: Pairs,
}

impl<'a> Between<'a> {
    fn item(&self, old: usize, new: usize) -> Step<'a> {
        Step::Item(Item { old: self.head + old, new: self.head + new, value: &self.new[new], key: self.key })
    }

    fn old_item(&self, old: usize) -> Step<'a> {
        let at = self.head + old;
        Step::Item(Item { old: at, new: at, value: &self.old[old], key: self.key })
    }

    fn new_item(&self, new: usize) -> Step<'a> {
        let at = self.head + new;
        Step::Item(Item { old: at, new: at, value: &self.new[new], key: self.key })
    }
}

/// Which old item becomes which new one.
struct Pairs {
    of_old: Vec<Option<usize>>,
    of_new: Vec<Option<usize>>,
    /// For each old item, whether it keeps its place among the others.
    stays: Vec<bool>,
    /// For each old item, whether its new one is the same thing; otherwise it only takes its place.
    is_same: Vec<bool>,
}

/// Takes the matches, decides which of them stay in place, and pairs what is left over between two that stay.
fn pair(matches: Vec<Option<usize>>, old: &[Value], new: &[Value]) -> Pairs {
    let mut of_new = vec![None; new.len()];
    for (old, new) in matches.iter().enumerate() {
        if let Some(new) = *new {
            of_new[new] = Some(old);
        }
    }
    let ranks: Vec<usize> = matches.iter().flatten().copied().collect();
    let mut run = order::stays(&ranks).into_iter();
    let stays: Vec<bool> = matches.iter().map(|new| new.is_some() && run.next().unwrap_or(false)).collect();
    let is_same = matches.iter().map(Option::is_some).collect();
    let mut pairs = Pairs { of_old: matches, of_new, stays, is_same };
    let (mut old_at, mut new_at) = (0, 0);
    loop {
        let old_end = (old_at..old.len()).find(|&at| pairs.stays[at]).unwrap_or(old.len());
        let new_end = pairs.of_old.get(old_end).copied().flatten().unwrap_or(new.len());
        let left: Vec<usize> = (old_at..old_end).filter(|&at| pairs.of_old[at].is_none()).collect();
        let come: Vec<usize> = (new_at..new_end).filter(|&at| pairs.of_new[at].is_none()).collect();
        for (old, new) in matching::by_likeness(old, &left, new, &come) {
            pairs.of_old[old] = Some(new);
            pairs.of_new[new] = Some(old);
            pairs.stays[old] = true;
        }
        if old_end == old.len() {
            return pairs;
        }
        (old_at, new_at) = (old_end + 1, new_end + 1);
    }
}

impl Pairs {
    /// What [`order::edits`] wants to know, and the length of the old list without what is removed from it.
    fn places(&self, new_len: usize) -> (Vec<Place>, usize) {
        let mut left = 0;
        let indices: Vec<usize> = self
            .of_old
            .iter()
            .map(|new| {
                left += usize::from(new.is_some());
                left.saturating_sub(1)
            })
            .collect();
        let places = (0..new_len)
            .map(|new| match self.of_new[new] {
                None => Place::Added,
                Some(old) if self.stays[old] => Place::Stayed(indices[old]),
                Some(old) => Place::Moved(indices[old]),
            })
            .collect();
        (places, left)
    }
}
