//! Every resource that is served can be read, and no object is too odd.

use std::collections::BTreeSet;

use kubediff::cluster::{Feed, Scope, source::Source};
use serde_json::{Value, json};

use super::{
    discovery::{crd, create},
    mirror::{Mirror, Reading, Writing, api, configmaps, resource},
};
use crate::harness::{self, After, Cluster, Fault, Matching, Options, PATIENCE, Proxy, Then, poll};

#[tokio::test]
async fn every_discovered_resource_gets_live() {
    // One of its own: a CRD of another test that is gone before it was listed never gets live.
    let cluster = Cluster::start(Options::default()).await;
    let served = api(cluster.access()).await.discover().await.unwrap().resources;
    assert!(served.len() > 40, "{}", served.len());
    let mut readings = Vec::new();
    for resource in served {
        let feed = Feed::new(resource, Scope::All);
        readings.push((feed.to_string(), Reading::of(cluster.access(), feed, &Mirror::default()).await));
    }
    for (_, reading) in &readings {
        reading.until_live().await;
    }
    for (name, reading) in readings {
        assert_eq!(reading.status().refused, 0, "{name}");
        reading.stop().await;
    }
}

#[tokio::test]
async fn objects_without_a_schema_arrive_as_they_are() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("odd").await;
    let group = format!("{}.example", namespace.name());
    create(cluster.access(), &crd(&group, "oddities", &[("v1", true)])).await;
    let path = format!("/apis/{group}/v1/namespaces/{}/oddities", namespace.name());
    poll(PATIENCE, "the CRD to be served", async || {
        (cluster.access().get(&path).send().await.ok()?.status() == 200).then_some(())
    })
    .await;
    let scope = Scope::Namespace(namespace.name().to_owned());
    let feed = Feed::new(resource(&group, "v1", "oddities", "Odditie", true), scope);
    let mirror = Mirror::default();
    let reading = Reading::of(cluster.access(), feed.clone(), &mirror).await;
    reading.until_live().await;

    let deep = (0..60).fold(json!("down here"), |inner, _| json!([inner]));
    let odd: Value = serde_json::from_str(
        r#"{"large":9007199254740993,"larger":9223372036854775807,"small":-0.1,"none":null,"empty":{},"list":[],
            "twice":[{"name":"a","v":1},{"name":"a","v":2}],"text":"grüße \u0000 \ud83d\ude00 \\ \" \n","":"no name"}"#,
    )
    .unwrap();
    let make = |name: &str, spec: &Value| {
        let metadata = json!({"name": name});
        json!({"apiVersion": format!("{group}/v1"), "kind": "Odditie", "metadata": metadata, "spec": spec}).to_string()
    };
    // Deeper than serde_json goes, and than the door keeps.
    let nest = format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000));
    let deeper = make("deeper", &json!("HERE")).replace("\"HERE\"", &nest);
    let objects = [make("odd", &odd), make("deep", &deep), deeper, make("last", &json!({}))];
    for object in objects {
        let answer = cluster
            .access()
            .request(reqwest::Method::POST, &path)
            .header("content-type", "application/json")
            .body(object)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
    }
    let all: BTreeSet<_> = ["odd", "deep", "deeper", "last"].map(String::from).into();
    let names = |mirror: &Mirror| mirror.objects().into_keys().collect::<BTreeSet<_>>();
    poll(PATIENCE, "all of them", async || (names(&mirror) == all).then_some(())).await;
    assert_eq!(mirror.document("odd")["spec"], odd);
    assert_eq!(mirror.document("deep")["spec"], deep);

    let listed = Mirror::default();
    let again = Reading::of(cluster.access(), feed, &listed).await;
    again.until_live().await;
    assert_eq!(listed.objects(), mirror.objects());
    for name in &all {
        assert_eq!(listed.document(name), mirror.document(name), "a list and a watch give the same document");
    }
    reading.stop().await;
    again.stop().await;
    cluster.kubectl(&["delete", "crd", &format!("oddities.{group}")]).await;
}

#[tokio::test]
async fn an_object_of_fifty_megabytes_is_kept_by_its_metadata_and_a_larger_one_is_counted() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("huge").await;
    let writing = Writing::new(cluster.access(), namespace.name());
    let proxy = Proxy::start(cluster.access());
    // Frames that no real server would send, put between two that it does.
    let version = writing.create("before").await;
    let huge = |name: &str, bytes: usize| {
        let metadata = json!({"name": name, "namespace": namespace.name(), "uid": "u", "resourceVersion": version});
        let object =
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"x": "y".repeat(bytes)}});
        format!("{}\n", json!({"type": "ADDED", "object": object}))
    };
    let insert = format!("{}{}", huge("too-large", 70 << 20), huge("large", 50 << 20));
    proxy.fault_next(
        1,
        Matching::watches("configmaps").query("sendInitialEvents=true"),
        Fault::Stream(After::Events(2), Then::Insert(insert.into())),
    );
    let mirror = Mirror::default();
    let reading = Reading::of(proxy.access(), configmaps(&namespace), &mirror).await;
    reading.until_live().await;
    writing.create("after").await;
    poll(PATIENCE, "the change behind it", async || mirror.objects().contains_key("after").then_some(())).await;
    assert_eq!(mirror.objects().into_keys().collect::<Vec<_>>(), ["after", "before", "large"]);
    assert_eq!(mirror.document("large")["data"].get("x"), None, "its metadata alone");
    assert_eq!(reading.status().refused, 1);
    assert_eq!(mirror.reported(), ["large@", "after@1"], "each once; of the large one no data is known");
    let fresh = writing.list().await;
    assert!(fresh.iter().all(|(name, document)| mirror.document(name) == *document), "{fresh:?}");
    assert_eq!(proxy.count(&Matching::watches("configmaps")), 1, "the connection stays");
    reading.stop().await;
}

#[tokio::test]
async fn the_openapi_document_of_a_group_is_found_by_its_hash() {
    let cluster = harness::cluster().await;
    let source = api(cluster.access()).await;
    let deployments = resource("apps", "v1", "deployments", "Deployment", true);
    let document = source.openapi(&deployments).await.unwrap().expect("a document");
    let document: Value = serde_json::from_slice(&document).unwrap();
    assert!(document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"].is_object());
    assert_eq!(source.openapi(&resource("none.example", "v1", "as", "A", true)).await.unwrap(), None);
}
