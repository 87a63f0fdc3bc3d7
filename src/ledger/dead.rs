//! Dead letters: what could not be delivered, with the reason; listed, and sent again on request.

use rusqlite::{Connection, params};

use super::now_ms;

/// One of them, for people.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Letter {
    pub id: i64,
    pub sink: String,
    pub time: jiff::Timestamp,
    pub attempts: i64,
    pub reason: String,
    /// It was asked for and is not sent yet.
    pub again: bool,
    /// The event's own id, and a line about it; empty when retention has removed the event.
    pub event: String,
    pub about: String,
}

/// The newest first, those with an id below `before`.
pub fn list(
    connection: &Connection,
    sink: Option<&str>,
    before: Option<i64>,
    limit: usize,
) -> Result<Vec<Letter>, rusqlite::Error> {
    connection
        .prepare_cached(
            "SELECT d.id, s.name, d.time, d.attempts, d.reason, d.again, coalesce(e.id, ''), coalesce(e.type, ''),
                    coalesce(e.kind, ''), coalesce(e.namespace, ''), coalesce(e.name, ''), coalesce(e.summary, '')
             FROM dead_letters d JOIN sinks s ON s.id = d.sink LEFT JOIN events e ON e.seq = d.seq
             WHERE d.id < ?1 AND (?2 IS NULL OR s.name = ?2) ORDER BY d.id DESC LIMIT ?3",
        )?
        .query_map(params![before.unwrap_or(i64::MAX), sink, i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
            let text = |column: usize| row.get::<_, String>(column);
            let namespace = text(9)?;
            let slash = if namespace.is_empty() { "" } else { "/" };
            Ok(Letter {
                id: row.get(0)?,
                sink: text(1)?,
                time: jiff::Timestamp::from_millisecond(row.get(2)?).unwrap_or_default(),
                attempts: row.get(3)?,
                reason: text(4)?,
                again: row.get::<_, i64>(5)? != 0,
                event: text(6)?,
                about: format!("{} {namespace}{slash}{} {}: {}", text(8)?, text(10)?, text(7)?, text(11)?),
            })
        })?
        .collect()
}

/// Asks for another try of one or of all; a running kubediff notices within seconds, another one at its start. Says how
/// many there were.
pub fn retry(connection: &Connection, id: Option<i64>, sink: Option<&str>) -> Result<usize, rusqlite::Error> {
    connection.execute(
        "UPDATE dead_letters SET again = 1 WHERE (?1 IS NULL OR id = ?1)
         AND (?2 IS NULL OR sink = (SELECT id FROM sinks WHERE name = ?2))",
        params![id, sink],
    )
}

/// Puts those that were asked for back among the deliveries, some at a time, and says to which sinks.
pub(super) fn revive(connection: &Connection) -> Result<Vec<i64>, rusqlite::Error> {
    const AT_ONCE: i64 = 1_000;
    let chosen: Vec<(i64, i64, i64, i64)> = connection
        .prepare_cached("SELECT id, sink, seq, object FROM dead_letters WHERE again = 1 ORDER BY seq LIMIT ?1")?
        .query_map([AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<Result<_, _>>()?;
    let mut sinks = Vec::new();
    for (id, sink, seq, object) in chosen {
        connection
            .prepare_cached("INSERT OR IGNORE INTO deliveries (sink, seq, object, since) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![sink, seq, object, now_ms()])?;
        connection.prepare_cached("DELETE FROM dead_letters WHERE id = ?1")?.execute([id])?;
        sinks.push(sink);
    }
    sinks.sort_unstable();
    sinks.dedup();
    Ok(sinks)
}

pub(super) fn any_asked_for(connection: &Connection) -> Result<bool, rusqlite::Error> {
    connection.query_row("SELECT EXISTS (SELECT 1 FROM dead_letters WHERE again = 1)", [], |row| row.get(0))
}
