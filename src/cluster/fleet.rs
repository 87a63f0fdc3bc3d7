//! All informers that the settings ask for, kept in line with what the cluster serves: CRDs and namespaces come and go.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Feed, Resource, Scope,
    discovery::{Discovery, Served, Trigger},
    informer::{Close, Delta, Factory, Informer, Subscription},
    reflector::{Closed, Phase},
    select::{self, Reason, Verdict},
    source::Unavailable,
    store::Store,
};

/// What is watched and what not, as it is now.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// `false` until the server has said for the first time what it serves.
    pub discovered: bool,
    pub feeds: Vec<Feed>,
    pub verdicts: Vec<(Arc<Resource>, Verdict)>,
    pub unavailable: Vec<Unavailable>,
}

/// What was known of the cluster at the last look, over restarts: what is not in it is new, and its objects are news.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    resources: BTreeSet<String>,
    /// They did not answer: when their resources appear it is not because they are new.
    unavailable_groups: BTreeSet<String>,
    /// `None` when nobody asked which there are.
    namespaces: Option<BTreeSet<String>>,
}

/// Where [`Known`] is kept in the store's `meta` table.
const KNOWN: &str = "known";

pub struct Fleet {
    factory: Factory,
    store: Store,
    discovery: Discovery,
    trigger: Trigger,
    settings: select::Settings,
    overview: watch::Sender<Overview>,
    running: BTreeMap<String, Feed>,
    known: Option<Known>,
    /// The names of all namespaces, when the settings speak of them in patterns.
    namespaces: Option<Namespaces>,
    /// Those that fire the trigger when CRDs and API services change.
    sentinels: JoinSet<()>,
    guarded: BTreeMap<String, AbortHandle>,
    /// Whether feeds that nobody wants any more have been forgotten.
    tidied: bool,
}

struct Namespaces {
    deltas: Subscription,
    names: BTreeSet<String>,
    feed: Feed,
}

impl Fleet {
    pub fn new(
        factory: Factory,
        store: Store,
        discovery: Discovery,
        trigger: Trigger,
        settings: select::Settings,
    ) -> Self {
        let known = match read_known(&store) {
            Ok(known) => known,
            Err(error) => {
                warn!(%error, "cannot read what was known of the cluster; objects of new resources count as there before");
                None
            }
        };
        Self {
            factory,
            store,
            discovery,
            trigger,
            settings,
            overview: watch::Sender::new(Overview::default()),
            running: BTreeMap::new(),
            known,
            namespaces: None,
            sentinels: JoinSet::new(),
            guarded: BTreeMap::new(),
            tidied: false,
        }
    }

    pub fn overview(&self) -> watch::Receiver<Overview> {
        self.overview.subscribe()
    }

    /// Runs until it is told to stop. `reload` brings new settings; informers that stay are not restarted.
    pub async fn run(
        mut self,
        stop: CancellationToken,
        mut reload: watch::Receiver<select::Settings>,
    ) -> Result<(), Closed> {
        loop {
            let why = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Ok(()) = reload.changed() => {
                    self.settings = reload.borrow_and_update().clone();
                    Close::Forget
                }
                () = next_namespaces(&mut self.namespaces) => Close::Gone,
                changes = self.discovery.next() => {
                    // At the start everything is, and that is no news.
                    for resource in changes.started.iter().filter(|_| self.overview.borrow().discovered) {
                        info!(%resource, "served now");
                    }
                    for resource in &changes.stopped {
                        info!(%resource, "served no more");
                    }
                    Close::Gone
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                done = self.reconcile(why) => done?,
            }
        }
    }

    /// Brings the informers in line with the settings and with what is served. Feeds that are not wanted any more are
    /// closed as `gone` says: forgotten after a change of settings, reported as deleted after one of the cluster.
    async fn reconcile(&mut self, gone: Close) -> Result<(), Closed> {
        self.watch_namespaces().await?;
        let served: Served = self.discovery.served().clone();
        let resources: Vec<Arc<Resource>> = served.resources.values().cloned().collect();
        let nothing = BTreeSet::new();
        let names = self.namespaces.as_ref().map_or(&nothing, |namespaces| &namespaces.names);
        let plan = select::plan(&self.settings, &resources, names);
        let wanted: BTreeMap<String, Feed> = plan.feeds.iter().map(|feed| (feed.key(), feed.clone())).collect();

        let before = std::mem::take(&mut self.running);
        for (key, feed) in &before {
            match wanted.get(key) {
                Some(same) if same.resource.version == feed.resource.version => {}
                // Another served version of the same objects: go on from the same cursor.
                Some(_) => self.factory.remove(feed, Close::Keep).await?,
                None => self.factory.remove(feed, gone).await?,
            }
        }
        for feed in wanted.values() {
            let informer = self.factory.informer(feed.clone());
            if self.is_new(feed) {
                informer.first_list_is_news();
            }
        }
        self.factory.start();
        if !self.tidied && served.unavailable.is_empty() {
            // The first whole look of this run: what an earlier configuration watched and this one does not is forgotten.
            self.tidied = true;
            self.store.forget_all_but(wanted.keys().cloned().collect()).await?;
        }
        self.running = wanted;
        self.guard();
        self.remember(&served).await?;
        self.say_skipped(&plan);
        let select::Plan { feeds, verdicts } = plan;
        self.overview.send_replace(Overview { discovered: true, feeds, verdicts, unavailable: served.unavailable });
        Ok(())
    }

