//! One message in an interval, and a few at once after a quiet while: per channel, whichever sinks write to it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::super::seat::millis;

/// The paces of the channels that are written to, by what names each of them. A channel may have several names.
#[derive(Debug, Default)]
pub(in crate::ledger) struct Paces(Mutex<HashMap<String, Arc<Pace>>>);

impl Paces {
    /// The pace of a channel, the same for everybody who asks for it.
    pub(super) fn of(&self, channel: &str, interval: Duration, burst: u32) -> Arc<Pace> {
        let new = || Arc::new(Pace(Mutex::new(Bucket::new(interval, burst))));
        lock(&self.0).entry(channel.to_owned()).or_insert_with(new).clone()
    }

    /// Two names turned out to be of the same channel: they have one pace from now on.
    pub(super) fn join(&self, name: &str, other: &str, pace: &Arc<Pace>) -> Arc<Pace> {
        let mut paces = lock(&self.0);
        let joined = paces.entry(other.to_owned()).or_insert_with(|| pace.clone()).clone();
        paces.insert(name.to_owned(), joined.clone());
        joined
    }
}

/// How fast one channel is written to.
#[derive(Debug)]
pub(super) struct Pace(Mutex<Bucket>);

impl Pace {
    /// Takes the right to send one message, and says how long to wait before it is used.
    pub(super) fn take(&self, now: i64) -> Duration {
        lock(&self.0).take(now)
    }

    /// The other side said that it was too much: no burst for a while, and nothing at all before `until`.
    pub(super) fn hold(&self, now: i64, until: Option<i64>) {
        let mut bucket = lock(&self.0);
        bucket.empty(now);
        bucket.held_until = bucket.held_until.max(until.unwrap_or(0));
    }

    /// Until when the other side asked to be left alone.
    pub(super) fn held_until(&self) -> i64 {
        lock(&self.0).held_until
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Bucket {
    interval_ms: i64,
    burst: i64,
    /// When the bucket was, or will be, full: each message taken moves it by an interval.
    full_at: i64,
    held_until: i64,
}

impl Bucket {
    fn new(interval: Duration, burst: u32) -> Self {
        Self { interval_ms: millis(interval).max(1), burst: i64::from(burst.max(1)), full_at: 0, held_until: 0 }
    }

    fn take(&mut self, now: i64) -> Duration {
        self.full_at = self.full_at.max(now) + self.interval_ms;
        let wait = self.full_at - now - self.burst * self.interval_ms;
        Duration::from_millis(u64::try_from(wait).unwrap_or(0))
    }

    fn empty(&mut self, now: i64) {
        self.full_at = self.full_at.max(now + (self.burst - 1) * self.interval_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_goes_at_once_and_then_one_in_an_interval() {
        let mut bucket = Bucket::new(SECOND, 3);
        let waits: Vec<u64> = (0..6).map(|_| bucket.take(1_000_000).as_millis() as u64).collect();
        assert_eq!(waits, [0, 0, 0, 1000, 2000, 3000]);
        assert_eq!(bucket.take(1_100_000).as_millis(), 0, "after a quiet while there is room again");
    }

    #[test]
    fn a_channel_has_one_pace_under_all_of_its_names() {
        let paces = Paces::default();
        let (a, b) = (paces.of("#ops", SECOND, 1), paces.of("#ops", SECOND, 1));
        let c = paces.of("C1", SECOND, 1);
        assert_eq!([a.take(0), b.take(0), c.take(0)].map(|wait| wait.as_secs()), [0, 1, 0], "C1 is not known yet");
        let a = paces.join("#ops", "C1", &a);
        assert!(Arc::ptr_eq(&a, &c), "and now it is");
        let b = paces.join("#ops", "C1", &b);
        assert!(Arc::ptr_eq(&b, &c) && Arc::ptr_eq(&paces.of("#ops", SECOND, 1), &c));
        let other = paces.of("#other", SECOND, 1);
        assert!(Arc::ptr_eq(&paces.join("#other", "C2", &other), &other));
        assert!(Arc::ptr_eq(&paces.of("C2", SECOND, 1), &other), "the first who writes there gives it its pace");
        a.hold(0, Some(9_000));
        assert_eq!((c.held_until(), other.held_until()), (9_000, 0));
    }
}
