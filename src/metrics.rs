//! Every metric that kubediff has: its name, once, and where its value comes from when it is asked for.
//!
//! Values are read at the moment of a scrape from what the stages count anyway. No label ever holds the name of a
//! watched object; namespaces and the one Lease are configuration.
//! `docs/metrics.md` is compared with [`ALL`] by a test.

mod counted;
mod scrape;

use std::time::Instant;

use prometheus::proto::MetricType;
use tokio::sync::watch;

pub use self::counted::Counted;
use self::scrape::Scrape;
use crate::{
    cluster::{fleet::Overview, informer::Factory, store::Store},
    ha,
    ledger::Ledger,
};

/// A metric's name, what it says, and its labels.
#[derive(Debug, PartialEq, Eq)]
pub struct Definition {
    pub name: &'static str,
    pub help: &'static str,
    pub labels: &'static [&'static str],
}

impl Definition {
    /// By the conventions for names.
    pub fn sort(&self) -> MetricType {
        if self.name.ends_with("_total") {
            MetricType::COUNTER
        } else if self.name.ends_with("_duration_seconds") {
            MetricType::HISTOGRAM
        } else {
            MetricType::GAUGE
        }
    }
}

macro_rules! metrics {
    ($($ident:ident = $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(static $ident: Definition = Definition { name: $name, help: $help, labels: &[$($label),*] };)*
        /// All of them, in the order in which they are served.
        pub static ALL: &[&Definition] = &[$(&$ident),*];
    };
}

metrics! {
    BUILD_INFO = "kubediff_build_info" ["version", "revision"] "Always 1; which version runs.";
    LEADER = "kubediff_leader" ["lease"] "1 while this instance delivers, 0 while it stands by; by the Lease that says so. Always 1 where there is no other, and then without one.";
    RELOAD_OK = "kubediff_config_last_reload_successful" [] "1 when the configuration was right the last time it was read, 0 when it was wrong and the one before goes on.";
    RELOAD_TIME = "kubediff_config_last_reload_success_timestamp_seconds" [] "When the configuration that runs was read.";
    RELOADS = "kubediff_config_reloads_total" ["result"] "How often the configuration was read again: ok, wrong.";

    RESOURCES = "kubediff_resources" ["verdict"] "Resources that the cluster serves: watched, skipped.";
    UNAVAILABLE = "kubediff_unavailable_groups" [] "API groups that are registered and do not answer; what they serve is unknown.";
    LISTS = "kubediff_lists_total" ["resource", "scope", "result"] "List requests by result: ok, failed.";
    WATCHES = "kubediff_watches_total" ["resource", "scope", "result"] "Watches by how they ended: timeout, expired, too_new, busy, silent, failed.";

    INFORMER_STATE = "kubediff_informer_state" ["resource", "scope", "state"] "1 for the state that an informer is in: starting, listing, connecting, live, waiting, not_permitted.";
    INFORMER_SYNCED = "kubediff_informer_synced" ["resource", "scope"] "1 once an informer was as new as the server.";
    INFORMER_LAST_EVENT = "kubediff_informer_last_event_timestamp_seconds" ["resource", "scope"] "When a watch last told of a change.";
    INFORMER_LAST_BOOKMARK = "kubediff_informer_last_bookmark_timestamp_seconds" ["resource", "scope"] "When a watch last said how far it is.";
    RELISTS = "kubediff_relists_total" ["resource", "scope", "reason"] "Lists of everything by reason: first, expired, went_back, refused, stuck, asked.";

    REFUSED = "kubediff_refused_objects_total" ["resource", "scope"] "Objects that could not be taken in: too large, not readable.";

    INFORMER_OBJECTS = "kubediff_informer_objects" ["resource", "scope"] "Objects that are stored.";
    AUDITS = "kubediff_audits_total" ["resource", "scope", "result"] "Comparisons of the store with a list: done, undecided.";
    AUDIT_MISSED = "kubediff_audit_missed_total" ["resource", "scope"] "Changes that a watch had missed and an audit found. Zero is what to expect.";

    CHANGES = "kubediff_changes_total" ["resource", "type"] "Events that were recorded, by type: created, updated, deleted.";
    SUPPRESSED = "kubediff_suppressed_total" ["reason"] "Updates that became no event: noise.";

    DROPPED = "kubediff_dropped_total" ["reason"] "Events that the configuration sends to no sink: a route's own reason, silenced, ignored, no_route, no_sink.";
    SILENCED = "kubediff_silenced_total" ["sink", "silence"] "Deliveries that a silence kept back; silences made at run time are `api`.";
    UNKNOWN_SINKS = "kubediff_unknown_sinks_total" [] "Names in annotations kubediff.io/sinks that no sink has.";
    ROUTE_FAILURES = "kubediff_route_failures_total" ["route"] "Events for which a route's expression had no answer, and which it did not take.";

    STATE_COMMITS = "kubediff_state_commits_total" [] "Commits of the state file.";
    STATE_COMMIT_TIME = "kubediff_state_commit_duration_seconds" [] "How long a commit took.";
    STATE_DISK_WAIT = "kubediff_state_disk_wait_seconds" [] "How long the commit that is under way has waited for the disk so far; 0 while none does.";
    STATE_SLOW = "kubediff_state_slow_commits_total" [] "Commits for which the disk took longer than a second. Nothing is dropped for it, everything is later.";
    STATE_ROLLBACKS = "kubediff_state_rollbacks_total" [] "Commits that failed and were tried again.";
    STATE_FAILING = "kubediff_state_failing" [] "1 while the state file cannot be written: disk full, read-only. Nothing is dropped meanwhile.";
    STATE_BYTES = "kubediff_state_size_bytes" [] "The size of the state file and of its journal.";
    STATE_LIMIT = "kubediff_state_limit_bytes" [] "How large the state file may grow: state.max_bytes.";
    DISK_BYTES = "kubediff_state_disk_size_bytes" [] "The size of the file system that the state file is on.";
    DISK_FREE = "kubediff_state_disk_available_bytes" [] "What is left on the file system that the state file is on.";
    FORGOTTEN = "kubediff_forgotten_total" [] "Events that were removed because of their age or for want of room.";
    LOST = "kubediff_lost_total" ["reason"] "Events that will never be delivered: expired, no_room, damaged.";

    SINK_QUEUE = "kubediff_sink_queue_depth" ["sink"] "Events that wait to be delivered.";
    SINK_OLDEST = "kubediff_sink_oldest_undelivered_seconds" ["sink"] "The age of the oldest event that waits to be delivered.";
    SINK_DELIVERIES = "kubediff_sink_deliveries_total" ["sink", "outcome"] "Events by what became of them: delivered, or dead when they were given up and are kept as dead letters.";
    SINK_ATTEMPTS = "kubediff_sink_attempts_total" ["sink", "outcome"] "Calls of the other side by its answer: delivered, retry, rejected, disabled.";
    SINK_ATTEMPT_TIME = "kubediff_sink_attempt_duration_seconds" ["sink"] "How long the other side took to answer.";
    SINK_DELAY = "kubediff_sink_delivery_duration_seconds" ["sink"] "From the moment that a change was seen until the other side took it.";
    SINK_FAILING = "kubediff_sink_failing" ["sink"] "1 while the last attempt failed.";
}

/// What the values are read from.
#[derive(Clone)]
pub struct Sources {
    pub factory: Factory,
    pub store: Store,
    pub ledger: Ledger,
    pub overview: watch::Receiver<Overview>,
    pub reloads: watch::Receiver<Reloads>,
    /// Whether this instance delivers.
    pub leader: watch::Receiver<bool>,
    /// `namespace/name` of the Lease; empty where there is none.
    pub lease: String,
    /// `state.max_bytes`
    pub limit: u64,
    /// Of several; `None` where there is no other.
    pub replica: Option<watch::Receiver<ha::Status>>,
    pub counted: Counted,
}

/// How often the configuration was read again, and with what result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloads {
    pub ok: bool,
    /// When the configuration that runs was read.
    pub since: jiff::Timestamp,
    pub right: u64,
    pub wrong: u64,
}

