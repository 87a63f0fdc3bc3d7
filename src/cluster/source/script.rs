//! A source that does as it is told, for tests and benches: every answer is written down beforehand, every request is
//! kept. [`world::World`] is the other kind, a small server with real semantics.

pub mod world;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};

use super::{Discovered, Error, Frame, Frames, List, Page, Source, Watch};
use crate::cluster::{Feed, Resource, Version};

/// What was asked of the source, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Discover,
    List { feed: String, list: List },
    Watch { feed: String, watch: Watch },
}

/// What a watch does after its frames.
#[derive(Clone, Debug)]
pub enum End {
    /// The server ends it.
    Close,
    Fail(Error),
    /// Nothing comes any more.
    Hang,
}

type ListAnswer = Box<dyn FnOnce(&List) -> BoxFuture<'static, Result<Page, Error>> + Send>;
type WatchAnswer = Box<dyn FnOnce(&Watch) -> BoxFuture<'static, Result<Frames, Error>> + Send>;

#[derive(Default)]
struct Answers {
    lists: VecDeque<ListAnswer>,
    watches: VecDeque<WatchAnswer>,
}

/// Answers by [`Feed::key`]. A list that nobody wrote down fails with 500; a watch that nobody wrote down hangs; asking
/// what is served again gives the last answer again.
#[derive(Clone, Default)]
pub struct Script(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    answers: HashMap<String, Answers>,
    discovered: VecDeque<Result<Discovered, Error>>,
    last_discovered: Option<Result<Discovered, Error>>,
    requests: Vec<Request>,
}

impl Script {
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn discovers(&self, answer: Result<Discovered, Error>) -> &Self {
        self.lock().discovered.push_back(answer);
        self
    }

    pub fn lists(&self, feed: &Feed, answer: Result<Page, Error>) -> &Self {
        self.lists_with(feed, move |_| async move { answer }.boxed())
    }

    /// A list whose answer depends on the request or takes its time.
    pub fn lists_with(
        &self,
        feed: &Feed,
        answer: impl FnOnce(&List) -> BoxFuture<'static, Result<Page, Error>> + Send + 'static,
    ) -> &Self {
        self.lock().answers.entry(feed.key()).or_default().lists.push_back(Box::new(answer));
        self
    }

    /// A watch that opens, gives its frames at once, and ends as said.
    pub fn watches(&self, feed: &Feed, frames: Vec<Frame>, end: End) -> &Self {
        self.watches_with(feed, move |_| {
            let frames = stream::iter(frames.into_iter().map(Ok));
            let end = match end {
                End::Close => stream::empty().boxed(),
                End::Fail(error) => stream::iter([Err(error)]).boxed(),
                End::Hang => stream::pending().boxed(),
            };
            async move { Ok(frames.chain(end).boxed()) }.boxed()
        })
    }

    /// A watch that does not open.
    pub fn refuses_watch(&self, feed: &Feed, error: Error) -> &Self {
        self.watches_with(feed, move |_| async move { Err(error) }.boxed())
    }

    pub fn watches_with(
        &self,
        feed: &Feed,
        answer: impl FnOnce(&Watch) -> BoxFuture<'static, Result<Frames, Error>> + Send + 'static,
    ) -> &Self {
        self.lock().answers.entry(feed.key()).or_default().watches.push_back(Box::new(answer));
        self
    }

    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.clone()
    }
}

