//! A target that mirrors a collection and keeps account, and a hand that writes to it and keeps account too.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::future::BoxFuture;
use kubediff::{
    cluster::{
        Feed, Resource, Scope, Version,
        reflector::{Closed, Freshness, Phase, Reader, Reflector, Settings, Shared, Status, Target, Update},
        source::{self, Discovered, Frames, Source, api::Api},
    },
    redact::{self, Document, Door},
};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::harness::{Access, Fault, Matching, Namespace, PATIENCE, Proxy, poll};

pub fn resource(group: &str, version: &str, plural: &str, kind: &str, namespaced: bool) -> Resource {
    Resource {
        group: group.into(),
        version: version.into(),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        kind: kind.into(),
        short_names: vec![],
        namespaced,
    }
}

/// The ConfigMaps of a namespace, without the one that a controller puts into each.
pub fn configmaps(namespace: &Namespace) -> Feed {
    let scope = Scope::Namespace(namespace.name().to_owned());
    let mut feed = Feed::new(resource("", "v1", "configmaps", "ConfigMap", true), scope);
    feed.fields = "metadata.name!=kube-root-ca.crt".into();
    feed
}

#[derive(Default)]
struct Account {
    cursor: Option<Version>,
    documents: BTreeMap<String, Document>,
    named: Option<BTreeSet<String>>,
    lists: usize,
    /// `name@generation` of each change that a watch reported, `-name` of each deletion.
    reported: Vec<String>,
}

#[derive(Clone, Default)]
pub struct Mirror(Arc<Mutex<Account>>);

impl Mirror {
    fn lock(&self) -> MutexGuard<'_, Account> {
        self.0.lock().unwrap()
    }

    /// Names with what is in them.
    pub fn documents(&self) -> BTreeMap<String, Value> {
        self.lock().documents.iter().map(|(name, document)| (name.clone(), document.value())).collect()
    }

    /// Names with their versions.
    pub fn objects(&self) -> BTreeMap<String, String> {
        self.lock().documents.iter().map(|(name, document)| (name.clone(), document.meta().version.0.clone())).collect()
    }

    pub fn document(&self, name: &str) -> Value {
        self.lock().documents[name].value()
    }

    /// What watches reported, in order.
    pub fn reported(&self) -> Vec<String> {
        self.lock().reported.clone()
    }

    pub fn lists_begun(&self) -> usize {
        self.lock().lists
    }

    pub async fn until_equal(&self, writing: &Writing) {
        let expected = writing.list().await;
        poll(PATIENCE, "the mirror to equal a fresh list", async || (self.documents() == expected).then_some(())).await;
    }

    /// Every change was reported by a watch, once and in order; those of `listed` came by a list.
    pub fn assert_each_once(&self, writing: &Writing, listed: &[&str]) {
        let made: Vec<_> = writing.made().into_iter().filter(|made| !listed.contains(&made.as_str())).collect();
        assert_eq!(self.lock().reported, made);
    }
}

/// What the n-th change to an object wrote into it.
fn generation(document: &Document) -> String {
    document.value()["data"]["generation"].as_str().unwrap_or_default().to_owned()
}

impl Target for Mirror {
    fn cursor(&self) -> Option<Version> {
        self.lock().cursor.clone()
    }

    async fn put(&mut self, update: Update) -> Result<(), Closed> {
        let account = &mut *self.lock();
        match update {
            Update::ListBegan => {
                account.named = Some(BTreeSet::new());
                account.lists += 1;
            }
            Update::Listed(documents) => {
                for document in documents {
                    let name = document.meta().name.clone();
                    account.named.as_mut().expect("a list began").insert(name.clone());
                    account.documents.insert(name, document);
                }
            }
            Update::ListEnded(version) => {
                let named = account.named.take().expect("a list began");
                account.documents.retain(|name, _| named.contains(name));
                account.cursor = Some(version);
            }
            Update::Applied(document) => {
                account.named = None;
                account.cursor = Some(document.meta().version.clone());
                account.reported.push(format!("{}@{}", document.meta().name, generation(&document)));
                account.documents.insert(document.meta().name.clone(), document);
            }
            Update::Deleted(document) => {
                account.documents.remove(&document.meta().name);
                match &mut account.named {
                    Some(named) => {
                        named.remove(&document.meta().name);
                    }
                    None => {
                        account.cursor = Some(document.meta().version.clone());
                        account.reported.push(format!("-{}", document.meta().name));
                    }
                }
            }
            Update::Unreadable { name, .. } => panic!("{name} could not be read"),
            Update::Bookmark(version) => account.cursor = Some(version),
        }
        Ok(())
    }
}

/// A reflector at work.
pub struct Reading {
    status: watch::Receiver<Status>,
    freshness: Freshness,
    stop: CancellationToken,
    task: JoinHandle<Result<Mirror, Closed>>,
}

impl Reading {
    pub async fn of(access: &Access, feed: Feed, mirror: &Mirror) -> Self {
        Self::with(access, feed, mirror, |_| {}).await
    }

    pub async fn with(access: &Access, feed: Feed, mirror: &Mirror, change: impl FnOnce(&mut Settings)) -> Self {
        Self::from(api(access).await, feed, mirror, change)
    }

