//! The workload: does what the schedule says, straight to the API server, and keeps what the server said it committed.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    schedule::{At, Kind, NAMESPACES, Object, Op, Schedule},
    timeline::Timeline,
};
use crate::harness::Access;

pub const GROUP: &str = "chaos.example.com";
const WORKERS: usize = 6;

/// What the server said that it wrote: uid to versions, with the kind.
pub type Committed = BTreeMap<String, (Kind, Vec<u64>)>;

pub struct Work {
    access: Access,
    http: reqwest::Client,
    timeline: Timeline,
    /// Part of every secret value.
    canary: String,
    controllers: bool,
    pub committed: Mutex<Committed>,
}

impl Kind {
    pub fn api(self) -> &'static str {
        match self {
            Self::ConfigMap | Self::Secret => "/api/v1",
            Self::Deployment => "/apis/apps/v1",
            Self::Widget | Self::Gadget => "/apis/chaos.example.com/v1",
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
            Self::Deployment => "deployments",
            Self::Widget => "widgets",
            Self::Gadget => "gadgets",
        }
    }
}

pub fn namespace(n: u8) -> String {
    format!("chaos-{n}")
}

impl Work {
    pub fn new(access: &Access, timeline: &Timeline, canary: &str, controllers: bool) -> Self {
        // A paused server must not hold up the workload for longer than its pause.
        let http = access.http_builder().timeout(Duration::from_secs(8)).build().expect("an HTTP client");
        Self {
            access: access.clone(),
            http,
            timeline: timeline.clone(),
            canary: canary.to_owned(),
            controllers,
            committed: Mutex::default(),
        }
    }

    /// All of it, each operation at its moment or as soon after it as the server allows. Those on one object follow one
    /// another.
    pub async fn run(&self, schedule: &Schedule) {
        let mut lanes: Vec<Vec<&At<Op>>> = vec![Vec::new(); WORKERS];
        for at in &schedule.work {
            let lane = match &at.what {
                Op::Put(object, _) | Op::Delete(object) | Op::Rollout(object, _) => {
                    1 + (usize::from(object.name) * 7 + usize::from(object.namespace) * 3 + object.kind as usize)
                        % (WORKERS - 1)
                }
                Op::DeleteNamespace(_) | Op::CreateCrd(_) | Op::DeleteCrd(_) => 0,
            };
            lanes[lane].push(at);
        }
        let end = self.timeline.began() + schedule.length;
        let running = lanes.into_iter().map(|lane| async move {
            for at in lane {
                self.timeline.until(at.ms).await;
                // A server that was away long enough leaves no time for what waited for it.
                if std::time::Instant::now() > end {
                    return;
                }
                let said = self.perform(&at.what).await;
                self.timeline.note(format_args!("work: {:?}: {said}", at.what));
                let done = u64::from(said.starts_with('2') || said.contains("created 2"));
                match &at.what {
                    Op::CreateCrd(_) => self.timeline.struck("work: CreateCrd", done),
                    Op::DeleteCrd(_) => self.timeline.struck("work: DeleteCrd", done),
                    Op::DeleteNamespace(_) => self.timeline.struck("work: DeleteNamespace", done),
                    Op::Rollout(..) => self.timeline.struck("work: Rollout", done),
                    Op::Put(..) | Op::Delete(_) => {}
                }
            }
        });
        futures::future::join_all(running).await;
    }

    async fn perform(&self, op: &Op) -> String {
        match op {
            Op::Put(object, value) => self.put(*object, *value).await,
            Op::Rollout(object, value) => {
                let patch = if value % 2 == 0 {
                    // It may have as many already; every write has to change something, or there is nothing to tell.
                    let round = json!({"example.com/round": format!("{value:x}")});
                    json!({"metadata": {"annotations": round}, "spec": {"replicas": value / 2 % 4}})
                } else {
                    json!({"spec": {"template": {"spec": {"containers": [
                        {"name": "web", "image": format!("nginx:{value:x}"), "env": self.env(*value)}]}}}})
                };
                match self.patch(*object, &patch).await {
                    Ok(404) => self.put(*object, *value).await,
                    said => tell(said),
                }
            }
            Op::Delete(object) => {
                let path = format!("{}/{}", collection(*object), name(*object));
                tell(self.send(Method::DELETE, &path, None).await.map(|(code, _)| code))
            }
            Op::DeleteNamespace(n) => self.delete_namespace(&namespace(*n)).await,
            Op::CreateCrd(kind) => tell(self.send(Method::POST, CRDS, Some(&crd(*kind))).await.map(|(code, _)| code)),
            Op::DeleteCrd(kind) => {
                let path = format!("{CRDS}/{}.{GROUP}", kind.plural());
                tell(self.send(Method::DELETE, &path, None).await.map(|(code, _)| code))
            }
        }
    }

    async fn put(&self, object: Object, value: u64) -> String {
        match self.patch(object, &self.content(object, value)).await {
            Ok(404) => {}
            said => return tell(said),
        }
        let mut body = self.content(object, value);
        body["metadata"]["name"] = json!(name(object));
        let created = self.create(object, &body).await;
        if created != Ok(404) || object.kind >= Kind::Widget {
            return format!("created {}", tell(created));
        }
        let space = json!({"metadata": {"name": namespace(object.namespace)}});
        let made = self.send(Method::POST, "/api/v1/namespaces", Some(&space)).await;
        let created = self.create(object, &body).await;
        format!("namespace {}, created {}", tell(made.map(|(code, _)| code)), tell(created))
    }

