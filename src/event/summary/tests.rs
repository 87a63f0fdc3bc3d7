//! Sentences, as tables of old, new and what is said.

mod kinds;
mod news;

use super::{super::fixture::event, words};

/// A row: the head of both documents, what differs, and the sentence.
fn says(head: &str, old: &str, new: &str, want: &str) {
    let event = event(head, old, new);
    assert_eq!(event.summary, want, "{:#?}", event.changes);
}

const DEPLOYMENT: &str = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, ";

/// Both documents with the same beginning, as one flow mapping each.
fn deployment(old: &str, new: &str, want: &str) {
    says("", &format!("{DEPLOYMENT}{old}}}"), &format!("{DEPLOYMENT}{new}}}"), want);
}

fn template(replicas: u32, container: &str) -> String {
    format!("spec: {{replicas: {replicas}, template: {{spec: {{containers: [{{name: web, {container}}}]}}}}}}")
}

#[test]
fn a_deployment_tells_its_image_and_replicas() {
    deployment(
        &template(3, "image: 'nginx:1.25'"),
        &template(5, "image: 'nginx:1.27'"),
        "image of web nginx:1.25 -> nginx:1.27; replicas 3 -> 5",
    );
}

#[test]
fn a_container_tells_env_resources_probes_and_arguments() {
    let base = "image: a, env: [{name: LOG_LEVEL, value: info}, {name: OLD, value: x}], args: [-v], resources: {limits: {memory: 512Mi}}";
    let next = "image: a, env: [{name: FEATURE, value: 'on'}, {name: LOG_LEVEL, value: debug}], args: [-v], resources: {limits: {memory: 1Gi}}";
    deployment(
        &template(3, base),
        &template(3, next),
        "env OLD removed from web; env FEATURE=on added to web; env LOG_LEVEL of web info -> debug; memory limit of web 512Mi -> 1Gi",
    );
    deployment(
        &template(3, "image: a, livenessProbe: {httpGet: {port: 80}, periodSeconds: 10}"),
        &template(
            3,
            "image: a, livenessProbe: {httpGet: {port: 80}, periodSeconds: 30}, readinessProbe: {httpGet: {port: 80}}",
        ),
        "liveness probe of web: periodSeconds 10 -> 30; readiness probe added to web",
    );
    deployment(
        &template(1, "image: a, args: [--a, --b]"),
        &template(1, "image: a, args: [--a, --b, --c]"),
        "argument --c of web added",
    );
    deployment(
        &template(1, "image: a"),
        &template(1, "image: a, env: [{name: A, value: x}], resources: {requests: {cpu: 1}, limits: {cpu: 2}}"),
        "env A added to web; limits cpu 2, requests cpu 1 set on web",
    );
}

#[test]
fn a_container_more_or_less_is_told_by_its_name() {
    let one = "spec: {template: {spec: {containers: [{name: web, image: a}]}}}";
    let two = "spec: {template: {spec: {containers: [{name: proxy, image: 'envoy:1.30'}, {name: web, image: a}]}}}";
    deployment(one, two, "container proxy added (envoy:1.30)");
    deployment(two, one, "container proxy removed");
}

#[test]
fn kubectl_rollout_restart_is_a_restart_and_a_pause_is_a_pause() {
    deployment(
        "spec: {template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: '2026-11-16T10:00:00Z'}}}}",
        "spec: {template: {metadata: {annotations: {kubectl.kubernetes.io/restartedAt: '2026-11-16T11:00:00Z'}}}}",
        "restarted",
    );
    deployment("spec: {replicas: 1}", "spec: {replicas: 1, paused: true}", "rollout paused");
    deployment("spec: {replicas: 1, paused: true}", "spec: {replicas: 1}", "rollout resumed");
}

