//! Every value of the chart, set to something else than its default, and what comes of it.

use serde_json::{Value, json};

use super::{
    CHART,
    helm::{find, kinds, render},
    leaves,
};

const POD: &str = "/spec/template/spec";
const MAIN: &str = "/spec/template/spec/containers/0";

/// Values, and what is then to be found: a kind, a JSON pointer in it, and the value there (null for none).
pub type Switch = (&'static str, Vec<(&'static str, String, Value)>);

fn pod(pointer: &str, value: Value) -> (&'static str, String, Value) {
    ("StatefulSet", format!("{POD}{pointer}"), value)
}

pub fn main(pointer: &str, value: Value) -> (&'static str, String, Value) {
    ("StatefulSet", format!("{MAIN}{pointer}"), value)
}

/// In the object of that name; the others look into the first of their kind.
pub fn named(kind: &'static str, name: &str, pointer: &str, value: Value) -> (&'static str, String, Value) {
    (kind, format!("{name}#{pointer}"), value)
}

pub fn at(kind: &'static str, pointer: &str, value: Value) -> (&'static str, String, Value) {
    (kind, pointer.to_owned(), value)
}

fn switches() -> Vec<Switch> {
    let mut all = names_and_image();
    all.extend(state_and_secrets());
    all.extend(the_pod());
    all.extend(permissions_and_policies());
    all.extend(super::monitoring::switches());
    all
}

fn names_and_image() -> Vec<Switch> {
    vec![
        ("nameOverride: kd", vec![at("StatefulSet", "/metadata/labels/app.kubernetes.io~1name", json!("kd"))]),
        (
            "fullnameOverride: other",
            vec![
                at("StatefulSet", "/metadata/name", json!("other")),
                at("ServiceAccount", "/metadata/name", json!("other")),
                at("ClusterRole", "/metadata/name", json!("tools-other")),
            ],
        ),
        (
            "labels: {team: ops}",
            vec![
                at("ClusterRole", "/metadata/labels/team", json!("ops")),
                at("ConfigMap", "/metadata/labels/team", json!("ops")),
                at("StatefulSet", "/spec/template/metadata/labels/team", json!("ops")),
                at("StatefulSet", "/spec/selector/matchLabels/team", Value::Null),
            ],
        ),
        (
            "annotations: {a: b}",
            vec![
                at("Service", "/metadata/annotations/a", json!("b")),
                at("ServiceAccount", "/metadata/annotations/a", json!("b")),
            ],
        ),
        (
            "image: {repository: r.example/kubediff, tag: v9, pullPolicy: Always}",
            vec![main("/image", json!("r.example/kubediff:v9")), main("/imagePullPolicy", json!("Always"))],
        ),
        (
            "image: {tag: v9, digest: 'sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'}",
            vec![main("/image", json!(format!("kubediff@sha256:{}", "a".repeat(64))))],
        ),
        ("imagePullSecrets: [{name: registry}]", vec![pod("/imagePullSecrets", json!([{"name": "registry"}]))]),
        (
            "log: {level: debug, format: pretty}",
            vec![
                main("/env/0", json!({"name": "KUBEDIFF_LOG", "value": "debug"})),
                main("/env/1", json!({"name": "KUBEDIFF_LOG_FORMAT", "value": "pretty"})),
            ],
        ),
    ]
}

