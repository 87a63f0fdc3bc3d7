//! The index that history is searched by: words, filter values and the id of each event. It is filled in batches shortly
//! after the commit, together with the [tallies](super::tally), so that a change pays for none of it; whoever searches
//! looks at the few newest events themselves.

use std::{collections::BTreeSet, fmt::Write, sync::Arc};

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::Deserialize;

use super::{Shared, rows, tally};
use crate::{
    cluster::{reflector::Closed, store::Store},
    event::Event,
};

/// Events a batch.
const BATCH: i64 = 1_000;
/// Words kept of one event: a change of thousands of fields is found by the first ones.
const WORDS: usize = 400;
/// Bytes of one word; longer ones are cut, here and in questions.
const WORD_BYTES: usize = 60;
/// Characters of an id that are in the index: few enough to be narrow, and more than anybody types.
pub(crate) const ID_START: usize = 12;
/// Where the number of the newest event in the index stands.
const SEARCHED: &str = "searched";

/// What a value of the index is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Type,
    Observed,
    /// `deployments.apps`
    Resource,
    Namespace,
    Name,
    /// `kind/namespace/name`
    Owner,
    Class,
    Manager,
    /// `1` or `0`
    Hand,
    /// `deployments.apps|shop`: what permissions are about.
    Access,
}

/// A value as the index holds it: what no word of a text can look like, whatever the value is.
pub(crate) fn value(about: About, value: &str) -> String {
    let letter = match about {
        About::Type => 't',
        About::Observed => 'o',
        About::Resource => 'r',
        About::Namespace => 'n',
        About::Name => 'm',
        About::Owner => 'w',
        About::Class => 'c',
        About::Manager => 'u',
        About::Hand => 'h',
        About::Access => 'a',
    };
    let mut token = format!("~{letter}=");
    for c in value.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() || "-._:/|@+".contains(c) {
            token.push(c);
        } else {
            let _ = write!(token, "%{:x}%", u32::from(c));
        }
    }
    token
}

/// The words of a text: runs of letters and digits, in lower case.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(|word| {
        let mut word = word.to_lowercase();
        let cut = (0..=WORD_BYTES.min(word.len())).rev().find(|at| word.is_char_boundary(*at));
        word.truncate(cut.unwrap_or_default());
        word
    })
}

/// What an event is found by.
#[derive(Debug, Deserialize)]
pub(crate) struct Said {
    summary: String,
    resource: Named,
    #[serde(default)]
    changes: Vec<Changed>,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Changed {
    field: String,
}

impl Said {
    pub(crate) fn words(&self) -> BTreeSet<String> {
        words_of(&self.summary, &self.resource.name, self.changes.iter().map(|change| change.field.as_str()))
    }
}

/// The words that an event is found by: those of its sentence, its name and its changed fields.
fn words_of<'a>(summary: &'a str, name: &'a str, fields: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let texts = [summary, name].into_iter().chain(fields);
    let mut found = BTreeSet::new();
    for word in texts.flat_map(words) {
        found.insert(word);
        if found.len() >= WORDS {
            break;
        }
    }
    found
}

/// All that the index holds of an event, with spaces between.
fn entry(event: &Event) -> String {
    let r = &event.resource;
    let resource = if r.group.is_empty() { r.resource.clone() } else { format!("{}.{}", r.resource, r.group) };
    let mut values = vec![
        value(About::Type, event.kind.as_str()),
        value(About::Observed, event.observed.as_str()),
        value(About::Resource, &resource),
        value(About::Namespace, &r.namespace),
        value(About::Name, &r.name),
        value(About::Hand, if event.by_hand() { "1" } else { "0" }),
        value(About::Access, &format!("{resource}|{}", r.namespace)),
    ];
    if let Some(owner) = &event.owner {
        values.push(value(About::Owner, &format!("{}/{}/{}", owner.kind, owner.namespace, owner.name)));
    }
    values.extend(event.classes.iter().map(|class| value(About::Class, class.as_str())));
    values.extend(event.actors.iter().map(|actor| value(About::Manager, &rows::word(&actor.manager))));
    let fields = event.changes.iter().map(|change| change.field.as_str());
    values.extend(words_of(&event.summary, &r.name, fields));
    values.join(" ")
}

/// The number of the newest event that is in the index.
pub(crate) fn searched(connection: &Connection) -> Result<i64, rusqlite::Error> {
    let found = connection
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([SEARCHED], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or(0))
}

