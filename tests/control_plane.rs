//! The ground that the other promises stand on: the control plane is real, it can be broken, and it leaves nothing
//! behind.

use serde_json::Value;

use crate::harness::{self, Cluster, Options, PATIENCE, poll};

#[tokio::test]
async fn the_api_server_is_a_real_one_of_the_pinned_version() {
    let cluster = harness::cluster().await;
    assert_eq!(cluster.version(), pinned_version(), "the version that the server itself names");
    let client = cluster.client().await;
    assert_eq!(client.apiserver_version().await.unwrap().git_version, pinned_version());
}

#[tokio::test]
async fn every_test_has_a_namespace_of_its_own_that_is_gone_after_it() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("own").await;
    let name = namespace.name().to_owned();
    cluster.kubectl(&["create", "configmap", "-n", &name, "left-behind"]).await;
    drop(namespace);
    poll(PATIENCE, "the namespace to be gone", async || {
        let answer = cluster.access().get(&format!("/api/v1/namespaces/{name}")).send().await.ok()?;
        (answer.status() == 404).then_some(())
    })
    .await;
    let left: Value = cluster.access().get("/api/v1/configmaps").send().await.unwrap().json().await.unwrap();
    let left = left["items"].as_array().unwrap().iter().filter(|c| c["metadata"]["namespace"] == name.as_str()).count();
    assert_eq!(left, 0, "ConfigMaps of a namespace that is gone");
}

#[tokio::test]
async fn the_api_server_can_be_killed_and_comes_back_with_its_objects() {
    let mut cluster = Cluster::start(Options::default()).await;
    let path = "/api/v1/namespaces/default/configmaps/kept";
    cluster.kubectl(&["create", "configmap", "kept"]).await;

    cluster.kill();
    assert!(cluster.access().get(path).send().await.is_err(), "nobody listens");

    cluster.restart().await;
    assert_eq!(cluster.access().get(path).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_paused_api_server_answers_when_it_is_resumed() {
    let mut cluster = Cluster::start(Options::default()).await;
    cluster.pause();
    let hung = cluster.access().get("/readyz").timeout(std::time::Duration::from_secs(1)).send().await;
    assert!(hung.unwrap_err().is_timeout(), "a paused server hangs, it does not refuse");
    cluster.resume();
    poll(PATIENCE, "the server answers again", async || {
        cluster.access().get("/readyz").send().await.ok().filter(|answer| answer.status() == 200).map(drop)
    })
    .await;
}

#[tokio::test]
async fn compaction_makes_an_old_version_expire_with_410() {
    for watch_cache in [true, false] {
        let mut cluster = Cluster::start(Options { watch_cache, ..Options::default() }).await;
        let old = version_of_list(&cluster).await;
        for n in 0..3 {
            cluster.kubectl(&["create", "configmap", &format!("later-{n}")]).await;
        }
        let first = page(&cluster, "limit=1").await.1;
        let second_page = format!("limit=1&continue={}", first["metadata"]["continue"].as_str().unwrap());
        let exactly_old = format!("resourceVersion={old}&resourceVersionMatch=Exact");
        assert_eq!(watch_status(&cluster, &old).await, None, "before the compaction the version is good");
        assert_eq!(page(&cluster, &second_page).await.0, 200);
        assert_eq!(page(&cluster, &exactly_old).await.0, 200);
        let newest = version_of_list(&cluster).await;

        cluster.compact().await;
        assert_eq!(watch_status(&cluster, &newest).await, Some(410), "the newest that was seen, cache {watch_cache}");
        assert_eq!(watch_status(&cluster, &old).await, Some(410), "watch cache {watch_cache}");
        assert_eq!(page(&cluster, &second_page).await.0, 410, "the next page, watch cache {watch_cache}");
        assert_eq!(page(&cluster, &exactly_old).await.0, 410, "the old list, watch cache {watch_cache}");
        let new = version_of_list(&cluster).await;
        assert_eq!(watch_status(&cluster, &new).await, None, "a fresh version is good");
    }
}

#[tokio::test]
async fn a_restored_etcd_does_not_know_versions_that_clients_have_seen() {
    let mut cluster = Cluster::start(Options::default()).await;
    let backup = cluster.backup().await;
    for n in 0..3 {
        cluster.kubectl(&["create", "configmap", &format!("lost-{n}")]).await;
    }
    let seen: u64 = version_of_list(&cluster).await.parse().unwrap();
    cluster.restore(&backup).await;
    assert!(version_of_list(&cluster).await.parse::<u64>().unwrap() < seen, "the server went back in time");
    let lost = cluster.access().get("/api/v1/namespaces/default/configmaps/lost-0").send().await.unwrap();
    assert_eq!(lost.status(), 404);
}

async fn version_of_list(cluster: &Cluster) -> String {
    let list: Value = cluster.access().get("/api/v1/configmaps").send().await.unwrap().json().await.unwrap();
    list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

async fn page(cluster: &Cluster, query: &str) -> (u16, Value) {
    let answer = cluster.access().get(&format!("/api/v1/configmaps?{query}")).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// The error code with which the server ends a watch from `version`, by its HTTP status or by an ERROR event in the
/// stream; `None` when it serves it.
async fn watch_status(cluster: &Cluster, version: &str) -> Option<i64> {
    let path = format!("/api/v1/configmaps?watch=1&timeoutSeconds=1&resourceVersion={version}");
    let answer = cluster.access().get(&path).send().await.unwrap();
    if !answer.status().is_success() {
        return Some(answer.status().as_u16().into());
    }
    let text = answer.text().await.unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.into_iter().find(|event| event["type"] == "ERROR").map(|event| event["object"]["code"].as_i64().unwrap())
}

/// From `tests/cluster/kubernetes/go.mod`.
fn pinned_version() -> String {
    let module = include_str!("cluster/kubernetes/go.mod");
    let line = module.lines().find(|line| line.trim_start().starts_with("k8s.io/kubernetes v")).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}
