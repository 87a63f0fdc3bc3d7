//! What an update costs from the server's bytes to the event: parse, redact, diff, who, what sort, the sentence. Two pods of
//! 7 KB that differ in three fields, beside what everybody would write first: both parsed by serde_json, and
//! `json_patch::diff`.
//!
//! The same with an environment variable put at the head of its list, and the largest that a cluster has: a ConfigMap of a
//! megabyte and a list of 5,000 items.
//!
//! It fails when a budget is missed, by the median of many runs: 100 microseconds for the pods, and never more than parsing
//! and `json_patch::diff`; 100 milliseconds for the large ones.

use std::{
    hint::black_box,
    process::ExitCode,
    time::{Duration, Instant},
};

use criterion::Criterion;
use jiff::Timestamp;
use kubediff::{
    cluster::Resource,
    diff::{self, Keys, keys::Schema},
    event::{Builder, Cluster, Observed, Redacted, State, What, owner::Unknown},
    redact::{Document, Door, Part, Settings},
};
use serde_json::{Value, json};

/// As the program has it.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const BUDGET: Duration = Duration::from_micros(100);
/// Of the large ones.
const LARGE: Duration = Duration::from_millis(100);

/// The keys of a pod's lists, as the server's OpenAPI has them.
fn keys() -> Keys {
    let list = |of: &str, keys: Value| {
        json!({"type": "array", "items": {"$ref": format!("#/components/schemas/{of}")},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys})
    };
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let mut pod = object(json!({
        "spec": object(json!({
            "containers": list("container", json!(["name"])), "volumes": list("any", json!(["name"])),
            "tolerations": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"},
        })),
        "status": object(json!({
            "conditions": list("any", json!(["type"])), "podIPs": list("any", json!(["ip"])),
            "containerStatuses": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"},
        })),
    }));
    pod["x-kubernetes-group-version-kind"] = json!([{"group": "", "version": "v1", "kind": "Pod"}]);
    let document = json!({"components": {"schemas": {
        "pod": pod,
        "container": object(json!({
            "env": list("any", json!(["name"])), "ports": list("any", json!(["containerPort", "protocol"])),
            "volumeMounts": list("any", json!(["mountPath"])),
        })),
        "any": {"type": "object"},
    }}});
    let keys = Schema::from_openapi(document.to_string().as_bytes()).expect("a schema").kind("", "v1", "Pod");
    assert!(!keys.is_empty());
    keys
}

