//! One subscriber's own queue of deltas.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Notify;

use super::{Delta, FeedId, Reader};
use crate::redact::Document;

/// The deltas of one feed for one subscriber.
///
/// - First comes every object that was stored when the subscription began, as `Added`; then each change after that
///   moment. None is missing and none comes twice.
/// - Deltas of one object arrive in the order in which they happened. Between objects there is no promise.
/// - A subscriber that is slow delays nobody. When it is more than `merge_beyond` deltas behind, deltas of the same
///   object are merged: it may skip states between, never the last one, and what it was told is always a true
///   `old -> new`. An object that came and went meanwhile may never be seen.
/// - `None` means that the feed was closed or the store has ended, after everything before it was given out.
#[derive(Debug)]
pub struct Subscription {
    queue: Arc<Queue>,
    initial: Option<Initial>,
}

#[derive(Debug)]
struct Initial {
    reader: Reader,
    feed: FeedId,
    after: i64,
    page: VecDeque<Document>,
}

impl Subscription {
    pub(super) fn new(queue: Arc<Queue>, reader: Reader, feed: FeedId) -> Self {
        Self { queue, initial: Some(Initial { reader, feed, after: 0, page: VecDeque::new() }) }
    }

    /// The next delta. Safe to drop before it is ready: nothing is lost.
    pub async fn next(&mut self) -> Option<Delta> {
        if let Some(delta) = self.next_initial() {
            return Some(delta);
        }
        loop {
            let changed = self.queue.changed.notified();
            match self.queue.pop() {
                Popped::Delta(delta) => return Some(delta),
                Popped::Closed => return None,
                Popped::Empty => changed.await,
            }
        }
    }

    fn next_initial(&mut self) -> Option<Delta> {
        let initial = self.initial.as_mut()?;
        if initial.page.is_empty() {
            match initial.reader.page(initial.feed, initial.after) {
                Ok((page, after)) => {
                    initial.page = page.into();
                    initial.after = after;
                }
                Err(error) => tracing::error!(%error, "cannot read the stored objects for a subscriber"),
            }
        }
        match initial.page.pop_front() {
            Some(document) => Some(Delta::Added(Arc::new(document))),
            None => {
                self.initial = None;
                None
            }
        }
    }

    /// Deltas that wait to be taken, those of the first listing not counted.
    pub fn waiting(&self) -> usize {
        self.queue.lock().waiting
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Between the writer and one subscriber.
#[derive(Debug)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    changed: Notify,
    merge_beyond: usize,
}

#[derive(Debug, Default)]
struct Inner {
    /// Whose turn it is, once per waiting delta.
    order: VecDeque<Key>,
    pending: HashMap<Key, VecDeque<Delta>>,
    waiting: usize,
    closed: bool,
}

type Key = Arc<(String, String)>;

enum Popped {
    Delta(Delta),
    Empty,
    Closed,
}

impl Queue {
    pub(super) fn new(merge_beyond: usize) -> Self {
        Self { inner: Mutex::default(), changed: Notify::new(), merge_beyond }
    }

    pub(super) fn push(&self, delta: Delta) {
        let mut inner = self.lock();
        let meta = delta.object().meta();
        let key = Key::new((meta.namespace.clone(), meta.name.clone()));
        let crowded = inner.waiting >= self.merge_beyond;
        let Inner { order, pending, waiting, .. } = &mut *inner;
        let waits = pending.entry(key.clone()).or_default();
        match waits.pop_back() {
            Some(before) if crowded => match merge(before, delta) {
                Merged::Both(before, delta) => {
                    waits.extend([before, delta]);
                    order.push_back(key);
                    *waiting += 1;
                }
                Merged::One(delta) => waits.push_back(delta),
                // The turn stays in `order` and is passed over when it comes.
                Merged::None => *waiting -= 1,
            },
            before => {
                waits.extend(before);
                waits.push_back(delta);
                order.push_back(key);
                *waiting += 1;
            }
        }
        drop(inner);
        self.changed.notify_one();
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn pop(&self) -> Popped {
        let mut inner = self.lock();
        while let Some(key) = inner.order.pop_front() {
            let Some(waits) = inner.pending.get_mut(&key) else { continue };
            let delta = waits.pop_front();
            if waits.is_empty() {
                inner.pending.remove(&key);
            }
            if let Some(delta) = delta {
                inner.waiting -= 1;
                return Popped::Delta(delta);
            }
        }
        if inner.closed { Popped::Closed } else { Popped::Empty }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Merged {
    None,
    One(Delta),
    Both(Delta, Delta),
}

/// Two deltas of one object that follow each other, as one where that says the same about the end.
fn merge(before: Delta, after: Delta) -> Merged {
    match (before, after) {
        (Delta::Added(_), Delta::Updated { new, .. }) => Merged::One(Delta::Added(new)),
        (Delta::Added(_), Delta::Deleted { .. }) => Merged::None,
        (Delta::Updated { old, .. }, Delta::Updated { new, .. }) => Merged::One(Delta::Updated { old, new }),
        (Delta::Updated { .. }, gone @ Delta::Deleted { .. }) => Merged::One(gone),
        (before, after) => Merged::Both(before, after),
    }
}
