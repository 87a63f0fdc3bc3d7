//! How many events there were: over time, and by kind, namespace, class, manager and type. Where there are many, the
//! tallies say it; names, owners and words are in none, so rows that are asked for by those are counted one by one.

use std::{collections::HashMap, ops::ControlFlow};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Error, Filter, History, Sight,
    filter::{Facet, Question},
    group_resource,
    narrow::Narrow,
    rows::Order,
    scan::{Ended, Limit, Range},
    timestamp,
};
use crate::ledger::tally::{self, DAY, HOUR, MINUTE, sort};

/// Events over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Density {
    pub since: Timestamp,
    pub until: Timestamp,
    /// The length of a bucket.
    pub seconds: i64,
    /// All of them, also empty ones. The first may begin before `since`; nothing from before is counted.
    pub buckets: Vec<Bucket>,
    /// Older events were not counted: there are too many.
    pub partial: bool,
    /// From when on they were counted, where that is not the whole period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    pub start: Timestamp,
    pub created: u64,
    pub updated: u64,
    pub deleted: u64,
}

/// How often each value occurs, the most frequent first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Facets {
    pub kind: Vec<Count>,
    pub namespace: Vec<Count>,
    pub class: Vec<Count>,
    pub manager: Vec<Count>,
    #[serde(rename = "type")]
    pub event_type: Vec<Count>,
    /// Older events were not counted: there are too many.
    pub partial: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    pub value: String,
    pub count: u64,
}

/// Values of a facet.
const VALUES: usize = 50;
pub const MOST_BUCKETS: usize = 1_000;

/// So few events are sooner counted than looked up.
const FEW: i64 = 5_000;
/// Buckets of less than a minute, which the tallies do not have, are counted among so many events.
const FEW_IN_SECONDS: i64 = 100_000;

/// Where counts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Rows,
    Tallies,
}

impl History {
    /// Events per bucket from `since` (else the oldest) to `until` (else now). Buckets of a minute or more begin with a
    /// whole one.
    pub fn density(&self, filter: &Filter, sight: &Sight, buckets: usize, now: Timestamp) -> Result<Density, Error> {
        let question = self.question(filter, sight)?;
        let events = self.events_of(&question)?;
        let until = filter.until.unwrap_or(now);
        let oldest = filter.since.or(self.ledger()?.oldest).unwrap_or(until);
        let in_seconds = Axis::new(oldest.min(until), until, buckets, 1).width < MINUTE;
        let few = question.asks_of_rows() || events <= if in_seconds { FEW_IN_SECONDS } else { FEW };
        // Few among many are sooner found by the search.
        let few = few || (question.is_searchable() && (1..=FEW).contains(&self.taken(&question)?.events));
        self.density_by(if few { Way::Rows } else { Way::Tallies }, &question, filter.since, until, buckets)
    }

    pub(super) fn density_by(
        &self,
        way: Way,
        question: &Question,
        since: Option<Timestamp>,
        until: Timestamp,
        buckets: usize,
    ) -> Result<Density, Error> {
        let _moment = self.connection().unchecked_transaction()?;
        match way {
            Way::Rows => self.density_of_rows(question, since, until, buckets),
            Way::Tallies => self.density_of_tallies(question, since, until, buckets),
        }
    }

    fn density_of_rows(
        &self,
        question: &Question,
        since: Option<Timestamp>,
        until: Timestamp,
        buckets: usize,
    ) -> Result<Density, Error> {
        let range = self.range(question)?;
        let mut found: Vec<(i64, usize)> = Vec::new();
        let ended = self.scan(question, range, Order::Desc, Limit::MANY, |row| {
            found.push((row.time, sort(row.event_type)));
            ControlFlow::Continue(())
        })?;
        let counted_since = match ended {
            Ended::CutOff { at } => self.time_from(at)?.map(timestamp),
            Ended::Complete | Ended::Stopped => None,
        };
        let since = match (since, counted_since) {
            (Some(since), _) => since,
            (None, None) => found.iter().map(|(time, _)| *time).min().map_or(until, timestamp),
            // The age of what may not be seen is none of theirs.
            (None, Some(counted)) if question.sight.is_some() => counted,
            (None, Some(counted)) => self.ledger()?.oldest.unwrap_or(counted),
        };
        let since = since.min(until);
        let mut axis = Axis::new(since, until, buckets, 1);
        found.iter().for_each(|(time, sort)| axis.add(*time, *sort, 1));
        Ok(Density { counted_since, ..axis.density(since, until, ended != Ended::Complete) })
    }

