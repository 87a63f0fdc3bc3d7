//! Events in their order: from the search where it can tell which ones, from the narrow index else. Whoever scans sees
//! only rows that the question takes.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use rusqlite::{OptionalExtension, params};

use super::{
    Error, History, MOST_LOOKED_AT,
    filter::{Beginnings, Question},
    narrow::{COLUMNS, Narrow},
    rows::Order,
};
use crate::ledger;

/// Where a scan begins and how far it goes. Numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from: i64,
    pub(super) to: i64,
}

impl Range {
    fn is_empty(self) -> bool {
        self.from > self.to
    }

    /// Takes so many numbers off the end at which an order begins.
    fn split(&mut self, order: Order, numbers: i64) -> Self {
        let whole = *self;
        match order {
            Order::Desc => {
                let from = self.from.max(self.to.saturating_sub(numbers - 1));
                self.to = from.saturating_sub(1);
                Self { from, to: whole.to }
            }
            Order::Asc => {
                let to = self.to.min(self.from.saturating_add(numbers - 1));
                self.from = to.saturating_add(1);
                Self { from: whole.from, to }
            }
        }
    }

    /// What an order still has to go after a number.
    fn after(self, order: Order, at: i64) -> Self {
        match order {
            Order::Desc => Self { from: self.from, to: at.saturating_sub(1) },
            Order::Asc => Self { from: at.saturating_add(1), to: self.to },
        }
    }

    fn last(self, order: Order) -> i64 {
        if order == Order::Desc { self.from } else { self.to }
    }
}

/// How much a scan looks at before it says how far it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    rows: usize,
    /// Looked at between windows of numbers: a small ledger is always looked at whole.
    patience: Option<Duration>,
    /// From so many rows on it is looked at among them, too.
    few: usize,
}

impl Limit {
    /// For those who ask again where it was cut off.
    pub(super) const PAGE: Self =
        Self { rows: MOST_LOOKED_AT, patience: Some(Duration::from_millis(20)), few: usize::MAX };
    /// For those who say that there are more.
    pub(super) const MANY: Self = Self { rows: MOST_LOOKED_AT, patience: Some(Duration::from_millis(30)), few: 20_000 };
    pub(super) const NONE: Self = Self { rows: usize::MAX, patience: None, few: usize::MAX };
}

/// How a scan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// There is no more.
    Complete,
    /// The caller had enough.
    Stopped,
    /// Enough was looked at; this is the last number.
    CutOff { at: i64 },
}

/// Numbers that are asked for at a time. Words that are common and never come together cost the search about 0.1 us for
/// each number, and it cannot be stopped while it looks.
const WINDOW: i64 = 100_000;

/// The search gathers all that begins with something before it gives the first: what is common is sooner found by looking
/// at rows, some at a time until this long has passed, and what is not found by then is rare enough to be looked up. Words
/// cost more to look at.
const PROBE: Duration = Duration::from_millis(8);
const PROBE_ROWS: usize = 500;
const PROBE_WORDS: usize = 50;

/// Words that a beginning is spelt out into at most: many words are rare ones, which are soon gathered.
const MOST_SPELT: usize = 64;

/// Clocks are set back now and then, by less than this.
const CLOCK_SLACK_MS: i64 = 10 * 60 * 1000;

impl History {
    /// The numbers between which all events of a period are.
    pub(super) fn range(&self, question: &Question) -> Result<Range, Error> {
        let from = match question.since {
            i64::MIN => i64::MIN,
            since => self.first_from(since.saturating_sub(CLOCK_SLACK_MS))?,
        };
        let to = match question.until {
            i64::MAX => i64::MAX,
            until => self.first_from(until.saturating_add(CLOCK_SLACK_MS))?.saturating_sub(1),
        };
        Ok(Range { from, to })
    }

