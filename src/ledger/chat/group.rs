//! The changes of one owner that go into one message, and what is stored of it.

use rusqlite::{Transaction, params};

use super::super::now_ms;
use crate::{
    event::{Event, Redacted},
    sink::{
        Place,
        rollup::{self, Card, Story},
    },
};

/// Lines of one reply in a thread; more are counted.
const THREAD_LINES: usize = 15;

/// The changes of one owner that are not told yet, and the message that they belong to. Numbers only: what they say is read
/// when it is told.
pub(super) struct Group {
    pub(super) seqs: Vec<i64>,
    /// From when on each of them was to be told of.
    pub(super) began: Vec<i64>,
    /// Of each change, in milliseconds.
    pub(super) times: Vec<i64>,
    pub(super) message: Option<Message>,
    /// Of the oldest and the newest change that is not told yet.
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) attempts: u32,
    /// When it could not be told, the last time.
    pub(super) tried_at: i64,
}

#[derive(Clone)]
pub(super) struct Message {
    pub(super) place: Place,
    pub(super) opened: i64,
}

/// What is stored of a message.
pub(super) struct Kept {
    pub(super) owner: String,
    pub(super) place: Place,
    pub(super) opened: i64,
    pub(super) story: Story,
}

impl Kept {
    pub(super) fn write(&self, transaction: &Transaction<'_>, sink: i64, max: i64) -> Result<(), rusqlite::Error> {
        transaction
            .prepare_cached("DELETE FROM chat_messages WHERE sink = ?1 AND opened < ?2")?
            .execute(params![sink, now_ms() - max])?;
        let story = serde_json::to_string(&self.story).unwrap_or_default();
        transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO chat_messages (sink, owner, channel, ts, opened, story)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![sink, self.owner, self.place.channel, self.place.ts, self.opened, story])
            .map(drop)
    }
}

/// When an event happened, by the ledger's clock: the wall clock may have been set since the process began.
pub(super) fn time(event: &Event) -> i64 {
    event.time.as_millisecond().min(now_ms())
}

impl Group {
    pub(super) fn new(message: Option<Message>, time: i64) -> Self {
        Self {
            seqs: Vec::new(),
            began: Vec::new(),
            times: Vec::new(),
            message,
            first: time,
            last: time,
            attempts: 0,
            tried_at: 0,
        }
    }

    /// `since` is when it was asked for again, and 0 if it was not.
    pub(super) fn add(&mut self, seq: i64, time: i64, since: i64) {
        self.seqs.push(seq);
        self.began.push(time.max(since));
        self.times.push(time);
        self.first = self.first.min(time);
        self.last = self.last.max(time);
    }

    /// Takes out those that are to be given up.
    pub(super) fn expire(&mut self, expired: impl Fn(i64) -> bool) -> Vec<i64> {
        let gone: Vec<bool> = self.began.iter().map(|began| expired(*began)).collect();
        let keep = |all: &mut Vec<i64>| {
            let mut gone = gone.iter();
            all.extract_if(.., |_| gone.next().is_some_and(|gone| *gone)).collect::<Vec<i64>>()
        };
        keep(&mut self.began);
        keep(&mut self.times);
        keep(&mut self.seqs)
    }
}

/// What a message says of a group's changes; in memory while it is being told.
pub(super) struct Telling {
    /// What the message told before.
    pub(super) before: Story,
    pub(super) story: Story,
    /// For the thread.
    lines: Vec<String>,
    more_lines: usize,
    /// Changes that cannot be read any more.
    pub(super) damaged: u64,
}

impl Telling {
    pub(super) fn after(before: Story) -> Self {
        Self { story: before.clone(), before, lines: Vec::new(), more_lines: 0, damaged: 0 }
    }

    pub(super) fn add(&mut self, event: &Redacted) {
        self.story.add(event);
        if self.lines.len() < THREAD_LINES {
            self.lines.push(rollup::line(event));
        } else {
            self.more_lines += 1;
        }
    }

    pub(super) fn changes(&self) -> usize {
        self.lines.len() + self.more_lines
    }

    /// What the thread is told: all that is new, and before it what the message told before there was a thread.
    pub(super) fn parts(&self) -> Card {
        let mut lines: Vec<String> = self.before.alone().map(str::to_owned).into_iter().collect();
        let n = lines.len() + self.changes();
        lines.extend_from_slice(&self.lines);
        if self.more_lines > 0 {
            lines.push(format!("and {} more", self.more_lines));
        }
        let title = if n == 1 { lines.remove(0) } else { format!("{n} changes") };
        Card { title, lines, diff: String::new(), footer: String::new(), colour: "#9aa0a6".into(), event: None }
    }
}
