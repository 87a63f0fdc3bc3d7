//! Events that hold nothing but what has passed the door: what the ledger records and the sinks send.

use std::{ops::Deref, sync::OnceLock};

use bytes::Bytes;
use serde::{Serialize, Serializer};

use super::Event;

/// Bytes that the text of most events is shorter than.
const USUAL: usize = 2048;

/// An [`Event`] made of documents, by [`super::Builder::build`], and of nothing else.
///
/// It reads as the event that it is and cannot be changed. `Event` itself is plain data, for whoever reads what kubediff
/// wrote, and no way leads from it to this:
///
/// ```compile_fail,E0423
/// fn tell(event: kubediff::event::Event) -> kubediff::event::Redacted {
///     kubediff::event::Redacted(event)
/// }
/// ```
///
/// ```compile_fail,E0277
/// let told: kubediff::event::Redacted = serde_json::from_str("{}").unwrap();
/// ```
///
/// ```compile_fail,E0594
/// fn add(mut told: kubediff::event::Redacted) {
///     told.summary = "the password is hunter2".to_owned();
/// }
/// ```
///
/// nor does one from plain JSON, as a state of an object or as a diff:
///
/// ```compile_fail,E0308
/// fn state(document: &kubediff::redact::Document) -> kubediff::event::State<'_> {
///     kubediff::event::State { document, contents: &serde_json::json!({"password": "hunter2"}) }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Redacted {
    event: Event,
    /// Made once for all that store and send it; it holds for ever, since nothing of the event can be changed.
    json: OnceLock<Bytes>,
}

impl Redacted {
    /// By [`super::build`], of states and diffs that are redacted themselves.
    pub(super) fn built(event: Event) -> Self {
        Self { event, json: OnceLock::new() }
    }

    /// Brings back what was recorded: for the ledger, of what its own file holds, and for nothing else.
    pub(crate) fn restored(event: Event) -> Self {
        Self { event, json: OnceLock::new() }
    }

    /// Of no cluster at all: for the sample that is sent to try a sink, and for tests.
    pub(crate) fn invented(event: Event) -> Self {
        Self { event, json: OnceLock::new() }
    }

    /// The event for whoever wants one of his own. There is no way back.
    pub fn into_inner(self) -> Event {
        self.event
    }

    /// Its JSON text.
    pub fn json(&self) -> serde_json::Result<&Bytes> {
        if let Some(json) = self.json.get() {
            return Ok(json);
        }
        let mut json = Vec::with_capacity(USUAL);
        serde_json::to_writer(&mut json, &self.event)?;
        // Without the room that was not needed: it may be kept for a while.
        Ok(self.json.get_or_init(|| Bytes::copy_from_slice(&json)))
    }
}

impl PartialEq for Redacted {
    fn eq(&self, other: &Self) -> bool {
        self.event == other.event
    }
}

impl Serialize for Redacted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.event.serialize(serializer)
    }
}

impl Deref for Redacted {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}
