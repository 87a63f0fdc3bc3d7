//! What is forgotten, when, and the space given back. In small steps: each is one short write among the others.
//!
//! By age: events, dead letters and deliveries older than `age` go. By size: while the file holds more than `max_bytes`,
//! the oldest events that nobody waits for go first. Only when there is nothing else, the oldest that are still to be
//! delivered do. Both ways of losing an event that waits are counted and logged.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use rusqlite::{Connection, Transaction};
use tokio_util::sync::CancellationToken;

use super::{Ended, Lost, Shared, absence, dead, now_ms, search, seat::millis, silences, tally};
use crate::cluster::store::{Reader, Store};

/// Rows a step.
const STEP: i64 = 500;
/// Events that a step looks at to find some that nobody waits for: others wait for the writer meanwhile.
const WINDOW: i64 = 20 * STEP;
/// Pages given back to the file system a step.
const VACUUM: i64 = 500;
/// How often the file is looked at, and how often for what people asked for in it: dead letters, silences.
const EVERY: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Between two batches of a search that is behind.
const SEARCH_STEP: Duration = Duration::from_millis(100);
/// So many new events are brought into the search without waiting for the next look: they are still in memory.
const SEARCH_AT: i64 = 250;

/// Where the time of the newest event that was forgotten stands, in `meta`.
pub(crate) const HORIZON: &str = "horizon";

/// The time of the newest event that was forgotten.
pub(super) fn horizon(connection: &Connection) -> Result<i64, rusqlite::Error> {
    use rusqlite::OptionalExtension;
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    Ok(statement.query_row([HORIZON], |row| row.get(0)).optional()?.unwrap_or(i64::MIN))
}

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// `state.retention_days`
    pub age: Duration,
    /// `state.max_bytes`
    pub max_bytes: u64,
}

impl Default for Keep {
    fn default() -> Self {
        Self { age: Duration::from_secs(14 * 24 * 3600), max_bytes: 2 << 30 }
    }
}

/// What a step removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub events: u64,
    pub expired: u64,
    pub no_room: u64,
    /// There may be more to do.
    pub more: bool,
    /// Up to this event all were seen to wait for a sink. The next step of the same pass goes on from there.
    pub waiting_to: i64,
}

