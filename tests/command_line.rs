//! The program as a shell sees it: version, help, log, signals and exit codes.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

use crate::harness::{PATIENCE, guard::send, poll};

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
    let wrong = kubediff(&["wait"]).env("KUBEDIFF_LOG", "kubediff=loud").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("KUBEDIFF_LOG"), "{}", text(&wrong.stderr));
}

/// `kubediff wait` up to its first line on stderr, and that line.
fn waiting(command: &mut Command) -> (Child, String, BufReader<impl Read + use<>>) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    (child, line, stderr)
}

async fn exit_code(child: &mut Child) -> Option<i32> {
    poll(PATIENCE, "kubediff to end", async || child.try_wait().unwrap()).await.code()
}

#[tokio::test]
async fn the_first_signal_finishes_what_is_under_way() {
    for signal in ["TERM", "INT"] {
        let (mut child, _, mut stderr) = waiting(&mut kubediff(&["wait"]));
        send(signal, child.id());
        assert_eq!(exit_code(&mut child).await, Some(0), "SIG{signal}");
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("finished"), "{rest}");
    }
}

#[tokio::test]
async fn the_second_signal_stops_at_once_with_130() {
    let (mut child, _, mut stderr) = waiting(&mut kubediff(&["wait", "--finish-secs", "600"]));
    send("TERM", child.id());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("SIGTERM"), "{line}");
    assert!(child.try_wait().unwrap().is_none(), "it finishes what is under way");
    send("INT", child.id());
    assert_eq!(exit_code(&mut child).await, Some(130));
}

#[tokio::test]
async fn the_log_is_json_or_text_on_stderr_at_the_level_that_was_asked_for() {
    let (mut child, line, _) = waiting(&mut kubediff(&["--log-format", "json", "wait"]));
    send("KILL", child.id());
    child.wait().unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["level"], &line["message"]), (&Value::from("INFO"), &Value::from("waiting")));

    let (mut child, line, _) = waiting(&mut kubediff(&["wait"]));
    send("KILL", child.id());
    child.wait().unwrap();
    assert!(line.contains("INFO waiting") && !line.contains('\u{1b}'), "no colours off a terminal: {line:?}");

    let (mut child, _, mut stderr) = waiting(kubediff(&["wait"]).env("KUBEDIFF_LOG", "kubediff=debug"));
    send("TERM", child.id());
    assert_eq!(exit_code(&mut child).await, Some(0));
    stderr.read_to_string(&mut String::new()).unwrap();

    let mut quiet = kubediff(&["wait"]).env("KUBEDIFF_LOG", "error").stderr(Stdio::piped()).spawn().unwrap();
    // Nothing tells when a silent program listens; before that SIGTERM ends it just as silently.
    let pid = quiet.id();
    poll(PATIENCE, "kubediff to listen", async || catches_sigterm(pid).then_some(())).await;
    send("TERM", pid);
    assert_eq!(exit_code(&mut quiet).await, Some(0));
    let mut said = String::new();
    quiet.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}

/// From proc(5): SIGTERM, 15, is in the set of caught signals.
fn catches_sigterm(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim();
    u64::from_str_radix(caught, 16).is_ok_and(|set| set & (1 << 14) != 0)
}

#[tokio::test]
async fn a_closed_pipe_is_success() {
    let mut child = kubediff(&["wait", "--chatty"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 8]).unwrap();
    drop(stdout);
    assert_eq!(exit_code(&mut child).await, Some(0));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!said.contains("kubediff:") && !said.contains("panicked"), "{said}");
}
