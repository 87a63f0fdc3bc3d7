//! The reflector against scripts of faults, in paused time. The cases are those that client-go's rules come from.

mod faults;
mod fresh;
mod lists;
mod model;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::Bytes;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::cluster::{
    Feed, Resource, Scope,
    source::{
        Source,
        script::{Request, Script},
    },
};
use crate::redact::Door;

pub(super) fn pods() -> Resource {
    Resource {
        group: String::new(),
        version: "v1".into(),
        plural: "pods".into(),
        singular: "pod".into(),
        kind: "Pod".into(),
        short_names: vec!["po".into()],
        namespaced: true,
    }
}

fn feed() -> Feed {
    Feed::new(pods(), Scope::All)
}

/// A pod in the namespace `ns`.
fn pod(name: &str, version: u32) -> Bytes {
    Bytes::from(format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"ns","uid":"u-{name}","resourceVersion":"{version}"}},"spec":{{}}}}"#
    ))
}

/// What a target keeps: the objects by name with their versions, and what was put, in words.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) cursor: Option<Version>,
    pub(super) objects: BTreeMap<String, String>,
    pub(super) log: Vec<String>,
    /// What an unfinished list has named so far.
    named: Option<BTreeSet<String>>,
}

/// A target that keeps to the contract of [`Update`], and to that of a store: an old version of an object is no news.
#[derive(Clone, Default)]
pub(super) struct Map(Arc<Mutex<Kept>>);

impl Map {
    pub(super) fn at(cursor: &str) -> Self {
        let map = Self::default();
        map.lock().cursor = Some(cursor.into());
        map
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap()
    }

    fn log(&self) -> Vec<String> {
        self.lock().log.clone()
    }
}

impl Kept {
    /// As a store does that is opened again: an unfinished list is forgotten.
    fn restart(&mut self) {
        self.named = None;
        self.log.push("restart".into());
    }

    fn take(&mut self, document: &Document) -> String {
        let meta = document.meta();
        self.objects.insert(meta.name.clone(), meta.version.0.clone());
        if let Some(named) = &mut self.named {
            named.insert(meta.name.clone());
        }
        format!("{}@{}", meta.name, meta.version)
    }

    fn put(&mut self, update: Update) {
        let words = match update {
            Update::ListBegan => {
                self.named = Some(BTreeSet::new());
                "list".into()
            }
            Update::Listed(documents) => {
                let names: Vec<_> = documents.iter().map(|document| self.take(document)).collect();
                format!("listed {}", names.join(" "))
            }
            Update::ListEnded(version) => {
                let named = self.named.take().expect("a list began");
                self.objects.retain(|name, _| named.contains(name));
                self.cursor = Some(version.clone());
                format!("ended {version}")
            }
            Update::Applied(document) => {
                assert!(self.named.is_none(), "a change inside a list");
                self.cursor = Some(document.meta().version.clone());
                format!("applied {}", self.take(&document))
            }
            Update::Deleted(document) => {
                let meta = document.meta();
                self.objects.remove(&meta.name);
                match &mut self.named {
                    Some(named) => {
                        named.remove(&meta.name);
                    }
                    None => self.cursor = Some(meta.version.clone()),
                }
                format!("deleted {}@{}", meta.name, meta.version)
            }
            Update::Unreadable { name, version, deleted, .. } => {
                match &mut self.named {
                    Some(named) => {
                        named.insert(name.clone());
                    }
                    None => self.cursor = Some(version.clone()),
                }
                format!("unreadable {name}@{version}{}", if deleted { " deleted" } else { "" })
            }
            Update::Bookmark(version) => {
                self.cursor = Some(version.clone());
                format!("at {version}")
            }
        };
        self.log.push(words);
    }
}

impl Target for Map {
    fn cursor(&self) -> Option<Version> {
        self.lock().cursor.clone()
    }

    async fn put(&mut self, update: Update) -> Result<(), Closed> {
        self.lock().put(update);
        Ok(())
    }
}

/// A reflector that runs until this is dropped.
pub(super) struct Running {
    pub(super) status: watch::Receiver<Status>,
    pub(super) task: JoinHandle<Result<Map, Closed>>,
    pub(super) stop: DropGuard,
}

pub(super) fn run(source: impl Source, feed: Feed, map: &Map) -> Running {
    run_with(source, feed, map, Settings::default(), Shared::new(4, None))
}

pub(super) fn reader(source: impl Source, feed: Feed, settings: Settings, shared: Arc<Shared>) -> Reader {
    Reader {
        source: Arc::new(source),
        feed: Arc::new(feed),
        door: Arc::new(Door::new(&Default::default(), &[7; 32]).unwrap()),
        shared,
        settings: Arc::new(settings),
    }
}

pub(super) fn run_with(source: impl Source, feed: Feed, map: &Map, settings: Settings, shared: Arc<Shared>) -> Running {
    let reflector = Reflector::new(reader(source, feed, settings, shared), map.clone());
    let status = reflector.status();
    let stop = CancellationToken::new();
    let task = tokio::spawn(reflector.run(stop.clone()));
    Running { status, task, stop: stop.drop_guard() }
}

impl Running {
    fn now(&self) -> Status {
        self.status.borrow().clone()
    }
}

/// Waits in paused time until something holds; fails after two hours of it.
pub(super) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..72_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never came true: {what}");
}

/// The requests in short: `list`, `page TOKEN`, `stream`, `watch VERSION`.
fn asked(script: &Script) -> Vec<String> {
    let short = |request| match request {
        Request::Discover => "discover".into(),
        Request::List { list, .. } if list.limit == 0 => "list whole".into(),
        Request::List { list, .. } => list.continue_token.map_or("list".into(), |token| format!("page {token}")),
        Request::Watch { watch, .. } if watch.initial_events => "stream".into(),
        Request::Watch { watch, .. } => format!("watch {}", watch.version),
    };
    script.requests().into_iter().map(short).collect()
}

/// A script that knows no streaming lists.
fn paged() -> (Script, Feed) {
    let (script, feed) = (Script::new(), feed());
    script.refuses_watch(&feed, Error::Invalid("sendInitialEvents is forbidden".into()));
    (script, feed)
}