#[test]
fn a_rollout_tells_how_far_it_is() {
    let status = |updated: u32, all: u32, ready: u32, reason: &str| {
        format!(
            "spec: {{replicas: 20}}, status: {{replicas: {all}, updatedReplicas: {updated}, readyReplicas: {ready}, \
             conditions: [{{type: Progressing, status: 'True', reason: {reason}}}]}}"
        )
    };
    deployment(
        &status(8, 25, 15, "ReplicaSetUpdated"),
        &status(12, 25, 15, "ReplicaSetUpdated"),
        "rolling out: 12 of 20 pods updated, 15 ready",
    );
    deployment(
        &status(20, 21, 19, "ReplicaSetUpdated"),
        &status(20, 20, 20, "NewReplicaSetAvailable"),
        "rolled out: 20 pods ready",
    );
    deployment(
        &status(20, 20, 20, "NewReplicaSetAvailable"),
        &status(20, 20, 19, "NewReplicaSetAvailable"),
        "19 of 20 pods ready (was 20)",
    );
    deployment(
        &status(3, 23, 20, "ReplicaSetUpdated"),
        &status(3, 23, 20, "ProgressDeadlineExceeded"),
        "rollout stuck: 3 of 20 pods updated, 20 ready",
    );
    says(
        "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, ",
        "status: {desiredNumberScheduled: 9, currentNumberScheduled: 9, updatedNumberScheduled: 9, numberReady: 8}}",
        "status: {desiredNumberScheduled: 9, currentNumberScheduled: 9, updatedNumberScheduled: 9, numberReady: 9}}",
        "9 of 9 pods ready",
    );
    says(
        "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {replicas: 3}, ",
        "status: {replicas: 3, updatedReplicas: 1, readyReplicas: 3}}",
        "status: {replicas: 3, updatedReplicas: 2, readyReplicas: 2}}",
        "rolling out: 2 of 3 pods updated, 2 ready",
    );
    says(
        "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-5d}, ",
        "status: {replicas: 3, readyReplicas: 1}}",
        "status: {replicas: 3, readyReplicas: 2}}",
        "2 of 3 pods ready",
    );
}

fn pod(old: &str, new: &str, want: &str) {
    says(
        "{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop}, ",
        &format!("{old}}}"),
        &format!("{new}}}"),
        want,
    );
}

#[test]
fn a_pod_that_crash_loops_says_how_often_and_why() {
    let terminated = "{terminated: {exitCode: 137, reason: OOMKilled}}";
    pod(
        &format!(
            "status: {{phase: Running, conditions: [{{type: Ready, status: 'True'}}], containerStatuses: [{{name: web, ready: true, restartCount: 3, state: {{running: {{startedAt: '2026-11-16T11:00:00Z'}}}}, lastState: {terminated}}}]}}"
        ),
        &format!(
            "status: {{phase: Running, conditions: [{{type: Ready, status: 'False', message: 'containers with unready status: [web]'}}], containerStatuses: [{{name: web, ready: false, restartCount: 4, state: {{waiting: {{reason: CrashLoopBackOff}}}}, lastState: {terminated}}}]}}"
        ),
        "Pod crash-looping: 4 restarts, last exit 137 (OOMKilled)",
    );
    pod(
        "status: {containerStatuses: [{name: web, restartCount: 0, state: {running: {}}}, {name: proxy, restartCount: 0}]}",
        &format!(
            "status: {{containerStatuses: [{{name: web, restartCount: 1, state: {{waiting: {{reason: CrashLoopBackOff}}}}, lastState: {terminated}}}, {{name: proxy, restartCount: 0}}]}}"
        ),
        "Pod crash-looping (web): 1 restart, last exit 137 (OOMKilled)",
    );
    pod(
        "status: {containerStatuses: [{name: web, restartCount: 0, state: {running: {}}}]}",
        &format!(
            "status: {{containerStatuses: [{{name: web, restartCount: 1, state: {{running: {{}}}}, lastState: {terminated}}}]}}"
        ),
        "web restarted: 1 restart, last exit 137 (OOMKilled)",
    );
    pod(
        "status: {containerStatuses: [{name: web, restartCount: 0, state: {running: {}}}]}",
        &format!("status: {{containerStatuses: [{{name: web, restartCount: 0, state: {terminated}}}]}}"),
        "web ended: exit 137 (OOMKilled)",
    );
}

#[test]
fn a_pod_tells_scheduling_phase_readiness_and_eviction() {
    pod("spec: {a: 1}", "spec: {a: 1, nodeName: node-1}", "scheduled to node-1");
    pod(
        "status: {phase: Pending, conditions: [{type: PodScheduled, status: 'True'}]}",
        "status: {phase: Running, conditions: [{type: PodScheduled, status: 'True'}, {type: Ready, status: 'True'}]}",
        "Pod is running and ready",
    );
    pod(
        "status: {phase: Pending}",
        "status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/3 nodes are available: 3 Insufficient cpu.'}]}",
        "Pod cannot be scheduled: 0/3 nodes are available: 3 Insufficient cpu",
    );
    pod(
        "status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}",
        "status: {phase: Running, conditions: [{type: Ready, status: 'False', message: 'containers with unready status: [web]'}]}",
        "Pod is not ready: containers with unready status: [web]",
    );
    pod(
        "status: {phase: Running}",
        "status: {phase: Failed, reason: Evicted, message: 'The node was low on resource: memory.'}",
        "Pod evicted: The node was low on resource: memory",
    );
    pod(
        "status: {phase: Running, containerStatuses: [{name: a, state: {running: {}}}]}",
        "status: {phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 1, reason: Error}}}]}",
        "Pod failed: exit 1 (Error)",
    );
    pod("status: {phase: Running}", "status: {phase: Succeeded}", "Pod succeeded");
    pod(
        "status: {phase: Pending, containerStatuses: [{name: web, image: 'nginx:nope', state: {waiting: {reason: ContainerCreating}}}]}",
        "status: {phase: Pending, containerStatuses: [{name: web, image: 'nginx:nope', state: {waiting: {reason: ErrImagePull}}}]}",
        "web cannot pull nginx:nope (ErrImagePull)",
    );
}

