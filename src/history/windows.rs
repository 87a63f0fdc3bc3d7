//! The search, asked for one part of an expression at a time, between some numbers. That is slower than all at once, and can
//! end anywhere: of events that have one thing the search finds the first between two numbers without looking at others.

use rusqlite::params;

use super::{Error, History, expression::Expression, rows::Order, scan::Range};

/// The parts of an expression, those that take the fewest events first.
pub(super) struct Windows<'a> {
    /// Each with how many it took in the last window.
    all: Vec<(usize, &'a str)>,
    none: &'a str,
}

impl<'a> Windows<'a> {
    /// `first`: the parts that took the fewest when somebody last looked, in this order.
    pub(super) fn new(expression: &'a Expression, first: &[String]) -> Self {
        let mut all: Vec<(usize, &str)> = expression.all.iter().map(|part| (0, part.as_str())).collect();
        all.sort_by_key(|(_, part)| first.iter().position(|known| known == part).unwrap_or(first.len()));
        Self { all, none: &expression.none }
    }

    /// The parts as they are ordered now.
    pub(super) fn parts(&self) -> Vec<String> {
        self.all.iter().map(|(_, part)| (*part).to_owned()).collect()
    }

    /// The numbers between two that the whole expression takes, in an order.
    pub(super) fn find(&mut self, history: &History, range: Range, order: Order) -> Result<Vec<i64>, Error> {
        let mut taken: Option<Vec<bool>> = None;
        for (count, part) in &mut self.all {
            let found = events(history, part, range, order)?;
            *count = found.iter().filter(|found| **found).count();
            let both = match taken {
                None => found,
                Some(taken) => taken.iter().zip(found).map(|(taken, found)| *taken && found).collect(),
            };
            if !both.contains(&true) {
                self.all.sort_by_key(|(count, _)| *count);
                return Ok(Vec::new());
            }
            taken = Some(both);
        }
        self.all.sort_by_key(|(count, _)| *count);
        let mut taken = taken.unwrap_or_default();
        if !self.none.is_empty() {
            let unwanted = events(history, self.none, range, order)?;
            taken.iter_mut().zip(unwanted).for_each(|(taken, unwanted)| *taken &= !unwanted);
        }
        let taken = (range.from..=range.to).zip(taken).filter(|(_, taken)| *taken).map(|(number, _)| number);
        let mut numbers: Vec<i64> = taken.collect();
        if order == Order::Desc {
            numbers.reverse();
        }
        Ok(numbers)
    }
}

/// Which numbers of a range the search finds. It comes there from the end at which the order begins, which most are near.
fn events(history: &History, part: &str, range: Range, order: Order) -> Result<Vec<bool>, Error> {
    let direction = if order == Order::Desc { "DESC" } else { "ASC" };
    let sql = "SELECT rowid FROM search WHERE search MATCH ?3 AND rowid >= ?1 AND rowid <= ?2 ORDER BY rowid";
    let mut statement = history.connection().prepare_cached(&format!("{sql} {direction}"))?;
    let mut rows = statement.query(params![range.from, range.to, part])?;
    let mut found = vec![false; usize::try_from(range.numbers()).unwrap_or_default()];
    while let Some(row) = rows.next()? {
        let at = usize::try_from(row.get::<_, i64>(0)? - range.from).ok();
        if let Some(found) = at.and_then(|at| found.get_mut(at)) {
            *found = true;
        }
    }
    Ok(found)
}
