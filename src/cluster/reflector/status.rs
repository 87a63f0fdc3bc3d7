//! How a feed is doing, for metrics, readiness and the page.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::cluster::source::Error;

#[derive(Clone, Debug)]
pub struct Status {
    pub phase: Phase,
    pub since: Timestamp,
    /// Whether the target once was as new as the server: a list ended, or a watch opened at the cursor.
    pub synced: bool,
    /// What went wrong last. It stays for people to read; [`Phase::Waiting`] says whether it is wrong now.
    pub problem: Option<Problem>,
    /// The server does not permit it, and nothing has worked since it said so.
    pub denied: bool,
    /// Objects read by lists.
    pub objects: u64,
    /// Changes read by watches.
    pub events: u64,
    /// Objects and events that could not be taken in: refused by the door, or too large.
    pub refused: u64,
    pub last_event: Option<Timestamp>,
    pub last_bookmark: Option<Timestamp>,
    pub lists: Lists,
    pub watches: Watches,
    pub relists: BTreeMap<Relist, u64>,
    /// Up to which question of [`super::Freshness`] everything is read.
    pub(super) answered: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub error: Error,
    pub at: Timestamp,
}

/// See [`Status::state`].
pub const NOT_PERMITTED: &str = "not_permitted";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    Starting,
    /// Waiting for its turn to list is part of it.
    Listing,
    Connecting,
    /// Every change arrives as it is made.
    Live,
    /// Degraded: the last try failed, and the next one is due after a pause.
    Waiting,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    pub ok: u64,
    /// Failed requests; a page that is asked for again counts each time.
    pub failed: u64,
}

/// Watches by how they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watches(pub BTreeMap<Ended, u64>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ended {
    /// By the server, as asked.
    Timeout,
    Expired,
    TooNew,
    Busy,
    /// It said nothing past its time.
    Silent,
    Failed,
}

/// Why the whole collection is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relist {
    /// There is no cursor.
    First,
    /// The server no longer knows the changes since the cursor.
    Expired,
    /// The server is older than the cursor: it was restored from a backup.
    WentBack,
    /// The server takes the cursor for no version at all.
    Refused,
    /// The server fails at the cursor again and again.
    Stuck,
    /// Somebody needs to know that all is read, and the server sends no bookmarks.
    Asked,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            phase: Phase::Starting,
            since: Timestamp::now(),
            synced: false,
            problem: None,
            denied: false,
            objects: 0,
            events: 0,
            refused: 0,
            last_event: None,
            last_bookmark: None,
            lists: Lists::default(),
            watches: Watches::default(),
            relists: BTreeMap::new(),
            answered: 0,
        }
    }
}

impl Status {
    pub(super) fn enter(&mut self, phase: Phase) {
        if self.phase != phase {
            self.phase = phase;
            self.since = Timestamp::now();
        }
    }

    /// The word for how it is, in metrics: its phase, or `not_permitted` for as long as that holds, whatever is tried
    /// meanwhile.
    pub fn state(&self) -> &'static str {
        if self.denied { NOT_PERMITTED } else { self.phase.as_str() }
    }

    pub(super) fn live(&mut self) {
        self.synced = true;
        self.denied = false;
        self.enter(Phase::Live);
    }

    pub(super) fn waiting(&mut self, error: Error) {
        self.denied |= matches!(error, Error::Forbidden(_));
        self.problem = Some(Problem { error, at: Timestamp::now() });
        self.enter(Phase::Waiting);
    }
}

impl Watches {
    pub(super) fn ended(&mut self, how: Ended) {
        *self.0.entry(how).or_default() += 1;
    }
}

impl Ended {
    /// The word for it in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Expired => "expired",
            Self::TooNew => "too_new",
            Self::Busy => "busy",
            Self::Silent => "silent",
            Self::Failed => "failed",
        }
    }
}

impl Relist {
    /// The word for it in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Expired => "expired",
            Self::WentBack => "went_back",
            Self::Refused => "refused",
            Self::Stuck => "stuck",
            Self::Asked => "asked",
        }
    }
}

impl Phase {
    /// The word for it in metrics and on the page.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Listing => "listing",
            Self::Connecting => "connecting",
            Self::Live => "live",
            Self::Waiting => "waiting",
        }
    }
}
