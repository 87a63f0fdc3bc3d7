//! What happened and who is still to be told, in the same file and the same transactions as the objects.
//!
//! | file | what it holds |
//! |---|---|
//! | [`record`] | a change in the store becomes an event and its deliveries, in the store's own transaction |
//! | [`rows`] | events in their table and out of it again |
//! | [`recent`] | the newest events, so that sinks that keep up read nothing back |
//! | [`queue`] | whose turn it is: order per object, retries, bounded memory; pure |
//! | [`worker`] | one task a sink: send, retry, give up, acknowledge |
//! | [`chat`] | the same for chats, rolled up into messages |
//! | [`dead`] | what could not be delivered: listed, tried again |
//! | [`retention`] | what is forgotten, when, and the space given back |
//! | [`count`] | what was recorded, suppressed, delivered, lost; how each sink is |
//!
//! Promises: a change that the store knows of is recorded with it or not at all; every recorded delivery is made at
//! least once or becomes a dead letter with a reason; deliveries of one object to one sink keep their order; no sink
//! waits for another; a sink that is new begins with new events.

pub mod chat;
pub mod count;
pub mod dead;
pub mod queue;
pub mod recent;
pub mod record;
pub mod retention;
pub mod rows;
pub mod worker;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::{count::Counts, recent::Recent};
pub use self::{
    count::{Lost, SinkCounts, Suppressed},
    record::Recorder,
};
use crate::{
    cluster::{Resource, reflector::Closed, store::Store},
    diff::Keys,
    event::{Cluster, Event},
    route::Decision,
    sink::{self, Built},
};

/// Which sinks an event goes to. A name that no running sink has is passed over.
pub type Route = Arc<dyn Fn(&Event, &Around) -> Decision + Send + Sync>;

/// What routes may ask of an event's surroundings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// Of the object as it is now, or as it was last seen.
    pub annotations: BTreeMap<String, String>,
    pub namespace_labels: BTreeMap<String, String>,
    pub namespace_annotations: BTreeMap<String, String>,
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
    /// The sequence number of the newest event that is committed.
    newest: tokio::sync::watch::Sender<i64>,
}

/// What the recorder goes by.
struct Plan {
    route: Option<Route>,
    keys: Option<KeysOf>,
    sinks: HashMap<Arc<str>, Slot>,
}

/// A sink as the recorder sees it.
#[derive(Clone)]
struct Slot {
    id: i64,
    wake: Arc<worker::Wake>,
}

impl Ledger {
    /// A ledger, and the journal that the store is to be opened with.
    pub fn new(cluster: Cluster) -> (Self, Recorder) {
        let plan = Plan { route: None, keys: None, sinks: HashMap::new() };
        let shared = Arc::new(Shared {
            cluster,
            plan: RwLock::new(Arc::new(plan)),
            recent: Recent::default(),
            counts: Counts::default(),
            newest: tokio::sync::watch::Sender::new(0),
        });
        (Self { shared: shared.clone() }, Recorder::new(shared))
    }

    /// Where events go from now on; without a route, everything to every sink.
    pub fn set_route(&self, route: Option<Route>) {
        self.replace_plan(|plan| plan.route = route);
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
        let mut delivery = Delivery {
            ledger: self.clone(),
            store,
            running: HashMap::new(),
            tasks: JoinSet::new(),
            names: HashMap::new(),
            upkeep: CancellationToken::new(),
        };
        delivery.set(sinks).await?;
        let upkeep = retention::run(delivery.store.clone(), self.shared.clone(), keep, delivery.upkeep.clone());
        let task = delivery.tasks.spawn(upkeep);
        delivery.names.insert(task.id(), UPKEEP.into());
        Ok(delivery)
    }