    fn density_of_tallies(
        &self,
        question: &Question,
        since: Option<Timestamp>,
        until: Timestamp,
        buckets: usize,
    ) -> Result<Density, Error> {
        let taken = self.taken(question)?;
        let since = match since {
            Some(since) => since.min(until),
            None => {
                let mut oldest = self.oldest_tallied(&taken)?.unwrap_or(i64::MAX);
                let counted = tally::counted(self.connection())?;
                let tail = Range { from: counted.saturating_add(1), to: i64::MAX };
                self.scan(question, tail, Order::Asc, Limit::NONE, |row| {
                    oldest = oldest.min(row.time);
                    ControlFlow::Continue(())
                })?;
                if oldest == i64::MAX { until } else { timestamp(oldest).min(until) }
            }
        };
        let mut axis = Axis::new(since, until, buckets, MINUTE);
        if axis.width > HOUR {
            axis = Axis::new(since, until, buckets, HOUR);
        }
        let widest = if axis.width % HOUR == 0 { HOUR } else { MINUTE };
        let all = question.takes_all();
        // Both add to the same buckets, one after the other.
        let axis = std::cell::RefCell::new(axis);
        let widest = if taken.events == 0 { None } else { Some(widest) };
        self.tallies(
            question,
            widest,
            !all,
            |tally| {
                let mut sorts = if all { tally.sorts } else { [0; 3] };
                tally.profiles(|id, events| {
                    if let Some(sort) = taken.sort(id) {
                        sorts[sort] += events;
                    }
                });
                let mut axis = axis.borrow_mut();
                sorts.iter().enumerate().for_each(|(sort, events)| axis.add(tally.start, sort, *events));
            },
            |row| axis.borrow_mut().add(row.time, sort(row.event_type), 1),
        )?;
        Ok(axis.into_inner().density(since, until, false))
    }

    /// How often each value occurs, each facet without its own filter: what could be chosen there.
    pub fn facets(&self, filter: &Filter, sight: &Sight) -> Result<Facets, Error> {
        let question = filter.ask_apart(&self.kinds()?, sight)?;
        let few = question.asks_of_rows() || self.events_of(&question)? <= FEW;
        self.facets_by(if few { Way::Rows } else { Way::Tallies }, &question)
    }

    pub(super) fn facets_by(&self, way: Way, question: &Question) -> Result<Facets, Error> {
        let _moment = self.connection().unchecked_transaction()?;
        let mut counts = Counts::default();
        let partial = match way {
            Way::Rows => {
                let range = self.range(question)?;
                let ended = self.scan(question, range, Order::Desc, Limit::MANY, |row| {
                    counts.add(question, row, 1);
                    ControlFlow::Continue(())
                })?;
                ended != Ended::Complete
            }
            Way::Tallies => {
                let mut events: Vec<i64> = Vec::new();
                let mut add = |id: usize, more: i64| {
                    if events.len() <= id {
                        events.resize(id + 1, 0);
                    }
                    events[id] += more;
                };
                let period = question.period();
                let whole = period.since == i64::MIN && period.until == i64::MAX;
                // Of all that there is, the profiles themselves know the sum.
                self.tallies(
                    question,
                    Some(DAY),
                    !whole,
                    |tally| tally.profiles(&mut add),
                    |row| counts.add(question, row, 1),
                )?;
                tally::profiles(self.connection(), |id, profile, all| {
                    let in_period = usize::try_from(id).ok().and_then(|id| events.get(id).copied());
                    let events = if whole { all } else { in_period.unwrap_or_default() };
                    let row = question.row_of(profile);
                    if events > 0 && question.takes(&row) {
                        counts.add(question, &row, events.unsigned_abs());
                    }
                })?;
                false
            }
        };
        Ok(counts.finish(partial))
    }

