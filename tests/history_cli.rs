//! The command line over history: what happened, who did it, how it was, and how to take it back.

mod explained;
mod forwarded;

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use kubediff::{
    cluster::Resource,
    redact::{self, Door},
};
use serde_json::{Value, json};

use crate::{
    delivery::daemon::Kubediff,
    harness::{self, Namespace, PATIENCE, Receiver, cluster::free_port, poll, tools},
};

fn kubediff(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubediff"));
    for name in ["KUBEDIFF_LOG", "KUBEDIFF_CONFIG", "KUBEDIFF_SERVER", "KUBEDIFF_TOKEN", "KUBECONFIG"] {
        command.env_remove(name);
    }
    command.args(args).env("TZ", "UTC").stdin(Stdio::null()).output().unwrap()
}

/// What it printed; fails the test when it fails.
fn said(args: &[&str]) -> String {
    let output = kubediff(args);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "kubediff {}: {stderr}", args.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

/// The events of an object, the newest first.
fn events(of: &[&str]) -> Vec<Value> {
    let args = [&["history"], of, &["-o", "json"]].concat();
    let output = kubediff(&args);
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until so many are recorded.
async fn recorded(of: &[&str], n: usize) -> Vec<Value> {
    poll(PATIENCE, format!("{n} events of {of:?}"), async || Some(events(of)).filter(|events| events.len() >= n)).await
}

/// An object of the API server as kubediff keeps it.
async fn document(ns: &Namespace, resource: &Resource, name: &str) -> Value {
    let text = harness::cluster().await.kubectl(&["get", &resource.plural, name, "-n", ns.name(), "-o", "json"]).await;
    let door = Door::new(&redact::Settings::default(), &[0; 32]).unwrap();
    door.admit(resource, text.as_bytes()).unwrap().value()
}

/// No controller writes to them while there is nothing to do: all that happens is what the test does.
fn cron_jobs() -> Resource {
    Resource { group: "batch".into(), ..Resource::core("v1", "cronjobs", "CronJob") }
}

fn cron_job() -> String {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "web", "image": "nginx:1.25"}]});
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "web", "labels": {"app": "web"}},
           "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": {"spec": pod}}}}})
    .to_string()
}

