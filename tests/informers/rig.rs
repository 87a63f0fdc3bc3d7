//! Informers over an API server, alone or as a fleet, with a journal that writes down what it is told.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use kubediff::{
    cluster::{
        Feed,
        discovery::{self, Discovery, Trigger},
        fleet::{self, Fleet, Overview},
        informer::{self, Audits, Factory, Informer},
        reflector::{Relist, Status},
        select::{Pattern, Settings},
        source::api::{self, Api},
        store::{Place, Store, Writing},
    },
    redact::{self, Door},
};
use serde_json::Value;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{forgetful::Forgetful, notes::Notes};
use crate::harness::{Access, PATIENCE};

pub struct Rig {
    pub factory: Factory,
    pub notes: Notes,
    pub overview: watch::Receiver<Overview>,
    pub(super) door: Arc<Door>,
    pub(super) store: Store,
    reload: watch::Sender<Settings>,
    source: Arc<Forgetful>,
    writing: Writing,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    pub(super) agreed: Mutex<Agreed>,
}

/// How far the oracle has looked.
#[derive(Clone, Copy, Default)]
pub(super) struct Agreed {
    pub(super) relisted: u64,
    pub(super) made: usize,
    pub(super) told: usize,
}

/// What a rig is made of, but for the server.
pub struct Parts {
    pub place: Place,
    /// `None`: only the informers that the test asks for.
    pub fleet: Option<Settings>,
    pub informers: informer::Settings,
}

impl Default for Parts {
    fn default() -> Self {
        Self { place: Place::Temporary, fleet: None, informers: as_the_daemon() }
    }
}

/// Read in turns, as `kubediff run` reads them.
pub fn as_the_daemon() -> informer::Settings {
    informer::Settings { in_turns: true, ..informer::Settings::default() }
}

/// What is watched when nobody says otherwise.
pub fn all_but_noise() -> Settings {
    Settings::default()
}

pub fn only(patterns: &[&str]) -> Settings {
    Settings { include: patterns.iter().map(|text| Pattern::parse(text).unwrap()).collect(), ..Settings::default() }
}

impl Rig {
    pub async fn start(access: &Access, place: &Place, settings: Settings) -> Self {
        let parts = Parts { place: place.clone(), fleet: Some(settings), ..Parts::default() };
        Self::of(access.config().await, parts)
    }

    pub async fn start_auditing(access: &Access, place: &Place, settings: Settings, every: Duration) -> Self {
        let informers = informer::Settings { audit: Some(every), ..as_the_daemon() };
        Self::of(access.config().await, Parts { place: place.clone(), fleet: Some(settings), informers })
    }

    /// Without a fleet: only the informers that the test asks for.
    pub async fn bare(access: &Access) -> Self {
        Self::bare_at(access, &Place::Temporary).await
    }

    pub async fn bare_at(access: &Access, place: &Place) -> Self {
        Self::of(access.config().await, Parts { place: place.clone(), ..Parts::default() })
    }

    pub fn of(config: kube::Config, parts: Parts) -> Self {
        let Parts { place, fleet, informers } = parts;
        let source = Arc::new(Forgetful::new(Api::connect(config, api::Settings::default()).unwrap()));
        let notes = Notes::default();
        let (store, writing) = Store::open(&place, Some(Box::new(notes.clone()))).unwrap();
        let door = Arc::new(Door::new(&redact::Settings::default(), &store.redaction_key()).unwrap());
        let trigger = Trigger::new();
        let factory = Factory::new(source.clone(), door.clone(), store.clone(), informers, Some(trigger.clone()));
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let mut overview = watch::channel(Overview::default()).1;
        let (reload, reloaded) = watch::channel(fleet.clone().unwrap_or_default());
        if let Some(settings) = fleet {
            let discovery = Discovery::new(source.clone(), discovery::Settings::default(), trigger.clone());
            let fleet = Fleet::new(factory.clone(), store.clone(), discovery, trigger, settings);
            overview = fleet.overview();
            let stop = stop.clone();
            tasks.spawn(async move { drop(fleet.run(stop, reloaded).await) });
        }
        let agreed = Mutex::default();
        Self { factory, notes, overview, door, store, reload, source, writing, stop, tasks, agreed }
    }

    /// As after a change of the configuration.
    pub fn reload(&self, settings: Settings) {
        self.reload.send_replace(settings);
    }

