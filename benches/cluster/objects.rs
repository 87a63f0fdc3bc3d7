//! The objects that are measured with: one real pod and one real ConfigMap, as the API server returns them, from which
//! any number of others are made that differ in what differs in a cluster.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Access, PATIENCE, poll};

pub const NAMESPACES: usize = 20;
const APPS: u64 = 150;
const NODES: u64 = 400;

pub fn namespace(i: usize) -> String {
    format!("bench-{:02}", i % NAMESPACES)
}

/// What is replaced in a template. Each is a valid value of its field, and occurs nowhere else.
const APP: &str = "tmplapp";
const HASH: &str = "5d6fc8b9c4";
const SUFFIX: &str = "x7k2p";
const NAMESPACE: &str = "bench-00";
const NODE: &str = "tmplnode";
const POD_IP: &str = "10.255.255.254";
const HOST_IP: &str = "192.0.2.254";
const TAG: &str = "v9.99.9";
const VALUE: &str = "tmplvalue";
const STARTED: &str = "2026-01-02T03:04:05Z";
const CREATED: &str = "2026-01-02T03:04:01Z";
const WRITTEN: &str = "2026-01-02T03:04:02Z";
const OWNER: &str = "00000000-1111-2222-3333-444444444444";
const UID: &str = "99999999-1111-2222-3333-444444444444";

fn digest(letter: &str) -> String {
    letter.repeat(64)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Pod,
    ConfigMap,
}

impl Kind {
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::ConfigMap => "configmaps",
        }
    }
}

/// A template of each kind.
pub struct Templates {
    pod: String,
    configmap: String,
}

impl Templates {
    /// Creates one of each through the API, as a controller and a kubelet would, and takes them back out.
    pub async fn make(access: &Access) -> Self {
        for i in 0..NAMESPACES {
            let name = namespace(i);
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            send(access, Method::POST, "/api/v1/namespaces", &body).await;
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
            send(access, Method::POST, &format!("/api/v1/namespaces/{name}/serviceaccounts"), &account).await;
        }
        let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let name = format!("{APP}-{HASH}-{SUFFIX}");
        send(access, Method::POST, &format!("{pods}?fieldManager=kube-controller-manager"), &pod()).await;
        let status = format!("{pods}/{name}/status?fieldManager=kubelet");
        let pod = send(access, Method::PATCH, &status, &json!({"status": pod_status()})).await;
        send(access, Method::DELETE, &format!("{pods}/{name}"), &json!({"gracePeriodSeconds": 0})).await;
        let maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
        let map = send(access, Method::POST, &format!("{maps}?fieldManager=helm"), &configmap()).await;
        send(access, Method::DELETE, &format!("{maps}/{APP}-{SUFFIX}"), &json!({})).await;
        Self { pod: template(pod), configmap: template(map) }
    }

    /// The `i`-th object in its `generation`, which shows in a pod's image and in a ConfigMap's value.
    pub fn object(&self, kind: Kind, i: usize, generation: usize) -> Vec<u8> {
        let at = scatter(i as u64);
        let app = Kind::app(i);
        let hex = |salt: u64| (0..4).map(|j| format!("{:016x}", scatter(at ^ (salt << 8 | j)))).collect::<String>();
        let uuid = |salt: u64| {
            let (a, b) = (scatter(at ^ salt), scatter(at ^ salt ^ 1 << 40));
            format!(
                "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
                a >> 32,
                a >> 16 & 0xffff,
                a & 0xfff,
                b >> 52,
                b & 0xffff_ffff_ffff
            )
        };
        let text = match kind {
            Kind::Pod => &self.pod,
            Kind::ConfigMap => &self.configmap,
        };
        let started = time(at);
        let mut text = text.replace(APP, &app);
        for (token, value) in [
            (HASH, Kind::hash(i)),
            (SUFFIX, Kind::suffix(i)),
            (NAMESPACE, namespace(i)),
            (NODE, format!("node-{:03}.eu-west.example", at % NODES)),
            (POD_IP, format!("10.{}.{}.{}", i >> 16 & 255, i >> 8 & 255, i & 255)),
            (HOST_IP, format!("192.0.2.{}", at % 250)),
            (TAG, format!("v1.{generation}.{}", at % 7)),
            (VALUE, format!("{:08x}-{generation}", scatter(at ^ 77) >> 32)),
            (STARTED, started.clone()),
            (CREATED, started),
            (WRITTEN, time(at.wrapping_add(generation as u64))),
            (OWNER, uuid(3)),
            (UID, uuid(if kind == Kind::Pod { 5 } else { 6 })),
        ] {
            text = text.replace(token, &value);
        }
        if kind == Kind::Pod {
            for (salt, letter) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
                text = text.replace(&digest(letter), &hex(salt as u64));
            }
        }
        text.into_bytes()
    }
}

impl Kind {
    fn app(i: usize) -> String {
        const WORDS: [&str; 10] =
            ["cart", "checkout", "search", "billing", "ledger", "mailer", "gateway", "catalog", "stock", "session"];
        let app = scatter(i as u64 ^ 0xa99) % APPS;
        format!("{}-{:02}", WORDS[app as usize % WORDS.len()], app / WORDS.len() as u64)
    }