/// Runs a command line that kubediff printed, as a person would.
async fn run(line: &str) {
    let output = shell(line).await;
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

async fn succeeds(line: &str) -> bool {
    shell(line).await.status.success()
}

async fn shell(line: &str) -> Output {
    let kubectl = tools::path("kubectl").await.unwrap();
    let path = format!("{}:{}", kubectl.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).env("PATH", path).env("KUBECONFIG", harness::cluster().await.kubeconfig());
    harness::guard::run(&mut shell).await.unwrap()
}

fn config(ns: &Namespace, more: &str) -> String {
    format!(
        "[watch]\nnamespaces = [\"{}\"]\ninclude = [\"batch/cronjobs\", \"v1/configmaps\"]\n\
         [server]\nprobes = \"\"\n{more}",
        ns.name()
    )
}

fn text<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[tokio::test]
async fn history_tells_what_happened_who_did_it_how_it_was_and_how_to_take_it_back() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("looking").await;
    let mut daemon = Kubediff::new(cluster.kubeconfig(), &config(&ns, "page = \"\"\n[sinks.log]\ntype = \"stdout\"\n"));
    daemon.start().await;
    let state = daemon.state();
    let (ns_name, state) = (ns.name(), state.to_str().unwrap());
    let at = ["-n", ns_name, "--state", state];
    let with = |args: &[&'static str]| [args, &at].concat();
    let web = with(&["cj/web"]);

    cluster.apply(ns_name, &cron_job()).await;
    recorded(&web, 1).await;
    let first = document(&ns, &cron_jobs(), "web").await;
    let then = jiff::Timestamp::now().to_string();
    cluster.kubectl(&["set", "image", "cronjob/web", "web=nginx:1.27", "-n", ns_name]).await;
    recorded(&web, 2).await;
    cluster.kubectl(&["patch", "cronjob", "web", "-n", ns_name, "-p", r#"{"spec":{"suspend":true}}"#]).await;
    let events = recorded(&web, 3).await;
    let kinds: Vec<&str> = events.iter().map(|event| text(event, "/type")).collect();
    assert_eq!(kinds, ["updated", "updated", "created"]);

    // However it is named, and as a table.
    assert_eq!(self::events(&with(&["cronjobs.batch", "web"])).len(), 3);
    assert_eq!(self::events(&with(&["CronJob/web", "--type", "created"])).len(), 1);
    assert_eq!(self::events(&with(&["cj", "-l", "app=web", "--limit", "2"])).len(), 2);
    assert_eq!(self::events(&with(&["cj", "-l", "app=db"])).len(), 0);
    assert_eq!(self::events(&with(&["cm/web"])).len(), 0);
    let table = said(&[&["history"], web.as_slice()].concat());
    assert!(table.lines().nth(1).unwrap().contains(&format!("CronJob {ns_name}/web")), "{table}");

    // One of them, by the beginning of its id.
    let image = &events[1];
    let id = &text(image, "/id")[..10];
    let shown = said(&["show", id, "--state", state]);
    assert!(shown.contains("nginx:1.25") && shown.contains("nginx:1.27") && shown.contains("kubectl-set"), "{shown}");
    let diff = said(&["show", id, "-o", "diff", "--state", state]);
    assert!(diff.contains("+") && diff.contains("image: nginx:1.27"), "{diff}");

    // As it was.
    let was = said(&with(&["at", "cj/web", "-o", "json"]).iter().copied().chain([then.as_str()]).collect::<Vec<_>>());
    assert_eq!(serde_json::from_str::<Value>(&was).unwrap(), first);
    let long_ago = kubediff(&with(&["at", "cj/web", "1d"]));
    assert_eq!(long_ago.status.code(), Some(1), "nothing is known of the time before");

    // Who set what.
    let blame = said(&with(&["blame", "cj/web"]));
    let line = blame.lines().find(|line| line.contains("image: nginx:1.27")).unwrap();
    assert!(line.starts_with(id) && line.contains("kubectl-set*"), "{line}");

    for (word, hint) in [("cronjbo", "; did you mean `cronjob`?"), ("nosuchkind", "")] {
        let nobody = kubediff(&with(&["history", word]));
        assert_eq!(nobody.status.code(), Some(1), "{nobody:?}");
        let told = String::from_utf8_lossy(&nobody.stderr).into_owned();
        assert_eq!(told, format!("kubediff: no kind {word:?} is known here{hint}\n"));
    }
    assert_eq!(said(&with(&["history", "nosuch*"])), "", "a pattern may mean none");

    // Back: the older change alone, then the newer; what is left is the beginning.
    let machine: Value = serde_json::from_str(&said(&["undo", id, "-o", "json", "--state", state])).unwrap();
    assert_eq!(format!("{}\n", text(&machine, "/command")), said(&["undo", id, "--state", state]));
    assert!(machine["patch"].as_array().unwrap().iter().any(|step| step["value"] == "nginx:1.25"), "{machine:#}");
    run(&said(&["undo", id, "--state", state])).await;
    let events = recorded(&web, 4).await;
    assert_eq!(document(&ns, &cron_jobs(), "web").await["spec"]["suspend"], true, "the other change stays");
    run(&said(&["undo", text(&events[1], "/id"), "--state", state])).await;
    assert_eq!(document(&ns, &cron_jobs(), "web").await["spec"], first["spec"]);
    let created = kubediff(&["undo", text(&events[3], "/id"), "--state", state]);
    assert_eq!(created.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&created.stderr).contains("kubectl delete cronjobs.batch/web"), "{created:?}");

    quotes_survive_the_shell(&ns, Path::new(state)).await;
    a_configuration_is_tried_on_what_was_recorded(&ns, state, text(&events[0], "/id"));
    daemon.stop().await;
    assert_eq!(self::events(&web).len(), 5, "no daemon is needed to look");
}

async fn quotes_survive_the_shell(ns: &Namespace, state: &Path) {
    let nasty = "it's \"so\" $HOME `id` \\ \n new line; echo ä";
    let cluster = harness::cluster().await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "nasty"}, "data": {"k": nasty}});
    cluster.apply(ns.name(), &map.to_string()).await;
    let of = ["cm/nasty", "-n", ns.name(), "--state", state.to_str().unwrap()];
    recorded(&of, 1).await;
    let resource = Resource::core("v1", "configmaps", "ConfigMap");
    let before = document(ns, &resource, "nasty").await;
    cluster.kubectl(&["patch", "cm", "nasty", "-n", ns.name(), "-p", r#"{"data":{"k":"plain"}}"#]).await;
    let events = recorded(&of, 2).await;
    run(&said(&["undo", text(&events[0], "/id"), "--state", state.to_str().unwrap()])).await;
    assert_eq!(document(ns, &resource, "nasty").await["data"], before["data"]);
    cluster.kubectl(&["delete", "cm", "nasty", "-n", ns.name()]).await;
    let events = recorded(&of, 4).await;
    let deleted = kubediff(&["undo", text(&events[0], "/id"), "--state", state.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&deleted.stderr).contains("kubediff at configmaps/nasty"), "{deleted:?}");
    let blamed = |at: &[&str]| kubediff(&[&["blame"], &of[..], at].concat());
    assert_eq!(blamed(&[]).status.code(), Some(1));
    let told = String::from_utf8(blamed(&[]).stderr).unwrap();
    assert_eq!(told, format!("kubediff: ConfigMap {}/nasty is gone; give --at TIME, when it was there\n", ns.name()));
    let before = blamed(&["--at", text(&events[1], "/time")]);
    assert!(before.status.success() && String::from_utf8_lossy(&before.stdout).contains("data:"), "{before:?}");
}

fn a_configuration_is_tried_on_what_was_recorded(ns: &Namespace, state: &str, id: &str) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("new.toml");
    let routes = "page = \"\"\n[sinks.jobs]\ntype = \"stdout\"\n[sinks.rest]\ntype = \"stdout\"\n\
                  [[routes]]\nmatch = { names = [\"kube-root-ca.crt\"] }\ndrop = \"not ours\"\n\
                  [[routes]]\nname = \"d\"\nmatch = { kinds = [\"CronJob\"] }\nsinks = [\"jobs\"]\n\
                  [[routes]]\nname = \"r\"\nmatch = { types = [\"deleted\"] }\nsinks = [\"rest\"]\n";
    std::fs::write(&file, config(ns, routes)).unwrap();
    let file = file.to_str().unwrap();
    let replay = said(&["replay", "--since", "1h", "--config", file, "--state", state, "-o", "json"]);
    let replay: Value = serde_json::from_str(&replay).unwrap();
    assert_eq!(replay["sinks"], json!({"jobs": 5, "rest": 1}), "{replay:#}");
    assert_eq!(replay["dropped"]["no_route"], 3, "{replay:#}");
    let per_hour: u64 = replay["hours"].as_array().unwrap().iter().map(|h| h["sinks"]["jobs"].as_u64().unwrap()).sum();
    assert_eq!(per_hour, 5);
    // What it would not have watched, or taken for noise, goes to nobody.
    let tried = |watch: &str| -> Value {
        std::fs::write(file, format!("{watch}\n[server]\n{routes}")).unwrap();
        let said = said(&["replay", "--since", "1h", "--config", file, "--state", state, "-o", "json"]);
        serde_json::from_str(&said).unwrap()
    };
    let maps = tried("[watch]\ninclude = ['cm', 'Widget']\n");
    assert_eq!((&maps["sinks"]["jobs"], &maps["dropped"]["not_watched"]), (&json!(0), &json!(5)), "{maps:#}");
    assert_eq!(maps["not_replayed"], json!(["watch.include \"Widget\": nothing of it was recorded in this time"]));
    let elsewhere = tried("[watch]\nnamespaces = ['elsewhere']\n");
    assert_eq!(elsewhere["dropped"], json!({"not_watched": elsewhere["events"]}), "{elsewhere:#}");
    let quiet = tried("[noise]\nignore = ['CronJob:/spec/*']\n");
    assert_eq!((&quiet["sinks"]["jobs"], &quiet["dropped"]["noise"]), (&json!(1), &json!(4)), "{quiet:#}");
    let explained = said(&["explain", id, "--config", file, "--state", state]);
    assert!(explained.contains("yes    d\n") && explained.contains("-> jobs (stdout)"), "{explained}");
}

