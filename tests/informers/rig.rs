//! A fleet of informers over an API server, with a journal that writes down what it is told.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, future::BoxFuture};
use kubediff::{
    cluster::{
        Feed, Resource,
        discovery::{self, Discovery, Trigger},
        fleet::{self, Fleet, Overview},
        informer::{self, Audits, Factory, Informer},
        reflector::Relist,
        select::{Pattern, Settings},
        source::{
            Discovered, Error, Frame, Frames, List, Page, Source, Watch,
            api::{self, Api},
        },
        store::{Delta, Journal, Place, Seen, Store, Within, Writing},
    },
    redact::{self, Door},
};
use serde_json::Value;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::harness::{Access, PATIENCE, poll};

pub struct Rig {
    pub factory: Factory,
    pub notes: Notes,
    pub overview: watch::Receiver<Overview>,
    reload: watch::Sender<Settings>,
    source: Arc<Forgetful>,
    door: Arc<Door>,
    store: Option<Store>,
    writing: Option<Writing>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
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
        Self::build(access, place, Some(settings), None).await
    }

    pub async fn start_auditing(access: &Access, place: &Place, settings: Settings, every: Duration) -> Self {
        Self::build(access, place, Some(settings), Some(every)).await
    }

    /// Without a fleet: only the informers that the test asks for.
    pub async fn bare(access: &Access) -> Self {
        Self::bare_at(access, &Place::Temporary).await
    }

    pub async fn bare_at(access: &Access, place: &Place) -> Self {
        Self::build(access, place, None, None).await
    }

    async fn build(access: &Access, place: &Place, settings: Option<Settings>, audit: Option<Duration>) -> Self {
        let api = api(access).await;
        let source = Arc::new(Forgetful { api, forget_next: Arc::default() });
        let notes = Notes::default();
        let (store, writing) = Store::open(place, Some(Box::new(notes.clone()))).unwrap();
        let door = Arc::new(Door::new(&redact::Settings::default(), &store.redaction_key()).unwrap());
        let trigger = Trigger::new();
        let informers = informer::Settings { audit, ..informer::Settings::default() };
        let factory = Factory::new(source.clone(), door.clone(), store.clone(), informers, Some(trigger.clone()));
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let mut overview = watch::channel(Overview::default()).1;
        let (reload, reloaded) = watch::channel(settings.clone().unwrap_or_default());
        if let Some(settings) = settings {
            let discovery = Discovery::new(source.clone(), discovery::Settings::default(), trigger.clone());
            let fleet = Fleet::new(factory.clone(), store.clone(), discovery, trigger, settings);
            overview = fleet.overview();
            let stop = stop.clone();
            tasks.spawn(async move { drop(fleet.run(stop, reloaded).await) });
        }
        let (store, writing) = (Some(store), Some(writing));
        Self { factory, notes, overview, reload, source, door, store, writing, stop, tasks }
    }

    /// As after a change of the configuration.
    pub fn reload(&self, settings: Settings) {
        self.reload.send_replace(settings);
    }

    /// The informers that are there now: `v1/configmaps in shop`.
    pub fn watched(&self) -> BTreeSet<String> {
        self.factory.informers().iter().map(|informer| informer.feed().to_string()).collect()
    }

    /// How often the collection of a resource was listed again because the cursor was good for nothing.
    pub fn relisted(&self, group_resource: &str) -> u64 {
        let informers = self.factory.informers().into_iter();
        let of = informers.filter(|informer| informer.feed().resource.group_resource() == group_resource);
        of.map(|informer| {
            let relists = informer.status().borrow().relists.clone();
            relists.iter().filter(|(why, _)| **why != Relist::First).map(|(_, times)| times).sum::<u64>()
        })
        .sum()
    }

    /// A change of one object was told once: by the watch, or late if a list had to be read.
    pub async fn told_once(&self, group_resource: &str, object: &str, what: &str) {
        let steps = self.notes.wait_for(&format!("{group_resource} {object}"), 1).await;
        let relisted = self.relisted(group_resource);
        let late = relisted > 0 && steps == [format!("Late {what}")];
        assert!(late || steps == [format!("Live {what}")], "{steps:?}, relisted {relisted} times");
    }

    pub async fn synced(&self) {
        let mut overview = self.overview.clone();
        tokio::time::timeout(PATIENCE, fleet::settled(&self.factory, &mut overview)).await.expect("in sync in time");
    }

    /// Stops everything in the order of the data and waits until all is on disk.
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.factory.shut_down().await;
        while self.tasks.join_next().await.is_some() {}
        let Self { factory, store, writing, .. } = self;
        drop((factory, store));
        let writing = writing.unwrap();
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
        *self.source.forget_next.lock().unwrap() = Some(format!("\"name\":\"{name}\""));
    }

    /// Whether that change was lost by now.
    pub fn has_forgotten(&self) -> bool {
        self.source.forget_next.lock().unwrap().is_none()
    }

    pub async fn stored(&self, plural: &str, namespace: &str, name: &str) -> Value {
        let informer = self.factory.informers().into_iter().find(|i| i.feed().resource.plural == plural).unwrap();
        informer.lister().await.unwrap().get(namespace, name).unwrap().unwrap().value()
    }

    /// The oracle: every feed is in sync, and what is stored of it is what a fresh list has, document by document.
    pub async fn equals_a_fresh_list(&self, access: &Access) {
        let whole = |informer: &Informer| !informer.feed().metadata_only;
        for informer in self.factory.informers().into_iter().filter(whole) {
            let path = informer.feed().resource.path(&informer.feed().scope);
            poll(PATIENCE, &format!("the store equals a fresh list of {path}"), async || {
                let answer = access.get(&path).send().await.ok()?;
                // Another test's CRD may be gone meanwhile, and its informer with it.
                let key = informer.feed().key();
                if answer.status() == 404 || !self.factory.informers().iter().any(|i| i.feed().key() == key) {
                    return Some(());
                }
                if !informer.has_synced() {
                    return None;
                }
                let answer = answer.text().await.ok()?;
                let list: Value = serde_json::from_str(&answer).ok()?;
                let resource = &informer.feed().resource;
                let fresh: BTreeMap<String, Value> =
                    list["items"].as_array()?.iter().filter_map(|item| self.document(resource, item)).collect();
                let mut stored = BTreeMap::new();
                let mut lister = informer.lister().await.ok()?;
                lister
                    .for_each(|d| drop(stored.insert(format!("{}/{}", d.meta().namespace, d.meta().name), d.value())))
                    .ok()?;
                (fresh == stored).then_some(())
            })
            .await;
        }
    }

    fn document(&self, resource: &Resource, item: &Value) -> Option<(String, Value)> {
        let document = self.door.admit(resource, item.to_string().as_bytes()).ok()?;
        Some((format!("{}/{}", document.meta().namespace, document.meta().name), document.value()))
    }
}

