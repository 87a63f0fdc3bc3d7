//! Two documents in; out of one walk come an RFC 6902 patch, its inverse and the changes in words that a person can
//! read. List items are matched by their keys.
//!
//! Pure: no I/O, no clock.
//!
//! # How a field is written
//! [`Change::field`] joins the names of members with dots and puts list items in brackets:
//! `spec.template.spec.containers[web].env[LOG_LEVEL].value`.
//!
//! - A member whose name is not made of letters, digits, `_`, `-` and `$` stands quoted, as JSON does it:
//!   `metadata.annotations["example.com/x"]`, `data["nginx.conf"]`.
//! - An item of a list with keys is named by their values, several joined by a slash: `containers[web]`,
//!   `volumeMounts[/etc/web]`, `ports[80/TCP]`.
//! - Values that could be taken for something else are written with their key: `ports[containerPort=80]`,
//!   `env[name="a b"]`.
//! - Any other item is named by its index: `args[3]`, in the new list, or in the old one when it was removed.
//!
//! So bare digits are always an index, a bare quoted text is always a member, and everything else is a key.

pub mod keys;

pub(crate) mod lines;
mod list;
mod matching;
mod order;
mod path;
mod redacted;
mod sequence;
mod size;
mod walk;

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    keys::Keys,
    redacted::{Redacted, RedactedPatch, documents, marked},
};

/// What an update did to a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// Applied to the old document it gives exactly the new one.
    pub patch: json_patch::Patch,
    /// Applied to the new document it gives exactly the old one.
    pub inverse: json_patch::Patch,
    /// Empty if and only if the patch is.
    pub changes: Vec<Change>,
}

/// One changed field, for people and for filters.
///
/// Changes are always told field by field, also where the patch replaces a whole object because that is shorter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    pub op: Op,
    /// JSON pointer: into the new document for add, replace and move, into the old one for remove.
    pub path: String,
    /// The same with list items named by their key: `spec.template.spec.containers[web].image`.
    pub field: String,
    /// The value that was there; of a move the index in the old list.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "there")]
    pub from: Option<Value>,
    /// The value that is there now; of a move the index in the new list.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "there")]
    pub to: Option<Value>,
    /// For long texts of several lines: the line diff, in unified form with two lines around each change. `from` and
    /// `to` are left out then. Of a huge diff it holds the beginning, and a last line that starts with `\`
    /// counts the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<String>,
}

/// A value of null is a value: what is stored reads back as it was told.
fn there<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Add,
    Remove,
    Replace,
    /// A list item went to another place. What changed inside it stands beside this as changes of its own.
    Move,
}

/// Compares two values, or the same top-level fields of two: where both are objects the root itself is never replaced, so
/// a patch of some sections applies to the whole. For any JSON; of what has passed the door it is [`documents`].
pub fn diff(old: &Value, new: &Value, keys: &Keys) -> Diff {
    walk::walk(old, new, keys)
}
