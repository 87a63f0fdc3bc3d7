//! A change's JSON pointer, resolved against the documents: each list item it goes through is at hand, so that who, what
//! sort and the sentence can be worked out from names instead of numbers.

use std::borrow::Cow;

use serde_json::Value;

use crate::diff::{Change, Op};

/// Stands for whatever is missing.
pub(super) static NULL: Value = Value::Null;

#[derive(Clone, Debug)]
pub(super) enum Step<'a> {
    Key(Cow<'a, str>),
    /// An item of a list, at this place in the document that the path points into.
    Item(&'a Value),
}

/// A change and where it is.
#[derive(Clone, Debug)]
pub(super) struct Spot<'a> {
    pub(super) change: &'a Change,
    pub(super) steps: Vec<Step<'a>>,
}

impl<'a> Spot<'a> {
    /// Removed fields are looked up in the old document, all others in the new one. A path that leads nowhere (sections
    /// that did not change may be missing) keeps its numbers as keys.
    pub(super) fn locate(change: &'a Change, old: &'a Value, new: &'a Value) -> Self {
        let mut at = if change.op == Op::Remove { old } else { new };
        let steps = change.path.split('/').skip(1).map(|segment| {
            if let Value::Array(items) = at
                && let Some(item) = segment.parse::<usize>().ok().and_then(|index| items.get(index))
            {
                at = item;
                return Step::Item(item);
            }
            let key = unescape(segment);
            at = at.get(key.as_ref()).unwrap_or(&NULL);
            Step::Key(key)
        });
        let steps = steps.collect();
        Self { change, steps }
    }

    /// All changes of an event.
    pub(super) fn locate_all(changes: &'a [Change], old: &'a Value, new: &'a Value) -> Vec<Self> {
        changes.iter().map(|change| Self::locate(change, old, new)).collect()
    }

    /// The key at a place, `""` where a list item or nothing is.
    pub(super) fn key(&self, index: usize) -> &str {
        match self.steps.get(index) {
            Some(Step::Key(key)) => key,
            _ => "",
        }
    }

    /// The list item at a place.
    pub(super) fn item(&self, index: usize) -> &'a Value {
        match self.steps.get(index) {
            Some(Step::Item(item)) => item,
            _ => &NULL,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(super) fn last_key(&self) -> &str {
        self.key(self.len().wrapping_sub(1))
    }

    /// Whether the path begins with these keys; `*` stands for any one step.
    pub(super) fn starts(&self, pattern: &[&str]) -> bool {
        self.len() >= pattern.len() && pattern.iter().enumerate().all(|(i, want)| *want == "*" || self.key(i) == *want)
    }

    /// Whether the path is these keys and no more; `*` stands for any one step.
    pub(super) fn is(&self, pattern: &[&str]) -> bool {
        self.len() == pattern.len() && self.starts(pattern)
    }

    pub(super) fn from(&self) -> &'a Value {
        self.change.from.as_ref().unwrap_or(&NULL)
    }

    pub(super) fn to(&self) -> &'a Value {
        self.change.to.as_ref().unwrap_or(&NULL)
    }

    pub(super) fn removed(&self) -> bool {
        self.change.op == Op::Remove
    }

    pub(super) fn moved(&self) -> bool {
        self.change.op == Op::Move
    }
}

fn unescape(segment: &str) -> Cow<'_, str> {
    if segment.contains('~') {
        Cow::Owned(segment.replace("~1", "/").replace("~0", "~"))
    } else {
        Cow::Borrowed(segment)
    }
}
