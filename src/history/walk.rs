//! A scan under way: rows one after the other, what the search finds, or what it finds between some numbers at a time,
//! until there is enough or it has taken long.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use rusqlite::params;

use super::{
    Error, History,
    expression::Expression,
    filter::Question,
    narrow::Narrow,
    plan::{Plan, Sooner},
    rows::Order,
    scan::{Ended, Limit, Range, sql},
    stop,
    windows::Windows,
};
use crate::ledger::{self, search::Said};

/// How many rows could be looked at in the time in which an event is read for its words.
pub(super) const READ: usize = 20;
/// Rows that are looked at before somebody looks at the clock again.
const UNWATCHED: usize = 32;
/// Numbers whose names are compared at a time, and how many rows could be looked at meanwhile.
const NAMES: i64 = 10_000;
const NAMES_IN_ROWS: usize = 3_000;
/// Numbers that the search is asked for at a time, at least.
const WINDOW: i64 = 4_000;
/// What that is to take, at least and at most: to find the way to a number takes a while, however few are asked for.
const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_millis(9);
/// By how much it may be late.
const LATE: Duration = Duration::from_millis(3);
/// What the search is always given to find something.
const MOMENT: Duration = Duration::from_millis(1);

/// What the search found nothing for in time.
#[derive(Debug)]
pub(super) struct Stopped {
    text: String,
    /// How many numbers it was asked for at a time, in the end, and in which order for its parts: what is soon done in one
    /// order may take long in another.
    window: i64,
    parts: Vec<String>,
}