    fn hash(i: usize) -> String {
        format!("{:010x}", scatter(scatter(i as u64 ^ 0xa99) % APPS) >> 24)
    }

    fn suffix(i: usize) -> String {
        format!("{i:06x}")
    }

    pub fn name(self, i: usize) -> String {
        match self {
            Self::Pod => format!("{}-{}-{}", Self::app(i), Self::hash(i), Self::suffix(i)),
            Self::ConfigMap => format!("{}-{}", Self::app(i), Self::suffix(i)),
        }
    }

    /// A JSON patch that brings the object to this generation, through the API.
    pub fn patch(self, i: usize, generation: usize) -> Value {
        let (path, value) = match self {
            Self::Pod => {
                ("/spec/containers/0/image", format!("registry.example.com/shop/{}:v2.{generation}.0", Self::app(i)))
            }
            Self::ConfigMap => ("/data/revision", format!("r{generation}")),
        };
        json!([{"op": "replace", "path": path, "value": value}])
    }
}

/// splitmix64: the same every time, and without pattern.
fn scatter(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Some second of October 2026.
fn time(at: u64) -> String {
    format!("2026-10-{:02}T{:02}:{:02}:{:02}Z", at % 30 + 1, at / 30 % 24, at / 720 % 60, at / 43_200 % 60)
}

/// The text of an object as etcd has it, with times and identity as tokens.
fn template(mut object: Value) -> String {
    let metadata = &mut object["metadata"];
    metadata["uid"] = json!(UID);
    metadata["creationTimestamp"] = json!(CREATED);
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("resourceVersion");
    }
    for (i, entry) in metadata["managedFields"].as_array_mut().into_iter().flatten().enumerate() {
        entry["time"] = json!(if i == 0 { WRITTEN } else { STARTED });
    }
    object.to_string()
}

async fn send(access: &Access, method: Method, path: &str, body: &Value) -> Value {
    poll(PATIENCE, format!("{method} {path}"), async || {
        let format = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = access.request(method.clone(), path).header("Content-Type", format).body(body.to_string());
        let answer = request.send().await.ok()?;
        let (status, body) = (answer.status(), answer.json::<Value>().await.ok()?);
        // Namespaces are not taken into admission's view at once.
        assert!(status.is_success() || status.as_u16() == 403, "{method} {path}: {body}");
        status.is_success().then_some(body)
    })
    .await
}

fn container(name: &str, image: &str, tag: &str, env: &Value) -> Value {
    json!({
        "name": name, "image": format!("registry.example.com/shop/{image}:{tag}"), "imagePullPolicy": "IfNotPresent",
        "ports": [{"name": name, "containerPort": 8000 + name.len()}],
        "env": env,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": name}, "periodSeconds": 5, "timeoutSeconds": 2},
        "volumeMounts": [
            {"name": "api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true},
        ],
    })
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{APP}-{HASH}-{SUFFIX}"), "generateName": format!("{APP}-{HASH}-"),
            "labels": {"app.kubernetes.io/name": APP, "app.kubernetes.io/part-of": "shop", "pod-template-hash": HASH},
            "annotations": {"prometheus.io/scrape": "true", "checksum/config": digest("f")},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{APP}-{HASH}"),
                "uid": OWNER, "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "automountServiceAccountToken": false, "nodeName": NODE, "terminationGracePeriodSeconds": 30,
            "containers": [
                container("web", APP, TAG, &json!([{"name": "LOG_LEVEL", "value": "info"}, {"name": "FEATURES", "value": VALUE}])),
                container("proxy", "proxy", "v3.2.1", &json!([{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}])),
            ],
            "volumes": [
                {"name": "config", "configMap": {"name": APP}},
                {"name": "api-access", "projected": {"sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}},
            ],
        },
    })
}

fn pod_status() -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": STARTED});
    let container = |name: &str, image: &str, id: &str, image_id: &str| {
        json!({"name": name, "image": format!("registry.example.com/shop/{image}"), "ready": true, "started": true,
            "restartCount": 0, "containerID": format!("containerd://{}", digest(id)),
            "imageID": format!("registry.example.com/shop/{name}@sha256:{}", digest(image_id)),
            "state": {"running": {"startedAt": STARTED}}, "lastState": {}})
    };
    json!({
        "phase": "Running", "qosClass": "Burstable", "startTime": STARTED,
        "hostIP": HOST_IP, "hostIPs": [{"ip": HOST_IP}], "podIP": POD_IP, "podIPs": [{"ip": POD_IP}],
        "conditions": [condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
        "containerStatuses": [
            container("web", &format!("{APP}:{TAG}"), "a", "b"), container("proxy", "proxy:v3.2.1", "c", "d")],
    })
}

fn configmap() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("{APP}-{SUFFIX}"), "labels": {"app.kubernetes.io/name": APP, "app.kubernetes.io/managed-by": "Helm"}},
        "data": {
            "revision": VALUE, "owner": APP,
            "app.yaml": format!("log:\n  level: info\nserver:\n  port: 8080\n  name: {APP}\nfeatures:\n  - {VALUE}\n  - search\n"),
        },
    })
}
