//! One task a chat: changes of the same root owner are one message, edited while more of them come.
//!
//! A message and what it tells are stored in the transaction that takes its deliveries off the list: after a restart
//! the same message goes on. When there is more than the chat takes, what waits becomes one digest with counts.

mod group;
mod pace;

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rusqlite::{OptionalExtension, params};

use self::{
    group::{Group, Kept, Message},
    pace::Bucket,
};
use super::{
    Ended,
    count::Lost,
    now_ms,
    seat::{Ack, Seat, millis},
};
use crate::{
    event::Event,
    failpoint,
    sink::{
        Chat, Failed, Habits, Outcome, Place,
        rollup::{self, Card, Story},
    },
};

/// Deliveries in memory at a time: a number each.
const PENDING: usize = 10_000;
const PAGE: usize = 500;
/// Owners that wait for a message of their own; with more, they get one digest together.
const OVERFLOW: usize = 20;
/// Between two edits of the same message.
const EDIT_INTERVAL: Duration = Duration::from_secs(3);

struct Teller {
    seat: Seat,
    chat: Arc<dyn Chat>,
    habits: Habits,
    groups: HashMap<String, Group>,
    /// When each open message was last changed.
    edited: HashMap<String, i64>,
    after: i64,
    more: bool,
    bucket: Bucket,
    failures: u32,
    paused_until: i64,
    /// The chat asked for the pause: it is there, and worth waiting for.
    asked_to_wait: bool,
    disabled: bool,
    draining: bool,
}

