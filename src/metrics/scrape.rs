//! One scrape: the values of a moment, put under their definitions and written as text.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use prometheus::{
    Encoder, TextEncoder,
    proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType},
};

use super::{
    ALL, AUDIT_MISSED, AUDITS, CHANGES, DISK_BYTES, DISK_FREE, DROPPED, Definition, FORGOTTEN, INFORMER_LAST_BOOKMARK,
    INFORMER_LAST_EVENT, INFORMER_OBJECTS, INFORMER_STATE, INFORMER_SYNCED, LISTS, LOST, REFUSED, RELISTS, RELOAD_OK,
    RELOAD_TIME, RELOADS, RESOURCES, ROUTE_FAILURES, Reloads, SILENCED, SINK_ATTEMPT_TIME, SINK_ATTEMPTS, SINK_DELAY,
    SINK_DELIVERIES, SINK_FAILING, SINK_OLDEST, SINK_QUEUE, STATE_BYTES, STATE_COMMIT_TIME, STATE_COMMITS,
    STATE_DISK_WAIT, STATE_FAILING, STATE_LIMIT, STATE_ROLLBACKS, STATE_SLOW, SUPPRESSED, UNAVAILABLE, UNKNOWN_SINKS,
    WATCHES,
};
use crate::{
    cluster::{
        Scope,
        fleet::Overview,
        informer::Informer,
        select::Verdict,
        store::{Health, Store},
    },
    event::Kind,
    histogram::Snapshot,
    ledger::{
        Lost, Suppressed,
        count::{Answer, Counts},
    },
};

