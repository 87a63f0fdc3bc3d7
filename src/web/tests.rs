//! The server over a real socket, with a judge who does as told.

mod described;
mod permissions;

use std::{collections::BTreeSet, time::Duration};

use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::{
    judge::{Deed, Error as JudgeError, User},
    *,
};
use crate::{
    cluster::{
        Feed, Resource, Scope, informer,
        source::script::Script,
        store::{Place, Writing},
    },
    event::Redacted,
    redact::{self, Door},
    sink::sample,
};

/// Informers that there are; none of them runs.
const WATCHES: usize = 40;

struct Rig {
    url: String,
    ledger: Ledger,
    store: Store,
    http: reqwest::Client,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
    _writing: Writing,
    _folder: tempfile::TempDir,
}

impl Rig {
    async fn new() -> Self {
        Self::with(Auth::Auto, None).await
    }

    async fn with(auth: Auth, judge: Option<Arc<dyn Judge>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, recorder) = Ledger::new(cluster());
        let place = Place::File(folder.path().join("k.db"));
        let (store, writing) = Store::open(&place, Some(Box::new(recorder))).unwrap();
        let door = Arc::new(Door::new(&redact::Settings::default(), &store.redaction_key()).unwrap());
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let stop = CancellationToken::new();
        let (url, serving) = begin(&ledger, &store, door, auth, judge, &stop).await;
        Self { url, ledger, store, http, stop, serving, _writing: writing, _folder: folder }
    }

    fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.http.get(format!("{}{path}", self.url))
    }

    async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.text().await.unwrap());
        answer.json().await.unwrap()
    }

    async fn event(&self, n: u32, namespace: &str) -> Event {
        let mut event = sample::event_now();
        event.id = format!("{n:032x}");
        event.resource.namespace = namespace.into();
        event.resource.name = format!("web-{n}");
        self.ledger.append(&self.store, Arc::new(Redacted::invented(event.clone()))).await.unwrap();
        event
    }
}

fn cluster() -> Cluster {
    Cluster { name: "test".into(), uid: "c".into() }
}

/// Serves a ledger, and says where.
async fn begin(
    ledger: &Ledger,
    store: &Store,
    door: Arc<Door>,
    auth: Auth,
    judge: Option<Arc<dyn Judge>>,
    stop: &CancellationToken,
) -> (String, tokio::task::JoinHandle<()>) {
    let settings = informer::Settings::default();
    let factory = Factory::new(Arc::new(Script::new()), door, store.clone(), settings, None);
    let deployments = Resource { group: "apps".into(), ..Resource::core("v1", "deployments", "Deployment") };
    factory.informer(Feed::new(deployments, Scope::Namespace("shop".into())));
    for n in 1..WATCHES {
        factory.informer(Feed::new(Resource::core("v1", &format!("things{n}"), &format!("Thing{n}")), Scope::All));
    }
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = listener.local_addr().unwrap();
    let settings = Settings { address, auth, page_url: Some("https://diff.example/".into()), judge };
    let sources = Sources {
        cluster: cluster(),
        store: store.clone(),
        ledger: ledger.clone(),
        factory,
        overview: watch::Sender::new(Overview::default()).subscribe(),
        live: watch::Sender::new(Live { explain: None, sinks: vec![("ops".into(), "slack")] }).subscribe(),
        leader: None,
        leads_instead: None,
    };
    (format!("http://{address}"), tokio::spawn(serve(listener, settings, sources, stop.clone())))
}

/// The same ledger once more, with a judge who remembers nothing.
async fn serve_again(rig: &Rig, judge: Arc<dyn Judge>) -> String {
    let door = Arc::new(Door::new(&redact::Settings::default(), &rig.store.redaction_key()).unwrap());
    begin(&rig.ledger, &rig.store, door, Auth::Token, Some(judge), &rig.stop).await.0
}

/// Reads events of a stream until there are so many.
async fn events(answer: reqwest::Response, count: usize) -> Vec<(String, i64)> {
    numbers(&text_of(answer, count).await)
}

/// What a stream says until it has told of so many.
async fn text_of(mut answer: reqwest::Response, count: usize) -> String {
    let mut text = String::new();
    while numbers(&text).len() < count {
        let chunk = tokio::time::timeout(Duration::from_secs(20), answer.chunk()).await.expect("it goes on").unwrap();
        text.push_str(&String::from_utf8_lossy(&chunk.expect("it does not end")));
    }
    text
}

