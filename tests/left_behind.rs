//! Nothing is left of a test run: no process and no folder, however the run ends.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::harness::{
    PATIENCE,
    guard::{Daemon, Directory, alive, run, send, send_to_group},
    poll, tools,
};

/// This test binary as a child with one of its tests, up to the line on stderr that begins with a text.
struct Run {
    child: Child,
    /// Its children, and theirs: the guards and the control plane.
    processes: Vec<u32>,
    names: Vec<String>,
    folder: PathBuf,
}

impl Run {
    fn until(line: &str, test: &str) -> Self {
        // Whoever started this test in the background may have had SIGINT ignored for it and its children.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT").arg(std::env::current_exe().unwrap());
        // A group of its own, so that its Ctrl-C is not ours.
        command.args(["--exact", test]).process_group(0).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let found = lines.find(|said| said.starts_with(line));
        assert!(found.is_some(), "{test} did not say {line:?}");
        // The rest has to be read by someone, or the child may get stuck or die of it.
        std::thread::spawn(move || lines.for_each(drop));
        let processes = descendants(child.id());
        let names = processes.iter().map(|&pid| name(pid)).collect();
        let folder = processes.iter().find_map(|&pid| data_dir(pid)).expect("etcd has a data folder");
        Self { child, processes, names, folder }
    }

    /// The child ends, and so does all that it started. Returns the signal that ended it.
    async fn nothing_is_left(mut self) -> Option<i32> {
        let status = poll(PATIENCE, "the test run to end", async || self.child.try_wait().unwrap()).await;
        let all = self.processes.iter().zip(&self.names);
        poll(PATIENCE, format!("the end of {:?}", self.names), async || {
            all.clone().all(|(&pid, was)| !alive(pid) || name(pid) != *was).then_some(())
        })
        .await;
        let folder = self.folder.display().to_string();
        poll(PATIENCE, format!("{folder} to be gone"), async || (!self.folder.exists()).then_some(())).await;
        status.signal()
    }
}

#[tokio::test]
async fn nothing_is_left_after_ctrl_c_in_the_middle_of_a_run() {
    let run = Run::until("controllers and kwok ready", "rollout::helm_installs_a_chart_and_its_deployment_rolls");
    for server in ["etcd", "kube-apiserver", "kube-controller", "kube-scheduler", "kwok"] {
        assert!(run.names.iter().any(|name| name.starts_with(server)), "{server} runs: {:?}", run.names);
    }
    // The terminal sends it to the whole process group.
    send_to_group("INT", run.child.id());
    assert_eq!(run.nothing_is_left().await, Some(2), "it was ended in the middle");
}

#[tokio::test]
async fn nothing_is_left_after_the_test_binary_is_killed() {
    let run = Run::until("kube-apiserver", "rollout::helm_installs_a_chart_and_its_deployment_rolls");
    send("KILL", run.child.id());
    assert_eq!(run.nothing_is_left().await, Some(9), "it was ended in the middle");
}

#[tokio::test]
async fn nothing_is_left_after_a_run_that_ends_by_itself() {
    let test = "control_plane::every_test_has_a_namespace_of_its_own_that_is_gone_after_it";
    assert_eq!(Run::until("kube-apiserver", test).nothing_is_left().await, None);
}

/// As `make cluster` starts it; `cargo test` builds the examples beside the binary.
#[tokio::test]
async fn the_cluster_to_play_with_says_where_it_is_and_ctrl_c_ends_all_of_it() {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_kubediff")).with_file_name("examples").join("cluster");
    let dir = Directory::create().unwrap();
    let args = ["--default-signal=INT", program.to_str().unwrap()];
    let mut playing = Daemon::start("cluster", dir.path(), Path::new("/usr/bin/env"), args).unwrap();
    let log = dir.path().join("cluster.log");
    let kubeconfig = poll(2 * PATIENCE, "it says where its kubeconfig is", async || {
        let said = std::fs::read_to_string(&log).ok()?;
        said.contains("Ctrl-C ends it").then_some(())?;
        said.lines().find_map(|line| line.trim().strip_prefix("export KUBECONFIG=")).map(PathBuf::from)
    })
    .await;
    let processes: Vec<_> = descendants(playing.pid()).into_iter().map(|pid| (pid, name(pid))).collect();
    for server in ["etcd", "kube-apiserver", "kube-controller", "kube-scheduler", "kwok"] {
        assert!(processes.iter().any(|(_, name)| name.starts_with(server)), "{server} runs: {processes:?}");
    }
    let kubectl = tools::path("kubectl").await.unwrap();
    let mut get = Command::new(kubectl);
    get.arg("--kubeconfig").arg(&kubeconfig).args(["get", "namespaces", "-o", "name"]);
    let answer = run(&mut get).await.unwrap();
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(answer.contains("namespace/kube-system"), "{answer}");

    playing.signal("INT");
    let ended = poll(PATIENCE, "it ends", async || playing.exited()).await;
    assert!(ended.success(), "{ended}: {}", playing.log_tail());
    poll(PATIENCE, format!("the end of {processes:?}"), async || {
        processes.iter().all(|(pid, was)| !alive(*pid) || name(*pid) != *was).then_some(())
    })
    .await;
    poll(PATIENCE, "its folder to be gone", async || (!kubeconfig.exists()).then_some(())).await;
}

/// All processes below one, read from proc(5).
fn descendants(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", found[at])).into_iter().flatten().flatten();
        for task in tasks {
            let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        at += 1;
    }
    found.remove(0);
    found
}

fn name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// The folder of the control plane, from etcd's command line.
fn data_dir(pid: u32) -> Option<PathBuf> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    let flag = line.split('\0').find_map(|argument| argument.strip_prefix("--data-dir="))?;
    PathBuf::from(flag).parent().map(PathBuf::from)
}