/// The values of one scrape, by definition.
#[derive(Default)]
pub(super) struct Scrape(Vec<(&'static Definition, Metric)>);

impl Scrape {
    pub(super) fn set(&mut self, definition: &'static Definition, labels: &[&str], value: f64) {
        let mut metric = labelled(definition, labels);
        if definition.sort() == MetricType::COUNTER {
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

    pub(super) fn flag(&mut self, definition: &'static Definition, labels: &[&str], value: bool) {
        self.set(definition, labels, f64::from(u8::from(value)));
    }

    fn count(&mut self, definition: &'static Definition, labels: &[&str], value: u64) {
        self.set(definition, labels, value as f64);
    }

    fn time(&mut self, definition: &'static Definition, labels: &[&str], time: jiff::Timestamp) {
        self.set(definition, labels, time.as_millisecond() as f64 / 1000.0);
    }

    fn histogram(&mut self, definition: &'static Definition, labels: &[&str], seen: &Snapshot) {
        let mut histogram = Histogram::default();
        let buckets = seen.cumulative.iter().map(|(bound, count)| {
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound);
            bucket.set_cumulative_count(*count);
            bucket
        });
        histogram.set_bucket(buckets.collect());
        histogram.set_sample_count(seen.count);
        histogram.set_sample_sum(seen.seconds);
        let mut metric = labelled(definition, labels);
        metric.set_histogram(histogram);
        self.0.push((definition, metric));
    }

    pub(super) fn reloads(&mut self, reloads: &Reloads) {
        self.flag(&RELOAD_OK, &[], reloads.ok);
        self.time(&RELOAD_TIME, &[], reloads.since);
        self.count(&RELOADS, &["ok"], reloads.right);
        self.count(&RELOADS, &["wrong"], reloads.wrong);
    }

    pub(super) fn discovery(&mut self, overview: &Overview) {
        if !overview.discovered {
            return;
        }
        let watched = overview.verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Read(_))).count();
        self.count(&RESOURCES, &["watched"], watched as u64);
        self.count(&RESOURCES, &["skipped"], (overview.verdicts.len() - watched) as u64);
        self.count(&UNAVAILABLE, &[], overview.unavailable.len() as u64);
    }

    pub(super) fn informer(&mut self, informer: &Informer, stored: Option<u64>) {
        let feed = informer.feed();
        let resource = feed.resource.group_resource();
        let scope = match &feed.scope {
            Scope::All => "",
            Scope::Namespace(name) => name,
        };
        let of = [resource.as_str(), scope];
        let status = informer.status().borrow().clone();
        let with = |last: &'static str| [of[0], of[1], last];
        self.set(&INFORMER_STATE, &with(status.state()), 1.0);
        self.flag(&INFORMER_SYNCED, &of, informer.has_synced());
        if let Some(stored) = stored {
            self.count(&INFORMER_OBJECTS, &of, stored);
        }
        for (definition, time) in
            [(&INFORMER_LAST_EVENT, status.last_event), (&INFORMER_LAST_BOOKMARK, status.last_bookmark)]
        {
            if let Some(time) = time {
                self.time(definition, &of, time);
            }
        }
        self.count(&LISTS, &with("ok"), status.lists.ok);
        self.count(&LISTS, &with("failed"), status.lists.failed);
        for (how, count) in &status.watches.0 {
            self.count(&WATCHES, &with(how.as_str()), *count);
        }
        for (why, count) in &status.relists {
            self.count(&RELISTS, &with(why.as_str()), *count);
        }
        self.count(&REFUSED, &of, status.refused);
        let audits = informer.audits();
        self.count(&AUDITS, &with("done"), audits.done);
        self.count(&AUDITS, &with("undecided"), audits.undecided);
        self.count(&AUDIT_MISSED, &of, audits.missed);
    }

    pub(super) fn ledger(&mut self, counts: &Counts) {
        for (resource, changes) in counts.changes() {
            for kind in [Kind::Created, Kind::Updated, Kind::Deleted] {
                self.count(&CHANGES, &[&resource, kind.as_str()], changes.of(kind));
            }
        }
        for why in Suppressed::ALL {
            self.count(&SUPPRESSED, &[why.as_str()], counts.suppressed(why));
        }
        for (reason, count) in counts.dropped() {
            self.count(&DROPPED, &[&reason], count);
        }
        for ((sink, silence), count) in counts.silenced() {
            self.count(&SILENCED, &[&sink, &silence], count);
        }
        self.count(&UNKNOWN_SINKS, &[], counts.unknown_sinks.load(Relaxed));
        for (route, count) in counts.route_failures() {
            self.count(&ROUTE_FAILURES, &[&route], count);
        }
        self.count(&STATE_ROLLBACKS, &[], counts.rolled_back.load(Relaxed));
        self.count(&FORGOTTEN, &[], counts.forgotten.load(Relaxed));
        for why in Lost::ALL {
            self.count(&LOST, &[why.as_str()], counts.lost(why));
        }
    }

    pub(super) fn sinks<'a>(&mut self, counts: &Counts, configured: impl Iterator<Item = &'a Arc<str>>) {
        for name in configured {
            let sink = counts.sink(name);
            let of = [&**name];
            self.count(&SINK_DELIVERIES, &[name, "delivered"], sink.delivered.load(Relaxed));
            self.count(&SINK_DELIVERIES, &[name, "dead"], sink.dead.load(Relaxed));
            for answer in Answer::ALL {
                self.count(&SINK_ATTEMPTS, &[name, answer.as_str()], sink.answers(answer));
            }
            self.histogram(&SINK_ATTEMPT_TIME, &of, &sink.took.snapshot());
            self.histogram(&SINK_DELAY, &of, &sink.delay.snapshot());
            self.flag(&SINK_FAILING, &of, sink.health().failing.is_some());
        }
    }

    pub(super) fn store(&mut self, store: &Store, limit: u64) {
        let Health { failing, commits, .. } = store.health().borrow().clone();
        self.count(&STATE_COMMITS, &[], commits);
        self.histogram(&STATE_COMMIT_TIME, &[], &store.commit_times().snapshot());
        self.set(&STATE_DISK_WAIT, &[], store.disk_wait().unwrap_or_default().as_secs_f64());
        self.count(&STATE_SLOW, &[], store.slow_commits());
        self.flag(&STATE_FAILING, &[], failing.is_some());
        let journal = PathBuf::from(format!("{}-wal", store.path().display()));
        let sizes = [store.path(), &journal].map(|path| std::fs::metadata(path).map_or(0, |file| file.len()));
        self.count(&STATE_BYTES, &[], sizes.iter().sum());
        self.count(&STATE_LIMIT, &[], limit);
        let folder = store.path().parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Ok(disk) = rustix::fs::statvfs(folder.unwrap_or(Path::new("."))) {
            self.count(&DISK_BYTES, &[], disk.f_blocks.saturating_mul(disk.f_frsize));
            self.count(&DISK_FREE, &[], disk.f_bavail.saturating_mul(disk.f_frsize));
        }
    }

    pub(super) fn queues(&mut self, sinks: &BTreeMap<Arc<str>, (u64, Option<i64>)>) {
        let now = jiff::Timestamp::now().as_millisecond();
        for (name, (waiting, oldest)) in sinks {
            self.count(&SINK_QUEUE, &[name], *waiting);
            self.set(&SINK_OLDEST, &[name], oldest.map_or(0.0, |oldest| (now - oldest).max(0) as f64 / 1000.0));
        }
    }

    pub(super) fn finish(self) -> String {
        let mut values: HashMap<&str, Vec<Metric>> = HashMap::new();
        for (definition, metric) in self.0 {
            values.entry(definition.name).or_default().push(metric);
        }
        let families = ALL.iter().filter_map(|definition| {
            let mut family = MetricFamily::default();
            family.set_metric(values.remove(definition.name)?);
            family.set_name(definition.name.to_owned());
            family.set_help(definition.help.to_owned());
            family.set_field_type(definition.sort());
            Some(family)
        });
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&families.collect::<Vec<_>>(), &mut text) {
            tracing::error!(%error, "metrics cannot be written");
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

fn labelled(definition: &'static Definition, labels: &[&str]) -> Metric {
    debug_assert_eq!(definition.labels.len(), labels.len(), "{}", definition.name);
    let pairs = definition.labels.iter().zip(labels).map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    Metric::from_label(pairs.collect())
}
