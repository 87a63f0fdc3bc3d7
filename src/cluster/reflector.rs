//! One state machine per feed: resume, list, watch, back off. What it learns it hands to a [`Target`].

use std::future::Future;

use super::Version;
use crate::redact::Document;

/// What a reflector learned, in the order in which it has to be taken.
#[derive(Clone, Debug)]
pub enum Update {
    /// A list begins: what the target holds and the list does not name is gone, once [`Update::ListEnded`] arrives. A
    /// list that does not end implies nothing; a new `ListBegan` starts over.
    ListBegan,
    /// Part of a list. Each object is true by itself, whether or not the list ends.
    Listed(Vec<Document>),
    /// The list is whole, and is the state at this version.
    ListEnded(Version),
    /// Added or modified. The cursor moves to the object's version with it.
    Applied(Document),
    /// The object in its last state. Its version is that of the deletion, and the cursor moves to it.
    Deleted(Document),
    /// Nothing happened up to this version: the cursor moves.
    Bookmark(Version),
}

/// Where a reflector puts what it learns: the store, or a map in a test.
pub trait Target: Send {
    /// The version up to which everything was put here before; `None` when nothing ever was.
    fn cursor(&self) -> Option<Version>;

    /// Takes one update; waits when the target is behind. Fails only when the target is gone for good.
    fn put(&mut self, update: Update) -> impl Future<Output = Result<(), Closed>> + Send;
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store is closed")]
pub struct Closed;
