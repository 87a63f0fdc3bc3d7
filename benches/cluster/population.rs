//! Puts the objects into the cluster: straight into etcd, since the API server's own way takes minutes for 100,000 pods.
//! It serves them as it serves those that came through it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{
    args::Size,
    harness::{Cluster, poll},
    objects::{Kind, Templates, namespace},
    recorder::Version,
};

/// Writes to etcd by its JSON gateway.
#[derive(Clone)]
pub struct Etcd {
    http: reqwest::Client,
    url: String,
}

impl Etcd {
    pub fn of(cluster: &Cluster) -> Self {
        Self { http: cluster.access().http(), url: format!("{}/v3/kv/put", cluster.etcd_url()) }
    }

    /// Returns the version that the object has now.
    pub async fn put(&self, kind: Kind, i: usize, object: &[u8]) -> Result<Version, String> {
        let key = format!("/registry/{}/{}/{}", kind.plural(), namespace(i), kind.name(i));
        let body = json!({"key": BASE64_STANDARD.encode(key), "value": BASE64_STANDARD.encode(object)});
        let answer = self.http.post(&self.url).json(&body).send().await.map_err(|e| e.to_string())?;
        let answer: Value = answer.json().await.map_err(|e| e.to_string())?;
        let revision = answer["header"]["revision"].as_str().and_then(|revision| revision.parse().ok());
        revision.ok_or_else(|| format!("etcd said {answer}"))
    }
}

/// What was put in.
pub struct Population {
    pub templates: Arc<Templates>,
    /// Bytes of one object as etcd has it.
    pub pod_bytes: usize,
    pub configmap_bytes: usize,
    pub took: Duration,
}

pub async fn populate(cluster: &Cluster, size: Size) -> Population {
    let templates = Arc::new(Templates::make(cluster.access()).await);
    let began = Instant::now();
    let etcd = Etcd::of(cluster);
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (etcd, templates, next) = (etcd.clone(), templates.clone(), next.clone());
        workers.spawn(async move {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let (kind, i) = match i.checked_sub(size.pods) {
                    None => (Kind::Pod, i),
                    Some(i) if i < size.configmaps => (Kind::ConfigMap, i),
                    Some(_) => return,
                };
                let put = etcd.put(kind, i, &templates.object(kind, i, 0)).await;
                put.unwrap_or_else(|why| panic!("{} {i} could not be created: {why}", kind.plural()));
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended.expect("all objects are created");
    }
    for (kind, wanted) in [(Kind::Pod, size.pods), (Kind::ConfigMap, size.configmaps)] {
        poll(Duration::from_secs(120), format!("{wanted} {} in the API server", kind.plural()), async || {
            (count(cluster, kind).await? >= wanted).then_some(())
        })
        .await;
    }
    let bytes = |kind| templates.object(kind, 0, 0).len();
    Population {
        pod_bytes: bytes(Kind::Pod),
        configmap_bytes: bytes(Kind::ConfigMap),
        took: began.elapsed(),
        templates,
    }
}

/// How many there are in the API server.
async fn count(cluster: &Cluster, kind: Kind) -> Option<usize> {
    let path = format!("/api/v1/{}?limit=1", kind.plural());
    let list: Value = cluster.access().get(&path).send().await.ok()?.json().await.ok()?;
    let here = list["items"].as_array()?.len();
    Some(here + usize::try_from(list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0)).ok()?)
}
