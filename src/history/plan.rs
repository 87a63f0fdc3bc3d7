//! How a question is best asked: what of it the search is asked for, and what its rows are looked at for.
//!
//! The search is fast, and looks for its first find among all events, whatever numbers it is asked for: common words that
//! never come together cost it about 30 ns for each of a million. So it is asked at once, stopped when it finds nothing for
//! long, and then asked for one part at a time, between some numbers (`windows`).
//!
//! Of beginnings of values and words it gathers all events of all words that begin so before it gives the first. So they
//! are spelt out where few words begin so, gathered where few events have one, and else they are so common that rows are
//! looked at until there are enough.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::{
    Error, History,
    expression::{Beginning, Beginnings, Expression},
    filter::Question,
};

/// Every word of the search with every event that has it. The schema's `search_words` counts a word's events before it
/// says the word, which takes 20 ms for one that a million have.
pub(super) const INSTANCES: &str = "PRAGMA temp_store = MEMORY;
    PRAGMA query_only = 0;
    CREATE VIRTUAL TABLE temp.search_instances USING fts5vocab (main, search, instance);
    PRAGMA query_only = 1;";

/// What is sooner done in which way. Times are those of a million events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sooner {
    /// The search is asked for all at once, and stopped when it finds nothing for so long.
    pub(super) at_once: Duration,
    /// So few rows are looked at rather than searched for; where each has to be read for its words, a 20th.
    pub(super) looked_at: i64,
    /// Into so many words a beginning is spelt out at most; to find one takes about 15 us.
    pub(super) spelt: usize,
    /// So many events of words that begin so are gathered at most: to count them takes about 2 ms, to gather them 4.
    pub(super) gathered: i64,
    /// The same of the words of a text: an event has to be read to look for them, which takes longer.
    pub(super) gathered_of_text: i64,
}

impl Sooner {
    pub(super) const USUAL: Self = Self {
        at_once: Duration::from_millis(10),
        looked_at: 3_000,
        spelt: 64,
        gathered: 20_000,
        gathered_of_text: 50_000,
    };
}

/// How events are looked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// What the search is asked for; without it every row is looked at.
    pub(super) expression: Option<Expression>,
    /// It gathers, and is asked once.
    pub(super) gathers: bool,
    /// It says nothing of the words of the text, or not of all: the events themselves have to be looked at.
    pub(super) words: bool,
    /// Without an expression: what names are to be like, as SQL has it.
    pub(super) name: Option<String>,
}

impl Plan {
    /// Of events that are not in the search.
    pub(super) const ROWS: Self = Self { expression: None, gathers: false, words: true, name: None };
}

impl History {
    pub(super) fn plan(&self, question: &Question) -> Result<Plan, Error> {
        let mut beginnings = Beginnings::new();
        let begun = question.begun_word();
        for start in question.beginnings() {
            let Sooner { gathered, gathered_of_text, .. } = self.sooner;
            let most = if begun == Some(&start) { gathered_of_text } else { gathered };
            let how = match self.spell(&start)? {
                Some(words) => Beginning::Spelt(words),
                None if self.are_fewer(&start, most)? => Beginning::Gathered,
                None => Beginning::LeftOut,
            };
            beginnings.insert(start, how);
        }
        let words = begun.and_then(|start| beginnings.get(start)) == Some(&Beginning::LeftOut);
        let gathers = beginnings.values().any(|how| *how == Beginning::Gathered);
        let expression = question.expression(&beginnings);
        let name = match &question.filter.names.any[..] {
            [name] if expression.is_none() => Some(like(name)),
            _ => None,
        };
        Ok(Plan { expression, gathers, words, name })
    }

    /// The words of the search that begin so; `None` when they are many.
    fn spell(&self, start: &str) -> Result<Option<Vec<String>>, Error> {
        let mut next = self
            .connection()
            .prepare_cached("SELECT term FROM temp.search_instances WHERE term >= ?1 AND term <= ?2 LIMIT 1")?;
        let (mut words, mut from, end) = (Vec::new(), start.to_owned(), end(start));
        while let Some(word) = next.query_row([&from, &end], |row| row.get::<_, String>(0)).optional()? {
            if words.len() == self.sooner.spelt {
                return Ok(None);
            }
            // No word has it in it: the next one is the next word.
            from = format!("{word}\u{1}");
            words.push(word);
        }
        Ok(Some(words))
    }

    /// Whether fewer events have words that begin so; one that has two counts twice.
    fn are_fewer(&self, start: &str, than: i64) -> Result<bool, Error> {
        let found: i64 = self
            .connection()
            .prepare_cached(
                "SELECT count(*) FROM (SELECT 1 FROM temp.search_instances WHERE term >= ?1 AND term <= ?2 LIMIT ?3)",
            )?
            .query_row(params![start, end(start), than], |row| row.get(0))?;
        Ok(found < than)
    }
}

/// After all that begins so.
fn end(start: &str) -> String {
    format!("{start}{}", char::MAX)
}

/// A pattern of a filter as SQL has it.
fn like(pattern: &str) -> String {
    let mut like = String::new();
    for c in pattern.chars() {
        if matches!(c, '%' | '_' | '\\') {
            like.push('\\');
        }
        like.push(if c == '*' { '%' } else { c });
    }
    like
}
