//! The keys of lists come from the API server's own OpenAPI documents: those of built-in kinds and of CRDs, and little
//! is kept of them.

use kubediff::{
    cluster::{
        Resource,
        source::{Source, api::Api},
    },
    diff::{Keys, diff, keys::Schema},
};
use serde_json::{Value, json};

use crate::{
    harness::{self, Cluster, Fault, Matching, PATIENCE, Proxy, poll},
    watch::program::Program,
};

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
async fn the_document_of_a_group_is_found_and_of_one_that_is_not_served_there_is_none() {
    let cluster = harness::cluster().await;
    let source = Api::connect(cluster.access().config().await, Default::default()).unwrap();
    let deployments = Resource::core("v1", "deployments", "Deployment").in_group("apps");
    let document = source.openapi(&deployments).await.unwrap().expect("a document");
    let document: Value = serde_json::from_slice(&document).unwrap();
    assert!(document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"].is_object());
    assert_eq!(source.openapi(&Resource::core("v1", "as", "A").in_group("none.example")).await.unwrap(), None);
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
        let url = entry["serverRelativeURL"].as_str().unwrap();
        let answer = cluster.access().get(url).send().await.unwrap();
        if !answer.status().is_success() {
            // Another test's CRD came or went meanwhile; what is still there under that address is answered.
            let now: Value = serde_json::from_slice(&document(cluster, "/openapi/v3").await).unwrap();
            assert_ne!(now["paths"][path], *entry, "{path}: {}", answer.status());
            continue;
        }
        let text = answer.bytes().await.unwrap();
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

/// A CRD of pools, which nothing but its schema says to be known by their zone and tier.
fn pools(keyed: bool) -> Value {
    let text = json!({"type": "string"});
    let mut list = json!({"type": "array", "items": {"type": "object", "required": ["zone", "tier"],
        "properties": {"zone": text, "tier": text, "size": {"type": "integer"}}}});
    if keyed {
        list["x-kubernetes-list-type"] = "map".into();
        list["x-kubernetes-list-map-keys"] = json!(["zone", "tier"]);
    }
    let spec = json!({"type": "object", "properties": {"pools": list}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "pools.late-keys.example.com"},
        "spec": {
            "group": "late-keys.example.com", "scope": "Namespaced",
            "names": {"kind": "Pool", "plural": "pools", "singular": "pool"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

#[tokio::test]
async fn keys_that_a_crd_declares_later_are_used_though_the_index_fails_at_first() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("late-keys").await;
    cluster.apply("default", &pools(false).to_string()).await;
    let objects = format!("/apis/late-keys.example.com/v1/namespaces/{}/pools", namespace.name());
    let object = |size: u64| {
        json!({"apiVersion": "late-keys.example.com/v1", "kind": "Pool", "metadata": {"name": "a"}, "spec": {"pools": [
            {"zone": "a", "tier": "1", "size": size}, {"zone": "a", "tier": "2", "size": 1}]}})
    };
    poll(PATIENCE, "pools to be served", async || {
        let answer = cluster.access().request(reqwest::Method::POST, &objects).json(&object(0)).send().await.ok()?;
        answer.status().is_success().then_some(())
    })
    .await;
    let proxy = Proxy::start(cluster.access());
    proxy.fault_next(2, Matching::all().path("/openapi/v3"), Fault::answer(503));
    let read = |path: &str| proxy.seen().iter().filter(|seen| seen.path == path).count();
    let kubeconfig = proxy.kubeconfig(cluster.dir());
    // CRDs themselves are not watched here: their names are.
    let kubediff =
        Program::watch(&kubeconfig, &["-o", "json", "-n", namespace.name(), "pools.late-keys.example.com"]).await;

    let mut size = 0;
    // The field that the next change of the first pool is named by.
    let mut change = async || {
        size += 1;
        let patch = json!({"spec": {"pools": object(size)["spec"]["pools"]}});
        let request = cluster.access().request(reqwest::Method::PATCH, &format!("{objects}/a"));
        let request = request.header("content-type", "application/merge-patch+json");
        let answer = request.body(patch.to_string()).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
        let event = kubediff.event("the change", |event| event["changes"][0]["to"] == size).await;
        event["changes"][0]["field"].as_str().unwrap().to_owned()
    };
    assert_eq!(change().await, "spec.pools[0].size", "nothing says what pools are known by");
    poll(PATIENCE, "the index to be read in spite of its failures", async || (read("/openapi/v3") >= 3).then_some(()))
        .await;
    let document = "/openapi/v3/apis/late-keys.example.com/v1";
    poll(PATIENCE, "the document to be read", async || (read(document) >= 1).then_some(())).await;
    cluster.apply("default", &pools(true).to_string()).await;
    let named = poll(PATIENCE, "the new keys to be used", async || {
        let field = change().await;
        (field != "spec.pools[0].size").then_some(field)
    })
    .await;
    assert_eq!(named, "spec.pools[a/1].size");
    assert!(read("/openapi/v3") > read(document), "only what changed is fetched");
    cluster.kubectl(&["delete", "customresourcedefinition", "pools.late-keys.example.com"]).await;
}
