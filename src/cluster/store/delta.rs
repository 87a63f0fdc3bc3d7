//! What a write did, and who is told within the same transaction.

use std::{fmt, sync::Arc};

use rusqlite::Transaction;

use super::{FeedId, codec::Decoder, keys::Key, row};
use crate::{
    cluster::{Feed, Version},
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
    /// last state. `stored` is what was known of it before, where the server's last word differs from that.
    Deleted {
        last: Arc<Document>,
        certain: bool,
        stored: Option<Arc<Document>>,
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

/// Which versions a change lies between, so that two replicas can say of the same change that they mean it. Versions of
/// one feed alone compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// It happened after this version.
    pub after: i64,
    /// At this version it had happened.
    pub by: i64,
}

impl Span {
    /// Later than any version: the end of a feed, which has none.
    pub const END: i64 = i64::MAX;

    /// Of an object that is gone with its resource or namespace; `last` is the version in which it was last seen.
    pub(super) fn gone(last: &Version) -> Option<Self> {
        let after = last.as_str().parse().ok()?;
        Some(Self { after, by: Self::END })
    }

    /// `None` where it cannot be said: for an audit, which finds what a watch had missed; after the server went back in
    /// time; where versions are no numbers.
    pub(super) fn new(seen: Seen, cursor: Option<&Version>, by: Option<&Version>) -> Option<Self> {
        let by: i64 = by?.as_str().parse().ok()?;
        let after = match seen {
            Seen::Live => by - 1,
            Seen::Late => cursor.map_or(Some(0), |cursor| cursor.as_str().parse().ok())?,
            Seen::Initial | Seen::Audit => return None,
        };
        (after < by).then_some(Self { after, by })
    }
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

    /// A feed was listed again, since the changes after `cursor` are lost: of what came and went meanwhile nothing is
    /// known here. Whether another replica may have told of some of that, so that this one cannot speak for that time.
    fn overlooked(&mut self, _feed: &Feed, _cursor: &Version) -> bool {
        false
    }
}

/// The transaction that a change is stored in, with a look at the other objects.
pub struct Within<'a> {
    pub transaction: &'a Transaction<'a>,
    /// Of the change.
    pub span: Option<Span>,
    pub(super) decoder: &'a mut Decoder,
    pub(super) feeds: &'a super::writer::Feeds,
    pub(super) batch: &'a super::writer::Batch,
}

/// Another object as it is within the transaction. Equal ones are the same object in the same state, so what was read
/// of one may be kept as long as it is found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sighted {
    feed: FeedId,
    row: i64,
    version: u64,
}

impl Within<'_> {
    /// Looks for another object by group, kind and name: an owner, for example. Reads nothing.
    pub fn sight(&self, group: &str, kind: &str, namespace: &str, name: &str) -> Option<Sighted> {
        let [first, second] = [Key::new(namespace, name), Key::second(namespace, name)];
        self.feeds.of_kind(group, kind, namespace).find_map(|feed| {
            let of = |key| self.batch.entry(self.feeds, feed, key);
            let entry = of(second).or_else(|| of(first))?;
            Some(Sighted { feed, row: entry.row, version: entry.version })
        })
    }

    /// The metadata of an object that was sighted, when it really has this name.
    pub fn meta(&mut self, sighted: Sighted, namespace: &str, name: &str) -> Result<Option<Meta>, rusqlite::Error> {
        row::meta_of(self.transaction, self.decoder, sighted.row, namespace, name)
    }

    /// The same as the JSON text that is stored: annotations are in it.
    pub fn metadata(
        &mut self,
        sighted: Sighted,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Vec<u8>>, rusqlite::Error> {
        row::metadata_of(self.transaction, self.decoder, sighted.row, namespace, name)
    }
}

/// The values that an object is found under.
pub type Values = dyn Fn(&Document) -> Vec<String> + Send + Sync;

/// A named index: which values an object is found under.
#[derive(Clone)]
pub struct Index {
    /// Kept with the stored values: a function that answers differently needs a new name.
    pub name: String,
    pub values: Arc<Values>,
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
