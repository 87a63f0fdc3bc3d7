//! All informers that the settings ask for, kept in line with what the cluster serves: CRDs and namespaces come and go.

mod doubt;
mod known;
mod namespaces;
mod sentinel;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::future::try_join_all;
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::{
    doubt::Doubts,
    known::{Known, Names},
    namespaces::Namespaces,
};
use super::{
    Feed, Resource,
    discovery::{Discovery, Served, Trigger},
    informer::{Close, Delta, Factory, Informer},
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
    /// Patterns speak of namespaces, and which there are is not known yet: feeds are still to come.
    pub awaits_namespaces: bool,
    pub feeds: Vec<Feed>,
    pub verdicts: Vec<(Arc<Resource>, Verdict)>,
    pub unavailable: Vec<Unavailable>,
}

pub struct Fleet {
    factory: Factory,
    store: Store,
    discovery: Discovery,
    trigger: Trigger,
    settings: select::Settings,
    overview: watch::Sender<Overview>,
    running: BTreeMap<String, Feed>,
    known: Option<Known>,
    /// Those whose first list is news and not yet whole, by the key of their feed.
    news: BTreeMap<String, Informer>,
    /// The names of all namespaces, when the settings speak of them in patterns.
    namespaces: Option<Namespaces>,
    /// What is not served any more, or so it seems.
    doubts: Doubts,
    /// Those that fire the trigger when CRDs and API services change.
    sentinels: JoinSet<()>,
    guarded: BTreeMap<String, Guard>,
    /// The groups that did not answer when feeds that nobody wants any more were last forgotten; `None` when they never
    /// were.
    untidy: Option<BTreeSet<String>>,
    /// Include patterns that fitted something, or of which it was said that they do not.
    weighed: BTreeSet<String>,
}

/// What fires the trigger for one resource.
struct Guard {
    /// By the changes of this informer, or else by a watch of its own.
    informer: Option<Informer>,
    task: AbortHandle,
}

