//! The whole object as an update left it, for sinks whose other side expects that with every change.
//!
//! An event of an update holds what changed. The rest is worked out when it is sent: from the object as it is stored now,
//! or as it was when it was deleted, back over the changes that came after. What waits for long is read once in that
//! way and then goes forwards, change by change. At any time there is one document in memory, and of those that are to
//! be gone on from a few MiB of frames.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::{retention, rows};
use crate::{
    cluster::store::Reader,
    event::{Event, Kind, Redacted},
};

/// Bytes of the documents that are kept to go on from. Beyond that all are forgotten, and worked out again.
const KEPT_BYTES: usize = 4 << 20;

/// Documents from which the next change of the same object goes on, by [`rows::object_key`].
#[derive(Default)]
pub(super) struct Wholes {
    kept: HashMap<i64, Kept>,
    bytes: usize,
}

/// An object as an event left it.
struct Kept {
    seq: i64,
    /// Of the event, in milliseconds.
    time: i64,
    frame: Vec<u8>,
}

impl Wholes {
    /// The event with its object, and the bytes that this adds; as it is where the object cannot be known any more: it
    /// was not watched for a while, or a stored event is damaged.
    pub(super) fn fill(
        &mut self,
        reader: &mut Reader,
        seq: i64,
        event: Arc<Redacted>,
    ) -> Result<(usize, Arc<Redacted>), rusqlite::Error> {
        if event.kind != Kind::Updated || event.object.is_some() {
            return Ok((0, event));
        }
        // Objects and events of the same moment.
        reader.connection().execute_batch("BEGIN")?;
        let found = self.find(reader, seq, &event);
        reader.connection().execute_batch("COMMIT")?;
        let document = match found {
            Err(rusqlite::Error::FromSqlConversionFailure(..)) => None,
            other => other?,
        };
        let Some(document) = document else { return Ok((0, event)) };
        let bytes = crate::sink::format::size(&document);
        let whole = Event { object: Some(document), ..Event::clone(&event) };
        Ok((bytes, Arc::new(Redacted::restored(whole))))
    }

    fn find(&mut self, reader: &mut Reader, seq: i64, event: &Event) -> Result<Option<Value>, rusqlite::Error> {
        let object = Object::of(event);
        let key = rows::object_key(event);
        let time = event.time.as_millisecond();
        let stored = object.stored(reader)?;
        let since = stored.since.unwrap_or(i64::MIN);
        let horizon = retention::horizon(reader.connection())?;
        let kept = self.take(key).filter(|kept| kept.seq <= seq && kept.time >= since && kept.time > horizon);
        let document = match kept {
            Some(kept) => object.forwards(reader.connection(), &kept, seq, event)?,
            // Of what came after it some may be forgotten, while it was kept because somebody waits for it.
            None if time <= horizon => None,
            None => object.backwards(reader.connection(), stored, seq, time)?,
        };
        if let Some(document) = &document
            && object.has_more(reader.connection(), seq)?
        {
            self.keep(key, Kept { seq, time, frame: frame(document) });
        }
        Ok(document)
    }

    fn take(&mut self, key: i64) -> Option<Kept> {
        let kept = self.kept.remove(&key)?;
        self.bytes -= kept.frame.len();
        Some(kept)
    }

    fn keep(&mut self, key: i64, kept: Kept) {
        if self.bytes + kept.frame.len() > KEPT_BYTES {
            self.kept.clear();
            self.bytes = 0;
        }
        self.bytes += kept.frame.len();
        self.kept.insert(key, kept);
    }
}

/// What the store knows of an object now.
struct Stored {
    document: Option<Value>,
    /// From when on it was read without a gap.
    since: Option<i64>,
}

