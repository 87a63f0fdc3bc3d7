//! What happened and who is still to be told, in the same file and the same transactions as the objects.
//!
//! | file | what it holds |
//! |---|---|
//! | [`record`] | a change in the store becomes an event and its deliveries, in the store's own transaction |
//! | [`namespaces`] | what namespaces say of themselves, before the store knows it |
//! | [`rows`] | events in their table and out of it again |
//! | [`recent`] | the newest events, so that sinks that keep up read nothing back |
//! | [`queue`] | whose turn it is: order per object, retries, bounded memory; pure |
//! | `seat` | what every worker stands on |
//! | `whole` | the object as an update left it, for sinks that want it whole |
//! | [`worker`] | one task a sink: send, retry, give up, acknowledge |
//! | [`chat`] | the same for chats, rolled up into messages |
//! | [`mark`] | what is delivered, in words that another replica understands; what it has delivered, taken off the list |
//! | `leave` | how sinks come to their end when the configuration changes |
//! | [`lead`] | whether this replica may send, and until when |
//! | [`dead`] | what could not be delivered: listed, tried again |
//! | [`silences`] | what people asked not to be told for a while |
//! | [`search`] | the index that history is searched by |
//! | [`absence`] | when nobody watched |
//! | [`tally`] | how many events there are, so that nobody has to count them |
//! | [`retention`] | what is forgotten, when, and the space given back |
//! | [`count`] | what was recorded, suppressed, delivered, lost; how each sink is |
//!
//! Promises: a change that the store knows of is recorded with it or not at all; every recorded delivery is made at
//! least once or becomes a dead letter with a reason; deliveries of one object to one sink keep their order; no sink
//! waits for another; a sink that is new begins with new events.

pub mod absence;
pub mod chat;
pub mod count;
pub mod dead;
pub mod lead;
mod leave;
pub mod mark;
pub mod namespaces;
pub mod queue;
pub mod recent;
pub mod record;
pub mod retention;
pub mod rows;
pub mod search;
mod seat;
pub mod silences;
pub mod tally;
mod whole;
pub mod worker;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Arc, LazyLock, PoisonError, RwLock},
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::{
    count::Counts,
    leave::{Advance, Leaving},
    recent::Recent,
};
pub use self::{
    count::{Lost, SinkCounts, Suppressed},
    lead::Lead,
    mark::Mark,
    record::Recorder,
};
use crate::{
    cluster::{Resource, reflector::Closed, store::Store},
    diff::Keys,
    event::{Cluster, Event, Redacted},
    route::{self, Decision, Silencing},
    sink::{self, Built},
};

/// Which sinks an event goes to. A name that no running sink has is passed over.
pub type Route = Arc<dyn Fn(&Event, &Around) -> Decision + Send + Sync>;

/// What routes may ask of an event's surroundings.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// Of the object as it is now, or as it was last seen.
    pub annotations: BTreeMap<String, String>,
    pub namespace_labels: BTreeMap<String, String>,
    pub namespace_annotations: BTreeMap<String, String>,
    /// Those that were made while kubediff ran.
    pub silences: Arc<Vec<Silencing>>,
}

impl Around {
    pub fn context(&self, now: jiff::Timestamp) -> route::Context<'_> {
        route::Context {
            now,
            annotations: &self.annotations,
            namespace_labels: &self.namespace_labels,
            namespace_annotations: &self.namespace_annotations,
            silences: &self.silences,
        }
    }
}

/// The list keys of a resource, as far as they are known now.
pub type KeysOf = Arc<dyn Fn(&Resource) -> Arc<Keys> + Send + Sync>;

/// Why delivery could not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Closed(#[from] Closed),
    #[error("the state file cannot be read: {0}")]
    Read(#[from] rusqlite::Error),
    #[error("sink {name}: {source}")]
    Build { name: String, source: sink::BuildError },
}

/// A handle on the ledger; clones share it.
#[derive(Clone)]
pub struct Ledger {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: Cluster,
    /// Changed as a whole by a reload; the recorder looks at it for every change.
    plan: RwLock<Arc<Plan>>,
    recent: Recent,
    counts: Counts,
    silences: RwLock<silences::Active>,
    /// The sequence number of the newest event that is committed.
    newest: tokio::sync::watch::Sender<i64>,
    lead: Lead,
    namespaces: Arc<namespaces::Namespaces>,
    /// Of the channels that chats write to.
    paces: chat::pace::Paces,
}

/// What the recorder goes by.
struct Plan {
    route: Option<Route>,
    keys: Option<KeysOf>,
    sinks: HashMap<Arc<str>, Slot>,
    /// What another replica has told: not to be told again.
    told: Option<Arc<mark::Mark>>,
}

