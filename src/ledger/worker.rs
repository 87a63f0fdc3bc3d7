//! One task a sink: reads what is due, sends it, tries again, gives up, and writes down what became of it.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{
    StreamExt,
    future::{BoxFuture, OptionFuture},
    stream::FuturesUnordered,
};
use rusqlite::{Transaction, params};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    Ended, Shared,
    count::{Lost, SinkCounts},
    now_ms,
    queue::{Queue, Row},
    rows,
};
use crate::{
    cluster::{
        reflector::Closed,
        store::{Reader, Store},
    },
    event::Event,
    failpoint,
    sink::{Outcome, Pace, Retry, Sink},
};

/// A batch of large events is cut at this many bytes of JSON.
const BATCH_BYTES: usize = 1 << 20;
/// After so many failures in a row, whatever they were about, the sink is taken for down: one attempt at a time.
const DOWN: u32 = 3;

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

/// One attempt, over.
struct Sent {
    seqs: Vec<i64>,
    events: Vec<Arc<Event>>,
    outcome: Outcome,
}

struct Worker {
    seat: Seat,
    sink: Arc<dyn Sink>,
    pace: Pace,
    queue: Queue,
    in_flight: FuturesUnordered<BoxFuture<'static, Sent>>,
    acks: Vec<Ack>,
    writing: Option<BoxFuture<'static, Result<Vec<i64>, Closed>>>,
    /// Failures in a row, of whatever.
    failures: u32,
    /// Nothing is sent before this time, in milliseconds.
    paused_until: i64,
    /// The other side asked for the pause: it is there, and worth waiting for.
    asked_to_wait: bool,
    disabled: bool,
    closed: bool,
    draining: bool,
}

pub(super) async fn run(seat: Seat, sink: Arc<dyn Sink>) -> Ended {
    let pace = sink.pace();
    let worker = Worker {
        seat,
        sink,
        pace,
        queue: Queue::new(),
        in_flight: FuturesUnordered::new(),
        acks: Vec::new(),
        writing: None,
        failures: 0,
        paused_until: 0,
        asked_to_wait: false,
        disabled: false,
        closed: false,
        draining: false,
    };
    worker.run().await.unwrap_or_else(|ended| ended)
}

impl Worker {
    async fn run(mut self) -> Result<Ended, Ended> {
        let wake = self.seat.wake.clone();
        let stop = self.seat.stop.clone();
        loop {
            self.fill().await?;
            self.begin().await?;
            if self.writing.is_none() && !self.acks.is_empty() {
                self.writing = Some(self.seat.write_acks(std::mem::take(&mut self.acks)));
            }
            if let Some(ended) = self.ended() {
                return Ok(ended);
            }
            let timer = self.timer();
            tokio::select! {
                Some(sent) = self.in_flight.next() => self.settle(sent),
                Some(written) = OptionFuture::from(self.writing.as_mut()) => {
                    self.writing = None;
                    written.map_err(|_| Ended::StoreClosed)?.into_iter().for_each(|seq| self.queue.forget(seq));
                }
                () = wake.woken() => if wake.take_rewind() { self.queue.rewind() } else { self.queue.wake() },
                () = tokio::time::sleep(timer) => {}
                () = stop.cancelled(), if !self.draining => {
                    self.draining = true;
                    // What was committed before this moment is part of it.
                    self.queue.wake();
                }
            }
        }
    }

    async fn fill(&mut self) -> Result<(), Ended> {
        while let Some((after, limit)) = self.queue.wants() {
            let page = self.seat.page(after, limit).await?;
            self.queue.load(after, limit, &page, now_ms());
        }
        Ok(())
    }

    fn may_send(&self) -> bool {
        let room = if self.failures >= DOWN { 1 } else { self.pace.in_flight };
        !self.disabled && !self.closed && self.in_flight.len() < room && now_ms() >= self.paused_until
    }

    async fn begin(&mut self) -> Result<(), Ended> {
        while self.may_send() {
            let batch = self.queue.take(now_ms(), self.pace.batch);
            if batch.is_empty() {
                return Ok(());
            }
            let seqs: Vec<i64> = batch.iter().map(|row| row.seq).collect();
            let found = self.seat.events(seqs.clone()).await?;
            let (mut events, mut sending, mut bytes) = (Vec::new(), Vec::new(), 0);
            for (n, (seq, event)) in seqs.iter().zip(found).enumerate() {
                let Some((size, event)) = event else {
                    // Nothing can be sent any more; that it was is counted.
                    self.seat.shared.counts.lose(Lost::Damaged, 1);
                    self.queue.finish(*seq);
                    self.acks.push(Ack::Done { seq: *seq });
                    continue;
                };
                if bytes + size > BATCH_BYTES && !events.is_empty() {
                    self.queue.put_back(&seqs[n..]);
                    break;
                }
                bytes += size;
                events.push(event);
                sending.push(*seq);
            }
            if !events.is_empty() {
                self.send(sending, events);
            }
        }
        Ok(())
    }

