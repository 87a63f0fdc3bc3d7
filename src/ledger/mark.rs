//! What is delivered, in words that another replica understands.
//!
//! Two replicas number their events differently and may even tell the same history in different events, so a mark speaks
//! of neither. It says of each feed: every change after version `since` and up to version `up_to` has been delivered or
//! given up, except what waits. A mark is true for ever: one that is old only says less. What it says too little of is
//! sent twice, with the same id; what it says must never be more than what is so.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    sync::Arc,
    time::{Duration, Instant},
};

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{Error, Ledger};
use crate::cluster::store::{
    Span, Store,
    ended::{self, Ended},
};

/// Objects of one sink that a mark names one by one; with more, it names their feeds.
const OBJECTS: usize = 200;
/// Deliveries that are looked at, and taken off the list, at a time.
const PAGE: usize = 2_000;
/// How long reading a mark may take when nobody waits for it.
#[cfg(test)]
pub(super) const AT_EASE: Duration = Duration::from_secs(60);

/// Which change a delivery tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// See [`feed_hash`].
    pub feed: i64,
    pub span: Span,
}

impl Place {
    pub fn new(feed: &str, span: Span) -> Self {
        let gone = if span.by == Span::END { GONE } else { 0 };
        Self { feed: feed_hash(feed) | gone, span }
    }
}

/// A feed's key in few bytes: 48 bits, as two feeds with the same would be mistaken for each other.
pub fn feed_hash(key: &str) -> i64 {
    (xxh3_64(key.as_bytes()) >> 16).cast_signed()
}

/// In place of a feed itself, its end: what went with it. Only who has seen the end can say that it is told.
const GONE: i64 = 1 << 48;

/// What a replica says it has delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mark {
    /// By feed: after which version, and up to which.
    feeds: BTreeMap<i64, (i64, i64)>,
    /// By name: what waits. Of a sink that is not here nothing is said.
    sinks: BTreeMap<String, Waits>,
}

/// What a sink has not been told yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Waits {
    /// By object: its changes after this version.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    objects: BTreeMap<i64, i64>,
    /// By feed: everything after this version.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    feeds: BTreeMap<i64, i64>,
    /// By feed, where the sink is younger: nothing is said of what was before this version.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    since: BTreeMap<i64, i64>,
}

impl Mark {
    /// Reads it off the file, within one moment of it. `sinks` are names and row numbers. Each has its part of the time:
    /// of one with a list that is too long for it nothing is said, and the others do not suffer from it.
    pub fn read(connection: &Connection, sinks: &[(Arc<str>, i64)], within: Duration) -> Result<Self, rusqlite::Error> {
        let until = Instant::now() + within;
        // The cursors must not be newer than the list of what waits.
        let moment = connection.unchecked_transaction()?;
        let mut mark = Self { feeds: feeds(&moment)?, sinks: BTreeMap::new() };
        for (n, (name, id)) in sinks.iter().enumerate() {
            let left = u32::try_from(sinks.len() - n).unwrap_or(u32::MAX);
            let until = Instant::now() + until.saturating_duration_since(Instant::now()) / left;
            match Waits::read(&moment, *id, OBJECTS, until)? {
                Some(waits) => drop(mark.sinks.insert((**name).to_owned(), waits)),
                None => tracing::warn!(sink = %name, "its list is too long to say what of it is delivered"),
            }
        }
        Ok(mark)
    }

    #[cfg(test)]
    pub(super) fn speaks_of(&self, sink: &str) -> bool {
        self.sinks.contains_key(sink)
    }

    /// Up to which version it speaks of a feed.
    pub(super) fn up_to(&self, feed: &str) -> Option<i64> {
        self.feeds.get(&feed_hash(feed)).map(|(_, up_to)| *up_to)
    }

    /// Whether this change has been told to the sink.
    pub fn covers(&self, sink: &str, object: i64, place: Place) -> bool {
        let (Some((since, up_to)), Some(waits)) = (self.feeds.get(&place.feed), self.sinks.get(sink)) else {
            return false;
        };
        let (Span { after, by }, feed) = (place.span, place.feed & !GONE);
        // An end has no version: it tells of the objects that were known then. Later ones are of another life of the feed.
        let reached = if by == Span::END { after } else { by };
        let told = |waiting: Option<&i64>| waiting.is_none_or(|after| by <= *after);
        // What a younger sink has not seen of a feed it has not seen of its end either.
        let younger = waits.since.get(&feed).map(|younger| younger + i64::from(place.feed != feed));
        let since = younger.map_or(*since, |younger| younger.max(*since));
        let feeds_told = told(waits.feeds.get(&feed)) && told(waits.feeds.get(&(feed | GONE)));
        after >= since && reached <= *up_to && told(waits.objects.get(&object)) && feeds_told
    }