/// A sink as the recorder sees it.
#[derive(Clone)]
struct Slot {
    id: i64,
    wake: Arc<seat::Wake>,
}

impl Ledger {
    /// A ledger, and the journal that the store is to be opened with.
    pub fn new(cluster: Cluster) -> (Self, Recorder) {
        let plan = Plan { route: None, keys: None, sinks: HashMap::new(), told: None };
        let shared = Arc::new(Shared {
            cluster,
            plan: RwLock::new(Arc::new(plan)),
            recent: Recent::default(),
            counts: Counts::default(),
            silences: RwLock::default(),
            newest: tokio::sync::watch::Sender::new(0),
            lead: Lead::default(),
            namespaces: Arc::default(),
            paces: chat::pace::Paces::default(),
        });
        (Self { shared: shared.clone() }, Recorder::new(shared))
    }

    /// Where events go from now on; without a route, everything to every sink.
    pub fn set_route(&self, route: Option<Route>) {
        self.replace_plan(|plan| plan.route = route);
    }

    /// What routes may ask of namespaces.
    pub fn namespaces(&self) -> Arc<namespaces::Namespaces> {
        self.shared.namespaces.clone()
    }

    pub fn set_keys(&self, keys: KeysOf) {
        self.replace_plan(|plan| plan.keys = Some(keys));
    }

    /// Begins to deliver. To be called before the first feed is opened: what is recorded earlier goes to no sink.
    pub async fn start(
        &self,
        store: Store,
        keep: retention::Keep,
        sinks: Vec<(sink::Settings, Built)>,
    ) -> Result<Delivery, Error> {
        let mut delivery = self.stand_by(store, keep, sinks).await?;
        delivery.lead()?;
        Ok(delivery)
    }

    /// The same without sending anything: what is to be delivered is recorded and waits for [`Delivery::lead`].
    pub async fn stand_by(
        &self,
        store: Store,
        keep: retention::Keep,
        sinks: Vec<(sink::Settings, Built)>,
    ) -> Result<Delivery, Error> {
        let mut delivery = Delivery {
            ledger: self.clone(),
            store,
            leading: false,
            running: HashMap::new(),
            leaving: HashMap::new(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
            ended: VecDeque::new(),
            upkeep: CancellationToken::new(),
        };
        self.shared.refresh_silences(delivery.store.reader()?.connection())?;
        let route = self.shared.plan().route.clone();
        delivery.set(sinks, route).await?;
        let upkeep = retention::run(delivery.store.clone(), self.shared.clone(), keep, delivery.upkeep.clone());
        let task = delivery.tasks.spawn(upkeep);
        delivery.names.insert(task.id(), UPKEEP.into());
        Ok(delivery)
    }

    /// Until when this replica may send; for ever, unless somebody says otherwise.
    pub fn lead(&self) -> &Lead {
        &self.shared.lead
    }

    /// Records an event that did not come from the store.
    pub async fn append(&self, store: &Store, event: Arc<Redacted>) -> Result<(), Closed> {
        record::append(&self.shared, store, event).await
    }

    /// The configured sinks, by name, with the ids that their rows have.
    pub fn sinks(&self) -> BTreeMap<Arc<str>, i64> {
        self.shared.plan().sinks.iter().map(|(name, slot)| (name.clone(), slot.id)).collect()
    }

    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Follows the newest committed sequence number: a reader of events looks again when it moves.
    pub fn newest(&self) -> tokio::sync::watch::Receiver<i64> {
        self.shared.newest.subscribe()
    }

    fn replace_plan(&self, change: impl FnOnce(&mut Plan)) {
        let mut plan = self.shared.plan.write().unwrap_or_else(PoisonError::into_inner);
        let Plan { route, keys, sinks, told } = &**plan;
        let mut new = Plan { route: route.clone(), keys: keys.clone(), sinks: sinks.clone(), told: told.clone() };
        change(&mut new);
        *plan = Arc::new(new);
    }
}

impl Shared {
    fn plan(&self) -> Arc<Plan> {
        self.plan.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Why a sink's worker came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to, and is done with what could be sent.
    Drained,
    /// Nobody reads its output any more; the program should end cleanly.
    Closed,
    /// The store has ended.
    StoreClosed,
    /// The state file could not be read, or there is a bug.
    Failed(String),
}

/// The running sinks; owned by whoever started them.
pub struct Delivery {
    ledger: Ledger,
    store: Store,
    running: HashMap<Arc<str>, Running>,
    leaving: HashMap<Arc<str>, Leaving>,
    tasks: JoinSet<Ended>,
    names: HashMap<tokio::task::Id, Arc<str>>,
    /// Ends that came while another worker's was waited for, and nobody was told of yet.
    ended: VecDeque<(Arc<str>, Ended)>,
    upkeep: CancellationToken,
    /// Whether the sinks have workers.
    leading: bool,
}

/// The name that the task has which is no sink.
const UPKEEP: &str = "(upkeep)";

struct Running {
    settings: sink::Settings,
    built: Built,
    slot: Slot,
    /// `None` on a standby.
    worker: Option<Worker>,
}

struct Worker {
    stop: seat::Stop,
    abort: tokio::task::AbortHandle,
}

impl Delivery {
    /// Makes exactly these sinks run, by this route, and returns when it is so. Those whose settings did not change are
    /// left alone; what waits for one that is gone is kept until it is back or too old.
    pub async fn set(&mut self, sinks: Vec<(sink::Settings, Built)>, route: Option<Route>) -> Result<(), Error> {
        self.exchange(sinks, route).await?;
        while !self.leaving.is_empty() {
            match self.advance().await {
                Advance::Moved => {}
                Advance::Ended(name, ended) => self.ended.push_back((name, ended)),
                Advance::Nobody => break,
            }
        }
        Ok(())
    }