#[test]
fn an_object_that_was_asked_to_go_says_so() {
    let head = "{apiVersion: v1, kind: Pod, ";
    says(
        head,
        "metadata: {name: web-1}}",
        "metadata: {name: web-1, deletionTimestamp: '2026-11-16T11:00:00Z', deletionGracePeriodSeconds: 30}}",
        "Pod web-1 is being deleted",
    );
}

#[test]
fn a_node_tells_ready_cordon_pressure_and_taints() {
    let head = "{apiVersion: v1, kind: Node, metadata: {name: node-1}, ";
    let ready = |status: &str| {
        format!("status: {{conditions: [{{type: Ready, status: '{status}', reason: KubeletNotReady}}]}}}}")
    };
    says(head, &ready("True"), &ready("False"), "Node is NotReady");
    says(head, &ready("False"), &ready("True"), "Node is Ready");
    says(head, &ready("True"), &ready("Unknown"), "Node is NotReady: its kubelet is silent");
    says(
        head,
        "spec: {a: 1}}",
        "spec: {a: 1, unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}}",
        "Node cordoned",
    );
    says(head, "spec: {a: 1, unschedulable: true}}", "spec: {a: 1}}", "Node uncordoned");
    says(
        head,
        "spec: {taints: [{key: old, effect: NoExecute}]}}",
        "spec: {taints: [{key: dedicated, value: gpu, effect: NoSchedule}]}}",
        "taint dedicated=gpu:NoSchedule added; taint old:NoExecute removed",
    );
    says(
        head,
        "status: {conditions: [{type: MemoryPressure, status: 'False'}]}}",
        "status: {conditions: [{type: MemoryPressure, status: 'True'}]}}",
        "Node has MemoryPressure",
    );
    says(
        head,
        "status: {nodeInfo: {kubeletVersion: v1.35.0}}}",
        "status: {nodeInfo: {kubeletVersion: v1.36.3}}}",
        "kubelet v1.35.0 -> v1.36.3",
    );
}

#[test]
fn a_secret_says_which_keys_rotated_and_shows_no_hash() {
    let head = "{apiVersion: v1, kind: Secret, metadata: {name: web-tls}, ";
    says(
        head,
        "data: {tls.crt: 'hmac:0123456789ab', tls.key: 'hmac:111111111111', ca.crt: 'hmac:0123456789ab'}}",
        "data: {tls.crt: 'hmac:ba9876543210', tls.key: 'hmac:222222222222', ca.crt: 'hmac:0123456789ab'}}",
        "Secret rotated: tls.crt, tls.key",
    );
    says(
        head,
        "data: {a: 'hmac:0123456789ab'}}",
        "data: {b: 'hmac:0123456789ab'}}",
        "Secret keys added: b; Secret keys removed: a",
    );
}

#[test]
fn hidden_values_elsewhere_are_never_shown() {
    deployment(
        &template(1, "env: [{name: DB_PASSWORD, value: 'hmac:0123456789ab'}]"),
        &template(1, "env: [{name: DB_PASSWORD, value: 'hmac:ba9876543210'}]"),
        "env DB_PASSWORD of web changed (hidden)",
    );
    deployment(
        &template(1, "env: [{name: URL, value: 'db://u:hmac:0123456789ab@db'}]"),
        &template(1, "env: [{name: URL, value: 'db://u:hmac:ba9876543210@db'}]"),
        "env URL of web changed (hidden)",
    );
    says(
        "{apiVersion: acme.example/v1, kind: Gadget, metadata: {name: g}, ",
        "spec: {a: 1}}",
        "spec: {a: 1, token: 'hmac:0123456789ab'}}",
        "token set (hidden)",
    );
}

#[test]
fn a_config_map_tells_keys_values_and_lines() {
    let head = "{apiVersion: v1, kind: ConfigMap, metadata: {name: app}, ";
    says(
        head,
        "data: {LOG_LEVEL: info, OLD: x}}",
        "data: {LOG_LEVEL: debug, NEW: z}}",
        "LOG_LEVEL info -> debug; OLD removed; NEW=z added",
    );
    let file = |middle: &str| {
        format!("data: {{app.conf: \"{}{middle}\\n{}\"}}}}", "same line here\\n".repeat(20), "tail\\n".repeat(20))
    };
    says(head, &file("a"), &file("b\\nc"), "app.conf: 2 lines added, 1 removed");
    // More than a line diff shows.
    let long = |word: &str| {
        let lines: String = (0..3000).map(|n| format!("{word} line number {n}\\n")).collect();
        format!("data: {{app.conf: \"{lines}\"}}}}")
    };
    says(head, &long("old"), &long("new"), "app.conf: 3000 lines added, 3000 removed");
}

