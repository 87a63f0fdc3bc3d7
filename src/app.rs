//! The whole service, wired in one straight function: what is built first is upstream, and is stopped first.

mod parts;
mod probes;
mod schemas;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures::future::{BoxFuture, OptionFuture};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use self::parts::Parts;
pub use self::schemas::Schemas;
use crate::{
    cluster::{
        Feed, Resource, Scope,
        discovery::{self, Discovery, Trigger},
        fleet::{self, Fleet, Overview},
        informer::{self, Factory},
        select,
        source::{self, List, Source},
        store::{self, OpenError, Place, Store},
    },
    event::Cluster,
    ha::{self, Left, Replica, Turn},
    ledger::{self, Delivery, Ended, Ledger, absence, namespaces::Asks, retention::Keep},
    metrics,
    redact::{self, Door},
    shutdown::Shutdown,
    sink, web,
};

/// How long sinks may take to send what they have at the end: less than the 30 s that Kubernetes gives a pod.
const DRAIN: Duration = Duration::from_secs(20);
/// How long the last word may take to be written. A disk that is full never takes it, and what follows is worth more.
const STAMP: Duration = Duration::from_secs(2);
/// Before a new leader that cannot read its state file looks again.
const TAKE_OVER_AGAIN: Duration = Duration::from_secs(1);
/// How often the service's own loop comes round when there is nothing to do.
const ROUND: Duration = Duration::from_secs(30);

/// Where the cluster's uid is kept in the store's `meta` table.
const CLUSTER_UID: &str = "cluster_uid";

/// What the service runs on. Everything in it has been checked.
#[derive(Clone)]
pub struct Settings {
    /// Shown in every event. Empty: the cluster's uid.
    pub cluster: String,
    pub select: select::Settings,
    pub informer: informer::Settings,
    pub redact: redact::Settings,
    /// Of the hashes that stand for secret values, for a state file that is new; `None`: a random one.
    pub redaction_key: Option<[u8; 32]>,
    pub place: Place,
    pub keep: Keep,
    /// Where `/livez`, `/readyz` and `/metrics` are served; `None` for nowhere.
    pub probes: Option<SocketAddr>,
    /// Where and for whom the page and its API are served; `None` for nowhere.
    pub page: Option<web::Settings>,
    pub sinks: Vec<sink::Settings>,
    /// `None`: everything to every sink.
    pub route: Option<ledger::Route>,
    /// The routes that may have no answer for an event, by name: they are counted from zero on.
    pub may_fail: Vec<Arc<str>>,
    /// What is asked of namespaces.
    pub asks_namespaces: Asks,
    /// `None`: there is no other replica.
    pub ha: Option<ha::Settings>,
    /// Why events go where they go, for those who look at them.
    pub explain: Option<web::Explain>,
}

/// What became of the configuration since the start. What is new stays until it is taken, whatever comes after it.
#[derive(Clone, Default)]
pub struct Reload {
    /// The newest one that is right, and which of all that were read it is.
    new: Option<(u64, Arc<Settings>)>,
    /// How many were read, and the last of those that were wrong.
    read: u64,
    wrong: u64,
}

impl Reload {
    pub fn take_up(&mut self, settings: Arc<Settings>) {
        self.read += 1;
        self.new = Some((self.read, settings));
    }

    /// It is wrong now, and the one before goes on.
    pub fn is_wrong(&mut self) {
        self.read += 1;
        self.wrong = self.read;
    }

    /// What is to be done about those that came after `seen`, in their order: `None` for one that was wrong.
    fn after(&self, seen: u64) -> Vec<Option<Arc<Settings>>> {
        let mut news: Vec<_> = self.new.iter().map(|(number, new)| (*number, Some(new.clone()))).collect();
        news.push((self.wrong, None));
        news.retain(|(number, _)| *number > seen);
        news.sort_by_key(|(number, _)| *number);
        news.into_iter().map(|(_, new)| new).collect()
    }
}

