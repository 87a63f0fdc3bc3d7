//! The program as a shell sees it: version, help, log, signals and exit codes.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
};

use serde_json::Value;

use crate::{
    harness::{
        self, Answer, Namespace, PATIENCE, Receiver,
        guard::{self, send},
        poll,
    },
    permissions::Reader,
};

fn kubediff(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubediff"));
    command.args(args).env_remove("KUBEDIFF_LOG").env_remove("KUBEDIFF_LOG_FORMAT").stdin(Stdio::null());
    command
}

fn output(args: &[&str]) -> Output {
    kubediff(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_version_names_the_git_revision() {
    let said = text(&output(&["--version"]).stdout);
    let head = Command::new("git").args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "--short=12", "HEAD"]).output();
    let revision = head.ok().filter(|o| o.status.success()).map_or("unknown".to_owned(), |o| text(&o.stdout));
    assert_eq!(said, format!("kubediff {} ({})\n", env!("CARGO_PKG_VERSION"), revision.trim()));
}

#[test]
fn help_has_examples_and_exit_codes() {
    let help = output(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let help = text(&help.stdout);
    for part in ["Usage: kubediff", "Examples:", "KUBEDIFF_LOG", "--log-format", "Exit codes"] {
        assert!(help.contains(part), "{part} in:\n{help}");
    }
}

#[test]
fn wrong_usage_is_exit_code_2_with_a_hint() {
    let wrong = output(&["--log-formt", "json"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("--log-format"), "{}", text(&wrong.stderr));
    let wrong = kubediff(&["resources"]).env("KUBEDIFF_LOG", "kubediff=loud").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("KUBEDIFF_LOG"), "{}", text(&wrong.stderr));
}

#[tokio::test]
async fn a_state_file_that_may_not_be_written_is_said_at_the_start_with_what_to_do() {
    let cluster = harness::cluster().await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("kubediff.toml");
    // Nobody may make a file in the first, root included; the second is not there.
    for path in ["/sys/kubediff.db", "/does/not/exist/kubediff.db"] {
        std::fs::write(&config, format!("[state]\npath = \"{path}\"\n[server]\nprobes = \"\"\npage = \"\"\n")).unwrap();
        let kubeconfig = cluster.kubeconfig().to_str().unwrap();
        let mut run = kubediff(&["run", "--config", config.to_str().unwrap(), "--kubeconfig", kubeconfig]);
        let ended = tokio::task::spawn_blocking(move || run.output().unwrap()).await.unwrap();
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains(path) && said.contains("writable for this user, or set state.path"), "{said}");
    }
}

/// `kubediff run` on the ConfigMaps of a namespace, with what it says on stderr.
struct Running {
    /// It runs under a guard, which ends as it does.
    guard: Child,
    pid: u32,
    said: mpsc::Receiver<String>,
}

impl Running {
    async fn start(namespace: &Namespace, more: &[(&str, &str)]) -> Self {
        // Its first line is its process id.
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >&2; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_kubediff"), "run"]);
        command.env_remove("KUBEDIFF_LOG").env_remove("KUBEDIFF_LOG_FORMAT");
        command.env("KUBECONFIG", harness::cluster().await.kubeconfig());
        command
            .env("KUBEDIFF__STATE__PATH", "memory")
            .env("KUBEDIFF__SERVER__PROBES", "")
            .env("KUBEDIFF__SERVER__PAGE", "");
        command.env("KUBEDIFF__WATCH__NAMESPACES", namespace.name()).env("KUBEDIFF__WATCH__INCLUDE", "v1/configmaps");
        command.envs(more.iter().copied());
        let mut guard = guard::guarded(&command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(guard.stderr.take().unwrap());
        let mut first = String::new();
        stderr.read_line(&mut first).unwrap();
        let pid = first.trim().parse().unwrap();
        let (say, said) = mpsc::channel();
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| say.send(line)));
        Self { guard, pid, said }
    }

    async fn says(&self, what: &str) -> String {
        poll(PATIENCE, format!("kubediff to say {what}"), async || {
            self.said.try_iter().find(|line| line.contains(what))
        })
        .await
    }

    async fn exit_code(&mut self) -> Option<i32> {
        poll(PATIENCE, "kubediff to end", async || self.guard.try_wait().unwrap()).await.code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

#[tokio::test]
async fn the_first_signal_finishes_what_is_under_way() {
    let ns = harness::cluster().await.namespace("signal").await;
    for signal in ["TERM", "INT"] {
        let mut running = Running::start(&ns, &[]).await;
        running.says("watching").await;
        send(signal, running.pid);
        running.says("finishing what is under way").await;
        assert_eq!(running.exit_code().await, Some(0), "SIG{signal}");
    }
}

#[tokio::test]
async fn the_second_signal_stops_at_once_with_130() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("signal").await;
    let receiver = Receiver::start();
    receiver.answer(Answer::Hang);
    let hook = [("KUBEDIFF__SINKS__HOOK__TYPE", "webhook"), ("KUBEDIFF__SINKS__HOOK__URL", &receiver.url("/"))];
    let mut running = Running::start(&ns, &hook).await;
    running.says("watching").await;
    cluster.kubectl(&["create", "configmap", "a", "-n", ns.name()]).await;
    receiver.wait_for(1, PATIENCE).await;
    send("TERM", running.pid);
    running.says("SIGTERM").await;
    assert!(running.guard.try_wait().unwrap().is_none(), "it finishes what is under way");
    send("INT", running.pid);
    assert_eq!(running.exit_code().await, Some(130));
}

