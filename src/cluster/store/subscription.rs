//! One subscriber's own queue of deltas.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Notify;

use super::{Delta, FeedId, RETRY_COMMIT, Reader};
use crate::redact::Document;

/// The deltas of one feed for one subscriber.
///
/// - First comes every object that was stored when the subscription began, as `Added`; then each change after that
///   moment. None is missing and none comes twice.
/// - Deltas of one object arrive in the order in which they happened. Between objects there is no promise.
/// - A subscriber that is slow delays nobody. When it is more than `merge_beyond` deltas behind, deltas of the same
///   object are merged: it may skip states between, never the last one, and what it was told is always a true
///   `old -> new`. An object that came and went meanwhile may never be seen.
/// - Whatever its speed, what waits for it is at most `merge_beyond` deltas and two for each object. Only the first
///   listing should be read without long pauses: while it lasts it holds on to its moment of the state file, whose
///   log (`-wal`) grows by what is written meanwhile.
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

impl Initial {
    /// Whether there are more. Reads a page when none is at hand.
    fn more(&mut self) -> Result<bool, rusqlite::Error> {
        if self.page.is_empty() {
            let (page, after) = self.reader.page(self.feed, self.after)?;
            self.page = page.into();
            self.after = after;
        }
        Ok(!self.page.is_empty())
    }
}

impl Subscription {
    pub(super) fn new(queue: Arc<Queue>, reader: Reader, feed: FeedId) -> Self {
        Self { queue, initial: Some(Initial { reader, feed, after: 0, page: VecDeque::new() }) }
    }