impl Default for Reloads {
    fn default() -> Self {
        Self { ok: true, since: jiff::Timestamp::now(), right: 0, wrong: 0 }
    }
}

impl Reloads {
    pub fn add(&mut self, ok: bool) {
        self.ok = ok;
        if ok {
            self.right += 1;
            self.since = jiff::Timestamp::now();
        } else {
            self.wrong += 1;
        }
    }
}

/// The metrics as Prometheus reads them.
pub fn render(sources: &Sources) -> String {
    let mut scrape = Scrape::default();
    scrape.set(&BUILD_INFO, &[env!("CARGO_PKG_VERSION"), env!("KUBEDIFF_REVISION")], 1.0);
    scrape.flag(&LEADER, &[&sources.lease], *sources.leader.borrow());
    scrape.reloads(&sources.reloads.borrow());
    scrape.discovery(&sources.overview.borrow());
    // What waits for a sink that is no longer configured is kept for its return, and nobody's trouble.
    let sinks = sources.ledger.sinks();
    let counted = sources.store.reader().and_then(|reader| sources.counted.count(&reader, &sinks, Instant::now()));
    let stored = match counted {
        Ok(counted) => {
            scrape.queues(&counted.sinks);
            Some(counted.objects)
        }
        Err(error) => {
            tracing::warn!(%error, "the state file cannot be read for metrics");
            None
        }
    };
    for informer in sources.factory.informers() {
        let of = |id| stored.as_ref().map(|stored| stored.get(&id).copied().unwrap_or_default());
        scrape.informer(&informer, informer.id().and_then(of));
    }
    scrape.ledger(sources.ledger.counts());
    scrape.sinks(sources.ledger.counts(), sinks.keys());
    scrape.store(&sources.store, sources.limit);
    scrape.finish()
}

#[cfg(test)]
mod tests;