/// A scan under way.
pub(super) struct Walk<'a> {
    history: &'a History,
    question: &'a Question,
    order: Order,
    limit: Limit,
    began: Instant,
    /// In rows.
    looked_at: usize,
    /// When somebody looks at the clock.
    watched_at: usize,
    /// The last row that was looked at.
    at: Option<i64>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(history: &'a History, question: &'a Question, order: Order, limit: Limit) -> Self {
        let began = Instant::now();
        Self { history, question, order, limit, began, looked_at: 0, watched_at: limit.few, at: None }
    }

    /// Whether enough was looked at, after so much more.
    fn is_over(&mut self, rows: usize) -> bool {
        self.looked_at = self.looked_at.saturating_add(rows);
        if self.looked_at < self.watched_at {
            return false;
        }
        self.watched_at = self.looked_at.saturating_add(UNWATCHED);
        self.looked_at >= self.limit.rows || self.is_out_of_patience()
    }

    fn is_out_of_patience(&self) -> bool {
        self.limit.patience.is_some_and(|patience| self.began.elapsed() >= patience)
    }

    /// Looks for what a plan says between two numbers. `begins`: it is not a later part of what somebody looks through.
    pub(super) fn look(
        &mut self,
        plan: &Plan,
        range: Range,
        begins: bool,
        each: &mut impl FnMut(&Narrow<'_>) -> ControlFlow<()>,
    ) -> Result<Ended, Error> {
        if plan.name.is_some() {
            return self.look_at_names(plan, range, each);
        }
        let Some(expression) = plan.expression.as_ref().filter(|_| !plan.gathers && self.limit.patience.is_some())
        else {
            return self.part(plan, range, each);
        };
        self.at = None;
        let (time, text) = (self.time_to_find(), expression.text());
        let (mut window, first) = match &*self.history.stopped.borrow() {
            Some(stopped) if !begins && stopped.text == text => (Some(stopped.window), stopped.parts.clone()),
            _ if time.is_zero() => (Some(WINDOW), Vec::new()),
            _ => (None, Vec::new()),
        };
        if window.is_none() {
            match self.history.stop.after(time, || self.part(plan, range, each)) {
                Err(Error::Sql(error)) if stop::is_stopped(&error) => {}
                ended => return ended,
            }
        }
        let rest = match self.at {
            Some(at) if self.is_out_of_patience() => return Ok(Ended::CutOff { at }),
            Some(at) => range.after(self.order, at),
            None => range,
        };
        let (window, mut windows) = (window.get_or_insert(WINDOW), Windows::new(expression, &first));
        let ended = self.look_through_windows(plan, &mut windows, rest, window, each);
        // Whoever asks on need not find that out again.
        self.history.stopped.replace(Some(Stopped { text, window: *window, parts: windows.parts() }));
        ended
    }

    /// How long the search may take to find the next one; at least a moment, where it is asked at once at all.
    fn time_to_find(&self) -> Duration {
        let Sooner { at_once, .. } = self.history.sooner;
        let left = self.limit.patience.map_or(at_once, |patience| patience.saturating_sub(self.began.elapsed()));
        at_once.min(left.max(MOMENT))
    }

    /// Rows of other names are not seen here, so some are asked for at a time.
    fn look_at_names(
        &mut self,
        plan: &Plan,
        mut rest: Range,
        each: &mut impl FnMut(&Narrow<'_>) -> ControlFlow<()>,
    ) -> Result<Ended, Error> {
        while !rest.is_empty() {
            let part = rest.split(self.order, NAMES);
            match self.part(plan, part, each)? {
                Ended::Complete if !rest.is_empty() && self.is_over(NAMES_IN_ROWS) => {
                    return Ok(Ended::CutOff { at: part.last(self.order) });
                }
                Ended::Complete => {}
                ended => return Ok(ended),
            }
        }
        Ok(Ended::Complete)
    }

    /// Asks the search for one part of an expression at a time, between as many numbers as are soon done.
    fn look_through_windows(
        &mut self,
        plan: &Plan,
        windows: &mut Windows<'_>,
        mut rest: Range,
        size: &mut i64,
        each: &mut impl FnMut(&Narrow<'_>) -> ControlFlow<()>,
    ) -> Result<Ended, Error> {
        let row = Plan { words: plan.words, ..Plan::ROWS };
        while !rest.is_empty() {
            let began = Instant::now();
            let window = rest.split(self.order, *size);
            for seq in windows.find(self.history, window, self.order)? {
                match self.part(&row, Range { from: seq, to: seq }, each)? {
                    Ended::Complete => {}
                    ended => return Ok(ended),
                }
            }
            let took = began.elapsed();
            // Another one as long would be too long.
            let patience = self.limit.patience.is_some_and(|patience| self.began.elapsed() + took >= patience + LATE);
            if patience && !rest.is_empty() {
                return Ok(Ended::CutOff { at: window.last(self.order) });
            }
            *size = match took {
                took if took < SHORT => size.saturating_mul(2),
                took if took > LONG => (*size / 2).max(WINDOW),
                _ => *size,
            };
        }
        Ok(Ended::Complete)
    }

    fn part(
        &mut self,
        plan: &Plan,
        range: Range,
        each: &mut impl FnMut(&Narrow<'_>) -> ControlFlow<()>,
    ) -> Result<Ended, Error> {
        let (history, question) = (self.history, self.question);
        let mut statement = history.connection().prepare_cached(&sql(plan, self.order))?;
        let mut rows = match plan.expression.as_ref().map(Expression::text).or_else(|| plan.name.clone()) {
            Some(asked) => statement.query(params![range.from, range.to, asked])?,
            None => statement.query(params![range.from, range.to])?,
        };
        let words = plan.words && !question.words.is_empty();
        while let Some(row) = rows.next()? {
            let narrow = Narrow::take(row)?;
            let mut takes = question.takes(&narrow);
            let read = takes && words;
            if read {
                takes = self.has_words(narrow.seq)?;
            }
            if takes && each(&narrow).is_break() {
                return Ok(Ended::Stopped);
            }
            self.at = Some(narrow.seq);
            history.stop.again(|| self.time_to_find());
            if self.is_over(if read { READ } else { 1 }) {
                return Ok(Ended::CutOff { at: narrow.seq });
            }
        }
        Ok(Ended::Complete)
    }

    fn has_words(&self, seq: i64) -> Result<bool, Error> {
        match ledger::rows::read::<Said>(self.history.connection(), seq) {
            Ok(event) => Ok(event.is_some_and(|(_, event)| self.question.has_words(&event))),
            // A damaged one has no words; who asks for itself is told.
            Err(rusqlite::Error::FromSqlConversionFailure(..)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