    async fn create(&self, object: Object, body: &Value) -> Result<u16, String> {
        let (code, answer) = self.send(Method::POST, &collection(object), Some(body)).await?;
        self.commit(object.kind, code, &answer);
        Ok(code)
    }

    async fn patch(&self, object: Object, patch: &Value) -> Result<u16, String> {
        let path = format!("{}/{}", collection(object), name(object));
        let (code, answer) = self.send(Method::PATCH, &path, Some(patch)).await?;
        self.commit(object.kind, code, &answer);
        Ok(code)
    }

    fn commit(&self, kind: Kind, code: u16, answer: &Value) {
        let metadata = &answer["metadata"];
        let version = metadata["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        if let (200..300, Some(uid), Some(version)) = (code, metadata["uid"].as_str(), version) {
            let mut committed = self.committed.lock().expect("no panic while it is held");
            committed.entry(uid.to_owned()).or_insert((kind, Vec::new())).1.push(version);
        }
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<(u16, Value), String> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let mut request = self.access.request_by(&self.http, method, path);
        if let Some(body) = body {
            request = request.header("content-type", kind).body(body.to_string());
        }
        let answer = request.send().await.map_err(|_| "no answer".to_owned())?;
        let code = answer.status().as_u16();
        let body = answer.bytes().await.map_err(|_| "half an answer".to_owned())?;
        // What is not served at all is said in plain text.
        Ok((code, serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// What the namespace controller does, where it does not run.
    async fn delete_namespace(&self, name: &str) -> String {
        let path = format!("/api/v1/namespaces/{name}");
        let deleted = self.send(Method::DELETE, &path, None).await;
        let Ok((200..300, mut space)) = deleted else { return tell(deleted.map(|(code, _)| code)) };
        if self.controllers {
            return "200, by its controller".to_owned();
        }
        for kind in [Kind::ConfigMap, Kind::Secret, Kind::Deployment, Kind::Widget, Kind::Gadget] {
            let path = format!("{}/namespaces/{name}/{}", kind.api(), kind.plural());
            let _ = self.send(Method::DELETE, &path, None).await;
        }
        space["spec"]["finalizers"] = json!([]);
        let ended = self.send(Method::PUT, &format!("{path}/finalize"), Some(&space)).await;
        format!("200, finalized {}", tell(ended.map(|(code, _)| code)))
    }

    /// Namespaces that are left half deleted when the run ends are finished, so that the oracle has a state to compare.
    pub async fn finish(&self) -> bool {
        if self.controllers {
            let (mut all, spaces) = (true, self.send(Method::GET, "/api/v1/namespaces", None).await);
            let Ok((200, spaces)) = spaces else { return false };
            for space in spaces["items"].as_array().into_iter().flatten() {
                all &= space["status"]["phase"] != "Terminating";
            }
            return all;
        }
        for n in 0..NAMESPACES {
            let (name, path) = (namespace(n), format!("/api/v1/namespaces/{}", namespace(n)));
            match self.send(Method::GET, &path, None).await {
                Ok((200, space)) if space["status"]["phase"] == "Terminating" => {
                    self.delete_namespace(&name).await;
                    return false;
                }
                Ok((200 | 404, _)) => {}
                _ => return false,
            }
        }
        true
    }

    fn env(&self, value: u64) -> Value {
        json!([{"name": "DB_PASSWORD", "value": format!("{}-env-{value:x}", self.canary)}])
    }

    /// The content of an object, with a secret in one of the ways in which one gets there.
    fn content(&self, object: Object, value: u64) -> Value {
        let secret = |word: &str| format!("{}-{word}-{value:x}", self.canary);
        let text = format!("{value:016x}");
        match object.kind {
            Kind::ConfigMap => {
                let key = format!("k{}", value % 7);
                json!({"metadata": {"labels": {"round": format!("{:x}", value % 5)}},
                    "data": {key: text, "note": "first line\nsecond line\n", "password": secret("key")}})
            }
            Kind::Secret => {
                let applied = json!({"kind": "Secret", "stringData": {"pin": secret("applied")}}).to_string();
                json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied}},
                    "data": {"value": BASE64_STANDARD.encode(secret("data"))}})
            }
            Kind::Deployment => json!({"spec": {
                "replicas": value % 3, "selector": {"matchLabels": {"app": name(object)}},
                "template": {"metadata": {"labels": {"app": name(object)}}, "spec": {"containers": [
                    {"name": "web", "image": format!("nginx:{text}"), "env": self.env(value)}]}}}}),
            Kind::Widget | Kind::Gadget => {
                let kind = if object.kind == Kind::Widget { "Widget" } else { "Gadget" };
                json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind,
                    "spec": {"size": text, "password": secret("field"), "parts": [{"name": "a", "n": value % 100}]}})
            }
        }
    }
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn crd(kind: Kind) -> Value {
    let (plural, kind) = (kind.plural(), if kind == Kind::Widget { "Widget" } else { "Gadget" });
    json!({"metadata": {"name": format!("{plural}.{GROUP}")}, "spec": {
        "group": GROUP, "scope": "Namespaced",
        "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn collection(object: Object) -> String {
    format!("{}/namespaces/{}/{}", object.kind.api(), namespace(object.namespace), object.kind.plural())
}

fn name(object: Object) -> String {
    format!("o{}", object.name)
}

fn tell(said: Result<u16, String>) -> String {
    said.map_or_else(|why| why, |code| code.to_string())
}
