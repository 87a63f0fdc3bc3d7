//! Reading what an informer has stored.

use crate::{
    cluster::store::{FeedId, Reader, Selector},
    redact::Document,
};

/// Reads the stored objects of one informer. Each read sees what is committed at that moment.
#[derive(Debug)]
pub struct Lister {
    pub(super) feed: FeedId,
    pub(super) reader: Reader,
    pub(super) indexes: Vec<String>,
}

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the state file: {0}")]
    Sql(#[from] rusqlite::Error),
    #[error("the informer has no index \"{name}\"; it has: {}", .has.join(", "))]
    NoIndex { name: String, has: Vec<String> },
}

impl Lister {
    /// `namespace` is `""` for cluster-scoped objects.
    pub fn get(&mut self, namespace: &str, name: &str) -> Result<Option<Document>, ReadError> {
        Ok(self.reader.get(self.feed, namespace, name)?)
    }

    /// Those of all namespaces that a selector takes, in the order in which they were first stored.
    pub fn list(&mut self, selector: &Selector) -> Result<Vec<Document>, ReadError> {
        Ok(self.reader.list(self.feed, selector)?)
    }

    /// Those of one namespace that a selector takes, by name. Reads no others.
    pub fn list_in(&mut self, namespace: &str, selector: &Selector) -> Result<Vec<Document>, ReadError> {
        Ok(self.reader.list_in(self.feed, namespace, selector)?)
    }

    /// All objects of one moment, a few in memory at a time.
    pub fn for_each(&mut self, each: impl FnMut(Document)) -> Result<(), ReadError> {
        Ok(self.reader.for_each(self.feed, each)?)
    }

    /// Those that an [`super::Index`] finds under a value, by namespace and name.
    pub fn by_index(&mut self, index: &str, value: &str) -> Result<Vec<Document>, ReadError> {
        if !self.indexes.iter().any(|name| name == index) {
            return Err(ReadError::NoIndex { name: index.to_owned(), has: self.indexes.clone() });
        }
        Ok(self.reader.by_index(self.feed, index, value)?)
    }

    pub fn count(&self) -> Result<u64, ReadError> {
        Ok(self.reader.count(self.feed)?)
    }
}
