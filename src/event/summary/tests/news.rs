//! Small news of controllers, which fill a timeline: each is a sentence too, and none is a path in a status.

use super::{deployment, pod, says};

#[test]
fn a_rollout_begins_with_its_replica_set() {
    let status = |reason: &str, message: &str, revision: u8| {
        format!(
            "spec: {{replicas: 3}}, status: {{replicas: 3, updatedReplicas: 3, readyReplicas: 3, observed: {revision}, \
             conditions: [{{type: Progressing, status: 'True', reason: {reason}, message: '{message}'}}]}}"
        )
    };
    let before = status("NewReplicaSetAvailable", "ReplicaSet \"web-1\" has successfully progressed.", 1);
    deployment(
        &before,
        &status("NewReplicaSetCreated", "Created new replica set \"web-5574\"", 2),
        "rollout begins: new ReplicaSet web-5574",
    );
    deployment(
        &before,
        &status("FoundNewReplicaSet", "Found new replica set \"web-1\"", 2),
        "rollout begins: ReplicaSet web-1 is used again",
    );
}

#[test]
fn pods_that_are_missing_are_counted_and_not_named_by_a_field() {
    let status = |more: &str| {
        format!("spec: {{replicas: 4}}, status: {{replicas: 4, updatedReplicas: 4, readyReplicas: 2{more}}}")
    };
    deployment(&status(""), &status(", unavailableReplicas: 2"), "2 pods not available");
    deployment(&status(", unavailableReplicas: 2"), &status(""), "all pods are available");
    deployment(&status(", availableReplicas: 1"), &status(", availableReplicas: 2"), "2 of 4 pods available");
    deployment(&status(""), &status(", terminatingReplicas: 1"), "1 pod terminating");
    let available = |yes: &str| status(&format!(", conditions: [{{type: Available, status: '{yes}', message: m}}]"));
    deployment(&available("True"), &available("False"), "Deployment is not available: 2 of 4 pods ready");
    deployment(&available("False"), &available("True"), "Deployment is available again: 2 of 4 pods ready");
    let failed =
        ", conditions: [{type: ReplicaFailure, status: 'True', reason: FailedCreate, message: 'exceeded quota.'}]";
    deployment(&status(""), &status(failed), "pods cannot be created: exceeded quota");
}

#[test]
fn pods_that_go_are_no_rollout() {
    let set = "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web-5d}, spec: {replicas: 1}, ";
    says(set, "status: {replicas: 1, readyReplicas: 1}}", "status: {replicas: 0}}", "0 of 1 pod ready (was 1)");
    deployment(
        "spec: {replicas: 1}, status: {replicas: 1, updatedReplicas: 1, readyReplicas: 1}",
        "spec: {replicas: 1}, status: {replicas: 0}",
        "0 of 1 pod ready (was 1)",
    );
    let annotated = |revision: &str, history: &str| {
        format!(
            "{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: web-5d, annotations: \
             {{deployment.kubernetes.io/revision: '{revision}'{history}}}}}}}"
        )
    };
    let again = annotated("3", ", deployment.kubernetes.io/revision-history: '1'");
    says("", &annotated("1", ""), &again, "in use again, as revision 3 (was 1)");
}

