//! A load of random changes, and the oracle: what was received, replayed, is the state of a fresh list.

use std::{
    collections::{BTreeMap, HashSet},
    future::Future,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use kubediff::{
    cluster::Resource,
    redact::{self, Door},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use reqwest::Method;
use serde_json::{Value, json};

use super::daemon::MOMENT;
use crate::harness::{Access, Answer, PATIENCE, Receiver, receiver::Received};

/// Creates, changes and deletes ConfigMaps of one namespace at random.
pub struct Load {
    access: Access,
    namespace: String,
    workers: u64,
    /// Between two changes of a worker.
    pause: Duration,
    unanswered: AtomicU64,
}

impl Load {
    pub fn new(access: &Access, namespace: &str) -> Self {
        let namespace = namespace.to_owned();
        Self { access: access.clone(), namespace, workers: 8, pause: Duration::ZERO, unanswered: AtomicU64::new(0) }
    }

    pub fn slow(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Requests that may have changed something although the server did not say so: it failed, or was not heard.
    pub fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::SeqCst)
    }

    /// Makes `changes` changes to `objects` objects; gives how many the server said it made.
    pub async fn run(&self, seed: u64, changes: u64, objects: u64) -> u64 {
        let left = AtomicU64::new(changes);
        self.work(seed, objects, || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok())
            .await
    }

    /// Makes changes until something else is done.
    pub async fn run_until(&self, seed: u64, objects: u64, done: impl Future<Output = ()>) -> u64 {
        let ended = std::cell::Cell::new(false);
        let (changes, ()) = tokio::join!(self.work(seed, objects, || !ended.get()), async {
            done.await;
            ended.set(true);
        });
        changes
    }

    async fn work(&self, seed: u64, objects: u64, more: impl Fn() -> bool) -> u64 {
        let http = self.access.http();
        let workers = (0..self.workers.min(objects)).map(|worker| {
            let (http, more) = (&http, &more);
            async move {
                let mut random = StdRng::seed_from_u64(seed * 1000 + worker);
                let mut done = 0;
                while more() {
                    // Each worker has objects of its own, so that no two requests are about the same one.
                    let mine = objects.div_ceil(self.workers.min(objects));
                    let name = format!("o{}", worker * mine + random.random_range(0..mine));
                    let step = random.random_range(0..100);
                    let text = format!("{:x}", random.random::<u64>());
                    done += u64::from(self.change(http, &name, step, &text).await);
                    tokio::time::sleep(self.pause).await;
                }
                done
            }
        });
        futures::future::join_all(workers).await.into_iter().sum()
    }

    /// One change; whether the server said that it made it.
    async fn change(&self, http: &reqwest::Client, name: &str, step: u32, text: &str) -> bool {
        let all = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
        let one = format!("{all}/{name}");
        if step < 8 && self.made(self.access.request_by(http, Method::DELETE, &one)).await {
            return true;
        }
        let patch = json!({"data": {format!("k{}", step % 7): text}}).to_string();
        let request = self.access.request_by(http, Method::PATCH, &one).body(patch);
        if self.made(request.header("content-type", "application/merge-patch+json")).await {
            return true;
        }
        let object = json!({"metadata": {"name": name}, "data": {"k0": text, "note": "first line\nsecond line\n"}});
        self.made(self.access.request_by(http, Method::POST, &all).json(&object)).await
    }

    async fn made(&self, request: reqwest::RequestBuilder) -> bool {
        let status = request.send().await.map(|answer| answer.status());
        if status.as_ref().map_or(true, reqwest::StatusCode::is_server_error) {
            self.unanswered.fetch_add(1, Ordering::SeqCst);
        }
        status.is_ok_and(|status| status.is_success())
    }
}

/// Every namespace gets this ConfigMap from the controllers, when they run.
const NOT_OURS: &str = "kube-root-ca.crt";

/// What the received events come to.
#[derive(Debug, Default)]
pub struct Replay {
    pub state: BTreeMap<String, Value>,
    /// Events, without those that came again.
    pub changes: u64,
    pub duplicates: u64,
    pub late: u64,
}

impl Replay {
    /// Replays what a receiver accepted, in the order of arrival. Panics when it does not fit together.
    pub fn of(receiver: &Receiver) -> Self {
        let mut replay = Self::default();
        let mut seen = HashSet::new();
        let mut versions: BTreeMap<String, String> = BTreeMap::new();
        // A 200 whose body was cut may have been taken for an answer: then it is not sent again.
        let taken = |request: &Received| request.accepted() || matches!(request.answer, Answer::CutInBody);
        for request in receiver.received().into_iter().filter(taken) {
            let body = request.json();
            let events = body.as_array().cloned().unwrap_or_else(|| vec![body]);
            for event in events {
                let id = event["id"].as_str().expect("an id").to_owned();
                if !seen.insert(id) {
                    replay.duplicates += 1;
                    continue;
                }
                replay.apply(&event, &mut versions);
            }
        }
        replay
    }

    fn apply(&mut self, event: &Value, versions: &mut BTreeMap<String, String>) {
        if event["resource"]["name"] == NOT_OURS {
            return;
        }
        self.changes += 1;
        self.late += u64::from(event["observed"] == "late");
        let text = |field: &str| event["resource"][field].as_str().unwrap_or_default().to_owned();
        let name = format!("{}/{}", text("namespace"), text("name"));
        match event["type"].as_str().unwrap() {
            "created" => {
                let before = self.state.insert(name.clone(), event["object"].clone());
                assert!(before.is_none(), "{name} was created twice: {event}");
            }
            "updated" => {
                let document = self.state.get_mut(&name).unwrap_or_else(|| panic!("{name} was never created: {event}"));
                let before = versions.get(&name).cloned().unwrap_or_default();
                assert_eq!(text("previousResourceVersion"), before, "{name}: out of order or with a gap: {event}");
                let patch: json_patch::Patch = serde_json::from_value(event["patch"].clone()).unwrap();
                json_patch::patch(document, &patch).unwrap_or_else(|error| panic!("{name}: {error}: {event}"));
            }
            "deleted" => drop(self.state.remove(&name).unwrap_or_else(|| panic!("{name} was not there: {event}"))),
            other => panic!("{other}"),
        }
        versions.insert(name, text("resourceVersion"));
    }

    /// Each change is an event of its own: as many as the server said that it made for a load, and at most those besides
    /// that it may have made.
    pub fn assert_each_once(&self, made: u64, load: &Load) {
        let most = made + load.unanswered();
        assert!((made..=most).contains(&self.changes), "{} events of {made} to {most} changes", self.changes);
    }

    /// Waits until at least so many changes have come and their replay equals a fresh list of the namespace's
    /// ConfigMaps; says what differs when it never does.
    pub async fn wait_until_equal(receiver: &Receiver, access: &Access, namespace: &str, changes: u64) -> Self {
        let deadline = PATIENCE * 4;
        let until = Instant::now() + deadline;
        loop {
            let replay = Self::of(receiver);
            let fresh = fresh(access, namespace).await.unwrap_or_default();
            if replay.state == fresh && replay.changes >= changes {
                return replay;
            }
            let differs: Vec<_> =
                fresh.iter().filter(|(name, object)| replay.state.get(*name) != Some(object)).collect();
            let gone: Vec<_> = replay.state.keys().filter(|name| !fresh.contains_key(*name)).collect();
            assert!(
                Instant::now() < until,
                "after {deadline:?} and {} of {changes} changes {} objects differ and {} should be gone: {:?} {gone:?}",
                replay.changes,
                differs.len(),
                gone.len(),
                differs.first().map(|(name, object)| (name, object, replay.state.get(*name)))
            );
            tokio::time::sleep(MOMENT).await;
        }
    }
}

async fn fresh(access: &Access, namespace: &str) -> Option<BTreeMap<String, Value>> {
    let door = Door::new(&redact::Settings::default(), &[0; 32]).unwrap();
    let resource = Resource::core("v1", "configmaps", "ConfigMap");
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let list: Value = access.get(&path).send().await.ok()?.json().await.ok()?;
    let documents =
        list["items"].as_array()?.iter().map(|item| door.admit(&resource, item.to_string().as_bytes()).unwrap());
    let all = documents.map(|d| (format!("{}/{}", d.meta().namespace, d.meta().name), d.value()));
    Some(all.filter(|(name, _)| !name.ends_with(NOT_OURS)).collect())
}
