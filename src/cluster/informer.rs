//! Shared informers: one per feed, however many ask for it, each with the last version of every object of its feed and
//! a stream of what changes. What client-go calls a shared informer factory, for every kind of object there is.
//!
//! # The contract
//!
//! **One informer, one watch.** There is one informer per (resource, scope, selectors) in a [`Factory`]; asking again
//! gives the same one, and it makes one watch on the server, whoever reads along. It runs from [`Factory::start`] until
//! [`Informer::stop`], [`Factory::remove`] or [`Factory::shut_down`]; that all handles are dropped does not end it.
//!
//! **In sync.** [`Informer::wait_for_sync`] returns when the store holds a whole list of the collection and the watch
//! that goes on from it is open. How old that list is depends on the start:
//!
//! - After a first start it was asked for in this run, so what the store does not hold was not there at the start.
//! - After a start on the file of an earlier run nothing is listed. The store holds the collection as it was when that
//!   run ended, and what has happened since follows as changes, one by one and in order.
//!
//! Who needs to know that what happened meanwhile is in the store too waits for [`Informer::caught_up`]: it returns when
//! the store holds everything that the cluster had when it was called, also later on, for example after a write of one's
//! own. [`super::controller::Controller`] does so before it starts its workers.
//!
//! **Changes.** [`Informer::subscribe`] gives `Added` for every object there is, then each change.
//!
//! - *Ordered*: the changes of one object, in the order in which they happened. Each step begins where the last one
//!   ended: `Updated { old, .. }` has the `new` of the step before.
//! - *Not ordered*: changes of different objects among each other, and those of different informers.
//! - *May be skipped*: states between two that are told. By a subscriber that is slow ([`Subscription`] says how much);
//!   by everyone when a connection, a server or this program was away for longer than the server keeps history: then a
//!   list shows what became of each object, in one step. Objects that came and went meanwhile were never seen.
//!   A write that changes nothing but the resourceVersion is an `Updated` with equal content, and may be skipped too.
//! - *Never*: a change told twice; a step back to an older state; the last state left out; a `Deleted` for an object that
//!   is there, for a list that did not end or a server that does not answer. One exception: a server that was restored
//!   from a backup has gone back, and so does what is told of it.
//! - `Deleted { certain: false }` means that a list did not name the object any more; `last` is then the last state
//!   that was seen. Same name with another uid is a `Deleted` and an `Added`.
//! - Each subscriber runs at its own speed and delays nobody. Dropping a [`Subscription`] ends it. After the end of an
//!   informer it gives out what is left, then `None`.
//!
//! **Reading.** [`Informer::lister`] reads committed state: a change that was given out is in it, or a later one is.
//! What is read is redacted; it is the reader's own, and changing it changes nothing else. Readers never hold up the
//! writer.
//!
//! **Trouble.** An informer never gives up and never fails because of the server: it backs off, says why in
//! [`Informer::status`], and goes on by itself. One that ends though nobody stopped it is a bug or a closed store, and
//! resolves [`Factory::broken`]. An object that cannot be read is counted and left as it was; the rest goes on.
//!
//! **Resync.** There is no replay of the store to its subscribers. What a resync is there to heal is looked for: the
//! periodic audit compares a consistent list with the store, tells what a watch has missed, and counts it. Zero is what
//! to expect.

mod audit;
mod gate;
mod lister;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use self::gate::Gated;
pub use self::{
    audit::Audits,
    gate::Gate,
    lister::{Lister, ReadError},
};
use super::{
    Feed,
    discovery::Trigger,
    ear::Ear,
    reflector::{self, Freshness, Reflector, Status},
    source::Source,
    store::{FeedId, Store},
};
pub use super::{
    reflector::Closed,
    store::{Close, Delta, Index, Selector, Subscription},
};
use crate::redact::Door;

