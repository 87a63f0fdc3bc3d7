//! Two documents in; out of one walk come an RFC 6902 patch, its inverse and the changes in words that a person can
//! read. List items are matched by their keys.
//!
//! Pure: no I/O, no clock.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an update did to a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// Applied to the old document it gives exactly the new one.
    pub patch: json_patch::Patch,
    /// Applied to the new document it gives exactly the old one.
    pub inverse: json_patch::Patch,
    pub changes: Vec<Change>,
}

/// One changed field, for people and for filters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    pub op: Op,
    /// JSON pointer: into the new document for add and replace, into the old one for remove.
    pub path: String,
    /// The same with list items named by their key: `spec.template.spec.containers[web].image`.
    pub field: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
    /// For long texts of several lines: the line diff, in unified form with two lines around each change. `from` and
    /// `to` are left out then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Add,
    Remove,
    Replace,
    /// A list item went to another place with nothing else changed.
    Move,
}