#[tokio::test]
async fn a_running_daemon_is_asked_followed_and_silenced() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("asking").await;
    let receiver = Receiver::start();
    let page = free_port();
    let hook = format!("[sinks.hook]\ntype = \"webhook\"\nurl = \"{}\"\n", receiver.url("/"));
    let sinks = format!("page = \"127.0.0.1:{page}\"\n{hook}");
    let mut daemon = Kubediff::new(cluster.kubeconfig(), &config(&ns, &sinks));
    daemon.start().await;
    let server = format!("http://127.0.0.1:{page}");
    let of = ["cm/flags", "-n", ns.name(), "--server", &server];
    cluster.kubectl(&["create", "cm", "flags", "--from-literal=a=1", "-n", ns.name()]).await;
    recorded(&of, 1).await;

    let dir = tempfile::tempdir().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_kubediff"));
    let follow = ["tail", "cm", "-n", ns.name(), "--server", &server, "--lines", "0", "-o", "json"];
    let tail = harness::guard::Daemon::start("tail", dir.path(), binary, follow).unwrap();
    // It may begin to follow a moment after the first change: so there are some, until one is seen.
    let mut n = 1;
    let line = poll(PATIENCE, "tail tells of a change", async || {
        n += 1;
        let patch = json!({"data": {"a": n.to_string()}}).to_string();
        cluster.kubectl(&["patch", "cm", "flags", "-n", ns.name(), "-p", &patch]).await;
        let log = std::fs::read_to_string(dir.path().join("tail.log")).ok()?;
        log.lines().next().map(str::to_owned)
    })
    .await;
    let event: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(text(&event, "/resource/name"), "flags");
    drop(tail);

    let id = text(&event, "/id").to_owned();
    assert!(said(&["show", &id[..10], "--server", &server]).contains("data.a"));
    assert!(said(&["blame", "cm", "flags", "-n", ns.name(), "--server", &server]).contains("kubectl"));
    assert!(said(&["at", "cm/flags", "now", "-n", ns.name(), "--server", &server]).contains("a: "));
    assert!(said(&["undo", &id, "--server", &server]).starts_with("kubectl patch configmaps flags -n "));
    let unknown = kubediff(&["show", "0123456789abcdef", "--server", &server]);
    assert_eq!(unknown.status.code(), Some(1));

    let n_of = |what: &str| receiver.accepted().iter().filter(|r| text(&r.json(), "/resource/name") == what).count();
    let silence = ["silence", "cm/quiet", "-n", ns.name(), "--for", "1h", "--reason", "works", "--server", &server];
    assert!(said(&silence).contains(&format!("holds in {} until", ns.name())));
    let slip = kubediff(&[&silence[..], &["--sink", "hok"]].concat());
    let told = String::from_utf8_lossy(&slip.stderr).into_owned();
    assert!(
        !slip.status.success() && told.contains("there is no sink `hok`; expected one of hook; did you mean `hook`?"),
        "{told}"
    );
    let file = daemon.state();
    let straight = ["silence", "cm/other", "--for", "1m", "--reason", "x", "--state", file.to_str().unwrap()];
    let slip = kubediff(&[&straight[..], &["--sink", "hok"]].concat());
    let told = String::from_utf8_lossy(&slip.stderr).into_owned();
    assert!(!slip.status.success() && told.contains("did you mean `hook`?"), "{told}");
    let everywhere = said(&[&straight[..], &["--sink", "hook"]].concat());
    assert!(everywhere.contains("holds in every namespace until"), "{everywhere}");
    said(&["silence", "end", everywhere.split(' ').nth(1).unwrap(), "--server", &server]);
    let listed = said(&["silence", "list", "--server", &server]);
    let row = listed.lines().nth(1).unwrap();
    assert!(row.contains("ConfigMap/quiet") && row.contains("works"), "{listed}");
    cluster.kubectl(&["create", "cm", "quiet", "-n", ns.name()]).await;
    cluster.kubectl(&["create", "cm", "loud", "-n", ns.name()]).await;
    poll(PATIENCE, "the other one is told", async || (n_of("loud") == 1).then_some(())).await;
    assert_eq!(n_of("quiet"), 0, "and this one is not");
    assert_eq!(recorded(&["cm/quiet", "-n", ns.name(), "--server", &server], 1).await.len(), 1, "but it is recorded");
    let number = row.split_whitespace().next().unwrap();
    said(&["silence", "end", number, "--server", &server]);
    cluster.kubectl(&["delete", "cm", "quiet", "-n", ns.name()]).await;
    poll(PATIENCE, "it is told again", async || (n_of("quiet") == 1).then_some(())).await;
    daemon.stop().await;
}

