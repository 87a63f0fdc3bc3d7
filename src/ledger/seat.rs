//! What every worker stands on: waking up, reading what is due, writing down what became of it.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use rusqlite::{Connection, Transaction, params};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Ended, Shared, count::SinkCounts, now_ms, queue::Row, rows, whole::Wholes};
use crate::{
    cluster::{
        reflector::Closed,
        store::{Patience, Reader, Store},
    },
    event::Redacted,
    failpoint,
    sink::Retry,
};

/// Acks that are no longer few.
pub(super) const MANY_ACKS: usize = 256;

/// Tells a worker that there is something new.
#[derive(Debug, Default)]
pub(super) struct Wake {
    notify: Notify,
    rewind: AtomicBool,
}

impl Wake {
    /// New rows after the others.
    pub(super) fn up(&self) {
        self.notify.notify_one();
    }

    /// New rows anywhere: dead letters that are to be tried again.
    pub(super) fn rewind(&self) {
        self.rewind.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    pub(super) async fn woken(&self) {
        self.notify.notified().await;
    }

    pub(super) fn take_rewind(&self) -> bool {
        self.rewind.swap(false, Ordering::AcqRel)
    }
}

/// What every worker stands on.
pub(super) struct Seat {
    pub(super) name: Arc<str>,
    pub(super) id: i64,
    pub(super) retry: Retry,
    pub(super) store: Store,
    /// Away only while a page is being read.
    pub(super) reader: Option<Reader>,
    pub(super) shared: Arc<Shared>,
    pub(super) counts: Arc<SinkCounts>,
    pub(super) wake: Arc<Wake>,
    pub(super) stop: Stop,
    pub(super) wholes: Wholes,
}

/// How a worker is asked to come to its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop {
    /// When all that can be sent now has been: there is nobody who would go on with it.
    pub(super) drained: CancellationToken,
    /// When what is on its way is settled: another worker takes the rest.
    pub(super) at_once: CancellationToken,
}

/// What became of a delivery, to be written down.
#[derive(Debug)]
pub(super) enum Ack {
    Done { seq: i64 },
    Again { seq: i64, attempts: u32, at: i64 },
    Dead { seq: i64, attempts: u32, reason: String },
}

impl Ack {
    fn seq(&self) -> i64 {
        match self {
            Self::Done { seq } | Self::Again { seq, .. } | Self::Dead { seq, .. } => *seq,
        }
    }

    pub(super) fn write(&self, transaction: &Transaction<'_>, sink: i64) -> Result<(), rusqlite::Error> {
        match self {
            Self::Done { .. } => {}
            Self::Again { seq, attempts, at } => {
                transaction
                    .prepare_cached("UPDATE deliveries SET attempts = ?3, next_at = ?4 WHERE sink = ?1 AND seq = ?2")?
                    .execute(params![sink, seq, attempts, at])?;
                return Ok(());
            }
            Self::Dead { seq, attempts, reason } => {
                transaction
                    .prepare_cached(
                        "INSERT OR REPLACE INTO dead_letters (sink, seq, object, time, attempts, reason)
                         SELECT sink, seq, object, ?3, ?4, ?5 FROM deliveries WHERE sink = ?1 AND seq = ?2",
                    )?
                    .execute(params![sink, seq, now_ms(), attempts, reason])?;
            }
        }
        transaction
            .prepare_cached("DELETE FROM deliveries WHERE sink = ?1 AND seq = ?2")?
            .execute(params![sink, self.seq()])?;
        Ok(())
    }
}

