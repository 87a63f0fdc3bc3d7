//! The receiver: notes which version of which object was told of when, and says 200.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use http_body_util::BodyExt;
use hyper::Response;
use serde::Deserialize;

use crate::harness::serve::{Server, full};

/// resourceVersions are etcd revisions: one names one change of one object in the whole cluster.
pub type Version = u64;

pub struct Recorder {
    server: Server,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
pub struct Seen {
    /// The first arrival of each.
    pub first: HashMap<Version, Instant>,
    pub requests: usize,
    pub events: usize,
    pub bytes: usize,
}

impl Recorder {
    pub fn start() -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let server = Server::start(None, {
            let seen = seen.clone();
            move |request: hyper::Request<hyper::body::Incoming>| {
                let seen = seen.clone();
                async move {
                    let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
                    let at = Instant::now();
                    let versions = versions(&body);
                    let mut seen = lock(&seen);
                    seen.requests += 1;
                    seen.bytes += body.len();
                    seen.events += versions.len();
                    for version in versions {
                        seen.first.entry(version).or_insert(at);
                    }
                    Ok(Response::new(full("")))
                }
            }
        });
        Self { server, seen }
    }

    pub fn url(&self) -> String {
        format!("{}/hook", self.server.url())
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    pub fn forget(&self) {
        *self.seen() = Seen::default();
    }

    /// How many of these have arrived.
    pub fn arrived(&self, versions: impl IntoIterator<Item = Version>) -> usize {
        let seen = self.seen();
        versions.into_iter().filter(|version| seen.first.contains_key(version)).count()
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Deserialize)]
struct Event {
    resource: Resource,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource_version: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Body {
    One(Event),
    Many(Vec<Event>),
}

fn versions(body: &[u8]) -> Vec<Version> {
    let events = match serde_json::from_slice(body) {
        Ok(Body::One(event)) => vec![event],
        Ok(Body::Many(events)) => events,
        Err(_) => Vec::new(),
    };
    events.iter().filter_map(|event| event.resource.resource_version.parse().ok()).collect()
}