/// A CronJob with two containers, of which both change at once.
#[tokio::test]
async fn what_is_undone_is_what_was_changed_or_nothing() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("undoing").await;
    let mut daemon = Kubediff::new(cluster.kubeconfig(), &config(&ns, "page = \"\"\n[sinks.log]\ntype = \"stdout\"\n"));
    daemon.start().await;
    let state = daemon.state();
    let (n, state) = (ns.name(), state.to_str().unwrap());
    let web = ["cj/web", "-n", n, "--state", state];
    let mut manifest: Value = serde_json::from_str(&cron_job()).unwrap();
    let containers = "/spec/jobTemplate/spec/template/spec/containers";
    let list = manifest.pointer_mut(containers).unwrap().as_array_mut().unwrap();
    list.push(json!({"name": "side", "image": "busybox:1"}));
    cluster.apply(n, &manifest.to_string()).await;
    recorded(&web, 1).await;
    let first = document(&ns, &cron_jobs(), "web").await;
    cluster.kubectl(&["set", "image", "cronjob/web", "web=nginx:1.27", "side=busybox:2", "-n", n]).await;
    let images = recorded(&web, 2).await;
    let undo = said(&["undo", text(&images[0], "/id"), "--state", state]);

    // Somebody puts a container in front: the numbers mean others now.
    let patch = |patch: Value| {
        let patch = patch.to_string();
        async move { cluster.kubectl(&["patch", "cj", "web", "-n", n, "--type=json", "-p", &patch]).await }
    };
    let container = json!({"name": "init", "image": "init:1"});
    patch(json!([{"op": "add", "path": format!("{containers}/0"), "value": container}])).await;
    let before = document(&ns, &cron_jobs(), "web").await;
    assert!(!succeeds(&undo).await, "{undo}");
    assert_eq!(document(&ns, &cron_jobs(), "web").await, before, "nothing of it was done");
    patch(json!([{"op": "remove", "path": format!("{containers}/0")}])).await;
    // Of the second one alone the image is another one.
    patch(json!([{"op": "replace", "path": format!("{containers}/1/image"), "value": "busybox:3"}])).await;
    assert!(!succeeds(&undo).await, "{undo}");
    patch(json!([{"op": "replace", "path": format!("{containers}/1/image"), "value": "busybox:2"}])).await;
    run(&undo).await;
    assert_eq!(document(&ns, &cron_jobs(), "web").await["spec"], first["spec"]);

    // A label that was taken away and set again since stays as it is.
    let known = self::events(&web).len();
    cluster.kubectl(&["label", "cj", "web", "app-", "-n", n]).await;
    let events = poll(PATIENCE, "the label to go", async || {
        let events = self::events(&web);
        (events.len() > known && text(&events[0], "/changes/0/path") == "/metadata/labels").then_some(events)
    })
    .await;
    let undo = said(&["undo", text(&events[0], "/id"), "--state", state]);
    cluster.kubectl(&["label", "cj", "web", "app=other", "-n", n]).await;
    assert!(!succeeds(&undo).await, "{undo}");
    cluster.kubectl(&["label", "cj", "web", "app-", "-n", n]).await;
    run(&undo).await;
    assert_eq!(document(&ns, &cron_jobs(), "web").await["metadata"]["labels"], json!({"app": "web"}));
    daemon.stop().await;
}