/// Brings some events that are not in it yet into the index and into the tallies. `true` when there may be more.
pub(super) async fn fill(store: &Store, shared: &Arc<Shared>) -> Result<bool, Closed> {
    let (of, shared) = (store.clone(), shared.clone());
    let read = tokio::task::spawn_blocking(move || {
        let reader = of.reader()?;
        let connection = reader.connection();
        Ok::<_, rusqlite::Error>((next(connection, &shared)?, tally::is_behind(connection)?))
    });
    let (entries, behind) = match read.await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            tracing::warn!(%error, "events cannot be read for the search; it is tried again");
            return Ok(false);
        }
        Err(_) => return Ok(false),
    };
    if entries.is_empty() && !behind {
        return Ok(false);
    }
    let more = entries.len() as i64 >= BATCH;
    let (told, uncounted) = std::sync::mpsc::channel();
    let write = store.write(Box::new(move |transaction| {
        insert(transaction, &entries)?;
        let _ = told.send(tally::fill(transaction)?);
        Ok(())
    }));
    write.await?;
    Ok(more || uncounted.into_iter().last().unwrap_or_default())
}

/// What the index is to hold of an event.
struct Entry {
    seq: i64,
    /// The beginning of its id.
    id: String,
    words: String,
}

fn next(connection: &Connection, shared: &Shared) -> Result<Vec<Entry>, rusqlite::Error> {
    let seqs: Vec<i64> = connection
        .prepare_cached("SELECT seq FROM events INDEXED BY events_narrow WHERE seq > ?1 ORDER BY seq LIMIT ?2")?
        .query_map([searched(connection)?, BATCH], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let entry_of = |seq: i64| {
        let event = match shared.recent.get(seq) {
            Some((_, event)) => Some(event),
            None => rows::recorded(connection, seq).ok().flatten().map(|(_, event)| event),
        };
        if let Some(event) = event {
            let id = event.id.get(..ID_START).unwrap_or(&event.id).to_owned();
            return Ok(Entry { seq, id, words: entry(&event) });
        }
        // A damaged one is found by its id alone; its reader says why.
        let id = connection
            .prepare_cached("SELECT substr(id, 1, ?2) FROM events WHERE seq = ?1")?
            .query_row(params![seq, ID_START as i64], |row| row.get(0))
            .optional()?;
        Ok(Entry { seq, id: id.unwrap_or_default(), words: String::new() })
    };
    seqs.into_iter().map(entry_of).collect()
}

/// Everything at once: for files that nobody has open, and for tests.
pub fn fill_all(transaction: &Transaction<'_>) -> Result<(), rusqlite::Error> {
    let (_, recorder) = super::Ledger::new(crate::event::Cluster { name: String::new(), uid: String::new() });
    loop {
        let entries = next(transaction, recorder.shared())?;
        if entries.is_empty() {
            return tally::fill_all(transaction);
        }
        insert(transaction, &entries)?;
    }
}

fn insert(transaction: &Transaction<'_>, entries: &[Entry]) -> Result<(), rusqlite::Error> {
    let Some(Entry { seq: newest, .. }) = entries.last() else { return Ok(()) };
    let mut insert = transaction.prepare_cached("INSERT INTO search (rowid, words) VALUES (?1, ?2)")?;
    for Entry { seq, words, .. } in entries {
        insert.execute(params![seq, words])?;
    }
    // In the order of the table: each of its pages is touched once.
    let mut ids: Vec<(&str, i64)> = entries.iter().map(|entry| (entry.id.as_str(), entry.seq)).collect();
    ids.sort_unstable();
    let mut insert = transaction.prepare_cached("INSERT OR IGNORE INTO event_ids (start, seq) VALUES (?1, ?2)")?;
    for (start, seq) in ids {
        insert.execute(params![start, seq])?;
    }
    transaction
        .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")?
        .execute(params![SEARCHED, newest])?;
    Ok(())
}

/// Takes an event out again, while its row is still there.
pub(super) fn forget(transaction: &Transaction<'_>, seq: i64) -> Result<(), rusqlite::Error> {
    transaction
        .prepare_cached(
            "DELETE FROM event_ids WHERE seq = ?1 AND start = (SELECT substr(id, 1, ?2) FROM events WHERE seq = ?1)",
        )?
        .execute(params![seq, ID_START as i64])?;
    transaction.prepare_cached("DELETE FROM search WHERE rowid = ?1")?.execute([seq])?;
    Ok(())
}