    /// What a user may miss: said once, when it is first left out.
    fn say_skipped(&self, plan: &select::Plan) {
        let before = self.overview.borrow();
        let new = |resource: &Resource| !before.verdicts.iter().any(|(known, _)| known.as_ref() == resource);
        let out: Vec<String> = plan
            .skipped()
            .filter(|(resource, reason)| matches!(reason, Reason::ClusterScoped) && new(resource))
            .map(|(resource, _)| resource.to_string())
            .collect();
        if !out.is_empty() {
            info!(
                resources = out.join(", "),
                "not watched: they are in no namespace, and the configuration names namespaces"
            );
        }
    }

    fn is_new(&self, feed: &Feed) -> bool {
        let Some(known) = &self.known else { return false };
        let resource = !known.resources.contains(&feed.resource.group_resource())
            && !known.unavailable_groups.contains(&feed.resource.group)
            && !known.unavailable_groups.contains("*");
        let namespace = match &feed.scope {
            Scope::Namespace(name) => {
                self.namespaces.is_some() && known.namespaces.as_ref().is_some_and(|known| !known.contains(name))
            }
            Scope::All => false,
        };
        resource || namespace
    }

    async fn remember(&mut self, served: &Served) -> Result<(), Closed> {
        let known = Known {
            resources: served.resources.keys().cloned().collect(),
            unavailable_groups: served.unavailable.iter().map(|gone| gone.group.clone()).collect(),
            namespaces: self.namespaces.as_ref().map(|namespaces| namespaces.names.clone()),
        };
        if self.known.as_ref() == Some(&known) {
            return Ok(());
        }
        let text = serde_json::to_string(&known).unwrap_or_default();
        self.known = Some(known);
        self.store
            .write(Box::new(move |transaction| {
                transaction
                    .execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", [KNOWN, &text])
                    .map(drop)
            }))
            .await
    }

    /// Patterns need to know which namespaces there are: an informer of its own, and the names of its objects.
    async fn watch_namespaces(&mut self) -> Result<(), Closed> {
        if !self.settings.namespaces.needs_live() {
            if let Some(namespaces) = self.namespaces.take() {
                self.factory.remove(&namespaces.feed, Close::Forget).await?;
            }
            return Ok(());
        }
        if self.namespaces.is_some() {
            return Ok(());
        }
        let mut feed = Feed::new(Resource::core("v1", "namespaces", "Namespace").cluster_scoped(), Scope::All);
        feed.metadata_only = true;
        let informer = self.factory.informer(feed.clone());
        self.factory.start();
        informer.wait_for_sync().await?;
        let mut names = BTreeSet::new();
        let mut lister = informer.lister().await?;
        if let Err(error) = lister.for_each(|namespace| {
            names.insert(namespace.meta().name.clone());
        }) {
            warn!(%error, "cannot read the stored namespaces");
        }
        self.namespaces = Some(Namespaces { deltas: informer.subscribe().await?, names, feed });
        Ok(())
    }

    /// A change of a CRD or an API service is a reason to look at what is served.
    fn guard(&mut self) {
        for informer in self.factory.informers() {
            let name = informer.feed().resource.group_resource();
            let tells = matches!(
                name.as_str(),
                "customresourcedefinitions.apiextensions.k8s.io" | "apiservices.apiregistration.k8s.io"
            );
            if tells && self.guarded.get(&name).is_none_or(AbortHandle::is_finished) {
                let sentinel = self.sentinels.spawn(fire_on_change(informer, self.trigger.clone()));
                self.guarded.insert(name, sentinel);
            }
        }
    }
}

async fn fire_on_change(informer: Informer, trigger: Trigger) {
    if informer.wait_for_sync().await.is_err() {
        return;
    }
    let Ok(mut deltas) = informer.subscribe().await else { return };
    while let Some(delta) = deltas.next().await {
        if !matches!(delta, Delta::Updated { ref old, ref new } if old.section(BODY) == new.section(BODY) && old.section(STATUS) == new.section(STATUS))
        {
            trigger.fire();
        }
    }
}

const BODY: crate::redact::Part = crate::redact::Part::Body;
const STATUS: crate::redact::Part = crate::redact::Part::Status;

/// Waits until the set of namespaces is another one. Takes what came together as one change.
async fn next_namespaces(namespaces: &mut Option<Namespaces>) {
    let Some(namespaces) = namespaces else { return std::future::pending().await };
    loop {
        let Some(delta) = namespaces.deltas.next().await else { return std::future::pending().await };
        let name = &delta.object().meta().name;
        let changed = match delta {
            Delta::Deleted { .. } => namespaces.names.remove(name),
            Delta::Added(_) | Delta::Updated { .. } => namespaces.names.insert(name.clone()),
        };
        if changed {
            return;
        }
    }
}

fn read_known(store: &Store) -> Result<Option<Known>, rusqlite::Error> {
    let reader = store.reader()?;
    let text: Option<String> =
        reader.connection().query_row("SELECT value FROM meta WHERE key = ?1", [KNOWN], |row| row.get(0)).optional()?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Waits until every informer of the present plan is in sync or degraded: nothing more comes by waiting alone.
pub async fn settled(factory: &Factory, overview: &mut watch::Receiver<Overview>) {
    if overview.wait_for(|overview| overview.discovered).await.is_err() {
        return;
    }
    for informer in factory.informers() {
        let mut status = informer.status();
        tokio::select! {
            _ = informer.wait_for_sync() => {}
            _ = status.wait_for(|status| status.phase == Phase::Waiting) => {}
        }
    }
}