    /// The next delta. Safe to drop before it is ready: nothing is lost.
    pub async fn next(&mut self) -> Option<Delta> {
        if let Some(object) = self.next_listed().await {
            return Some(Delta::Added(object));
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

    /// The next of the objects that were stored when the subscription began, `None` when all were given out. For those
    /// who need to know where the present ends and the changes begin; [`Subscription::next`] gives them too. Safe to drop
    /// before it is ready.
    pub async fn next_listed(&mut self) -> Option<Arc<Document>> {
        loop {
            let initial = self.initial.as_mut()?;
            if let Some(object) = initial.page.pop_front() {
                // Its moment of the file is let go with the last one, not with the next call, which may never come.
                if let Ok(false) = initial.more() {
                    self.initial = None;
                }
                return Some(Arc::new(object));
            }
            match initial.more() {
                Ok(true) => {}
                Ok(false) => self.initial = None,
                // What is left out here would never be told of: it has to be read in the end.
                Err(error) => {
                    tracing::error!(%error, "cannot read the stored objects for a subscriber; trying again");
                    tokio::time::sleep(RETRY_COMMIT).await;
                }
            }
        }
    }

    /// Deltas that wait to be taken, those of the first listing not counted.
    pub fn waiting(&self) -> usize {
        self.queue.lock().turns.len()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Between the writer and one subscriber. What it holds is bounded by what there is to tell: `merge_beyond` deltas, and
/// beyond those two for each object that the subscriber knows of or has yet to hear of.
#[derive(Debug)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    changed: Notify,
    merge_beyond: usize,
}

#[derive(Debug, Default)]
struct Inner {
    /// Whose turn it is, by the number of the delta that waits for it.
    turns: BTreeMap<u64, Key>,
    /// What waits, by object and in order, each with the number of its turn.
    pending: HashMap<Key, VecDeque<(u64, Delta)>>,
    next: u64,
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
        self.lock().push(delta, self.merge_beyond);
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
        match inner.pop() {
            Some(delta) => Popped::Delta(delta),
            None if inner.closed => Popped::Closed,
            None => Popped::Empty,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn push(&mut self, delta: Delta, merge_beyond: usize) {
        let meta = delta.object().meta();
        let key = Key::new((meta.namespace.clone(), meta.name.clone()));
        let crowded = self.turns.len() >= merge_beyond;
        let last = if crowded { self.pending.get_mut(&key).and_then(VecDeque::pop_back) } else { None };
        let Some((turn, before)) = last else { return self.add(key, delta) };
        match merge(before, delta) {
            Merged::Both(before, delta) => {
                self.pending.entry(key.clone()).or_default().push_back((turn, before));
                self.add(key, delta);
            }
            Merged::One(delta) => self.pending.entry(key).or_default().push_back((turn, delta)),
            Merged::None => {
                self.turns.remove(&turn);
                self.tidy(&key);
            }
        }
    }

    fn add(&mut self, key: Key, delta: Delta) {
        self.turns.insert(self.next, key.clone());
        self.pending.entry(key).or_default().push_back((self.next, delta));
        self.next += 1;
    }

    fn pop(&mut self) -> Option<Delta> {
        let (_, key) = self.turns.pop_first()?;
        let (_, delta) = self.pending.get_mut(&key)?.pop_front()?;
        self.tidy(&key);
        Some(delta)
    }

    /// Lets go of an object of which nothing waits, and of the room that a long backlog took.
    fn tidy(&mut self, key: &Key) {
        if self.pending.get(key).is_some_and(VecDeque::is_empty) {
            self.pending.remove(key);
        }
        if self.pending.is_empty() {
            self.pending = HashMap::new();
        }
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
        (Delta::Updated { old, .. }, Delta::Deleted { last, certain, .. }) => {
            Merged::One(Delta::Deleted { last, certain, stored: Some(old) })
        }
        (before, after) => Merged::Both(before, after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cluster::Resource, redact::Door};

    fn object(name: &str) -> Arc<Document> {
        let door = Door::new(&crate::redact::Settings::default(), &[7; 32]).unwrap();
        let raw = format!(r#"{{"metadata":{{"name":"{name}","namespace":"shop"}}}}"#);
        Arc::new(door.admit(&Resource::core("v1", "pods", "Pod"), raw.as_bytes()).unwrap())
    }

    fn gone(name: &str) -> Delta {
        Delta::Deleted { last: object(name), certain: true, stored: None }
    }

    #[test]
    fn objects_that_come_and_go_before_a_stalled_subscriber_leave_nothing_behind() {
        let queue = Queue::new(1);
        queue.push(Delta::Added(object("first")));
        for n in 0..1000 {
            queue.push(Delta::Added(object(&format!("brief-{n}"))));
            queue.push(gone(&format!("brief-{n}")));
        }
        let inner = queue.lock();
        assert_eq!((inner.turns.len(), inner.pending.len()), (1, 1));
    }

    /// What a subscriber may not tell apart from the truth: which objects there are, and that each step fits the last.
    #[derive(Default)]
    struct Told(HashMap<String, Arc<Document>>);

    impl Told {
        fn take(&mut self, delta: &Delta) {
            let name = delta.object().meta().name.clone();
            let before = self.0.remove(&name);
            match delta {
                Delta::Added(new) => {
                    assert!(before.is_none(), "{name} came twice");
                    self.0.insert(name, new.clone());
                }
                Delta::Updated { old, new } => {
                    assert!(before.is_some_and(|before| Arc::ptr_eq(&before, old)), "{name} was in another state");
                    self.0.insert(name, new.clone());
                }
                Delta::Deleted { stored, .. } => {
                    let before = before.unwrap_or_else(|| panic!("{name} went without having come"));
                    assert!(stored.as_ref().is_none_or(|stored| Arc::ptr_eq(stored, &before)), "{name} was otherwise");
                }
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn a_subscriber_of_any_speed_ends_with_the_truth_and_the_queue_stays_small(
            merge_beyond in 0..6_usize,
            steps in proptest::collection::vec((0..5_usize, 0..3_u8, 0..8_u8), 0..300),
        ) {
            const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
            let queue = Queue::new(merge_beyond);
            let (mut is, mut told) = (Told::default(), Told::default());
            for (name, what, reads) in steps {
                let name = NAMES[name];
                let delta = match (is.0.get(name), what) {
                    (None, _) => Delta::Added(object(name)),
                    (Some(_), 0) => gone(name),
                    (Some(old), _) => Delta::Updated { old: old.clone(), new: object(name) },
                };
                is.take(&delta);
                queue.push(delta);
                let inner = queue.lock();
                let waiting: usize = inner.pending.values().map(VecDeque::len).sum();
                assert_eq!(waiting, inner.turns.len(), "a turn each");
                assert!(inner.pending.values().all(|waits| !waits.is_empty()));
                assert!(waiting <= merge_beyond + 2 * NAMES.len(), "{waiting} wait");
                drop(inner);
                if reads == 0 && let Popped::Delta(delta) = queue.pop() {
                    told.take(&delta);
                }
            }
            while let Popped::Delta(delta) = queue.pop() {
                told.take(&delta);
            }
            assert_eq!(told.0.len(), is.0.len());
            assert!(is.0.iter().all(|(name, object)| Arc::ptr_eq(object, &told.0[name])), "the last state of each");
            assert!(queue.lock().pending.capacity() == 0, "nothing is held when nothing waits");
        }
    }
}
