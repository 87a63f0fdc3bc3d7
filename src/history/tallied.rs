//! What the [tallies](crate::ledger::tally) say of a period: whole days, hours and minutes as they were counted, and the
//! events themselves at its edges and where they are not counted yet.

use std::{collections::BTreeSet, ops::ControlFlow};

use rusqlite::params;

use super::{
    Error, History,
    filter::Question,
    narrow::Narrow,
    rows::Order,
    scan::{Limit, Range},
};
use crate::ledger::tally::{self, DAY, HOUR, MINUTE, Profile};

/// How many events there were in a day, an hour or a minute.
pub(super) struct Tally {
    /// Milliseconds since 1970.
    pub(super) start: i64,
    /// Created, updated, deleted.
    pub(super) sorts: [i64; 3],
    profiles: Vec<u8>,
}

impl Tally {
    /// Calls `each` with the ids of profiles and their events.
    pub(super) fn profiles(&self, mut each: impl FnMut(usize, i64)) {
        tally::read(&self.profiles, |id, events| each(usize::try_from(id).unwrap_or(usize::MAX), events));
    }
}

/// Which profiles a question takes.
pub(super) struct Taken {
    /// By the id: 1, 2 or 3 for those of created, updated or deleted events, 0 for those that it does not take.
    sorts: Vec<u8>,
    /// The events of all that it takes, whenever they were.
    pub(super) events: i64,
}

impl Taken {
    /// 0, 1 or 2 for created, updated or deleted; `None` for what is not taken.
    pub(super) fn sort(&self, id: usize) -> Option<usize> {
        match self.sorts.get(id) {
            None | Some(0) => None,
            Some(sort) => Some(usize::from(*sort) - 1),
        }
    }
}

/// From when to when; the ends are `i64::MIN` and `i64::MAX` where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Period {
    pub(super) since: i64,
    pub(super) until: i64,
}

impl Question {
    pub(super) fn period(&self) -> Period {
        Period { since: self.since, until: self.until }
    }

    /// A profile as a row in the middle of the period.
    pub(super) fn row_of<'a>(&self, profile: &'a Profile) -> Narrow<'a> {
        Narrow::of_profile(profile, self.since)
    }
}

impl History {
    pub(super) fn taken(&self, question: &Question) -> Result<Taken, Error> {
        let mut taken = Taken { sorts: Vec::new(), events: 0 };
        tally::profiles(self.connection(), |id, profile, events| {
            let Ok(id) = usize::try_from(id) else { return };
            if taken.sorts.len() <= id {
                taken.sorts.resize(id + 1, 0);
            }
            if question.takes(&question.row_of(profile)) {
                taken.sorts[id] = profile.sort() as u8 + 1;
                taken.events += events;
            }
        })?;
        Ok(taken)
    }