impl Source for Script {
    fn discover(&self) -> BoxFuture<'_, Result<Discovered, Error>> {
        let mut inner = self.lock();
        inner.requests.push(Request::Discover);
        if let Some(answer) = inner.discovered.pop_front() {
            inner.last_discovered = Some(answer);
        }
        let answer = inner.last_discovered.clone().unwrap_or_else(|| Ok(Discovered::default()));
        async move { answer }.boxed()
    }

    fn list<'a>(&'a self, feed: &'a Feed, list: &'a List) -> BoxFuture<'a, Result<Page, Error>> {
        let mut inner = self.lock();
        inner.requests.push(Request::List { feed: feed.key(), list: list.clone() });
        match inner.answers.entry(feed.key()).or_default().lists.pop_front() {
            Some(answer) => answer(list),
            None => {
                let error = Error::Server { code: 500, message: "no list was written down".into() };
                async move { Err(error) }.boxed()
            }
        }
    }

    fn watch<'a>(&'a self, feed: &'a Feed, watch: &'a Watch) -> BoxFuture<'a, Result<Frames, Error>> {
        let mut inner = self.lock();
        inner.requests.push(Request::Watch { feed: feed.key(), watch: watch.clone() });
        match inner.answers.entry(feed.key()).or_default().watches.pop_front() {
            Some(answer) => answer(watch),
            None => async { Ok(stream::pending().boxed()) }.boxed(),
        }
    }
}

/// A page of a list.
pub fn page(version: &str, continue_token: Option<&str>, items: impl IntoIterator<Item = Bytes>) -> Page {
    Page {
        items: items.into_iter().collect(),
        version: Version::from(version),
        continue_token: continue_token.map(str::to_owned),
    }
}

/// A bookmark within a watch.
pub fn bookmark(version: &str) -> Frame {
    Frame::Bookmark { version: Version::from(version), initial_events_end: false }
}

/// The bookmark that ends a streaming list.
pub fn initial_events_end(version: &str) -> Frame {
    Frame::Bookmark { version: Version::from(version), initial_events_end: true }
}

/// Any number of objects of one resource, made as they are asked for: what a million objects cost is the reader's own.
pub struct Many<F> {
    pub resource: Resource,
    pub count: u64,
    /// The object with this number, in the order of its key.
    pub object: F,
    /// The version of the list, above that of every object.
    pub version: Version,
    pub lists: AtomicU64,
}

impl<F: Fn(u64) -> Bytes + Clone + Send + Sync + 'static> Many<F> {
    pub fn new(resource: Resource, count: u64, object: F) -> Self {
        Self { resource, count, object, version: Version((count + 1_000_000).to_string()), lists: AtomicU64::new(0) }
    }
}

impl<F: Fn(u64) -> Bytes + Clone + Send + Sync + 'static> Source for Many<F> {
    fn discover(&self) -> BoxFuture<'_, Result<Discovered, Error>> {
        let discovered = Discovered { resources: vec![self.resource.clone()], unavailable: Vec::new() };
        async move { Ok(discovered) }.boxed()
    }

    fn list<'a>(&'a self, _feed: &'a Feed, list: &'a List) -> BoxFuture<'a, Result<Page, Error>> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        let from = list.continue_token.as_deref().and_then(|token| token.parse().ok()).unwrap_or(0);
        let to = if list.limit == 0 { self.count } else { self.count.min(from + u64::from(list.limit)) };
        let page = Page {
            items: (from..to).map(&self.object).collect(),
            version: self.version.clone(),
            continue_token: (to < self.count).then(|| to.to_string()),
        };
        async move { Ok(page) }.boxed()
    }

    /// A streaming list gives all objects; a watch from a version hangs until its time is over.
    fn watch<'a>(&'a self, _feed: &'a Feed, watch: &'a Watch) -> BoxFuture<'a, Result<Frames, Error>> {
        let timeout = watch.timeout;
        let end = stream::once(tokio::time::sleep(timeout)).filter_map(|()| async { None });
        let frames = if watch.initial_events {
            let object = self.object.clone();
            stream::iter(0..self.count)
                .map(move |number| Ok(Frame::Added(object(number))))
                .chain(stream::iter([Ok(initial_events_end(self.version.as_str()))]))
                .chain(end)
                .boxed()
        } else {
            end.boxed()
        };
        async move { Ok(frames) }.boxed()
    }
}
