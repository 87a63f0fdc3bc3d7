//! The fault proxy does what it is told, so that a test that survives it has survived something.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{self, Access, After, Cluster, Fault, Matching, Namespace, PATIENCE, Proxy, Then, poll};

/// A proxy before the shared server, and a namespace with the ConfigMaps `one`, `two` and `three`.
async fn proxied() -> (&'static Cluster, Namespace, Proxy) {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("faults").await;
    for name in ["one", "two", "three"] {
        create(cluster, &namespace, name).await;
    }
    (cluster, namespace, Proxy::start(cluster.access()))
}

async fn create(cluster: &Cluster, namespace: &Namespace, name: &str) {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let body = serde_json::json!({"metadata": {"name": name}, "data": {"text": "grüße"}});
    let created = cluster.access().request(reqwest::Method::POST, &path).json(&body).send().await.unwrap();
    assert_eq!(created.status(), 201);
}

/// Without the ConfigMap that the controllers put into every namespace once another test has started them.
const OURS: &str = "fieldSelector=metadata.name!=kube-root-ca.crt";

fn list(namespace: &Namespace) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps?{OURS}")
}

fn watch(namespace: &Namespace) -> String {
    format!("{}&watch=1&timeoutSeconds=2", list(namespace))
}

/// What an answer through the proxy is, and what the same request gets without it: the version of a list moves with
/// every write of any test, so both are taken until the server stood still around them.
async fn beside(
    cluster: &Cluster,
    path: &str,
    mut proxied: impl AsyncFnMut() -> (u16, Vec<u8>, bool),
) -> [(u16, Vec<u8>, bool); 2] {
    poll(PATIENCE, "two equal lists one after the other", async || {
        let before = fetch(cluster.access(), path).await;
        let through = proxied().await;
        (fetch(cluster.access(), path).await == before).then_some([through, before])
    })
    .await
}

/// What a raw GET gets: the status, the bytes, and whether the body came to its end.
async fn fetch(access: &Access, path: &str) -> (u16, Vec<u8>, bool) {
    let mut answer = access.get(path).send().await.unwrap();
    let mut bytes = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) => bytes.extend(chunk),
            Ok(None) => return (answer.status().as_u16(), bytes, true),
            Err(_) => return (answer.status().as_u16(), bytes, false),
        }
    }
}

fn events(bytes: &[u8]) -> Vec<String> {
    let lines = bytes.split_inclusive(|&b| b == b'\n').filter(|line| line.ends_with(b"\n"));
    let event = |line| serde_json::from_slice::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned();
    lines.map(event).collect()
}

#[tokio::test]
async fn without_faults_the_proxy_changes_nothing() {
    let (cluster, namespace, proxy) = proxied().await;
    let path = list(&namespace);
    let [through, direct] = beside(cluster, &path, async || fetch(proxy.access(), &path).await).await;
    assert_eq!(through, direct);
    let (_, bytes, whole) = fetch(proxy.access(), &watch(&namespace)).await;
    assert_eq!((events(&bytes).len(), whole), (3, true));
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(proxy.client().await, namespace.name());
    assert_eq!(
        maps.list(&kube::api::ListParams::default().fields("metadata.name!=kube-root-ca.crt"))
            .await
            .unwrap()
            .items
            .len(),
        3
    );
}

#[tokio::test]
async fn it_counts_lists_and_watches_apart() {
    let (_, namespace, proxy) = proxied().await;
    fetch(proxy.access(), &list(&namespace)).await;
    fetch(proxy.access(), &format!("/api/v1/namespaces/{namespace}/configmaps/one")).await;
    fetch(proxy.access(), &watch(&namespace)).await;
    fetch(proxy.access(), "/apis").await;
    assert_eq!(proxy.count(&Matching::lists("configmaps")), 1);
    assert_eq!(proxy.count(&Matching::watches("configmaps")), 1);
    assert_eq!(proxy.count(&Matching::watches("")), 1);
    assert_eq!(proxy.count(&Matching::lists("secrets")), 0);
    assert_eq!(proxy.seen().len(), 4);
    proxy.forget();
    assert_eq!(proxy.count(&Matching::all()), 0);
}

#[tokio::test]
async fn it_answers_errors_for_the_next_requests_only() {
    let (_, namespace, proxy) = proxied().await;
    for code in [401, 403, 410, 503, 504] {
        proxy.fault_next(1, Matching::lists("configmaps"), Fault::answer(code));
        assert_eq!(fetch(proxy.access(), &list(&namespace)).await.0, code);
        assert_eq!(fetch(proxy.access(), &list(&namespace)).await.0, 200);
    }
    proxy.fault_next(2, Matching::lists("configmaps"), Fault::too_many_requests(7));
    for _ in 0..2 {
        let answer = proxy.access().get(&list(&namespace)).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].to_str().unwrap()), (429, "7"));
        assert_eq!(answer.json::<Value>().await.unwrap()["reason"], "TooManyRequests");
    }
    assert_eq!(fetch(proxy.access(), &watch(&namespace)).await.0, 200);
    proxy.fault_nth(2, Matching::lists("configmaps"), Fault::answer(500));
    proxy.fault_nth(3, Matching::lists("configmaps"), Fault::answer(503));
    for code in [200, 500, 503, 200] {
        assert_eq!(fetch(proxy.access(), &list(&namespace)).await.0, code);
    }
}

