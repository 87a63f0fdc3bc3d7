//! Nobody sees by kubediff what they may not see by kubectl.

use serde_json::{Value, json};

use crate::{
    delivery::daemon::Kubediff,
    harness::{self, PATIENCE, cluster::free_port, poll},
    history::{Page, config},
};

/// A ServiceAccount that may get ConfigMaps in its namespace, and nothing else.
fn reader(namespace: &str) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}]},
    ]})
    .to_string()
}

fn places(answer: &Value, list: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found: Vec<_> =
        answer[list].as_array().unwrap().iter().map(|one| (text(&one["kind"]), text(&one["namespace"]))).collect();
    found.sort();
    found.dedup();
    found
}

#[tokio::test]
async fn a_service_account_with_a_role_in_one_namespace_sees_that_namespace_alone() {
    let cluster = harness::cluster().await;
    let (own, other) = (cluster.namespace("own").await, cluster.namespace("other").await);
    cluster.apply(own.name(), &reader(own.name())).await;
    let token = cluster.kubectl(&["create", "token", "reader", "-n", own.name()]).await.trim().to_owned();
    let port = free_port();
    let config = config(&[own.name(), other.name()], port, "auth = \"token\"");
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config);
    kubediff.start().await;
    let page = Page::at(port);
    for namespace in [own.name(), other.name()] {
        for n in 0..3 {
            let literal = format!("--from-literal=n={n}");
            cluster.kubectl(&["create", "configmap", &format!("m{n}"), &literal, "-n", namespace]).await;
        }
        cluster.kubectl(&["create", "secret", "generic", "key", "--from-literal=a=b", "-n", namespace]).await;
    }
    let admin = page.with_token(&cluster.access().token);
    let all = poll(PATIENCE, "all changes are recorded", async || {
        let all = admin.json(&format!("events?namespace={},{}&limit=100", own.name(), other.name())).await;
        (all["events"].as_array()?.iter().filter(|e| e["type"] == "created").count() >= 8).then_some(all)
    })
    .await;
    assert_eq!(places(&all, "events").len(), 4, "the administrator sees both kinds in both: {all}");

    for path in ["events", "facets", "density", "objects", "status", "stream", "silences", "whoami"] {
        assert_eq!(page.get(path).await.status(), 401, "{path} without a token");
        assert_eq!(page.with_token("nonsense").get(path).await.status(), 401, "{path} with a wrong token");
    }

    let reader = page.with_token(&token);
    let own_maps = [("ConfigMap".to_owned(), own.name().to_owned())];
    assert_eq!(places(&reader.json("events?limit=1000").await, "events"), own_maps);
    assert_eq!(places(&reader.json("objects?limit=1000").await, "objects"), own_maps);
    let facets = reader.json("facets").await;
    assert_eq!(facets["kind"].as_array().unwrap().len(), 1, "{facets}");
    assert_eq!(facets["namespace"][0]["value"], own.name());
    let seen = reader.json("events?limit=1000").await["events"].as_array().unwrap().len() as u64;
    let density = reader.json("density?since=1h&buckets=1").await;
    let bucket = &density["buckets"][0];
    let counted: u64 = ["created", "updated", "deleted"].iter().map(|kind| bucket[kind].as_u64().unwrap()).sum();
    assert_eq!(counted, seen);
    assert_eq!(reader.json("whoami").await["user"], format!("system:serviceaccount:{}:reader", own.name()));
    let hidden = all["events"].as_array().unwrap().iter().find(|e| e["namespace"] == other.name()).unwrap();
    assert_eq!(reader.get(&format!("events/{}", hidden["id"].as_str().unwrap())).await.status(), 404);
    let shown = format!("objects/core/v1/configmaps/{}/m1", own.name());
    assert_eq!(reader.json(&shown).await["object"]["data"]["n"], "1");
    for path in [
        format!("objects/core/v1/configmaps/{}/m1", other.name()),
        format!("objects/core/v1/configmaps/{}/m1/blame", other.name()),
        format!("objects/core/v1/configmaps/{}/m1/history", other.name()),
        format!("objects/core/v1/secrets/{}/key", own.name()),
    ] {
        assert_eq!(reader.get(&path).await.status(), 404, "{path}");
    }
    let status = reader.json("status").await;
    let informers: Vec<&str> =
        status["informers"].as_array().unwrap().iter().filter_map(|i| i["scope"].as_str()).collect();
    assert_eq!(informers, [own.name()], "{status}");

    let mut stream = reader.get("stream").await;
    for namespace in [other.name(), own.name()] {
        cluster.kubectl(&["create", "configmap", "live", "-n", namespace]).await;
    }
    let mut text = String::new();
    while !text.contains("event: change") {
        let chunk = tokio::time::timeout(PATIENCE, stream.chunk()).await.expect("it is streamed").unwrap();
        text.push_str(&String::from_utf8_lossy(&chunk.expect("the stream goes on")));
    }
    assert!(text.contains(own.name()) && !text.contains(other.name()), "{text}");
    let silence = json!({"namespace": own.name(), "for": "1h", "reason": "x"});
    let asked = reader.http.post(format!("{}/api/v1/silences", reader.url)).bearer_auth(&token).json(&silence);
    assert_eq!(asked.send().await.unwrap().status(), 403);
    kubediff.stop().await;
}
