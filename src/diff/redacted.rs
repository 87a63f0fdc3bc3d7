//! Diffs of documents: what was compared has passed the door, so nothing else is in them.

use std::ops::Deref;

use json_patch::Patch;
use serde::Serialize;

use super::{Diff, Keys, walk};
use crate::redact::Contents;

/// A [`Diff`] of two documents, and of nothing else: what an event tells of an update.
///
/// [`super::diff`] compares any JSON, and what it finds cannot be told:
///
/// ```compile_fail,E0308
/// use kubediff::diff::{Keys, Redacted, diff};
/// let (old, new) = (serde_json::json!({}), serde_json::json!({"password": "hunter2"}));
/// let told: Redacted = diff(&old, &new, &Keys::default());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Redacted(Diff);

/// A patch of such a diff: what the ledger keeps to go back over a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct RedactedPatch(Patch);

/// [`super::diff`] of documents, or of the same sections of two.
pub fn documents(old: &Contents, new: &Contents, keys: &Keys) -> Redacted {
    Redacted(walk::walk(old, new, keys))
}

/// The same for documents with marks ([`crate::redact::Document::marked`]). `None` when the answer would have to tell of
/// what a mark stands for: then the whole documents have to be compared.
pub fn marked(old: &Contents, new: &Contents, keys: &Keys) -> Option<Redacted> {
    walk::walk_marked(old, new, keys).map(Redacted)
}

impl Redacted {
    pub fn into_inner(self) -> Diff {
        self.0
    }

    pub fn into_patch(self) -> RedactedPatch {
        RedactedPatch(self.0.patch)
    }

    /// The inverse, which is empty from then on.
    pub fn take_inverse(&mut self) -> RedactedPatch {
        RedactedPatch(std::mem::take(&mut self.0.inverse))
    }
}

impl Deref for Redacted {
    type Target = Diff;

    fn deref(&self) -> &Diff {
        &self.0
    }
}