    /// Starts the informer of a feed.
    pub fn read(&self, feed: Feed) -> Informer {
        let informer = self.factory.informer(feed);
        self.factory.start();
        informer
    }

    /// The informers that are there now: `v1/configmaps in shop`.
    pub fn watched(&self) -> BTreeSet<String> {
        self.factory.informers().iter().map(|informer| informer.feed().to_string()).collect()
    }

    /// The informer of a resource, by its plural.
    pub fn informer(&self, plural: &str) -> Option<Informer> {
        self.factory.informers().into_iter().find(|informer| informer.feed().resource.plural == plural)
    }

    /// How often the collection of a resource was listed again because the cursor was good for nothing.
    pub fn relisted(&self, group_resource: &str) -> u64 {
        let informers = self.factory.informers().into_iter();
        let of = informers.filter(|informer| informer.feed().resource.group_resource() == group_resource);
        of.map(|informer| {
            let relists = informer.status().borrow().relists.clone();
            let lost = relists.iter().filter(|(why, _)| !matches!(why, Relist::First | Relist::Asked));
            lost.map(|(_, times)| times).sum::<u64>()
        })
        .sum()
    }

    /// All changes of one object were told once each: by the watch, or late if a list had to be read.
    pub async fn told(&self, group_resource: &str, object: &str, changes: &[&str]) {
        let steps = self.notes.wait_for(&format!("{group_resource} {object}"), changes.len()).await;
        let relisted = self.relisted(group_resource);
        let fits = |(step, change): (&String, &&str)| match step.split_once(' ') {
            Some(("Live", what)) => what == *change,
            Some(("Late", what)) => what == *change && relisted > 0,
            _ => false,
        };
        let all = steps.len() == changes.len() && steps.iter().zip(changes).all(fits);
        assert!(all, "{steps:?} for {changes:?}, relisted {relisted} times");
    }

    /// Everything that is served and may be read is in sync. What is in trouble is waited for: only what comes after its
    /// first list is news.
    pub async fn synced(&self) {
        let synced = async {
            fleet::settled(&self.factory, &mut self.overview.clone()).await;
            for informer in self.factory.informers() {
                let mut status = informer.status();
                // One whose CRD goes meanwhile ends.
                tokio::select! {
                    _ = informer.wait_for_sync() => {}
                    _ = status.wait_for(|status| status.denied) => {}
                }
            }
        };
        tokio::time::timeout(PATIENCE, synced).await.expect("in sync in time");
    }

    /// Stops everything in the order of the data and waits until all is on disk.
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.factory.shut_down().await;
        while self.tasks.join_next().await.is_some() {}
        let Self { factory, store, writing, .. } = self;
        drop((factory, store));
        tokio::task::spawn_blocking(move || writing.join()).await.unwrap();
    }

    pub fn version_of(&self, group: &str) -> Option<String> {
        let informers = self.factory.informers();
        informers.iter().find(|i| i.feed().resource.group == group).map(|i| i.feed().resource.version.clone())
    }

    pub fn audits(&self) -> Audits {
        let mut all = Audits::default();
        for one in self.factory.informers().iter().map(Informer::audits) {
            all.done += one.done;
            all.undecided += one.undecided;
            all.missed += one.missed;
        }
        all
    }

    /// The next change of an object that the server tells is lost on the way: also that it was made, or deleted.
    pub fn forget_next_change(&self, name: &str) {
        self.source.forget_next_change(name);
    }

    /// Whether that change was lost by now.
    pub fn has_forgotten(&self) -> bool {
        self.source.has_forgotten()
    }

    pub async fn stored(&self, plural: &str, namespace: &str, name: &str) -> Value {
        let informer = self.informer(plural).unwrap();
        informer.lister().await.unwrap().get(namespace, name).unwrap().unwrap().value()
    }
}

/// Waits for something to be true of an informer's reflector.
pub async fn until(informer: &Informer, what: &str, holds: impl Fn(&Status) -> bool) -> Status {
    let mut status = informer.status();
    let waited = tokio::time::timeout(PATIENCE, status.wait_for(|status| holds(status))).await;
    match waited {
        Ok(status) => status.expect("the informer runs").clone(),
        Err(_) => panic!("waited in vain for {}: {what}: {:?}", informer.feed(), informer.status().borrow().clone()),
    }
}

pub async fn api(access: &Access) -> Api {
    Api::connect(access.config().await, api::Settings::default()).unwrap()
}
