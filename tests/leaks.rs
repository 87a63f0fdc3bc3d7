//! No secret leaves by any door: the ways in which a secret value can appear (`tests/fixtures/leaks.json`), driven through
//! the real API server and the real binary, and then looked for in every output, in the state file and in the logs.

pub mod looks;
mod modes;
pub mod search;

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use self::{
    looks::{Looks, Seen, command},
    search::{Planted, state},
};
use crate::{
    harness::{
        self, After, Cluster, Fault, Matching, PATIENCE, Proxy, Receiver, Slack, Then, cluster::free_port, poll, slack,
    },
    watch::program::Program,
};

/// One of the ways, in the namespace of the test.
struct Leak {
    name: String,
    object: Value,
    /// The same with another secret of the same shape.
    rotated: Value,
    secrets: Vec<String>,
    /// Whether a rotation can show: what holds a release, or what kubectl keeps for itself, is left out as a whole.
    shows: bool,
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

fn leaks(namespace: &str) -> (Value, Vec<Leak>) {
    let fixture: Value = serde_json::from_str(include_str!("fixtures/leaks.json")).expect("the fixture");
    let of = |leak: &Value| {
        let raw =
            leak["object"].to_string().replace(r#""namespace":"leaks""#, &format!(r#""namespace":"{namespace}""#));
        let also = leak["also"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut secrets: Vec<String> = also.chain([text(leak, "secret")]).map(str::to_owned).collect();
        let as_json = |secret: &String| Value::from(secret.as_str()).to_string().trim_matches('"').to_owned();
        let planted = secrets.iter().map(as_json).find(|secret| raw.contains(secret)).expect("planted");
        let rotated = rotate(&planted);
        let object = serde_json::from_str(&raw).expect("JSON");
        let other = serde_json::from_str(&raw.replace(&planted, &rotated)).expect("JSON");
        secrets.push(rotated);
        let name = text(leak, "name").to_owned();
        let shows = !name.contains("Helm") && !name.starts_with("last-applied-configuration of a Dep");
        Leak { name, object, rotated: other, secrets, shows }
    };
    (fixture["crd"].clone(), fixture["leaks"].as_array().expect("a list").iter().map(of).collect())
}

/// Another value of the same shape: one letter or digit in the middle.
fn rotate(secret: &str) -> String {
    let places: Vec<usize> =
        secret.char_indices().filter(|(_, c)| c.is_ascii_alphanumeric()).map(|(at, _)| at).collect();
    let at = places[places.len() / 2];
    let mut rotated = secret.to_owned();
    rotated.replace_range(at..=at, if secret.as_bytes()[at] == b'7' { "8" } else { "7" });
    rotated
}

impl Leak {
    fn object_name(&self) -> &str {
        text(&self.object["metadata"], "name")
    }

    fn path(&self) -> String {
        let (group, plural) = match text(&self.object, "kind") {
            "Secret" => ("api/v1", "secrets"),
            "ConfigMap" => ("api/v1", "configmaps"),
            "Pod" => ("api/v1", "pods"),
            "Deployment" => ("apis/apps/v1", "deployments"),
            "Widget" => ("apis/leaks.example.com/v1", "widgets"),
            other => panic!("no path for {other}"),
        };
        format!("/{group}/namespaces/{}/{plural}", text(&self.object["metadata"], "namespace"))
    }

    /// As the page's API has it: group, version, resource, namespace, name.
    fn place(&self) -> String {
        let path = self.path();
        let mut parts = path.trim_start_matches("/apis").trim_start_matches("/api").trim_start_matches('/').split('/');
        let (first, last) = (parts.next().unwrap_or_default(), path.rsplit('/').next().unwrap_or_default());
        let (group, version) = if first == "v1" { ("core", "v1") } else { (first, parts.next().unwrap_or_default()) };
        let namespace = text(&self.object["metadata"], "namespace");
        format!("{group}/{version}/{last}/{namespace}/{}", self.object_name())
    }

    /// `configmaps/leak-08`
    fn kubectl_name(&self) -> String {
        format!("{}/{}", self.path().rsplit('/').next().unwrap_or_default(), self.object_name())
    }
}

/// The code, and what the server says.
async fn send(cluster: &Cluster, method: Method, path: &str, body: &Value) -> (u16, String) {
    let answer = cluster.access().request(method, path).json(body).send().await.expect("an answer");
    (answer.status().as_u16(), answer.text().await.expect("a body"))
}

async fn create_widgets(cluster: &Cluster, crd: &Value) {
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, said) = send(cluster, Method::POST, crds, crd).await;
    assert!(matches!(code, 201 | 409), "{said}");
    poll(PATIENCE, "Widgets to be served", async || {
        let answer = cluster.access().get("/apis/leaks.example.com/v1/widgets").send().await.ok()?;
        answer.status().is_success().then_some(())
    })
    .await;
}

/// A Slack takes a message a second and channel, so there are ten, by the last digit of the name.
fn config(namespace: &str, hook: &Receiver, slack: &Slack, page: u16, probes: u16) -> String {
    let mut text = format!(
        "[watch]\nnamespaces = [\"{namespace}\"]\n[state]\npath = \"kubediff.db\"\n\
         [server]\nprobes = \"127.0.0.1:{probes}\"\npage = \"127.0.0.1:{page}\"\n[sinks.log]\ntype = \"stdout\"\n"
    );
    for format in ["json", "cloudevents", "legacy", "template"] {
        let url = hook.url(&format!("/{format}"));
        text.push_str(&format!("[sinks.{format}]\ntype = \"webhook\"\nurl = \"{url}\"\nformat = \"{format}\"\n"));
    }
    text.push_str("template = \"discord\"\n");
    for digit in 0..10 {
        text.push_str(&format!(
            "[sinks.slack-{digit}]\ntype = \"slack\"\ntoken = {{ env = \"SLACK_TOKEN\" }}\nchannel = \"#leaks-{digit}\"\n\
             api_url = \"{}\"\ngroup_wait_secs = 6\n\
             [[routes]]\nmatch = {{ names = [\"*leak-*{digit}\"] }}\nsinks = [\"slack-{digit}\"]\ncontinue = true\n",
            slack.api_url()
        ));
    }
    text + "[[routes]]\nsinks = [\"log\", \"json\", \"cloudevents\", \"legacy\", \"template\"]\n"
}

/// What the commands say of every one of them, by the server and by files.
fn commands(server: &str, namespace: &str, leaks: &[Leak], events: &[Value]) -> Seen {
    let fine = |code: i32| code == 0;
    let of = ["-n", namespace, "--server", server];
    let mut seen = Vec::new();
    for output in ["table", "diff", "json", "yaml"] {
        seen.push(command(&[&["history", "-o", output, "--limit", "1000"], &of[..]].concat(), fine));
    }
    for leak in leaks {
        let name = leak.kubectl_name();
        seen.push(command(&[&["at", &name, "now"], &of[..]].concat(), fine));
        seen.push(command(&[&["blame", &name], &of[..]].concat(), fine));
    }
    for event in events.iter().filter(|event| event["type"] == "updated") {
        let id = text(event, "id");
        seen.push(command(&["show", id, "--server", server], fine));
        // What was hidden cannot be brought back, and it says so.
        seen.push(command(&["undo", id, "--server", server], |code| code <= 1));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, objects: Vec<&Value>| {
        let path = folder.path().join(name);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(&path, list.to_string()).expect("a file");
        path.to_str().expect("UTF-8").to_owned()
    };
    let old = file("old.json", leaks.iter().map(|leak| &leak.object).collect());
    let new = file("new.json", leaks.iter().map(|leak| &leak.rotated).collect());
    let none = file("none.json", Vec::new());
    for output in ["text", "json", "yaml", "markdown", "patch"] {
        for (from, to) in [(&old, &new), (&none, &old), (&old, &none)] {
            seen.push(command(&["diff", from, to, "-o", output], |code| code == 1));
        }
    }
    seen
}

#[tokio::test]
async fn no_planted_secret_occurs_in_any_output_in_the_state_or_in_the_log() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("leaks").await;
    let (crd, leaks) = leaks(namespace.name());
    assert!(leaks.len() >= 50);
    create_widgets(cluster, &crd).await;
    let (hook, slack) = (Receiver::start(), Slack::start());
    let (page, probes) = (free_port(), free_port());
    let token = format!("SLACK_TOKEN={}", slack::TOKEN);
    let mut kubediff = Program::start(
        cluster.kubeconfig(),
        &["KUBEDIFF_LOG=trace", &token],
        &[("kubediff.toml", &config(namespace.name(), &hook, &slack, page, probes))],
        &["run", "--config", "kubediff.toml"],
    )
    .await;
    let shown = Program::watch(cluster.kubeconfig(), &["-n", namespace.name()]).await;
    let looks = Looks::at(page, probes);
    let stream = looks.follow().await;

    // Created, rotated, and deleted; what the server does not take, it quotes in its answer.
    let (mut rotated, mut refused) = (BTreeSet::new(), 0);
    for leak in &leaks {
        let (code, said) = send(cluster, Method::POST, &leak.path(), &leak.object).await;
        assert_eq!(code, 201, "{}: {said}", leak.name);
    }
    for leak in &leaks {
        let path = format!("{}/{}", leak.path(), leak.object_name());
        let mut body = leak.rotated.clone();
        if text(&body, "kind") == "Widget" {
            let (_, live) = send(cluster, Method::GET, &path, &Value::Null).await;
            let live: Value = serde_json::from_str(&live).expect("an object");
            body["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        }
        match send(cluster, Method::PUT, &path, &body).await {
            (200, _) if leak.shows => drop(rotated.insert(leak.object_name())),
            (200, _) => {}
            (422, _) => refused += 1,
            (code, said) => panic!("{}: {code} {said}", leak.name),
        }
    }
    assert!(rotated.len() >= 50 && refused >= 5, "{} rotated, {refused} refused", rotated.len());
    let seen = |kind: &str| -> BTreeSet<String> {
        let of_kind = |event: &Value| event["type"] == kind && event["resource"]["kind"] != "ServiceAccount";
        let name = |event: &Value| text(&event["resource"], "name").to_owned();
        kubediff.events().iter().filter(|event| of_kind(event)).map(name).collect()
    };
    poll(PATIENCE, "every rotation to be told", async || {
        let updated = seen("updated");
        rotated.iter().all(|name| updated.contains(*name)).then_some(())
    })
    .await;
    let in_slack = async || {
        let messages = format!("{:?}", slack.messages());
        leaks.iter().all(|leak| messages.contains(leak.object_name())).then_some(())
    };
    poll(PATIENCE * 2, "Slack to tell of every object", in_slack).await;
    let before = state(&kubediff.file("kubediff.db"));
    let places: Vec<String> = leaks.iter().map(Leak::place).collect();
    let told = kubediff.events();
    let mut answers = looks.everything(&told, &places, false).await;
    answers.extend(commands(looks.server(), namespace.name(), &leaks, &told));
    for leak in &leaks {
        let path = format!("{}/{}?gracePeriodSeconds=0", leak.path(), leak.object_name());
        let (code, said) = send(cluster, Method::DELETE, &path, &Value::Null).await;
        assert!(matches!(code, 200 | 202), "{}: {said}", leak.name);
    }
    let names: BTreeSet<String> = leaks.iter().map(|leak| leak.object_name().to_owned()).collect();
    poll(PATIENCE, "every deletion to be told", async || names.is_subset(&seen("deleted")).then_some(())).await;
    assert!(names.is_subset(&seen("created")));
    let events = kubediff.events().len();
    hook.wait_for_accepted(4 * events, PATIENCE).await;
    let after = state(&kubediff.file("kubediff.db"));
    // As they were, of what is gone.
    answers.extend(looks.everything(&kubediff.events(), &places, true).await);
    let streamed = stream.lock().expect("the stream's bytes").clone();
    for name in &names {
        assert!(String::from_utf8_lossy(&streamed).contains(name.as_str()), "{name} was not streamed");
    }
    answers.push(("the live stream".to_owned(), streamed));
    kubediff.stop().await;

    let mut planted = Planted::new(leaks.iter().flat_map(|leak| &leak.secrets));
    planted.add(slack::TOKEN);
    planted.add(&cluster.access().token);
    planted.absent("stdout", kubediff.stdout().as_bytes());
    planted.absent("the log", kubediff.stderr().as_bytes());
    planted.absent("kubediff watch", (shown.stdout() + &shown.stderr()).as_bytes());
    for (place, bytes) in &answers {
        planted.absent(place, bytes);
    }
    for request in hook.received() {
        planted.absent(&request.path, &request.body);
        planted.absent("headers", format!("{:?}", request.headers).as_bytes());
    }
    for request in slack.receiver().received() {
        planted.absent("Slack", &request.body);
    }
    for (place, bytes) in before.into_iter().chain(after).chain(state(&kubediff.file("kubediff.db"))) {
        planted.absent(&place, &bytes);
    }
    planted.finish();
    let (code, said) = send(
        cluster,
        Method::DELETE,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.leaks.example.com",
        &Value::Null,
    )
    .await;
    assert!(matches!(code, 200 | 404), "{said}");
}

#[tokio::test]
async fn what_the_server_says_wrongly_or_quotes_in_an_error_is_in_no_output() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("quoted").await;
    let proxy = Proxy::start(cluster.access());
    let manifest =
        |secret: &str| json!({"kind": "Secret", "metadata": {"name": "x"}, "data": {"password": secret}}).to_string();
    let cannot = |secret: &str| format!("cannot decode {}: unexpected end", manifest(secret));
    let error = json!({"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": 500,
        "message": cannot("s3cr-error-hunter2")}});
    let uid = "5b0c5e8e-0000-4000-8000-000000000000";
    let shape = json!({"type": "ADDED", "object": {"kind": "Secret", "apiVersion": "v1", "data": "s3cr-shape-hunter2",
        "metadata": {"name": "shape", "namespace": namespace.name(), "uid": uid, "resourceVersion": "1"}}});
    let unnamed = json!({"type": "ADDED", "object": {"kind": "Pod", "spec": {"password": "s3cr-unnamed-hunter2"}}});
    for (resource, line) in [
        ("configmaps", r#"{"type":"ADDED","object":{"data":{"password":"s3cr-torn-hunter2"#.to_owned()),
        ("secrets", shape.to_string()),
        ("services", error.to_string()),
        ("pods", unnamed.to_string()),
        ("deployments", json!({"type": "s3cr-type-hunter2", "object": "s3cr-text-hunter2"}).to_string()),
    ] {
        let then = Then::EndWith(format!("{line}\n").into());
        proxy.fault_next(1, Matching::watches(resource), Fault::Stream(After::Events(0), then));
    }
    let config = format!(
        "[watch]\nnamespaces = [\"{namespace}\"]\n[state]\npath = \"kubediff.db\"\n[server]\nprobes = \"\"\npage = \"\"\n"
    );
    let mut kubediff = Program::start(
        &proxy.kubeconfig(cluster.dir()),
        &["KUBEDIFF_LOG=trace"],
        &[("kubediff.toml", &config)],
        &["run", "--config", "kubediff.toml"],
    )
    .await;
    // It gets over all of them.
    poll(PATIENCE, "the faults to be met", async || {
        let resources = ["configmaps", "secrets", "services", "pods", "deployments"];
        resources.iter().all(|resource| proxy.count(&Matching::watches(resource)) >= 2).then_some(())
    })
    .await;
    cluster.kubectl(&["create", "configmap", "after", "-n", namespace.name()]).await;
    kubediff.event("a change after the faults", |event| event["resource"]["name"] == "after").await;
    let log = kubediff.stderr();
    assert!(log.contains("cannot decode"), "the error was not met: {log}");
    let before = state(&kubediff.file("kubediff.db"));
    kubediff.stop().await;

    let words = ["error", "shape", "torn", "unnamed", "type", "text"].map(|word| format!("s3cr-{word}-hunter2"));
    let mut planted = Planted::new(words.iter());
    planted.add(&cluster.access().token);
    planted.absent("stdout", kubediff.stdout().as_bytes());
    planted.absent("the log", kubediff.stderr().as_bytes());
    for (place, bytes) in before.into_iter().chain(state(&kubediff.file("kubediff.db"))) {
        planted.absent(&place, &bytes);
    }
    planted.finish();
}

#[test]
fn the_search_finds_a_secret_however_it_is_written() {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let secret = "s3cr-\"quoted\"-hunter2".to_owned();
    for around in ["", "a", "ab", "abc"] {
        for text in
            [secret.clone(), json!(secret).to_string(), BASE64_STANDARD.encode(format!("{around}{secret}{around}"))]
        {
            let mut planted = Planted::new([&secret]);
            planted.absent("here", format!("{around}{text}{around}").as_bytes());
            assert_eq!(planted.found().len(), 1, "{around} {text}");
        }
    }
}
