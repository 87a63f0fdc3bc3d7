//! Reading what is committed: one object, all, those with a label, those under a value of an index.

use std::path::Path;

use rusqlite::Connection;

use super::{FeedId, Selector, codec::Decoder, file, migrate, row};
use crate::{cluster::Version, redact::Document};

/// Rows decoded at a time.
const PAGE: i64 = 200;

/// A connection that only reads. Its answers are the reader's own: nothing done to them changes the store.
pub struct Reader {
    connection: Connection,
    decoder: Decoder,
}

impl Reader {
    /// Whether or not someone writes it: reading waits for nobody and nobody for it.
    pub(crate) fn open(path: &Path) -> Result<Self, rusqlite::Error> {
        Ok(Self { connection: file::open_reader(path)?, decoder: Decoder::new() })
    }

    pub fn get(&mut self, feed: FeedId, namespace: &str, name: &str) -> Result<Option<Document>, rusqlite::Error> {
        let found = row::by_key(&self.connection, feed, namespace, name)?;
        found.map(|row| row.document(&self.connection, &mut self.decoder, None)).transpose()
    }

    /// The version alone, without decoding anything.
    pub fn version(&self, feed: FeedId, namespace: &str, name: &str) -> Result<Option<Version>, rusqlite::Error> {
        use rusqlite::OptionalExtension;
        self.connection
            .prepare_cached("SELECT version FROM objects WHERE feed = ?1 AND namespace = ?2 AND name = ?3")?
            .query_row(rusqlite::params![feed, namespace, name], |row| Ok(Version(row.get(0)?)))
            .optional()
    }

    /// Objects that a selector takes, in the order in which they were first stored.
    pub fn list(&mut self, feed: FeedId, selector: &Selector) -> Result<Vec<Document>, rusqlite::Error> {
        let mut found = Vec::new();
        self.for_each(feed, |document| {
            if selector.matches(&document.meta().labels) {
                found.push(document);
            }
        })?;
        Ok(found)
    }

    /// Objects of one namespace that a selector takes, by name. Reads no others.
    pub fn list_in(
        &mut self,
        feed: FeedId,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<Document>, rusqlite::Error> {
        let rows = row::by_namespace(&self.connection, feed, namespace)?;
        let documents = rows.iter().map(|row| row.document(&self.connection, &mut self.decoder, None));
        documents
            .filter(|document| document.as_ref().map_or(true, |document| selector.matches(&document.meta().labels)))
            .collect()
    }

    /// Every object of a feed, a few in memory at a time, all of the same moment.
    pub fn for_each(&mut self, feed: FeedId, mut each: impl FnMut(Document)) -> Result<(), rusqlite::Error> {
        let moment = self.connection.unchecked_transaction()?;
        let mut after = 0;
        loop {
            let rows = row::page(&moment, feed, after, PAGE)?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.id;
            for row in &rows {
                each(row.document(&moment, &mut self.decoder, None)?);
            }
        }
    }

    pub fn by_index(&mut self, feed: FeedId, index: &str, value: &str) -> Result<Vec<Document>, rusqlite::Error> {
        let rows = row::by_index(&self.connection, feed, index, value)?;
        rows.iter().map(|row| row.document(&self.connection, &mut self.decoder, None)).collect()
    }

    pub fn count(&self, feed: FeedId) -> Result<u64, rusqlite::Error> {
        let count: i64 = self
            .connection
            .prepare_cached("SELECT count(*) FROM objects WHERE feed = ?1")?
            .query_row([feed], |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }

    /// The feeds that may hold an object of a resource (`deployments.apps`) in a namespace, and since when in milliseconds
    /// each of them was read without a gap.
    pub(crate) fn feeds_of(
        &self,
        resource: &str,
        namespace: &str,
    ) -> Result<Vec<(FeedId, Option<i64>)>, rusqlite::Error> {
        let mut statement =
            self.connection.prepare_cached("SELECT id, key, since FROM feeds WHERE resource = ?1 ORDER BY id")?;
        let mut rows = statement.query([resource])?;
        let mut feeds = Vec::new();
        while let Some(row) = rows.next()? {
            let key: String = row.get(1)?;
            let scope = key.split_once('@').and_then(|(_, rest)| rest.split_once('?')).map(|(scope, _)| scope);
            if scope.is_none_or(|scope| scope == "*" || scope == namespace) {
                feeds.push((row.get(0)?, row.get(2)?));
            }
        }
        Ok(feeds)
    }

    /// Whether the file holds a feed with this key, open or not.
    pub(crate) fn has_feed(&self, key: &str) -> Result<bool, rusqlite::Error> {
        self.connection.prepare_cached("SELECT 1 FROM feeds WHERE key = ?1")?.exists([key])
    }

    /// For readers of the file's other tables.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// For those who watch over it.
    pub(crate) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Holds the present moment: later reads of this connection see nothing newer.
    pub(super) fn hold_moment(&self) -> Result<(), rusqlite::Error> {
        self.connection.execute_batch("BEGIN")?;
        self.connection.query_row("SELECT count(*) FROM feeds", [], |row| row.get::<_, i64>(0)).map(drop)
    }

    /// The schema's version of the file, and the one that this program knows.
    pub(crate) fn schema(&self) -> Result<(usize, usize), rusqlite::Error> {
        Ok((migrate::version(&self.connection)?, migrate::KNOWN))
    }

    pub(super) fn page(&mut self, feed: FeedId, after: i64) -> Result<(Vec<Document>, i64), rusqlite::Error> {
        let rows = row::page(&self.connection, feed, after, PAGE)?;
        let last = rows.last().map_or(after, |row| row.id);
        let documents: Result<_, _> =
            rows.iter().map(|row| row.document(&self.connection, &mut self.decoder, None)).collect();
        Ok((documents?, last))
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reader")
    }
}
