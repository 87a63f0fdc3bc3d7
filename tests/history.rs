//! What changed is asked back from the running daemon: every object as the API server had it at the time, who set what,
//! and changes as they happen.

use std::collections::BTreeMap;

use kubediff::{
    cluster::Resource,
    redact::{self, Door},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    delivery::daemon::Kubediff,
    harness::{self, Access, Fault, Matching, PATIENCE, Proxy, cluster::free_port, poll},
};

/// A daemon's page.
pub struct Page {
    pub url: String,
    pub http: reqwest::Client,
    pub token: Option<String>,
}

impl Page {
    pub fn at(port: u16) -> Self {
        harness::install_tls_provider();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { url: format!("http://127.0.0.1:{port}"), http, token: None }
    }

    pub fn with_token(&self, token: &str) -> Self {
        Self { url: self.url.clone(), http: self.http.clone(), token: Some(token.to_owned()) }
    }

    pub async fn get(&self, path: &str) -> reqwest::Response {
        let request = self.http.get(format!("{}/api/v1/{path}", self.url));
        let request = if let Some(token) = &self.token { request.bearer_auth(token) } else { request };
        request.send().await.unwrap()
    }

    pub async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }
}

/// Only some kinds of one namespace, and the page on a port of its own.
pub fn config(namespaces: &[&str], port: u16, more: &str) -> String {
    format!(
        "[watch]\nnamespaces = {namespaces:?}\ninclude = [\"v1/configmaps\", \"apps/deployments\", \"v1/secrets\", \"CronJob\"]\n\
         [server]\nprobes = \"\"\npage = \"127.0.0.1:{port}\"\n{more}\n[sinks.log]\ntype = \"stdout\"\n"
    )
}

const MAPS: (&str, &str) = ("core/v1/configmaps", "/api/v1");
/// No controller changes them by itself, as it does Deployments.
const JOBS: (&str, &str) = ("batch/v1/cronjobs", "/apis/batch/v1");

fn resource(of: &str) -> Resource {
    match of {
        "configmaps" => Resource::core("v1", "configmaps", "ConfigMap"),
        _ => Resource { group: "batch".into(), ..Resource::core("v1", "cronjobs", "CronJob") },
    }
}

/// The objects of a namespace as the server has them, through the same door as the daemon's.
async fn listed(access: &Access, door: &Door, namespace: &str) -> BTreeMap<String, (String, Value)> {
    let mut found = BTreeMap::new();
    for (path, root) in [MAPS, JOBS] {
        let plural = path.rsplit('/').next().unwrap();
        let list: Value =
            access.get(&format!("{root}/namespaces/{namespace}/{plural}")).send().await.unwrap().json().await.unwrap();
        for item in list["items"].as_array().unwrap() {
            let document = door.admit(&resource(plural), item.to_string().as_bytes()).unwrap();
            let name = format!("{path}/{namespace}/{}", document.meta().name);
            found.insert(name, (document.meta().version.to_string(), document.value()));
        }
    }
    found
}

/// One random change of one of a few objects; what the server refuses is no change.
async fn change(access: &Access, random: &mut StdRng, namespace: &str) {
    let n = random.random_range(0..4);
    let (root, plural, object) = if random.random_bool(0.5) {
        let data: BTreeMap<String, String> = (0..random.random_range(0..5))
            .map(|_| (format!("k{}", random.random_range(0..6)), "line\n".repeat(random.random_range(1..4))))
            .collect();
        ("/api/v1", "configmaps", json!({"metadata": {"name": format!("m{n}")}, "data": data}))
    } else {
        let env: BTreeMap<u8, u8> =
            (0..random.random_range(0..5)).map(|_| (random.random_range(0..8), random.random_range(0..9))).collect();
        let env: Vec<Value> =
            env.iter().map(|(name, value)| json!({"name": format!("E{name}"), "value": value.to_string()})).collect();
        let mut containers =
            vec![json!({"name": "web", "image": format!("nginx:1.{}", random.random_range(0..9)), "env": env})];
        if random.random_bool(0.4) {
            containers.insert(random.random_range(0..=1), json!({"name": "side", "image": "busybox"}));
        }
        let pod = json!({"restartPolicy": "Never", "containers": containers});
        let spec = json!({"schedule": "0 0 1 1 *", "suspend": true,
            "startingDeadlineSeconds": random.random_range(10..19),
            "jobTemplate": {"spec": {"template": {"metadata": {"labels": {"app": "x"}}, "spec": pod}}}});
        ("/apis/batch/v1", "cronjobs", json!({"metadata": {"name": format!("d{n}")}, "spec": spec}))
    };
    let collection = format!("{root}/namespaces/{namespace}/{plural}");
    let one = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
    let manager = ["kubectl-edit", "argocd-controller"][random.random_range(0..2)];
    let deleted =
        random.random_bool(0.12) && access.request(Method::DELETE, &one).send().await.unwrap().status().is_success();
    if !deleted {
        let put =
            access.request(Method::PUT, &format!("{one}?fieldManager={manager}")).json(&object).send().await.unwrap();
        if put.status() == 404 {
            let post = access.request(Method::POST, &format!("{collection}?fieldManager={manager}")).json(&object);
            assert!(post.send().await.unwrap().status().is_success());
        }
    }
}