    /// How many events there are in a question's period at most, whatever else it asks.
    fn events_of(&self, question: &Question) -> Result<i64, Error> {
        let (range, stats) = (self.range(question)?, self.ledger()?);
        Ok(range.to.min(stats.last_seq).saturating_sub(range.from.max(stats.first_seq)).saturating_add(1))
    }
}

/// Buckets of equal width. Milliseconds.
struct Axis {
    start: i64,
    width: i64,
    counts: Vec<[u64; 3]>,
}

impl Axis {
    /// So many buckets at most. Their width is whole seconds, and whole spans of `grain` milliseconds where that is more;
    /// they begin at such a span, too.
    fn new(since: Timestamp, until: Timestamp, buckets: usize, grain: i64) -> Self {
        let (since, until) = (since.as_millisecond(), until.as_millisecond());
        let buckets = i64::try_from(buckets.clamp(1, MOST_BUCKETS)).unwrap_or(1);
        let up = |number: i64, to: i64| (number + to - 1).div_euclid(to) * to;
        let step = grain.max(1000);
        let mut width = up(up((until - since).max(1), buckets) / buckets, step);
        let (start, count) = loop {
            let start = if grain > 1 { since.div_euclid(width) * width } else { since };
            let count = up((until - start).max(1), width) / width;
            // Beginning earlier may take one more.
            if count <= buckets || buckets == 1 {
                break (start, usize::try_from(count).unwrap_or(1));
            }
            width += step;
        };
        Self { start, width, counts: vec![[0; 3]; count] }
    }

    fn add(&mut self, time: i64, sort: usize, events: i64) {
        let at = usize::try_from((time - self.start).div_euclid(self.width)).ok();
        if let Some(bucket) = at.and_then(|at| self.counts.get_mut(at)) {
            bucket[sort] += events.unsigned_abs();
        }
    }

    fn density(self, since: Timestamp, until: Timestamp, partial: bool) -> Density {
        let Self { start, width, counts } = self;
        let bucket = |(n, [created, updated, deleted]): (usize, &[u64; 3])| Bucket {
            start: timestamp(start + width * i64::try_from(n).unwrap_or_default()),
            created: *created,
            updated: *updated,
            deleted: *deleted,
        };
        Density {
            since,
            until,
            seconds: width / 1000,
            buckets: counts.iter().enumerate().map(bucket).collect(),
            partial,
            counted_since: None,
        }
    }
}

/// How often each value of each facet occurs.
#[derive(Default)]
struct Counts([HashMap<String, u64>; 5]);

impl Counts {
    fn add(&mut self, question: &Question, row: &Narrow<'_>, events: u64) {
        fn add(counts: &mut HashMap<String, u64>, value: &str, events: u64) {
            match counts.get_mut(value) {
                Some(count) => *count += events,
                None => drop(counts.insert(value.to_owned(), events)),
            }
        }
        let takes = Facet::ALL.map(|facet| question.facet(facet, row));
        let refusals = takes.iter().filter(|takes| !**takes).count();
        for ((facet, takes), counts) in Facet::ALL.into_iter().zip(takes).zip(&mut self.0) {
            if refusals > 1 || (refusals == 1 && takes) {
                continue;
            }
            match facet {
                Facet::Kind if row.group.is_empty() || !row.kind.is_empty() => add(counts, row.kind, events),
                Facet::Kind => add(counts, &group_resource(row.group, row.resource), events),
                Facet::Namespace => add(counts, row.namespace, events),
                Facet::Class => row.classes().for_each(|class| add(counts, class, events)),
                Facet::Manager => row.managers().for_each(|manager| add(counts, manager, events)),
                Facet::Type => add(counts, row.event_type, events),
            }
        }
    }

    /// The most frequent first.
    fn finish(self, partial: bool) -> Facets {
        let [kind, namespace, class, manager, event_type] = self.0.map(|counts| {
            let mut counts: Vec<Count> = counts.into_iter().map(|(value, count)| Count { value, count }).collect();
            counts.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.value.cmp(&b.value)));
            counts.truncate(VALUES);
            counts
        });
        Facets { kind, namespace, class, manager, event_type, partial }
    }
}