    /// The same without waiting for anybody: sinks that are no longer configured, or differently, finish what they have in
    /// hand while [`Delivery::next_end`] is polled, and only then others take their places.
    ///
    /// Sinks that are new begin before the route changes and those that are gone end after it, so that whatever happens
    /// meanwhile is recorded for a sink that runs.
    pub async fn exchange(&mut self, sinks: Vec<(sink::Settings, Built)>, route: Option<Route>) -> Result<(), Error> {
        let wanted: HashSet<Arc<str>> = sinks.iter().map(|(settings, _)| settings.name.as_str().into()).collect();
        let mut changed = Vec::new();
        for (settings, built) in sinks {
            let name: Arc<str> = settings.name.as_str().into();
            match self.running.get(&name) {
                Some(running) if running.settings == settings => {}
                Some(_) => changed.push((name, settings, built)),
                None if self.leaving.contains_key(&name) => self.take_place_of(&name, settings, built),
                None => self.run(name, settings, built).await?,
            }
        }
        self.ledger.replace_plan(|plan| {
            plan.route = route;
            plan.sinks.retain(|name, _| wanted.contains(name));
        });
        // What was recorded by the plan before is committed when this is.
        self.store.write(Box::new(|_| Ok(()))).await?;
        for (_, leaving) in self.leaving.iter_mut().filter(|(name, _)| !wanted.contains(*name)) {
            leaving.next = None;
        }
        for (name, settings, built) in changed {
            self.leave(&name, Some((settings, built)));
        }
        let gone: Vec<Arc<str>> = self.running.keys().filter(|name| !wanted.contains(*name)).cloned().collect();
        gone.iter().for_each(|name| self.leave(name, None));
        Ok(())
    }

    async fn run(&mut self, name: Arc<str>, settings: sink::Settings, built: Built) -> Result<(), Error> {
        let id = register(&self.store, name.clone()).await?;
        let known = self.ledger.shared.plan().sinks.get(&name).map(|slot| slot.wake.clone());
        let slot = Slot { id, wake: known.unwrap_or_default() };
        self.ledger.replace_plan(|plan| {
            plan.sinks.insert(name.clone(), slot.clone());
        });
        self.running.insert(name.clone(), Running { settings, built, slot, worker: None });
        if self.leading {
            self.send_to(&name)?;
        }
        Ok(())
    }

    /// Gives a sink its worker.
    fn send_to(&mut self, name: &Arc<str>) -> Result<(), Error> {
        let Some(running) = self.running.get_mut(name) else { return Ok(()) };
        let stop = seat::Stop::default();
        let counts = self.ledger.shared.counts.sink(name);
        counts.forget_failure();
        let seat = seat::Seat {
            name: name.clone(),
            id: running.slot.id,
            retry: running.settings.retry,
            store: self.store.clone(),
            reader: Some(self.store.reader()?),
            shared: self.ledger.shared.clone(),
            counts,
            wake: running.slot.wake.clone(),
            stop: stop.clone(),
            wholes: whole::Wholes::default(),
        };
        let task = match running.built.clone() {
            Built::Sink(sink) => self.tasks.spawn(worker::run(seat, sink)),
            Built::Chat(chat) => self.tasks.spawn(chat::run(seat, chat)),
        };
        self.names.insert(task.id(), name.clone());
        running.worker = Some(Worker { stop, abort: task });
        Ok(())
    }

