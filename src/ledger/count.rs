//! What was recorded, suppressed, delivered and lost, and how each sink is. Plain numbers; whoever serves metrics names
//! them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{event::Kind, histogram::Histogram};

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

impl Suppressed {
    pub const ALL: [Self; 1] = [Self::Noise];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Noise => "noise",
        }
    }
}

/// The recorded events of one resource, by type.
#[derive(Debug, Default)]
pub struct Changes([AtomicU64; 3]);

impl Changes {
    pub(super) fn add(&self, kind: Kind) {
        self.0[kind as usize].fetch_add(1, Relaxed);
    }

    pub fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize].load(Relaxed)
    }
}

/// How the other side took an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    Delivered,
    /// The same events are sent again.
    Retry,
    /// It never will take them.
    Rejected,
    /// It wants nothing more at all.
    Disabled,
}

impl Answer {
    pub const ALL: [Self; 4] = [Self::Delivered, Self::Retry, Self::Rejected, Self::Disabled];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Retry => "retry",
            Self::Rejected => "rejected",
            Self::Disabled => "disabled",
        }
    }
}

/// Seconds: a local webhook answers in milliseconds, and a deadline is some ten seconds.
const ATTEMPT: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Seconds: chats gather for some ten, and what is retried may take hours.
const DELAY: &[f64] = &[0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0];

/// How many deliveries were kept back, by sink and silence.
pub type Silenced = BTreeMap<(Arc<str>, Arc<str>), u64>;

#[derive(Debug, Default)]
pub struct Counts {
    /// By resource, as `deployments.apps`.
    changes: Mutex<BTreeMap<String, Arc<Changes>>>,
    /// Updates that left the document as it was.
    pub suppressed: AtomicU64,
    /// Commits that failed and were tried again.
    pub rolled_back: AtomicU64,
    /// Events that retention removed.
    pub forgotten: AtomicU64,
    lost: [AtomicU64; 3],
    /// Events that went to no sink, by why; the reasons are those of the configuration.
    dropped: Mutex<BTreeMap<String, u64>>,
    /// Deliveries that a silence kept back, by sink and silence.
    silenced: Mutex<Silenced>,
    /// Events for which a route could not answer, by route.
    route_failures: Mutex<BTreeMap<Arc<str>, u64>>,
    /// Sinks that an annotation names and that there are none of. The names are not ours, so they are no label.
    pub unknown_sinks: AtomicU64,
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

    /// The counter of a resource; whoever counts keeps it.
    pub(super) fn changes_of(&self, resource: String) -> Arc<Changes> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.entry(resource).or_default().clone()
    }

    /// Recorded events by resource.
    pub fn changes(&self) -> BTreeMap<String, Arc<Changes>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn suppressed(&self, why: Suppressed) -> u64 {
        match why {
            Suppressed::Noise => self.suppressed.load(Relaxed),
        }
    }

    pub(super) fn drop_for(&self, reason: &str) {
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        *dropped.entry(reason.to_owned()).or_default() += 1;
    }

    /// Events that went to no sink, by why.
    pub fn dropped(&self) -> BTreeMap<String, u64> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn silence(&self, sink: Arc<str>, silence: Arc<str>) {
        let mut silenced = self.silenced.lock().unwrap_or_else(PoisonError::into_inner);
        *silenced.entry((sink, silence)).or_default() += 1;
    }

    /// Deliveries that a silence kept back, by sink and silence.
    pub fn silenced(&self) -> Silenced {
        self.silenced.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These routes may fail: who looks at their counters sees them from zero on, and so the first failure as well.
    pub fn expect_failures(&self, routes: &[Arc<str>]) {
        let mut failures = self.route_failures.lock().unwrap_or_else(PoisonError::into_inner);
        for route in routes {
            failures.entry(route.clone()).or_default();
        }
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

    /// Those of a sink, whether or not it is configured; they are kept for when it comes back.
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
#[derive(Debug)]
pub struct SinkCounts {
    /// Calls of the other side, whatever came of them.
    pub attempts: AtomicU64,
    /// Attempts after which the same events have to be sent again.
    pub retries: AtomicU64,
    /// Events.
    pub delivered: AtomicU64,
    /// Events that became dead letters.
    pub dead: AtomicU64,
    /// From the event's time until the other side took it, of `delivered` events.
    pub delay: Histogram,
    /// How long the other side took to answer.
    pub took: Histogram,
    answers: [AtomicU64; 4],
    health: Mutex<Health>,
}

impl Default for SinkCounts {
    fn default() -> Self {
        Self {
            attempts: AtomicU64::default(),
            retries: AtomicU64::default(),
            delivered: AtomicU64::default(),
            dead: AtomicU64::default(),
            delay: Histogram::new(DELAY),
            took: Histogram::new(ATTEMPT),
            answers: Default::default(),
            health: Mutex::default(),
        }
    }
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

    pub(super) fn answered(&self, answer: Answer, took: Duration) {
        self.answers[answer as usize].fetch_add(1, Relaxed);
        self.took.observe(took);
    }

    /// Attempts that were answered so.
    pub fn answers(&self, answer: Answer) -> u64 {
        self.answers[answer as usize].load(Relaxed)
    }

    /// `delays_ms`: from each event's time until now.
    pub(super) fn succeeded(&self, delays_ms: impl Iterator<Item = i64>) {
        for delay in delays_ms {
            self.delivered.fetch_add(1, Relaxed);
            self.delay.observe(Duration::from_millis(delay.max(0).unsigned_abs()));
        }
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

    /// A new worker begins, or none goes on: how the last one fared says nothing any more.
    pub(super) fn forget_failure(&self) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        *health = Health { last_delivered: health.last_delivered, ..Health::default() };
    }

    pub(super) fn disabled(&self, reason: &str) {
        self.failed(reason);
        self.health.lock().unwrap_or_else(PoisonError::into_inner).disabled = true;
    }
}