#[derive(Clone, Debug)]
pub struct Settings {
    pub reflector: reflector::Settings,
    /// Lists at once, over all informers.
    pub lists: usize,
    /// How often each informer's store is compared with a list, give or take a fifth. `None`: never.
    pub audit: Option<Duration>,
    /// Deltas that a slow subscriber may be behind before those of the same object are merged.
    pub merge_beyond: usize,
    /// Read on a thread of their own, which takes a stream of changes in turns of a tenth of a second: for a service that
    /// counts its cycles. They run until [`Factory::shut_down`], whatever becomes of the caller's runtime. Otherwise on the
    /// runtime that [`Factory::start`] is called on, each change as it comes.
    pub in_turns: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { reflector: reflector::Settings::default(), lists: 4, audit: None, merge_beyond: 1024, in_turns: false }
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
    ear: Option<Ear>,
    stop: CancellationToken,
    broken: watch::Sender<Option<String>>,
    gate: Mutex<Option<Arc<dyn Gate>>>,
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
        let shared = reflector::Shared::new(settings.lists, discovery);
        let inner = Inner {
            source,
            door,
            store,
            reflector: Arc::new(settings.reflector.clone()),
            ear: settings.in_turns.then(|| ear(&shared)).flatten(),
            shared,
            settings,
            informers: Mutex::default(),
            tasks: Mutex::default(),
            stop: CancellationToken::new(),
            broken: watch::Sender::new(None),
            gate: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Who is asked about what informers read that are started from now on.
    pub fn set_gate(&self, gate: Arc<dyn Gate>) {
        *lock(&self.inner.gate) = Some(gate);
    }

    /// The informer of a feed. It runs from the next [`Factory::start`] on; indexes can be added until then.
    pub fn informer(&self, feed: Feed) -> Informer {
        let mut informers = lock(&self.inner.informers);
        informers.entry(feed.key()).or_insert_with(|| Informer::new(feed, &self.inner)).clone()
    }

    pub(super) fn source(&self) -> Arc<dyn Source> {
        self.inner.source.clone()
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

    /// Waits until every informer has [`Informer::caught_up`].
    pub async fn caught_up(&self) -> Result<(), Closed> {
        let informers = self.informers();
        futures::future::try_join_all(informers.iter().map(Informer::caught_up)).await.map(drop)
    }

    /// Stops an informer and says what becomes of its objects. When it returns the informer is over, and one of the same
    /// feed that is made after it goes on exactly where this one was.
    pub async fn remove(&self, feed: &Feed, how: Close) -> Result<(), Closed> {
        let Some(informer) = lock(&self.inner.informers).remove(&feed.key()) else { return Ok(()) };
        informer.shared.stop.cancel();
        if !*lock(&informer.shared.started) {
            return Ok(());
        }
        // What it still puts has to come before the end of its feed, not after it.
        informer.shared.ended.cancelled().await;
        match informer.id() {
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
    /// Its task is over, however it ended.
    ended: CancellationToken,
    open: watch::Sender<Option<Open>>,
    status: watch::Sender<Status>,
    audits: watch::Sender<Audits>,
}

#[derive(Clone)]
struct Open {
    id: FeedId,
    synced: watch::Receiver<bool>,
    freshness: Freshness,
}

/// Why an index was not added.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// Indexes are part of what the store keeps: they cannot come later.
    #[error("the informer runs already; add indexes before it is started")]
    Started,
    #[error("the informer has an index \"{0}\" already")]
    Taken(String),
}

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
            ended: CancellationToken::new(),
            open: watch::Sender::new(None),
            status: watch::Sender::new(Status::default()),
            audits: watch::Sender::new(Audits::default()),
        };
        Self { shared: Arc::new(shared) }
    }

    pub fn feed(&self) -> &Feed {
        &self.shared.feed
    }

    /// Whether both are handles on the same one.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Its feed in the store, once that is open.
    pub fn id(&self) -> Option<FeedId> {
        self.shared.open.borrow().as_ref().map(|open| open.id)
    }

    /// Objects are found under the values of this index, see [`Lister::by_index`]. Whoever shares the informer shares
    /// its indexes.
    pub fn add_index(&self, index: Index) -> Result<(), IndexError> {
        let started = lock(&self.shared.started);
        if *started {
            return Err(IndexError::Started);
        }
        let mut indexes = lock(&self.shared.indexes);
        if indexes.iter().any(|other| other.name == index.name) {
            return Err(IndexError::Taken(index.name));
        }
        indexes.push(index);
        Ok(())
    }

    /// Says that the resource itself is new, so that the objects of its first list are news too.
    pub fn first_list_is_news(&self) {
        *lock(&self.shared.news) = true;
    }

