//! Rows of the `objects` table, and documents out of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use serde::Deserialize;

use super::{codec::Decoder, keys::Entry};
use crate::{
    cluster::Version,
    redact::{Document, Meta, Owner, Part, Section},
};

/// A row with its frames still compressed.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) namespace: String,
    pub(super) name: String,
    version: Version,
    generation: Option<i64>,
    pub(super) hashes: [u64; 3],
    pub(super) frames: [Vec<u8>; 3],
    managed: Vec<u8>,
}

const COLUMNS: &str =
    "id, namespace, name, version, generation, metadata_hash, body_hash, status_hash, metadata, body, status, managed";

impl Row {
    fn take(row: &rusqlite::Row<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            id: row.get(0)?,
            namespace: row.get(1)?,
            name: row.get(2)?,
            version: Version(row.get(3)?),
            generation: row.get(4)?,
            hashes: [hash(row, 5)?, hash(row, 6)?, hash(row, 7)?],
            frames: [row.get(8)?, row.get(9)?, row.get(10)?],
            managed: row.get(11)?,
        })
    }

    pub(super) fn version(&self) -> &Version {
        &self.version
    }

    /// The document. Sections that are equal in `like` are taken from there instead of decoded.
    pub(super) fn document(
        &self,
        connection: &Connection,
        decoder: &mut Decoder,
        like: Option<&Document>,
    ) -> Result<Document, rusqlite::Error> {
        let mut section = |part: Part| {
            let hash = self.hashes[part as usize];
            match like.map(|like| like.section(part)) {
                Some(same) if same.hash == hash => Ok::<_, rusqlite::Error>(same.clone()),
                _ => Ok(Section { json: decoder.decode(connection, &self.frames[part as usize])?.into(), hash }),
            }
        };
        let sections = [section(Part::Metadata)?, section(Part::Body)?, section(Part::Status)?];
        let managed = decoder.decode(connection, &self.managed)?;
        let meta = match like {
            Some(like) if like.section(Part::Metadata).hash == self.hashes[Part::Metadata as usize] => {
                Meta { version: self.version.clone(), generation: self.generation, ..like.meta().clone() }
            }
            _ => meta(self.version.clone(), self.generation, &sections[0].json),
        };
        Ok(Document::restore(meta, sections, managed))
    }
}

fn hash(row: &rusqlite::Row<'_>, column: usize) -> Result<u64, rusqlite::Error> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

pub(super) fn by_id(connection: &Connection, id: i64) -> Result<Option<Row>, rusqlite::Error> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM objects WHERE id = ?1"))?
        .query_row([id], Row::take)
        .optional()
}

pub(super) fn by_key(
    connection: &Connection,
    feed: i64,
    namespace: &str,
    name: &str,
) -> Result<Option<Row>, rusqlite::Error> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM objects WHERE feed = ?1 AND namespace = ?2 AND name = ?3"))?
        .query_row(params![feed, namespace, name], Row::take)
        .optional()
}

/// The next rows of a feed after a row id.
pub(super) fn page(connection: &Connection, feed: i64, after: i64, limit: i64) -> Result<Vec<Row>, rusqlite::Error> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM objects WHERE feed = ?1 AND id > ?2 ORDER BY id LIMIT ?3"))?
        .query_map(params![feed, after, limit], Row::take)?
        .collect()
}

pub(super) fn by_namespace(connection: &Connection, feed: i64, namespace: &str) -> Result<Vec<Row>, rusqlite::Error> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM objects WHERE feed = ?1 AND namespace = ?2 ORDER BY name"))?
        .query_map(params![feed, namespace], Row::take)?
        .collect()
}

pub(super) fn by_index(
    connection: &Connection,
    feed: i64,
    name: &str,
    value: &str,
) -> Result<Vec<Row>, rusqlite::Error> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM objects WHERE id IN
             (SELECT object FROM indexed WHERE feed = ?1 AND name = ?2 AND value = ?3) ORDER BY namespace, name"
        ))?
        .query_map(params![feed, name, value], Row::take)?
        .collect()
}

