use super::{super::fixture::event, *};

fn are(head: &str, old: &str, new: &str, want: &str) {
    let event = event(head, old, new);
    let got: Vec<&str> = event.classes.iter().map(|class| class.as_str()).collect();
    assert_eq!(got.join(" "), want, "{:#?}", event.changes);
}

const DEPLOYMENT: &str = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, ";

fn container(old: &str, new: &str, want: &str) {
    let document =
        |container: &str| format!("spec: {{template: {{spec: {{containers: [{{name: web, {container}}}]}}}}}}}}");
    are(DEPLOYMENT, &document(old), &document(new), want);
}

#[test]
fn fields_of_containers_have_their_classes() {
    container("image: a", "image: b", "spec image");
    container("env: [{name: A, value: x}]", "env: [{name: A, value: y}]", "spec env");
    container("resources: {limits: {cpu: 1}}", "resources: {limits: {cpu: 2}}", "spec resources");
    container("args: [a]", "args: [b]", "spec command");
    container("ports: [{containerPort: 80}]", "ports: [{containerPort: 80}, {containerPort: 81}]", "spec network");
    container("livenessProbe: {periodSeconds: 1}", "livenessProbe: {periodSeconds: 2}", "spec health");
    container("securityContext: {privileged: false}", "securityContext: {privileged: true}", "spec security");
    container("volumeMounts: [{mountPath: /a}]", "volumeMounts: [{mountPath: /a}, {mountPath: /b}]", "spec storage");
    are(
        DEPLOYMENT,
        "spec: {template: {spec: {containers: [{name: web, image: a}]}}}}",
        "spec: {template: {spec: {containers: [{name: web, image: a}, {name: proxy, image: b}]}}}}",
        "spec image",
    );
}

#[test]
fn workloads_scale_and_roll_out() {
    are(DEPLOYMENT, "spec: {replicas: 3}}", "spec: {replicas: 5}}", "spec scale");
    are(DEPLOYMENT, "status: {updatedReplicas: 1}}", "status: {updatedReplicas: 2}}", "status rollout");
    are(
        DEPLOYMENT,
        "status: {conditions: [{type: Progressing, status: 'True', reason: a}]}}",
        "status: {conditions: [{type: Progressing, status: 'True', reason: b}]}}",
        "status health rollout",
    );
    are(
        DEPLOYMENT,
        "spec: {template: {spec: {volumes: [{name: a}]}}}}",
        "spec: {template: {spec: {volumes: [{name: a}, {name: b}]}}}}",
        "spec storage",
    );
    are(
        "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, ",
        "status: {desiredReplicas: 3}}",
        "status: {desiredReplicas: 9}}",
        "status scale",
    );
}

#[test]
fn kinds_have_their_families() {
    are("{apiVersion: v1, kind: Secret, metadata: {name: s}, ", "data: {a: x}}", "data: {a: y}}", "data secret");
    are("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, ", "data: {a: x}}", "data: {a: y}}", "data");
    are(
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}, ",
        "rules: [{verbs: [get]}]}",
        "rules: [{verbs: [get, list]}]}",
        "spec rbac",
    );
    are(
        "{apiVersion: v1, kind: Service, metadata: {name: s}, ",
        "spec: {type: a}}",
        "spec: {type: b}}",
        "spec network",
    );
    are(
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: p}, ",
        "spec: {resources: {requests: {storage: 1Gi}}}}",
        "spec: {resources: {requests: {storage: 2Gi}}}}",
        "spec resources storage",
    );
    are(
        "{apiVersion: v1, kind: Node, metadata: {name: node-1}, ",
        "spec: {a: 1}}",
        "spec: {a: 1, unschedulable: true}}",
        "spec scheduling",
    );
    are(
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, ",
        "status: {containerStatuses: [{name: a, image: x, restartCount: 1}]}}",
        "status: {containerStatuses: [{name: a, image: y, restartCount: 2}]}}",
        "status health",
    );
}

#[test]
fn metadata_tells_labels_annotations_and_lifecycle_apart() {
    let head = "{apiVersion: acme.example/v1, kind: Gadget, ";
    are(head, "metadata: {name: g, labels: {a: x}}}", "metadata: {name: g, labels: {a: y}}}", "metadata labels");
    are(
        head,
        "metadata: {name: g, annotations: {a: x}}}",
        "metadata: {name: g, annotations: {a: y}}}",
        "metadata annotations",
    );
    are(
        head,
        "metadata: {name: g, finalizers: [a]}}",
        "metadata: {name: g, finalizers: [a, b]}}",
        "metadata lifecycle",
    );
    are(head, "spec: {labels: {image: x}}}", "spec: {labels: {image: y}}}", "spec");
}

#[test]
fn objects_that_come_and_go_have_the_class_of_their_kind() {
    are("", "", "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}}", "lifecycle rbac");
    are("", "{apiVersion: v1, kind: Secret, metadata: {name: s}}", "", "data lifecycle secret");
    are("", "", "{apiVersion: acme.example/v1, kind: Gadget, metadata: {name: g}}", "lifecycle");
}

#[test]
fn every_class_has_one_name_everywhere() {
    for class in Class::ALL {
        assert_eq!(serde_json::to_value(class).unwrap(), class.as_str());
        assert_eq!(class.as_str().parse::<Class>().unwrap(), *class);
    }
    assert_eq!("nope".parse::<Class>(), Err(UnknownClass("nope".into())));
}