fn state_and_secrets() -> Vec<Switch> {
    let tmp = json!({"name": "tmp", "emptyDir": {}});
    vec![
        (
            "persistence: {enabled: false, size: 5Gi}",
            vec![
                at("StatefulSet", "/spec/volumeClaimTemplates", Value::Null),
                at("StatefulSet", "/spec/persistentVolumeClaimRetentionPolicy", Value::Null),
                pod("/volumes/1", tmp.clone()),
                pod("/volumes/2", json!({"name": "state", "emptyDir": {"sizeLimit": "5Gi"}})),
            ],
        ),
        (
            "persistence: {existingClaim: mine}",
            vec![
                at("StatefulSet", "/spec/volumeClaimTemplates", Value::Null),
                pod("/volumes/2", json!({"name": "state", "persistentVolumeClaim": {"claimName": "mine"}})),
            ],
        ),
        (
            "persistence: {storageClass: fast, accessModes: [ReadWriteOncePod], annotations: {a: b}, whenDeleted: Retain}",
            vec![
                at("StatefulSet", "/spec/volumeClaimTemplates/0/spec/storageClassName", json!("fast")),
                at("StatefulSet", "/spec/volumeClaimTemplates/0/spec/accessModes", json!(["ReadWriteOncePod"])),
                at("StatefulSet", "/spec/volumeClaimTemplates/0/metadata/annotations", json!({"a": "b"})),
                at("StatefulSet", "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted", json!("Retain")),
            ],
        ),
        (
            "persistence: {storageClass: '-'}",
            vec![at("StatefulSet", "/spec/volumeClaimTemplates/0/spec/storageClassName", json!(""))],
        ),
        (
            "secrets: {env: {SLACK_TOKEN: {name: slack, key: token}}}",
            vec![main(
                "/env/2",
                json!({"name": "SLACK_TOKEN", "valueFrom": {"secretKeyRef": {"name": "slack", "key": "token"}}}),
            )],
        ),
        (
            "redactionKey: {create: always, key: hash-key}",
            vec![
                at("Secret", "/metadata/name", json!("kubediff-redaction-key")),
                pod(
                    "/volumes/2",
                    json!({"name": "redaction-key", "secret": {"secretName": "kubediff-redaction-key",
                        "defaultMode": 288, "items": [{"key": "hash-key", "path": "key"}]}}),
                ),
                main(
                    "/volumeMounts/3",
                    json!({"name": "redaction-key", "mountPath": "/run/secrets/kubediff-redaction", "readOnly": true}),
                ),
            ],
        ),
        (
            "replicas: 2\nredactionKey: {existingSecret: mine}",
            vec![at("Secret", "", Value::Null), pod("/volumes/2/secret/secretName", json!("mine"))],
        ),
        (
            "replicas: 2\nredactionKey: {create: never}",
            vec![at("Secret", "", Value::Null), pod("/volumes/2", Value::Null)],
        ),
        (
            "replicas: 2\nconfig: {redact: {key: {env: KEY}}}",
            vec![at("Secret", "", Value::Null), pod("/volumes/2", Value::Null)],
        ),
        (
            "secrets: {allowPlainText: true}\nconfig: {sinks: {ops: {type: slack, webhook_url: 'https://hooks.slack.com/a'}}}",
            vec![at("Secret", "", Value::Null)],
        ),
        (
            "secrets: {files: {whsec: {name: audit, key: secret}}}",
            vec![
                pod(
                    "/volumes/2/projected/sources",
                    json!([
                {"secret": {"name": "audit", "items": [{"key": "secret", "path": "whsec"}]}}]),
                ),
                main(
                    "/volumeMounts/3",
                    json!({"name": "secrets", "mountPath": "/run/secrets/kubediff", "readOnly": true}),
                ),
            ],
        ),
        (
            "config: {state: {path: memory, max_bytes: 1GiB}, server: {page: '127.0.0.1:8080', probes: ''}}",
            vec![
                main("/ports", json!([{"name": "page", "containerPort": 8080, "protocol": "TCP"}])),
                main("/livenessProbe", Value::Null),
                main("/readinessProbe", Value::Null),
                main("/startupProbe", Value::Null),
                at("Service", "/spec/ports", Value::Null),
            ],
        ),
        (
            "config: {server: {probes: '[::]:7000'}}",
            vec![main("/ports/0/containerPort", json!(7000)), at("Service", "/spec/ports/0/port", json!(7000))],
        ),
    ]
}

