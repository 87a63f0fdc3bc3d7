//! What each update does to the stored objects: one attempt at one batch, within its transaction.

use std::sync::Arc;

use rusqlite::{ErrorCode, OptionalExtension, Transaction, params};
use tokio::sync::watch;

use super::{
    Audit, Audited, Close, Delta, FeedId, Index, Journal, Seen, Span, Within,
    codec::{Decoder, Encoder},
    ended::{self, Ended},
    keys::{self, Entry, Key, Keys, stamp},
    row::{self, Row},
    writer::{Batch, FeedState, Feeds, Put},
};
use crate::{
    cluster::{Feed, Version},
    redact::{Document, Part},
};

pub(super) struct Work<'a> {
    pub(super) transaction: &'a Transaction<'a>,
    pub(super) encoder: &'a mut Encoder,
    pub(super) decoder: &'a mut Decoder,
    pub(super) feeds: &'a mut Feeds,
    pub(super) journal: &'a mut Option<Box<dyn Journal>>,
    pub(super) batch: Batch,
}

type Done = Result<(), rusqlite::Error>;

impl Work<'_> {
    pub(super) fn open(&mut self, feed: &Feed, indexes: &[Index], news: bool) -> Result<FeedId, rusqlite::Error> {
        let key = feed.key();
        let resource = feed.resource.group_resource();
        let known: Option<(FeedId, Option<String>)> = self
            .transaction
            .query_row("SELECT id, version FROM feeds WHERE key = ?1", [&key], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (id, cursor) = match known {
            Some((id, cursor)) => (id, self.batch.cursors.get(&id).cloned().or(cursor.map(Version))),
            None => {
                self.transaction.execute("INSERT INTO feeds (key, resource) VALUES (?1, ?2)", [&key, &resource])?;
                let id = self.transaction.last_insert_rowid();
                ended::remove(self.transaction, &key)?;
                (id, None)
            }
        };
        let about = serde_json::to_string(&*feed.resource).unwrap_or_default();
        self.transaction.execute("UPDATE feeds SET about = ?2 WHERE id = ?1", params![id, about])?;
        if let Some(open) = self.feeds.0.get_mut(&id).filter(|_| !self.batch.closed.contains(&id)) {
            // The served version may have moved; everything else is the same by the key.
            open.feed = feed.clone();
            return Ok(id);
        }
        let mut keys = Keys::default();
        row::keys(self.transaction, id, |namespace, name, entry| keys::add(&mut keys, namespace, name, entry))?;
        let state = FeedState {
            feed: feed.clone(),
            resource,
            keys,
            synced: watch::Sender::new(cursor.is_some()),
            cursor,
            list: 0,
            listing: false,
            indexes: indexes.to_vec(),
            subscribers: Vec::new(),
            news,
        };
        self.reindex(id, indexes)?;
        self.batch.opened.insert(id, state);
        Ok(id)
    }

    /// Brings the indexes of a feed from an earlier run in line with those that are wanted now.
    fn reindex(&mut self, feed: FeedId, indexes: &[Index]) -> Done {
        let built: Vec<String> = self
            .transaction
            .prepare_cached("SELECT DISTINCT name FROM indexed WHERE feed = ?1")?
            .query_map([feed], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for gone in built.iter().filter(|name| indexes.iter().all(|index| index.name != **name)) {
            self.transaction.execute("DELETE FROM indexed WHERE feed = ?1 AND name = ?2", params![feed, gone])?;
        }
        let missing: Vec<&Index> = indexes.iter().filter(|index| !built.contains(&index.name)).collect();
        let mut after = 0;
        while !missing.is_empty() {
            let rows = row::page(self.transaction, feed, after, 200)?;
            let Some(last) = rows.last() else { break };
            after = last.id;
            for row in &rows {
                let document = row.document(self.transaction, self.decoder, None)?;
                for index in &missing {
                    self.index_values(feed, index, row.id, &document)?;
                }
            }
        }
        Ok(())
    }

    /// What comes for a feed that is closed is not taken: neither it nor the cursor that would pass it by.
    pub(super) fn put(&mut self, feed: FeedId, update: &Put) -> Done {
        if self.batch.closed.contains(&feed) || !self.feeds.0.contains_key(&feed) {
            return Ok(());
        }
        let (list, _) = self.list_of(feed);
        let moves_to = match update {
            Put::ListBegan => {
                self.batch.lists.insert(feed, (list.wrapping_add(1), true));
                None
            }
            Put::Listed(documents) => {
                for document in documents {
                    self.apply(feed, document, Seen::Late)?;
                }
                None
            }
            Put::ListEnded(version) => {
                self.batch.lists.insert(feed, (list, false));
                self.delete_unlisted(feed, version)?;
                self.note_gap(feed, version);
                // From now on its objects are known.
                self.transaction
                    .prepare_cached("UPDATE feeds SET since = coalesce(since, ?2) WHERE id = ?1")?
                    .execute(params![feed, jiff::Timestamp::now().as_millisecond()])?;
                Some(version)
            }
            Put::Applied(document) => {
                self.apply(feed, document, Seen::Live)?;
                Some(&document.meta().version)
            }
            Put::Deleted(document) => {
                self.delete(feed, document)?;
                Some(&document.meta().version)
            }
            Put::Unreadable { namespace, name, version, deleted } => {
                self.unreadable(feed, namespace, name, version, *deleted)?;
                Some(version)
            }
            Put::Bookmark(version) => Some(version),
        };
        if let (Some(version), (_, false)) = (moves_to, self.list_of(feed)) {
            self.batch.cursors.insert(feed, version.clone());
        }
        Ok(())
    }

    /// What came and went since the cursor is not known; it may be that somebody else has told of it.
    fn note_gap(&mut self, feed: FeedId, listed: &Version) {
        let Some(state) = self.feeds.0.get(&feed) else { return };
        let Some(cursor) = self.batch.cursors.get(&feed).or(state.cursor.as_ref()) else { return };
        let Some(journal) = self.journal.as_mut() else { return };
        if let (true, Ok(listed)) = (journal.overlooked(&state.feed, cursor), listed.as_str().parse()) {
            self.batch.begins.insert(feed, listed);
        }
    }

    /// The number of the feed's last list, and whether it is still going on, as the batch leaves it.
    fn list_of(&self, feed: FeedId) -> (u32, bool) {
        let committed = || self.feeds.0.get(&feed).map(|state| (state.list, state.listing));
        self.batch.lists.get(&feed).copied().or_else(committed).unwrap_or_default()
    }

    /// It is there in a state that is not known: what was known of it stays. Or it is gone, and known to be.
    fn unreadable(&mut self, feed: FeedId, namespace: &str, name: &str, version: &Version, deleted: bool) -> Done {
        let (key, Some((entry, _))) = self.find(feed, namespace, name)? else { return Ok(()) };
        if deleted {
            return self.delete_vanished(feed, key, entry, Seen::Live, Some(version));
        }
        self.listed(feed, key, entry);
        Ok(())
    }

    /// Notes that the present list names an object. That is not part of what may be rolled back.
    fn listed(&mut self, feed: FeedId, key: Key, entry: Entry) {
        let entry = Entry { list: self.list_of(feed).0, ..entry };
        match self.batch.keys.get_mut(&(feed, key)) {
            Some(staged) => *staged = Some(entry),
            None => drop(self.feeds.0.get_mut(&feed).and_then(|state| state.keys.insert(key, entry))),
        }
    }

    fn entry(&self, feed: FeedId, key: Key) -> Option<Entry> {
        self.batch.entry(self.feeds, feed, key)
    }

    /// The key of an object, and what is known of it. Should two names share a hash, the rows tell them apart: the key is
    /// the second one for whoever found the first taken.
    fn find(&self, feed: FeedId, namespace: &str, name: &str) -> Result<(Key, Option<(Entry, Row)>), rusqlite::Error> {
        let mut free = None;
        for key in [Key::new, Key::second] {
            let key = key(namespace, name);
            let Some(entry) = self.entry(feed, key) else {
                free.get_or_insert(key);
                continue;
            };
            match row::by_id(self.transaction, entry.row)? {
                Some(row) if row.namespace == namespace && row.name == name => return Ok((key, Some((entry, row)))),
                _ => {}
            }
        }
        Ok((free.unwrap_or_else(|| Key::second(namespace, name)), None))
    }

    fn apply(&mut self, feed: FeedId, document: &Arc<Document>, seen: Seen) -> Done {
        let meta = document.meta();
        let (list, _) = self.list_of(feed);
        let version = stamp(&meta.version);
        let first = Key::new(&meta.namespace, &meta.name);
        // Reads nothing: no two objects are at the same version.
        if let Some(entry) = self.entry(feed, first).filter(|entry| entry.version == version) {
            self.listed(feed, first, entry);
            return Ok(());
        }
        let (key, known) = self.find(feed, &meta.namespace, &meta.name)?;
        let row = match known {
            Some((entry, _)) if entry.version == version => {
                self.listed(feed, key, entry);
                return Ok(());
            }
            // A list that never ended had brought a newer state before the watch went on from the old cursor.
            Some((entry, _)) if seen == Seen::Live && is_older(&meta.version, entry) => return Ok(()),
            Some((_, row)) => row,
            None => match self.insert(feed, document) {
                Ok(id) => {
                    self.batch.keys.insert((feed, key), Some(Entry { version, row: id, list }));
                    self.batch.grown.insert(feed);
                    let seen = self.first_seen(feed, seen);
                    return self.tell(feed, Delta::Added(document.clone()), seen, Some(&meta.version));
                }
                // It is stored and memory does not know: the file is right.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                    row::by_key(self.transaction, feed, &meta.namespace, &meta.name)?.ok_or(error)?
                }
                Err(error) => return Err(error),
            },
        };
        self.batch.keys.insert((feed, key), Some(Entry { version, row: row.id, list }));
        let old = Arc::new(row.document(self.transaction, self.decoder, Some(document))?);
        self.update(feed, &row, document)?;
        if old.meta().uid == meta.uid {
            return self.tell(feed, Delta::Updated { old, new: document.clone() }, seen, Some(&meta.version));
        }
        self.tell(feed, Delta::Deleted { last: old, certain: false, stored: None }, seen, Some(&meta.version))?;
        self.tell(feed, Delta::Added(document.clone()), seen, Some(&meta.version))
    }

    /// Whether a new object of a list is news: not when the feed was never listed before, unless the resource or the
    /// namespace is itself new, and its objects with it.
    fn first_seen(&self, feed: FeedId, seen: Seen) -> Seen {
        let Some(state) = self.feeds.0.get(&feed) else { return seen };
        let listed_before = state.cursor.is_some() || self.batch.cursors.contains_key(&feed);
        if seen == Seen::Late && !listed_before && !state.news { Seen::Initial } else { seen }
    }

    fn insert(&mut self, feed: FeedId, document: &Document) -> Result<i64, rusqlite::Error> {
        let resource = self.feeds.0.get(&feed).map_or("", |state| &state.resource);
        let [metadata, body, status] = Part::ALL.map(|part| &*document.section(part).json);
        let frames = self.encoder.encode(resource, [metadata, body, status, document.managed_fields()]);
        let id = row::insert(self.transaction, feed, document, frames)?;
        self.index(feed, id, document)?;
        Ok(id)
    }

    /// Sections that did not change keep their frames.
    fn update(&mut self, feed: FeedId, row: &Row, document: &Document) -> Done {
        let resource = self.feeds.0.get(&feed).map_or("", |state| &state.resource);
        let same = Part::ALL.map(|part| document.section(part).hash == row.hashes[part as usize]);
        let text = |part: Part| if same[part as usize] { &[] } else { &*document.section(part).json };
        let [metadata, body, status] = Part::ALL.map(text);
        let mut frames = self.encoder.encode(resource, [metadata, body, status, document.managed_fields()]);
        for part in Part::ALL.map(|part| part as usize).into_iter().filter(|part| same[*part]) {
            frames[part] = &row.frames[part];
        }
        row::update(self.transaction, row.id, document, frames)?;
        self.index(feed, row.id, document)
    }

    fn index(&mut self, feed: FeedId, id: i64, document: &Document) -> Done {
        let indexes = match self.feeds.0.get(&feed) {
            Some(state) if !state.indexes.is_empty() => state.indexes.clone(),
            _ => return Ok(()),
        };
        self.transaction.prepare_cached("DELETE FROM indexed WHERE object = ?1")?.execute([id])?;
        indexes.iter().try_for_each(|index| self.index_values(feed, index, id, document))
    }

    fn index_values(&self, feed: FeedId, index: &Index, id: i64, document: &Document) -> Done {
        for value in (index.values)(document) {
            self.transaction
                .prepare_cached("INSERT OR IGNORE INTO indexed (feed, name, value, object) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![feed, index.name, value, id])?;
        }
        Ok(())
    }

    /// The server says that it is gone. One that was never stored was never told of either.
    fn delete(&mut self, feed: FeedId, last: &Arc<Document>) -> Done {
        let meta = last.meta();
        let (key, Some((entry, row))) = self.find(feed, &meta.namespace, &meta.name)? else { return Ok(()) };
        if is_older(&meta.version, entry) {
            return Ok(());
        }
        let same = Part::ALL.iter().all(|part| last.section(*part).hash == row.hashes[*part as usize]);
        let stored = match same {
            true => None,
            false => Some(Arc::new(row.document(self.transaction, self.decoder, Some(last))?)),
        };
        row::delete(self.transaction, row.id)?;
        self.batch.keys.insert((feed, key), None);
        self.tell(feed, Delta::Deleted { last: last.clone(), certain: true, stored }, Seen::Live, Some(&meta.version))
    }

    /// Every entry of a feed, as the batch leaves it.
    fn entries(&self, feed: FeedId) -> impl Iterator<Item = (Key, Entry)> {
        let committed = self.feeds.0.get(&feed).into_iter().flat_map(|state| &state.keys);
        let untouched = committed.filter(move |(key, _)| !self.batch.keys.contains_key(&(feed, **key)));
        let staged = self.batch.keys.iter().filter(move |((of, _), _)| *of == feed);
        let staged = staged.filter_map(|((_, key), entry)| Some((*key, (*entry)?)));
        untouched.map(|(key, entry)| (*key, *entry)).chain(staged)
    }

    fn delete_unlisted(&mut self, feed: FeedId, version: &Version) -> Done {
        let (list, _) = self.list_of(feed);
        let gone: Vec<_> = self.entries(feed).filter(|(_, entry)| entry.list != list).collect();
        gone.into_iter().try_for_each(|(key, entry)| self.delete_vanished(feed, key, entry, Seen::Late, Some(version)))
    }

    /// Removes an object that is known to be gone by its absence.
    fn delete_vanished(&mut self, feed: FeedId, key: Key, entry: Entry, seen: Seen, by: Option<&Version>) -> Done {
        let Some(last) = self.take_out(feed, key, entry)? else { return Ok(()) };
        self.tell(feed, Delta::Deleted { last, certain: false, stored: None }, seen, by)
    }

    /// Removes an object and gives the last that was known of it.
    fn take_out(&mut self, feed: FeedId, key: Key, entry: Entry) -> Result<Option<Arc<Document>>, rusqlite::Error> {
        self.batch.keys.insert((feed, key), None);
        let Some(row) = row::by_id(self.transaction, entry.row)? else { return Ok(None) };
        let last = row.document(self.transaction, self.decoder, None)?;
        row::delete(self.transaction, row.id)?;
        Ok(Some(Arc::new(last)))
    }

    pub(super) fn close(&mut self, feed: FeedId, how: Close) -> Done {
        if how == Close::Gone {
            let all: Vec<_> = self.entries(feed).collect();
            for (key, entry) in all {
                let Some(last) = self.take_out(feed, key, entry)? else { continue };
                let span = Span::gone(&last.meta().version);
                self.tell_of(feed, Delta::Deleted { last, certain: false, stored: None }, Seen::Live, span)?;
            }
        }
        if how != Close::Keep {
            self.forget(feed)?;
            // The next feed that is opened may get the same id.
            self.batch.cursors.remove(&feed);
            self.batch.begins.remove(&feed);
        }
        self.batch.closed.insert(feed);
        Ok(())
    }

    pub(super) fn forget_all_but(&mut self, keep: &[String], silent: &[String]) -> Done {
        let known: Vec<(FeedId, String, String)> = self
            .transaction
            .prepare("SELECT id, key, resource FROM feeds")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<Result<_, _>>()?;
        for (id, key, resource) in &known {
            let group = resource.split_once('.').map_or("", |(_, group)| group);
            let unknown = silent.iter().any(|silent| silent == group || silent == "*");
            let open = self.feeds.0.contains_key(id) || self.batch.opened.contains_key(id);
            if !open && !unknown && !keep.contains(key) {
                self.forget(*id)?;
            }
        }
        Ok(())
    }

    fn forget(&self, feed: FeedId) -> Done {
        self.note_end(feed)?;
        for sql in [
            "DELETE FROM indexed WHERE feed = ?1",
            "DELETE FROM objects WHERE feed = ?1",
            "DELETE FROM feeds WHERE id = ?1",
        ] {
            self.transaction.execute(sql, [feed])?;
        }
        Ok(())
    }

    /// Notes how far a feed came that is over.
    fn note_end(&self, feed: FeedId) -> Done {
        let sql = "SELECT key, begins, version FROM feeds WHERE id = ?1";
        let stored: Option<(String, Option<i64>, Option<String>)> = self
            .transaction
            .prepare_cached(sql)?
            .query_row([feed], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        let Some((key, begins, cursor)) = stored else { return Ok(()) };
        let cursor = self.batch.cursors.get(&feed).cloned().or(cursor.map(Version));
        let begins = begins.or_else(|| self.begins(feed, cursor.as_ref()?));
        let up_to = cursor.as_ref().and_then(|cursor| cursor.as_str().parse().ok());
        match begins.zip(up_to) {
            Some((begins, up_to)) => ended::add(self.transaction, Ended { key, begins, up_to }),
            None => Ok(()),
        }
    }

    /// What the watch should have told by now and did not. `None` while it has not come as far as the list.
    pub(super) fn audit(&mut self, feed: FeedId, audit: &Audit) -> Result<Option<Audited>, rusqlite::Error> {
        let open = self.feeds.0.get(&feed).filter(|_| !self.batch.closed.contains(&feed));
        let Some(state) = open else { return Ok(None) };
        let cursor = self.batch.cursors.get(&feed).or(state.cursor.as_ref());
        if !cursor.is_some_and(|cursor| cursor.cmp_within(&audit.version).is_some_and(std::cmp::Ordering::is_ge)) {
            return Ok(None);
        }
        let mut found = Audited::default();
        for document in &audit.listed.suspects {
            let meta = document.meta();
            let (_, stored) = self.find(feed, &meta.namespace, &meta.name)?;
            let missed = match stored {
                // Newer than the list: the watch is ahead, as it should be.
                Some((_, row)) => row.version().cmp_within(&meta.version).is_some_and(std::cmp::Ordering::is_lt),
                None if audit.absent_before.contains(&meta.uid) => true,
                None => {
                    found.absent.push(meta.uid.clone());
                    false
                }
            };
            if missed {
                self.apply(feed, document, Seen::Audit)?;
                found.missed += 1;
            }
        }
        let unlisted: Vec<_> = self.entries(feed).filter(|(key, _)| !audit.listed.seen.contains(key)).collect();
        for (key, entry) in unlisted {
            let Some(row) = row::by_id(self.transaction, entry.row)? else { continue };
            // It was noted under its first key, and is kept under its second.
            if audit.listed.seen.contains(&Key::new(&row.namespace, &row.name)) {
                continue;
            }
            if row.version().cmp_within(&audit.version).is_some_and(std::cmp::Ordering::is_le) {
                self.delete_vanished(feed, key, entry, Seen::Audit, None)?;
                found.missed += 1;
            }
        }
        Ok(Some(found))
    }

    /// `by` is the version at which it had happened, where one can be named.
    fn tell(&mut self, feed: FeedId, delta: Delta, seen: Seen, by: Option<&Version>) -> Done {
        let committed = || self.feeds.0.get(&feed).and_then(|state| state.cursor.as_ref());
        let span = Span::new(seen, self.batch.cursors.get(&feed).or_else(committed), by);
        self.tell_of(feed, delta, seen, span)
    }

    fn tell_of(&mut self, feed: FeedId, delta: Delta, seen: Seen, span: Option<Span>) -> Done {
        let Some(state) = self.feeds.0.get(&feed) else { return Ok(()) };
        let subscribed = !state.subscribers.is_empty();
        if let (Some(journal), true) = (self.journal.as_mut(), seen != Seen::Initial) {
            let mut within = Within {
                transaction: self.transaction,
                span,
                decoder: self.decoder,
                feeds: self.feeds,
                batch: &self.batch,
            };
            journal.record(&mut within, &state.feed, &delta, seen)?;
        }
        if subscribed {
            self.batch.deltas.push((feed, delta));
        }
        Ok(())
    }

    pub(super) fn write_cursors(&self) -> Done {
        for (feed, version) in &self.batch.cursors {
            self.transaction
                .prepare_cached("UPDATE feeds SET version = ?2, begins = coalesce(begins, ?3) WHERE id = ?1")?
                .execute(params![feed, version.as_str(), self.begins(*feed, version)])?;
        }
        for (feed, version) in &self.batch.begins {
            self.transaction
                .prepare_cached("UPDATE feeds SET begins = max(begins, ?2) WHERE id = ?1")?
                .execute(params![feed, version])?;
        }
        Ok(())
    }
}

impl Work<'_> {
    /// After which version a feed whose first list was of this one knows everything.
    fn begins(&self, feed: FeedId, version: &Version) -> Option<i64> {
        let news = self.feeds.0.get(&feed).is_some_and(|state| state.news);
        if news { Some(0) } else { version.as_str().parse().ok() }
    }
}

/// Whether a version is from before the stored one. Versions that are no numbers have no order.
fn is_older(version: &Version, stored: Entry) -> bool {
    version.as_str().parse::<u64>().is_ok_and(|version| version < stored.version)
}
