//! The work queue of the controller pattern: keyed, de-duplicating, with a backoff per key.
//!
//! - A key that is added while it waits is worked on once. One that is added while it is being worked on is worked on
//!   again afterwards, never by two workers at once.
//! - [`Queue::retry`] adds a key again after a pause that doubles with each retry until [`Queue::forget`].
//! - [`Queue::shut_down`] gives out what waits already, then `None`; keys that wait for their retry are let go.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// The pauses of a key's first and longest retry: client-go's numbers.
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LONGEST_RETRY: Duration = Duration::from_secs(1000);

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
}

#[derive(Debug)]
struct Inner<K> {
    order: VecDeque<K>,
    /// Wants work: waits in `order`, or will when its present work is done.
    dirty: HashSet<K>,
    working: HashSet<K>,
    failures: HashMap<K, u32>,
    later: Vec<(Instant, K)>,
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
        let inner = Inner {
            order: VecDeque::new(),
            dirty: HashSet::new(),
            working: HashSet::new(),
            failures: HashMap::new(),
            later: Vec::new(),
            shutting_down: false,
        };
        Self { shared: Arc::new(Shared { inner: Mutex::new(inner), changed: Notify::new() }) }
    }

    pub fn add(&self, key: K) {
        self.lock().add(key);
        self.shared.changed.notify_one();
    }

    /// Adds a key after a pause.
    pub fn add_after(&self, key: K, pause: Duration) {
        let mut inner = self.lock();
        if !inner.shutting_down {
            inner.later.push((Instant::now() + pause, key));
        }
        drop(inner);
        self.shared.changed.notify_one();
    }

    /// Adds a key again because its work failed: after 5 ms, 10 ms, 20 ms and so on, up to 1000 s.
    pub fn retry(&self, key: K) {
        let pause = {
            let mut inner = self.lock();
            let failures = inner.failures.entry(key.clone()).or_default();
            *failures += 1;
            FIRST_RETRY.saturating_mul(1 << (*failures - 1).min(20)).min(LONGEST_RETRY)
        };
        self.add_after(key, pause);
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

    /// Takes nothing new; workers get what waits, then `None`.
    pub fn shut_down(&self) {
        let mut inner = self.lock();
        inner.shutting_down = true;
        inner.later.clear();
        drop(inner);
        self.shared.changed.notify_waiters();
        self.shared.changed.notify_one();
    }

    pub fn len(&self) -> usize {
        self.lock().order.len()
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

    /// Moves keys whose pause is over into the queue; says when the next one's is.
    fn take_due(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let (due, later): (Vec<_>, Vec<_>) = self.later.drain(..).partition(|(at, _)| *at <= now);
        self.later = later;
        due.into_iter().for_each(|(_, key)| self.add(key));
        self.later.iter().map(|(at, _)| *at).min()
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
        drop(inner);
        self.queue.shared.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[tokio::test]
    async fn a_key_added_twice_is_worked_on_once() {
        let queue = Queue::new();
        queue.add("a");
        queue.add("b");
        queue.add("a");
        assert_eq!(*queue.next().await.unwrap().key(), "a");
        assert_eq!(*queue.next().await.unwrap().key(), "b");
        assert!(queue.is_empty());
    }

    #[tokio::test]
    async fn a_key_added_during_its_work_is_worked_on_again_but_not_at_once() {
        let queue = Queue::new();
        queue.add("a");
        let work = queue.next().await.unwrap();
        queue.add("a");
        assert!(queue.is_empty(), "no second worker may take it now");
        drop(work);
        assert_eq!(*queue.next().await.unwrap().key(), "a");
    }

    #[tokio::test(start_paused = true)]
    async fn retries_wait_twice_as_long_each_time_until_forgotten() {
        let queue = Queue::new();
        let mut waited = Vec::new();
        for _ in 0..4 {
            let began = Instant::now();
            queue.retry("a");
            drop(queue.next().await.unwrap());
            waited.push(began.elapsed());
        }
        assert_eq!(waited, [millis(5), millis(10), millis(20), millis(40)]);
        queue.forget(&"a");
        let began = Instant::now();
        queue.retry("a");
        drop(queue.next().await.unwrap());
        assert_eq!(began.elapsed(), millis(5));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_retry_is_a_thousand_seconds() {
        let queue = Queue::new();
        for _ in 0..40 {
            queue.retry("a");
            drop(queue.next().await.unwrap());
        }
        let began = Instant::now();
        queue.retry("a");
        drop(queue.next().await.unwrap());
        assert_eq!(began.elapsed(), LONGEST_RETRY);
    }

    #[tokio::test]
    async fn a_shutdown_gives_out_what_waits_and_then_nothing() {
        let queue = Queue::new();
        queue.add(1);
        queue.add(2);
        queue.retry(3);
        queue.shut_down();
        queue.add(4);
        let mut got = Vec::new();
        while let Some(work) = queue.next().await {
            got.push(*work.key());
        }
        assert_eq!(got, [1, 2]);
    }

    #[tokio::test]
    async fn many_workers_share_the_keys_and_all_end() {
        let queue = Queue::new();
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let queue = queue.clone();
            workers.spawn(async move {
                let mut done = 0;
                while let Some(work) = queue.next().await {
                    queue.forget(work.key());
                    tokio::task::yield_now().await;
                    done += 1;
                }
                done
            });
        }
        for key in 0..100 {
            queue.add(key);
        }
        queue.shut_down();
        let done: Vec<i32> = workers.join_all().await;
        assert_eq!(done.iter().sum::<i32>(), 100);
    }
}