/// Why the service could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("redaction: {0}")]
    Redact(#[from] redact::Error),
    #[error("sink {name}: {source}")]
    Sink { name: String, source: sink::BuildError },
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    #[error(
        "cannot listen for probes on {address}: {source}; set server.probes to a free address, or to \"\" for none"
    )]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error(
        "cannot listen for the page on {address}: {source}; set server.page to a free address, or to \"\" for none"
    )]
    Page { address: SocketAddr, source: std::io::Error },
    #[error(
        "the page on {address} needs tokens, and there is no API server to check them; set server.page to a loopback address"
    )]
    NoJudge { address: SocketAddr },
    /// A part ended that nobody stopped.
    #[error("{0}")]
    Broken(String),
}

/// Runs the service until it is told to stop, or nobody reads its output any more.
///
/// `reload` brings later settings: of those, what is watched, the sinks and the routes are taken up at once. Informers
/// and sinks that stay as they are go on undisturbed.
pub async fn run(
    settings: Settings,
    source: Arc<dyn Source>,
    shutdown: Shutdown,
    mut reload: watch::Receiver<Reload>,
) -> Result<(), Error> {
    // Ports first: one that is taken is said before anything else happens.
    let page = match &settings.page {
        Some(page) if page.needs_token() && page.judge.is_none() => {
            return Err(Error::NoJudge { address: page.address });
        }
        Some(page) => {
            let address = page.address;
            Some((web::listen(address).await.map_err(|source| Error::Page { address, source })?, page.clone()))
        }
        None => None,
    };
    let stored_uid = store::peek(&settings.place, CLUSTER_UID);
    let uid = match &stored_uid {
        Some(uid) => uid.clone(),
        None => match cluster_uid(&*source, &shutdown).await {
            Some(uid) => uid,
            None => return Ok(()),
        },
    };
    let name = if settings.cluster.is_empty() { uid.clone() } else { settings.cluster.clone() };
    let cluster = Cluster { name, uid: uid.clone() };
    let (ledger, recorder) = Ledger::new(cluster.clone());
    let (store, writing) = Store::open_with(&settings.place, Some(Box::new(recorder)), settings.redaction_key)?;
    if settings.redaction_key.is_some_and(|key| key != store.redaction_key()) {
        tracing::warn!(
            path = %store.path().display(),
            "redact.key is not the key that this state file was begun with: the file's own goes on being used, so that no \
             value seems to have changed; a new state file begins with redact.key"
        );
    }
    let door = Arc::new(Door::new(&settings.redact, &store.redaction_key())?);
    let trigger = Trigger::new();
    let namespaces = ledger.namespaces();
    namespaces.connect(source.clone(), door.clone());
    namespaces.ask(settings.asks_namespaces);
    if settings.asks_namespaces == Asks::Annotations {
        let trusted = store.reader().and_then(|reader| namespaces.trust(&reader));
        trusted.map_err(|error| Error::Broken(format!("the state file cannot be read: {error}")))?;
    }
    let factory = Factory::new(source.clone(), door, store.clone(), settings.informer.clone(), Some(trigger.clone()));
    factory.set_gate(namespaces.clone());
    let discovery = Discovery::new(source.clone(), discovery::Settings::default(), trigger.clone());
    let (selection, selected) = watch::channel(settings.select.clone());
    let changes = trigger.watch();
    let fleet = Fleet::new(factory.clone(), store.clone(), discovery, trigger, settings.select.clone());
    let overview = fleet.overview();

    let schemas = store.reader().map_or_else(|_| Schemas::default(), |reader| Schemas::stored(&reader));
    let of_kind = schemas.clone();
    ledger.set_keys(Arc::new(move |resource: &Resource| of_kind.keys(resource)));
    ledger.set_route(settings.route.clone());
    ledger.counts().expect_failures(&settings.may_fail);
    let mut delivery = ledger.stand_by(store.clone(), settings.keep, sinks(&settings)?).await?;
    let mut replica = match settings.ha.clone() {
        Some(ha) => Some(Replica::start(ha, ledger.clone(), store.clone()).await?),
        None => {
            // It may have been one of several before.
            ledger.note_leader(&store, None).await.map_err(ledger::Error::from)?;
            delivery.lead()?;
            None
        }
    };
    let standing = replica.as_ref().map(Replica::status);

    let reloads = watch::Sender::new(metrics::Reloads::default());
    // One instance alone always delivers.
    let leader = watch::Sender::new(replica.is_none());
    let stop = CancellationToken::new();
    let fleet_stop = stop.clone();
    let (watching, fleet_turned) = parts::listen_to(async move { fleet.run(fleet_stop, selected).await });
    let (turns, turned) = watch::channel(Instant::now());
    let mut parts = Parts::default();
    if let Some(address) = settings.probes {
        let sources = metrics::Sources {
            factory: factory.clone(),
            store: store.clone(),
            ledger: ledger.clone(),
            overview: overview.clone(),
            reloads: reloads.subscribe(),
            leader: leader.subscribe(),
            lease: replica.as_ref().map_or_else(String::new, |replica| replica.lease().to_owned()),
            limit: settings.keep.max_bytes,
            replica: standing.clone(),
            counted: metrics::Counted::default(),
        };
        let mut loops = vec![("service", turned), ("fleet", fleet_turned)];
        loops.extend(replica.as_ref().map(|replica| ("election", replica.turned())));
        let health = probes::Health { metrics: sources, loops: loops.into() };
        let listener = probes::listen(address).await.map_err(|source| Error::Listen { address, source })?;
        parts.spawn("the probes' server", probes::serve(listener, health, stop.clone()));
    }
    let live = watch::Sender::new(live(&settings));
    if let Some((listener, page)) = page {
        let sources = web::Sources {
            cluster,
            store: store.clone(),
            ledger: ledger.clone(),
            factory: factory.clone(),
            overview: overview.clone(),
            live: live.subscribe(),
            leader: replica.is_some().then(|| leader.subscribe()),
            leads_instead: standing
                .clone()
                .map(|standing| -> web::LeadsInstead { Arc::new(move || standing.borrow().leads_instead()) }),
        };
        parts.spawn("the page's server", web::serve(listener, page, sources, stop.clone()));
    }
    let schemas = schemas::keep(schemas, source, store.clone(), factory.clone(), overview.clone(), changes);
    parts.spawn("the keeper of schemas", schemas);
    let uid = keep_uid(uid, stored_uid.is_some(), store.clone(), factory.clone(), overview.clone());
    parts.spawn("the keeper of the cluster's uid", uid);
    parts.spawn("the word that all is in sync", say_when_synced(factory.clone(), overview));
    parts.spawn("the word that the disk is slow", store::say_when_slow(store.clone()));
    parts.spawn("the record of absences", absence::run(store.clone(), factory.clone(), stop.clone()));
    let mut watching = tokio::spawn(watching);

    let mut reloaded = 0;
    // A disk that is full holds it up, and must hold up nothing else.
    let mut taking_over: Option<BoxFuture<'static, Result<u64, ledger::Error>>> = None;
    let ended = loop {
        turns.send_replace(Instant::now());
        tokio::select! {
            () = shutdown.begun() => break Ok(()),
            () = tokio::time::sleep(ROUND) => {}
            why = factory.broken() => break Err(Error::Broken(why)),
            why = parts.broken() => break Err(Error::Broken(why)),
            ended = &mut watching => break Err(Error::Broken(format!("the fleet of informers ended: {ended:?}"))),
            Some((name, ended)) = delivery.next_end() => match ended {
                Ended::Closed => break Ok(()),
                Ended::Drained => {}
                Ended::StoreClosed => break Err(Error::Broken("the store ended".into())),
                Ended::Failed(why) => break Err(Error::Broken(format!("sink {name} ended: {why}"))),
            },
            Some(told) = OptionFuture::from(taking_over.as_mut()) => {
                taking_over = None;
                tracing::info!(told = told?, "what the leader before had delivered is off the list");
                delivery.lead()?;
                leader.send_replace(true);
            },
            turn = next_turn(&mut replica) => match turn {
                Ok(Turn::Lead(left)) => {
                    let identity = replica.as_ref().map_or("", Replica::identity).to_owned();
                    taking_over = Some(Box::pin(take_over(left, ledger.clone(), store.clone(), identity)));
                }
                Ok(Turn::StandBy) => {
                    taking_over = None;
                    delivery.stop_leading().await;
                    leader.send_replace(false);
                }
                Err(why) => break Err(Error::Broken(why)),
            },
            Ok(()) = reload.changed() => {
                let news = reload.borrow_and_update().clone();
                for new in news.after(std::mem::replace(&mut reloaded, news.read)) {
                    let built = new.map(|new| sinks(&new).map(|built| (new, built)));
                    if let Some(Err(error)) = &built {
                        tracing::error!(%error, "the new configuration cannot be used and the one before goes on");
                    }
                    let built = built.and_then(Result::ok);
                    let usable = built.is_some();
                    if let Some((new, built)) = built {
                        namespaces.ask(new.asks_namespaces);
                        ledger.counts().expect_failures(&new.may_fail);
                        tokio::select! {
                            applied = apply(&new, built, &mut delivery, &selection) => applied?,
                            // A disk that is full holds it up, and must not hold up the end.
                            () = shutdown.begun() => {}
                        }
                        live.send_replace(self::live(&new));
                    }
                    reloads.send_modify(|reloads| reloads.add(usable));
                }
            }
        }
    };

    stop.cancel();
    if !watching.is_finished() {
        let _ = (&mut watching).await;
    }
    factory.shut_down().await;
    parts.shut_down().await;
    drop(taking_over);
    // A store that has ended has its own reason; of one that cannot be written the absence begins earlier.
    let _ = tokio::time::timeout(STAMP, absence::stamp(&store)).await;
    for sink in delivery.drain(DRAIN).await {
        tracing::warn!(%sink, "it was not done in time; the rest is sent after the next start");
    }
    if let Some(replica) = replica {
        replica.release().await;
    }
    drop((factory, store));
    // Committing what is left may take a moment; it must not hold up the runtime.
    let _ = tokio::task::spawn_blocking(move || writing.join()).await;
    ended
}

