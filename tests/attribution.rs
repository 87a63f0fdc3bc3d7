//! Who changed it: the field managers that the API server records for what kubectl, appliers and controllers really do.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    harness::{self, Cluster, Namespace},
    watch::program::Program,
};

/// A namespace that kubediff watches.
struct Scene {
    cluster: &'static Cluster,
    namespace: Namespace,
    kubediff: Program,
}

impl Scene {
    async fn of(resources: &[&str]) -> Self {
        let cluster = harness::cluster().await;
        let namespace = cluster.namespace("who").await;
        let mut args = vec!["-o", "json", "-n", namespace.name()];
        args.extend(resources);
        let kubediff = Program::watch(cluster.kubeconfig(), &args).await;
        Self { cluster, namespace, kubediff }
    }

    async fn kubectl(&self, args: &str) {
        let args: Vec<&str> = args.split(' ').chain(["-n", self.namespace.name()]).collect();
        self.cluster.kubectl(&args).await;
    }

    /// A request under a manager's name.
    async fn request(&self, method: Method, path: &str, content: &str, manager: &str, body: &Value) {
        let path = path.replace("NS", self.namespace.name());
        let force = if content.contains("apply") { "&force=true" } else { "" };
        let request = self.cluster.access().request(method, &format!("{path}?fieldManager={manager}{force}"));
        let answer = request.header("content-type", content).body(body.to_string()).send().await.unwrap();
        assert!(answer.status().is_success(), "{}: {}", answer.status(), answer.text().await.unwrap());
    }

    /// Who updated the object, as `manager operation subresource`, in the event that has a change of this field.
    async fn who(&self, kind: &str, field: &str) -> Vec<String> {
        let changed = |event: &Value| {
            let mut changes = event["changes"].as_array().into_iter().flatten();
            event["resource"]["kind"] == kind
                && event["type"] == "updated"
                && changes.any(|change| change["field"].as_str().is_some_and(|name| name.starts_with(field)))
        };
        actors(&self.kubediff.event(&format!("a change of {field}"), changed).await)
    }
}

fn actors(event: &Value) -> Vec<String> {
    let actors = event["actors"].as_array().unwrap().iter();
    let text = |actor: &Value, key: &str| actor[key].as_str().unwrap().to_owned();
    let words = |actor: &Value| ["manager", "operation", "subresource"].map(|key| text(actor, key)).join(" ");
    actors.map(|actor| words(actor).trim_end().to_owned()).collect()
}

fn removes(event: &Value, field: &str) -> bool {
    let mut changes = event["changes"].as_array().into_iter().flatten();
    changes.any(|change| change["op"] == "remove" && change["field"] == field)
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn deployment(containers: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}}}})
}

#[tokio::test]
async fn a_secret_patched_in_the_second_of_its_creation_was_changed_by_kubectl_patch_alone() {
    let scene = Scene::of(&["secrets"]).await;
    scene.kubectl("create secret generic tls --from-literal=tls.key=abc").await;
    scene.kubectl(r#"patch secret tls -p {"stringData":{"tls.key":"def"}}"#).await;
    // The same without the time that it takes to start kubectl: most of these fall into one second.
    let path = "/api/v1/namespaces/NS/secrets";
    for index in 0..10 {
        let name = format!("tls-{index}");
        let body =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"key": "a"}});
        scene.request(Method::POST, path, JSON, "kubectl-create", &body).await;
        let body = json!({"stringData": {"key": "b"}});
        scene.request(Method::PATCH, &format!("{path}/{name}"), MERGE, "kubectl-patch", &body).await;
    }
    for name in ["tls".to_owned()].into_iter().chain((0..10).map(|index| format!("tls-{index}"))) {
        let of = |kind: &'static str| {
            let name = name.clone();
            move |event: &Value| event["resource"]["name"] == *name && event["type"] == kind
        };
        let created = scene.kubediff.event("the creation", of("created")).await;
        assert_eq!(actors(&created), ["kubectl-create Update"], "{name}");
        let updated = scene.kubediff.event("the patch", of("updated")).await;
        assert_eq!(actors(&updated), ["kubectl-patch Update"], "{name}");
        assert!(updated["summary"].as_str().unwrap().starts_with("Secret rotated: "), "{updated}");
    }
}