    fn send(&mut self, seqs: Vec<i64>, events: Vec<Arc<Event>>) {
        failpoint::hit("before-send");
        self.seat.counts.attempts.fetch_add(1, Ordering::Relaxed);
        let (sink, timeout, patient) = (self.sink.clone(), self.seat.retry.timeout, self.pace.patient);
        self.in_flight.push(Box::pin(async move {
            let outcome = if patient {
                sink.send(&events).await
            } else {
                let late = || Outcome::retry(format!("no answer within {} s", timeout.as_secs_f32()));
                tokio::time::timeout(timeout, sink.send(&events)).await.unwrap_or_else(|_| late())
            };
            Sent { seqs, events, outcome }
        }));
    }

    fn settle(&mut self, sent: Sent) {
        let Sent { seqs, events, outcome } = sent;
        let now = now_ms();
        match outcome {
            Outcome::Delivered => {
                self.failures = 0;
                let delay = events.iter().map(|event| now.saturating_sub(event.time.as_millisecond()).max(0)).sum();
                self.seat.counts.succeeded(events.len(), i64::cast_unsigned(delay));
                for seq in seqs {
                    self.queue.finish(seq);
                    self.acks.push(Ack::Done { seq });
                }
            }
            Outcome::Retry { after, reason } => self.retry(&seqs, &events, after, &reason, now),
            Outcome::Reject { .. } if seqs.len() > 1 => self.queue.one_by_one(&seqs),
            Outcome::Reject { reason } => {
                // It was answered: the sink itself is fine.
                self.failures = 0;
                self.give_up(seqs[0], &reason);
            }
            Outcome::Disabled { reason } => {
                tracing::error!(
                    sink = %self.seat.name, reason,
                    "the sink is disabled: nothing more is sent there until the next start; events are kept"
                );
                self.seat.counts.disabled(&reason);
                self.disabled = true;
                self.queue.retry(&seqs, now);
            }
            Outcome::Closed => {
                self.closed = true;
                self.queue.retry(&seqs, now);
            }
        }
    }

    fn retry(&mut self, seqs: &[i64], events: &[Arc<Event>], after: Option<Duration>, reason: &str, now: i64) {
        self.seat.counts.retries.fetch_add(1, Ordering::Relaxed);
        self.seat.log_failure(reason);
        self.failures = self.failures.saturating_add(1);
        self.asked_to_wait = after.is_some();
        if let Some(after) = after {
            self.paused_until = self.paused_until.max(now.saturating_add(millis(after)));
        } else if self.failures >= DOWN {
            self.paused_until = self.paused_until.max(now + millis(self.seat.backoff(self.failures - DOWN)));
        }
        let (mut again, mut attempts) = (Vec::new(), 0);
        for (seq, event) in seqs.iter().zip(events) {
            if self.seat.out_of_budget(event, now) {
                let hours = self.seat.retry.budget.as_secs_f64() / 3600.0;
                self.give_up(*seq, &format!("not delivered within {hours:.1} h: {reason}"));
            } else {
                attempts = attempts.max(self.queue.attempts(*seq));
                again.push(*seq);
            }
        }
        let pause = after.unwrap_or_else(|| self.seat.backoff(attempts));
        let at = now.saturating_add(millis(pause));
        self.queue.retry(&again, at);
        for seq in again {
            let attempts = self.queue.attempts(seq);
            if attempts > 0 {
                self.acks.push(Ack::Again { seq, attempts, at });
            }
        }
    }

    fn give_up(&mut self, seq: i64, reason: &str) {
        let attempts = self.queue.attempts(seq).saturating_add(1);
        tracing::error!(
            sink = %self.seat.name, seq, attempts, reason,
            "an event could not be delivered and is a dead letter now; see `kubediff dead-letters`"
        );
        self.seat.counts.dead.fetch_add(1, Ordering::Relaxed);
        self.queue.finish(seq);
        self.acks.push(Ack::Dead { seq, attempts, reason: reason.to_owned() });
    }

    /// Whether it is over.
    fn ended(&self) -> Option<Ended> {
        let settled = self.in_flight.is_empty() && self.writing.is_none() && self.acks.is_empty();
        if !settled {
            return None;
        }
        if self.closed {
            return Some(Ended::Closed);
        }
        let now = now_ms();
        let from = if self.asked_to_wait { now.max(self.paused_until) } else { now };
        let can_send = !self.disabled && from >= self.paused_until && self.queue.has_ready(from);
        (self.draining && !can_send).then_some(Ended::Drained)
    }

    /// How long to sleep when nothing else happens.
    fn timer(&self) -> Duration {
        const LONG: i64 = 60_000;
        let now = now_ms();
        let room = if self.failures >= DOWN { 1 } else { self.pace.in_flight };
        // While no more may begin, what is in flight wakes the worker.
        let stuck = self.disabled || self.closed || self.in_flight.len() >= room;
        let wait = if stuck {
            LONG
        } else if self.queue.has_ready(now.max(self.paused_until)) {
            self.paused_until - now
        } else {
            self.queue.next_at().map_or(LONG, |at| at.max(self.paused_until) - now)
        };
        Duration::from_millis(wait.clamp(1, LONG).unsigned_abs())
    }
}