/// Takes off the list what the leader before has delivered, and says how much that was. A file that cannot be read may be
/// mended yet: until then this replica does not deliver, and whether it leads is for the election to say.
async fn take_over(left: Left, ledger: Ledger, store: Store, identity: String) -> Result<u64, ledger::Error> {
    loop {
        match left.heed(&ledger, &store, &identity).await {
            Err(ledger::Error::Read(error)) if store.may_heal(&error) => {
                tracing::warn!(%error, "what the leader before had delivered cannot be taken off the list; trying again");
                tokio::time::sleep(TAKE_OVER_AGAIN).await;
            }
            other => return other,
        }
    }
}

/// Never, when there is no other replica.
async fn next_turn(replica: &mut Option<Replica>) -> Result<Turn, String> {
    match replica {
        Some(replica) => replica.turn().await,
        None => std::future::pending().await,
    }
}

async fn apply(
    new: &Settings,
    sinks: Vec<(sink::Settings, sink::Built)>,
    delivery: &mut Delivery,
    selection: &watch::Sender<select::Settings>,
) -> Result<(), Error> {
    delivery.exchange(sinks, new.route.clone()).await?;
    selection.send_replace(new.select.clone());
    tracing::info!("the new configuration is in force");
    Ok(())
}

/// What of the settings the page tells.
fn live(settings: &Settings) -> web::Live {
    let sinks = settings.sinks.iter().map(|sink| (sink.name.clone(), sink.target.type_name())).collect();
    web::Live { explain: settings.explain.clone(), sinks }
}

