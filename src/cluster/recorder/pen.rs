//! What the reflector of one feed writes with, and the thread that writes for all of them.

use std::{
    cmp::Ordering,
    collections::HashMap,
    io::{self, Write},
    sync::{
        Arc, OnceLock,
        atomic::{self, AtomicU64},
    },
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};

use super::Written;
use crate::{
    cluster::{
        Resource, Version,
        discovery::Trigger,
        reflector::{Closed, Target, Update},
        source::{Frame, recording::Writer},
    },
    redact::Document,
};

/// What is to be written, in order.
pub(super) enum Entry {
    Resource {
        resource: Arc<Resource>,
        since: Option<Duration>,
    },
    Object {
        of: usize,
        document: Document,
    },
    Listed {
        of: usize,
        version: Version,
    },
    Began(Timestamp),
    Change {
        of: usize,
        at: Duration,
        op: Op,
        document: Document,
    },
    /// Known to be gone from a list that does not name it.
    Missing {
        of: usize,
        at: Duration,
        name: Name,
        uid: String,
        version: Version,
    },
    Gone {
        of: usize,
        at: Duration,
    },
}

#[derive(Clone, Copy)]
pub(super) enum Op {
    Added,
    Modified,
    Deleted,
}

/// Namespace and name.
type Name = (String, String);

/// Writes until nobody sends any more.
pub(super) fn write<W: Write>(mut out: Writer<W>, mut inbox: mpsc::Receiver<Entry>) -> io::Result<(W, Written)> {
    let mut written = Written::default();
    while let Some(entry) = inbox.blocking_recv() {
        match entry {
            Entry::Resource { resource, since } => {
                out.resource(&resource, since)?;
                written.resources += 1;
            }
            Entry::Object { of, document } => {
                out.object(of, &object(&document))?;
                written.objects += 1;
            }
            Entry::Listed { of, version } => out.listed(of, &version)?,
            Entry::Began(at) => out.began(at)?,
            Entry::Change { of, at, op, document } => {
                let object = object(&document).into();
                let frame = match op {
                    Op::Added => Frame::Added(object),
                    Op::Modified => Frame::Modified(object),
                    Op::Deleted => Frame::Deleted(object),
                };
                out.frame(of, at, &frame)?;
                written.changes += 1;
            }
            Entry::Missing { of, at, name: (namespace, name), uid, version } => {
                let mut metadata = json!({"name": name, "uid": uid, "resourceVersion": version.as_str()});
                if !namespace.is_empty() {
                    metadata["namespace"] = namespace.into();
                }
                let object = json!({"metadata": metadata}).to_string();
                out.frame(of, at, &Frame::Deleted(object.into()))?;
                written.changes += 1;
            }
            Entry::Gone { of, at } => out.gone(of, at)?,
        }
    }
    Ok((out.into_inner(), written))
}

/// The document as a server would send it: with what travels beside it put back.
fn object(document: &Document) -> Vec<u8> {
    let mut value = document.value();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        let meta = document.meta();
        metadata.insert("resourceVersion".into(), meta.version.as_str().into());
        if let Some(generation) = meta.generation {
            metadata.insert("generation".into(), generation.into());
        }
        match serde_json::from_slice(document.managed_fields()) {
            Ok(Value::Array(fields)) if fields.is_empty() => {}
            Ok(fields) => drop(metadata.insert("managedFields".into(), fields)),
            Err(_) => {}
        }
    }
    value.to_string().into_bytes()
}

/// The target of one feed.
pub(super) struct Pen {
    of: usize,
    entries: mpsc::Sender<Entry>,
    /// When the recording's time began; before that, everything is part of the beginning.
    began: Arc<OnceLock<Instant>>,
    /// Fired by every change.
    trigger: Option<Trigger>,
    refused: Arc<AtomicU64>,
    /// Uid and version of what is there, as far as it was written.
    known: HashMap<Name, (String, Version)>,
    listed_once: bool,
    /// Whether the feed itself came later: then what its first list holds is news.
    late: bool,
    list: List,
}

/// A list that has not ended.
#[derive(Default)]
struct List {
    open: bool,
    seen: HashMap<Name, Version>,
    /// What changed since it was written last, to be written in the order of versions.
    changed: Vec<Document>,
}