#[tokio::test]
async fn the_log_is_json_or_text_on_stderr_at_the_level_that_was_asked_for() {
    let ns = harness::cluster().await.namespace("log").await;
    let running = Running::start(&ns, &[("KUBEDIFF_LOG_FORMAT", "json")]).await;
    let line: Value = serde_json::from_str(&running.says("watching").await).unwrap();
    assert_eq!((&line["level"], &line["message"]), (&Value::from("INFO"), &Value::from("watching")));

    let running = Running::start(&ns, &[]).await;
    let line = running.says("watching").await;
    assert!(line.contains("INFO") && !line.contains('\u{1b}'), "no colours off a terminal: {line:?}");

    let mut quiet = Running::start(&ns, &[("KUBEDIFF_LOG", "error")]).await;
    // Nothing tells when a silent program listens; before that SIGTERM ends it just as silently.
    let pid = quiet.pid;
    poll(PATIENCE, "kubediff to listen", async || catches_sigterm(pid).then_some(())).await;
    send("TERM", pid);
    assert_eq!(quiet.exit_code().await, Some(0));
    assert_eq!(quiet.said.iter().collect::<Vec<_>>(), [""; 0]);
}

/// From proc(5): SIGTERM, 15, is in the set of caught signals.
fn catches_sigterm(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim();
    u64::from_str_radix(caught, 16).is_ok_and(|set| set & (1 << 14) != 0)
}

#[tokio::test]
async fn a_closed_pipe_is_success() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("pipe").await;
    let mut running = Running::start(&ns, &[]).await;
    running.says("watching").await;
    cluster.kubectl(&["create", "configmap", "a", "-n", ns.name()]).await;
    let mut stdout = running.guard.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 8]).unwrap();
    drop(stdout);
    cluster.kubectl(&["create", "configmap", "b", "-n", ns.name()]).await;
    assert_eq!(running.exit_code().await, Some(0));
    let said: Vec<String> = running.said.iter().collect();
    assert!(!said.iter().any(|line| line.starts_with("kubediff:") || line.contains("panicked")), "{said:?}");
}

#[tokio::test]
async fn resources_says_what_is_watched_what_not_and_why() {
    let cluster = harness::cluster().await;
    let said = kubediff(&["resources", "--kubeconfig", cluster.kubeconfig().to_str().unwrap()]).output().unwrap();
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let said = text(&said.stdout);
    let line = |name: &str| said.lines().find(|line| line.split_whitespace().nth(1) == Some(name)).unwrap_or_default();
    assert!(line("apps/v1/deployments").starts_with("watched"), "{said}");
    assert!(line("v1/events").starts_with("skipped") && line("v1/events").contains("excluded by default"), "{said}");
    assert!(!said.contains("denied") && !said.contains("not permitted"), "{said}");
}

#[tokio::test]
async fn resources_says_what_is_not_permitted() {
    let cluster = harness::cluster().await;
    let (mine, other) = (cluster.namespace("mine").await, cluster.namespace("other").await);
    let reader = Reader::create(cluster, mine.name()).await;
    reader.allow(&["configmaps"]).await;
    let resources = async |namespaces: &str| {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("kubediff.toml");
        let watch = "include = [\"v1/configmaps\", \"v1/secrets\", \"v1/nodes\"]";
        std::fs::write(&config, format!("[watch]\n{watch}\nnamespaces = [{namespaces}]\n")).unwrap();
        let mut command = kubediff(&["resources", "--config"]);
        command.arg(&config).arg("--kubeconfig").arg(&reader.kubeconfig);
        let said = guard::run(&mut command).await.unwrap();
        assert!(said.status.success(), "{}", text(&said.stderr));
        text(&said.stdout)
    };
    let line = |said: &str, name: &str| {
        let line = said.lines().find(|line| line.split_whitespace().nth(1) == Some(name)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = resources(&format!("\"{mine}\"")).await;
    assert_eq!(line(&said, "v1/configmaps"), "watched v1/configmaps ConfigMap included by \"v1/configmaps\"", "{said}");
    let denied = format!("denied v1/secrets Secret included by \"v1/secrets\"; not permitted in {mine}: list, watch");
    assert_eq!(line(&said, "v1/secrets"), denied, "{said}");
    assert!(line(&said, "v1/nodes").starts_with("skipped"), "{said}");
    assert!(said.contains("kubediff rbac"), "{said}");

    let said = resources(&format!("\"{mine}\", \"{other}\"")).await;
    let partly = format!("included by \"v1/configmaps\"; not permitted in {other}: list, watch");
    assert_eq!(line(&said, "v1/configmaps"), format!("watched v1/configmaps ConfigMap {partly}"), "{said}");

    let said = resources("\"all\"").await;
    for name in ["v1/configmaps", "v1/secrets", "v1/nodes"] {
        assert!(line(&said, name).starts_with("denied") && said.contains("not permitted: list, watch"), "{said}");
    }
    let said = resources("\"mi*\"").await;
    assert!(said.contains("which namespaces there are") && said.contains("forbidden"), "{said}");
}

#[test]
fn a_wrong_configuration_is_exit_code_2_and_a_missing_cluster_1() {
    let wrong = kubediff(&["run"]).env("KUBEDIFF__WATCH__SECRETS", "maybe").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong.stderr));
    assert!(text(&wrong.stderr).contains("KUBEDIFF__WATCH__SECRETS"), "{}", text(&wrong.stderr));
    let lost = kubediff(&["watch", "--kubeconfig", "/does/not/exist"]).output().unwrap();
    assert_eq!(lost.status.code(), Some(1));
    assert!(text(&lost.stderr).contains("/does/not/exist"), "{}", text(&lost.stderr));
}