    pub fn from(source: impl Source, feed: Feed, mirror: &Mirror, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let reader = Reader {
            source: Arc::new(source),
            feed: Arc::new(feed),
            door: Arc::new(door()),
            shared: Shared::new(4, None),
            settings: Arc::new(settings),
        };
        let reflector = Reflector::new(reader, mirror.clone());
        let (status, freshness, stop) = (reflector.status(), reflector.freshness(), CancellationToken::new());
        let task = tokio::spawn(reflector.run(stop.clone()));
        Self { status, freshness, stop, task }
    }

    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    pub async fn until(&self, what: &str, holds: impl Fn(&Status) -> bool) {
        let mut status = self.status.clone();
        let waited = tokio::time::timeout(PATIENCE, status.wait_for(|status| holds(status))).await;
        assert!(waited.is_ok(), "{what}: {:?}", self.status());
    }

    pub async fn until_live(&self) {
        self.until("it is live", |status| status.phase == Phase::Live).await;
    }

    /// All that the server has now is in the mirror, and whatever list that took is over: what is written from now on
    /// comes by the watch.
    pub async fn until_caught_up(&self) {
        let answer = tokio::time::timeout(PATIENCE, self.freshness.caught_up()).await;
        assert!(answer.is_ok_and(|answer| answer.is_ok()), "it has not caught up: {:?}", self.status());
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("no panic").expect("the mirror is never closed");
    }
}

/// All have the same key, so that equal objects are equal documents.
fn door() -> Door {
    Door::new(&redact::Settings::default(), &[1; 32]).unwrap()
}

pub async fn api(access: &Access) -> Api {
    Api::connect(access.config().await, Default::default()).expect("a client")
}

/// Writes ConfigMaps and remembers each change as the mirror would report it.
pub struct Writing {
    access: Access,
    namespace: String,
    http: reqwest::Client,
    made: Mutex<(BTreeMap<String, u32>, Vec<String>)>,
}

impl Writing {
    pub fn new(access: &Access, namespace: &str) -> Self {
        Self { access: access.clone(), namespace: namespace.to_owned(), http: access.http(), made: Mutex::default() }
    }

    pub fn made(&self) -> Vec<String> {
        self.made.lock().unwrap().1.clone()
    }

    fn next(&self, name: &str) -> Value {
        let made = &mut *self.made.lock().unwrap();
        let generation = made.0.entry(name.to_owned()).or_default();
        *generation += 1;
        made.1.push(format!("{name}@{generation}"));
        json!({"metadata": {"name": name}, "data": {"generation": generation.to_string()}})
    }

    async fn send(&self, method: reqwest::Method, path: &str, body: Option<Value>) -> Value {
        let url = format!("{}/api/v1/namespaces/{}/configmaps{path}", self.access.url, self.namespace);
        let mut request = self.http.request(method, url).bearer_auth(&self.access.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.expect("an answer");
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
        answer.json().await.expect("JSON")
    }

    /// Gives the new object's version.
    pub async fn create(&self, name: &str) -> String {
        let made = self.send(reqwest::Method::POST, "", Some(self.next(name))).await;
        made["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }

    pub async fn change(&self, name: &str) {
        self.send(reqwest::Method::PUT, &format!("/{name}"), Some(self.next(name))).await;
    }

    pub async fn delete(&self, name: &str) {
        self.made.lock().unwrap().1.push(format!("-{name}"));
        self.send(reqwest::Method::DELETE, &format!("/{name}"), None).await;
    }

    /// Names with what is in them, fresh from the server.
    pub async fn list(&self) -> BTreeMap<String, Value> {
        let list = self.send(reqwest::Method::GET, "?fieldSelector=metadata.name!%3Dkube-root-ca.crt", None).await;
        let (door, resource) = (door(), resource("", "v1", "configmaps", "ConfigMap", true));
        let items = list["items"].as_array().unwrap().iter();
        let documents = items.map(|item| door.admit(&resource, item.to_string().as_bytes()).unwrap());
        documents.map(|document| (document.meta().name.clone(), document.value())).collect()
    }
}

/// The API server through a proxy that fails twice on the seventh page.
pub struct Seventh {
    api: Api,
    pages: AtomicUsize,
    proxy: Arc<Proxy>,
}

impl Seventh {
    pub async fn of(proxy: &Arc<Proxy>) -> Self {
        Self { api: api(proxy.access()).await, pages: AtomicUsize::new(0), proxy: Arc::clone(proxy) }
    }
}

impl Source for Seventh {
    fn discover(&self) -> BoxFuture<'_, Result<Discovered, source::Error>> {
        self.api.discover()
    }

    fn list<'a>(
        &'a self,
        feed: &'a Feed,
        page: &'a source::List,
    ) -> BoxFuture<'a, Result<source::Page, source::Error>> {
        if self.pages.fetch_add(1, Ordering::Relaxed) == 6 {
            self.proxy.fault_next(1, Matching::lists(&feed.resource.plural), Fault::answer(500));
            self.proxy.fault_next(1, Matching::lists(&feed.resource.plural), Fault::Drop);
        }
        self.api.list(feed, page)
    }

    fn watch<'a>(&'a self, feed: &'a Feed, watch: &'a source::Watch) -> BoxFuture<'a, Result<Frames, source::Error>> {
        self.api.watch(feed, watch)
    }
}