    /// The numbers of the oldest and the newest event.
    pub(super) fn numbers(&self) -> Result<Range, Error> {
        let edge = |order: &str| {
            self.connection()
                .prepare_cached(&format!(
                    "SELECT seq FROM events INDEXED BY events_narrow ORDER BY seq {order} LIMIT 1"
                ))?
                .query_row([], |row| row.get::<_, i64>(0))
                .optional()
        };
        Ok(Range { from: edge("ASC")?.unwrap_or(1), to: edge("DESC")?.unwrap_or(0) })
    }

    /// The number of the first event at a time or later; one past the last when there is none.
    fn first_from(&self, time: i64) -> Result<i64, Error> {
        let Range { from, to } = self.numbers()?;
        let (mut low, mut high) = (from, to + 1);
        let mut statement = self.connection().prepare_cached(
            "SELECT seq, time FROM events INDEXED BY events_narrow WHERE seq >= ?1 ORDER BY seq LIMIT 1",
        )?;
        while low < high {
            let middle = low + (high - low) / 2;
            let (seq, at): (i64, i64) = match statement.query_row([middle], |row| Ok((row.get(0)?, row.get(1)?))) {
                Err(rusqlite::Error::QueryReturnedNoRows) => (high, i64::MAX),
                other => other?,
            };
            if at < time {
                low = seq + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Calls `each` with the rows that the question takes, in order.
    pub(super) fn scan(
        &self,
        question: &Question,
        range: Range,
        order: Order,
        limit: Limit,
        mut each: impl FnMut(&Narrow<'_>) -> ControlFlow<()>,
    ) -> Result<Ended, Error> {
        let numbers = self.numbers()?;
        let range = Range { from: range.from.max(numbers.from), to: range.to.min(numbers.to) };
        let searched = ledger::search::searched(self.connection())?;
        let tail = Range { from: range.from.max(searched.saturating_add(1)), to: range.to };
        let indexed = Range { from: range.from, to: range.to.min(searched) };
        let parts = match order {
            Order::Desc => [(tail, false), (indexed, true)],
            Order::Asc => [(indexed, true), (tail, false)],
        };
        let mut looked_up_to = None;
        let mut walk = Walk::new(self, question, order, limit);
        for (mut rest, indexed) in parts {
            while !rest.is_empty() {
                if let (Some(at), Some(patience)) = (looked_up_to, limit.patience)
                    && walk.began.elapsed() >= patience
                {
                    return Ok(Ended::CutOff { at });
                }
                let window = rest.split(order, walk.window);
                match walk.look(window, indexed, &mut each)? {
                    Ended::Complete => looked_up_to = Some(window.last(order)),
                    ended => return Ok(ended),
                }
            }
        }
        Ok(Ended::Complete)
    }
}

/// A scan under way.
struct Walk<'a> {
    history: &'a History,
    question: &'a Question,
    order: Order,
    limit: Limit,
    began: Instant,
    /// Numbers to look at next.
    window: i64,
    /// Rows that may still be looked at.
    left: usize,
    /// How long rows may still be looked at for their beginnings.
    probe: Duration,
    /// The question for the search with its beginnings spelt out.
    spelt: Option<String>,
}

impl<'a> Walk<'a> {
    fn new(history: &'a History, question: &'a Question, order: Order, limit: Limit) -> Self {
        let began = Instant::now();
        Self { history, question, order, limit, began, window: WINDOW, left: limit.rows, probe: PROBE, spelt: None }
    }

    /// Whether it has taken long enough, with so many rows left.
    fn is_over(&self, left: usize) -> bool {
        let looked_at = self.limit.rows.saturating_sub(left);
        left == 0
            || (looked_at >= self.limit.few
                && looked_at.is_multiple_of(256)
                && self.limit.patience.is_some_and(|patience| self.began.elapsed() >= patience))
    }

    fn look(
        &mut self,
        mut window: Range,
        indexed: bool,
        each: &mut impl FnMut(&Narrow<'_>) -> ControlFlow<()>,
    ) -> Result<Ended, Error> {
        let (question, mut left) = (self.question, self.left);
        let Some(expression) = question.expression.as_deref().filter(|_| indexed) else {
            let ended = self.part(None, true, window, &mut left, each)?;
            self.left = left;
            return Ok(ended);
        };
        if question.has_beginnings() && self.spelt.is_none() {
            while !self.probe.is_zero() {
                let began = Instant::now();
                let mut rows = if question.words.is_empty() { PROBE_ROWS } else { PROBE_WORDS };
                let ended = self.part(question.without_beginnings.as_deref(), true, window, &mut rows, each)?;
                self.probe = self.probe.saturating_sub(began.elapsed());
                match ended {
                    Ended::CutOff { at } => window = window.after(self.order, at),
                    ended => return Ok(ended),
                }
            }
            self.spell()?;
        }
        let expression = self.spelt.as_deref().unwrap_or(expression);
        let ended = self.part(Some(expression), false, window, &mut left, each)?;
        self.left = left;
        Ok(ended)
    }

    /// Spells the beginnings out: whole words can be looked up one after the other, while of a beginning all that begins
    /// so has to be gathered.
    fn spell(&mut self) -> Result<(), Error> {
        let mut known = HashMap::new();
        let mut statement = self.history.connection().prepare_cached(
            "SELECT term FROM search_words WHERE term >= ?1 AND term <= ?1 || char(1114111) ORDER BY term LIMIT ?2",
        )?;
        for start in self.question.beginnings() {
            let most = i64::try_from(MOST_SPELT).unwrap_or(i64::MAX) + 1;
            let words: Vec<String> =
                statement.query_map(params![start, most], |row| row.get(0))?.collect::<Result<_, _>>()?;
            match words.len() <= MOST_SPELT {
                true => drop(known.insert(start, words)),
                // Gathered once is enough.
                false => self.window = i64::MAX,
            }
        }
        self.spelt = self.question.expression(&Beginnings::Spelt(&known));
        Ok(())
    }

    /// `words`: the expression says nothing of them, the events themselves have to be looked at.
    fn part(
        &self,
        expression: Option<&str>,
        words: bool,
        range: Range,
        left: &mut usize,
        each: &mut impl FnMut(&Narrow<'_>) -> ControlFlow<()>,
    ) -> Result<Ended, Error> {
        let question = self.question;
        let sql = sql(expression.is_some(), self.order);
        let mut statement = self.history.connection().prepare_cached(&sql)?;
        let mut rows = match expression {
            Some(expression) => statement.query(params![range.from, range.to, expression])?,
            None => statement.query(params![range.from, range.to])?,
        };
        while let Some(row) = rows.next()? {
            let narrow = Narrow::take(row)?;
            let takes =
                question.takes(&narrow) && (!words || question.words.is_empty() || self.has_words(narrow.seq)?);
            if takes && each(&narrow).is_break() {
                return Ok(Ended::Stopped);
            }
            *left = left.saturating_sub(1);
            if self.is_over(*left) {
                return Ok(Ended::CutOff { at: narrow.seq });
            }
        }
        Ok(Ended::Complete)
    }

    fn has_words(&self, seq: i64) -> Result<bool, Error> {
        match ledger::rows::event(self.history.connection(), seq) {
            Ok(event) => Ok(event.is_some_and(|(_, event)| self.question.has_words(&event))),
            // A damaged one has no words; who asks for itself is told.
            Err(rusqlite::Error::FromSqlConversionFailure(..)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Numbers from ?1 to ?2, of the search those that ?3 finds.
pub(super) fn sql(search: bool, order: Order) -> String {
    let direction = match order {
        Order::Desc => "DESC",
        Order::Asc => "ASC",
    };
    match search {
        true => format!(
            "SELECT {COLUMNS} FROM search CROSS JOIN events e INDEXED BY events_narrow ON e.seq = search.rowid
             WHERE search MATCH ?3 AND search.rowid >= ?1 AND search.rowid <= ?2 ORDER BY search.rowid {direction}"
        ),
        false => format!(
            "SELECT {COLUMNS} FROM events e INDEXED BY events_narrow
             WHERE e.seq >= ?1 AND e.seq <= ?2 ORDER BY e.seq {direction}"
        ),
    }
}
