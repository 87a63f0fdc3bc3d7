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
use rusqlite::{Transaction, params};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Ended, Shared, count::SinkCounts, now_ms, queue::Row, rows};
use crate::{
    cluster::{
        reflector::Closed,
        store::{Reader, Store},
    },
    event::Event,
    failpoint,
    sink::Retry,
};

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
    pub(super) stop: CancellationToken,
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
    /// Reads something from the file without holding up the runtime.
    pub(super) async fn read<T: Send + 'static>(
        &mut self,
        what: impl FnOnce(&Reader) -> Result<T, rusqlite::Error> + Send + 'static,
    ) -> Result<T, Ended> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => self.store.reader().map_err(|error| failed(&error))?,
        };
        let read = tokio::task::spawn_blocking(move || {
            let result = what(&reader);
            (reader, result)
        });
        let (reader, result) = read.await.map_err(|error| Ended::Failed(error.to_string()))?;
        self.reader = Some(reader);
        result.map_err(|error| failed(&error))
    }

    pub(super) async fn page(&mut self, after: i64, limit: usize) -> Result<Vec<Row>, Ended> {
        let sink = self.id;
        self.read(move |reader| {
            reader
                .connection()
                .prepare_cached(
                    "SELECT seq, object, attempts, next_at FROM deliveries WHERE sink = ?1 AND seq > ?2
                     ORDER BY seq LIMIT ?3",
                )?
                .query_map(params![sink, after, i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
                    Ok(Row { seq: row.get(0)?, object: row.get(1)?, attempts: row.get(2)?, next_at: row.get(3)? })
                })?
                .collect()
        })
        .await
    }

    /// The events of these rows, with their sizes. One that cannot be read is `None`.
    pub(super) async fn events(&mut self, seqs: Vec<i64>) -> Result<Vec<Option<(usize, Arc<Event>)>>, Ended> {
        let mut found: Vec<_> = seqs.iter().map(|seq| self.shared.recent.get(*seq)).collect();
        let missing: Vec<i64> = seqs.iter().zip(&found).filter(|(_, e)| e.is_none()).map(|(seq, _)| *seq).collect();
        if !missing.is_empty() {
            let read: HashMap<i64, _> = self
                .read(move |reader| {
                    let each = |seq: i64| match rows::event(reader.connection(), seq) {
                        Ok(event) => Ok((seq, event)),
                        Err(error @ rusqlite::Error::FromSqlConversionFailure(..)) => {
                            tracing::error!(%error, seq, "a recorded event cannot be read");
                            Ok((seq, None))
                        }
                        Err(error) => Err(error),
                    };
                    missing.into_iter().map(each).collect()
                })
                .await?;
            for (seq, event) in seqs.iter().zip(&mut found) {
                if event.is_none() {
                    *event = read.get(seq).cloned().flatten();
                }
            }
        }
        Ok(found)
    }

    /// A pause before the next attempt: twice as long each time, anywhere in its upper half.
    pub(super) fn backoff(&self, attempts: u32) -> Duration {
        let whole = self.retry.min.saturating_mul(1 << attempts.min(20)).min(self.retry.max);
        whole.mul_f64(0.5 + 0.5 * rand::random::<f64>())
    }

    pub(super) fn out_of_budget(&self, event: &Event, now: i64) -> bool {
        now.saturating_sub(event.time.as_millisecond()) > millis(self.retry.budget)
    }

    pub(super) fn write_acks(&self, acks: Vec<Ack>) -> BoxFuture<'static, Result<Vec<i64>, Closed>> {
        failpoint::hit("before-ack");
        let (store, sink) = (self.store.clone(), self.id);
        let finished = acks.iter().filter(|ack| !matches!(ack, Ack::Again { .. })).map(Ack::seq).collect();
        Box::pin(async move {
            store.write(Box::new(move |tx| acks.iter().try_for_each(|ack| ack.write(tx, sink)))).await?;
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

fn failed(error: &rusqlite::Error) -> Ended {
    Ended::Failed(format!("the state file cannot be read: {error}"))
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
