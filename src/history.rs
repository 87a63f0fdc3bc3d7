//! What happened, for those who look: readers of the ledger's file that wait for no writer and that no writer waits for.
//! No HTTP in here: the page's API, the command line and `replay` ask the same functions.
//!
//! | file | what it answers |
//! |---|---|
//! | [`filter`] | which events: as asked for, and ready to be asked |
//! | [`kinds`] | what a person means by `deploy`, `Deployment` or `deployments.apps` |
//! | [`sight`] | which resources in which namespaces may be seen at all |
//! | [`narrow`] | what the narrow index holds of an event |
//! | `expression` | what a question is in the language of the search |
//! | `plan` | what of a question the search is asked for, and what rows are looked at for |
//! | [`scan`] | events in their order, by the narrow index or the search |
//! | `walk` | a scan under way, and when it has taken long enough |
//! | `windows` | the search part by part, where it would take long at once |
//! | `stop` | when a question has taken long enough |
//! | [`rows`] | pages of rows, whole events |
//! | [`detail`] | one event: the documents before and after it, its neighbours, what is not delivered |
//! | [`around`] | what routes went by when an event was recorded |
//! | [`chain`] | the owners of an object, up to the root |
//! | [`objects`] | objects as they are, and as they were at a time |
//! | [`doubt`] | whether an object was at a time what its history says |
//! | [`blame`] | who set each line of a document last |
//! | [`counts`] | how many there were, over time and by what |
//! | `tallied` | what the ledger's tallies say of a period |
//! | [`undo`] | the command that takes a change back |
//! | [`when`] | times as people write them |
//!
//! Paging is by the events' numbers, which only grow. A page that is not full still has a `next` when the search for
//! more was cut off: after [`MOST_LOOKED_AT`] rows, or when it took long.

pub mod around;
pub mod blame;
pub mod chain;
pub mod counts;
pub mod detail;
pub mod doubt;
mod expression;
pub mod filter;
pub mod kinds;
pub mod narrow;
pub mod objects;
mod plan;
pub mod rows;
pub mod scan;
pub mod sight;
mod stop;
mod tallied;
#[cfg(test)]
mod tests;
pub mod undo;
mod walk;
pub mod when;
mod windows;

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;

pub use self::{
    filter::{Filter, Words},
    rows::{Order, Page, Row},
    sight::Sight,
};
use crate::{
    cluster::store::Reader,
    ledger::{
        retention,
        silences::{self, Silence},
    },
};

/// Rows that one question looks at before it says how far it came.
pub const MOST_LOOKED_AT: usize = 200_000;

/// Changes of one object that one question plays, one after the other, to find out what it was. A controller that writes
/// every ten seconds takes 23 days for so many.
pub const MOST_PLAYED: usize = 200_000;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open {path}: {source}")]
    Open { path: PathBuf, source: rusqlite::Error },
    #[error("{path} has schema {found} and this kubediff reads {known}; {remedy}", remedy = if found < known { "start kubediff with it once" } else { "use the newer kubediff" })]
    Schema { path: PathBuf, found: usize, known: usize },
    #[error("the state file cannot be read: {0}")]
    Sql(#[from] rusqlite::Error),
    #[error("{parameter}: {value:?} is not understood; {expected}")]
    Word { parameter: &'static str, value: String, expected: String },
    #[error("{0} is not known")]
    Unknown(String),
    /// A time before what is kept.
    #[error("nothing is known of the time before {since}")]
    NotKept { since: Timestamp },
    /// Patches that do not lead on: objects were not watched for a while, or the file was changed by others.
    #[error("the history of {0} has a gap")]
    Gap(String),
    /// More changes lie between a time and what is known whole than are played for one answer.
    #[error("{changes} changes of {name} lie between then and what is known, and {most} are played at most")]
    TooLong { name: String, changes: usize, most: usize },
}

/// A reader of one ledger.
#[derive(Debug)]
pub struct History {
    reader: Reader,
    /// [`MOST_PLAYED`]
    most_played: usize,
    sooner: plan::Sooner,
    stop: stop::Stop,
    /// The last one.
    stopped: RefCell<Option<walk::Stopped>>,
}

impl History {
    /// Opens a ledger's file, whether or not a kubediff has it open.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let mut reader = Reader::open(path).map_err(failed)?;
        let (found, known) = reader.schema().map_err(failed)?;
        if found != known {
            return Err(Error::Schema { path: path.to_owned(), found, known });
        }
        reader.connection().execute_batch(plan::INSTANCES).map_err(failed)?;
        let stop = stop::Stop::new(reader.connection_mut()).map_err(failed)?;
        Ok(Self { reader, most_played: MOST_PLAYED, sooner: plan::Sooner::USUAL, stop, stopped: RefCell::default() })
    }

    fn connection(&self) -> &Connection {
        self.reader.connection()
    }

    /// For questions about the file's other tables.
    pub(crate) fn sql(&self) -> &Connection {
        self.connection()
    }

    /// Silences that are not over.
    pub fn silences(&self, now: Timestamp) -> Result<Vec<Silence>, Error> {
        Ok(silences::list(self.connection(), now)?)
    }

    /// Everything that `ask` reads is of the same moment.
    pub fn at_once<T>(&mut self, ask: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.connection().execute_batch("BEGIN")?;
        let answer = ask(self);
        self.connection().execute_batch("COMMIT")?;
        answer
    }

    /// How much there is.
    pub fn ledger(&self) -> Result<Stats, Error> {
        let c = self.connection();
        let edge = |order: &str| -> Result<Option<(i64, i64)>, rusqlite::Error> {
            c.prepare_cached(&format!(
                "SELECT seq, time FROM events INDEXED BY events_narrow ORDER BY seq {order} LIMIT 1"
            ))?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
        };
        let (oldest, newest) = (edge("ASC")?, edge("DESC")?);
        // Counting a million rows takes longer than anyone waits; they are forgotten from the oldest on.
        let events = match (oldest, newest) {
            (Some((first, _)), Some((last, _))) => last - first + 1,
            _ => 0,
        };
        Ok(Stats {
            bytes: retention::used_bytes(c)?,
            events,
            first_seq: oldest.map_or(0, |(seq, _)| seq),
            last_seq: newest.map_or(0, |(seq, _)| seq),
            oldest: oldest.map(|(_, time)| timestamp(time)),
            newest: newest.map(|(_, time)| timestamp(time)),
        })
    }

    /// The time of the newest event that was forgotten; nothing is known of before.
    fn horizon(&self) -> Result<i64, Error> {
        let found = self
            .connection()
            .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
            .query_row([retention::HORIZON], |row| row.get(0))
            .optional()?;
        Ok(found.unwrap_or(i64::MIN))
    }
}

/// What a ledger holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Of the file that hold something.
    pub bytes: u64,
    /// As their numbers say; where single ones were forgotten early it is a little less.
    pub events: i64,
    #[serde(skip)]
    pub first_seq: i64,
    #[serde(skip)]
    pub last_seq: i64,
    pub oldest: Option<Timestamp>,
    pub newest: Option<Timestamp>,
}

/// What names an object over time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    pub group: String,
    pub resource: String,
    /// `""` for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let resource = group_resource(&self.group, &self.resource);
        match self.namespace.as_str() {
            "" => write!(f, "{resource}/{}", self.name),
            namespace => write!(f, "{resource}/{} in {namespace}", self.name),
        }
    }
}

/// `deployments.apps`, `pods`
fn group_resource(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn timestamp(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap_or_default()
}
