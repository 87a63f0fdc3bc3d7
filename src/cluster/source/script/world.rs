//! A small API server in memory, with the semantics that matter to a reader: versions, snapshots behind continue tokens,
//! watches from a version, bookmarks, compaction, and faults on request.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};

use crate::{
    cluster::{
        Feed, Resource, Scope, Version,
        source::{Discovered, Error, Frame, Frames, List, Page, Source, Watch},
    },
    redact::Said,
};

/// One change, as the world remembers it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub version: u64,
    pub key: String,
    /// `None` when it was deleted.
    pub object: Option<Value>,
    /// As it was before.
    last: Option<Value>,
}

/// What goes wrong with the next request or stream that it fits.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The next list request fails so.
    List(Error),
    /// The next request for a page after the first fails so.
    LaterPage(Error),
    /// The next watch does not open.
    Open(Error),
    /// The next watch ends in this way after so many frames.
    Cut { after: usize, error: Option<Error> },
    /// The next watch never says a word.
    Mute,
}

#[derive(Default)]
struct Inner {
    version: u64,
    objects: BTreeMap<String, Value>,
    log: Vec<Change>,
    /// Changes up to this version are forgotten.
    compacted: u64,
    snapshots: BTreeMap<String, (u64, Vec<Value>)>,
    faults: Vec<Fault>,
    streaming: bool,
    no_bookmarks: bool,
    lists: u64,
    watches: u64,
}

/// Cheap to clone; all clones are one world. It serves one resource.
#[derive(Clone)]
pub struct World {
    resource: Arc<Resource>,
    inner: Arc<Mutex<Inner>>,
    changed: Arc<Notify>,
}

impl World {
    /// `streaming`: whether it knows streaming lists.
    pub fn new(resource: Resource, streaming: bool) -> Self {
        let inner = Inner { version: 100, streaming, ..Inner::default() };
        Self { resource: Arc::new(resource), inner: Arc::new(Mutex::new(inner)), changed: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates an object or changes it.
    pub fn apply(&self, namespace: &str, name: &str, content: &Value) -> Version {
        let mut inner = self.lock();
        inner.version += 1;
        let version = inner.version;
        let key = format!("{namespace}/{name}");
        let last = inner.objects.get(&key).cloned();
        let uid = last.as_ref().map_or_else(|| json!(format!("uid-{version}")), |last| last["metadata"]["uid"].clone());
        let mut metadata = json!({"name": name, "uid": uid, "resourceVersion": version.to_string()});
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        let object = json!({"apiVersion": self.resource.api_version(), "kind": self.resource.kind, "metadata": metadata, "spec": content});
        inner.objects.insert(key.clone(), object.clone());
        inner.log.push(Change { version, key, object: Some(object), last });
        drop(inner);
        self.changed.notify_waiters();
        Version(version.to_string())
    }

    /// Deletes an object; `false` when there is none.
    pub fn delete(&self, namespace: &str, name: &str) -> bool {
        let mut inner = self.lock();
        let key = format!("{namespace}/{name}");
        let Some(last) = inner.objects.remove(&key) else { return false };
        inner.version += 1;
        let version = inner.version;
        inner.log.push(Change { version, key, object: None, last: Some(last) });
        drop(inner);
        self.changed.notify_waiters();
        true
    }

    /// Forgets every change so far, and with them the snapshots behind continue tokens.
    pub fn compact(&self) {
        let mut inner = self.lock();
        inner.compacted = inner.version;
        inner.snapshots.clear();
    }

    /// The versions go on without an object of this resource changing.
    pub fn advance(&self, by: u64) {
        self.lock().version += by;
        self.changed.notify_waiters();
    }

    /// From now on it sends no bookmarks but those that end a streaming list.
    pub fn without_bookmarks(&self) {
        self.lock().no_bookmarks = true;
    }

    pub fn fault(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    pub fn clear_faults(&self) {
        self.lock().faults.clear();
    }

    /// Every change ever made, compacted ones too.
    pub fn log(&self) -> Vec<Change> {
        self.lock().log.clone()
    }

    pub fn objects(&self) -> BTreeMap<String, Value> {
        self.lock().objects.clone()
    }

    pub fn version(&self) -> Version {
        Version(self.lock().version.to_string())
    }

    /// How many list and watch requests there were.
    pub fn requests(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.lists, inner.watches)
    }
}

impl Inner {
    fn take_fault(&mut self, fits: impl Fn(&Fault) -> bool) -> Option<Fault> {
        let at = self.faults.iter().position(fits)?;
        Some(self.faults.remove(at))
    }
}

fn in_scope(feed: &Feed, key: &str) -> bool {
    match &feed.scope {
        Scope::All => true,
        Scope::Namespace(namespace) => key.split('/').next() == Some(namespace),
    }
}

fn bytes(object: &Value) -> Bytes {
    Bytes::from(object.to_string())
}

impl Source for World {
    fn discover(&self) -> BoxFuture<'_, Result<Discovered, Error>> {
        let discovered = Discovered { resources: vec![(*self.resource).clone()], unavailable: Vec::new() };
        async move { Ok(discovered) }.boxed()
    }

    fn list<'a>(&'a self, feed: &'a Feed, list: &'a List) -> BoxFuture<'a, Result<Page, Error>> {
        let answer = self.page(feed, list);
        async move {
            tokio::task::yield_now().await;
            answer
        }
        .boxed()
    }

    fn watch<'a>(&'a self, feed: &'a Feed, watch: &'a Watch) -> BoxFuture<'a, Result<Frames, Error>> {
        let answer = self.open(feed, watch);
        async move {
            tokio::task::yield_now().await;
            answer
        }
        .boxed()
    }
}

