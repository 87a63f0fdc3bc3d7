//! What the door costs an object, against parsing the same bytes into a `serde_json::Value`.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kubediff::{
    cluster::Resource,
    redact::{Door, Settings},
};
use serde_json::{Value, json};

fn resource(kind: &str) -> Resource {
    Resource {
        group: String::new(),
        version: "v1".into(),
        plural: format!("{}s", kind.to_lowercase()),
        singular: kind.to_lowercase(),
        kind: kind.into(),
        short_names: vec![],
        namespaced: true,
    }
}

/// About 9.2 KB, of which managedFields are 3.7 KB, as the server prints a pod of a Deployment with two containers.
fn pod() -> Value {
    let container = |name: &str| {
        let env: Vec<Value> = (0..6)
            .map(|i| json!({"name": format!("SETTING_{i}"), "value": format!("value-{i}-of-the-setting")}))
            .chain([json!({"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"key": "password", "name": "db"}}})])
            .collect();
        json!({"name": name, "image": format!("registry.example/shop/{name}:1.27.3"), "imagePullPolicy": "IfNotPresent",
            "args": ["--listen=:8080", "--log-level=info", "--config=/etc/app/config.yaml"], "env": env,
            "livenessProbe": {"failureThreshold": 3, "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
                "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1},
            "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "volumeMounts": [{"mountPath": "/etc/app", "name": "config"},
                {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access-7zxk2", "readOnly": true}]})
    };
    let fields = |name: &str| {
        let env: serde_json::Map<String, Value> = (0..7)
            .map(|i| (format!(r#"k:{{"name":"SETTING_{i}"}}"#), json!({".": {}, "f:name": {}, "f:value": {}})))
            .collect();
        json!({format!(r#"k:{{"name":"{name}"}}"#): {".": {}, "f:args": {}, "f:env": env, "f:image": {}, "f:imagePullPolicy": {},
            "f:livenessProbe": {".": {}, "f:failureThreshold": {}, "f:httpGet": {".": {}, "f:path": {}, "f:port": {}, "f:scheme": {}},
                "f:periodSeconds": {}, "f:successThreshold": {}, "f:timeoutSeconds": {}}, "f:name": {},
            "f:ports": {".": {}, r#"k:{"containerPort":8080,"protocol":"TCP"}"#: {".": {}, "f:containerPort": {}, "f:name": {}, "f:protocol": {}}},
            "f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}, "f:memory": {}}, "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}}},
            "f:securityContext": {".": {}, "f:allowPrivilegeEscalation": {}, "f:capabilities": {".": {}, "f:drop": {}}},
            "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {},
            "f:volumeMounts": {".": {}, r#"k:{"mountPath":"/etc/app"}"#: {".": {}, "f:mountPath": {}, "f:name": {}}}}})
    };
    let condition = |kind: &str| json!({"lastProbeTime": null, "lastTransitionTime": "2026-11-15T10:00:00Z", "observedGeneration": 1, "status": "True", "type": kind});
    let conditions: Vec<Value> =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition).into();
    let status = |name: &str| {
        json!({"containerID": "containerd://2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae", "ready": true,
            "image": format!("registry.example/shop/{name}:1.27.3"), "lastState": {}, "name": name, "restartCount": 0, "started": true,
            "imageID": "registry.example/shop/web@sha256:fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9",
            "state": {"running": {"startedAt": "2026-11-15T10:00:03Z"}}})
    };
    let manager = |name: &str, subresource: Option<&str>, fields: Value| {
        json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": name, "operation": "Update",
            "subresource": subresource, "time": "2026-11-15T10:00:00Z"})
    };
    json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "web-6d4cf56db6-xk7vl", "generateName": "web-6d4cf56db6-", "namespace": "shop",
            "uid": "b8a1f7f6-5a0e-4bb0-9d57-0d2a4c7f4c11", "resourceVersion": "104233", "generation": 1,
            "creationTimestamp": "2026-11-15T10:00:00Z", "labels": {"app": "web", "pod-template-hash": "6d4cf56db6", "tier": "front"},
            "annotations": {"prometheus.io/port": "8080", "prometheus.io/scrape": "true"},
            "ownerReferences": [{"apiVersion": "apps/v1", "blockOwnerDeletion": true, "controller": true, "kind": "ReplicaSet",
                "name": "web-6d4cf56db6", "uid": "0c8f1b0e-3b58-4c39-a2a2-0a1d3a7b7b10"}],
            "managedFields": [
                manager("kube-controller-manager", None, json!({"f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}}},
                    "f:spec": {"f:containers": [fields("web"), fields("sidecar")], "f:dnsPolicy": {}, "f:restartPolicy": {}}})),
                manager("kubelet", Some("status"), json!({"f:status": {"f:conditions": {
                    r#"k:{"type":"Ready"}"#: {".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}},
                    "f:containerStatuses": {}, "f:hostIP": {}, "f:phase": {}, "f:podIP": {}, "f:podIPs": {}, "f:startTime": {}}}))]},
        "spec": {"containers": [container("web"), container("sidecar")], "dnsPolicy": "ClusterFirst", "enableServiceLinks": true,
            "nodeName": "node-17", "preemptionPolicy": "PreemptLowerPriority", "priority": 0, "restartPolicy": "Always",
            "schedulerName": "default-scheduler", "securityContext": {"runAsNonRoot": true}, "serviceAccount": "web",
            "serviceAccountName": "web", "terminationGracePeriodSeconds": 30,
            "tolerations": [{"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
            "volumes": [{"configMap": {"defaultMode": 420, "name": "web"}, "name": "config"},
                {"name": "kube-api-access-7zxk2", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}}]}}]},
        "status": {"conditions": conditions, "containerStatuses": [status("web"), status("sidecar")], "hostIP": "10.0.0.17",
            "phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}], "qosClass": "Burstable",
            "startTime": "2026-11-15T10:00:00Z"}})
}

/// One file of 20 KB with a password in it.
fn config_map() -> Value {
    let section =
        |i: usize| format!("service-{i}:\n  listen: 0.0.0.0:{}\n  timeout: 30s\n  log:\n    level: info\n", 8000 + i);
    let mut file: String = (0..260).map(section).collect();
    file.push_str("database:\n  user: shop\n  password: hunter2\n");
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "web", "namespace": "shop"}, "data": {"app.yaml": file}})
}

fn secret() -> Value {
    json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "db", "namespace": "shop"}, "type": "Opaque",
        "data": {"username": "c2hvcA==", "password": "aHVudGVyMg==", "url": "cG9zdGdyZXM6Ly9zaG9wOmh1bnRlcjJAZGIvc2hvcA=="}})
}

fn bench(criterion: &mut Criterion) {
    let door = Door::new(&Settings::default(), &[7; 32]).expect("a door");
    for (kind, object) in [("Pod", pod()), ("ConfigMap", config_map()), ("Secret", secret())] {
        let (resource, raw) = (resource(kind), object.to_string().into_bytes());
        let mut group = criterion.benchmark_group(format!("redact/{kind}"));
        group.throughput(Throughput::Bytes(raw.len() as u64));
        group.bench_function("admit", |b| b.iter(|| door.admit(&resource, black_box(&raw)).expect("admitted")));
        group.bench_function("serde_json value", |b| {
            b.iter(|| serde_json::from_slice::<Value>(black_box(&raw)).expect("json"));
        });
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