impl Seat {
    /// Reads something from the file without holding up the runtime. What may heal (a disk that fails, no file handles
    /// left) is tried again for as long as it takes, as the writer does; a damaged file is said to be so for the next
    /// start, which sets it aside.
    pub(super) async fn read<T: Send + 'static>(
        &mut self,
        mut what: impl FnMut(&mut Reader) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Result<T, Ended> {
        let mut failures = 0;
        loop {
            let (reader, store) = (self.reader.take(), self.store.clone());
            let read = tokio::task::spawn_blocking(move || {
                let result = reader.map_or_else(|| store.reader(), Ok).and_then(|mut reader| {
                    let value = what(&mut reader)?;
                    Ok((reader, value))
                });
                (what, result)
            });
            let (back, result) = read.await.map_err(|error| Ended::Failed(error.to_string()))?;
            what = back;
            let error = match result {
                Ok((reader, value)) => {
                    self.reader = Some(reader);
                    if failures > 0 {
                        tracing::info!(sink = %self.name, "the state file can be read again");
                    }
                    return Ok(value);
                }
                Err(error) => error,
            };
            if !self.store.may_heal(&error) {
                return Err(Ended::Failed(format!("the state file cannot be read: {error}")));
            }
            if failures == 0 {
                tracing::error!(sink = %self.name, %error, "cannot read the state file; trying again");
            }
            tokio::select! {
                () = tokio::time::sleep(self.backoff(failures)) => failures = failures.saturating_add(1),
                // What is not read now is sent after the next start, or by who takes over.
                () = self.stop.at_once.cancelled() => return Err(Ended::Drained),
                () = self.stop.drained.cancelled() => return Err(Ended::Drained),
            }
        }
    }

    /// A time that an earlier process wrote down may be far away by now, when its clock was wrong or ours is: nothing
    /// waits longer than the longest pause.
    pub(super) async fn page(&mut self, after: i64, limit: usize) -> Result<Vec<Row>, Ended> {
        let sink = self.id;
        let latest = now_ms().saturating_add(millis(self.retry.max));
        self.read(move |reader| {
            reader
                .connection()
                .prepare_cached(
                    "SELECT seq, object, attempts, next_at, since FROM deliveries WHERE sink = ?1 AND seq > ?2
                     ORDER BY seq LIMIT ?3",
                )?
                .query_map(params![sink, after, i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
                    Ok(Row {
                        seq: row.get(0)?,
                        object: row.get(1)?,
                        attempts: row.get(2)?,
                        next_at: row.get::<_, i64>(3)?.min(latest),
                        since: row.get(4)?,
                    })
                })?
                .collect()
        })
        .await
    }

    /// The events of these rows.
    pub(super) async fn events(&mut self, seqs: Vec<i64>) -> Result<Vec<Found>, Ended> {
        let recent: Vec<_> = seqs.iter().map(|seq| self.shared.recent.get(*seq)).collect();
        let missing: Vec<i64> = seqs.iter().zip(&recent).filter(|(_, e)| e.is_none()).map(|(seq, _)| *seq).collect();
        let mut read: HashMap<i64, Found> = HashMap::new();
        if !missing.is_empty() {
            let sink = self.id;
            read = self
                .read(move |reader| {
                    missing.iter().map(|seq| Ok((*seq, find(reader.connection(), sink, *seq)?))).collect()
                })
                .await?;
        }
        let found = seqs.iter().zip(recent).map(|(seq, recent)| match recent {
            Some((size, event)) => Found::Event(size, event),
            None => read.remove(seq).unwrap_or(Found::Gone),
        });
        Ok(found.collect())
    }

    /// An event of this size with the object that it left, where it is known; see [`Wholes`].
    pub(super) async fn whole(
        &mut self,
        seq: i64,
        (size, event): (usize, Arc<Redacted>),
    ) -> Result<(usize, Arc<Redacted>), Ended> {
        let mut wholes = std::mem::take(&mut self.wholes);
        let (wholes, (more, event)) = self
            .read(move |reader| {
                let filled = wholes.fill(reader, seq, event.clone())?;
                Ok((std::mem::take(&mut wholes), filled))
            })
            .await?;
        self.wholes = wholes;
        Ok((size + more, event))
    }

    pub(super) fn backoff(&self, attempts: u32) -> Duration {
        pause(&self.retry, attempts, rand::random())
    }