impl World {
    fn page(&self, feed: &Feed, list: &List) -> Result<Page, Error> {
        let mut inner = self.lock();
        inner.lists += 1;
        if let Some(Fault::List(error)) = inner.take_fault(|fault| matches!(fault, Fault::List(_))) {
            return Err(error);
        }
        let (version, mut items, from) = match &list.continue_token {
            None => {
                let items = inner.objects.iter().filter(|(key, _)| in_scope(feed, key)).map(|(_, o)| o.clone());
                (inner.version, items.collect::<Vec<_>>(), 0)
            }
            Some(token) => {
                if let Some(Fault::LaterPage(error)) = inner.take_fault(|fault| matches!(fault, Fault::LaterPage(_))) {
                    return Err(error);
                }
                let (snapshot, from) = token.split_once('@').unwrap_or_default();
                let Some((version, items)) = inner.snapshots.get(snapshot).cloned() else {
                    return Err(Error::Expired("The provided continue parameter is too old".into()));
                };
                (version, items, from.parse().unwrap_or(0))
            }
        };
        let to = if list.limit == 0 { items.len() } else { items.len().min(from + list.limit as usize) };
        let mut continue_token = None;
        if to < items.len() {
            let snapshot = version.to_string();
            continue_token = Some(format!("{snapshot}@{to}"));
            inner.snapshots.insert(snapshot, (version, items.clone()));
        }
        Ok(Page {
            items: items.drain(from..to).map(|object| bytes(&object)).collect(),
            version: Version(version.to_string()),
            continue_token,
        })
    }

