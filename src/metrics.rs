//! Every metric that kubediff has: its name, once, and where its value comes from when it is asked for.
//!
//! Values are read at the moment of a scrape from what the stages count anyway. No label ever holds an object's name.
//! `docs/metrics.md` is compared with [`ALL`] by a test.

use std::{collections::HashMap, sync::atomic::Ordering::Relaxed};

use prometheus::{
    Encoder, TextEncoder,
    proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType},
};

use crate::{
    cluster::{
        Scope,
        informer::{Factory, Informer},
        store::{FeedId, Health, Reader, Store},
    },
    ledger::{Ledger, Lost, count::Counts},
};

/// A metric's name, what it says, and its labels.
#[derive(Debug, PartialEq, Eq)]
pub struct Definition {
    pub name: &'static str,
    pub help: &'static str,
    pub labels: &'static [&'static str],
}

impl Definition {
    /// By the convention that a counter's name ends so.
    pub fn is_counter(&self) -> bool {
        self.name.ends_with("_total")
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
    BUILD_INFO = "kubediff_build_info" ["version"] "Always 1; which version runs.";
    INFORMER_STATE = "kubediff_informer_state" ["resource", "scope", "state"] "1 for the state that an informer is in: starting, listing, connecting, live, waiting.";
    INFORMER_SYNCED = "kubediff_informer_synced" ["resource", "scope"] "1 once an informer was as new as the server.";
    INFORMER_OBJECTS = "kubediff_informer_objects" ["resource", "scope"] "Objects that are stored.";
    INFORMER_LAST_EVENT = "kubediff_informer_last_event_timestamp_seconds" ["resource", "scope"] "When a watch last told of a change.";
    INFORMER_LAST_BOOKMARK = "kubediff_informer_last_bookmark_timestamp_seconds" ["resource", "scope"] "When a watch last said how far it is.";
    LISTS = "kubediff_lists_total" ["resource", "scope", "result"] "List requests by result: ok, failed.";
    WATCHES = "kubediff_watches_total" ["resource", "scope", "result"] "Watches by how they ended: timeout, expired, too_new, busy, silent, failed.";
    RELISTS = "kubediff_relists_total" ["resource", "scope", "reason"] "Lists of everything by reason: first, expired, went_back, refused.";
    REFUSED = "kubediff_refused_objects_total" ["resource", "scope"] "Objects that could not be taken in: too large, not readable.";
    AUDITS = "kubediff_audits_total" ["resource", "scope", "result"] "Comparisons of the store with a list: done, undecided.";
    AUDIT_MISSED = "kubediff_audit_missed_total" ["resource", "scope"] "Changes that a watch had missed and an audit found. Zero is what to expect.";
    CHANGES = "kubediff_changes_total" ["type"] "Events that were recorded: created, updated, deleted.";
    SUPPRESSED = "kubediff_suppressed_total" ["reason"] "Updates that became no event: noise.";
    LOST = "kubediff_lost_total" ["reason"] "Events that will never be delivered: expired, no_room, damaged.";
    SINK_QUEUE = "kubediff_sink_queue_depth" ["sink"] "Events that wait to be delivered.";
    SINK_OLDEST = "kubediff_sink_oldest_undelivered_seconds" ["sink"] "The age of the oldest event that waits to be delivered.";
    SINK_ATTEMPTS = "kubediff_sink_attempts_total" ["sink"] "Calls of the other side.";
    SINK_RETRIES = "kubediff_sink_retries_total" ["sink"] "Attempts after which the same events are sent again.";
    SINK_DELIVERED = "kubediff_sink_delivered_total" ["sink"] "Events that the other side took.";
    SINK_DEAD = "kubediff_sink_dead_letters_total" ["sink"] "Events that were given up and are kept as dead letters.";
    SINK_FAILING = "kubediff_sink_failing" ["sink"] "1 while the last attempt failed.";
    STATE_COMMITS = "kubediff_state_commits_total" [] "Commits of the state file.";
    STATE_FAILING = "kubediff_state_failing" [] "1 while the state file cannot be written: disk full, read-only. Nothing is dropped meanwhile.";
    STATE_BYTES = "kubediff_state_size_bytes" [] "The size of the state file.";
    RELOAD_OK = "kubediff_config_last_reload_successful" [] "1 when the configuration was right the last time it was read, 0 when it was wrong and the one before goes on.";
}

/// What the values are read from.
#[derive(Clone)]
pub struct Sources {
    pub factory: Factory,
    pub store: Store,
    pub ledger: Ledger,
    pub reload_ok: tokio::sync::watch::Receiver<bool>,
}

/// The metrics as Prometheus reads them.
pub fn render(sources: &Sources) -> String {
    let mut scrape = Scrape::default();
    scrape.set(&BUILD_INFO, &[env!("CARGO_PKG_VERSION")], 1.0);
    let stored = match sources.store.reader().and_then(|reader| {
        scrape.queues(&reader)?;
        objects(&reader)
    }) {
        Ok(stored) => stored,
        Err(error) => {
            tracing::warn!(%error, "the state file cannot be read for metrics");
            HashMap::new()
        }
    };
    for informer in sources.factory.informers() {
        let stored = informer.id().map(|id| stored.get(&id).copied().unwrap_or_default());
        scrape.informer(&informer, stored);
    }
    scrape.ledger(sources.ledger.counts());
    scrape.store(&sources.store);
    scrape.set(&RELOAD_OK, &[], f64::from(u8::from(*sources.reload_ok.borrow())));
    scrape.finish()
}

/// The values of one scrape, by definition.
#[derive(Default)]
struct Scrape(Vec<(&'static Definition, Metric)>);

impl Scrape {
    fn set(&mut self, definition: &'static Definition, labels: &[&str], value: f64) {
        debug_assert_eq!(definition.labels.len(), labels.len(), "{}", definition.name);
        let pairs = definition.labels.iter().zip(labels).map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        });
        let mut metric = Metric::from_label(pairs.collect());
        if definition.is_counter() {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.0.push((definition, metric));
    }

    fn informer(&mut self, informer: &Informer, stored: Option<u64>) {
        let feed = informer.feed();
        let resource = feed.resource.group_resource();
        let scope = match &feed.scope {
            Scope::All => "",
            Scope::Namespace(name) => name,
        };
        let of = [resource.as_str(), scope];
        let status = informer.status().borrow().clone();
        let with = |last: &'static str| [of[0], of[1], last];
        self.set(&INFORMER_STATE, &with(status.phase.as_str()), 1.0);
        self.set(&INFORMER_SYNCED, &of, f64::from(u8::from(informer.has_synced())));
        if let Some(stored) = stored {
            self.set(&INFORMER_OBJECTS, &of, stored as f64);
        }
        for (definition, time) in
            [(&INFORMER_LAST_EVENT, status.last_event), (&INFORMER_LAST_BOOKMARK, status.last_bookmark)]
        {
            if let Some(time) = time {
                self.set(definition, &of, time.as_millisecond() as f64 / 1000.0);
            }
        }
        self.set(&LISTS, &with("ok"), status.lists.ok as f64);
        self.set(&LISTS, &with("failed"), status.lists.failed as f64);
        for (how, count) in &status.watches.0 {
            self.set(&WATCHES, &with(how.as_str()), *count as f64);
        }
        for (why, count) in &status.relists {
            self.set(&RELISTS, &with(why.as_str()), *count as f64);
        }
        self.set(&REFUSED, &of, status.refused as f64);
        let audits = informer.audits();
        self.set(&AUDITS, &with("done"), audits.done as f64);
        self.set(&AUDITS, &with("undecided"), audits.undecided as f64);
        self.set(&AUDIT_MISSED, &of, audits.missed as f64);
    }

    fn ledger(&mut self, counts: &Counts) {
        for (kind, count) in [("created", &counts.created), ("updated", &counts.updated), ("deleted", &counts.deleted)]
        {
            self.set(&CHANGES, &[kind], count.load(Relaxed) as f64);
        }
        self.set(&SUPPRESSED, &["noise"], counts.suppressed.load(Relaxed) as f64);
        for why in Lost::ALL {
            self.set(&LOST, &[why.as_str()], counts.lost(why) as f64);
        }
        for (name, sink) in counts.sinks() {
            let of = [&*name];
            self.set(&SINK_ATTEMPTS, &of, sink.attempts.load(Relaxed) as f64);
            self.set(&SINK_RETRIES, &of, sink.retries.load(Relaxed) as f64);
            self.set(&SINK_DELIVERED, &of, sink.delivered.load(Relaxed) as f64);
            self.set(&SINK_DEAD, &of, sink.dead.load(Relaxed) as f64);
            self.set(&SINK_FAILING, &of, f64::from(u8::from(sink.health().failing.is_some())));
        }
    }

    fn store(&mut self, store: &Store) {
        let Health { failing, commits } = store.health().borrow().clone();
        self.set(&STATE_COMMITS, &[], commits as f64);
        self.set(&STATE_FAILING, &[], f64::from(u8::from(failing.is_some())));
        if let Ok(file) = std::fs::metadata(store.path()) {
            self.set(&STATE_BYTES, &[], file.len() as f64);
        }
    }

    fn queues(&mut self, reader: &Reader) -> Result<(), rusqlite::Error> {
        let now = jiff::Timestamp::now().as_millisecond();
        let mut statement = reader.connection().prepare(
            "SELECT s.name, w.waiting, (SELECT time FROM events WHERE seq = w.oldest) FROM sinks s LEFT JOIN
             (SELECT sink, count(*) AS waiting, min(seq) AS oldest FROM deliveries GROUP BY sink) w ON w.sink = s.id",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (name, count, oldest): (String, Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            self.set(&SINK_QUEUE, &[&name], count.unwrap_or_default() as f64);
            self.set(&SINK_OLDEST, &[&name], oldest.map_or(0.0, |oldest| (now - oldest).max(0) as f64 / 1000.0));
        }
        Ok(())
    }

    fn finish(self) -> String {
        let mut families = Vec::new();
        for definition in ALL {
            let metrics: Vec<Metric> =
                self.0.iter().filter(|(of, _)| of == definition).map(|(_, metric)| metric.clone()).collect();
            if metrics.is_empty() {
                continue;
            }
            let mut family = MetricFamily::default();
            family.set_name(definition.name.to_owned());
            family.set_help(definition.help.to_owned());
            family.set_field_type(if definition.is_counter() { MetricType::COUNTER } else { MetricType::GAUGE });
            family.set_metric(metrics);
            families.push(family);
        }
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&families, &mut text) {
            tracing::error!(%error, "metrics cannot be written");
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// How many objects each feed has.
fn objects(reader: &Reader) -> Result<HashMap<FeedId, u64>, rusqlite::Error> {
    let mut statement = reader.connection().prepare("SELECT feed, count(*) FROM objects GROUP BY feed")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_names_every_metric_and_no_other() {
        let documented = include_str!("../docs/metrics.md");
        for definition in ALL {
            let labels: Vec<String> = definition.labels.iter().map(|label| format!("`{label}`")).collect();
            let row = format!("| `{}` | {} | {} |", definition.name, labels.join(", "), definition.help);
            assert!(documented.contains(&row), "docs/metrics.md lacks this line:\n{row}");
        }
        let rows = documented.lines().filter(|line| line.starts_with("| `kubediff_")).count();
        assert_eq!(rows, ALL.len(), "docs/metrics.md names a metric that does not exist");
    }

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        for definition in ALL {
            assert!(definition.name.starts_with("kubediff_"), "{}", definition.name);
            assert!(definition.help.ends_with('.'), "{}", definition.name);
            assert!(
                !definition.labels.contains(&"name") && !definition.labels.contains(&"object"),
                "{}",
                definition.name
            );
            let unit = ["_total", "_seconds", "_bytes", "_info"].iter().any(|unit| definition.name.ends_with(unit));
            let plain = ["_state", "_synced", "_objects", "_depth", "_failing", "_successful"];
            assert!(unit || plain.iter().any(|end| definition.name.ends_with(end)), "{}", definition.name);
        }
    }
}