/// The random changes of one run, to have them again.
const SEED: &str = "KUBEDIFF_HISTORY_SEED";
const ROUNDS: usize = 25;
/// In which the watch of ConfigMaps is cut.
const CUT: usize = 12;

/// By name, what an object may have been at a time: one thing, but for those that change just then.
type States = BTreeMap<String, Vec<Value>>;

fn add(states: &mut States, list: &BTreeMap<String, (String, Value)>) {
    let missing: Vec<String> = states.keys().filter(|name| !list.contains_key(*name)).cloned().collect();
    let gone = missing.into_iter().map(|name| (name, Value::Null));
    for (name, value) in gone.chain(list.iter().map(|(name, (_, document))| (name.clone(), document.clone()))) {
        // One that is new was nothing before.
        let may_be = states.entry(name).or_insert_with(|| vec![Value::Null]);
        if !may_be.contains(&value) {
            may_be.push(value);
        }
    }
}

#[tokio::test]
async fn every_object_is_what_the_api_server_had_at_that_time_also_after_a_restart() {
    let seed = std::env::var(SEED).map_or_else(|_| rand::random(), |text| text.parse().unwrap());
    println!("again with {SEED}={seed}");
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("travel").await;
    let port = free_port();
    let proxy = Proxy::start(cluster.access());
    let dir = tempfile::tempdir().unwrap();
    let mut kubediff = Kubediff::new(&proxy.kubeconfig(dir.path()), &config(&[ns.name()], port, ""));
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..6 {
        change(cluster.access(), &mut random, ns.name()).await;
    }
    kubediff.start().await;
    let page = Page::at(port);
    let door = Door::new(&redact::Settings::default(), &[0; 32]).unwrap();
    let mut recorded: Vec<(jiff::Timestamp, States)> = Vec::new();
    let mut states = States::new();
    for round in 0..ROUNDS {
        for _ in 0..random.random_range(1..6) {
            change(cluster.access(), &mut random, ns.name()).await;
            if round == CUT {
                proxy.cut(&Matching::watches("configmaps"));
            }
            // Nobody waits for the daemon here: it may have any of what there was since it had caught up last, and
            // nothing that comes later. Of the first round it is not known what that was.
            add(&mut states, &listed(cluster.access(), &door, ns.name()).await);
            if round > 0 {
                recorded.push((jiff::Timestamp::now(), states.clone()));
                apart().await;
            }
        }
        // The server may change objects by itself, so list and daemon have to agree before the time is noted.
        let state = poll(PATIENCE, format!("kubediff has caught up in round {round}"), async || {
            let list = listed(cluster.access(), &door, ns.name()).await;
            let objects = page.json(&format!("objects?namespace={}&kind=cm,cronjobs&limit=1000", ns.name())).await;
            let stored: BTreeMap<String, String> = objects["objects"]
                .as_array()?
                .iter()
                .map(|o| {
                    let text = |key: &str| o[key].as_str().unwrap_or_default().to_owned();
                    let group = if text("group").is_empty() { "core".into() } else { text("group") };
                    let path = format!("{group}/v1/{}/{}/{}", text("resource"), text("namespace"), text("name"));
                    (path, text("resourceVersion"))
                })
                .collect();
            let wanted: BTreeMap<String, String> = list.iter().map(|(k, (v, _))| (k.clone(), v.clone())).collect();
            (stored == wanted).then_some(list)
        })
        .await;
        states.values_mut().for_each(|may_be| *may_be = vec![Value::Null]);
        states.extend(state.into_iter().map(|(name, (_, document))| (name, vec![document])));
        recorded.push((jiff::Timestamp::now(), states.clone()));
        apart().await;
    }
    let everything: std::collections::BTreeSet<&String> =
        recorded.iter().flat_map(|(_, states)| states.keys()).collect();
    for restarted in [false, true] {
        if restarted {
            kubediff.stop().await;
            kubediff.start().await;
        }
        let (mut compared, mut exact) = (0, 0);
        for (time, states) in &recorded {
            for name in &everything {
                let then = page.json(&format!("objects/{name}?at={time}")).await;
                let want = states.get(*name).map_or(&[Value::Null][..], Vec::as_slice);
                assert!(want.contains(&then["object"]), "{SEED}={seed}: {name} at {time}: {then}, not one of {want:?}");
                assert_eq!(then["exists"], !then["object"].is_null());
                compared += 1;
                exact += usize::from(want.len() == 1);
            }
        }
        println!("{compared} states of {} objects compared, {exact} of them known exactly", everything.len());
    }
    // Before the daemon looked nothing is known.
    let early = page.get(&format!("objects/{}?at=2020-01-01T00:00:00Z", everything.first().unwrap())).await;
    assert_eq!(early.status(), 410);
    kubediff.stop().await;
}