    /// Whether what was to be delivered since `began` is to be given up.
    pub(super) fn out_of_budget(&self, began: i64, now: i64) -> bool {
        now.saturating_sub(began) > millis(self.retry.budget)
    }

    pub(super) fn given_up(&self, reason: &str) -> String {
        format!("not delivered within {:.1} h: {reason}", self.retry.budget.as_secs_f64() / 3600.0)
    }

    /// They go along with changes, unless they are many, as there is a backlog then, or it comes to an end.
    pub(super) fn write_acks(&self, acks: Vec<Ack>) -> BoxFuture<'static, Result<Vec<i64>, Closed>> {
        failpoint::hit("before-ack");
        let ending = self.stop.drained.is_cancelled() || self.stop.at_once.is_cancelled();
        let patience = if ending || acks.len() >= MANY_ACKS { Patience::Soon } else { Patience::Along };
        let (store, sink) = (self.store.clone(), self.id);
        let finished = acks.iter().filter(|ack| !matches!(ack, Ack::Again { .. })).map(Ack::seq).collect();
        Box::pin(async move {
            let write = Box::new(move |tx: &Transaction<'_>| acks.iter().try_for_each(|ack| ack.write(tx, sink)));
            store.write_in_time(write, patience).await?;
            failpoint::hit("after-ack");
            Ok(finished)
        })
    }

    pub(super) fn log_failure(&self, reason: &str) {
        if self.counts.failed(reason) {
            tracing::warn!(sink = %self.name, reason, "cannot deliver; trying again");
        }
    }
}

/// What is there of an event that is to be delivered.
#[derive(Debug)]
pub(super) enum Found {
    /// With the bytes of its JSON.
    Event(usize, Arc<Redacted>),
    /// Retention took it, with its deliveries, and counted that.
    Gone,
    /// It cannot be read, or is missing though it is still to be delivered.
    Damaged,
}

fn find(connection: &Connection, sink: i64, seq: i64) -> Result<Found, rusqlite::Error> {
    match rows::recorded(connection, seq) {
        Ok(Some((size, event))) => Ok(Found::Event(size, event)),
        Ok(None) => {
            // Both go in one transaction: looked at in this order, one that is there still was meant to be sent.
            let waits = connection
                .prepare_cached("SELECT 1 FROM deliveries WHERE sink = ?1 AND seq = ?2")?
                .exists(params![sink, seq])?;
            Ok(if waits { Found::Damaged } else { Found::Gone })
        }
        Err(error @ rusqlite::Error::FromSqlConversionFailure(..)) => {
            tracing::error!(%error, seq, "a recorded event cannot be read");
            Ok(Found::Damaged)
        }
        Err(error) => Err(error),
    }
}

/// A pause before the next attempt: twice as long each time, anywhere in its upper half. `share` is from 0 to 1.
fn pause(retry: &Retry, attempts: u32, share: f64) -> Duration {
    let whole = retry.min.saturating_mul(1 << attempts.min(20)).min(retry.max);
    whole.mul_f64(0.5 + 0.5 * share)
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_twice_as_long_each_time_in_its_upper_half_and_never_longer_than_the_longest() {
        let retry = Retry { min: Duration::from_secs(1), max: Duration::from_secs(60), ..Retry::default() };
        let range = |attempts| [0.0, 1.0].map(|share| pause(&retry, attempts, share).as_secs_f64());
        let all: Vec<[f64; 2]> = (0..8).map(range).collect();
        let expected =
            [[0.5, 1.0], [1.0, 2.0], [2.0, 4.0], [4.0, 8.0], [8.0, 16.0], [16.0, 32.0], [30.0, 60.0], [30.0, 60.0]];
        assert_eq!(all, expected);
        assert_eq!(range(u32::MAX), [30.0, 60.0], "however often");
        assert_eq!(pause(&retry, 1, 0.5).as_secs_f64(), 1.5, "anywhere between the two");
    }
}