    /// Begins to send what waits.
    pub fn lead(&mut self) -> Result<(), Error> {
        self.leading = true;
        let idle = self.running.iter().filter(|(_, running)| running.worker.is_none());
        let names: Vec<Arc<str>> = idle.map(|(name, _)| name.clone()).collect();
        names.iter().try_for_each(|name| self.send_to(name))
    }

    /// Sends nothing more, at once: what is on its way is dropped, and stays on the list.
    pub async fn stop_leading(&mut self) {
        self.leading = false;
        let mut workers: Vec<_> =
            self.running.iter_mut().filter_map(|(name, r)| Some((name.clone(), r.worker.take()?))).collect();
        workers.extend(self.dismiss());
        workers.iter().for_each(|(_, worker)| worker.abort.abort());
        let names: Vec<Arc<str>> = workers.into_iter().map(|(name, _)| name).collect();
        self.gone(&names).await;
        // Whether they work is for the other replica to know.
        names.iter().for_each(|name| self.ledger.shared.counts.sink(name).forget_failure());
    }

    /// Until the workers of these names have ended, as they were asked to. Whoever else ends meanwhile is kept for
    /// [`Delivery::next_end`].
    async fn gone(&mut self, names: &[Arc<str>]) {
        while self.names.values().any(|other| names.contains(other)) {
            match self.join_one().await {
                Some((ended, _)) if names.contains(&ended) => {}
                Some(other) => self.ended.push_back(other),
                None => return,
            }
        }
    }

    /// Waits for a worker to end that nobody asked to. `None` when none runs. It may be dropped and called again.
    pub async fn next_end(&mut self) -> Option<(Arc<str>, Ended)> {
        loop {
            if let Some(ended) = self.ended.pop_front() {
                return Some(ended);
            }
            match self.advance().await {
                Advance::Moved => {}
                Advance::Ended(name, ended) => return Some((name, ended)),
                Advance::Nobody => return None,
            }
        }
    }

    async fn join_one(&mut self) -> Option<(Arc<str>, Ended)> {
        loop {
            let (id, ended) = match self.tasks.join_next_with_id().await? {
                Ok((id, ended)) => (id, ended),
                Err(error) => (error.id(), Ended::Failed(error.to_string())),
            };
            if let Some(name) = self.names.remove(&id) {
                return Some((name, ended));
            }
        }
    }

    /// Lets every sink finish what can be sent now, and says which were not done in time. What is left is sent after
    /// the next start.
    pub async fn drain(mut self, within: Duration) -> Vec<Arc<str>> {
        self.upkeep.cancel();
        self.leaving.values_mut().for_each(|leaving| leaving.next = None);
        for worker in self.running.values().filter_map(|running| running.worker.as_ref()) {
            worker.stop.drained.cancel();
        }
        let _ = tokio::time::timeout(within, async { while self.next_end().await.is_some() {} }).await;
        let mut late: Vec<Arc<str>> = self.names.values().cloned().collect();
        late.sort();
        late
    }
}

/// The row of a sink, made when it is first seen.
async fn register(store: &Store, name: Arc<str>) -> Result<i64, Error> {
    let of = name.clone();
    store
        .write(Box::new(move |transaction| {
            let new = transaction.execute("INSERT OR IGNORE INTO sinks (name) VALUES (?1)", [&*of])? > 0;
            if new { mark::begin(transaction, &of) } else { Ok(()) }
        }))
        .await?;
    let reader = store.reader()?;
    Ok(reader.connection().query_row("SELECT id FROM sinks WHERE name = ?1", [&*name], |row| row.get(0))?)
}

impl Ledger {
    /// A word that belongs to the state file, and so to one process at a time: the same after a restart.
    pub async fn replica(&self, store: &Store) -> Result<String, Error> {
        let fresh = format!("{:08x}", rand::random::<u32>());
        let sql = "INSERT OR IGNORE INTO meta (key, value) VALUES ('replica', ?1)";
        store.write(Box::new(move |transaction| transaction.execute(sql, [&fresh]).map(drop))).await?;
        let reader = store.reader()?;
        Ok(reader.connection().query_row("SELECT value FROM meta WHERE key = 'replica'", [], |row| row.get(0))?)
    }
}

/// Milliseconds since 1970, the clock of the tables: right when the process began, and steady since. A wall clock that is
/// set back holds up nobody's next try, and one that is set forward ends no pause.
pub(crate) fn now_ms() -> i64 {
    static BEGAN: LazyLock<(i64, Instant)> =
        LazyLock::new(|| (jiff::Timestamp::now().as_millisecond(), Instant::now()));
    let (began, at) = &*BEGAN;
    began.saturating_add(seat::millis(at.elapsed()))
}