#[test]
fn a_pod_says_what_still_goes_wrong_and_each_step_on_its_way() {
    let waiting = |reason: &str, message: &str| {
        format!(
            "status: {{phase: Pending, containerStatuses: [{{name: api, image: 'api:9', restartCount: 0, \
             state: {{waiting: {{reason: {reason}, message: '{message}'}}}}}}]}}"
        )
    };
    pod(
        &waiting("ErrImagePull", "not found"),
        &waiting("ImagePullBackOff", "Back-off pulling"),
        "api still cannot pull api:9 (ImagePullBackOff)",
    );
    let unscheduled = |why: &str| {
        format!("status: {{phase: Pending, conditions: [{{type: PodScheduled, status: 'False', message: '{why}'}}]}}")
    };
    pod(
        &unscheduled("0/3 nodes are available"),
        &unscheduled("0/4 nodes are available: 4 Insufficient cpu."),
        "Pod still cannot be scheduled: 0/4 nodes are available: 4 Insufficient cpu",
    );
    pod("status: {phase: Pending}", "status: {phase: Pending, podIP: 10.1.1.61}", "Pod has the address 10.1.1.61");
    let container = |ready: bool| {
        format!(
            "status: {{phase: Running, containerStatuses: [{{name: web, ready: {ready}, restartCount: 0, \
             state: {{running: {{}}}}}}]}}"
        )
    };
    pod(&container(false), &container(true), "web is ready");
    says(
        "{apiVersion: v1, kind: Pod, ",
        "metadata: {name: web-0, namespace: shop}, spec: {}}",
        "metadata: {name: web-0, namespace: shop, labels: {topology.kubernetes.io/zone: eu-1}}, spec: {nodeName: worker-1}}",
        "scheduled to worker-1",
    );
}

#[test]
fn nodes_namespaces_and_definitions_say_what_their_controllers_mean() {
    let node = "{apiVersion: v1, kind: Node, metadata: {name: worker-1}, ";
    let taint = |effect: &str| format!("spec: {{taints: [{{key: node.kubernetes.io/not-ready, effect: {effect}}}]}}}}");
    says(node, "spec: {}}", &taint("NoSchedule"), "Node takes no new pods (not-ready)");
    says(node, &taint("NoSchedule"), "spec: {}}", "Node takes new pods again (no longer not-ready)");
    says(node, "spec: {}}", &taint("NoExecute"), "Node evicts its pods (not-ready)");
    says(node, "spec: {}}", "spec: {taints: [{key: gpu, effect: NoSchedule}]}}", "taint gpu:NoSchedule added");

    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: preview}, ";
    let ending = |content: &str| {
        format!(
            "status: {{phase: Terminating, conditions: [{{type: NamespaceDeletionDiscoveryFailure, status: 'False', \
             message: 'All resources successfully discovered'}}, {{type: NamespaceContentRemaining, status: '{content}', \
             message: 'Some resources are remaining: pods. has 2 resource instances'}}]}}}}"
        )
    };
    let before = "status: {phase: Terminating}}";
    says(
        namespace,
        before,
        &ending("True"),
        "Namespace is not empty yet: Some resources are remaining: pods. has 2 resource instances",
    );
    says(namespace, before, &ending("False"), "Namespace is being emptied");

    let crd =
        "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: flags.example.com}, ";
    says(
        crd,
        "status: {}}",
        "status: {conditions: [{type: NamesAccepted, status: 'True'}, {type: Established, status: 'False', message: x}]}}",
        "names are accepted, the API is not served yet",
    );
}

#[test]
fn budgets_autoscalers_and_custom_resources_tell_their_numbers() {
    let budget = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, ";
    let covers = |pods: u8| {
        format!("status: {{expectedPods: {pods}, desiredHealthy: 2, currentHealthy: 3, disruptionsAllowed: 1}}}}")
    };
    says(budget, &covers(3), &covers(4), "PDB covers 4 pods (was 3), 2 needed");
    let scaler = "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, ";
    let cpu = |percent: u8| {
        format!(
            "status: {{desiredReplicas: 2, currentMetrics: [{{type: Resource, resource: {{name: cpu, current: \
             {{averageUtilization: {percent}}}}}}}]}}}}"
        )
    };
    says(scaler, &cpu(35), &cpu(64), "cpu at 64% (was 35%)");
    let flag = "{apiVersion: example.com/v1, kind: Flag, metadata: {name: a}, spec: {}";
    says(flag, "}", ", status: {phase: Serving, served: 1}}", "phase Serving, served 1");
    let ready = |message: &str, time: &str| {
        format!(
            ", status: {{conditions: [{{type: Ready, status: 'False', message: '{message}', lastTransitionTime: '{time}'}}]}}}}"
        )
    };
    says(flag, &ready("no quota", "1"), &ready("no node", "2"), "Ready is still False: no node");
    says(flag, &ready("no node", "1"), &ready("no node", "2"), "conditions were checked again, none changed");
}
