//! `kubediff record`: what it writes down plays as it happened, and holds no secret.

use std::{collections::BTreeMap, path::Path};

use regex::Regex;
use serde_json::Value;

use crate::{
    demo::Demo,
    harness::{self, PATIENCE, guard::Daemon, poll},
    leaks::search::Planted,
    watch::program::Program,
};

const SECRETS: [&str; 3] = ["s3cr-first-hunter2", "s3cr-second-hunter2", "s3cr-env-hunter2"];

/// What an event says, without what differs by the keys of masks and by the time of play.
fn told(event: &Value) -> String {
    let mut told = event.clone();
    let fields = told.as_object_mut().expect("an object");
    fields.retain(|field, _| !matches!(field.as_str(), "id" | "time" | "cluster"));
    for actor in told["actors"].as_array_mut().into_iter().flatten() {
        actor["time"] = Value::Null;
    }
    let masks = Regex::new("hmac:[0-9a-f]{12}").expect("a pattern");
    let times = Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").expect("a pattern");
    let ages = Regex::new(r"\(after [^)]*\)|after \d+ s\w*").expect("a pattern");
    let text = masks.replace_all(&told.to_string(), "MASK").into_owned();
    let text = times.replace_all(&text, "TIME").into_owned();
    ages.replace_all(&text, "AGE").into_owned()
}

/// What the test makes; controllers put more into every namespace, before one of the two looks or after.
const OURS: [&str; 4] = ["there-before", "gone-later", "web", "conf"];

/// By object, since there is no order between them.
fn by_object(events: &[Value]) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in events.iter().filter(|event| OURS.iter().any(|name| event["resource"]["name"] == *name)) {
        let object = format!("{} {}", event["resource"]["kind"], event["resource"]["name"]);
        all.entry(object).or_default().push(told(event));
    }
    all
}

#[tokio::test]
async fn a_recording_gives_the_events_that_the_cluster_gave_and_holds_no_secret() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("record").await;
    let ns = namespace.name();
    let kubectl = async |args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["-n", ns]).collect();
        cluster.kubectl(&args).await;
    };
    let value = |secret: &str| format!("--from-literal=password={secret}");
    kubectl(&["create", "secret", "generic", "there-before", &value(SECRETS[0])]).await;
    kubectl(&["create", "configmap", "gone-later", "--from-literal=a=1"]).await;

    let live = Program::watch(cluster.kubeconfig(), &["-o", "json", "-n", ns]).await;
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("a.recording.zst");
    let (kubeconfig, path) = (cluster.kubeconfig().to_string_lossy(), file.to_string_lossy());
    let args = ["record", "--kubeconfig", &kubeconfig, "-n", ns, "-o", &path];
    let kubediff = Path::new(env!("CARGO_BIN_EXE_kubediff"));
    let mut recorder = Daemon::start("record", dir.path(), kubediff, args).expect("it starts");
    poll(PATIENCE, "it to record", async || recorder.log_tail().contains(" recording ").then_some(())).await;
    assert!(!file.exists(), "what has the name is whole");

    let patch = format!(r#"{{"stringData":{{"password":"{}"}}}}"#, SECRETS[1]);
    kubectl(&["patch", "secret", "there-before", "-p", &patch]).await;
    // No controller changes it by itself, as it does a Deployment.
    kubectl(&["create", "cronjob", "web", "--image=nginx:1.25", "--schedule=0 0 1 1 *"]).await;
    kubectl(&["set", "image", "cronjob/web", "web=nginx:1.27"]).await;
    kubectl(&["set", "env", "cronjob/web", &format!("DB_PASSWORD={}", SECRETS[2])]).await;
    kubectl(&["create", "configmap", "conf", "--from-literal=a.conf=one\ntwo\n"]).await;
    kubectl(&["delete", "configmap", "gone-later"]).await;
    kubectl(&["annotate", "configmap", "conf", "example.com/last=one"]).await;
    let last = |events: &[Value]| events.iter().any(|event| event.to_string().contains("example.com/last"));
    poll(PATIENCE, "the last change to be told", async || last(&live.events()).then_some(())).await;
    recorder.signal("INT");
    let ended = poll(PATIENCE, "the recording to end", async || recorder.exited()).await;
    let said = recorder.log_tail();
    assert!(ended.success() && said.contains("changes in") && said.contains("kubediff demo"), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("the folder").count(), 2, "the file and the log");

    let text = zstd::stream::decode_all(std::fs::File::open(&file).expect("a file")).expect("it is whole");
    let mut planted = Planted::new(SECRETS.map(str::to_owned).iter());
    planted.add(&cluster.access().token);
    planted.absent("the recording", &text);
    planted.absent("its log", said.as_bytes());
    planted.finish();
    assert!(memchr::memmem::find(&text, b"hmac:").is_some(), "the masks are there");

    let mut played = Demo::start(&["-o", "json", "--speed", "50", "--no-page", &path]);
    poll(PATIENCE, "the last change to be played", async || last(&played.events()).then_some(())).await;
    let wanted = by_object(&live.events());
    let count = |all: &BTreeMap<String, Vec<String>>| all.values().map(Vec::len).sum::<usize>();
    let found = poll(PATIENCE, "all to be played", async || {
        Some(by_object(&played.events())).filter(|found| count(found) >= count(&wanted))
    })
    .await;
    for (object, events) in &wanted {
        assert_eq!(found.get(object), Some(events), "{object}");
    }
    assert_eq!(found.len(), wanted.len());
    played.interrupt().await;

    let refused = std::process::Command::new(kubediff).args(args).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2), "a recording that is there is left alone");
}