#[tokio::test]
async fn kubectl_is_named_by_its_command_for_images_edits_scale_and_labels() {
    let scene = Scene::of(&["deployments"]).await;
    scene.kubectl("create deployment web --image=nginx:1.25").await;
    scene.kubectl("set image deployment/web nginx=nginx:1.27").await;
    assert_eq!(scene.who("Deployment", "spec.template.spec.containers[nginx].image").await, ["kubectl-set Update"]);
    scene.kubectl("scale deployment/web --replicas=3").await;
    assert_eq!(scene.who("Deployment", "spec.replicas").await, ["kubectl Update scale"]);
    // What `kubectl edit` sends.
    let edit = json!({"spec": {"minReadySeconds": 5}});
    let path = "/apis/apps/v1/namespaces/NS/deployments/web";
    scene.request(Method::PATCH, path, "application/strategic-merge-patch+json", "kubectl-edit", &edit).await;
    assert_eq!(scene.who("Deployment", "spec.minReadySeconds").await, ["kubectl-edit Update"]);
    scene.kubectl("label deployment/web team=shop").await;
    assert_eq!(scene.who("Deployment", "metadata.labels.team").await, ["kubectl-label Update"]);
    scene.kubectl("label deployment/web team-").await;
    let removed = scene.kubediff.event("the label to go", |event| removes(event, "metadata.labels.team")).await;
    assert_eq!(actors(&removed), ["kubectl-label Update"], "who had set it by Update took it away, most likely");
    scene.kubectl("delete deployment/web").await;
    let deleted = scene.kubediff.event("the deletion", |event| event["type"] == "deleted").await;
    assert_eq!(actors(&deleted), [""; 0], "who deletes is not recorded");
}

#[tokio::test]
async fn of_two_appliers_the_one_whose_container_changed_is_named() {
    let scene = Scene::of(&["deployments"]).await;
    let path = "/apis/apps/v1/namespaces/NS/deployments/web";
    let web = |image: &str| deployment(&json!([{"name": "web", "image": image}]));
    let proxy = |image: &str| {
        let containers = json!([{"name": "proxy", "image": image}]);
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": {"containers": containers}}}})
    };
    scene.request(Method::PATCH, path, APPLY, "flux", &web("nginx:1")).await;
    scene.request(Method::PATCH, path, APPLY, "mesh", &proxy("envoy:1")).await;
    assert_eq!(scene.who("Deployment", "spec.template.spec.containers[proxy]").await, ["mesh Apply"]);
    scene.request(Method::PATCH, path, APPLY, "flux", &web("nginx:2")).await;
    assert_eq!(scene.who("Deployment", "spec.template.spec.containers[web].image").await, ["flux Apply"]);
    scene.request(Method::PATCH, path, APPLY, "mesh", &proxy("envoy:2")).await;
    assert_eq!(scene.who("Deployment", "spec.template.spec.containers[proxy].image").await, ["mesh Apply"]);
    // An applier that leaves its container out takes it away.
    let nothing = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    scene.request(Method::PATCH, path, APPLY, "mesh", &nothing).await;
    let proxy = "spec.template.spec.containers[proxy]";
    let gone = scene.kubediff.event("the container to go", |event| removes(event, proxy)).await;
    // Its entry is gone with all it had; the API server does not say by whom.
    assert!(actors(&gone).iter().all(|actor| actor == "mesh Apply"), "{gone}");
}

#[tokio::test]
async fn a_controllers_word_on_the_status_is_the_controllers() {
    let scene = Scene::of(&["deployments", "pods"]).await;
    scene.cluster.controllers().await;
    scene.kubectl("create deployment web --image=nginx:1.25").await;
    assert_eq!(
        scene.who("Deployment", "status.readyReplicas").await,
        ["kube-controller-manager Update status"],
        "the Deployment's"
    );
    assert_eq!(scene.who("Pod", "status.phase").await, ["kwok Update status"], "the Pod's, by who plays the kubelet");
}
