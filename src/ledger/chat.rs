//! One task a chat: changes of the same root owner are one message, edited while more of them come.
//!
//! A message and what it tells are stored in the transaction that takes its deliveries off the list: after a restart
//! the same message goes on. When there is more than the chat takes, what waits becomes one digest with counts.

mod group;
pub(super) mod pace;
mod schedule;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rusqlite::{OptionalExtension, params};

use self::{
    group::{Group, Kept, Message, Telling},
    pace::Pace,
    schedule::{Schedule, Turn},
};
use super::{
    Ended,
    count::{Answer, Lost},
    lead, now_ms,
    queue::Row,
    seat::{Ack, Found, Seat, millis},
};
use crate::{
    event::Event,
    failpoint,
    sink::{
        Chat, Failed, Habits, Outcome, Place,
        rollup::{self, Card, Story},
    },
};

/// Deliveries in memory at a time: numbers each.
const PENDING: usize = 5_000;
/// Events in memory at a time.
const PAGE: usize = 100;

struct Teller {
    seat: Seat,
    chat: Arc<dyn Chat>,
    habits: Habits,
    schedule: Schedule,
    after: i64,
    more: bool,
    /// The channel's name as far as it is known, and its pace.
    channel: String,
    pace: Arc<Pace>,
    failures: u32,
    paused_until: i64,
    /// The chat asked for the pause: it is there, and worth waiting for.
    asked_to_wait: bool,
    disabled: bool,
    draining: bool,
}

pub(super) async fn run(seat: Seat, chat: Arc<dyn Chat>) -> Ended {
    let habits = chat.habits();
    let channel = chat.channel(None);
    let teller = Teller {
        pace: seat.shared.paces.of(&channel, habits.interval, habits.burst),
        channel,
        seat,
        chat,
        habits,
        schedule: Schedule::new(habits),
        after: 0,
        more: true,
        failures: 0,
        paused_until: 0,
        asked_to_wait: false,
        disabled: false,
        draining: false,
    };
    teller.run().await.unwrap_or_else(|ended| ended)
}

impl Teller {
    async fn run(mut self) -> Result<Ended, Ended> {
        let wake = self.seat.wake.clone();
        let stop = self.seat.stop.clone();
        loop {
            if stop.at_once.is_cancelled() {
                return Ok(Ended::Drained);
            }
            self.fill().await?;
            let holds = self.seat.shared.lead.holds();
            let turn = self.schedule.turn(now_ms());
            let able = !self.disabled && now_ms() >= self.paused_until() && holds;
            let due = turn.is_some();
            match turn.filter(|_| able) {
                Some(Turn::One(key)) => {
                    self.tell_group(key).await?;
                    continue;
                }
                Some(Turn::Digest(keys)) => {
                    self.tell_digest(keys).await?;
                    continue;
                }
                None => {}
            }
            if self.draining {
                if !due || self.disabled || !self.asked_to_wait || !holds {
                    return Ok(Ended::Drained);
                }
                tokio::time::sleep(self.timer()).await;
                continue;
            }
            tokio::select! {
                () = wake.woken() => {
                    self.more = true;
                    if wake.take_rewind() {
                        self.after = 0;
                    }
                }
                () = tokio::time::sleep(if holds { self.timer() } else { lead::LOOK }) => {}
                () = stop.at_once.cancelled() => {}
                () = stop.drained.cancelled() => {
                    self.draining = true;
                    self.schedule.drain();
                    self.more = true;
                }
            }
        }
    }