    /// From where on a feed that begins after `since` may say that everything is told, by its own word and this one's:
    /// this mark's own beginning, when it leaves no gap.
    fn extends(&self, feed: i64, since: i64, sinks: &[(Arc<str>, i64)]) -> Option<i64> {
        let (begins, up_to) = *self.feeds.get(&feed)?;
        let whole = |waits: &Waits| {
            let waiting = waits.objects.values().chain(waits.feeds.get(&feed));
            waiting.min().is_none_or(|after| *after >= since) && waits.since.get(&feed).is_none_or(|s| *s <= begins)
        };
        let all = sinks.iter().all(|(name, _)| self.sinks.get(&**name).is_some_and(whole));
        (begins < since && since <= up_to && all).then_some(begins)
    }

    /// Without the feeds that have been read as far as it speaks of them.
    fn ahead_of(&self, cursors: &BTreeMap<i64, (i64, i64)>) -> Option<Self> {
        let ahead = |feed: &i64, up_to: i64| match cursors.get(feed) {
            Some((_, cursor)) => *cursor < up_to,
            // An end that is still to come here.
            None => feed & GONE != 0 && cursors.contains_key(&(feed & !GONE)),
        };
        let feeds: BTreeMap<_, _> =
            self.feeds.iter().filter(|(f, (_, up))| ahead(f, *up)).map(|(f, s)| (*f, *s)).collect();
        (!feeds.is_empty()).then(|| Self { feeds, sinks: self.sinks.clone() })
    }

    /// As text of at most so many bytes. What has no room is left out, which is to say less.
    pub fn to_text(&self, max: usize) -> String {
        let text = |mark: &Self| serde_json::to_string(mark).unwrap_or_default();
        let whole = text(self);
        if whole.len() <= max {
            return whole;
        }
        let mut rest = self.clone();
        while !rest.feeds.is_empty() && text(&rest).len() > max {
            let half = rest.feeds.len() / 2;
            rest.feeds = rest.feeds.into_iter().take(half).collect();
        }
        if rest.feeds.is_empty() { String::new() } else { text(&rest) }
    }

    /// `None` when it is no mark: nothing is said then.
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl Waits {
    /// `None` when it took longer than that. One walk over the list, which is kept in the order of the events and not of
    /// objects: nothing is sorted, however long it is.
    fn read(
        connection: &Connection,
        sink: i64,
        objects: usize,
        until: Instant,
    ) -> Result<Option<Self>, rusqlite::Error> {
        let mut statement = connection
            .prepare_cached("SELECT object, feed, after FROM deliveries WHERE sink = ?1 AND version IS NOT NULL")?;
        let mut rows = statement.query([sink])?;
        let (mut waits, mut looked) = (Self::default(), 0_usize);
        while let Some(row) = rows.next()? {
            looked += 1;
            if looked.is_multiple_of(PAGE) && Instant::now() >= until {
                return Ok(None);
            }
            let after: i64 = row.get(2)?;
            let first = |of: &mut BTreeMap<i64, i64>, key| {
                of.entry(key).and_modify(|first| *first = after.min(*first)).or_insert(after);
            };
            first(&mut waits.feeds, row.get(1)?);
            if waits.objects.len() <= objects {
                first(&mut waits.objects, row.get(0)?);
            }
        }
        if waits.objects.len() <= objects {
            waits.feeds.clear();
        } else {
            waits.objects.clear();
        }
        let since: Option<String> =
            connection.prepare_cached("SELECT since FROM sinks WHERE id = ?1")?.query_row([sink], |row| row.get(0))?;
        waits.since = since.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Ok(Some(waits))
    }
}

/// Where each feed begins, and its cursor; of those that are over, how far they came, and their end.
fn feeds(connection: &Connection) -> Result<BTreeMap<i64, (i64, i64)>, rusqlite::Error> {
    let mut statement = connection.prepare_cached("SELECT key, begins, version FROM feeds WHERE begins IS NOT NULL")?;
    let mut rows = statement.query([])?;
    let mut feeds = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (key, since, version): (String, i64, Option<String>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if let Some(cursor) = version.and_then(|version| version.parse().ok()) {
            feeds.insert(feed_hash(&key), (since, cursor));
        }
    }
    for Ended { key, begins, up_to } in ended::read(connection)? {
        let feed = feed_hash(&key);
        if let Entry::Vacant(over) = feeds.entry(feed) {
            over.insert((begins, up_to));
            feeds.insert(feed | GONE, (begins, up_to));
        }
    }
    Ok(feeds)
}

/// Notes where the feeds are when a sink is first seen.
pub(super) fn begin(transaction: &Connection, sink: &str) -> Result<(), rusqlite::Error> {
    let all = feeds(transaction)?.into_iter().filter(|(feed, _)| feed & GONE == 0);
    let cursors: BTreeMap<i64, i64> = all.map(|(feed, (_, cursor))| (feed, cursor)).collect();
    if !cursors.is_empty() {
        let text = serde_json::to_string(&cursors).unwrap_or_default();
        transaction.execute("UPDATE sinks SET since = ?2 WHERE name = ?1", [sink, &text])?;
    }
    Ok(())
}

/// What waits at a sink and another replica has told, after a row; and the last row that was looked at.
fn covered(
    connection: &Connection,
    mark: &Mark,
    (name, sink): (&str, i64),
    after: i64,
) -> Result<(Vec<i64>, Option<i64>), rusqlite::Error> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, object, feed, after, version FROM deliveries WHERE sink = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let mut rows = statement.query(params![sink, after, i64::try_from(PAGE).unwrap_or(i64::MAX)])?;
    let (mut found, mut last) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        let seq = row.get(0)?;
        last = Some(seq);
        let place: (Option<i64>, Option<i64>, Option<i64>) = (row.get(2)?, row.get(3)?, row.get(4)?);
        if let (Some(feed), Some(after), Some(by)) = place
            && mark.covers(name, row.get(1)?, Place { feed, span: Span { after, by } })
        {
            found.push(seq);
        }
    }
    Ok((found, last))
}

