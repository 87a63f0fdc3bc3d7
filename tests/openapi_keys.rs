//! The keys of lists come from the API server's own OpenAPI documents: those of built-in kinds and of CRDs, and little
//! is kept of them.

use kubediff::diff::{Keys, diff, keys::Schema};
use serde_json::{Value, json};

use crate::harness::{self, Cluster, PATIENCE, poll};

async fn document(cluster: &Cluster, path: &str) -> Vec<u8> {
    let answer = cluster.access().get(path).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer.bytes().await.unwrap().to_vec()
}

/// Changes the member `changed` of the first of two items, whose keys are these, and says how the change is named.
fn field(keys: &Keys, list: &str, first: &Value, second: &Value) -> String {
    let with = |changed: &str| {
        let mut first = first.clone();
        first["changed"] = changed.into();
        let names: Vec<&str> = list.split('.').collect();
        names.iter().rev().fold(json!([first, second]), |inner, name| match name.strip_suffix("[c]") {
            // What is inside the one container has the name `c`.
            Some(name) => {
                let mut container = inner;
                container["name"] = "c".into();
                json!({name: [container]})
            }
            None => json!({*name: inner}),
        })
    };
    diff(&with("before"), &with("after"), keys).changes.remove(0).field
}

#[tokio::test]
async fn the_lists_of_built_in_kinds_have_the_keys_that_the_server_gives_them() {
    let cluster = harness::cluster().await;
    let core = Schema::from_openapi(&document(cluster, "/openapi/v3/api/v1").await).unwrap();
    let apps = Schema::from_openapi(&document(cluster, "/openapi/v3/apis/apps/v1").await).unwrap();
    let (pod, service) = (core.kind("", "v1", "Pod"), core.kind("", "v1", "Service"));
    let deployment = apps.kind("apps", "v1", "Deployment");

    // Where the server's key is not the one that we would guess.
    let mounts = [json!({"name": "a", "mountPath": "/x"}), json!({"name": "b", "mountPath": "/y"})];
    for (keys, list) in [
        (&pod, "spec.containers[c].volumeMounts"),
        (&pod, "spec.initContainers[c].volumeMounts"),
        (&deployment, "spec.template.spec.containers[c].volumeMounts"),
    ] {
        let expected = format!("{list}[/x].changed");
        assert_eq!(field(keys, list, &mounts[0], &mounts[1]), expected);
    }
    let owners = [json!({"name": "web", "uid": "u-1"}), json!({"name": "api", "uid": "u-2"})];
    assert_eq!(
        field(&deployment, "metadata.ownerReferences", &owners[0], &owners[1]),
        "metadata.ownerReferences[u-1].changed"
    );
    let ports =
        [json!({"name": "a", "port": 80, "protocol": "TCP"}), json!({"name": "b", "port": 80, "protocol": "UDP"})];
    assert_eq!(field(&service, "spec.ports", &ports[0], &ports[1]), "spec.ports[80/TCP].changed");
    let ports = [
        json!({"name": "a", "containerPort": 80, "protocol": "TCP"}),
        json!({"name": "b", "containerPort": 80, "protocol": "UDP"}),
    ];
    let list = "spec.containers[c].ports";
    assert_eq!(field(&pod, list, &ports[0], &ports[1]), format!("{list}[80/TCP].changed"));
    // The keys that they give, taken away: what is left is a guess.
    assert_eq!(field(&Keys::default(), list, &ports[0], &ports[1]), format!("{list}[a].changed"));
}

#[tokio::test]
async fn every_document_of_the_server_is_read_and_little_of_it_is_kept() {
    let cluster = harness::cluster().await;
    let index: Value = serde_json::from_slice(&document(cluster, "/openapi/v3").await).unwrap();
    let mut kinds = 0;
    for (path, entry) in index["paths"].as_object().unwrap() {
        let text = document(cluster, entry["serverRelativeURL"].as_str().unwrap()).await;
        let schema = Schema::from_openapi(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(schema.bytes() < 64 * 1024, "{path}: {} of {} bytes", schema.bytes(), text.len());
        kinds += schema.len();
    }
    assert!(kinds > 50, "{kinds}");
}

#[tokio::test]
async fn the_lists_of_a_custom_resource_have_the_keys_of_its_definition() {
    let cluster = harness::cluster().await;
    let pools = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["zone", "tier"],
        "items": {"type": "object", "required": ["zone", "tier"], "x-kubernetes-preserve-unknown-fields": true,
                  "properties": {"zone": {"type": "string"}, "tier": {"type": "string"}}},
    });
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"pools": pools}}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "backends.openapi-keys.example.com"},
        "spec": {
            "group": "openapi-keys.example.com", "scope": "Namespaced",
            "names": {"kind": "Backend", "plural": "backends", "singular": "backend"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    cluster.apply("default", &definition.to_string()).await;
    let keys = poll(PATIENCE, "the OpenAPI document of the custom resource", async || {
        let answer = cluster.access().get("/openapi/v3/apis/openapi-keys.example.com/v1").send().await.ok()?;
        let keys =
            Schema::from_openapi(&answer.bytes().await.ok()?).ok()?.kind("openapi-keys.example.com", "v1", "Backend");
        (!keys.is_empty()).then_some(keys)
    })
    .await;
    let pools = [json!({"name": "n1", "zone": "a", "tier": "1"}), json!({"name": "n2", "zone": "a", "tier": "2"})];
    assert_eq!(field(&keys, "spec.pools", &pools[0], &pools[1]), "spec.pools[a/1].changed");
    let owners = [json!({"name": "web", "uid": "u-1"}), json!({"name": "api", "uid": "u-2"})];
    assert_eq!(
        field(&keys, "metadata.ownerReferences", &owners[0], &owners[1]),
        "metadata.ownerReferences[u-1].changed"
    );
    cluster.kubectl(&["delete", "customresourcedefinition", "backends.openapi-keys.example.com"]).await;
}