pub(super) async fn run(store: Store, shared: Arc<Shared>, keep: Keep, stop: CancellationToken) -> Ended {
    let mut next = tokio::time::Instant::now() + EVERY;
    let mut reader = None;
    // The newest event when the search was last brought up to date; `None` while there is more to do.
    let mut searching = None;
    let mut newest = shared.newest.subscribe();
    loop {
        // What is behind, after an upgrade or a burst, catches up in small steps.
        let pause = if searching.is_none() { SEARCH_STEP } else { LOOK_EVERY };
        let many = searching.map(|searched: i64| searched.saturating_add(SEARCH_AT));
        tokio::select! {
            () = stop.cancelled() => return Ended::Drained,
            () = tokio::time::sleep(pause) => {}
            () = reaches(&mut newest, many) => {}
        }
        if revive(&store, &shared, &mut reader).await.is_err() {
            return Ended::StoreClosed;
        }
        silences::upkeep(&shared, reader.as_ref());
        if searching.is_none_or(|seq| seq != *shared.newest.borrow()) {
            let newest = *shared.newest.borrow();
            match search::fill(&store, &shared).await {
                Ok(more) => searching = (!more).then_some(newest),
                Err(_) => return Ended::StoreClosed,
            }
        }
        if tokio::time::Instant::now() < next {
            continue;
        }
        next = tokio::time::Instant::now() + EVERY;
        let mut waiting_to = 0;
        loop {
            let Ok(removed) = step(&store, &shared, keep, waiting_to).await else { return Ended::StoreClosed };
            waiting_to = removed.waiting_to;
            if !removed.more || stop.is_cancelled() {
                break;
            }
            // Others write, too.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// When the newest event has this number; never when there is none.
async fn reaches(newest: &mut tokio::sync::watch::Receiver<i64>, number: Option<i64>) {
    match number {
        // Its sender lives as long as whatever is told here.
        Some(number) => drop(newest.wait_for(|newest| *newest >= number).await),
        None => std::future::pending().await,
    }
}

/// One step, counted.
pub(super) async fn step(
    store: &Store,
    shared: &Shared,
    keep: Keep,
    waiting_to: i64,
) -> Result<Removed, crate::cluster::reflector::Closed> {
    let (told, result) = std::sync::mpsc::channel();
    store
        .write(Box::new(move |transaction| {
            let mut removed = remove(transaction, keep, now_ms(), waiting_to)?;
            removed.more |= vacuum(transaction)?;
            let _ = told.send(removed);
            Ok(())
        }))
        .await?;
    let removed = result.into_iter().last().unwrap_or_default();
    shared.counts.forgotten.fetch_add(removed.events, Relaxed);
    shared.counts.lose(Lost::Expired, removed.expired);
    shared.counts.lose(Lost::NoRoom, removed.no_room);
    if removed.no_room > 0 {
        tracing::error!(
            events = removed.no_room,
            "the state file has reached state.max_bytes with dead letters, or with nothing but events that are still to be \
             delivered: the oldest were removed undelivered; mend the sink or allow more room"
        );
    }
    if removed.expired > 0 {
        tracing::warn!(
            events = removed.expired,
            "undelivered events and dead letters older than state.retention_days were removed"
        );
    }
    Ok(removed)
}

async fn revive(
    store: &Store,
    shared: &Shared,
    reader: &mut Option<Reader>,
) -> Result<(), crate::cluster::reflector::Closed> {
    if reader.is_none() {
        *reader = store.reader().ok();
    }
    let asked = reader.as_ref().is_some_and(|reader| dead::any_asked_for(reader.connection()).unwrap_or(false));
    if !asked {
        return Ok(());
    }
    let (told, result) = std::sync::mpsc::channel();
    store
        .write(Box::new(move |transaction| {
            let _ = told.send(dead::revive(transaction)?);
            Ok(())
        }))
        .await?;
    let sinks = result.into_iter().last().unwrap_or_default();
    for slot in shared.plan().sinks.values().filter(|slot| sinks.contains(&slot.id)) {
        slot.wake.rewind();
    }
    Ok(())
}

/// Removes the oldest rows that have to go, at most a step's worth. Events up to `waiting_to` are taken to wait for a sink,
/// as an earlier step of this pass has found.
pub fn remove(
    transaction: &Transaction<'_>,
    keep: Keep,
    now: i64,
    waiting_to: i64,
) -> Result<Removed, rusqlite::Error> {
    let cutoff = now.saturating_sub(millis(keep.age));
    let mut removed = Removed { waiting_to, ..Removed::default() };
    // The oldest by number are the oldest by time; only the first few need to be looked at.
    let old: Vec<i64> = transaction
        .prepare_cached("SELECT seq FROM (SELECT seq, time FROM events ORDER BY seq LIMIT ?1) WHERE time < ?2")?
        .query_map([STEP, cutoff], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    removed.expired += forget(transaction, &old)?;
    absence::forget(transaction, cutoff)?;
    silences::forget(transaction, cutoff)?;
    removed.events += old.len() as u64;
    removed.more = old.len() as i64 >= STEP;
    if used_bytes(transaction)? <= keep.max_bytes {
        return Ok(removed);
    }
    let idle: Vec<i64> = transaction
        .prepare_cached(
            "SELECT seq FROM (SELECT seq FROM events WHERE seq > ?3 ORDER BY seq LIMIT ?2) e
             WHERE NOT EXISTS (SELECT 1 FROM sinks s JOIN deliveries d ON d.sink = s.id AND d.seq = e.seq) LIMIT ?1",
        )?
        .query_map([STEP, WINDOW, waiting_to], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    removed.no_room += forget(transaction, &idle)?;
    removed.events += idle.len() as u64;
    if idle.is_empty() {
        let (last, looked): (Option<i64>, i64) = transaction
            .prepare_cached(
                "SELECT max(seq), count(*) FROM (SELECT seq FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2)",
            )?
            .query_row([waiting_to, WINDOW], |row| Ok((row.get(0)?, row.get(1)?)))?;
        removed.waiting_to = last.unwrap_or(waiting_to);
        if looked >= WINDOW {
            removed.more = true;
            return Ok(removed);
        }
        let oldest: Vec<i64> = transaction
            .prepare_cached("SELECT seq FROM events ORDER BY seq LIMIT ?1")?
            .query_map([STEP], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        removed.no_room += forget(transaction, &oldest)?;
        removed.events += oldest.len() as u64;
    }
    removed.more |= removed.events > 0;
    Ok(removed)
}

/// Removes events and whatever was still to be done with them, and says how much that was.
pub(crate) fn forget(transaction: &Transaction<'_>, seqs: &[i64]) -> Result<u64, rusqlite::Error> {
    tally::take_back(transaction, seqs)?;
    seqs.iter().try_fold(0, |sum, seq| Ok(sum + forget_event(transaction, *seq)?))
}

fn forget_event(transaction: &Transaction<'_>, seq: i64) -> Result<u64, rusqlite::Error> {
    let deliveries = transaction
        .prepare_cached("DELETE FROM deliveries WHERE seq = ?1 AND sink IN (SELECT id FROM sinks)")?
        .execute([seq])?;
    let dead = transaction
        .prepare_cached("DELETE FROM dead_letters WHERE seq = ?1 AND sink IN (SELECT id FROM sinks)")?
        .execute([seq])?;
    search::forget(transaction, seq)?;
    // What was before this is not known any more.
    transaction
        .prepare_cached(
            "INSERT INTO meta (key, value) SELECT ?2, time FROM events WHERE seq = ?1
             ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)",
        )?
        .execute(rusqlite::params![seq, HORIZON])?;
    transaction.prepare_cached("DELETE FROM events WHERE seq = ?1")?.execute([seq])?;
    Ok((deliveries + dead) as u64)
}

/// Bytes of the file that hold something.
pub fn used_bytes(connection: &Connection) -> Result<u64, rusqlite::Error> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = pragma("page_count")? - pragma("freelist_count")?;
    Ok((pages * pragma("page_size")?).unsigned_abs())
}

/// Gives free pages back, some at a time; `true` when there are many more. A few are left for what comes next.
fn vacuum(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({VACUUM})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    connection.pragma_query_value(None, "freelist_count", |row| Ok(row.get::<_, i64>(0)? > VACUUM / 5))
}