#[test]
fn any_other_kind_tells_its_first_fields_and_how_many_more() {
    let head = "{apiVersion: acme.example/v1, kind: Gadget, metadata: {name: g}, ";
    says(head, "spec: {size: 3, mode: fast}}", "spec: {size: 5, mode: slow}}", "mode fast -> slow; size 3 -> 5");
    says(
        head,
        "spec: {a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1}}",
        "spec: {a: 2, b: 2, c: 2, d: 2, e: 2, f: 2, g: 2}}",
        "a 1 -> 2; b 1 -> 2; c 1 -> 2; and 4 more",
    );
    says(
        head,
        "status: {conditions: [{type: Ready, status: 'True', lastTransitionTime: a}]}}",
        "status: {conditions: [{type: Ready, status: 'False', reason: NotFound, message: 'no such gizmo.', lastTransitionTime: b}]}}",
        "Ready is now False: no such gizmo",
    );
    says(head, "spec: {a: 1}, status: {seen: 1}}", "spec: {a: 2}, status: {seen: 2}}", "a 1 -> 2");
    says(head, "spec: {tags: [a, b]}}", "spec: {tags: [a, b, c]}}", "tags c added");
    says(head, "spec: {text: \"a\\nb\"}}", "spec: {text: \"a\\nc\"}}", "text a\\nb -> a\\nc");
}

#[test]
fn labels_and_annotations_are_called_so() {
    says(
        "{apiVersion: acme.example/v1, kind: Gadget, ",
        "metadata: {name: g, labels: {a: x, gone: y}, annotations: {example.com/note: one}}}",
        "metadata: {name: g, labels: {a: z, tier: backend}, annotations: {example.com/note: two}}}",
        "annotation example.com/note one -> two; label a x -> z; label gone removed; label tier=backend added",
    );
}

#[test]
fn created_objects_say_what_they_are_and_deleted_ones_how_old_they_were() {
    let web = format!("{DEPLOYMENT}{}}}", template(3, "image: 'nginx:1.25'"));
    says("", "", &web, "Deployment web created: 3 replicas of nginx:1.25");
    says(
        "",
        "",
        "{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {name: t}, data: {tls.crt: 'hmac:0123456789ab', tls.key: 'hmac:0123456789ab'}}",
        "Secret t created: kubernetes.io/tls with tls.crt, tls.key",
    );
    says(
        "",
        "",
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: admins}, roleRef: {kind: ClusterRole, name: admin}, subjects: [{kind: Group, name: contractors}]}",
        "RoleBinding admins created: binds Group contractors to ClusterRole admin",
    );
    says("", "", "{apiVersion: acme.example/v1, kind: Gadget, metadata: {name: g}}", "Gadget g created");
    says(
        "",
        "{apiVersion: acme.example/v1, kind: Gadget, metadata: {name: old, creationTimestamp: '2026-10-06T11:00:00Z'}}",
        "",
        "Gadget old deleted after 41 days",
    );
}

#[test]
fn a_long_value_is_cut_where_it_is_equal() {
    let long = |tag: &str| {
        serde_json::Value::from(format!("registry.example.com/a/very/long/path/to/the/team/and/the/project/web:{tag}"))
    };
    let (from, to) = words::pair(&long("1.25"), &long("1.27"), 30);
    assert!(from.starts_with('…') && from.ends_with("1.25") && to.ends_with("1.27"), "{from} {to}");
    assert!(from.chars().count() <= 30 && to.chars().count() <= 30);
    let text = |middle: &str| serde_json::Value::from(format!("{}{middle}{}", "a".repeat(100), "b".repeat(100)));
    let (from, to) = words::pair(&text("OLD"), &text("NEW"), 20);
    assert!(from.contains("OLD") && to.contains("NEW"), "{from} {to}");
    assert!(from.chars().count() <= 20 && to.chars().count() <= 20);
    assert_eq!(words::cut("äöüäöü", 4), "äöü…");
}

#[test]
fn a_sentence_is_one_line_whatever_is_in_the_values() {
    let nasty = "a\\nb\\x1b[31mred\\r";
    let event = event(
        "{apiVersion: acme.example/v1, kind: Gadget, metadata: {name: g}, ",
        "spec: {x: 1}}",
        &format!("spec: {{x: \"{nasty}\", \"key\\nwith\": 1}}}}"),
    );
    assert!(!event.summary.chars().any(char::is_control), "{:?}", event.summary);
}
