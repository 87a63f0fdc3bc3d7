//! What a write did, and who is told within the same transaction.

use std::{fmt, sync::Arc};

use rusqlite::Transaction;

use super::{codec::Decoder, row};
use crate::{
    cluster::Feed,
    redact::{Document, Meta},
};

/// What happened to one object.
#[derive(Clone, Debug)]
pub enum Delta {
    Added(Arc<Document>),
    Updated {
        old: Arc<Document>,
        new: Arc<Document>,
    },
    /// `certain` when the server said so; otherwise a list did not name it any more, and `last` may not be its very
    /// last state.
    Deleted {
        last: Arc<Document>,
        certain: bool,
    },
}

impl Delta {
    /// The object as it is now, or was last.
    pub fn object(&self) -> &Arc<Document> {
        match self {
            Self::Added(object) | Self::Updated { new: object, .. } | Self::Deleted { last: object, .. } => object,
        }
    }
}

/// How it came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// In the first list of a feed: it was there before kubediff looked.
    Initial,
    /// By watching.
    Live,
    /// By comparing a list with what was stored.
    Late,
    /// By the periodic audit.
    Audit,
}

/// Writes what follows from a change, in the transaction that stores the object.
///
/// It is called on the writer's thread. When the commit fails everything is rolled back and the same changes are
/// recorded again later, so it must keep no state of its own but what [`Journal::settled`] confirms.
pub trait Journal: Send + 'static {
    fn record(
        &mut self,
        within: &mut Within<'_>,
        feed: &Feed,
        delta: &Delta,
        seen: Seen,
    ) -> Result<(), rusqlite::Error>;

    /// The transaction ended, and was committed or not.
    fn settled(&mut self, committed: bool);
}

/// The transaction that a change is stored in, with a look at the other objects.
pub struct Within<'a> {
    pub transaction: &'a Transaction<'a>,
    pub(super) decoder: &'a mut Decoder,
    pub(super) feeds: &'a super::writer::Feeds,
}

impl Within<'_> {
    /// The metadata of another object, by group, kind and name: an owner, for example.
    pub fn find(
        &mut self,
        group: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Meta>, rusqlite::Error> {
        for feed in self.feeds.of_kind(group, kind, namespace) {
            if let Some(meta) = row::meta_by_key(self.transaction, self.decoder, feed, namespace, name)? {
                return Ok(Some(meta));
            }
        }
        Ok(None)
    }

    /// The same as the JSON text that is stored: annotations are in it.
    pub fn find_metadata(
        &mut self,
        group: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Vec<u8>>, rusqlite::Error> {
        for feed in self.feeds.of_kind(group, kind, namespace) {
            if let Some(json) = row::metadata_by_key(self.transaction, self.decoder, feed, namespace, name)? {
                return Ok(Some(json));
            }
        }
        Ok(None)
    }
}

/// A named index: which values an object is found under.
#[derive(Clone)]
pub struct Index {
    /// Kept with the stored values: a function that answers differently needs a new name.
    pub name: String,
    pub values: Arc<dyn Fn(&Document) -> Vec<String> + Send + Sync>,
}

impl Index {
    pub fn new(name: impl Into<String>, values: impl Fn(&Document) -> Vec<String> + Send + Sync + 'static) -> Self {
        Self { name: name.into(), values: Arc::new(values) }
    }

    /// Objects by the uid of each of their owners.
    pub fn by_owner() -> Self {
        Self::new("owner", |document| document.meta().owners.iter().map(|owner| owner.uid.clone()).collect())
    }

    /// Objects by each of their labels, as `key=value`.
    pub fn by_label() -> Self {
        Self::new("label", |document| {
            document.meta().labels.iter().map(|(key, value)| format!("{key}={value}")).collect()
        })
    }

    /// Pods by the node that they are bound to.
    pub fn by_node() -> Self {
        Self::by_pointers("node", &["/spec/nodeName"])
    }

    /// Pods by each of their IP addresses.
    pub fn by_ip() -> Self {
        Self::new("ip", |document| {
            let value = document.value();
            let several = value.pointer("/status/podIPs").and_then(|ips| ips.as_array()).into_iter().flatten();
            let mut ips: Vec<String> = several.filter_map(|ip| Some(ip.get("ip")?.as_str()?.to_owned())).collect();
            if let (true, Some(one)) = (ips.is_empty(), value.pointer("/status/podIP").and_then(|ip| ip.as_str())) {
                ips.push(one.to_owned());
            }
            ips
        })
    }

    /// Objects by the strings at JSON pointers.
    pub fn by_pointers(name: &str, pointers: &[&str]) -> Self {
        let pointers: Vec<String> = pointers.iter().map(|pointer| (*pointer).to_owned()).collect();
        Self::new(name, move |document| {
            let value = document.value();
            pointers.iter().filter_map(|pointer| Some(value.pointer(pointer)?.as_str()?.to_owned())).collect()
        })
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index").field(&self.name).finish()
    }
}
