//! Shared informers: one per feed, however many ask for it, each with the last version of every object of its feed and
//! a stream of what changes.
//!
//! # The contract
//!
//! - There is one informer per (resource, scope, selectors) in a [`Factory`]; asking again gives the same one. It makes
//!   one watch on the server, whoever reads along.
//! - [`Informer::wait_for_sync`] returns when the store holds everything that the server had when the informer started.
//! - [`Informer::subscribe`] gives `Added` for every object there is, then each change: per object in order, none
//!   missing, none twice. A subscriber runs at its own speed; see [`Subscription`] for what is merged when it is slow.
//! - `Deleted { certain: false }` means that a list did not name the object any more; `last` is then the last state
//!   that was seen. Same name with another uid is a `Deleted` and an `Added`.
//! - [`Informer::lister`] reads committed state: a delta that was given out is in it.
//! - What is read is redacted; it is the reader's own, and changing it changes nothing else.
//! - Changes that a cut connection, a restart or a compaction kept back are found and told as one step from the last
//!   known state. The periodic audit compares a consistent list with the store and tells what a watch missed; zero is
//!   what to expect.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

pub use super::store::{Close, Delta, Index, Selector, Subscription};
use super::{
    Feed,
    discovery::Trigger,
    reflector::{self, Closed, Phase, Reflector, Status, Update},
    source::Source,
    store::{Audit, AuditList, Audited, FeedId, FeedTarget, Store},
};
use crate::redact::{Document, Door};

#[derive(Clone, Debug)]
pub struct Settings {
    pub reflector: reflector::Settings,
    /// Lists at once, over all informers.
    pub lists: usize,
    /// How often each informer's store is compared with a list, give or take a fifth. `None`: never.
    pub audit: Option<Duration>,
    /// Deltas that a slow subscriber may be behind before those of the same object are merged.
    pub merge_beyond: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { reflector: reflector::Settings::default(), lists: 4, audit: None, merge_beyond: 1024 }
    }
}

/// Makes informers and runs them. Clones share them.
#[derive(Clone)]
pub struct Factory {
    inner: Arc<Inner>,
}

struct Inner {
    source: Arc<dyn Source>,
    door: Arc<Door>,
    store: Store,
    settings: Settings,
    reflector: Arc<reflector::Settings>,
    shared: Arc<reflector::Shared>,
    informers: Mutex<HashMap<String, Informer>>,
    tasks: Mutex<JoinSet<()>>,
    stop: CancellationToken,
    broken: watch::Sender<Option<String>>,
}

