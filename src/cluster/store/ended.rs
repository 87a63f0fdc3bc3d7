//! Feeds that are over, because their resource or namespace is gone or nobody wants them any more, and how far they came:
//! for other replicas, whose word for it a feed is that is no longer there. Kept in the `meta` table.

use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

const KEY: &str = "ended_feeds";
/// The newest are kept: other replicas take them up within seconds.
const MOST: usize = 200;

/// Everything after `begins` and up to `up_to` was seen of it, and then its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub key: String,
    pub begins: i64,
    pub up_to: i64,
}

/// The oldest first.
pub fn read(connection: &Connection) -> Result<Vec<Ended>, rusqlite::Error> {
    let text: Option<String> = connection
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([KEY], |row| row.get(0))
        .optional()?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

fn write(connection: &Connection, all: &[Ended]) -> Result<(), rusqlite::Error> {
    let text = serde_json::to_string(&all[all.len().saturating_sub(MOST)..]).unwrap_or_default();
    connection
        .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")?
        .execute([KEY, &text])
        .map(drop)
}

pub(super) fn add(connection: &Connection, ended: Ended) -> Result<(), rusqlite::Error> {
    let mut all = read(connection)?;
    all.retain(|other| other.key != ended.key);
    all.push(ended);
    write(connection, &all)
}

/// It is there again.
pub(super) fn remove(connection: &Connection, key: &str) -> Result<(), rusqlite::Error> {
    let mut all = read(connection)?;
    let before = all.len();
    all.retain(|ended| ended.key != key);
    if all.len() < before { write(connection, &all) } else { Ok(()) }
}