    /// The tallies that make up a period, none wider than `widest`, each with the profiles when `whole`; none at all
    /// without a width, for what has no profile. What they leave out is given to `rest`, row by row: the question takes
    /// each of those. All of it within one moment of the file.
    pub(super) fn tallies(
        &self,
        question: &Question,
        widest: Option<i64>,
        whole: bool,
        mut each: impl FnMut(&Tally),
        mut rest: impl FnMut(&Narrow<'_>),
    ) -> Result<(), Error> {
        let counted = tally::counted(self.connection())?;
        let mut edges = BTreeSet::new();
        let mut left: Vec<Period> = widest.map(|_| question.period()).into_iter().collect();
        for width in [DAY, HOUR, MINUTE].into_iter().filter(|width| widest.is_some_and(|widest| *width <= widest)) {
            for period in std::mem::take(&mut left) {
                let (inner, outer) = split(period, width);
                if let Some(inner) = inner {
                    self.of_width(width, inner, whole, &mut each)?;
                }
                left.extend(outer);
            }
        }
        for Period { since, until } in left {
            edges.extend([since.div_euclid(MINUTE) * MINUTE, (until - 1).div_euclid(MINUTE) * MINUTE]);
        }
        let mut row = |row: &Narrow<'_>| {
            rest(row);
            ControlFlow::Continue(())
        };
        for start in edges {
            let bounds = self
                .connection()
                .prepare_cached("SELECT first, last FROM tallies WHERE width = ?1 AND start = ?2")?
                .query_map([MINUTE, start], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<Result<Vec<(i64, i64)>, _>>()?;
            for (from, to) in bounds {
                let minute = start..start + MINUTE;
                self.scan(question, Range { from, to: to.min(counted) }, Order::Asc, Limit::NONE, |found| {
                    // Clocks are set back: numbers of other minutes may lie between.
                    if minute.contains(&found.time) { row(found) } else { ControlFlow::Continue(()) }
                })?;
            }
        }
        let tail = Range { from: counted.saturating_add(1), to: i64::MAX };
        self.scan(question, tail, Order::Asc, Limit::NONE, row)?;
        Ok(())
    }

    /// When the first minute begins in which there was something that is taken.
    pub(super) fn oldest_tallied(&self, taken: &Taken) -> Result<Option<i64>, Error> {
        let mut within = Period { since: i64::MIN, until: i64::MAX };
        for width in [DAY, HOUR, MINUTE] {
            let mut statement = self.connection().prepare_cached(&sql(true))?;
            let mut rows = statement.query(params![width, within.since, within.until])?;
            let mut found = None;
            while let Some(row) = rows.next()? {
                let tally = read(row)?;
                let mut any = false;
                tally.profiles(|id, _| any |= taken.sort(id).is_some());
                if any {
                    found = Some(tally.start);
                    break;
                }
            }
            let Some(start) = found else { return Ok(None) };
            within = Period { since: start, until: start + width };
        }
        Ok(Some(within.since))
    }

    /// The hours of a period, the newest first, of numbers below a cursor.
    pub(super) fn hours_back(
        &self,
        period: Period,
        cursor: Option<i64>,
        mut each: impl FnMut(&Tally) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut statement = self.connection().prepare_cached(
            "SELECT start, created, updated, deleted, profiles FROM tallies
             WHERE width = ?1 AND start > ?2 AND start < ?3 AND first < ?4 ORDER BY start DESC",
        )?;
        let since = period.since.saturating_sub(HOUR);
        let mut rows = statement.query(params![HOUR, since, period.until, cursor.unwrap_or(i64::MAX)])?;
        while let Some(row) = rows.next()? {
            if each(&read(row)?).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The cursor below which everything is that happened before a time that is a whole hour.
    pub fn before(&self, time: i64) -> Result<Option<i64>, Error> {
        let mut statement =
            self.connection().prepare_cached("SELECT max(last) + 1 FROM tallies WHERE width = ?1 AND start < ?2")?;
        Ok(statement.query_row([HOUR, time], |row| row.get(0))?)
    }

    fn of_width(&self, width: i64, period: Period, whole: bool, each: &mut impl FnMut(&Tally)) -> Result<(), Error> {
        let mut statement = self.connection().prepare_cached(&sql(whole))?;
        let mut rows = statement.query(params![width, period.since, period.until])?;
        while let Some(row) = rows.next()? {
            each(&read(row)?);
        }
        Ok(())
    }
}

/// Of a width ?1, beginning from ?2 to before ?3.
pub(super) fn sql(whole: bool) -> String {
    let profiles = if whole { "profiles" } else { "x''" };
    format!(
        "SELECT start, created, updated, deleted, {profiles} FROM tallies
         WHERE width = ?1 AND start >= ?2 AND start < ?3 ORDER BY start"
    )
}

fn read(row: &rusqlite::Row<'_>) -> Result<Tally, rusqlite::Error> {
    Ok(Tally { start: row.get(0)?, sorts: [row.get(1)?, row.get(2)?, row.get(3)?], profiles: row.get(4)? })
}

/// What of a period whole spans of a width fill, and what is left before and after.
fn split(period: Period, width: i64) -> (Option<Period>, Vec<Period>) {
    let Period { since, until } = period;
    if since >= until {
        return (None, Vec::new());
    }
    // The ends of all that there is lie in no span.
    let from = if since == i64::MIN { since } else { (since - 1).div_euclid(width) * width + width };
    let to = if until == i64::MAX { until } else { until.div_euclid(width) * width };
    if from >= to {
        return (None, vec![period]);
    }
    let before = Period { since, until: from };
    let after = Period { since: to, until };
    let outer = [before, after].into_iter().filter(|period| period.since < period.until).collect();
    (Some(Period { since: from, until: to }), outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_whole_spans_and_what_is_left_of_it() {
        let period = |since, until| Period { since, until };
        assert_eq!(split(period(10, 100), 10), (Some(period(10, 100)), vec![]));
        assert_eq!(split(period(7, 104), 10), (Some(period(10, 100)), vec![period(7, 10), period(100, 104)]));
        assert_eq!(split(period(7, 13), 10), (None, vec![period(7, 13)]));
        assert_eq!(split(period(7, 7), 10), (None, vec![]));
        assert_eq!(split(period(-7, 13), 10), (Some(period(0, 10)), vec![period(-7, 0), period(10, 13)]));
        assert_eq!(split(period(i64::MIN, i64::MAX), 10), (Some(period(i64::MIN, i64::MAX)), vec![]));
        assert_eq!(split(period(i64::MIN, 13), 10), (Some(period(i64::MIN, 10)), vec![period(10, 13)]));
        assert_eq!(split(period(7, i64::MAX), 10), (Some(period(10, i64::MAX)), vec![period(7, 10)]));
    }
}
