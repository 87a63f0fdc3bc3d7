//! What was recorded, suppressed, delivered and lost, and how each sink is. Plain numbers; whoever serves metrics names
//! them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Why an update became no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suppressed {
    /// Nothing but what the noise profile leaves out has changed.
    Noise,
}

/// Why something that was recorded will never be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lost {
    /// A dead letter that nobody asked for until it was too old.
    Expired,
    /// The file had reached its size and nothing else was left to remove.
    NoRoom,
    /// The stored event cannot be read any more.
    Damaged,
}

impl Lost {
    pub const ALL: [Self; 3] = [Self::Expired, Self::NoRoom, Self::Damaged];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::NoRoom => "no_room",
            Self::Damaged => "damaged",
        }
    }
}

#[derive(Debug, Default)]
pub struct Counts {
    pub created: AtomicU64,
    pub updated: AtomicU64,
    pub deleted: AtomicU64,
    /// Updates that left the document as it was.
    pub suppressed: AtomicU64,
    /// Commits that failed and were tried again.
    pub rolled_back: AtomicU64,
    /// Events that retention removed.
    pub forgotten: AtomicU64,
    lost: [AtomicU64; 3],
    /// Events that went to no sink, by why; the reasons are those of the configuration.
    dropped: Mutex<BTreeMap<String, u64>>,
    /// Events for which a route could not answer, by route.
    route_failures: Mutex<BTreeMap<Arc<str>, u64>>,
    sinks: RwLock<BTreeMap<Arc<str>, Arc<SinkCounts>>>,
}

impl Counts {
    /// Everything lost is counted, with a reason.
    pub fn lose(&self, why: Lost, n: u64) {
        if n > 0 {
            self.lost[why as usize].fetch_add(n, Relaxed);
        }
    }

    pub fn lost(&self, why: Lost) -> u64 {
        self.lost[why as usize].load(Relaxed)
    }

    pub(super) fn drop_for(&self, reason: &str) {
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        *dropped.entry(reason.to_owned()).or_default() += 1;
    }

    /// Events that went to no sink, by why.
    pub fn dropped(&self) -> BTreeMap<String, u64> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// `true` the first time.
    pub(super) fn route_failed(&self, route: &Arc<str>) -> bool {
        let mut failures = self.route_failures.lock().unwrap_or_else(PoisonError::into_inner);
        let n = failures.entry(route.clone()).or_default();
        *n += 1;
        *n == 1
    }

    /// Events for which a route could not answer, by route.
    pub fn route_failures(&self) -> BTreeMap<Arc<str>, u64> {
        self.route_failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn sink(&self, name: &Arc<str>) -> Arc<SinkCounts> {
        let mut sinks = self.sinks.write().unwrap_or_else(PoisonError::into_inner);
        sinks.entry(name.clone()).or_default().clone()
    }

    pub fn sinks(&self) -> Vec<(Arc<str>, Arc<SinkCounts>)> {
        let sinks = self.sinks.read().unwrap_or_else(PoisonError::into_inner);
        sinks.iter().map(|(name, counts)| (name.clone(), counts.clone())).collect()
    }
}

/// Of one sink, since the start.
#[derive(Debug, Default)]
pub struct SinkCounts {
    /// Calls of the other side, whatever came of them.
    pub attempts: AtomicU64,
    /// Attempts after which the same events have to be sent again.
    pub retries: AtomicU64,
    /// Events.
    pub delivered: AtomicU64,
    /// Events that became dead letters.
    pub dead: AtomicU64,
    /// Milliseconds from the event's time to its delivery: the sum, of `delivered` events.
    pub delay_ms: AtomicU64,
    health: Mutex<Health>,
}

/// How a sink is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why the last attempt failed, while none has succeeded since.
    pub failing: Option<String>,
    pub failing_since: Option<jiff::Timestamp>,
    /// It asked for nothing more; only a restart begins again.
    pub disabled: bool,
    pub last_delivered: Option<jiff::Timestamp>,
}

impl SinkCounts {
    pub fn health(&self) -> Health {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn succeeded(&self, events: usize, delay_ms: u64) {
        self.delivered.fetch_add(events as u64, Relaxed);
        self.delay_ms.fetch_add(delay_ms, Relaxed);
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.failing = None;
        health.failing_since = None;
        health.last_delivered = Some(jiff::Timestamp::now());
    }

    /// `true` when this is news: it worked before, or failed for another reason.
    pub(super) fn failed(&self, reason: &str) -> bool {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.failing_since.get_or_insert_with(jiff::Timestamp::now);
        health.failing.replace(reason.to_owned()).as_deref() != Some(reason)
    }

    pub(super) fn disabled(&self, reason: &str) {
        self.failed(reason);
        self.health.lock().unwrap_or_else(PoisonError::into_inner).disabled = true;
    }
}