fn sinks(settings: &Settings) -> Result<Vec<(sink::Settings, sink::Built)>, Error> {
    let build = |settings: &sink::Settings| {
        let built = sink::build(settings).map_err(|source| Error::Sink { name: settings.name.clone(), source })?;
        Ok((settings.clone(), built))
    };
    settings.sinks.iter().map(build).collect()
}

/// The uid of the kube-system namespace, by which a cluster is known for as long as it lives. Waits for the server;
/// `None` when the shutdown comes first. Empty where it may not be read: objects have uids of their own.
async fn cluster_uid(source: &dyn Source, shutdown: &Shutdown) -> Option<String> {
    let mut feed = Feed::new(Resource::core("v1", "namespaces", "Namespace").cluster_scoped(), Scope::All);
    feed.fields = "metadata.name=kube-system".into();
    feed.metadata_only = true;
    let mut pause = Duration::from_millis(800);
    loop {
        match source.list(&feed, &List::default()).await {
            Ok(page) => return Some(page.items.first().and_then(|item| uid(item)).unwrap_or_default()),
            Err(source::Error::Forbidden(_)) => {
                tracing::info!("the kube-system namespace may not be read: events carry no cluster uid");
                return Some(String::new());
            }
            Err(error) => {
                tracing::warn!(%error, "the API server does not answer; trying again in {} s", pause.as_secs_f32());
            }
        }
        tokio::select! {
            () = shutdown.begun() => return None,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(30)),
        }
    }
}

