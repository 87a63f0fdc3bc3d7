//! When nobody watched: while kubediff did not run, and while a feed could not be read. What changed meanwhile is seen
//! later than it was made, so whoever asks for a time in between has to be told.
//!
//! What is kept is never shorter than the real absence: after a crash it begins at the last word that was written, up to
//! `STAMP` before, and of a watch that broke it begins with the last thing that was heard from it. Absences shorter
//! than `SHORT` are not kept.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tokio_util::sync::CancellationToken;

use crate::cluster::{
    informer::{Factory, Informer},
    reflector::{Closed, Phase},
    store::{FeedId, Store},
};

/// The feed that stands for all of them.
const ALL: FeedId = 0;
/// Where the time up to which kubediff is known to have run stands, in `meta`.
const WATCHING: &str = "watching";
/// How often that is written.
pub(crate) const STAMP: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_secs(1);
const SHORT: Duration = Duration::from_secs(5);

/// A time in which a feed was not watched. Milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absence {
    pub(crate) since: i64,
    /// None while it lasts.
    pub(crate) until: Option<i64>,
}

/// Follows every informer until it is told to stop.
pub async fn run(store: Store, factory: Factory, stop: CancellationToken) {
    let Ok(mut open) = begin(&store).await else { return };
    let mut feeds: HashMap<FeedId, Seen> = HashMap::new();
    let mut looked = Timestamp::now();
    let mut stamped = looked;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        let now = Timestamp::now();
        let mut news = Vec::new();
        for informer in factory.informers() {
            let Some(id) = informer.id() else { continue };
            let seen = feeds.entry(id).or_insert_with(|| Seen { away: None, told: open.remove(&id) });
            news.extend(seen.look(&informer, looked, now).map(|news| (id, news)));
        }
        looked = now;
        let due = now.duration_since(stamped).unsigned_abs() >= STAMP;
        if news.is_empty() && !due {
            continue;
        }
        stamped = now;
        let write = store.write(Box::new(move |transaction| {
            for (feed, news) in &news {
                news.write(transaction, *feed)?;
            }
            stamp_at(transaction, now)
        }));
        if write.await.is_err() {
            return;
        }
    }
}

/// Says that kubediff ran until now: the last thing before it ends.
pub async fn stamp(store: &Store) -> Result<(), Closed> {
    store.write(Box::new(|transaction| stamp_at(transaction, Timestamp::now()))).await
}

/// The time since the last word is an absence of all feeds. Gives the feeds that have one that still lasts.
async fn begin(store: &Store) -> Result<HashSet<FeedId>, Closed> {
    let (told, open) = std::sync::mpsc::channel();
    let now = Timestamp::now();
    let write = store.write(Box::new(move |transaction| {
        if let Some(since) = watching(transaction)? {
            insert(transaction, ALL, Absence { since, until: Some(now.as_millisecond().max(since)) })?;
        }
        stamp_at(transaction, now)?;
        let lasting: HashSet<FeedId> = transaction
            .prepare_cached("SELECT feed FROM absences WHERE until IS NULL")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let _ = told.send(lasting);
        Ok(())
    }));
    write.await?;
    Ok(open.into_iter().last().unwrap_or_default())
}

/// What was last seen of a feed.
struct Seen {
    /// Since when it is not live.
    away: Option<Timestamp>,
    /// Whether that is written down.
    told: bool,
}

/// What is to be written down.
enum News {
    Left(Timestamp),
    Back(Timestamp),
}

impl Seen {
    fn look(&mut self, informer: &Informer, looked: Timestamp, now: Timestamp) -> Option<News> {
        let status = informer.status();
        let status = status.borrow();
        if status.phase == Phase::Live {
            self.away = None;
            return std::mem::take(&mut self.told).then_some(News::Back(status.since));
        }
        let away = *self.away.get_or_insert_with(|| {
            // A connection may have been dead for long before that was noticed.
            let heard = status.last_event.max(status.last_bookmark).filter(|_| status.problem.is_some());
            heard.unwrap_or(looked).min(looked)
        });
        if self.told || now.duration_since(away).unsigned_abs() < SHORT {
            return None;
        }
        self.told = true;
        Some(News::Left(away))
    }
}

impl News {
    fn write(&self, transaction: &Transaction<'_>, feed: FeedId) -> Result<(), rusqlite::Error> {
        match self {
            Self::Left(since) => insert(transaction, feed, Absence { since: since.as_millisecond(), until: None }),
            Self::Back(until) => transaction
                .prepare_cached("UPDATE absences SET until = max(since, ?2) WHERE feed = ?1 AND until IS NULL")?
                .execute(params![feed, until.as_millisecond()])
                .map(drop),
        }
    }
}

fn insert(connection: &Connection, feed: FeedId, absence: Absence) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("INSERT INTO absences (feed, since, until) VALUES (?1, ?2, ?3)")?
        .execute(params![feed, absence.since, absence.until])
        .map(drop)
}

fn stamp_at(connection: &Connection, now: Timestamp) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")?
        .execute(params![WATCHING, now.as_millisecond()])
        .map(drop)
}

/// Up to when kubediff is known to have run; while it does, no more than [`STAMP`] ago.
pub(crate) fn watching(connection: &Connection) -> Result<Option<i64>, rusqlite::Error> {
    connection
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([WATCHING], |row| row.get(0))
        .optional()
}

/// When some feeds, or all, were not watched, the oldest first.
pub(crate) fn of(connection: &Connection, feeds: &[FeedId]) -> Result<Vec<Absence>, rusqlite::Error> {
    let mut statement =
        connection.prepare_cached("SELECT since, until FROM absences WHERE feed = ?1 ORDER BY since")?;
    let mut found = Vec::new();
    for feed in feeds.iter().chain([&ALL]) {
        let rows = statement.query_map([feed], |row| Ok(Absence { since: row.get(0)?, until: row.get(1)? }))?;
        for absence in rows {
            found.push(absence?);
        }
    }
    found.sort_by_key(|absence| absence.since);
    Ok(found)
}

/// Forgets those that were over by then.
pub(super) fn forget(transaction: &Transaction<'_>, before: i64) -> Result<(), rusqlite::Error> {
    transaction.prepare_cached("DELETE FROM absences WHERE until < ?1")?.execute([before]).map(drop)
}

#[cfg(test)]
pub(crate) fn tell(
    transaction: &Transaction<'_>,
    feed: FeedId,
    since: i64,
    until: Option<i64>,
) -> Result<(), rusqlite::Error> {
    insert(transaction, feed, Absence { since, until })
}
