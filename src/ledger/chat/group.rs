//! The changes of one owner that go into one message, and what is stored of it.

use rusqlite::{Transaction, params};

use super::super::now_ms;
use crate::{
    event::Event,
    sink::{
        Place,
        rollup::{self, Card, Story},
    },
};

/// Lines of one reply in a thread; more are counted.
const THREAD_LINES: usize = 15;

/// The changes of one owner that are not told yet, and the message that they belong to.
pub(super) struct Group {
    pub(super) seqs: Vec<i64>,
    pub(super) story: Story,
    /// For the thread.
    pub(super) lines: Vec<String>,
    pub(super) more_lines: usize,
    pub(super) message: Option<Message>,
    /// Of the oldest and the newest change that is not told yet.
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) attempts: u32,
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

impl Group {
    pub(super) fn new(message: Option<Message>, story: Story, time: i64) -> Self {
        Self {
            seqs: Vec::new(),
            story,
            lines: Vec::new(),
            more_lines: 0,
            message,
            first: time,
            last: time,
            attempts: 0,
        }
    }

    pub(super) fn add(&mut self, seq: i64, event: &Event, time: i64) {
        self.story.add(event);
        self.seqs.push(seq);
        self.first = self.first.min(time);
        self.last = self.last.max(time);
        if self.lines.len() < THREAD_LINES {
            self.lines.push(rollup::line(event));
        } else {
            self.more_lines += 1;
        }
    }

    /// Whether the thread has something to say that the message itself does not.
    pub(super) fn has_parts(&self) -> bool {
        self.message.is_some() || self.lines.len() + self.more_lines > 1
    }

    pub(super) fn parts(&self) -> Card {
        let mut lines = self.lines.clone();
        if self.more_lines > 0 {
            lines.push(format!("and {} more", self.more_lines));
        }
        let n = self.lines.len() + self.more_lines;
        let title = if n == 1 { lines.remove(0) } else { format!("{n} changes") };
        Card { title, lines, diff: String::new(), footer: String::new(), colour: "#9aa0a6".into(), event: None }
    }
}