fn numbers(text: &str) -> Vec<(String, i64)> {
    let number = |block: &str| {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some((field("event:")?.to_owned(), field("id:")?.parse().ok()?))
    };
    // The last may not be whole yet.
    let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
    whole.split("\n\n").filter_map(number).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_path_that_is_served_is_described_and_every_one_that_is_described_is_served() {
    let rig = Rig::new().await;
    let description = rig.json("/api/v1/openapi.json").await;
    let described: BTreeSet<&str> = description["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let served: BTreeSet<&str> = api::routes().iter().map(|(path, _)| *path).collect();
    assert_eq!(described, served);
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let address = path.replace(['{', '}'], "");
            let request = match method.as_str() {
                "get" => rig.http.get(format!("{}{address}", rig.url)),
                "post" => rig.http.post(format!("{}{address}", rig.url)),
                "delete" => rig.http.delete(format!("{}{address}", rig.url)),
                other => panic!("{other} {path}"),
            };
            let answer = request.send().await.unwrap();
            assert_ne!(answer.status(), 405, "{method} {path}");
            let mut named: BTreeSet<String> = path
                .split('/')
                .filter_map(|step| step.strip_prefix('{')?.strip_suffix('}').map(str::to_owned))
                .collect();
            for parameter in operation["parameters"].as_array().unwrap() {
                let name = parameter["name"].as_str().unwrap();
                if parameter["in"] == "path" {
                    assert!(named.remove(name), "{path}: {name}");
                } else {
                    // One that is described is taken.
                    let answer = rig.get(&format!("{address}?{name}=")).send().await.unwrap();
                    // A stream has no end.
                    if !path.ends_with("/stream") {
                        let text = answer.text().await.unwrap();
                        assert!(!text.contains("there is no parameter"), "{path}?{name}: {text}");
                    } else {
                        assert_eq!(answer.status(), 200, "{path}?{name}");
                    }
                }
            }
            assert!(named.is_empty(), "{path} lacks {named:?}");
        }
    }
    let schemas = &description["components"]["schemas"];
    for name in ["Row", "Event", "Silence", "Line"] {
        assert!(schemas[name].is_object(), "{name} in {schemas}");
    }
    let references = description.to_string();
    let references = references.match_indices("\"$ref\":\"#/components/schemas/").map(|(at, found)| {
        let rest = &references[at + found.len()..];
        rest[..rest.find('"').unwrap()].to_owned()
    });
    for reference in references.collect::<BTreeSet<_>>() {
        assert!(schemas[&reference].is_object(), "{reference}");
    }
    let ended = tokio::time::timeout(Duration::from_secs(10), async {
        rig.stop.cancel();
        rig.serving.await
    });
    assert!(ended.await.is_ok(), "open streams do not hold up the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_as_the_specification_says() {
    let rig = Rig::new().await;
    for n in 1..=5 {
        rig.event(n, "shop").await;
    }
    let page = rig.json("/api/v1/events?limit=2&kind=deploy").await;
    assert_eq!(page["events"].as_array().unwrap().len(), 2);
    let row = &page["events"][0];
    assert_eq!(row["seq"], 5);
    for key in [
        "id",
        "time",
        "type",
        "observed",
        "group",
        "version",
        "resource",
        "kind",
        "namespace",
        "name",
        "owner",
        "managers",
        "hand",
        "classes",
        "summary",
    ] {
        assert!(!row[key].is_null(), "{key} in {row}");
    }
    let next = rig.json(&format!("/api/v1/events?limit=9&cursor={}", page["next"].as_str().unwrap())).await;
    assert_eq!(next["events"].as_array().unwrap().len(), 3);
    assert!(next.get("next").is_none());
    let full = rig.json("/api/v1/events?full=true&limit=1").await;
    assert_eq!(full["events"][0]["schema"], crate::event::SCHEMA);
    let one = rig.json(&format!("/api/v1/events/{}", row["id"].as_str().unwrap())).await;
    assert_eq!(one["event"]["id"], row["id"]);
    assert!(one["deliveries"].as_array().unwrap().is_empty());
    let history = rig.json("/api/v1/objects/apps/v1/deployments/shop/web-3/history").await;
    assert_eq!(history["events"][0]["name"], "web-3");
    let facets = rig.json("/api/v1/facets").await;
    assert_eq!(facets["kind"], json!([{"value": "Deployment", "count": 5}]));
    let density = rig.json("/api/v1/density?buckets=10&since=1h").await;
    assert_eq!(density["seconds"], 360);
    let status = rig.json("/api/v1/status").await;
    assert_eq!(status["ledger"]["events"], 5);
    assert_eq!(status["sinks"][0]["name"], "ops");
    assert_eq!(rig.json("/api/v1/whoami").await, json!({"auth": "none", "user": null, "may_silence": true}));

    for (path, status, code) in [
        ("/api/v1/events/ffffffffffffffff", 404, "not-found"),
        ("/api/v1/objects/core/v1/configmaps/shop/none", 404, "not-found"),
        // Another group than the one that permission was asked for.
        ("/api/v1/objects/core/v1/deployments.apps/shop/web-3", 404, "not-found"),
        ("/api/v1/events?knd=x", 400, "bad-request"),
        ("/api/v1/events?type=x", 400, "bad-request"),
        ("/api/v1/events?since=x", 400, "bad-request"),
        ("/api/v1/events?limit=x", 400, "bad-request"),
        ("/api/v1/events?cursor=x", 400, "bad-request"),
        ("/api/v1/stream?after=x", 400, "bad-request"),
        ("/api/v1/nothing", 404, "not-found"),
        ("/nothing.js", 404, "not-found"),
    ] {
        let answer = rig.get(path).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{path}");
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["error"]["code"], code, "{path}");
        assert!(body["error"]["message"].as_str().is_some_and(|text| !text.is_empty()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_on_where_it_was_left_and_says_when_it_is_behind() {
    let rig = Rig::new().await;
    for n in 1..=3 {
        rig.event(n, "shop").await;
    }
    let from_now = rig.get("/api/v1/stream").send().await.unwrap();
    assert_eq!(from_now.headers()["content-type"], "text/event-stream");
    let again = rig.get("/api/v1/stream?namespace=shop").header("last-event-id", "1").send().await.unwrap();
    rig.event(4, "other").await;
    rig.event(5, "shop").await;
    let change = |seq: i64| ("change".to_owned(), seq);
    assert_eq!(events(from_now, 2).await, [change(4), change(5)]);
    assert_eq!(events(again, 3).await, [change(2), change(3), change(5)]);
    // A number that is not there yet is of another ledger.
    let foreign = rig.get("/api/v1/stream?after=900").send().await.unwrap();
    assert_eq!(events(foreign, 1).await, [("behind".to_owned(), 5)]);
    rig.store
        .write(Box::new(|transaction| transaction.execute("DELETE FROM events WHERE seq < 4", []).map(drop)))
        .await
        .unwrap();
    let late = rig.get("/api/v1/stream?after=1").send().await.unwrap();
    assert_eq!(events(late, 3).await, [("behind".to_owned(), 3), change(4), change(5)]);
}

/// Events of a namespace that nobody asks for, by SQL: one by one they take minutes. The last is told of as others are.
async fn crowd(rig: &Rig, count: u32) {
    rig.store
        .write(Box::new(move |transaction| {
            transaction
                .execute(
                    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                     INSERT INTO events (id, time, type, api_group, resource, kind, namespace, name, uid, owner_kind,
                       owner_namespace, owner_name, classes, managers, summary, event, inverse, observed, version)
                     SELECT lower(hex(randomblob(16))), time, type, api_group, resource, kind, 'busy', name, uid, owner_kind,
                       owner_namespace, owner_name, classes, managers, summary, event, inverse, observed, version
                     FROM n, (SELECT * FROM events ORDER BY seq LIMIT 1)",
                    [count - 1],
                )
                .map(drop)
        }))
        .await
        .unwrap();
    rig.event(rand::random(), "busy").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_narrow_stream_keeps_its_place_while_others_are_busy() {
    let rig = Rig::new().await;
    rig.event(1, "quiet").await;
    let mut answer = rig.get("/api/v1/stream?namespace=quiet").send().await.unwrap();
    let mut text = String::new();
    let mut until = async |wanted: &str| {
        // For all of it: a stream that has nothing to say still says that it is there.
        let reading = tokio::time::timeout(Duration::from_secs(20), async {
            while !text.contains(wanted) {
                let chunk = answer.chunk().await.unwrap().expect("it does not end");
                text.push_str(&String::from_utf8_lossy(&chunk));
            }
        });
        assert!(reading.await.is_ok(), "{wanted:?} was not said");
    };
    until("id: 1\n").await;
    crowd(&rig, 9_000).await;
    until("id: 9001\n").await;
    assert!(text.matches("id: ").count() <= 10, "it is not told of each: {text}");
    assert!(!text.contains("event:") && !text.contains("data:"), "{text}");

    // While it is away, less than what makes it be left behind.
    drop(answer);
    crowd(&rig, 9_000).await;
    rig.event(2, "quiet").await;
    let again = rig.get("/api/v1/stream?namespace=quiet").header("last-event-id", "9001").send().await.unwrap();
    assert_eq!(events(again, 1).await, [("change".to_owned(), 18_002)]);
    let lost = rig.get("/api/v1/stream?namespace=quiet").header("last-event-id", "1").send().await.unwrap();
    assert_eq!(events(lost, 1).await[0].0, "behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_silences_are_written_and_only_from_the_page_itself() {
    let rig = Rig::new().await;
    let silences = format!("{}/api/v1/silences", rig.url);
    let body = json!({"namespace": "shop", "for": "1h", "reason": "migration"});
    let made = rig.http.post(&silences).json(&body).send().await.unwrap();
    assert_eq!(made.status(), 201);
    let made: Value = made.json().await.unwrap();
    assert_eq!(rig.json("/api/v1/silences").await, json!({"silences": [made]}));
    assert_eq!(rig.ledger.silences().len(), 1, "it holds from now on");
    for (body, why) in [
        (json!({"namespace": "shop", "for": "1h"}), "no reason"),
        (json!({"reason": "x"}), "no end"),
        (json!({"reason": "x", "for": "soon"}), "no duration"),
        (json!({"reason": "x", "until": "2020-01-01T00:00:00Z"}), "over"),
        (json!({"reason": "x", "for": "1h", "nmespace": "shop"}), "a slip of the pen would silence everything"),
    ] {
        assert_eq!(rig.http.post(&silences).json(&body).send().await.unwrap().status(), 400, "{why}");
    }
    let plain = rig.http.post(&silences).body(body.to_string()).send().await.unwrap();
    assert_eq!(plain.status(), 415, "a form of another site can send text");
    for (header, value) in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        let foreign = rig.http.post(&silences).header(header, value).json(&body).send().await.unwrap();
        assert_eq!(foreign.status(), 403, "{header}");
    }
    let big = rig.http.post(&silences).header("content-type", "application/json").body(vec![b' '; 20 << 10]);
    assert_eq!(big.send().await.unwrap().status(), 413);
    let one = format!("{silences}/{}", made["id"]);
    assert_eq!(rig.http.delete(&one).send().await.unwrap().status(), 200);
    assert_eq!(rig.http.delete(&one).send().await.unwrap().status(), 404);
    assert_eq!(rig.json("/api/v1/silences").await, json!({"silences": []}));
    for path in ["/", "/api/v1/events", "/api/v1/status"] {
        for method in [reqwest::Method::POST, reqwest::Method::PUT, reqwest::Method::DELETE, reqwest::Method::PATCH] {
            let answer = rig.http.request(method.clone(), format!("{}{path}", rig.url)).send().await.unwrap();
            assert_eq!(answer.status(), 405, "{method} {path}");
        }
    }
    assert_eq!(rig.http.put(&one).send().await.unwrap().status(), 405);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_has_the_headers_and_only_names_of_this_machine_are_answered() {
    let rig = Rig::new().await;
    for path in ["/", "/objects/apps/v1/deployments/shop/web", "/api/v1/events", "/api/v1/nothing", "/nothing.js"] {
        let answer = rig.get(path).send().await.unwrap();
        let headers = answer.headers();
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["referrer-policy"], "no-referrer", "{path}");
        assert!(headers.contains_key("cache-control"), "{path}");
        assert!(!headers.contains_key("access-control-allow-origin"), "{path}");
    }
    for (host, status) in [
        ("localhost:8080", 200),
        ("127.0.0.1", 200),
        ("[::1]:8080", 200),
        ("kubediff.localhost", 200),
        ("diff.example", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("192.168.0.1", 421),
    ] {
        let answer = rig.get("/api/v1/events").header("host", host).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{host}");
    }
    let long = format!("/api/v1/events?q={}", "x".repeat(9_000));
    assert_eq!(rig.get(&long).send().await.unwrap().status(), 414);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_at_every_address_that_is_no_file_and_is_sent_once() {
    let rig = Rig::new().await;
    let page = rig.get("/").send().await.unwrap();
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    let tag = page.headers()["etag"].clone();
    let text = page.text().await.unwrap();
    for path in ["/health", "/objects/core/v1/configmaps/shop/app.js", "/?kind=Deployment"] {
        assert_eq!(rig.get(path).send().await.unwrap().text().await.unwrap(), text, "{path}");
    }
    let again = rig.get("/").header("if-none-match", tag).send().await.unwrap();
    assert_eq!(again.status(), 304);
    let small = rig.get("/").header("accept-encoding", "br, gzip").send().await.unwrap();
    assert_eq!(small.headers()["content-encoding"], "gzip");
    let bytes = small.bytes().await.unwrap();
    let mut unpacked = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut unpacked).unwrap();
    assert_eq!(unpacked, text);
    let head = rig.http.head(format!("{}/api/v1/events", rig.url)).send().await.unwrap();
    assert_eq!(head.status(), 200);
    assert!(head.bytes().await.unwrap().is_empty());
}