impl Pen {
    pub(super) fn new(
        of: usize,
        entries: mpsc::Sender<Entry>,
        began: Arc<OnceLock<Instant>>,
        trigger: Option<Trigger>,
        refused: Arc<AtomicU64>,
    ) -> Self {
        let late = began.get().is_some();
        let (known, list) = (HashMap::new(), List::default());
        Self { of, entries, began, trigger, refused, known, listed_once: false, late, list }
    }

    async fn enter(&self, entry: Entry) -> Result<(), Closed> {
        self.entries.send(entry).await.map_err(|_| Closed)
    }

    fn at(&self) -> Duration {
        self.began.get().map(Instant::elapsed).unwrap_or_default()
    }

    async fn change(&mut self, op: Op, document: Document) -> Result<(), Closed> {
        let meta = document.meta();
        let name = (meta.namespace.clone(), meta.name.clone());
        match op {
            Op::Deleted => drop(self.known.remove(&name)),
            _ => drop(self.known.insert(name, (meta.uid.clone(), meta.version.clone()))),
        }
        if let Some(trigger) = &self.trigger {
            trigger.fire();
        }
        self.enter(Entry::Change { of: self.of, at: self.at(), op, document }).await
    }

    fn op(&self, document: &Document) -> Op {
        let meta = document.meta();
        let known = self.known.get(&(meta.namespace.clone(), meta.name.clone()));
        if known.is_some_and(|(uid, _)| *uid == meta.uid) { Op::Modified } else { Op::Added }
    }

    async fn listed(&mut self, document: Document) -> Result<(), Closed> {
        let meta = document.meta();
        let name = (meta.namespace.clone(), meta.name.clone());
        self.list.seen.insert(name.clone(), meta.version.clone());
        if self.known.get(&name).is_some_and(|(_, version)| *version == meta.version) {
            return Ok(());
        }
        if self.listed_once || self.late {
            self.list.changed.push(document);
            return Ok(());
        }
        self.known.insert(name, (meta.uid.clone(), meta.version.clone()));
        self.enter(Entry::Object { of: self.of, document }).await
    }

    async fn list_ended(&mut self, version: Version) -> Result<(), Closed> {
        let List { seen, mut changed, .. } = std::mem::take(&mut self.list);
        if !self.listed_once {
            // What comes later begins with nothing, before every version.
            let version = if self.late { "1".into() } else { version.clone() };
            self.enter(Entry::Listed { of: self.of, version }).await?;
        }
        self.listed_once = true;
        let by_version = |a: &Document, b: &Document| a.meta().version.cmp_within(&b.meta().version);
        changed.sort_by(|a, b| by_version(a, b).unwrap_or(Ordering::Equal));
        for document in changed {
            self.change(self.op(&document), document).await?;
        }
        let missing: Vec<_> = self.known.extract_if(|name, _| !seen.contains_key(name)).collect();
        for (name, (uid, _)) in missing {
            let (of, at, version) = (self.of, self.at(), version.clone());
            self.enter(Entry::Missing { of, at, name, uid, version }).await?;
        }
        Ok(())
    }
}

impl Target for Pen {
    /// A recording begins with a list.
    fn cursor(&self) -> Option<Version> {
        None
    }

    async fn put(&mut self, update: Update) -> Result<(), Closed> {
        match update {
            Update::ListBegan => self.list = List { open: true, ..List::default() },
            Update::Listed(documents) => {
                for document in documents {
                    self.listed(document).await?;
                }
            }
            Update::ListEnded(version) => self.list_ended(version).await?,
            Update::Applied(document) => self.change(self.op(&document), document).await?,
            Update::Deleted(document) if self.list.open => {
                let name = (document.meta().namespace.clone(), document.meta().name.clone());
                self.list
                    .changed
                    .retain(|listed| (&listed.meta().namespace, &listed.meta().name) != (&name.0, &name.1));
                self.list.seen.remove(&name);
            }
            Update::Deleted(document) => self.change(Op::Deleted, document).await?,
            Update::Unreadable { namespace, name, version, deleted } => {
                self.refused.fetch_add(1, atomic::Ordering::Relaxed);
                if self.list.open && !deleted {
                    self.list.seen.insert((namespace, name), version);
                }
            }
            Update::Bookmark(_) => {}
        }
        Ok(())
    }
}