/// What the journal was told and the store has committed: `configmaps shop/web` -> `Live updated`, ...
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    kept: Vec<(String, String)>,
    tried: Vec<(String, String)>,
}

impl Notes {
    pub fn of(&self, path: &str) -> Vec<String> {
        self.0.lock().unwrap().kept.iter().filter(|(of, _)| of == path).map(|(_, what)| what.clone()).collect()
    }

    pub fn about(&self, text: &str) -> Vec<String> {
        let all = &self.0.lock().unwrap().kept;
        all.iter().filter(|(of, _)| of.contains(text)).map(|(of, what)| format!("{of}: {what}")).collect()
    }

    pub async fn wait_for(&self, path: &str, count: usize) -> Vec<String> {
        poll(PATIENCE, &format!("{count} changes of {path}"), async || {
            Some(self.of(path)).filter(|told| told.len() >= count)
        })
        .await
    }

    pub async fn wait_for_last(&self, path: &str, end: &str) -> Vec<String> {
        let ends = |told: &Vec<String>| told.last().is_some_and(|last| last.ends_with(end));
        poll(PATIENCE, &format!("{path} {end}"), async || Some(self.of(path)).filter(ends)).await
    }
}

impl Journal for Notes {
    fn record(&mut self, _: &mut Within<'_>, feed: &Feed, delta: &Delta, seen: Seen) -> Result<(), rusqlite::Error> {
        let meta = delta.object().meta();
        let what = match delta {
            Delta::Added(_) => "created",
            Delta::Updated { .. } => "updated",
            Delta::Deleted { .. } => "deleted",
        };
        let path = format!("{} {}/{}", feed.resource.group_resource(), meta.namespace, meta.name);
        self.0.lock().unwrap().tried.push((path, format!("{seen:?} {what}")));
        Ok(())
    }

