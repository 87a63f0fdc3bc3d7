//! What a document holds, as a value: what `diff` compares and `event` tells of.

use std::ops::Deref;

use serde::Serialize;
use serde_json::Value;

/// All of a document or some of its sections, read out of it; see [`super::Document::contents`].
///
/// It reads as the value that it is, and nothing but a document gives one: what takes `Contents` cannot be handed
/// anything that did not pass the door.
///
/// ```compile_fail,E0423
/// let plain = serde_json::json!({"password": "hunter2"});
/// let contents = kubediff::redact::Contents(plain);
/// ```
///
/// ```compile_fail,E0596
/// fn edit(mut contents: kubediff::redact::Contents) {
///     contents["password"] = "hunter2".into();
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Contents(pub(super) Value);

impl Contents {
    /// The value for whoever wants one of his own. There is no way back.
    pub fn into_value(self) -> Value {
        self.0
    }
}

impl Deref for Contents {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl PartialEq<Value> for Contents {
    fn eq(&self, other: &Value) -> bool {
        self.0 == *other
    }
}