fn uid(namespace: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        uid: String,
    }
    serde_json::from_slice::<Object>(namespace).ok().map(|object| object.metadata.uid)
}

/// Stores the cluster's uid, so that a restart need not ask for it. What is stored is compared with the namespace once
/// that is watched: a state file may be used for another cluster by mistake.
async fn keep_uid(uid: String, stored: bool, store: Store, factory: Factory, mut overview: watch::Receiver<Overview>) {
    let write = |uid: String| {
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
        store.write(Box::new(move |transaction| transaction.execute(sql, [CLUSTER_UID, &uid]).map(drop)))
    };
    if !stored {
        // Empty: it may not be read now, but perhaps after the next start.
        if !uid.is_empty() {
            let _ = write(uid).await;
        }
        return;
    }
    fleet::settled(&factory, &mut overview).await;
    let namespaces = |informer: &informer::Informer| {
        let resource = &informer.feed().resource;
        resource.group.is_empty() && resource.plural == "namespaces"
    };
    let Some(informer) = factory.informers().into_iter().find(namespaces) else { return };
    let Ok(mut lister) = informer.lister().await else { return };
    let found = lister.get("", "kube-system").ok().flatten().map(|namespace| namespace.meta().uid.clone());
    if let Some(found) = found.filter(|found| *found != uid) {
        tracing::error!(
            "the state file is of another cluster ({uid}, and this one is {found}); give each cluster its own state.path"
        );
        let _ = write(found).await;
    }
}

async fn say_when_synced(factory: Factory, mut overview: watch::Receiver<Overview>) {
    let began = std::time::Instant::now();
    fleet::settled(&factory, &mut overview).await;
    let informers = factory.informers();
    let synced = informers.iter().filter(|informer| informer.has_synced()).count();
    tracing::info!(informers = informers.len(), synced, after_ms = began.elapsed().as_millis() as u64, "watching");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::store::Place;

    #[test]
    fn a_configuration_that_is_right_is_taken_up_though_a_wrong_one_comes_before_anyone_looks() {
        let settings = Arc::new(Settings {
            cluster: String::new(),
            select: select::Settings::default(),
            informer: informer::Settings::default(),
            redact: redact::Settings::default(),
            redaction_key: None,
            place: Place::Temporary,
            keep: Keep::default(),
            probes: None,
            page: None,
            sinks: Vec::new(),
            route: None,
            may_fail: Vec::new(),
            asks_namespaces: Asks::Nothing,
            ha: None,
            explain: None,
        });
        let told = |reload: &Reload, seen| reload.after(seen).iter().map(Option::is_some).collect::<Vec<_>>();
        let mut reload = Reload::default();
        assert!(reload.after(0).is_empty());
        reload.take_up(settings.clone());
        reload.is_wrong();
        assert_eq!(told(&reload, 0), [true, false]);
        assert!(reload.after(reload.read).is_empty());
        let seen = reload.read;
        reload.is_wrong();
        reload.take_up(settings);
        assert_eq!(told(&reload, seen), [false, true]);
    }
}
