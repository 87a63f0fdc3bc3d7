//! One task a sink: reads what is due, sends it, tries again, gives up, and writes down what became of it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{
    StreamExt,
    future::{BoxFuture, OptionFuture},
    stream::FuturesUnordered,
};
use tokio::time::Instant;

use super::{
    Ended,
    count::{Answer, Lost},
    lead, now_ms,
    queue::Queue,
    seat::{Ack, Found, MANY_ACKS, Seat, millis},
};
use crate::{
    cluster::reflector::Closed,
    event::Redacted,
    failpoint,
    sink::{Outcome, Pace, Sink},
};

/// A batch of large events is cut at this many bytes of JSON.
const BATCH_BYTES: usize = 1 << 20;
/// What became of deliveries is written down when nothing is on its way, when it is so much, or so old: a commit costs what
/// many of them do. Whatever is not written when the process dies is sent again, with the same id.
const ACK_TIME: Duration = Duration::from_millis(100);
/// After so many failures in a row, whatever they were about, the sink is taken for down: one attempt at a time.
const DOWN: u32 = 3;

/// One attempt, over.
struct Sent {
    seqs: Vec<i64>,
    events: Vec<Arc<Redacted>>,
    outcome: Outcome,
    took: Duration,
}

struct Worker {
    seat: Seat,
    sink: Arc<dyn Sink>,
    pace: Pace,
    queue: Queue,
    in_flight: FuturesUnordered<BoxFuture<'static, Sent>>,
    acks: Vec<Ack>,
    /// Since when the first of them waits.
    acks_since: Option<Instant>,
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
    leaving: bool,
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
        acks_since: None,
        writing: None,
        failures: 0,
        paused_until: 0,
        asked_to_wait: false,
        disabled: false,
        closed: false,
        draining: false,
        leaving: false,
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
            let acks_due = self.acks_wait().is_some_and(|wait| wait.is_zero());
            if self.writing.is_none() && acks_due {
                self.acks_since = None;
                self.writing = Some(self.seat.write_acks(std::mem::take(&mut self.acks)));
            }
            if let Some(ended) = self.ended() {
                return Ok(ended);
            }
            let mut timer = self.timer();
            if self.writing.is_none() {
                timer = timer.min(self.acks_wait().unwrap_or(timer));
            }
            tokio::select! {
                Some(sent) = self.in_flight.next() => self.settle(sent),
                Some(written) = OptionFuture::from(self.writing.as_mut()) => {
                    self.writing = None;
                    written.map_err(|_| Ended::StoreClosed)?.into_iter().for_each(|seq| self.queue.forget(seq));
                }
                () = wake.woken() => if wake.take_rewind() { self.queue.rewind() } else { self.queue.wake() },
                () = tokio::time::sleep(timer) => {}
                () = stop.at_once.cancelled(), if !self.leaving => self.leaving = true,
                () = stop.drained.cancelled(), if !self.draining => {
                    self.draining = true;
                    // What was committed before this moment is part of it.
                    self.queue.wake();
                }
            }
        }
    }

    /// How long until what became of deliveries is to be written down; nothing when there is nothing.
    fn acks_wait(&mut self) -> Option<Duration> {
        if self.acks.is_empty() {
            return None;
        }
        let since = *self.acks_since.get_or_insert_with(Instant::now);
        let due = self.in_flight.is_empty() || self.acks.len() >= MANY_ACKS;
        Some(if due { Duration::ZERO } else { ACK_TIME.saturating_sub(since.elapsed()) })
    }

    async fn fill(&mut self) -> Result<(), Ended> {
        while !self.leaving
            && let Some((after, limit)) = self.queue.wants()
        {
            let page = self.seat.page(after, limit).await?;
            self.queue.load(after, limit, &page, now_ms());
        }
        Ok(())
    }

    fn may_send(&self) -> bool {
        let room = if self.failures >= DOWN { 1 } else { self.pace.in_flight };
        let able = !self.disabled && !self.closed && !self.leaving && self.in_flight.len() < room;
        able && now_ms() >= self.paused_until && self.seat.shared.lead.holds()
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
                let found = match event {
                    Found::Event(size, event) => (size, event),
                    gone => {
                        // Nothing can be sent any more. What retention took, it has counted itself.
                        self.seat.shared.counts.lose(Lost::Damaged, u64::from(matches!(gone, Found::Damaged)));
                        self.queue.finish(*seq);
                        self.acks.push(Ack::Done { seq: *seq });
                        continue;
                    }
                };
                let whole = self.sink.wants_whole();
                let (size, event) = if whole { self.seat.whole(*seq, found).await? } else { found };
                if bytes + size > BATCH_BYTES && !events.is_empty() {
                    self.queue.put_back(&seqs[n..]);
                    break;
                }
                bytes += size;
                events.push(event);
                sending.push(*seq);
            }
            // Reading them took time.
            if !events.is_empty() && !self.seat.shared.lead.holds() {
                self.queue.put_back(&sending);
            } else if !events.is_empty() {
                self.send(sending, events);
            }
        }
        Ok(())
    }

    fn send(&mut self, seqs: Vec<i64>, events: Vec<Arc<Redacted>>) {
        failpoint::hit("before-send");
        self.seat.counts.attempts.fetch_add(1, Ordering::Relaxed);
        let (sink, timeout, patient) = (self.sink.clone(), self.seat.retry.timeout, self.pace.patient);
        self.in_flight.push(Box::pin(async move {
            let began = Instant::now();
            let outcome = if patient {
                sink.send(&events).await
            } else {
                let late = || Outcome::retry(format!("no answer within {} s", timeout.as_secs_f32()));
                tokio::time::timeout(timeout, sink.send(&events)).await.unwrap_or_else(|_| late())
            };
            Sent { seqs, events, outcome, took: began.elapsed() }
        }));
    }

    fn settle(&mut self, sent: Sent) {
        let Sent { seqs, events, outcome, took } = sent;
        let now = now_ms();
        let answer = match &outcome {
            Outcome::Delivered => Some(Answer::Delivered),
            Outcome::Retry { .. } => Some(Answer::Retry),
            Outcome::Reject { .. } => Some(Answer::Rejected),
            Outcome::Disabled { .. } => Some(Answer::Disabled),
            Outcome::Closed => None,
        };
        if let Some(answer) = answer {
            self.seat.counts.answered(answer, took);
        }
        match outcome {
            Outcome::Delivered => {
                self.failures = 0;
                let delays = events.iter().map(|event| now.saturating_sub(event.time.as_millisecond()));
                self.seat.counts.succeeded(delays);
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

    fn retry(&mut self, seqs: &[i64], events: &[Arc<Redacted>], after: Option<Duration>, reason: &str, now: i64) {
        self.seat.counts.retries.fetch_add(1, Ordering::Relaxed);
        self.seat.log_failure(reason);
        self.failures = self.failures.saturating_add(1);
        self.asked_to_wait = after.is_some();
        if let Some(after) = after {
            self.paused_until = self.paused_until.max(now.saturating_add(millis(after)));
        }
        if self.failures >= DOWN {
            self.paused_until = self.paused_until.max(now + millis(self.seat.backoff(self.failures - DOWN)));
        }
        let (mut again, mut attempts) = (Vec::new(), 0);
        for (seq, event) in seqs.iter().zip(events) {
            let began = event.time.as_millisecond().max(self.queue.since(*seq));
            if self.seat.out_of_budget(began, now) {
                self.give_up(*seq, &self.seat.given_up(reason));
            } else {
                attempts = attempts.max(self.queue.attempts(*seq));
                again.push(*seq);
            }
        }
        // "Now" is no reason to try without a pause.
        let pause = after.filter(|after| !after.is_zero()).unwrap_or_else(|| self.seat.backoff(attempts));
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
        if self.leaving {
            return Some(Ended::Drained);
        }
        let now = now_ms();
        let from = if self.asked_to_wait { now.max(self.paused_until) } else { now };
        let able = !self.disabled && self.seat.shared.lead.holds();
        let can_send = able && from >= self.paused_until && self.queue.has_ready(from);
        (self.draining && !can_send).then_some(Ended::Drained)
    }

    /// How long to sleep when nothing else happens.
    fn timer(&self) -> Duration {
        const LONG: i64 = 60_000;
        let now = now_ms();
        let room = if self.failures >= DOWN { 1 } else { self.pace.in_flight };
        // While no more may begin, what is in flight wakes the worker.
        let stuck = self.disabled || self.closed || self.leaving || self.in_flight.len() >= room;
        let wait = if stuck {
            LONG
        } else if !self.seat.shared.lead.holds() {
            millis(lead::LOOK)
        } else if self.queue.has_ready(now.max(self.paused_until)) {
            self.paused_until - now
        } else {
            self.queue.next_at().map_or(LONG, |at| at.max(self.paused_until) - now)
        };
        Duration::from_millis(wait.clamp(1, LONG).unsigned_abs())
    }
}
