//! What a diff costs with the trees ready: ours beside `json_patch::diff`, and the worst documents.

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use kubediff::diff::{Keys, diff};
use serde_json::{Value, json};

/// A running pod of about 7 KB, as a Deployment makes it.
fn pod() -> Value {
    let container = |name: &str, port: u16| {
        let env: Vec<Value> = (0..12)
            .map(|n| match n % 3 {
                0 => json!({"name": format!("SERVICE_{n}_URL"), "value": format!("http://service-{n}.shop.svc:8080/api")}),
                1 => json!({"name": format!("FEATURE_{n}"), "value": "true"}),
                _ => json!({"name": format!("TOKEN_{n}"),
                            "valueFrom": {"secretKeyRef": {"name": "web-tokens", "key": format!("token-{n}")}}}),
            })
            .collect();
        let probe = json!({"httpGet": {"path": "/healthz", "port": port, "scheme": "HTTP"}, "periodSeconds": 10,
                           "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3});
        json!({
            "name": name, "image": format!("registry.example.com/shop/{name}:1.25.3"), "imagePullPolicy": "IfNotPresent",
            "args": ["--listen", "0.0.0.0:8080", "--config=/etc/web/web.yaml"], "env": env,
            "ports": [{"containerPort": port, "name": "http", "protocol": "TCP"},
                      {"containerPort": port + 1, "name": "metrics", "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "livenessProbe": probe, "readinessProbe": probe,
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "volumeMounts": [{"mountPath": "/etc/web", "name": "config", "readOnly": true},
                             {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                              "name": "kube-api-access-x2x9z", "readOnly": true}],
        })
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-11-16T02:40:11Z"});
    let conditions =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    let status = |name: &str| {
        json!({"name": name, "ready": true, "started": true, "restartCount": 0,
               "image": format!("registry.example.com/shop/{name}:1.25.3"),
               "imageID": format!("registry.example.com/shop/{name}@sha256:{}", "0a1b2c3d".repeat(8)),
               "containerID": format!("containerd://{}", "4e5f6a7b".repeat(8)),
               "state": {"running": {"startedAt": "2026-11-16T02:40:10Z"}}, "lastState": {}})
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-7d9c8b5f6d-x2x9z", "generateName": "web-7d9c8b5f6d-", "namespace": "shop",
            "uid": "0b6e2a7e-5f0c-4a59-9d0e-1f2a3b4c5d6e", "creationTimestamp": "2026-11-16T02:40:00Z",
            "labels": {"app": "web", "tier": "front", "pod-template-hash": "7d9c8b5f6d", "version": "1.25.3"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8081",
                            "example.com/config-hash": "7f".repeat(32)},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d9c8b5f6d", "controller": true,
                                 "blockOwnerDeletion": true, "uid": "aa6e2a7e-5f0c-4a59-9d0e-1f2a3b4c5d6e"}],
        },
        "spec": {
            "containers": [container("web", 8080), container("proxy", 9090)],
            "nodeName": "node-17", "serviceAccountName": "web", "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30, "securityContext": {},
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "volumes": [{"name": "config", "configMap": {"name": "web", "defaultMode": 420}},
                        {"name": "kube-api-access-x2x9z", "projected": {"defaultMode": 420, "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}}],
        },
        "status": {
            "phase": "Running", "qosClass": "Burstable", "hostIP": "10.0.0.17", "podIP": "10.244.3.12",
            "podIPs": [{"ip": "10.244.3.12"}], "startTime": "2026-11-16T02:40:01Z",
            "conditions": conditions,
            "containerStatuses": [status("web"), status("proxy")],
        },
    })
}

fn pods(c: &mut Criterion) {
    let old = pod();
    let mut new = old.clone();
    new["status"]["conditions"][2]["status"] = json!("False");
    new["status"]["containerStatuses"][0]["restartCount"] = json!(1);
    new["metadata"]["labels"]["version"] = json!("1.25.4");
    println!("the pods have {} bytes", old.to_string().len());
    let keys = Keys::default();
    let mut group = c.benchmark_group("two pods, three fields");
    group.bench_function("ours: patch, inverse, changes", |b| b.iter(|| diff(black_box(&old), black_box(&new), &keys)));
    group.bench_function("json_patch: patch", |b| b.iter(|| json_patch::diff(black_box(&old), black_box(&new))));
    group.bench_function("ours, equal pods", |b| b.iter(|| diff(black_box(&old), black_box(&old), &keys)));
    group.finish();

    let mut new = old.clone();
    let env = new["spec"]["containers"][0]["env"].as_array_mut().expect("the pod has env");
    env.insert(0, json!({"name": "LOG_LEVEL", "value": "debug"}));
    let mut group = c.benchmark_group("two pods, env at the head");
    group.bench_function("ours: patch, inverse, changes", |b| b.iter(|| diff(black_box(&old), black_box(&new), &keys)));
    group.bench_function("json_patch: patch", |b| b.iter(|| json_patch::diff(black_box(&old), black_box(&new))));
    group.finish();
}

fn numbers(seed: u64, count: usize, below: u64) -> Vec<u64> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn worst(c: &mut Criterion) {
    let keys = Keys::default();
    let mut group = c.benchmark_group("worst");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(200));
    let mut run = |name: &str, old: Value, new: Value| {
        let (old, new) = (json!({"data": old}), json!({"data": new}));
        group.bench_function(name, |b| b.iter(|| diff(black_box(&old), black_box(&new), &keys)));
    };
    let named = |id: u64, value: u64| json!({"name": format!("item-{id}"), "value": value, "labels": {"a": "b"}});
    let items: Vec<Value> = (0..5000).map(|id| named(id, 0)).collect();
    run("5,000 items, all changed", items.clone().into(), (0..5000).map(|id| named(id, 1)).collect());
    run("5,000 items, reversed", items.clone().into(), items.iter().rev().cloned().collect());
    run(
        "5,000 items, one inserted",
        items.clone().into(),
        std::iter::once(named(9999, 0)).chain(items.clone()).collect(),
    );
    for below in [2, 100, 2500] {
        run(
            &format!("5,000 random numbers of {below}"),
            numbers(1, 5000, below).into(),
            numbers(2, 5000, below).into(),
        );
    }
    let unnamed = |seed: u64| -> Value {
        numbers(seed, 5000, 70)
            .into_iter()
            .map(|n| json!({"value": n, "labels": {"a": n % 7, "c": [1, 2, 3]}}))
            .collect()
    };
    run("5,000 random objects without keys", unnamed(1), unnamed(2));
    let text = |seed: u64, lines: usize, below: u64, pad: usize| -> Value {
        let text: String =
            numbers(seed, lines, below).into_iter().map(|n| format!("{n}{}\n", "x".repeat(pad))).collect();
        json!({"file": text})
    };
    run("1 MB ConfigMap, lines all others", text(1, 10_000, u64::MAX, 92), text(2, 10_000, u64::MAX, 92));
    run("1 MB ConfigMap, 20,000 lines that repeat", text(1, 9_900, 3000, 100), text(2, 9_900, 3000, 100));
    run("1 MB ConfigMap, 20,000 lines of 50", text(1, 9_900, 50, 100), text(2, 9_900, 50, 100));
    run("1 MB ConfigMap, short lines", text(1, 400_000, 100, 0), text(2, 400_000, 100, 0));
    let deep = |leaf: u64| (0..100).fold(json!(vec![leaf; 20_000]), |inner, _| json!([inner]));
    run("20,000 numbers, a hundred lists deep", deep(1), deep(2));
    let members = |value: u64| -> Value { (0..50_000).map(|n| (format!("key-{n}"), json!(value))).collect() };
    run("50,000 members, all changed", members(1), members(2));
    group.finish();
}

criterion_group!(benches, pods, worst);
criterion_main!(benches);