impl Factory {
    /// `discovery` is told when a resource turns out not to be served any more.
    pub fn new(
        source: Arc<dyn Source>,
        door: Arc<Door>,
        store: Store,
        settings: Settings,
        discovery: Option<Trigger>,
    ) -> Self {
        let inner = Inner {
            source,
            door,
            store,
            reflector: Arc::new(settings.reflector.clone()),
            shared: reflector::Shared::new(settings.lists, discovery),
            settings,
            informers: Mutex::default(),
            tasks: Mutex::default(),
            stop: CancellationToken::new(),
            broken: watch::Sender::new(None),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The informer of a feed. It runs from the next [`Factory::start`] on; indexes can be added until then.
    pub fn informer(&self, feed: Feed) -> Informer {
        let mut informers = lock(&self.inner.informers);
        informers.entry(feed.key()).or_insert_with(|| Informer::new(feed, &self.inner)).clone()
    }

    pub fn informers(&self) -> Vec<Informer> {
        lock(&self.inner.informers).values().cloned().collect()
    }

    /// Starts every informer that does not run yet.
    pub fn start(&self) {
        let mut tasks = lock(&self.inner.tasks);
        for informer in lock(&self.inner.informers).values() {
            informer.start(&self.inner, &mut tasks);
        }
        while tasks.try_join_next().is_some() {}
    }

    /// Waits until every informer is in sync.
    pub async fn wait_for_sync(&self) -> Result<(), Closed> {
        for informer in self.informers() {
            informer.wait_for_sync().await?;
        }
        Ok(())
    }

    /// Stops an informer and says what becomes of its objects.
    pub async fn remove(&self, feed: &Feed, how: Close) -> Result<(), Closed> {
        let Some(informer) = lock(&self.inner.informers).remove(&feed.key()) else { return Ok(()) };
        informer.shared.stop.cancel();
        match informer.opened_or_stopped().await {
            Some(id) => self.inner.store.close(id, how).await,
            None => Ok(()),
        }
    }

    /// Resolves when an informer ended that nobody stopped, with the reason. That is a bug or a closed store.
    pub async fn broken(&self) -> String {
        let mut broken = self.inner.broken.subscribe();
        let why = broken.wait_for(Option::is_some).await.map(|why| why.clone());
        why.ok().flatten().unwrap_or_default()
    }

    /// Stops all informers and waits for them. What they stored stays, and they go on from there next time.
    pub async fn shut_down(&self) {
        self.inner.stop.cancel();
        let mut tasks = std::mem::take(&mut *lock(&self.inner.tasks));
        while tasks.join_next().await.is_some() {}
        lock(&self.inner.informers).clear();
    }
}

/// One feed, read once for everyone. Clones share it.
#[derive(Clone)]
pub struct Informer {
    shared: Arc<SharedInformer>,
}

struct SharedInformer {
    feed: Feed,
    store: Store,
    merge_beyond: usize,
    indexes: Mutex<Vec<Index>>,
    news: Mutex<bool>,
    started: Mutex<bool>,
    stop: CancellationToken,
    open: watch::Sender<Option<Open>>,
    status: watch::Sender<Status>,
    audits: watch::Sender<Audits>,
}

#[derive(Clone)]
struct Open {
    id: FeedId,
    synced: watch::Receiver<bool>,
}

/// What the audits of an informer found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audits {
    pub done: u64,
    /// Lists that failed, and watches that did not come as far in time.
    pub undecided: u64,
    /// Changes that a watch had missed. Zero is what to expect.
    pub missed: u64,
}

/// Indexes are part of what the store keeps: they cannot come later.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the informer runs already; add indexes before it is started")]
pub struct Started;

impl Informer {
    fn new(feed: Feed, factory: &Inner) -> Self {
        let shared = SharedInformer {
            feed,
            store: factory.store.clone(),
            merge_beyond: factory.settings.merge_beyond,
            indexes: Mutex::default(),
            news: Mutex::default(),
            started: Mutex::default(),
            stop: factory.stop.child_token(),
            open: watch::Sender::new(None),
            status: watch::Sender::new(Status::default()),
            audits: watch::Sender::new(Audits::default()),
        };
        Self { shared: Arc::new(shared) }
    }

    pub fn feed(&self) -> &Feed {
        &self.shared.feed
    }

    /// Its feed in the store, once that is open.
    pub fn id(&self) -> Option<FeedId> {
        self.shared.open.borrow().as_ref().map(|open| open.id)
    }

    pub fn add_index(&self, index: Index) -> Result<(), Started> {
        let started = lock(&self.shared.started);
        if *started {
            return Err(Started);
        }
        lock(&self.shared.indexes).push(index);
        Ok(())
    }

    /// Says that the resource itself is new, so that the objects of its first list are news too.
    pub fn first_list_is_news(&self) {
        *lock(&self.shared.news) = true;
    }

    /// Returns when the store holds what the server had when the informer started. Fails when the informer ended.
    pub async fn wait_for_sync(&self) -> Result<(), Closed> {
        let mut synced = self.opened().await?.synced;
        let mut status = self.shared.status.subscribe();
        let all = async {
            synced.wait_for(|synced| *synced).await.map_err(|_| Closed)?;
            status.wait_for(|status| status.synced).await.map_err(|_| Closed)?;
            Ok(())
        };
        tokio::select! {
            done = all => done,
            () = self.shared.stop.cancelled() => Err(Closed),
        }
    }