    fn settled(&mut self, committed: bool) {
        let told = &mut *self.0.lock().unwrap();
        if committed {
            told.kept.append(&mut told.tried);
        } else {
            told.tried.clear();
        }
    }
}

/// The API server, but for one change that it can be made to lose: no real server does that on request.
struct Forgetful {
    api: Api,
    forget_next: Arc<Mutex<Option<String>>>,
}

impl Source for Forgetful {
    fn discover(&self) -> BoxFuture<'_, Result<Discovered, Error>> {
        self.api.discover()
    }

    fn list<'a>(&'a self, feed: &'a Feed, page: &'a List) -> BoxFuture<'a, Result<Page, Error>> {
        self.api.list(feed, page)
    }

    fn watch<'a>(&'a self, feed: &'a Feed, watch: &'a Watch) -> BoxFuture<'a, Result<Frames, Error>> {
        Box::pin(async move {
            let forget = self.forget_next.clone();
            let frames = self.api.watch(feed, watch).await?;
            let keep = move |frame: &Result<Frame, Error>| {
                let mut forget = forget.lock().unwrap();
                let lost = match (frame, &*forget) {
                    (Ok(Frame::Added(object) | Frame::Modified(object) | Frame::Deleted(object)), Some(name)) => {
                        String::from_utf8_lossy(object).contains(name)
                    }
                    _ => false,
                };
                if lost {
                    *forget = None;
                }
                futures::future::ready(!lost)
            };
            Ok(frames.filter(keep).boxed())
        })
    }

    fn openapi_index(&self) -> BoxFuture<'_, Result<HashMap<String, String>, Error>> {
        self.api.openapi_index()
    }

    fn openapi<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<Option<Bytes>, Error>> {
        self.api.openapi(resource)
    }
}

pub async fn api(access: &Access) -> Api {
    Api::connect(access.config().await, api::Settings::default()).unwrap()
}

/// Waits until the server says that it serves a group: that lags a little behind its CRD.
pub async fn until_served(access: &Access, group: &str) {
    let api = api(access).await;
    poll(PATIENCE, format!("{group} to be served"), async || {
        api.discover().await.ok()?.resources.iter().any(|resource| resource.group == group).then_some(())
    })
    .await;
}

/// A CRD of widgets that take anything, served at some versions.
pub fn crd(group: &str, served: &[&str], stored: &str) -> String {
    let versions: Vec<String> = served
        .iter()
        .map(|version| {
            format!(
                "{{name: {version}, served: true, storage: {}, schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}}}",
                *version == stored
            )
        })
        .collect();
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: widgets.{group}}}\nspec:\n  \
         group: {group}\n  scope: Namespaced\n  names: {{plural: widgets, singular: widget, kind: Widget}}\n  versions: [{}]\n",
        versions.join(", ")
    )
}

pub fn widget(group: &str, version: &str, name: &str, size: u32) -> String {
    format!("apiVersion: {group}/{version}\nkind: Widget\nmetadata: {{name: {name}}}\nspec: {{size: {size}}}\n")
}