/// A running pod as the API server prints it, managedFields included.
fn pod(image: &str, ready: bool, time: &str, version: &str) -> Value {
    let container = |name: &str, image: &str| {
        let env: Vec<Value> = (0..18)
            .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}-of-the-setting")}))
            .chain([json!({"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"key": "password", "name": "db"}}})])
            .collect();
        json!({"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "env": env,
            "args": ["--listen=:8080", "--log-level=info", "--config=/etc/app/config.yaml"],
            "livenessProbe": {"failureThreshold": 3, "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
                "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1},
            "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "volumeMounts": [{"mountPath": "/etc/app", "name": "config"}]})
    };
    let owned = |name: &str| {
        json!({".": {}, "f:args": {}, "f:env": {".": {},
                r#"k:{"name":"SETTING_0"}"#: {".": {}, "f:name": {}, "f:value": {}}}, "f:image": {}, "f:imagePullPolicy": {},
            "f:name": {}, "f:ports": {".": {}, r#"k:{"containerPort":8080,"protocol":"TCP"}"#: {".": {}, "f:containerPort": {}}},
            "f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}, "f:memory": {}}},
            format!("f:{name}"): {}})
    };
    let manager = |name: &str, subresource: &str, time: &str, fields: Value| {
        json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": name, "operation": "Update",
            "subresource": subresource, "time": time})
    };
    let status = if ready { "True" } else { "False" };
    let condition = |kind: &str, status: &str| json!({"lastProbeTime": null, "lastTransitionTime": "2026-11-15T10:00:00Z", "status": status, "type": kind});
    let container_status = |name: &str, ready: bool| {
        json!({"containerID": "containerd://2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae", "ready": ready,
            "image": format!("registry.example/shop/{name}:1.27.3"), "lastState": {}, "name": name, "restartCount": 0,
            "started": true, "state": {"running": {"startedAt": "2026-11-15T10:00:03Z"}}})
    };
    json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "web-6d4cf56db6-xk7vl", "generateName": "web-6d4cf56db6-", "namespace": "shop",
            "uid": "b8a1f7f6-5a0e-4bb0-9d57-0d2a4c7f4c11", "resourceVersion": version, "generation": 1,
            "creationTimestamp": "2026-11-15T10:00:00Z", "labels": {"app": "web", "pod-template-hash": "6d4cf56db6"},
            "annotations": {"prometheus.io/port": "8080", "prometheus.io/scrape": "true"},
            "ownerReferences": [{"apiVersion": "apps/v1", "blockOwnerDeletion": true, "controller": true,
                "kind": "ReplicaSet", "name": "web-6d4cf56db6", "uid": "0c8f1b0e-3b58-4c39-a2a2-0a1d3a7b7b10"}],
            "managedFields": [
                manager("kube-controller-manager", "", "2026-11-15T10:00:00Z", json!({
                    "f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:containers": {
                        r#"k:{"name":"web"}"#: owned("web"), r#"k:{"name":"sidecar"}"#: owned("sidecar")}, "f:dnsPolicy": {}}})),
                manager("kubelet", "status", time, json!({"f:status": {"f:conditions": {
                    r#"k:{"type":"Ready"}"#: {".": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}},
                    "f:containerStatuses": {}, "f:hostIP": {}, "f:phase": {}, "f:podIP": {}, "f:startTime": {}}}))]},
        "spec": {"containers": [container("web", image), container("sidecar", "registry.example/mesh/proxy:1.30.1")],
            "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "nodeName": "node-17", "priority": 0,
            "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {"runAsNonRoot": true},
            "serviceAccount": "web", "serviceAccountName": "web", "terminationGracePeriodSeconds": 30,
            "tolerations": [{"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            "volumes": [{"configMap": {"defaultMode": 420, "name": "web"}, "name": "config"}]},
        "status": {"conditions": [condition("Initialized", "True"), condition("Ready", status), condition("PodScheduled", "True")],
            "containerStatuses": [container_status("web", ready), container_status("sidecar", true)], "hostIP": "10.0.0.17",
            "phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}], "qosClass": "Burstable",
            "startTime": "2026-11-15T10:00:00Z"}})
}

/// As the recorder does it: sections whose hash is equal are not looked into.
fn event(door: &Door, resource: &Resource, builder: &Builder, keys: &Keys, old: &[u8], new: &[u8]) -> Redacted {
    let old = door.admit(resource, old).expect("a pod");
    let new = door.admit(resource, new).expect("a pod");
    event_of(resource, builder, keys, &old, &new)
}

fn event_of(resource: &Resource, builder: &Builder, keys: &Keys, old: &Document, new: &Document) -> Redacted {
    let differ = |part: &Part| old.section(*part).hash != new.section(*part).hash;
    let parts: Vec<Part> = Part::ALL.into_iter().filter(differ).collect();
    let (mut before, mut after) = old.marked(new, &parts);
    let diff = diff::marked(&before, &after, keys).unwrap_or_else(|| {
        (before, after) = (old.partial(&parts), new.partial(&parts));
        diff::documents(&before, &after, keys)
    });
    let what = What::Updated {
        old: State { document: old, contents: &before },
        new: State { document: new, contents: &after },
        diff,
    };
    builder.build(resource, Observed::Live, Timestamp::UNIX_EPOCH, what, &Unknown)
}

fn naive(old: &[u8], new: &[u8]) -> json_patch::Patch {
    let old: Value = serde_json::from_slice(old).expect("JSON");
    let new: Value = serde_json::from_slice(new).expect("JSON");
    json_patch::diff(&old, &new)
}

/// The middle one of so many runs.
fn median(runs: usize, mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let began = Instant::now();
            run();
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[runs / 2]
}

/// What all measurements need.
struct Rig {
    door: Door,
    builder: Builder,
    keys: Keys,
}

impl Rig {
    fn event(&self, resource: &Resource, old: &[u8], new: &[u8]) -> Redacted {
        event(&self.door, resource, &self.builder, &self.keys, old, new)
    }

    /// Turn and turn about, so that a machine that grows busy slows both; the best of the medians.
    fn compare(&self, what: &str, old: &[u8], new: &[u8]) -> bool {
        let resource = Resource::core("v1", "pods", "Pod");
        let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
        for _ in 0..7 {
            ours = ours.min(median(1_000, || drop(black_box(self.event(&resource, black_box(old), black_box(new))))));
            theirs = theirs.min(median(1_000, || drop(black_box(naive(black_box(old), black_box(new))))));
        }
        let verdict = |kept: bool| if kept { "kept" } else { "missed" };
        let (budget, other) = (ours < BUDGET, ours <= theirs);
        println!("{what}: median {ours:?}, serde_json and json_patch::diff {theirs:?}");
        println!("  budget of {BUDGET:?}: {}; not slower than the other: {}", verdict(budget), verdict(other));
        budget && other
    }

    /// From the server's bytes to the event, of something large.
    fn large(&self, what: &str, resource: &Resource, old: &Value, new: &Value) -> bool {
        let (old, new) = (old.to_string().into_bytes(), new.to_string().into_bytes());
        let took = median(5, || drop(black_box(self.event(resource, black_box(&old), black_box(&new)))));
        let kept = took < LARGE;
        println!(
            "{what}, {} KB: median {took:?}, budget of {LARGE:?}: {}",
            new.len() / 1000,
            if kept { "kept" } else { "missed" }
        );
        kept
    }
}

/// A ConfigMap of a megabyte in which three lines change, and one in which every line does. Every tenth line is about a
/// credential, so that the file is searched for what is to be masked, and does not pass for want of a sign.
fn config_map(line: impl Fn(usize) -> String) -> Value {
    let file: String = (0..20_000).map(|n| format!("{}\n", line(n))).collect();
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "large", "namespace": "shop", "uid": "u"}, "data": {"app.conf": file}})
}

fn list(items: impl Iterator<Item = Value>) -> Value {
    json!({"kind": "Gateway", "apiVersion": "v1", "metadata": {"name": "large", "namespace": "shop", "uid": "u"},
        "spec": {"routes": items.collect::<Vec<Value>>()}})
}

fn large(rig: &Rig) -> bool {
    let maps = Resource::core("v1", "configmaps", "ConfigMap");
    let password = |n: usize, value: &str| format!("  password: {value}-{n} # of the server number {n}");
    let plain = |n: usize| match n % 10 {
        5 => password(n, "hunter2"),
        _ => format!("server.option.number.{n} = the value of option {n}"),
    };
    let few = |n: usize| if n % 7_000 == 3 { format!("changed {n}") } else { plain(n) };
    let every = |n: usize| match n % 10 {
        5 => password(n, "another"),
        _ => format!("server.option.number.{n} = another value for option {n}"),
    };
    let gateways = Resource::core("v1", "gateways", "Gateway");
    let item = |n: usize, weight: usize| json!({"name": format!("route-{n}"), "host": format!("h{n}.shop.example"), "weight": weight});
    let unnamed = |n: usize, weight: usize| json!({"host": format!("h{n}.shop.example"), "weight": weight});
    [
        rig.large("ConfigMap, three lines changed", &maps, &config_map(plain), &config_map(few)),
        rig.large("ConfigMap, every line changed", &maps, &config_map(plain), &config_map(every)),
        rig.large(
            "5,000 items, every one changed",
            &gateways,
            &list((0..5_000).map(|n| item(n, 1))),
            &list((0..5_000).map(|n| item(n, 2))),
        ),
        rig.large(
            "5,000 items, reversed",
            &gateways,
            &list((0..5_000).map(|n| item(n, 1))),
            &list((0..5_000).rev().map(|n| item(n, 1))),
        ),
        rig.large(
            "5,000 items without keys, one put first",
            &gateways,
            &list((1..5_000).map(|n| unnamed(n, 1))),
            &list((0..5_000).map(|n| unnamed(n, 1))),
        ),
    ]
    .into_iter()
    .all(|kept| kept)
}

fn main() -> ExitCode {
    let mut criterion = Criterion::default().configure_from_args();
    let raw = |pod: Value| pod.to_string().into_bytes();
    let old = pod("registry.example/shop/web:1.27.3", true, "2026-11-15T10:00:05Z", "104233");
    let new = pod("registry.example/shop/web:1.27.4", false, "2026-11-16T11:42:17Z", "104299");
    let mut inserted = pod("registry.example/shop/web:1.27.3", true, "2026-11-16T11:42:17Z", "104299");
    let env = inserted.pointer_mut("/spec/containers/0/env").and_then(Value::as_array_mut).expect("a list");
    env.insert(0, json!({"name": "LOG_LEVEL", "value": "debug"}));
    let (old, new, inserted) = (raw(old), raw(new), raw(inserted));
    assert!((6_500..7_500).contains(&old.len()), "{}", old.len());
    let resource = Resource::core("v1", "pods", "Pod");
    let rig = Rig {
        door: Door::new(&Settings::default(), &[7; 32]).expect("a door"),
        builder: Builder::new(Cluster { name: "prod-eu".into(), uid: "5b0c".into() }),
        keys: keys(),
    };
    let made = rig.event(&resource, &old, &new);
    assert_eq!(made.changes.len(), 3, "{made:?}");
    let made = rig.event(&resource, &old, &inserted);
    assert_eq!(made.changes.len(), 1, "{made:?}");

    let mut group = criterion.benchmark_group("event");
    group.bench_function("parse, redact, diff, event", |b| {
        b.iter(|| rig.event(&resource, black_box(&old), black_box(&new)));
    });
    group.bench_function("serde_json and json_patch::diff", |b| b.iter(|| naive(black_box(&old), black_box(&new))));
    group.bench_function("redact both", |b| {
        b.iter(|| [&old, &new].map(|raw| rig.door.admit(&resource, black_box(raw)).expect("a pod")));
    });
    let documents = [&old, &new].map(|raw| rig.door.admit(&resource, raw).expect("a pod"));
    group.bench_function("diff, event", |b| {
        b.iter(|| event_of(&resource, &rig.builder, &rig.keys, black_box(&documents[0]), black_box(&documents[1])));
    });
    group.finish();
    criterion.final_summary();

    // `cargo test` runs it too, without optimisation, to see that it runs.
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    // Everything is measured and printed before it fails.
    let kept = [
        large(&rig),
        rig.compare("three fields changed", &old, &new),
        rig.compare("an environment variable put at the head", &old, &inserted),
    ];
    if kept.into_iter().all(|kept| kept) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
