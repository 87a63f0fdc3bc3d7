//! The whole service, wired in one straight function: what is built first is upstream, and is stopped first.

mod probes;
mod schemas;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

pub use self::schemas::Schemas;
use crate::{
    cluster::{
        Feed, Resource, Scope,
        discovery::{self, Discovery, Trigger},
        fleet::{self, Fleet, Overview},
        informer::{self, Factory},
        select,
        source::{self, List, Source},
        store::{OpenError, Place, Store},
    },
    event::Cluster,
    ledger::{self, Delivery, Ended, Ledger, retention::Keep},
    metrics,
    redact::{self, Door},
    shutdown::Shutdown,
    sink,
};

/// How long sinks may take to send what they have at the end: less than the 30 s that Kubernetes gives a pod.
const DRAIN: Duration = Duration::from_secs(20);

/// What the service runs on. Everything in it has been checked.
#[derive(Clone)]
pub struct Settings {
    /// Shown in every event. Empty: the cluster's uid.
    pub cluster: String,
    pub select: select::Settings,
    pub informer: informer::Settings,
    pub redact: redact::Settings,
    pub place: Place,
    pub keep: Keep,
    /// Where `/livez`, `/readyz` and `/metrics` are served; `None` for nowhere.
    pub probes: Option<SocketAddr>,
    pub sinks: Vec<sink::Settings>,
    /// `None`: everything to every sink.
    pub route: Option<ledger::Route>,
}

/// What became of the configuration since the start.
#[derive(Clone, Default)]
pub enum Reload {
    #[default]
    Unchanged,
    New(Arc<Settings>),
    /// It is wrong now, and the one before goes on.
    Wrong,
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
    let Some(uid) = cluster_uid(&*source, &shutdown).await else { return Ok(()) };
    let name = if settings.cluster.is_empty() { uid.clone() } else { settings.cluster.clone() };
    let (ledger, recorder) = Ledger::new(Cluster { name, uid });
    let (store, writing) = Store::open(&settings.place, Some(Box::new(recorder)))?;
    let door = Arc::new(Door::new(&settings.redact, &store.redaction_key())?);
    let trigger = Trigger::new();
    let factory = Factory::new(source.clone(), door, store.clone(), settings.informer.clone(), Some(trigger.clone()));
    let discovery = Discovery::new(source.clone(), discovery::Settings::default(), trigger.clone());
    let (selection, selected) = watch::channel(settings.select.clone());
    let fleet = Fleet::new(factory.clone(), store.clone(), discovery, trigger, settings.select.clone());
    let overview = fleet.overview();

    let schemas = Schemas::default();
    let of_kind = schemas.clone();
    ledger.set_keys(Arc::new(move |resource: &Resource| of_kind.keys(resource)));
    ledger.set_route(settings.route.clone());
    let mut delivery = ledger.start(store.clone(), settings.keep, sinks(&settings)?).await?;

    let reload_ok = watch::Sender::new(true);
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    if let Some(address) = settings.probes {
        let sources = metrics::Sources {
            factory: factory.clone(),
            store: store.clone(),
            ledger: ledger.clone(),
            reload_ok: reload_ok.subscribe(),
        };
        let health = probes::Health { overview: overview.clone(), metrics: sources };
        let listener = probes::listen(address).await.map_err(|source| Error::Listen { address, source })?;
        tasks.spawn(probes::serve(listener, health, stop.clone()));
    }
    tasks.spawn(learn_schemas(schemas, source, factory.clone(), overview.clone()));
    tasks.spawn(say_when_synced(factory.clone(), overview));
    let fleet_stop = stop.clone();
    let mut watching = tokio::spawn(async move { fleet.run(fleet_stop, selected).await });

    let ended = loop {
        tokio::select! {
            () = shutdown.begun() => break Ok(()),
            why = factory.broken() => break Err(Error::Broken(why)),
            ended = &mut watching => break Err(Error::Broken(format!("the fleet of informers ended: {ended:?}"))),
            Some((name, ended)) = delivery.next_end() => match ended {
                Ended::Closed => break Ok(()),
                Ended::Drained => {}
                Ended::StoreClosed => break Err(Error::Broken("the store ended".into())),
                Ended::Failed(why) => break Err(Error::Broken(format!("sink {name} ended: {why}"))),
            },
            Ok(()) = reload.changed() => {
                let new = reload.borrow_and_update().clone();
                reload_ok.send_replace(!matches!(new, Reload::Wrong));
                if let Reload::New(new) = new {
                    match sinks(&new) {
                        Ok(built) => apply(&new, built, &ledger, &mut delivery, &selection).await?,
                        Err(error) => {
                            reload_ok.send_replace(false);
                            tracing::error!(%error, "the new configuration cannot be used and the one before goes on");
                        }
                    }
                }
            }
        }
    };

    stop.cancel();
    if !watching.is_finished() {
        let _ = (&mut watching).await;
    }
    factory.shut_down().await;
    tasks.shutdown().await;
    for sink in delivery.drain(DRAIN).await {
        tracing::warn!(%sink, "it was not done in time; the rest is sent after the next start");
    }
    drop((factory, store));
    // Committing what is left may take a moment; it must not hold up the runtime.
    let _ = tokio::task::spawn_blocking(move || writing.join()).await;
    ended
}

async fn apply(
    new: &Settings,
    sinks: Vec<(sink::Settings, sink::Built)>,
    ledger: &Ledger,
    delivery: &mut Delivery,
    selection: &watch::Sender<select::Settings>,
) -> Result<(), Error> {
    delivery.set(sinks).await?;
    ledger.set_route(new.route.clone());
    selection.send_replace(new.select.clone());
    Ok(())
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

async fn learn_schemas(
    schemas: Schemas,
    source: Arc<dyn Source>,
    factory: Factory,
    mut overview: watch::Receiver<Overview>,
) {
    fleet::settled(&factory, &mut overview).await;
    loop {
        let resources: Vec<Arc<Resource>> =
            overview.borrow_and_update().feeds.iter().map(|feed| feed.resource.clone()).collect();
        schemas.learn(&*source, &resources).await;
        if overview.changed().await.is_err() {
            return;
        }
    }
}

async fn say_when_synced(factory: Factory, mut overview: watch::Receiver<Overview>) {
    let began = std::time::Instant::now();
    fleet::settled(&factory, &mut overview).await;
    let informers = factory.informers();
    let synced = informers.iter().filter(|informer| informer.has_synced()).count();
    tracing::info!(informers = informers.len(), synced, after_ms = began.elapsed().as_millis() as u64, "watching");
}
