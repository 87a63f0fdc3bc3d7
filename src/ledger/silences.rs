//! Silences that people ask for while kubediff runs: what is not told for a while. They are kept in the ledger's file,
//! so that another process may make and end them there; a running kubediff takes them up within seconds.

use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{Connection, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Ledger, Shared};
use crate::{
    cluster::{
        reflector::Closed,
        store::{Reader, Store},
    },
    route::{self, Silencing},
};

/// The longest that one may last: what is meant for ever belongs into the configuration.
const LONGEST_DAYS: i64 = 366;

/// A silence. What is empty takes all; patterns have `*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Silence {
    pub id: i64,
    pub namespace: String,
    /// Kind or plural.
    pub kind: String,
    pub name: String,
    pub sinks: Vec<String>,
    pub until: Timestamp,
    pub reason: String,
    /// Who asked for it.
    pub by: String,
    pub made: Timestamp,
}

/// One that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct New {
    pub namespace: String,
    pub kind: String,
    pub name: String,
    pub sinks: Vec<String>,
    pub until: Timestamp,
    pub reason: String,
    pub by: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a silence needs a reason")]
    NoReason,
    #[error("a silence needs an end in the future")]
    Over,
    #[error("a silence lasts {LONGEST_DAYS} days at most; write it into the configuration instead")]
    TooLong,
    #[error("{0} is longer than {1} characters")]
    TooLarge(&'static str, usize),
    #[error("there is no sink `{sink}`; expected one of {}{near}", known.join(", "))]
    Sink { sink: String, known: Vec<String>, near: String },
    #[error(transparent)]
    Pattern(#[from] route::SilenceError),
    #[error("the state file: {0}")]
    Sql(#[from] rusqlite::Error),
    #[error(transparent)]
    Closed(#[from] Closed),
}

impl New {
    /// Whether it can be made.
    pub fn check(&self, now: Timestamp) -> Result<(), Error> {
        if self.reason.trim().is_empty() {
            return Err(Error::NoReason);
        }
        for (what, text, most) in [
            ("the reason", &self.reason, 1_000),
            ("the namespace", &self.namespace, 300),
            ("the kind", &self.kind, 300),
            ("the name", &self.name, 300),
        ] {
            if text.chars().count() > most {
                return Err(Error::TooLarge(what, most));
            }
        }
        if self.sinks.len() > 100 {
            return Err(Error::TooLarge("the list of sinks", 100));
        }
        if self.until <= now {
            return Err(Error::Over);
        }
        if self.until.duration_since(now).as_hours() > LONGEST_DAYS * 24 {
            return Err(Error::TooLong);
        }
        Silencing::new(&self.clone().with(0, now).as_written())?;
        Ok(())
    }

    /// Whether there is every sink that it names.
    fn check_sinks(&self, mut known: Vec<String>) -> Result<(), Error> {
        let Some(sink) = self.sinks.iter().find(|sink| !known.contains(*sink)) else { return Ok(()) };
        known.sort();
        let near = route::spell::did_you_mean(sink, known.iter().map(String::as_str));
        Err(Error::Sink { sink: sink.clone(), known, near })
    }

    fn with(self, id: i64, made: Timestamp) -> Silence {
        let Self { namespace, kind, name, sinks, until, reason, by } = self;
        Silence { id, namespace, kind, name, sinks, until, reason, by, made }
    }
}

impl Silence {
    /// As routes know it.
    pub fn as_written(&self) -> route::Silence {
        let some = |text: &str| if text.is_empty() { Vec::new() } else { vec![text.to_owned()] };
        route::Silence {
            name: format!("silence {}", self.id),
            matching: route::Match {
                namespaces: some(&self.namespace),
                kinds: some(&self.kind),
                names: some(&self.name),
                ..route::Match::default()
            },
            sinks: self.sinks.clone(),
            reason: self.reason.clone(),
            by: self.by.clone(),
            until: Some(self.until),
            ..route::Silence::default()
        }
    }
}

/// Stores one; it is to be [checked](New::check) before.
pub fn insert(connection: &Connection, new: &New, now: Timestamp) -> Result<Silence, rusqlite::Error> {
    // As it will be read again.
    let until = Timestamp::from_millisecond(new.until.as_millisecond()).unwrap_or(new.until);
    let made = Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now);
    let sinks = serde_json::to_string(&new.sinks).unwrap_or_default();
    connection
        .prepare_cached(
            "INSERT INTO silences (namespace, kind, name, sinks, until, reason, by, made)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            new.namespace,
            new.kind,
            new.name,
            sinks,
            until.as_millisecond(),
            new.reason,
            new.by,
            made.as_millisecond()
        ])?;
    Ok(New { until, ..new.clone() }.with(connection.last_insert_rowid(), made))
}

/// Makes one straight in the file, whether or not a kubediff has it open. The connection needs a busy timeout.
pub fn make(connection: &Connection, new: &New, now: Timestamp) -> Result<Silence, Error> {
    new.check(now)?;
    let mut names = connection.prepare("SELECT name FROM sinks")?;
    new.check_sinks(names.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)?;
    Ok(insert(connection, new, now)?)
}

/// Those that are not over, the oldest first.
pub fn list(connection: &Connection, now: Timestamp) -> Result<Vec<Silence>, rusqlite::Error> {
    read(connection, "until > ?1", now)
}

/// Those that held at a time, as far as they are kept: as long as events are.
pub fn at(connection: &Connection, time: Timestamp) -> Result<Vec<Silence>, rusqlite::Error> {
    read(connection, "until > ?1 AND made <= ?1", time)
}

fn read(connection: &Connection, which: &str, time: Timestamp) -> Result<Vec<Silence>, rusqlite::Error> {
    connection
        .prepare_cached(&format!(
            "SELECT id, namespace, kind, name, sinks, until, reason, by, made FROM silences WHERE {which} ORDER BY id"
        ))?
        .query_map([time.as_millisecond()], |row| {
            let time = |column| row.get(column).map(|ms| Timestamp::from_millisecond(ms).unwrap_or_default());
            Ok(Silence {
                id: row.get(0)?,
                namespace: row.get(1)?,
                kind: row.get(2)?,
                name: row.get(3)?,
                sinks: serde_json::from_str(&row.get::<_, String>(4)?).unwrap_or_default(),
                until: time(5)?,
                reason: row.get(6)?,
                by: row.get(7)?,
                made: time(8)?,
            })
        })?
        .collect()
}

/// Ends one. `false` when there is none of this number that holds. It is kept: what it kept back can still be explained.
pub fn end(connection: &Connection, id: i64, now: Timestamp) -> Result<bool, rusqlite::Error> {
    let now = now.as_millisecond();
    Ok(connection.execute("UPDATE silences SET until = ?2 WHERE id = ?1 AND until > ?2", [id, now])? > 0)
}

/// Forgets those that were over by then.
pub(super) fn forget(connection: &Connection, before: i64) -> Result<(), rusqlite::Error> {
    connection.prepare_cached("DELETE FROM silences WHERE until < ?1")?.execute([before]).map(drop)
}

/// One by its number.
pub fn get(connection: &Connection, id: i64, now: Timestamp) -> Result<Option<Silence>, rusqlite::Error> {
    Ok(list(connection, now)?.into_iter().find(|silence| silence.id == id))
}

/// Those of a replica, as the others take them over.
#[derive(Debug, Serialize, Deserialize)]
struct Word {
    /// Whose they are.
    by: String,
    silences: Vec<Silence>,
}

/// Puts these in place of all that there are.
fn replace_all(connection: &Connection, silences: &[Silence]) -> Result<(), rusqlite::Error> {
    connection.execute("DELETE FROM silences", [])?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO silences (id, namespace, kind, name, sinks, until, reason, by, made)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for s in silences {
        let sinks = serde_json::to_string(&s.sinks).unwrap_or_default();
        let (until, made) = (s.until.as_millisecond(), s.made.as_millisecond());
        insert.execute(params![s.id, s.namespace, s.kind, s.name, sinks, until, s.reason, s.by, made])?;
    }
    Ok(())
}

/// Those that hold now, as the recorder asks them.
#[derive(Default)]
pub(super) struct Active {
    written: Vec<Silence>,
    pub(super) ready: Arc<Vec<Silencing>>,
}

impl Shared {
    /// None on one that stands by: what it keeps back it could not tell when it takes over, and what the leader keeps back
    /// its mark takes off the list.
    pub(super) fn silences(&self) -> Arc<Vec<Silencing>> {
        if !self.lead.holds() {
            return Arc::default();
        }
        self.silences.read().unwrap_or_else(std::sync::PoisonError::into_inner).ready.clone()
    }

    /// Looks at the file and takes over what has changed there.
    pub(super) fn refresh_silences(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let written = list(connection, Timestamp::now())?;
        let mut active = self.silences.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if active.written != written {
            let ready = written.iter().filter_map(|silence| {
                let made = Silencing::new(&silence.as_written());
                made.map_err(|error| tracing::warn!(%error, "a silence of the state file cannot be used")).ok()
            });
            active.ready = Arc::new(ready.collect());
            active.written = written;
        }
        Ok(())
    }
}

impl Ledger {
    /// Makes a silence that holds from the next change on.
    pub async fn silence(&self, store: &Store, new: New) -> Result<Silence, Error> {
        let now = Timestamp::now();
        new.check(now)?;
        new.check_sinks(self.shared.plan().sinks.keys().map(ToString::to_string).collect())?;
        let (told, result) = std::sync::mpsc::channel();
        store
            .write(Box::new(move |transaction| {
                let _ = told.send(insert(transaction, &new, now)?);
                Ok(())
            }))
            .await?;
        self.shared.refresh_silences(store.reader()?.connection())?;
        result.into_iter().last().ok_or(Error::Closed(Closed))
    }

    /// Ends a silence. `false` when there is none of this number.
    pub async fn end_silence(&self, store: &Store, id: i64) -> Result<bool, Error> {
        let (told, result) = std::sync::mpsc::channel();
        store
            .write(Box::new(move |transaction| {
                let _ = told.send(end(transaction, id, Timestamp::now())?);
                Ok(())
            }))
            .await?;
        self.shared.refresh_silences(store.reader()?.connection())?;
        Ok(result.into_iter().last().unwrap_or(false))
    }

    pub fn silences(&self) -> Vec<Silence> {
        self.shared.silences.read().unwrap_or_else(std::sync::PoisonError::into_inner).written.clone()
    }

    /// Those of this replica for the others, in at most so many bytes. When they have no room, those that end first are
    /// left out.
    pub fn silences_to_text(&self, replica: &str, max: usize) -> String {
        let mut word = Word { by: replica.to_owned(), silences: self.silences() };
        word.silences.sort_by_key(|silence| std::cmp::Reverse(silence.until));
        let text = |word: &Word| serde_json::to_string(word).unwrap_or_default();
        while !word.silences.is_empty() && text(&word).len() > max {
            word.silences.truncate(word.silences.len() / 2);
        }
        word.silences.sort_by_key(|silence| silence.id);
        text(&word)
    }

    /// Takes over the silences of the replica that leads, or led, in place of its own. A replica's own word, and what is
    /// none, changes nothing.
    pub async fn adopt_silences(&self, store: &Store, replica: &str, text: &str) -> Result<(), Error> {
        let Ok(word) = serde_json::from_str::<Word>(text) else { return Ok(()) };
        if word.by == replica || word.silences == self.silences() {
            return Ok(());
        }
        store.write(Box::new(move |transaction| replace_all(transaction, &word.silences))).await?;
        self.shared.refresh_silences(store.reader()?.connection())?;
        Ok(())
    }
}

/// Takes over what others did in the file.
pub(super) fn upkeep(shared: &Shared, reader: Option<&Reader>) {
    let Some(reader) = reader else { return };
    if let Err(error) = shared.refresh_silences(reader.connection()) {
        tracing::warn!(%error, "silences cannot be read; those that were known go on");
    }
}
