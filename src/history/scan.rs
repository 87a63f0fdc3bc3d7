//! Events in their order: from the search where it can tell which ones, from the narrow index else. Whoever scans sees
//! only rows that the question takes.

use std::{ops::ControlFlow, time::Duration};

use rusqlite::OptionalExtension;

use super::{
    Error, History, MOST_LOOKED_AT,
    filter::Question,
    narrow::{COLUMNS, Narrow},
    plan::Plan,
    rows::Order,
    walk::{READ, Walk},
};
use crate::ledger;

/// Where a scan begins and how far it goes. Numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from: i64,
    pub(super) to: i64,
}

impl Range {
    pub(super) fn is_empty(self) -> bool {
        self.from > self.to
    }

    /// How many numbers it has.
    pub(super) fn numbers(self) -> i64 {
        self.to.saturating_sub(self.from).saturating_add(1)
    }

    /// Takes so many numbers off the end at which an order begins.
    pub(super) fn split(&mut self, order: Order, numbers: i64) -> Self {
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
    pub(super) fn after(self, order: Order, at: i64) -> Self {
        match order {
            Order::Desc => Self { from: self.from, to: at.saturating_sub(1) },
            Order::Asc => Self { from: at.saturating_add(1), to: self.to },
        }
    }

    pub(super) fn last(self, order: Order) -> i64 {
        if order == Order::Desc { self.from } else { self.to }
    }
}

/// How much a scan looks at before it says how far it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) rows: usize,
    pub(super) patience: Option<Duration>,
    /// So many rows are looked at however long it takes: a small ledger is always looked at whole.
    pub(super) few: usize,
}

impl Limit {
    /// For those who ask again where it was cut off.
    pub(super) const PAGE: Self = Self { rows: MOST_LOOKED_AT, patience: Some(Duration::from_millis(18)), few: 200 };
    /// For those who say that there are more.
    pub(super) const MANY: Self = Self { rows: MOST_LOOKED_AT, patience: Some(Duration::from_millis(30)), few: 1_000 };
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

    /// The time of the event of a number, or of the next one that there is.
    pub(super) fn time_from(&self, seq: i64) -> Result<Option<i64>, Error> {
        let found = self
            .connection()
            .prepare_cached("SELECT time FROM events INDEXED BY events_narrow WHERE seq >= ?1 ORDER BY seq LIMIT 1")?
            .query_row([seq], |row| row.get(0))
            .optional()?;
        Ok(found)
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
        let mut walk = Walk::new(self, question, order, limit);
        for (range, indexed) in parts.into_iter().filter(|(range, _)| !range.is_empty()) {
            let cost = if question.words.is_empty() { 1 } else { READ as i64 };
            let few = range.numbers().saturating_mul(cost) <= self.sooner.looked_at;
            let plan = if indexed && !few { self.plan(question)? } else { Plan::ROWS };
            let begins = if order == Order::Desc { range.to == numbers.to } else { range.from == numbers.from };
            match walk.look(&plan, range, begins, &mut each)? {
                Ended::Complete => {}
                ended => return Ok(ended),
            }
        }
        Ok(Ended::Complete)
    }
}

/// Numbers from ?1 to ?2, those that the search finds for ?3, or whose names are like ?3.
pub(super) fn sql(plan: &Plan, order: Order) -> String {
    let direction = match order {
        Order::Desc => "DESC",
        Order::Asc => "ASC",
    };
    if plan.expression.is_some() {
        return format!(
            "SELECT {COLUMNS} FROM search CROSS JOIN events e INDEXED BY events_narrow ON e.seq = search.rowid
             WHERE search MATCH ?3 AND search.rowid >= ?1 AND search.rowid <= ?2 ORDER BY search.rowid {direction}"
        );
    }
    let name = if plan.name.is_some() { r"AND e.name LIKE ?3 ESCAPE '\'" } else { "" };
    format!(
        "SELECT {COLUMNS} FROM events e INDEXED BY events_narrow
         WHERE e.seq >= ?1 AND e.seq <= ?2 {name} ORDER BY e.seq {direction}"
    )
}