fn the_pod() -> Vec<Switch> {
    let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]);
    vec![
        (
            "replicas: 2",
            vec![
                at("StatefulSet", "/spec/replicas", json!(2)),
                at("StatefulSet", "/spec/podManagementPolicy", json!("Parallel")),
                at("PodDisruptionBudget", "/spec/maxUnavailable", json!(1)),
                at("Role", "/metadata/name", json!("kubediff-lease")),
                at("Lease", "/metadata/name", json!("kubediff")),
                at("Secret", "/metadata/name", json!("kubediff-redaction-key")),
                at("RoleBinding", "/subjects/0/name", json!("kubediff")),
                pod("/topologySpreadConstraints/0/topologyKey", json!("kubernetes.io/hostname")),
                pod("/topologySpreadConstraints/0/whenUnsatisfiable", json!("ScheduleAnyway")),
            ],
        ),
        (
            "replicas: 2\ntopologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]",
            vec![pod("/topologySpreadConstraints", spread.clone())],
        ),
        (
            "config: {ha: {enabled: true, lease: shared}}",
            vec![
                at("Role", "/rules/0/resourceNames", json!(["shared"])),
                at("Lease", "/metadata/name", json!("shared")),
                at("PodDisruptionBudget", "", Value::Null),
            ],
        ),
        (
            "resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 2Gi}}",
            vec![main("/resources", json!({"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "2Gi"}}))],
        ),
        (
            "podSecurityContext: {runAsNonRoot: false, runAsUser: 7, runAsGroup: 8, fsGroup: 9, \
             fsGroupChangePolicy: Always, seccompProfile: {type: Unconfined}}",
            vec![pod(
                "/securityContext",
                json!({"runAsNonRoot": false, "runAsUser": 7, "runAsGroup": 8, "fsGroup": 9,
                "fsGroupChangePolicy": "Always", "seccompProfile": {"type": "Unconfined"}}),
            )],
        ),
        (
            "podSecurityContext: {runAsUser: null, fsGroup: null}",
            vec![
                pod("/securityContext/runAsUser", Value::Null),
                pod("/securityContext/fsGroup", Value::Null),
                pod("/securityContext/runAsNonRoot", json!(true)),
            ],
        ),
        (
            "securityContext: {allowPrivilegeEscalation: true, readOnlyRootFilesystem: false, capabilities: {drop: [CHOWN]}}",
            vec![main(
                "/securityContext",
                json!({"allowPrivilegeEscalation": true, "readOnlyRootFilesystem": false,
                "capabilities": {"drop": ["CHOWN"]}}),
            )],
        ),
        (
            "{startupProbe: {periodSeconds: 3, failureThreshold: 4}, \
              livenessProbe: {periodSeconds: 5, timeoutSeconds: 6, failureThreshold: 7}, \
              readinessProbe: {periodSeconds: 8, timeoutSeconds: 9, failureThreshold: 10}}",
            vec![
                main(
                    "/startupProbe",
                    json!({"httpGet": {"path": "/livez", "port": "probes"}, "periodSeconds": 3,
                    "failureThreshold": 4}),
                ),
                main(
                    "/livenessProbe",
                    json!({"httpGet": {"path": "/livez", "port": "probes"}, "periodSeconds": 5,
                    "timeoutSeconds": 6, "failureThreshold": 7}),
                ),
                main(
                    "/readinessProbe",
                    json!({"httpGet": {"path": "/readyz", "port": "probes"}, "periodSeconds": 8,
                    "timeoutSeconds": 9, "failureThreshold": 10}),
                ),
            ],
        ),
        ("podLabels: {a: b}", vec![at("StatefulSet", "/spec/template/metadata/labels/a", json!("b"))]),
        ("podAnnotations: {a: b}", vec![at("StatefulSet", "/spec/template/metadata/annotations/a", json!("b"))]),
        ("extraArgs: [--log-format=pretty]", vec![main("/args/2", json!("--log-format=pretty"))]),
        ("extraEnv: [{name: A, value: b}]", vec![main("/env/2", json!({"name": "A", "value": "b"}))]),
        ("extraEnvFrom: [{secretRef: {name: s}}]", vec![main("/envFrom", json!([{"secretRef": {"name": "s"}}]))]),
        (
            "extraVolumes: [{name: ca, configMap: {name: ca}}]",
            vec![pod("/volumes/2", json!({"name": "ca", "configMap": {"name": "ca"}}))],
        ),
        (
            "extraVolumeMounts: [{name: ca, mountPath: /etc/ssl/ca}]",
            vec![main("/volumeMounts/3", json!({"name": "ca", "mountPath": "/etc/ssl/ca"}))],
        ),
        ("nodeSelector: {disk: ssd}", vec![pod("/nodeSelector", json!({"disk": "ssd"}))]),
        (
            "tolerations: [{key: k, operator: Exists}]",
            vec![pod("/tolerations", json!([{"key": "k", "operator": "Exists"}]))],
        ),
        ("affinity: {nodeAffinity: {}}", vec![pod("/affinity", json!({"nodeAffinity": {}}))]),
        (
            "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]",
            vec![pod("/topologySpreadConstraints", spread)],
        ),
        ("priorityClassName: high", vec![pod("/priorityClassName", json!("high"))]),
        ("runtimeClassName: gvisor", vec![pod("/runtimeClassName", json!("gvisor"))]),
        ("terminationGracePeriodSeconds: 90", vec![pod("/terminationGracePeriodSeconds", json!(90))]),
    ]
}

fn permissions_and_policies() -> Vec<Switch> {
    let limited = "networkPolicy: {enabled: true, from: [{podSelector: {}}], restrictEgress: true, \
                   to: [{ports: [{port: 6443}]}]}";
    vec![
        (
            "serviceAccount: {name: reader, annotations: {a: b}}",
            vec![
                at("ServiceAccount", "/metadata/name", json!("reader")),
                at("ServiceAccount", "/metadata/annotations", json!({"a": "b"})),
                at("ClusterRoleBinding", "/subjects/0/name", json!("reader")),
                pod("/serviceAccountName", json!("reader")),
            ],
        ),
        (
            "serviceAccount: {create: false, name: theirs}",
            vec![at("ServiceAccount", "", Value::Null), pod("/serviceAccountName", json!("theirs"))],
        ),
        ("rbac: {create: false}", vec![at("ClusterRole", "", Value::Null), at("ClusterRoleBinding", "", Value::Null)]),
        (
            "rbac: {scope: namespaces}",
            vec![at("ClusterRole", "", Value::Null), at("Role", "/metadata/namespace", json!("tools"))],
        ),
        ("rbac: {scope: namespaces, namespaces: [shop]}", vec![at("Role", "/metadata/namespace", json!("shop"))]),
        (
            "rbac: {resources: no-secrets, groups: [cert-manager.io]}",
            vec![
                at("ClusterRole", "/rules/0/apiGroups", json!([""])),
                at("ClusterRole", "/rules/1/apiGroups/19", json!("cert-manager.io")),
            ],
        ),
        (
            "rbac: {resources: list, rules: [{apiGroups: [apps], resources: [deployments]}]}",
            vec![at(
                "ClusterRole",
                "/rules",
                json!([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "watch"]}]),
            )],
        ),
        (
            "networkPolicy: {enabled: true}",
            vec![
                at("NetworkPolicy", "/spec/policyTypes", json!(["Ingress"])),
                at("NetworkPolicy", "/spec/ingress", json!([])),
                at("NetworkPolicy", "/spec/egress", Value::Null),
            ],
        ),
        (
            limited,
            vec![
                at("NetworkPolicy", "/spec/policyTypes", json!(["Ingress", "Egress"])),
                at(
                    "NetworkPolicy",
                    "/spec/ingress/0",
                    json!({"from": [{"podSelector": {}}],
                "ports": [{"port": 9090, "protocol": "TCP"}]}),
                ),
                at("NetworkPolicy", "/spec/egress/0/ports/0", json!({"port": 53, "protocol": "UDP"})),
                at("NetworkPolicy", "/spec/egress/1", json!({"ports": [{"port": 6443}]})),
            ],
        ),
        (
            "podDisruptionBudget: {enabled: true, maxUnavailable: 50%}",
            vec![
                at("PodDisruptionBudget", "/spec/maxUnavailable", json!("50%")),
                at("PodDisruptionBudget", "/spec/minAvailable", Value::Null),
            ],
        ),
        (
            "podDisruptionBudget: {enabled: true, minAvailable: 0}",
            vec![
                at("PodDisruptionBudget", "/spec/minAvailable", json!(0)),
                at("PodDisruptionBudget", "/spec/maxUnavailable", Value::Null),
            ],
        ),
    ]
}

#[tokio::test]
async fn every_value_does_what_its_comment_says() {
    let plain = render("").await;
    for (values, expected) in switches() {
        let objects = render(values).await;
        assert_ne!(plain, objects, "{values}\nmakes no difference");
        for (kind, pointer, value) in expected {
            let found = if pointer.is_empty() {
                kinds(&objects).iter().any(|k| k == kind).into()
            } else if let Some((name, pointer)) = pointer.split_once('#') {
                let object = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
                object.and_then(|object| object.pointer(pointer)).cloned().unwrap_or_default()
            } else {
                find(&objects, kind, &pointer)
            };
            let value = if pointer.is_empty() { (!value.is_null()).into() } else { value };
            assert_eq!(found, value, "{values}\n{kind} {pointer}");
        }
    }
}

#[test]
fn no_value_is_left_out_of_the_table() {
    let parse = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{e}\n{text}")) };
    let set: Vec<_> = switches().iter().flat_map(|(values, _)| leaves(&parse(values))).collect();
    for key in leaves(&parse(&std::fs::read_to_string(format!("{CHART}/values.yaml")).unwrap())) {
        let covered = set.iter().any(|path| *path == key || path.starts_with(&format!("{key}.")));
        assert!(covered, "{key} has no case");
    }
}