impl Ledger {
    fn sink_rows(&self) -> Vec<(Arc<str>, i64)> {
        self.shared.plan().sinks.iter().map(|(name, slot)| (name.clone(), slot.id)).collect()
    }

    /// What this replica can say it has delivered. It also stops heeding what the leader before had delivered where the
    /// feeds have come as far: after a restore of the cluster the same versions come again and mean something else.
    /// Of sinks whose lists are too long to be read within that time it says nothing.
    pub async fn mark(&self, store: &Store, within: Duration) -> Result<Mark, Error> {
        let (store, sinks) = (store.clone(), self.sink_rows());
        let read = tokio::task::spawn_blocking(move || Mark::read(store.reader()?.connection(), &sinks, within));
        let mark = read.await.map_err(|_| crate::cluster::reflector::Closed)??;
        if let Some(told) = self.shared.plan().told.clone() {
            let ahead = told.ahead_of(&mark.feeds);
            if ahead.as_ref() != Some(&*told) {
                self.replace_plan(|plan| plan.told = ahead.map(Arc::new));
            }
        }
        Ok(mark)
    }

    /// Takes off the list what another replica says it has delivered, and lets nothing of it get there later.
    pub async fn heed(&self, store: &Store, mark: Mark) -> Result<u64, Error> {
        let mark = Arc::new(mark);
        self.replace_plan(|plan| plan.told = Some(mark.clone()));
        let sinks = self.sink_rows();
        let mut removed = 0;
        let mut reader = store.reader()?;
        for (name, id) in sinks.clone() {
            let mut after = Some(0);
            while let Some(from) = after {
                let (mark, name) = (mark.clone(), name.clone());
                let read = tokio::task::spawn_blocking(move || {
                    let found = covered(reader.connection(), &mark, (&name, id), from);
                    (reader, found)
                });
                let (back, found) = read.await.map_err(|_| crate::cluster::reflector::Closed)?;
                reader = back;
                let (seqs, last) = found?;
                after = last;
                removed += seqs.len() as u64;
                if !seqs.is_empty() {
                    take_off(store, id, seqs).await?;
                }
            }
        }
        drop(reader);
        self.extend(store, &mark, &sinks).await?;
        Ok(removed)
    }

    /// Where the other's word reaches back from where this replica's own begins, it begins there.
    async fn extend(&self, store: &Store, mark: &Mark, sinks: &[(Arc<str>, i64)]) -> Result<(), Error> {
        let own: HashMap<i64, (String, i64)> = {
            let reader = store.reader()?;
            let mut statement =
                reader.connection().prepare("SELECT key, begins FROM feeds WHERE begins IS NOT NULL")?;
            let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
            rows.map(|row| row.map(|(key, since)| (feed_hash(&key), (key, since)))).collect::<Result<_, _>>()?
        };
        let extended: Vec<(String, i64)> =
            own.into_iter().filter_map(|(feed, (key, since))| Some((key, mark.extends(feed, since, sinks)?))).collect();
        if extended.is_empty() {
            return Ok(());
        }
        let write = store.write(Box::new(move |transaction| {
            let mut update = transaction.prepare_cached("UPDATE feeds SET begins = min(begins, ?2) WHERE key = ?1")?;
            extended.iter().try_for_each(|(key, since)| update.execute(params![key, since]).map(drop))
        }));
        Ok(write.await?)
    }
}

async fn take_off(store: &Store, sink: i64, seqs: Vec<i64>) -> Result<(), Error> {
    let write = store.write(Box::new(move |transaction| {
        let mut delete = transaction.prepare_cached("DELETE FROM deliveries WHERE sink = ?1 AND seq = ?2")?;
        seqs.iter().try_for_each(|seq| delete.execute(params![sink, seq]).map(drop))
    }));
    Ok(write.await?)
}

#[cfg(test)]
mod tests;