    /// Records an event that did not come from the store: a sample, a replay.
    pub async fn append(&self, store: &Store, event: Arc<Event>) -> Result<(), Closed> {
        record::append(&self.shared, store, event).await
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
        let Plan { route, keys, sinks } = &**plan;
        let mut new = Plan { route: route.clone(), keys: keys.clone(), sinks: sinks.clone() };
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
    tasks: JoinSet<Ended>,
    names: HashMap<tokio::task::Id, Arc<str>>,
    upkeep: CancellationToken,
}

/// The name that the task has which is no sink.
const UPKEEP: &str = "(upkeep)";

struct Running {
    settings: sink::Settings,
    stop: CancellationToken,
}

/// How long a sink that is no longer configured may take to finish what it has in hand.
const STOP_REMOVED: Duration = Duration::from_secs(10);

impl Delivery {
    /// Makes exactly these sinks run. Those whose settings did not change are left alone; what waits for one that is
    /// gone is kept until it is back or too old.
    pub async fn set(&mut self, sinks: Vec<(sink::Settings, Built)>) -> Result<(), Error> {
        let wanted: HashMap<&str, &sink::Settings> = sinks.iter().map(|(s, _)| (s.name.as_str(), s)).collect();
        let gone: Vec<Arc<str>> = self
            .running
            .iter()
            .filter(|(name, running)| wanted.get(&***name) != Some(&&running.settings))
            .map(|(name, _)| name.clone())
            .collect();
        for name in &gone {
            self.stop(name, STOP_REMOVED).await;
        }
        self.ledger.replace_plan(|plan| plan.sinks.retain(|name, _| wanted.contains_key(&**name)));
        for (settings, built) in sinks {
            let name: Arc<str> = settings.name.as_str().into();
            if !self.running.contains_key(&name) {
                self.run(name, settings, built).await?;
            }
        }
        Ok(())
    }

    async fn run(&mut self, name: Arc<str>, settings: sink::Settings, built: Built) -> Result<(), Error> {
        let id = register(&self.store, name.clone()).await?;
        let known = self.ledger.shared.plan().sinks.get(&name).map(|slot| slot.wake.clone());
        let wake = known.unwrap_or_default();
        let stop = CancellationToken::new();
        let seat = worker::Seat {
            name: name.clone(),
            id,
            retry: settings.retry,
            store: self.store.clone(),
            reader: Some(self.store.reader()?),
            shared: self.ledger.shared.clone(),
            counts: self.ledger.shared.counts.sink(&name),
            wake: wake.clone(),
            stop: stop.clone(),
        };
        self.ledger.replace_plan(|plan| {
            plan.sinks.insert(name.clone(), Slot { id, wake });
        });
        let task = match built {
            Built::Sink(sink) => self.tasks.spawn(worker::run(seat, sink)),
            Built::Chat(chat) => self.tasks.spawn(chat::run(seat, chat)),
        };
        self.names.insert(task.id(), name.clone());
        self.running.insert(name, Running { settings, stop });
        Ok(())
    }

    async fn stop(&mut self, name: &Arc<str>, within: Duration) {
        let Some(running) = self.running.remove(name) else { return };
        running.stop.cancel();
        let done = async {
            while self.names.values().any(|other| other == name) {
                if self.next_end().await.is_none() {
                    break;
                }
            }
        };
        if tokio::time::timeout(within, done).await.is_err() {
            tracing::warn!(sink = %name, "the sink did not finish in time; what it had in hand is sent again later");
            // Nothing else may take its rows while it still runs.
            let ids: Vec<_> = self.names.iter().filter(|(_, n)| *n == name).map(|(id, _)| *id).collect();
            for id in ids {
                self.names.remove(&id);
            }
        }
    }

    /// Waits for a worker to end, whoever it is. `None` when none runs.
    pub async fn next_end(&mut self) -> Option<(Arc<str>, Ended)> {
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
        for running in self.running.values() {
            running.stop.cancel();
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
            transaction.execute("INSERT OR IGNORE INTO sinks (name) VALUES (?1)", [&*of]).map(drop)
        }))
        .await?;
    let reader = store.reader()?;
    Ok(reader.connection().query_row("SELECT id FROM sinks WHERE name = ?1", [&*name], |row| row.get(0))?)
}

/// Milliseconds since 1970, the clock of the tables.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