#[test]
fn the_variable_for_a_server_does_not_stand_in_the_way_of_a_file_or_an_installed_one() {
    let dir = tempfile::tempdir().unwrap();
    let none = dir.path().join("none.db");
    let told = |url: &str, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubediff"));
        command.env("KUBEDIFF_SERVER", url).env("KUBECONFIG", dir.path().join("none")).current_dir(dir.path());
        let output = command.args(["history"]).args(args).stdin(Stdio::null()).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    for url in ["http://127.0.0.1:1", ""] {
        let file = told(url, &["--state", none.to_str().unwrap()]);
        assert!(file.contains("none.db does not exist"), "{file}");
        let installed = told(url, &["--in", "tools"]);
        assert!(installed.contains("no way to an installed kubediff"), "{installed}");
    }
    let set = told("http://127.0.0.1:1", &[]);
    assert!(set.contains("cannot reach a kubediff at http://127.0.0.1:1"), "{set}");
    let empty = told("", &[]);
    assert!(empty.contains("there is no state file here"), "{empty}");
    assert!(said(&["history", "--help"]).contains("[env: KUBEDIFF_SERVER]"));
}

#[test]
fn a_plugin_of_kubectl_and_completions_of_shells() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = dir.path().join("kubectl-kubediff");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubediff"), &plugin).unwrap();
    let help = Command::new(&plugin).args(["history", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("Usage: kubectl kubediff history"), "{help}");
    assert!(help.contains("Examples:"), "{help}");
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = said(&["completions", shell]);
        assert!(script.contains("dead-letters") && script.contains("blame"), "{shell}");
    }
}
