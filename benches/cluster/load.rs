//! Changes at a steady rate, and how long each takes to reach the receiver.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    args::Size,
    harness::{Access, Cluster},
    objects::{Kind, Templates, namespace},
    population::{Etcd, Population},
    recorder::{Recorder, Version},
};

/// Above this rate changes are put into etcd: the API server's way of writing would take all of the machine, and leave
/// none to measure with.
const MOST_BY_API: u32 = 300;
const IN_FLIGHT: usize = 64;
/// How long after the last change an event may still come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes changes; each call goes on where the one before stopped, so that no object is written with what it has.
pub struct Load {
    access: Access,
    http: reqwest::Client,
    etcd: Etcd,
    templates: Arc<Templates>,
    size: Size,
    made: usize,
}

/// One rate.
#[derive(Clone, Debug)]
pub struct Run {
    pub asked: u32,
    pub changes: usize,
    /// Changes a second that were made.
    pub made: f64,
    /// Changes a second that arrived, until the last.
    pub received: f64,
    pub missing: usize,
    /// Sorted; of those that arrived.
    pub latencies: Vec<Duration>,
}

impl Run {
    pub fn percentile(&self, percent: usize) -> Option<Duration> {
        let at = (self.latencies.len() * percent).div_ceil(100).max(1) - 1;
        self.latencies.get(at).copied()
    }
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

impl Load {
    pub fn new(cluster: &Cluster, population: &Population, size: Size) -> Self {
        let http = cluster.access().http_builder().http1_only().build().expect("an HTTP client");
        let templates = population.templates.clone();
        Self { access: cluster.access().clone(), http, etcd: Etcd::of(cluster), templates, size, made: 0 }
    }

    /// Makes `changes` changes at `rate` a second and returns when each was committed, by its version.
    pub async fn make(&mut self, rate: u32, changes: usize) -> (HashMap<Version, Instant>, Duration) {
        let by_api = rate <= MOST_BY_API;
        let room = Arc::new(Semaphore::new(IN_FLIGHT));
        let mut open = JoinSet::new();
        let mut committed = HashMap::with_capacity(changes);
        let began = Instant::now();
        for n in 0..changes {
            tokio::time::sleep_until((began + Duration::from_secs(1) * u32::try_from(n).unwrap_or(0) / rate).into())
                .await;
            let permit = room.clone().acquire_owned().await.expect("never closed");
            let (kind, i, generation) = self.next(by_api);
            let change = if by_api {
                let (http, access) = (self.http.clone(), self.access.clone());
                open.spawn(async move {
                    let version = patch(&http, &access, kind, i, generation).await;
                    let at = Instant::now();
                    drop(permit);
                    (version, at)
                })
            } else {
                let (etcd, templates) = (self.etcd.clone(), self.templates.clone());
                open.spawn(async move {
                    let version = etcd.put(kind, i, &templates.object(kind, i, generation)).await;
                    let at = Instant::now();
                    drop(permit);
                    (version, at)
                })
            };
            drop(change);
            while let Some(done) = open.try_join_next() {
                note(&mut committed, done);
            }
        }
        while let Some(done) = open.join_next().await {
            note(&mut committed, done);
        }
        (committed, began.elapsed())
    }

    /// Makes changes and waits until they have arrived.
    pub async fn run(&mut self, recorder: &Recorder, rate: u32, changes: usize) -> Run {
        recorder.forget();
        let began = Instant::now();
        let (committed, took) = self.make(rate, changes).await;
        let deadline = Instant::now() + PATIENCE;
        while recorder.arrived(committed.keys().copied()) < committed.len() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let seen = recorder.seen();
        let arrivals = committed.iter().filter_map(|(version, at)| Some((*seen.first.get(version)?, *at)));
        let mut latencies: Vec<_> =
            arrivals.clone().map(|(arrived, at)| arrived.saturating_duration_since(at)).collect();
        latencies.sort_unstable();
        let last = arrivals.map(|(arrived, _)| arrived).max().unwrap_or(began);
        Run {
            asked: rate,
            changes: committed.len(),
            made: committed.len() as f64 / took.as_secs_f64(),
            received: latencies.len() as f64 / (last - began).as_secs_f64().max(0.001),
            missing: committed.len() - latencies.len(),
            latencies,
        }
    }

    /// Pods and ConfigMaps in turn. What goes through the API and what goes past it stay apart: an object is always
    /// changed in one field.
    fn next(&mut self, by_api: bool) -> (Kind, usize, usize) {
        let n = self.made;
        self.made += 1;
        let (kind, of, nth) = match (self.size.pods, self.size.configmaps) {
            (pods, 0) => (Kind::Pod, pods, n),
            (0, configmaps) => (Kind::ConfigMap, configmaps, n),
            (pods, _) if n.is_multiple_of(2) => (Kind::Pod, pods, n / 2),
            (_, configmaps) => (Kind::ConfigMap, configmaps, n / 2),
        };
        let half = (of / 2).max(1);
        let i = nth % half + if by_api { 0 } else { of - half };
        (kind, i, nth + 1)
    }
}

fn note(committed: &mut HashMap<Version, Instant>, done: Result<Done, tokio::task::JoinError>) {
    let (version, at) = done.expect("a change does not panic");
    match version {
        Ok(version) => drop(committed.insert(version, at)),
        Err(why) => eprintln!("a change failed: {why}"),
    }
}

type Done = (Result<Version, String>, Instant);

async fn patch(
    http: &reqwest::Client,
    access: &Access,
    kind: Kind,
    i: usize,
    generation: usize,
) -> Result<Version, String> {
    let (plural, namespace, name) = (kind.plural(), namespace(i), kind.name(i));
    let url = format!("{}/api/v1/namespaces/{namespace}/{plural}/{name}?fieldManager=kubectl-edit", access.url);
    let body = kind.patch(i, generation).to_string();
    let request = http.patch(url).bearer_auth(&access.token).header(CONTENT_TYPE, "application/json-patch+json");
    let answer = request.body(body).send().await.map_err(|e| e.to_string())?;
    let (status, body) = (answer.status(), answer.bytes().await.map_err(|e| e.to_string())?);
    if !status.is_success() {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body)));
    }
    let object: Object = serde_json::from_slice(&body).map_err(|e| e.to_string())?;
    object.metadata.resource_version.parse().map_err(|_| "a version that is no number".to_owned())
}
