//! The work queue of the controller pattern: keyed, de-duplicating, with a backoff per key.
//!
//! - A key that is added while it waits is worked on once. One that is added while it is being worked on is worked on
//!   again afterwards, never by two workers at once. Keys are given out in the order in which they were added.
//! - [`Queue::add_after`] adds a key when its time has come, in the order of those times; asked for twice, the earlier
//!   time counts, once.
//! - [`Queue::retry`] adds a key again after a pause that doubles with each retry until [`Queue::forget`]. Each key has
//!   its own count.
//! - [`Queue::shut_down`] gives out what waits already, then `None`; a key that was added during its work counts as
//!   waiting, one that waits for its time is let go. [`Queue::drain`] waits until all of that is worked on.
//! - A [`Work`] that is dropped, by a worker that failed or panicked too, gives its key free.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// The pauses of a key's retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub longest: Duration,
}

impl Default for Backoff {
    /// client-go's numbers.
    fn default() -> Self {
        Self { first: Duration::from_millis(5), longest: Duration::from_secs(1000) }
    }
}

impl Backoff {
    /// Before the retry with this number, from 1.
    fn pause(self, retry: u32) -> Duration {
        self.first.saturating_mul(1_u32.checked_shl(retry.saturating_sub(1)).unwrap_or(u32::MAX)).min(self.longest)
    }
}

/// A handle on the queue; clones share it.
#[derive(Debug)]
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

#[derive(Debug)]
struct Shared<K> {
    inner: Mutex<Inner<K>>,
    changed: Notify,
    /// Nothing waits and nobody works.
    idle: Notify,
    backoff: Backoff,
}

#[derive(Debug)]
struct Inner<K> {
    order: VecDeque<K>,
    /// Wants work: waits in `order`, or will when its present work is done.
    dirty: HashSet<K>,
    working: HashSet<K>,
    failures: HashMap<K, u32>,
    /// Keys that wait for their time, in its order; those of one moment in the order in which they were added.
    later: BTreeMap<(Instant, u64), K>,
    /// Where each of them stands.
    times: HashMap<K, (Instant, u64)>,
    next: u64,
    shutting_down: bool,
}

/// A key that a worker has taken. It may be taken again only when this is dropped.
#[derive(Debug)]
pub struct Work<K: Clone + Eq + Hash> {
    key: K,
    queue: Queue<K>,
}

impl<K: Clone + Eq + Hash> Default for Queue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    pub fn new() -> Self {
        Self::with_backoff(Backoff::default())
    }

    pub fn with_backoff(backoff: Backoff) -> Self {
        let inner = Inner {
            order: VecDeque::new(),
            dirty: HashSet::new(),
            working: HashSet::new(),
            failures: HashMap::new(),
            later: BTreeMap::new(),
            times: HashMap::new(),
            next: 0,
            shutting_down: false,
        };
        let (changed, idle) = (Notify::new(), Notify::new());
        Self { shared: Arc::new(Shared { inner: Mutex::new(inner), changed, idle, backoff }) }
    }

    pub fn add(&self, key: K) {
        self.lock().add(key);
        self.shared.changed.notify_one();
    }

    /// Adds a key after a pause, without one at once.
    pub fn add_after(&self, key: K, pause: Duration) {
        self.lock().add_at(key, Instant::now(), pause);
        self.shared.changed.notify_one();
    }

    /// Adds a key again because its work failed: after 5 ms, 10 ms, 20 ms and so on, up to 1000 s, or as its
    /// [`Backoff`] says.
    pub fn retry(&self, key: K) {
        let mut inner = self.lock();
        let failures = inner.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        let pause = self.shared.backoff.pause(*failures);
        inner.add_at(key, Instant::now(), pause);
        drop(inner);
        self.shared.changed.notify_one();
    }

    /// The work of a key went well: its next retry is its first again.
    pub fn forget(&self, key: &K) {
        self.lock().failures.remove(key);
    }

    /// How often a key was retried since it was forgotten.
    pub fn retries(&self, key: &K) -> u32 {
        self.lock().failures.get(key).copied().unwrap_or_default()
    }

    /// The next key to work on; `None` after a shutdown, when nothing waits any more.
    pub async fn next(&self) -> Option<Work<K>> {
        loop {
            let changed = self.shared.changed.notified();
            let due = {
                let mut inner = self.lock();
                let due = inner.take_due();
                if let Some(key) = inner.take() {
                    // Another worker may be asleep while more waits.
                    self.shared.changed.notify_one();
                    return Some(Work { key, queue: self.clone() });
                }
                if inner.shutting_down {
                    self.shared.changed.notify_one();
                    return None;
                }
                due
            };
            match due {
                Some(at) => drop(tokio::time::timeout_at(at, changed).await),
                None => changed.await,
            }
        }
    }

    /// Takes nothing new; workers get what waits, then `None`. Does not wait for them.
    pub fn shut_down(&self) {
        let mut inner = self.lock();
        inner.shutting_down = true;
        inner.later.clear();
        inner.times.clear();
        drop(inner);
        self.shared.changed.notify_waiters();
        self.shared.changed.notify_one();
    }

    /// [`Queue::shut_down`], and waits until what waited is worked on and nobody works any more.
    pub async fn drain(&self) {
        self.shut_down();
        loop {
            let idle = self.shared.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            if self.lock().is_idle() {
                return;
            }
            idle.await;
        }
    }

    /// Keys that wait for a worker; those that wait for their time or are being worked on are not counted.
    pub fn len(&self) -> usize {
        let mut inner = self.lock();
        inner.take_due();
        inner.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> Inner<K> {
    fn add(&mut self, key: K) {
        if self.shutting_down || !self.dirty.insert(key.clone()) {
            return;
        }
        if !self.working.contains(&key) {
            self.order.push_back(key);
        }
    }

    fn add_at(&mut self, key: K, now: Instant, pause: Duration) {
        if self.shutting_down {
            return;
        }
        if pause.is_zero() {
            return self.add(key);
        }
        // Longer than any clock goes: never.
        let Some(at) = now.checked_add(pause) else { return };
        match self.times.get(&key) {
            Some((earlier, _)) if *earlier <= at => return,
            Some(later) => drop(self.later.remove(later)),
            None => {}
        }
        self.times.insert(key.clone(), (at, self.next));
        self.later.insert((at, self.next), key);
        self.next += 1;
    }

    /// Moves keys whose time has come into the queue; says when the next one's comes.
    fn take_due(&mut self) -> Option<Instant> {
        let now = Instant::now();
        while let Some(first) = self.later.first_entry() {
            if first.key().0 > now {
                return Some(first.key().0);
            }
            let key = first.remove();
            self.times.remove(&key);
            self.add(key);
        }
        None
    }

    fn is_idle(&self) -> bool {
        self.order.is_empty() && self.working.is_empty()
    }

    fn take(&mut self) -> Option<K> {
        let key = self.order.pop_front()?;
        self.dirty.remove(&key);
        self.working.insert(key.clone());
        Some(key)
    }
}

impl<K: Clone + Eq + Hash> Work<K> {
    pub fn key(&self) -> &K {
        &self.key
    }
}

impl<K: Clone + Eq + Hash> Drop for Work<K> {
    fn drop(&mut self) {
        let mut inner = self.queue.lock();
        inner.working.remove(&self.key);
        if inner.dirty.contains(&self.key) {
            inner.order.push_back(self.key.clone());
        }
        let idle = inner.is_idle();
        drop(inner);
        self.queue.shared.changed.notify_one();
        if idle {
            self.queue.shared.idle.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