impl Fleet {
    pub fn new(
        factory: Factory,
        store: Store,
        discovery: Discovery,
        trigger: Trigger,
        settings: select::Settings,
    ) -> Self {
        let known = match Known::read(&store) {
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
            news: BTreeMap::new(),
            namespaces: None,
            doubts: Doubts::default(),
            sentinels: JoinSet::new(),
            guarded: BTreeMap::new(),
            untidy: None,
            weighed: BTreeSet::new(),
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
                () = namespaces::changed(&mut self.namespaces, &self.settings) => Close::Gone,
                () = self.doubts.resolved() => Close::Gone,
                () = next_synced(&mut self.news) => {
                    let served = self.weigh();
                    self.remember(&served).await?;
                    continue;
                }
                changes = self.discovery.next() => {
                    // At the start everything is, and that is no news.
                    for resource in changes.started.iter().filter(|_| self.overview.borrow().discovered) {
                        info!(%resource, "served now");
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
        let served = self.weigh();
        let resources: Vec<Arc<Resource>> = served.resources.values().cloned().collect();
        let nothing = BTreeSet::new();
        let names = self.namespaces.as_ref().map_or(&nothing, Namespaces::names);
        let awaits_namespaces = self.namespaces.as_ref().is_some_and(|namespaces| !namespaces.are_known());
        let plan = select::plan(&self.settings, &resources, names);
        let wanted: BTreeMap<String, Feed> = plan.feeds.iter().map(|feed| (feed.key(), feed.clone())).collect();

        let before = std::mem::take(&mut self.running);
        let ended = before.iter().filter_map(|(key, feed)| match wanted.get(key) {
            Some(same) if same.resource.version == feed.resource.version => None,
            // Another served version of the same objects: go on from the same cursor.
            Some(_) => Some((feed, Close::Keep)),
            None => {
                if !served.resources.contains_key(&feed.resource.group_resource()) {
                    info!(%feed, "served no more");
                }
                Some((feed, gone))
            }
        });
        // At once: each may take a while to end.
        try_join_all(ended.map(|(feed, how)| self.factory.remove(feed, how))).await?;
        for feed in wanted.values() {
            let informer = self.factory.informer(feed.clone());
            let live = self.namespaces.is_some();
            if self.known.as_ref().is_some_and(|known| !known.has(feed, live)) && !informer.has_synced() {
                informer.first_list_is_news();
                self.news.insert(feed.key(), informer);
            }
        }
        self.news.retain(|key, _| wanted.contains_key(key));
        self.factory.start();
        let silent = served.silent();
        if !self.is_tidy() && self.untidy.as_ref() != Some(&silent) && !awaits_namespaces {
            // The first look of this run at these groups. What these settings ask for and the cluster no longer has was
            // deleted meanwhile; what an earlier configuration watched and this one does not is forgotten.
            self.delete_vanished(&wanted, &served).await?;
            let keep = wanted.keys().cloned().collect();
            self.store.forget_all_but(keep, silent.iter().cloned().collect()).await?;
            self.untidy = Some(silent);
        }
        self.running = wanted;
        self.guard();
        self.remember(&served).await?;
        self.say_skipped(&plan);
        if served.unavailable.is_empty() {
            self.say_unmatched(&resources);
        }
        let select::Plan { feeds, verdicts } = plan;
        let unavailable = served.unavailable;
        self.overview.send_replace(Overview { discovered: true, awaits_namespaces, feeds, verdicts, unavailable });
        Ok(())
    }

    /// What is served, and what may be though the server does not say so: of what runs, and at the first look of what ran
    /// before.
    fn weigh(&mut self) -> Served {
        let before = self.known.as_ref().filter(|_| !self.is_tidy());
        let before = before.map(|known| known.feeds(&self.settings)).unwrap_or_default();
        let (served, source) = (self.discovery.served().clone(), self.factory.source());
        self.doubts.weigh(served, self.running.values().chain(&before), &source, &self.trigger)
    }

    /// Whether all that went while nobody looked is told of, and all that nobody wants any more forgotten.
    fn is_tidy(&self) -> bool {
        self.untidy.as_ref().is_some_and(BTreeSet::is_empty)
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

    /// Include patterns that fit nothing are said once each: most likely they are misspelled. One that has fitted is not,
    /// and what it was for will be back.
    fn say_unmatched(&mut self, resources: &[Arc<Resource>]) {
        let unmatched = select::unmatched(&self.settings, resources);
        for (_, words) in unmatched.iter().filter(|(pattern, _)| !self.weighed.contains(&pattern.to_string())) {
            warn!("{words} It is watched when it comes; `kubediff resources` lists what is served");
        }
        self.weighed.extend(self.settings.include.iter().map(ToString::to_string));
    }

    /// Tells of the objects whose resource or namespace went while nobody looked.
    async fn delete_vanished(&mut self, wanted: &BTreeMap<String, Feed>, served: &Served) -> Result<(), Closed> {
        for feed in self.vanished(wanted, served) {
            let target = self.store.feed(feed, Vec::new(), false).await?;
            self.store.close(target.id(), Close::Gone).await?;
        }
        Ok(())
    }

    /// Feeds in the file that are known to be gone. One that is not in it has no objects, and its end may be noted there:
    /// taking it up would undo that.
    fn vanished(&self, wanted: &BTreeMap<String, Feed>, served: &Served) -> Vec<Feed> {
        let mut before = self.known.as_ref().map(|known| known.feeds(&self.settings)).unwrap_or_default();
        before.retain(|feed| !wanted.contains_key(&feed.key()) && served.answered(&feed.resource.group));
        if let (false, Ok(reader)) = (before.is_empty(), self.store.reader()) {
            before.retain(|feed| reader.has_feed(&feed.key()).unwrap_or(true));
        }
        before
    }

    async fn remember(&mut self, served: &Served) -> Result<(), Closed> {
        let namespaces = match &self.namespaces {
            None => Names::NotAsked,
            Some(namespaces) if namespaces.are_known() => Names::Are(namespaces.names()),
            Some(_) => Names::Unknown,
        };
        let news = self.news.values().map(Informer::feed);
        let mut known = Known::new(self.known.as_ref(), served, namespaces, news);
        if let (Some(before), false) = (&self.known, self.is_tidy()) {
            // What went while nobody looked is still to be told, of those groups that have not answered since.
            let untold = |group: &str| self.untidy.as_ref().is_none_or(|silent| silent.contains(group));
            known.keep_last(before, untold);
        }
        if self.known.as_ref() == Some(&known) {
            return Ok(());
        }
        known.write(&self.store).await?;
        self.known = Some(known);
        Ok(())
    }

    /// Patterns need to know which namespaces there are: an informer of its own. What needs no pattern does not wait for
    /// it, and goes on whether or not it may be read.
    async fn watch_namespaces(&mut self) -> Result<(), Closed> {
        if !self.settings.namespaces.needs_live() {
            return match self.namespaces.take() {
                Some(namespaces) => self.factory.remove(namespaces.feed(), Close::Forget).await,
                None => Ok(()),
            };
        }
        let namespaces = self.namespaces.get_or_insert_with(|| Namespaces::watch(&self.factory));
        // Until it is known, what is read already stays, if a pattern speaks of it.
        let read = self.running.values().filter_map(|feed| feed.namespace().map(str::to_owned));
        namespaces.presume(read);
        Ok(())
    }

    /// A change of a CRD or an API service is a reason to look at what is served. Where they are not watched for their
    /// own sake, or not all of them are, their names are.
    fn guard(&mut self) {
        for resource in sentinel::watched() {
            let name = resource.group_resource();
            let whole = |feed: &Feed| feed.labels.is_empty() && feed.fields.is_empty();
            let mut informers = self.factory.informers().into_iter();
            let informer = informers.find(|i| i.feed().resource.group_resource() == name && whole(i.feed()));
            if let Some(guard) = self.guarded.get(&name) {
                let same = match (&guard.informer, &informer) {
                    (Some(guarding), Some(informer)) => guarding.is(informer),
                    (None, None) => true,
                    _ => false,
                };
                if same && !guard.task.is_finished() {
                    continue;
                }
                guard.task.abort();
            }
            let task = match informer.clone() {
                Some(informer) => self.sentinels.spawn(fire_on_change(informer, self.trigger.clone())),
                None => {
                    let (source, overview) = (self.factory.source(), self.overview.subscribe());
                    self.sentinels.spawn(sentinel::listen(source, resource, overview, self.trigger.clone()))
                }
            };
            self.guarded.insert(name, Guard { informer, task });
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

/// Waits until the first list of one of these is whole, or will never be, and takes out all of which that is so.
async fn next_synced(news: &mut BTreeMap<String, Informer>) {
    if news.is_empty() {
        return std::future::pending().await;
    }
    let waiting = news.values().map(|informer| Box::pin(informer.wait_for_sync()));
    let (ended, index, _) = futures::future::select_all(waiting).await;
    let key = news.keys().nth(index).cloned();
    news.retain(|of, informer| !informer.has_synced() && (ended.is_ok() || Some(of) != key.as_ref()));
}

/// Waits until every informer of the present plan is in sync or degraded: nothing more comes by waiting alone.
pub async fn settled(factory: &Factory, overview: &mut watch::Receiver<Overview>) {
    loop {
        if overview.wait_for(|overview| overview.discovered).await.is_err() {
            return;
        }
        let more = overview.borrow_and_update().awaits_namespaces;
        for informer in factory.informers() {
            let mut status = informer.status();
            let trouble = tokio::select! {
                _ = informer.wait_for_sync() => false,
                _ = status.wait_for(|status| status.phase == Phase::Waiting) => true,
            };
            // Which namespaces there are cannot be known now, and nobody knows when.
            if trouble && more && namespaces::is_theirs(informer.feed()) {
                return;
            }
        }
        if !more || overview.changed().await.is_err() {
            return;
        }
    }
}