/// The next change is not in the same millisecond.
async fn apart() {
    tokio::time::sleep(std::time::Duration::from_millis(3)).await;
}

#[tokio::test]
async fn what_was_changed_while_kubediff_was_away_is_said_to_be_uncertain() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("away").await;
    let port = free_port();
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config(&[ns.name()], port, ""));
    kubediff.start().await;
    let page = Page::at(port);
    let object = format!("objects/core/v1/configmaps/{}/flags", ns.name());
    let size = async |size: &str| {
        poll(PATIENCE, format!("the size to be {size}"), async || {
            let answer: Value = page.get(&object).await.json().await.ok()?;
            (answer["object"]["data"]["size"] == size).then_some(answer)
        })
        .await
    };
    cluster.kubectl(&["create", "cm", "flags", "--from-literal=size=1", "-n", ns.name()]).await;
    assert_eq!(size("1").await["certain"], true);
    let watching = jiff::Timestamp::now();
    kubediff.stop().await;
    cluster.kubectl(&["patch", "cm", "flags", "-n", ns.name(), "-p", r#"{"data":{"size":"2"}}"#]).await;
    let away = jiff::Timestamp::now();
    let state = kubediff.state();
    let at = |time: &jiff::Timestamp| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubediff"));
        command.args(["at", "cm/flags", &time.to_string(), "-n", ns.name(), "--state"]).arg(&state).env("TZ", "UTC");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    kubediff.start().await;
    size("2").await;
    let then = page.json(&format!("{object}?at={away}")).await;
    assert_eq!((&then["object"]["data"]["size"], &then["certain"]), (&json!("1"), &json!(false)), "{then}");
    let changed = page.json(&format!("events?namespace={}&kind=cm&name=flags&limit=1", ns.name())).await;
    let (event, seen) = (&changed["events"][0]["id"], &changed["events"][0]["time"]);
    assert_eq!((&then["doubt"]["event"], &then["doubt"]["until"]), (event, seen), "{then}");
    let since: jiff::Timestamp = then["doubt"]["since"].as_str().unwrap().parse().unwrap();
    assert!(since >= watching && since <= away, "{then}");
    assert!(at(&away).contains("# not certain after "), "{}", at(&away));
    assert!(!at(&watching).contains("not certain"), "{}", at(&watching));
    for time in [watching.to_string(), seen.as_str().unwrap().to_owned()] {
        let known = page.json(&format!("{object}?at={time}")).await;
        assert_eq!(known["certain"], true, "{known}");
    }
    let left = page.json(&format!("{object}?event={}", event.as_str().unwrap())).await;
    assert_eq!(left["object"]["data"]["size"], "2");

    // Of what is not watched any more nothing is made up.
    let others = config(&[ns.name()], port, "").replace("\"v1/configmaps\", ", "");
    kubediff.reconfigure(&others).await;
    poll(PATIENCE, "it to be said", async || (page.get(&object).await.status() == 410).then_some(())).await;
    kubediff.stop().await;
}

#[tokio::test]
async fn while_a_watch_is_broken_what_its_objects_are_is_uncertain_and_others_are_not() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("broken").await;
    let proxy = Proxy::start(cluster.access());
    let port = free_port();
    let dir = tempfile::tempdir().unwrap();
    let mut kubediff = Kubediff::new(&proxy.kubeconfig(dir.path()), &config(&[ns.name()], port, ""));
    kubediff.start().await;
    let page = Page::at(port);
    cluster.kubectl(&["create", "cm", "flags", "--from-literal=size=1", "-n", ns.name()]).await;
    cluster.kubectl(&["create", "secret", "generic", "key", "--from-literal=a=b", "-n", ns.name()]).await;
    let flags = format!("objects/core/v1/configmaps/{}/flags", ns.name());
    let key = format!("objects/core/v1/secrets/{}/key", ns.name());
    let known = async |path: &str, certain: bool| {
        poll(PATIENCE, format!("{path} to be certain: {certain}"), async || {
            let answer: Value = page.get(path).await.json().await.ok()?;
            (answer["certain"] == certain).then_some(answer)
        })
        .await
    };
    known(&flags, true).await;
    known(&key, true).await;
    for matching in [Matching::watches("configmaps"), Matching::lists("configmaps")] {
        proxy.fault(matching, Fault::answer(503));
    }
    proxy.cut(&Matching::watches("configmaps"));
    cluster.kubectl(&["patch", "cm", "flags", "-n", ns.name(), "-p", r#"{"data":{"size":"2"}}"#]).await;
    let broken = known(&flags, false).await;
    assert_eq!(broken["object"]["data"]["size"], "1", "{broken}");
    assert!(broken["doubt"]["reason"].as_str().unwrap().contains("cannot be watched"), "{broken}");
    assert_eq!(page.json(&key).await["certain"], true, "another watch is well");
    let then = jiff::Timestamp::now();
    proxy.heal();
    poll(PATIENCE, "the change to be seen", async || {
        (page.json(&flags).await["object"]["data"]["size"] == "2").then_some(())
    })
    .await;
    let later = known(&format!("{flags}?at={then}"), false).await;
    assert_eq!(later["object"]["data"]["size"], "1", "{later}");
    assert!(later["doubt"]["event"].is_string(), "{later}");
    known(&flags, true).await;
    assert_eq!(page.json(&format!("{key}?at={then}")).await["certain"], true);
    kubediff.stop().await;
}

#[tokio::test]
async fn a_change_is_streamed_found_blamed_and_can_be_undone_by_the_command_that_is_shown() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("look").await;
    let port = free_port();
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config(&[ns.name()], port, ""));
    kubediff.start().await;
    let page = Page::at(port);
    let mut stream = page.get(&format!("stream?namespace={}", ns.name())).await;
    cluster.kubectl(&["create", "deployment", "web", "--image=nginx:1.25", "-n", ns.name()]).await;
    cluster.kubectl(&["set", "image", "deployment/web", "nginx=nginx:1.27", "-n", ns.name()]).await;
    let mut text = String::new();
    while !text.contains("nginx:1.27") {
        let chunk = tokio::time::timeout(PATIENCE, stream.chunk()).await.expect("it is streamed").unwrap();
        text.push_str(&String::from_utf8_lossy(&chunk.expect("the stream goes on")));
    }
    let path = format!("events?kind=deploy&namespace={}&type=updated&hand=true&q=image%20nginx&since=1h", ns.name());
    let found = page.json(&path).await;
    let row = &found["events"][0];
    assert_eq!(row["managers"], json!(["kubectl-set"]), "{found}");
    let one = page.json(&format!("events/{}", row["id"].as_str().unwrap())).await;
    let image = "/spec/template/spec/containers/0/image";
    assert_eq!(one["before"].pointer(image).unwrap(), "nginx:1.25");
    assert_eq!(one["after"].pointer(image).unwrap(), "nginx:1.27");
    assert_eq!(one["routes"]["sinks"], json!(["log"]));
    let object = format!("objects/apps/v1/deployments/{}/web", ns.name());
    let blame = page.json(&format!("{object}/blame")).await;
    let line = blame["lines"].as_array().unwrap().iter().find(|line| line["path"] == image).unwrap();
    assert_eq!((&line["manager"], &line["event"], &line["hand"]), (&json!("kubectl-set"), &row["id"], &json!(true)));
    let replicas = blame["lines"].as_array().unwrap().iter().find(|line| line["path"] == "/spec/replicas").unwrap();
    assert_eq!(replicas["manager"], "kubectl-create");

    // The words of the command, as a shell would take them apart.
    let undo = one["undo"].as_str().unwrap();
    let (words, patch) = undo.split_once(" -p ").unwrap();
    let mut args: Vec<&str> = words.split(' ').skip(1).collect();
    args.extend(["-p", patch.trim_matches('\'')]);
    cluster.kubectl(&args).await;
    poll(PATIENCE, "the old image is back", async || {
        let now = page.json(&object).await;
        (now["object"].pointer(image)? == "nginx:1.25").then_some(())
    })
    .await;
    let again = cluster.try_run("kubectl", &args).await;
    assert!(!again.status.success(), "it has been changed since: nothing is undone twice");
    let status = page.json("status").await;
    assert_eq!(status["synced"], true);
    assert!(status["informers"].as_array().unwrap().iter().all(|i| i["state"] == "live"), "{status}");
    kubediff.stop().await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_said_and_ends_the_program() {
    let cluster = harness::cluster().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config(&["default"], port, ""));
    kubediff.spawn();
    poll(PATIENCE, "it has ended", async || kubediff.died().then_some(())).await;
    let log = std::fs::read_to_string(kubediff.log()).unwrap();
    assert!(log.contains(&format!("cannot listen for the page on 127.0.0.1:{port}")), "{log}");
    assert!(log.contains("server.page"), "{log}");
}