/// What names an object in the tables.
struct Object<'a> {
    group: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Object<'a> {
    fn of(event: &'a Event) -> Self {
        let r = &event.resource;
        Self { group: &r.group, resource: &r.resource, namespace: &r.namespace, name: &r.name }
    }

    fn stored(&self, reader: &mut Reader) -> Result<Stored, rusqlite::Error> {
        let resource = match self.group {
            "" => self.resource.to_owned(),
            group => format!("{}.{group}", self.resource),
        };
        let mut newest = None;
        for (feed, since) in reader.feeds_of(&resource, self.namespace)? {
            if let Some(document) = reader.get(feed, self.namespace, self.name)? {
                return Ok(Stored { document: Some(document.value()), since });
            }
            newest = newest.max(since);
        }
        Ok(Stored { document: None, since: newest })
    }

    /// From where it was left, over the changes in between that were not for this sink.
    fn forwards(
        &self,
        connection: &Connection,
        kept: &Kept,
        seq: i64,
        event: &Event,
    ) -> Result<Option<Value>, rusqlite::Error> {
        let json = rows::decompress(&kept.frame)?;
        let mut document: Option<Value> = serde_json::from_slice(&json).ok();
        if kept.seq == seq {
            return Ok(document);
        }
        let between: Vec<i64> = connection
            .prepare_cached(
                "SELECT seq FROM events INDEXED BY events_by_object WHERE api_group = ?1 AND resource = ?2
                 AND namespace = ?3 AND name = ?4 AND seq > ?5 AND seq < ?6 ORDER BY seq",
            )?
            .query_map(params![self.group, self.resource, self.namespace, self.name, kept.seq, seq], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for passed in between {
            let Some((_, passed)) = rows::event(connection, passed)? else { return Ok(None) };
            document = after(document, &passed);
        }
        Ok(after(document, event))
    }

    /// From what is stored, or from the deletion that came next.
    fn backwards(
        &self,
        connection: &Connection,
        stored: Stored,
        seq: i64,
        time: i64,
    ) -> Result<Option<Value>, rusqlite::Error> {
        let end = self.deletion(connection, seq)?;
        let since = stored.since.unwrap_or(i64::MIN);
        // What was before a gap does not lead to what came after it.
        let leads_on = time >= since || end.is_some_and(|(_, deleted)| deleted < since);
        let (document, end) = match end {
            _ if !leads_on => return Ok(None),
            None => (stored.document, i64::MAX),
            Some((end, _)) => {
                let Some((_, deleted)) = rows::event(connection, end)? else { return Ok(None) };
                let document = deleted.object.clone();
                (document.and_then(|document| patched(document, inverse(connection, end).ok()?.as_ref())), end)
            }
        };
        let Some(mut document) = document else { return Ok(None) };
        let mut statement = connection.prepare_cached(
            "SELECT type, inverse FROM events INDEXED BY events_by_object WHERE api_group = ?1 AND resource = ?2
             AND namespace = ?3 AND name = ?4 AND seq > ?5 AND seq < ?6 ORDER BY seq DESC",
        )?;
        let mut rows = statement.query(params![self.group, self.resource, self.namespace, self.name, seq, end])?;
        while let Some(row) = rows.next()? {
            let frame: Option<Vec<u8>> = row.get(1)?;
            let inverse = frame.map(|frame| patch(&frame)).transpose()?.flatten();
            let leads_back = row.get_ref(0)?.as_str()? == "updated" && inverse.is_some();
            match patched(document, inverse.as_ref()).filter(|_| leads_back) {
                Some(before) => document = before,
                None => return Ok(None),
            }
        }
        Ok(Some(document))
    }

    /// The first deletion after an event, and its time.
    fn deletion(&self, connection: &Connection, seq: i64) -> Result<Option<(i64, i64)>, rusqlite::Error> {
        connection
            .prepare_cached(
                "SELECT n.seq, n.time FROM events e INDEXED BY events_by_object
                 CROSS JOIN events n INDEXED BY events_narrow ON n.seq = e.seq
                 WHERE e.api_group = ?1 AND e.resource = ?2 AND e.namespace = ?3 AND e.name = ?4 AND e.seq > ?5
                 AND n.type = 'deleted' ORDER BY e.seq LIMIT 1",
            )?
            .query_row(params![self.group, self.resource, self.namespace, self.name, seq], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
    }

    fn has_more(&self, connection: &Connection, seq: i64) -> Result<bool, rusqlite::Error> {
        connection
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM events INDEXED BY events_by_object WHERE api_group = ?1 AND resource = ?2
                 AND namespace = ?3 AND name = ?4 AND seq > ?5)",
            )?
            .query_row(params![self.group, self.resource, self.namespace, self.name, seq], |row| row.get(0))
    }
}

/// The document that an event makes of the one before.
fn after(before: Option<Value>, event: &Event) -> Option<Value> {
    match event.kind {
        Kind::Created => event.object.clone(),
        Kind::Deleted => None,
        Kind::Updated => patched(before?, Some(event.patch.as_ref()?)),
    }
}

/// A patch on a document; `None` when it does not fit. Without one the document is as it was.
fn patched(mut document: Value, patch: Option<&json_patch::Patch>) -> Option<Value> {
    match patch {
        Some(patch) => json_patch::patch(&mut document, patch).is_ok().then_some(document),
        None => Some(document),
    }
}

fn inverse(connection: &Connection, seq: i64) -> Result<Option<json_patch::Patch>, rusqlite::Error> {
    let frame: Option<Option<Vec<u8>>> = connection
        .prepare_cached("SELECT inverse FROM events WHERE seq = ?1")?
        .query_row([seq], |row| row.get(0))
        .optional()?;
    frame.flatten().map_or(Ok(None), |frame| patch(&frame))
}

fn patch(frame: &[u8]) -> Result<Option<json_patch::Patch>, rusqlite::Error> {
    Ok(serde_json::from_slice(&rows::decompress(frame)?).ok())
}

fn frame(document: &Value) -> Vec<u8> {
    let json = serde_json::to_vec(document).unwrap_or_default();
    // A frame that cannot be made is the text itself, which is read as such.
    zstd::bulk::compress(&json, 1).unwrap_or(json)
}
