//! One message in an interval, and a few at once after a quiet while.

use std::time::Duration;

pub(super) struct Bucket {
    interval_ms: i64,
    burst: i64,
    /// When the bucket was, or will be, full: each message taken moves it by an interval.
    full_at: i64,
}

impl Bucket {
    pub(super) fn new(interval: Duration, burst: u32) -> Self {
        let interval_ms = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX).max(1);
        Self { interval_ms, burst: i64::from(burst.max(1)), full_at: 0 }
    }

    /// Takes one, and says how long to wait before it may be used.
    pub(super) fn take(&mut self, now: i64) -> Duration {
        self.full_at = self.full_at.max(now) + self.interval_ms;
        let wait = self.full_at - now - self.burst * self.interval_ms;
        Duration::from_millis(u64::try_from(wait).unwrap_or(0))
    }

    /// The other side said that it was too much: no burst for a while.
    pub(super) fn empty(&mut self) {
        let now = super::now_ms();
        self.full_at = self.full_at.max(now + (self.burst - 1) * self.interval_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_then_one_in_an_interval() {
        let mut bucket = Bucket::new(Duration::from_secs(1), 3);
        let waits: Vec<u64> = (0..6).map(|_| bucket.take(1_000_000).as_millis() as u64).collect();
        assert_eq!(waits, [0, 0, 0, 1000, 2000, 3000]);
        assert_eq!(bucket.take(1_100_000).as_millis(), 0, "after a quiet while there is room again");
    }
}