    /// Reads new deliveries and sorts them under their owners.
    async fn fill(&mut self) -> Result<(), Ended> {
        let mut pending = self.schedule.pending();
        while self.more && pending < PENDING {
            let page = self.seat.page(self.after, PAGE).await?;
            self.more = page.len() >= PAGE;
            let Some(last) = page.last() else { break };
            let rewound = page.first().is_some_and(|row| row.seq <= self.schedule.newest());
            let rows: Vec<&Row> = page.iter().filter(|row| !rewound || !self.schedule.holds(row.seq)).collect();
            let events = self.seat.events(rows.iter().map(|row| row.seq).collect()).await?;
            self.after = last.seq;
            pending += rows.len();
            for (row, event) in rows.into_iter().zip(events) {
                match event {
                    Found::Event(_, event) => self.add(row, &event).await?,
                    Found::Gone => {}
                    Found::Damaged => {
                        self.seat.shared.counts.lose(Lost::Damaged, 1);
                        self.write(vec![Ack::Done { seq: row.seq }], None).await?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn add(&mut self, row: &Row, event: &Event) -> Result<(), Ended> {
        let (key, time) = (rollup::key(event), group::time(event));
        if self.schedule.get(&key).is_none() {
            let stored = self.stored_message(&key).await?.map(|(message, _)| message);
            // After that time the owner gets a new one.
            let message = stored.filter(|message| now_ms() - message.opened < millis(self.habits.max));
            self.schedule.insert(key.clone(), Group::new(message, time));
        }
        if let Some(group) = self.schedule.get_mut(&key) {
            group.add(row.seq, time, row.since);
        }
        Ok(())
    }

    /// What is to be said of a group: what its message told before and all that is new, a page of it in memory at a time.
    async fn read_up(&mut self, key: &str, group: &mut Group) -> Result<Telling, Ended> {
        let before = match group.message {
            Some(_) => self.stored_message(key).await?.map(|(_, story)| story),
            None => None,
        };
        if before.is_none() && group.attempts == 0 {
            // Its time is over. One that was begun is finished all the same.
            group.message = None;
        }
        let mut telling = Telling::after(before.unwrap_or_default());
        for chunk in group.seqs.chunks(PAGE) {
            for found in self.seat.events(chunk.to_vec()).await? {
                match found {
                    Found::Event(_, event) => telling.add(&event),
                    Found::Gone => {}
                    Found::Damaged => telling.damaged += 1,
                }
            }
        }
        Ok(telling)
    }

    /// The owner's last message as far as it is stored, and what it told.
    async fn stored_message(&mut self, key: &str) -> Result<Option<(Message, Story)>, Ended> {
        if !self.habits.edits {
            return Ok(None);
        }
        let (sink, owner) = (self.seat.id, key.to_owned());
        let row: Option<(String, String, i64, String)> = self
            .seat
            .read(move |reader| {
                reader
                    .connection()
                    .prepare_cached(
                        "SELECT channel, ts, opened, story FROM chat_messages WHERE sink = ?1 AND owner = ?2",
                    )?
                    .query_row(params![sink, owner], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
                    .optional()
            })
            .await?;
        Ok(row.and_then(|(channel, ts, opened, story)| {
            let story = serde_json::from_str(&story).ok()?;
            Some((Message { place: Place { channel, ts }, opened }, story))
        }))
    }

    /// By this sink's own failures, or by what the channel was told through whichever sink.
    fn paused_until(&self) -> i64 {
        self.paused_until.max(self.pace.held_until())
    }

    fn timer(&self) -> Duration {
        const LONG: i64 = 60_000;
        let now = now_ms();
        let wait = match self.schedule.next_at() {
            Some(at) if !self.disabled => at.max(self.paused_until()) - now,
            _ => LONG,
        };
        Duration::from_millis(wait.clamp(1, LONG).unsigned_abs())
    }

    async fn tell_group(&mut self, key: String) -> Result<(), Ended> {
        let Some(mut group) = self.schedule.take(&key) else { return Ok(()) };
        let telling = self.read_up(&key, &mut group).await?;
        if telling.changes() == 0 {
            return self.done(group.seqs, telling.damaged, None).await;
        }
        let card = telling.story.card();
        // Whether the thread has something to say that the message itself does not.
        let has_parts = group.message.is_some() || telling.changes() > 1;
        let told = match &group.message {
            Some(message) => {
                let place = message.place.clone();
                match self.call(Call::Update(&place, &card)).await {
                    Ok(_) => Ok(Some(place)),
                    // Somebody deleted the message, or it is too old to be changed.
                    Err(Failed::Gone) => self.call(Call::Post(&card, None)).await,
                    Err(failed) => Err(failed),
                }
            }
            None => self.call(Call::Post(&card, None)).await,
        };
        let told = match told {
            Ok(Some(place)) if has_parts => match self.call(Call::Post(&telling.parts(), Some(&place))).await {
                Ok(_) | Err(Failed::Gone) => Ok(Some(place)),
                Err(failed) => {
                    // The message is there: the next try edits it, also after a restart, which tells its changes again.
                    let opened = group.message.as_ref().map_or_else(now_ms, |message| message.opened);
                    group.message = Some(Message { place: place.clone(), opened });
                    let kept = Kept { owner: key.clone(), place, opened, story: telling.before };
                    self.write(Vec::new(), Some(kept)).await?;
                    Err(failed)
                }
            },
            other => other,
        };
        match told {
            Ok(place) => {
                self.succeeded(&group);
                let opened = group.message.as_ref().map_or_else(now_ms, |message| message.opened);
                let kept = place.map(|place| Kept { owner: key.clone(), place, opened, story: telling.story });
                if kept.is_some() {
                    self.schedule.changed(key, now_ms());
                }
                self.done(group.seqs, telling.damaged, kept).await
            }
            Err(failed) => {
                let verdict = self.verdict(failed);
                self.settle(key, group, &verdict).await
            }
        }
    }

    /// One message for all of them, so that a storm is told of and not swallowed.
    async fn tell_digest(&mut self, keys: Vec<String>) -> Result<(), Ended> {
        let groups = keys.iter().filter_map(|key| self.schedule.get(key));
        let seqs: Vec<i64> = groups.flat_map(|group| group.seqs.iter().copied()).collect();
        let (mut digest, mut damaged) = (rollup::Digest::default(), 0);
        for chunk in seqs.chunks(PAGE) {
            for found in self.seat.events(chunk.to_vec()).await? {
                match found {
                    Found::Event(_, event) => digest.add(&event),
                    Found::Gone => {}
                    Found::Damaged => damaged += 1,
                }
            }
        }
        let card = digest.card();
        match self.call(Call::Post(&card, None)).await {
            Ok(_) => {
                for key in &keys {
                    if let Some(group) = self.schedule.take(key) {
                        self.succeeded(&group);
                    }
                }
                self.done(seqs, damaged, None).await
            }
            Err(failed) => {
                let verdict = self.verdict(failed);
                for key in keys {
                    if let Some(group) = self.schedule.take(&key) {
                        self.settle(key, group, &verdict).await?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Takes them off the list; those that could not be read are lost.
    async fn done(&mut self, seqs: Vec<i64>, damaged: u64, kept: Option<Kept>) -> Result<(), Ended> {
        self.seat.shared.counts.lose(Lost::Damaged, damaged);
        self.write(seqs.into_iter().map(|seq| Ack::Done { seq }).collect(), kept).await
    }

    fn succeeded(&mut self, group: &Group) {
        self.failures = 0;
        let now = now_ms();
        self.seat.counts.succeeded(group.times.iter().map(|time| now.saturating_sub(*time)));
    }

    /// What a failure means for what was to be told, and for when the next call may be made.
    fn verdict(&mut self, failed: Failed) -> Verdict {
        if !self.seat.shared.lead.holds() {
            return Verdict::Keep;
        }
        let outcome = match failed {
            Failed::Outcome(outcome) => outcome,
            Failed::Gone => Outcome::retry("the message is gone"),
        };
        match outcome {
            Outcome::Retry { after, reason } => {
                self.seat.counts.retries.fetch_add(1, Ordering::Relaxed);
                self.seat.log_failure(&reason);
                self.failures = self.failures.saturating_add(1);
                self.asked_to_wait = after.is_some();
                let pause =
                    after.filter(|after| !after.is_zero()).unwrap_or_else(|| self.seat.backoff(self.failures - 1));
                let now = now_ms();
                self.pace.hold(now, after.map(|after| now.saturating_add(millis(after))));
                self.paused_until = self.paused_until.max(now.saturating_add(millis(pause)));
                Verdict::Again(reason)
            }
            Outcome::Disabled { reason } => {
                tracing::error!(sink = %self.seat.name, reason, "the sink is disabled until the next start; events are kept");
                self.seat.counts.disabled(&reason);
                self.disabled = true;
                Verdict::Keep
            }
            Outcome::Reject { reason } => Verdict::GiveUp(reason),
            Outcome::Delivered | Outcome::Closed => Verdict::GiveUp("the chat gave a nonsensical answer".to_owned()),
        }
    }

    async fn settle(&mut self, key: String, mut group: Group, verdict: &Verdict) -> Result<(), Ended> {
        group.attempts += 1;
        group.tried_at = now_ms();
        let (lost, reason) = match verdict {
            Verdict::Keep => (Vec::new(), String::new()),
            Verdict::Again(reason) => {
                let now = now_ms();
                (group.expire(|began| self.seat.out_of_budget(began, now)), self.seat.given_up(reason))
            }
            Verdict::GiveUp(reason) => (group.expire(|_| true), reason.clone()),
        };
        let attempts = group.attempts;
        if !group.seqs.is_empty() {
            self.schedule.insert(key, group);
        }
        if lost.is_empty() {
            return Ok(());
        }
        tracing::error!(
            sink = %self.seat.name, events = lost.len(), reason,
            "a message could not be delivered; its events are dead letters now, see `kubediff dead-letters`"
        );
        self.seat.counts.dead.fetch_add(lost.len() as u64, Ordering::Relaxed);
        let acks = lost.into_iter().map(|seq| Ack::Dead { seq, attempts, reason: reason.clone() }).collect();
        self.write(acks, None).await
    }

    async fn call(&mut self, call: Call<'_>) -> Result<Option<Place>, Failed> {
        // Draining has a deadline of its own.
        tokio::time::sleep(self.pace.take(now_ms())).await;
        // Whoever leads now tells it.
        if !self.seat.shared.lead.holds() {
            return Err(Outcome::retry("this replica leads no more").into());
        }
        failpoint::hit("before-send");
        self.seat.counts.attempts.fetch_add(1, Ordering::Relaxed);
        let chat = self.chat.clone();
        let answer = async {
            match call {
                Call::Post(card, thread) => chat.post(card, thread).await,
                Call::Update(place, card) => chat.update(place, card).await.map(|()| None),
            }
        };
        let timeout = self.seat.retry.timeout;
        let late = || Outcome::retry(format!("no answer within {} s", timeout.as_secs_f32()));
        let began = tokio::time::Instant::now();
        let answer = tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| Err(late().into()));
        let how = match &answer {
            Ok(_) => Answer::Delivered,
            Err(Failed::Outcome(Outcome::Disabled { .. })) => Answer::Disabled,
            Err(Failed::Outcome(Outcome::Retry { .. })) => Answer::Retry,
            Err(Failed::Gone | Failed::Outcome(_)) => Answer::Rejected,
        };
        self.seat.counts.answered(how, began.elapsed());
        if let Ok(Some(place)) = &answer {
            self.found_out(place);
        }
        answer
    }

    /// What the channel is really called: others may have been given another of its names.
    fn found_out(&mut self, place: &Place) {
        let channel = self.chat.channel(Some(place));
        if channel != self.channel {
            self.pace = self.seat.shared.paces.join(&self.channel, &channel, &self.pace);
            self.channel = channel;
        }
    }

    async fn write(&mut self, acks: Vec<Ack>, kept: Option<Kept>) -> Result<(), Ended> {
        failpoint::hit("before-ack");
        let (sink, max) = (self.seat.id, millis(self.habits.max));
        let written = self.seat.store.write(Box::new(move |transaction| {
            acks.iter().try_for_each(|ack| ack.write(transaction, sink))?;
            kept.as_ref().map_or(Ok(()), |kept| kept.write(transaction, sink, max))
        }));
        written.await.map_err(|_| Ended::StoreClosed)?;
        failpoint::hit("after-ack");
        Ok(())
    }
}

/// What becomes of changes that could not be told.
enum Verdict {
    /// Tried again, but for those whose time is over.
    Again(String),
    Keep,
    GiveUp(String),
}

enum Call<'a> {
    Post(&'a Card, Option<&'a Place>),
    Update(&'a Place, &'a Card),
}