    pub fn has_synced(&self) -> bool {
        let stored = self.shared.open.borrow().as_ref().is_some_and(|open| *open.synced.borrow());
        stored && self.shared.status.borrow().synced
    }

    /// Every object there is, then each change.
    pub async fn subscribe(&self) -> Result<Subscription, Closed> {
        let open = self.opened().await?;
        self.shared.store.subscribe(open.id, self.shared.merge_beyond).await
    }

    /// Reads the stored objects. Waits until the store is open for them; call [`Informer::wait_for_sync`] for all.
    pub async fn lister(&self) -> Result<Lister, Closed> {
        let open = self.opened().await?;
        let reader = self.shared.store.reader().map_err(|_| Closed)?;
        Ok(Lister { feed: open.id, reader })
    }

    /// How its reflector is doing.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    pub fn audits(&self) -> Audits {
        self.shared.audits.borrow().clone()
    }

    /// Stops reading. Subscribers and listers stay with what is stored until the informer is removed from its factory.
    pub fn stop(&self) {
        self.shared.stop.cancel();
    }

    async fn opened(&self) -> Result<Open, Closed> {
        let mut open = self.shared.open.subscribe();
        tokio::select! {
            found = open.wait_for(Option::is_some) => found.ok().and_then(|open| open.clone()).ok_or(Closed),
            () = self.shared.stop.cancelled() => Err(Closed),
        }
    }

    /// The feed's id when it is open; `None` when it was stopped before it ever was.
    async fn opened_or_stopped(&self) -> Option<FeedId> {
        if !*lock(&self.shared.started) {
            return None;
        }
        let mut open = self.shared.open.subscribe();
        open.wait_for(Option::is_some).await.ok().and_then(|open| open.as_ref().map(|open| open.id))
    }

    fn start(&self, factory: &Arc<Inner>, tasks: &mut JoinSet<()>) {
        if std::mem::replace(&mut *lock(&self.shared.started), true) {
            return;
        }
        let (informer, factory) = (self.clone(), factory.clone());
        let span = tracing::info_span!("informer", feed = %self.shared.feed);
        tasks.spawn(
            async move {
                let mut unexpected = Unexpected { broken: &factory.broken, feed: &informer.shared.feed, armed: true };
                let result = informer.run(&factory).await;
                unexpected.armed = result.is_err() && !informer.shared.stop.is_cancelled();
            }
            .instrument(span),
        );
    }

    async fn run(&self, factory: &Inner) -> Result<(), Closed> {
        let shared = &self.shared;
        let indexes = std::mem::take(&mut *lock(&shared.indexes));
        let news = *lock(&shared.news);
        let target = factory.store.feed(shared.feed.clone(), indexes, news).await?;
        let id = target.id();
        shared.open.send_replace(Some(Open { id, synced: target.synced() }));
        let reader = reflector::Reader {
            source: factory.source.clone(),
            feed: Arc::new(shared.feed.clone()),
            door: factory.door.clone(),
            shared: factory.shared.clone(),
            settings: factory.reflector.clone(),
        };
        let reflector: Reflector<FeedTarget> = Reflector::new(reader.clone(), target);
        let mut seen = reflector.status();
        let relay = async {
            while seen.changed().await.is_ok() {
                shared.status.send_replace(seen.borrow_and_update().clone());
            }
            std::future::pending().await
        };
        tokio::select! {
            ended = reflector.run(shared.stop.clone()) => ended.map(drop),
            ended = self.audit_regularly(factory, &reader, id) => ended,
            () = relay => Ok(()),
        }
    }

    async fn audit_regularly(&self, factory: &Inner, reader: &reflector::Reader, id: FeedId) -> Result<(), Closed> {
        let Some(interval) = factory.settings.audit else { return std::future::pending().await };
        loop {
            tokio::time::sleep(interval.mul_f64(rand::random_range(0.8..1.2))).await;
            if self.shared.status.borrow().phase == Phase::Live {
                self.audit(reader, id).await?;
            }
        }
    }

