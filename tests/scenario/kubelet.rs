//! Plays the nodes: their heartbeats, and the pods on them, which run, fail to pull a bad image, and go. It writes what
//! a kubelet writes, as the manager `kubelet`.

use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::stage::Stage;

pub const NODES: [&str; 3] = ["worker-1", "worker-2", "worker-3"];
/// The node that has trouble.
pub const TROUBLED: &str = "worker-2";
const BAD_TAG: &str = "-rc1";

#[derive(Default)]
pub struct Kubelet {
    /// Milli-CPUs that each pod of the cart uses.
    pub load: AtomicU64,
    pub trouble: AtomicBool,
    first_seen: Mutex<HashMap<String, Instant>>,
}

impl Kubelet {
    pub async fn join(&self, stage: &Stage) {
        for node in NODES {
            let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": {
                "kubernetes.io/hostname": node, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": format!("eu-1{}", &node[7..])}}});
            stage.send(Method::POST, "/api/v1/nodes?fieldManager=kubelet", "application/json", &body).await;
            let size = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
            let status = json!({"status": {"capacity": size, "allocatable": size,
                "addresses": [{"type": "InternalIP", "address": format!("10.0.0.{}", &node[7..])}, {"type": "Hostname", "address": node}],
                "nodeInfo": {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://2.2.1", "osImage": "Debian GNU/Linux 13",
                    "architecture": "amd64", "operatingSystem": "linux", "kernelVersion": "6.12.0", "machineID": "", "systemUUID": "",
                    "bootID": "", "kubeProxyVersion": ""},
                "conditions": [ready(true)]}});
            stage.patch("kubelet", &format!("/api/v1/nodes/{node}/status"), &status).await;
        }
    }

    /// Runs until it is dropped.
    pub async fn run(&self, stage: &Stage) {
        let mut ticks = tokio::time::interval(Duration::from_millis(150));
        for tick in 0_u64.. {
            ticks.tick().await;
            if tick.is_multiple_of(60) {
                self.renew(stage).await;
            }
            let pods = stage.get("/api/v1/pods").await;
            for pod in pods["items"].as_array().into_iter().flatten() {
                self.pod(stage, pod).await;
            }
            if tick.is_multiple_of(6) {
                self.measure(stage, &pods).await;
            }
        }
    }

    pub async fn report(&self, stage: &Stage, healthy: bool) {
        self.trouble.store(!healthy, Ordering::Relaxed);
        let status = json!({"status": {"conditions": [ready(healthy)]}});
        assert!(stage.patch("kubelet", &format!("/api/v1/nodes/{TROUBLED}/status"), &status).await);
    }

    async fn renew(&self, stage: &Stage) {
        for node in NODES {
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": node, "namespace": "kube-node-lease"},
                "spec": {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": format!("{:.6}", Timestamp::now())}});
            let path = format!(
                "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}?fieldManager=kubelet&force=true"
            );
            stage.send(Method::PATCH, &path, "application/apply-patch+yaml", &lease).await;
        }
    }

    async fn pod(&self, stage: &Stage, pod: &Value) {
        let (meta, status) = (&pod["metadata"], &pod["status"]);
        let (Some(node), Some(uid)) = (pod["spec"]["nodeName"].as_str(), meta["uid"].as_str()) else { return };
        let path = format!("/api/v1/namespaces/{}/pods/{}", text(&meta["namespace"]), text(&meta["name"]));
        let began = *self.first_seen.lock().expect("no panic").entry(uid.to_owned()).or_insert_with(Instant::now);
        if node == TROUBLED && self.trouble.load(Ordering::Relaxed) {
            return;
        }
        if !meta["deletionTimestamp"].is_null() {
            let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
            stage.send(Method::DELETE, &path, "application/json", &now).await;
            return;
        }
        let image = text(&pod["spec"]["containers"][0]["image"]);
        let status_path = format!("{path}/status");
        if image.ends_with(BAD_TAG) {
            let pulled_once = began.elapsed() > Duration::from_secs(2);
            let (reason, message) = if pulled_once {
                ("ImagePullBackOff", format!("Back-off pulling image \"{image}\""))
            } else {
                ("ErrImagePull", format!("failed to resolve reference \"{image}\": not found"))
            };
            if status["containerStatuses"][0]["state"]["waiting"]["reason"] != reason {
                let state = json!({"waiting": {"reason": reason, "message": message}});
                stage.patch("kubelet", &status_path, &pod_status(pod, "Pending", &state, false)).await;
            }
        } else if status["phase"] == "Pending" {
            if began.elapsed() > Duration::from_millis(600) {
                let state = json!({"running": {"startedAt": now()}});
                stage.patch("kubelet", &status_path, &pod_status(pod, "Running", &state, true)).await;
            }
        } else if condition(pod, "Ready") == "False" {
            let back =
                json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now()}]}});
            stage.patch("kubelet", &status_path, &back).await;
        }
    }

    /// Writes down how much the pods of the cart use, as metrics-server would.
    async fn measure(&self, stage: &Stage, pods: &Value) {
        let load = self.load.load(Ordering::Relaxed);
        for pod in
            pods["items"].as_array().into_iter().flatten().filter(|pod| pod["metadata"]["labels"]["app"] == "cart")
        {
            let name = text(&pod["metadata"]["name"]);
            let usage = json!({"cpu": format!("{load}m"), "memory": "64Mi"});
            let metrics = json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
                "metadata": {"name": name, "namespace": "shop", "labels": {"app": "cart"}},
                "timestamp": now(), "window": "1s", "containers": [{"name": "cart", "usage": usage}]});
            let path = format!(
                "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/{name}?fieldManager=metrics-server&force=true"
            );
            stage.send(Method::PATCH, &path, "application/apply-patch+yaml", &metrics).await;
        }
    }
}

fn pod_status(pod: &Value, phase: &str, state: &Value, up: bool) -> Value {
    let containers: Vec<Value> = pod["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|container| {
            json!({"name": container["name"], "image": container["image"], "imageID": "", "ready": up, "started": up,
                "restartCount": 0, "state": state})
        })
        .collect();
    let word = if up { "True" } else { "False" };
    let conditions: Vec<Value> =
        [("PodReadyToStartContainers", "True"), ("Initialized", "True"), ("Ready", word), ("ContainersReady", word)]
            .iter()
            .map(|(kind, status)| json!({"type": kind, "status": status, "lastTransitionTime": now()}))
            .collect();
    // The same each time: the API server takes no other.
    let last =
        text(&pod["metadata"]["uid"]).bytes().fold(0_u32, |sum, byte| sum * 31 % 9973 + u32::from(byte)) % 240 + 2;
    let address = format!("10.1.{}.{last}", text(&pod["spec"]["nodeName"]).trim_start_matches("worker-"));
    json!({"status": {"phase": phase, "conditions": conditions, "containerStatuses": containers, "startTime": now(),
        "podIP": address, "podIPs": [{"ip": address}]}})
}

fn ready(yes: bool) -> Value {
    let (status, reason, message) = if yes {
        ("True", "KubeletReady", "kubelet is posting ready status")
    } else {
        ("False", "KubeletNotReady", "container runtime is down: PLEG is not healthy")
    };
    json!({"type": "Ready", "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now(), "lastTransitionTime": now()})
}

pub fn condition(object: &Value, kind: &str) -> String {
    let all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().find(|c| c["type"] == kind).map_or(String::new(), |c| text(&c["status"]).to_owned())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