    fn open(&self, feed: &Feed, watch: &Watch) -> Result<Frames, Error> {
        let mut inner = self.lock();
        inner.watches += 1;
        if let Some(Fault::Open(error)) = inner.take_fault(|fault| matches!(fault, Fault::Open(_))) {
            return Err(error);
        }
        if inner.take_fault(|fault| matches!(fault, Fault::Mute)).is_some() {
            return Ok(stream::pending().boxed());
        }
        let cut = match inner.take_fault(|fault| matches!(fault, Fault::Cut { .. })) {
            Some(Fault::Cut { after, error }) => Some((after, error)),
            _ => None,
        };
        let mut initial = Vec::new();
        // From no version: the present state comes first, and nothing says where it ends.
        let from = if watch.initial_events || watch.version.as_str().is_empty() {
            if watch.initial_events && !inner.streaming {
                return Err(Error::Invalid("sendInitialEvents is forbidden".into()));
            }
            let objects = inner.objects.iter().filter(|(key, _)| in_scope(feed, key));
            initial.extend(objects.map(|(_, object)| Frame::Added(bytes(object))));
            if watch.initial_events {
                let version = Version(inner.version.to_string());
                initial.push(Frame::Bookmark { version, initial_events_end: true });
            }
            inner.version
        } else {
            let from = watch.version.as_str().parse::<u64>().map_err(|_| Error::Invalid("no version".into()))?;
            if from < inner.compacted {
                return Err(Error::Expired(Said::own(format!(
                    "too old resource version: {from} ({})",
                    inner.compacted
                ))));
            }
            from
        };
        drop(inner);
        let now = Instant::now();
        let before_the_end = watch.timeout.saturating_sub(BEFORE_THE_END);
        let live = Live {
            world: self.clone(),
            feed: feed.clone(),
            at: from,
            told: from,
            next_bookmark: now + before_the_end.min(MINUTE),
            deadline: now + watch.timeout,
        };
        let frames = stream::iter(initial).chain(stream::unfold(live, |mut live| async move {
            let frame = live.next().await?;
            Some((frame, live))
        }));
        Ok(match cut {
            None => frames.map(Ok).boxed(),
            Some((after, error)) => frames.take(after).map(Ok).chain(stream::iter(error.map(Err))).boxed(),
        })
    }
}

/// A watch that follows the world.
struct Live {
    world: World,
    feed: Feed,
    at: u64,
    /// What its reader knows of that.
    told: u64,
    next_bookmark: Instant,
    deadline: Instant,
}

const MINUTE: std::time::Duration = std::time::Duration::from_secs(60);
/// A real server sends a bookmark so long before it ends a watch.
const BEFORE_THE_END: std::time::Duration = std::time::Duration::from_secs(2);

impl Live {
    /// `None` at the end of its time, or when the changes it needs were forgotten.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            let changed = Arc::clone(&self.world.changed);
            let changed = changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(frame) = self.ready() {
                return Some(frame);
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(self.deadline) => return None,
                () = tokio::time::sleep_until(self.next_bookmark) => {
                    self.next_bookmark = Instant::now() + MINUTE;
                    // As a real server: only of what is further than what it has sent.
                    if self.world.lock().no_bookmarks || self.at <= self.told {
                        continue;
                    }
                    self.told = self.at;
                    let version = Version(self.at.to_string());
                    return Some(Frame::Bookmark { version, initial_events_end: false });
                }
            }
        }
    }

    fn ready(&mut self) -> Option<Frame> {
        let inner = self.world.lock();
        if self.at < inner.compacted {
            let behind = inner.log.iter().any(|change| change.version > self.at && change.version <= inner.compacted);
            if behind {
                return Some(Frame::Error(Error::Expired(
                    "The resourceVersion for the provided watch is too old".into(),
                )));
            }
        }
        while let Some(change) = inner.log.iter().find(|change| change.version > self.at) {
            self.at = change.version;
            if !in_scope(&self.feed, &change.key) {
                continue;
            }
            self.told = self.at;
            return match (&change.object, &change.last) {
                (Some(object), None) => Some(Frame::Added(bytes(object))),
                (Some(object), Some(_)) => Some(Frame::Modified(bytes(object))),
                (None, Some(last)) => {
                    let mut last = last.clone();
                    last["metadata"]["resourceVersion"] = json!(change.version.to_string());
                    Some(Frame::Deleted(bytes(&last)))
                }
                (None, None) => continue,
            };
        }
        self.at = self.at.max(inner.version);
        None
    }
}