    /// Lists, waits for the watch to come as far, compares. What the store lacks must be in two lists to be missed:
    /// it could be deleted in between.
    async fn audit(&self, reader: &reflector::Reader, id: FeedId) -> Result<(), Closed> {
        let mut absent_before = HashSet::new();
        for _ in 0..2 {
            let Some(found) = self.compare(reader, id, std::mem::take(&mut absent_before)).await? else {
                self.shared.audits.send_modify(|audits| audits.undecided += 1);
                return Ok(());
            };
            if found.missed > 0 {
                tracing::error!(
                    missed = found.missed,
                    "the audit found changes that the watch had missed; they are reported now"
                );
            }
            self.shared.audits.send_modify(|audits| audits.missed += found.missed);
            if found.absent.is_empty() {
                break;
            }
            absent_before.extend(found.absent);
        }
        self.shared.audits.send_modify(|audits| audits.done += 1);
        Ok(())
    }

    async fn compare(
        &self,
        reader: &reflector::Reader,
        id: FeedId,
        absent_before: HashSet<String>,
    ) -> Result<Option<Audited>, Closed> {
        /// Bookmarks come every minute.
        const CATCH_UP: Duration = Duration::from_secs(150);
        let stored = Mutex::new(self.shared.store.reader().map_err(|_| Closed)?);
        let mut listed = AuditList::default();
        let version = reader
            .list(|chunk| {
                let Some(chunk) = chunk else {
                    listed = AuditList::default();
                    return;
                };
                for document in chunk.documents {
                    let meta = document.meta();
                    let version = lock(&stored).version(id, &meta.namespace, &meta.name).ok().flatten();
                    listed.note(document, version.as_ref());
                }
                for unreadable in chunk.unreadable {
                    if let Update::Unreadable { namespace, name, .. } = unreadable {
                        listed.note_name(&namespace, &name);
                    }
                }
            })
            .await;
        let version = match version {
            Ok(version) => version,
            Err(error) => {
                tracing::warn!(%error, "the audit's list failed; the next one is due as usual");
                return Ok(None);
            }
        };
        let audit = Arc::new(Audit { version, listed, absent_before });
        let deadline = tokio::time::Instant::now() + CATCH_UP;
        while tokio::time::Instant::now() < deadline {
            if let Some(found) = self.shared.store.audit(id, audit.clone()).await? {
                return Ok(Some(found));
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(None)
    }
}

/// Tells the factory when a task ends that nobody stopped, a panic included.
struct Unexpected<'a> {
    broken: &'a watch::Sender<Option<String>>,
    feed: &'a Feed,
    armed: bool,
}

impl Drop for Unexpected<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.broken.send_replace(Some(format!("the informer of {} ended unexpectedly", self.feed)));
        }
    }
}

/// Reads the stored objects of one informer. Each read sees what is committed at that moment.
#[derive(Debug)]
pub struct Lister {
    feed: FeedId,
    reader: super::store::Reader,
}

impl Lister {
    /// `namespace` is `""` for cluster-scoped objects.
    pub fn get(&mut self, namespace: &str, name: &str) -> Result<Option<Document>, rusqlite::Error> {
        self.reader.get(self.feed, namespace, name)
    }

    pub fn list(&mut self, selector: &Selector) -> Result<Vec<Document>, rusqlite::Error> {
        self.reader.list(self.feed, selector)
    }

    /// All objects of one moment, a few in memory at a time.
    pub fn for_each(&mut self, each: impl FnMut(Document)) -> Result<(), rusqlite::Error> {
        self.reader.for_each(self.feed, each)
    }

    pub fn by_index(&mut self, index: &str, value: &str) -> Result<Vec<Document>, rusqlite::Error> {
        self.reader.by_index(self.feed, index, value)
    }

    pub fn count(&self) -> Result<u64, rusqlite::Error> {
        self.reader.count(self.feed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