#[tokio::test]
async fn it_cuts_a_stream_after_events_or_bytes() {
    let (_, namespace, proxy) = proxied().await;
    proxy.fault_next(1, Matching::watches("configmaps"), Fault::Stream(After::Events(2), Then::Cut));
    let (_, bytes, whole) = fetch(proxy.access(), &watch(&namespace)).await;
    assert_eq!((events(&bytes).len(), bytes.ends_with(b"\n"), whole), (2, true, false));

    proxy.fault_next(1, Matching::lists("configmaps"), Fault::Stream(After::Bytes(100), Then::Cut));
    let (_, bytes, whole) = fetch(proxy.access(), &list(&namespace)).await;
    assert_eq!((bytes.len(), whole), (100, false));
}

#[tokio::test]
async fn it_tears_a_frame_in_half_and_ends_the_body_as_if_nothing_happened() {
    let (_, namespace, proxy) = proxied().await;
    proxy.fault_next(1, Matching::watches("configmaps"), Fault::Stream(After::Events(1), Then::Tear));
    let (_, bytes, whole) = fetch(proxy.access(), &watch(&namespace)).await;
    let torn = bytes.splitn(2, |&b| b == b'\n').nth(1).unwrap();
    assert!(whole && torn.len() > 50 && !torn.contains(&b'\n'), "{}", String::from_utf8_lossy(torn));
    assert!(serde_json::from_slice::<Value>(torn).unwrap_err().is_eof());
}

#[tokio::test]
async fn it_swallows_bytes_from_the_middle() {
    let (cluster, namespace, proxy) = proxied().await;
    let path = list(&namespace);
    let [(_, bytes, _), (_, whole, _)] = beside(cluster, &path, async || {
        proxy.fault_next(1, Matching::lists("configmaps"), Fault::Stream(After::Bytes(40), Then::Swallow(25)));
        fetch(proxy.access(), &path).await
    })
    .await;
    assert_eq!(bytes, [&whole[..40], &whole[65..]].concat());
}

#[tokio::test]
async fn it_puts_an_error_event_into_a_stream() {
    let (_, namespace, proxy) = proxied().await;
    proxy.fault_next(1, Matching::watches("configmaps"), Fault::error_event(1, 410));
    let (status, bytes, whole) = fetch(proxy.access(), &watch(&namespace)).await;
    assert_eq!((status, whole), (200, true));
    assert_eq!(events(&bytes), ["ADDED", "ERROR"]);
}

#[tokio::test]
async fn it_stalls_and_resumes_a_stream_that_is_open() {
    let (cluster, namespace, proxy) = proxied().await;
    let path = format!("{}&watch=1&timeoutSeconds=60", list(&namespace));
    let mut stream = proxy.access().get(&path).send().await.unwrap();
    let mut got = Vec::new();
    while events(&got).len() < 3 {
        got.extend(stream.chunk().await.unwrap().unwrap());
    }
    let matching = Matching::watches("configmaps");
    assert_eq!(proxy.open(&matching), 1);
    proxy.stall(&matching);
    create(cluster, &namespace, "four").await;
    let silence = tokio::time::timeout(Duration::from_millis(500), stream.chunk()).await;
    assert!(silence.is_err(), "a stalled stream is silent");
    proxy.resume(&matching);
    let more = tokio::time::timeout(PATIENCE, stream.chunk()).await.unwrap().unwrap().unwrap();
    assert_eq!(events(&more), ["ADDED"]);

    proxy.cut(&matching);
    assert!(tokio::time::timeout(PATIENCE, stream.chunk()).await.unwrap().is_err(), "the open stream is cut");
    poll(PATIENCE, "the stream to be closed", async || (proxy.open(&matching) == 0).then_some(())).await;
}

#[tokio::test]
async fn it_stalls_hangs_and_delays_when_a_rule_says_so() {
    let (_, namespace, proxy) = proxied().await;
    let soon = Duration::from_millis(700);
    proxy.fault_next(1, Matching::watches("configmaps"), Fault::Stream(After::Events(1), Then::Stall));
    let stalled = tokio::time::timeout(soon * 4, fetch(proxy.access(), &watch(&namespace))).await;
    assert!(stalled.is_err(), "the server ends the watch after 2 s, the stalled stream does not");

    proxy.fault_next(1, Matching::lists("configmaps"), Fault::Hang);
    let hung = proxy.access().get(&list(&namespace)).timeout(soon).send().await;
    assert!(hung.unwrap_err().is_timeout());

    proxy.fault_next(1, Matching::lists("configmaps"), Fault::Delay(soon));
    let began = Instant::now();
    assert_eq!(fetch(proxy.access(), &list(&namespace)).await.0, 200);
    assert!(began.elapsed() >= soon);
}

#[tokio::test]
async fn it_drops_and_refuses_connections_until_it_is_healed() {
    let (_, namespace, proxy) = proxied().await;
    proxy.fault(Matching::lists("configmaps"), Fault::Drop);
    assert!(proxy.access().get(&list(&namespace)).send().await.is_err());
    proxy.refuse(true);
    assert!(proxy.access().get("/version").send().await.unwrap_err().is_connect());
    proxy.heal();
    assert_eq!(fetch(proxy.access(), &list(&namespace)).await.0, 200);
}