pub(super) async fn run(seat: Seat, chat: Arc<dyn Chat>) -> Ended {
    let habits = chat.habits();
    let teller = Teller {
        seat,
        chat,
        habits,
        groups: HashMap::new(),
        edited: HashMap::new(),
        after: 0,
        more: true,
        bucket: Bucket::new(habits.interval, habits.burst),
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
            self.fill().await?;
            let due = self.due(now_ms());
            if !due.is_empty() && !self.disabled && now_ms() >= self.paused_until {
                self.tell(due).await?;
                continue;
            }
            if self.draining {
                if due.is_empty() || self.disabled || !self.asked_to_wait {
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
                () = tokio::time::sleep(self.timer()) => {}
                () = stop.cancelled() => {
                    self.draining = true;
                    self.more = true;
                }
            }
        }
    }

    /// Reads new deliveries and sorts them under their owners.
    async fn fill(&mut self) -> Result<(), Ended> {
        let mut pending: usize = self.groups.values().map(|group| group.seqs.len()).sum();
        while self.more && pending < PENDING {
            let page = self.seat.page(self.after, PAGE).await?;
            self.more = page.len() >= PAGE;
            let Some(last) = page.last() else { break };
            let known = |seq: &i64| self.groups.values().any(|group| group.seqs.contains(seq));
            let rewound = page.first().is_some_and(|row| row.seq <= self.newest_pending());
            let seqs: Vec<i64> = page.iter().map(|row| row.seq).filter(|seq| !rewound || !known(seq)).collect();
            self.after = last.seq;
            for (seq, event) in seqs.iter().zip(self.seat.events(seqs.clone()).await?) {
                match event {
                    Some((_, event)) => self.add(*seq, &event).await?,
                    None => {
                        self.seat.shared.counts.lose(Lost::Damaged, 1);
                        self.write(vec![Ack::Done { seq: *seq }], None).await?;
                    }
                }
            }
            pending += seqs.len();
        }
        Ok(())
    }

    fn newest_pending(&self) -> i64 {
        self.groups.values().filter_map(|group| group.seqs.last()).copied().max().unwrap_or(0)
    }

    async fn add(&mut self, seq: i64, event: &Event) -> Result<(), Ended> {
        let key = rollup::key(event);
        let time = event.time.as_millisecond();
        if !self.groups.contains_key(&key) {
            let (message, story) =
                self.open_message(&key).await?.map_or((None, Story::default()), |(m, s)| (Some(m), s));
            self.groups.insert(key.clone(), Group::new(message, story, time));
        }
        let Some(group) = self.groups.get_mut(&key) else { return Ok(()) };
        group.add(seq, event, time);
        Ok(())
    }

    /// The owner's message, when it is still the one to go on with.
    async fn open_message(&mut self, key: &str) -> Result<Option<(Message, Story)>, Ended> {
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
        Ok(row.filter(|(_, _, opened, _)| now_ms() - opened < millis(self.habits.max)).and_then(
            |(channel, ts, opened, story)| {
                let story = serde_json::from_str(&story).ok()?;
                Some((Message { place: Place { channel, ts }, opened }, story))
            },
        ))
    }

    /// When a group should be told of.
    fn due_at(&self, key: &str, group: &Group) -> i64 {
        if self.draining {
            return 0;
        }
        let (wait, max) = (millis(self.habits.wait), millis(self.habits.max));
        match &group.message {
            Some(_) => self.edited.get(key).map_or(0, |at| at + millis(EDIT_INTERVAL)),
            None if self.habits.edits => group.first + wait,
            // What cannot be edited waits until it is quiet.
            None => (group.last + wait).min(group.first + max),
        }
    }

    fn due(&self, now: i64) -> Vec<String> {
        let mut due: Vec<(i64, &String)> = self
            .groups
            .iter()
            .map(|(key, group)| (self.due_at(key, group), key))
            .filter(|(at, _)| *at <= now)
            .collect();
        due.sort();
        due.into_iter().map(|(_, key)| key.clone()).collect()
    }

    fn timer(&self) -> Duration {
        const LONG: i64 = 60_000;
        let now = now_ms();
        let next = self.groups.iter().map(|(key, group)| self.due_at(key, group)).min();
        let wait = match next {
            Some(at) if !self.disabled => at.max(self.paused_until) - now,
            _ => LONG,
        };
        Duration::from_millis(wait.clamp(1, LONG).unsigned_abs())
    }

    async fn tell(&mut self, due: Vec<String>) -> Result<(), Ended> {
        let new: Vec<String> = due
            .iter()
            .filter(|key| self.groups.get(*key).is_some_and(|group| group.message.is_none()))
            .cloned()
            .collect();
        if new.len() > OVERFLOW {
            return self.tell_digest(new).await;
        }
        match due.into_iter().next() {
            Some(key) => self.tell_group(key).await,
            None => Ok(()),
        }
    }

    async fn tell_group(&mut self, key: String) -> Result<(), Ended> {
        let Some(mut group) = self.groups.remove(&key) else { return Ok(()) };
        let card = group.story.card();
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
            Ok(Some(place)) if group.has_parts() => match self.call(Call::Post(&group.parts(), Some(&place))).await {
                Ok(_) | Err(Failed::Gone) => Ok(Some(place)),
                Err(failed) => {
                    // The message is there: the next try edits it.
                    let opened = group.message.as_ref().map_or_else(now_ms, |message| message.opened);
                    group.message = Some(Message { place, opened });
                    Err(failed)
                }
            },
            other => other,
        };
        match told {
            Ok(place) => {
                self.succeeded(&group);
                let opened = group.message.as_ref().map_or_else(now_ms, |message| message.opened);
                let kept = place.map(|place| Kept { owner: key.clone(), place, opened, story: group.story });
                if kept.is_some() {
                    self.edited.insert(key, now_ms());
                    self.edited.retain(|_, at| now_ms() - *at < millis(EDIT_INTERVAL));
                }
                self.write(group.seqs.into_iter().map(|seq| Ack::Done { seq }).collect(), kept).await
            }
            Err(failed) => self.failed(key, group, failed).await,
        }
    }

    /// One message for all of them, so that a storm is told of and not swallowed.
    async fn tell_digest(&mut self, keys: Vec<String>) -> Result<(), Ended> {
        let seqs: Vec<i64> =
            keys.iter().filter_map(|key| self.groups.get(key)).flat_map(|group| group.seqs.iter().copied()).collect();
        let mut digest = rollup::Digest::default();
        for chunk in seqs.chunks(PAGE) {
            for event in self.seat.events(chunk.to_vec()).await?.into_iter().flatten() {
                digest.add(&event.1);
            }
        }
        let card = digest.card();
        match self.call(Call::Post(&card, None)).await {
            Ok(_) => {
                for key in &keys {
                    if let Some(group) = self.groups.remove(key) {
                        self.succeeded(&group);
                    }
                }
                self.write(seqs.into_iter().map(|seq| Ack::Done { seq }).collect(), None).await
            }
            Err(failed) => {
                for key in keys {
                    if let Some(group) = self.groups.remove(&key) {
                        self.failed(key, group, failed.clone()).await?;
                    }
                }
                Ok(())
            }
        }
    }

    fn succeeded(&mut self, group: &Group) {
        self.failures = 0;
        let delay = now_ms().saturating_sub(group.last).max(0).unsigned_abs() * group.seqs.len() as u64;
        self.seat.counts.succeeded(group.seqs.len(), delay);
    }

    async fn failed(&mut self, key: String, mut group: Group, failed: Failed) -> Result<(), Ended> {
        group.attempts += 1;
        let now = now_ms();
        let outcome = match failed {
            Failed::Outcome(outcome) => outcome,
            Failed::Gone => Outcome::retry("the message is gone"),
        };
        let reason = match outcome {
            Outcome::Retry { after, reason } => {
                self.seat.counts.retries.fetch_add(1, Ordering::Relaxed);
                self.seat.log_failure(&reason);
                self.failures = self.failures.saturating_add(1);
                self.asked_to_wait = after.is_some();
                let pause =
                    after.filter(|after| !after.is_zero()).unwrap_or_else(|| self.seat.backoff(self.failures - 1));
                self.bucket.empty();
                self.paused_until = self.paused_until.max(now + millis(pause));
                if now - group.first <= millis(self.seat.retry.budget) {
                    self.groups.insert(key, group);
                    return Ok(());
                }
                format!("not delivered within {:.1} h: {reason}", self.seat.retry.budget.as_secs_f64() / 3600.0)
            }
            Outcome::Disabled { reason } => {
                tracing::error!(sink = %self.seat.name, reason, "the sink is disabled until the next start; events are kept");
                self.seat.counts.disabled(&reason);
                self.disabled = true;
                self.groups.insert(key, group);
                return Ok(());
            }
            Outcome::Reject { reason } => reason,
            Outcome::Delivered | Outcome::Closed => "the chat gave a nonsensical answer".to_owned(),
        };
        tracing::error!(
            sink = %self.seat.name, events = group.seqs.len(), reason,
            "a message could not be delivered; its events are dead letters now, see `kubediff dead-letters`"
        );
        self.seat.counts.dead.fetch_add(group.seqs.len() as u64, Ordering::Relaxed);
        let attempts = group.attempts;
        let acks = group.seqs.into_iter().map(|seq| Ack::Dead { seq, attempts, reason: reason.clone() }).collect();
        self.write(acks, None).await
    }

    async fn call(&mut self, call: Call<'_>) -> Result<Option<Place>, Failed> {
        // Draining has a deadline of its own.
        tokio::time::sleep(self.bucket.take(now_ms())).await;
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
        tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| Err(late().into()))
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

enum Call<'a> {
    Post(&'a Card, Option<&'a Place>),
    Update(&'a Place, &'a Card),
}