/// The metadata of the object in a row. `None` when another one is in it: two names may share a hash.
pub(super) fn meta_of(
    connection: &Connection,
    decoder: &mut Decoder,
    id: i64,
    namespace: &str,
    name: &str,
) -> Result<Option<Meta>, rusqlite::Error> {
    let found: Option<(String, Option<i64>, Vec<u8>)> = connection
        .prepare_cached(
            "SELECT version, generation, metadata FROM objects WHERE id = ?1 AND namespace = ?2 AND name = ?3",
        )?
        .query_row(params![id, namespace, name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((version, generation, frame)) = found else { return Ok(None) };
    Ok(Some(meta(Version(version), generation, &decoder.decode(connection, &frame)?)))
}

/// The `metadata` section alone.
pub(super) fn metadata_of(
    connection: &Connection,
    decoder: &mut Decoder,
    id: i64,
    namespace: &str,
    name: &str,
) -> Result<Option<Vec<u8>>, rusqlite::Error> {
    let frame: Option<Vec<u8>> = connection
        .prepare_cached("SELECT metadata FROM objects WHERE id = ?1 AND namespace = ?2 AND name = ?3")?
        .query_row(params![id, namespace, name], |row| row.get(0))
        .optional()?;
    frame.map(|frame| decoder.decode(connection, &frame)).transpose()
}

/// What the pipeline needs of a stored `metadata` section, beside what the row itself says.
fn meta(version: Version, generation: Option<i64>, metadata: &[u8]) -> Meta {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Stored {
        uid: String,
        namespace: String,
        name: String,
        labels: BTreeMap<String, String>,
        owner_references: Vec<StoredOwner>,
        creation_timestamp: Option<Timestamp>,
        deletion_timestamp: Option<Timestamp>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct StoredOwner {
        api_version: String,
        kind: String,
        name: String,
        uid: String,
        controller: bool,
    }
    // It was written by this program from a document; what is not as expected says nothing.
    let stored: Stored = serde_json::from_slice(metadata).unwrap_or_default();
    let owner = |owner: StoredOwner| Owner {
        api_version: owner.api_version,
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid,
        controller: owner.controller,
    };
    Meta {
        uid: stored.uid,
        namespace: stored.namespace,
        name: stored.name,
        version,
        generation,
        labels: stored.labels,
        owners: stored.owner_references.into_iter().map(owner).collect(),
        created: stored.creation_timestamp,
        deleting: stored.deletion_timestamp,
    }
}

/// `frames`: of the sections, and of the managed fields.
pub(super) fn insert(
    connection: &Connection,
    feed: i64,
    document: &Document,
    frames: [&[u8]; 4],
) -> Result<i64, rusqlite::Error> {
    let (meta, [metadata, body, status]) = (document.meta(), hashes(document));
    connection
        .prepare_cached(
            "INSERT INTO objects (feed, namespace, name, version, generation, metadata_hash, body_hash, status_hash,
             metadata, body, status, managed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .insert(params![
            feed,
            meta.namespace,
            meta.name,
            meta.version.as_str(),
            meta.generation,
            metadata,
            body,
            status,
            frames[0],
            frames[1],
            frames[2],
            frames[3],
        ])
}

pub(super) fn update(
    connection: &Connection,
    id: i64,
    document: &Document,
    frames: [&[u8]; 4],
) -> Result<(), rusqlite::Error> {
    let (meta, [metadata, body, status]) = (document.meta(), hashes(document));
    connection
        .prepare_cached(
            "UPDATE objects SET version = ?2, generation = ?3, metadata_hash = ?4, body_hash = ?5, status_hash = ?6,
             metadata = ?7, body = ?8, status = ?9, managed = ?10 WHERE id = ?1",
        )?
        .execute(params![
            id,
            meta.version.as_str(),
            meta.generation,
            metadata,
            body,
            status,
            frames[0],
            frames[1],
            frames[2],
            frames[3],
        ])?;
    Ok(())
}

pub(super) fn delete(connection: &Connection, id: i64) -> Result<(), rusqlite::Error> {
    connection.prepare_cached("DELETE FROM indexed WHERE object = ?1")?.execute([id])?;
    connection.prepare_cached("DELETE FROM objects WHERE id = ?1")?.execute([id])?;
    Ok(())
}

fn hashes(document: &Document) -> [i64; 3] {
    [Part::Metadata, Part::Body, Part::Status].map(|part| document.section(part).hash.cast_signed())
}

/// Calls `each` with the key of every row of a feed, as it is kept in memory.
pub(super) fn keys(
    connection: &Connection,
    feed: i64,
    mut each: impl FnMut(&str, &str, Entry),
) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare("SELECT id, namespace, name, version FROM objects WHERE feed = ?1")?;
    let mut rows = statement.query([feed])?;
    while let Some(row) = rows.next()? {
        let version = super::keys::stamp(&Version(row.get(3)?));
        each(row.get_ref(1)?.as_str()?, row.get_ref(2)?.as_str()?, Entry { version, row: row.get(0)?, list: 0 });
    }
    Ok(())
}
