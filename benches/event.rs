//! What an update costs from the server's bytes to the event: parse, redact, diff, who, what sort, the sentence. Two pods of
//! 7 KB that differ in three fields, beside what everybody would write first: both parsed by serde_json, and
//! `json_patch::diff`.
//!
//! It fails when the budget is missed: 100 microseconds, and never more than parsing and `json_patch::diff`.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{Criterion, criterion_group, criterion_main};
use jiff::Timestamp;
use kubediff::{
    cluster::Resource,
    diff::{Keys, diff},
    event::{Builder, Cluster, Event, Observed, State, What, owner::Unknown},
    redact::{Document, Door, Part, Settings},
};
use serde_json::{Value, json};

const BUDGET: Duration = Duration::from_micros(100);

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
fn event(door: &Door, resource: &Resource, builder: &Builder, keys: &Keys, old: &[u8], new: &[u8]) -> Event {
    let old = door.admit(resource, old).expect("a pod");
    let new = door.admit(resource, new).expect("a pod");
    event_of(resource, builder, keys, &old, &new)
}

fn event_of(resource: &Resource, builder: &Builder, keys: &Keys, old: &Document, new: &Document) -> Event {
    let differ = |part: &Part| old.section(*part).hash != new.section(*part).hash;
    let parts: Vec<Part> = Part::ALL.into_iter().filter(differ).collect();
    let (before, after) = (old.partial(&parts), new.partial(&parts));
    let what = What::Updated {
        old: State { meta: old.meta(), document: &before, managed_fields: old.managed_fields() },
        new: State { meta: new.meta(), document: &after, managed_fields: new.managed_fields() },
        diff: diff(&before, &after, keys),
    };
    builder.build(resource, Observed::Live, Timestamp::UNIX_EPOCH, what, &Unknown)
}

fn naive(old: &[u8], new: &[u8]) -> json_patch::Patch {
    let old: Value = serde_json::from_slice(old).expect("JSON");
    let new: Value = serde_json::from_slice(new).expect("JSON");
    json_patch::diff(&old, &new)
}

/// The fastest of many runs, which is what the code takes when nothing else runs.
fn fastest(mut run: impl FnMut()) -> Duration {
    let time = |run: &mut dyn FnMut()| {
        let began = Instant::now();
        run();
        began.elapsed()
    };
    (0..3_000).map(|_| time(&mut run)).min().unwrap_or_default()
}

fn bench(criterion: &mut Criterion) {
    let old = pod("registry.example/shop/web:1.27.3", true, "2026-11-15T10:00:05Z", "104233").to_string().into_bytes();
    let new = pod("registry.example/shop/web:1.27.4", false, "2026-11-16T11:42:17Z", "104299").to_string().into_bytes();
    assert!((6_500..7_500).contains(&old.len()), "{}", old.len());
    let resource = Resource::core("v1", "pods", "Pod");
    let door = Door::new(&Settings::default(), &[7; 32]).expect("a door");
    let builder = Builder::new(Cluster { name: "prod-eu".into(), uid: "5b0c".into() });
    let keys = Keys::default();
    let made = event(&door, &resource, &builder, &keys, &old, &new);
    assert_eq!(made.changes.len(), 3, "{made:?}");

    let mut group = criterion.benchmark_group("event");
    group.bench_function("parse, redact, diff, event", |b| {
        b.iter(|| event(&door, &resource, &builder, &keys, black_box(&old), black_box(&new)));
    });
    group.bench_function("serde_json and json_patch::diff", |b| b.iter(|| naive(black_box(&old), black_box(&new))));
    group.bench_function("redact both", |b| {
        b.iter(|| [&old, &new].map(|raw| door.admit(&resource, black_box(raw)).expect("a pod")));
    });
    let documents = [&old, &new].map(|raw| door.admit(&resource, raw).expect("a pod"));
    group.bench_function("diff, event", |b| {
        b.iter(|| event_of(&resource, &builder, &keys, black_box(&documents[0]), black_box(&documents[1])));
    });
    group.finish();

    // Turn and turn about, so that a machine that grows busy slows both.
    let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
    for _ in 0..5 {
        ours = ours.min(fastest(|| drop(black_box(event(&door, &resource, &builder, &keys, &old, &new)))));
        theirs = theirs.min(fastest(|| drop(black_box(naive(&old, &new)))));
    }
    println!("fastest: ours {ours:?}, serde_json and json_patch::diff {theirs:?}");
    let verdict = |kept: bool| if kept { "kept" } else { "missed" };
    println!(
        "budget of {BUDGET:?}: {}; not slower than the other: {}",
        verdict(ours < BUDGET),
        verdict(ours <= theirs)
    );
}

criterion_group!(benches, bench);
criterion_main!(benches);
