//! Durations, counted by how long they were. Plain numbers that are cheap to add to; whoever serves metrics names them.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Counts durations by upper bound, and adds them up.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for what is longer than all of them.
    counts: Box<[AtomicU64]>,
    micros: AtomicU64,
}

/// What was counted at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Upper bounds in seconds, and how many were at most that long.
    pub cumulative: Vec<(f64, u64)>,
    pub count: u64,
    pub seconds: f64,
}

impl Histogram {
    /// `bounds` are seconds, in rising order.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), micros: AtomicU64::new(0) }
    }

    pub fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let at = self.bounds.partition_point(|bound| *bound < seconds);
        self.counts[at].fetch_add(1, Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    pub fn snapshot(&self) -> Snapshot {
        let mut count = 0;
        let mut cumulative = Vec::with_capacity(self.bounds.len());
        for (bound, n) in self.bounds.iter().zip(&self.counts) {
            count += n.load(Relaxed);
            cumulative.push((*bound, count));
        }
        count += self.counts[self.bounds.len()].load(Relaxed);
        Snapshot { cumulative, count, seconds: self.micros.load(Relaxed) as f64 / 1e6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_every_bucket_that_it_fits() {
        let histogram = Histogram::new(&[0.01, 0.1, 1.0]);
        for ms in [1, 10, 11, 5_000] {
            histogram.observe(Duration::from_millis(ms));
        }
        let seen = histogram.snapshot();
        assert_eq!(seen.cumulative, [(0.01, 2), (0.1, 3), (1.0, 3)]);
        assert_eq!(seen.count, 4);
        assert!((seen.seconds - 5.022).abs() < 1e-9, "{seen:?}");
    }
}