    /// Returns when the store holds a whole list of the collection, of this run or one before, and the watch that goes
    /// on from it is open. Fails when the informer ended before.
    pub async fn wait_for_sync(&self) -> Result<(), Closed> {
        let mut synced = self.opened().await?.synced;
        let mut status = self.shared.status.subscribe();
        let all = async {
            synced.wait_for(|synced| *synced).await.map_err(|_| Closed)?;
            status.wait_for(|status| status.synced).await.map_err(|_| Closed)?;
            Ok(())
        };
        self.unless_stopped(all).await
    }

    /// Returns when the store holds everything that the server had when this was called, and subscribers have been
    /// given it: also a write of one's own. Costs a list of one object, and takes some seconds where others write to the
    /// cluster; where the server sends no bookmarks it costs a whole list. Fails when the informer ended before.
    pub async fn caught_up(&self) -> Result<(), Closed> {
        let freshness = self.opened().await?.freshness;
        self.unless_stopped(freshness.caught_up()).await?;
        // What the reflector has put so far is committed with this, and told.
        self.shared.store.write(Box::new(|_| Ok(()))).await
    }

    /// Returns when the store holds a whole list of the collection, however old, whether or not the server answers.
    pub(super) async fn listed(&self) -> Result<(), Closed> {
        let mut synced = self.opened().await?.synced;
        self.unless_stopped(async { synced.wait_for(|synced| *synced).await.map(drop).map_err(|_| Closed) }).await
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
        let indexes = lock(&self.shared.indexes).iter().map(|index| index.name.clone()).collect();
        Ok(Lister { feed: open.id, reader, indexes })
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
        let found = async { open.wait_for(Option::is_some).await.ok().and_then(|open| open.clone()).ok_or(Closed) };
        self.unless_stopped(found).await
    }

    /// What is so already is so after the end as well, whoever brought that about.
    async fn unless_stopped<T>(&self, done: impl Future<Output = Result<T, Closed>>) -> Result<T, Closed> {
        tokio::select! {
            biased;
            done = done => done,
            () = self.shared.stop.cancelled() => Err(Closed),
            () = self.shared.ended.cancelled() => Err(Closed),
        }
    }

    fn start(&self, factory: &Arc<Inner>, tasks: &mut JoinSet<()>) {
        if std::mem::replace(&mut *lock(&self.shared.started), true) {
            return;
        }
        let (informer, factory) = (self.clone(), factory.clone());
        let span = tracing::info_span!("informer", feed = %self.shared.feed);
        let ended = self.shared.ended.clone().drop_guard();
        let ear = factory.ear.as_ref().map(|ear| ear.handle().clone());
        let run = async move {
            let _ended = ended;
            let mut unexpected = Unexpected { broken: &factory.broken, feed: &informer.shared.feed, armed: true };
            let result = informer.run(&factory).await;
            unexpected.armed = result.is_err() && !informer.shared.stop.is_cancelled();
        };
        match ear {
            Some(ear) => tasks.spawn_on(run.instrument(span), &ear),
            None => tasks.spawn(run.instrument(span)),
        };
    }

    async fn run(&self, factory: &Inner) -> Result<(), Closed> {
        let shared = &self.shared;
        let indexes = lock(&shared.indexes).clone();
        let news = *lock(&shared.news);
        let target = factory.store.feed(shared.feed.clone(), indexes, news).await?;
        let (id, synced) = (target.id(), target.synced());
        let reader = reflector::Reader {
            source: factory.source.clone(),
            feed: Arc::new(shared.feed.clone()),
            door: factory.door.clone(),
            shared: factory.shared.clone(),
            settings: factory.reflector.clone(),
        };
        let gated = Gated { target, feed: reader.feed.clone(), gate: lock(&factory.gate).clone() };
        let reflector: Reflector<Gated> = Reflector::telling(reader.clone(), gated, shared.status.clone());
        shared.open.send_replace(Some(Open { id, synced, freshness: reflector.freshness() }));
        tokio::select! {
            ended = reflector.run(shared.stop.clone()) => ended.map(drop),
            ended = self.audit_regularly(factory, &reader, id) => ended,
        }
    }
}

fn ear(shared: &reflector::Shared) -> Option<Ear> {
    let started = Ear::start(shared.heard().clone());
    started.inspect_err(|error| tracing::warn!(%error, "no thread for the watches: they are read with all else")).ok()
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
