//! Child processes that cannot outlive the test run.
//!
//! Each runs under a small shell, its guard, which holds the read end of a pipe from this process. When the write end
//! closes, because it was dropped or because this process is gone (by panic, Ctrl-C or kill -9), the guard kills its
//! child. See `docs/decisions/0003-guard-processes.md`.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

/// `$1` is the child's log file, "" for a child that keeps our stdout and stderr; the rest is the command.
const GUARD: &str = r#"
log=$1; shift
exec 3<&0 </dev/null
if [ -n "$log" ]; then "$@" 3<&- >>"$log" 2>&1 & else "$@" 3<&- & fi
pid=$!
(read -r _ <&3; kill -9 $pid) >/dev/null 2>&1 &
watch=$!
exec 3<&- 2>/dev/null
[ -z "$log" ] || { echo $pid; exec >&-; }
wait $pid; code=$?
kill -9 $watch
exit $code
"#;

/// `$1` is a folder to remove at the end. The processes that write to it die at the same moment, hence the retries.
const SWEEPER: &str = r#"
read -r _
n=0
until rm -rf "$1" 2>/dev/null; do n=$((n + 1)); [ $n -lt 200 ] || exit 1; sleep 0.05; done
"#;

/// A server that runs until it is dropped.
pub struct Daemon {
    name: String,
    pid: u32,
    log: PathBuf,
    guard: Child,
    /// The end that the guard waits on. `None` once it was told to kill.
    leash: Option<ChildStdin>,
}

impl Daemon {
    /// Starts `program`; what it prints goes to `<dir>/<name>.log`.
    pub fn start<S: AsRef<OsStr>>(
        name: &str,
        dir: &Path,
        program: &Path,
        args: impl IntoIterator<Item = S>,
    ) -> std::io::Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let mut guard =
            shell(GUARD).arg(&log).arg(program).args(args).current_dir(dir).stdout(Stdio::piped()).spawn()?;
        let leash = guard.stdin.take();
        let mut line = String::new();
        BufReader::new(guard.stdout.take().expect("stdout is piped")).read_line(&mut line)?;
        let pid =
            line.trim().parse().map_err(|_| std::io::Error::other(format!("the guard of {name} said {line:?}")))?;
        Ok(Self { name: name.to_owned(), pid, log, guard, leash })
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, when it did so by itself.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.guard.try_wait().ok().flatten()
    }

    /// The last lines that it printed, for the message of a failed test.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        format!("the end of the log of {}:\n{}", self.name, lines[lines.len().saturating_sub(25)..].join("\n"))
    }

    /// Sends SIGSTOP: connections stay open, nothing answers. Returns when all of its threads stand still.
    pub fn pause(&self) {
        self.signal("STOP");
        let deadline = Instant::now() + Duration::from_secs(10);
        while !threads(self.pid).iter().all(|&state| state == 'T') {
            assert!(Instant::now() < deadline, "{} does not stop", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends SIGCONT.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    pub fn signal(&self, signal: &str) {
        send(signal, self.pid);
    }
}

impl Drop for Daemon {
    /// Returns when the process is dead, by SIGKILL, and its ports are free.
    fn drop(&mut self) {
        drop(self.leash.take());
        let _ = self.guard.wait();
    }
}

/// A folder, under the system's temporary one or another, that is removed when it is dropped or this process ends.
pub struct Directory {
    path: PathBuf,
    guard: Child,
    leash: Option<ChildStdin>,
}

impl Directory {
    pub fn create() -> std::io::Result<Self> {
        Self::create_in(&std::env::temp_dir())
    }

    pub fn create_in(parent: &Path) -> std::io::Result<Self> {
        let path = tempfile::Builder::new().prefix("kubediff-test-").tempdir_in(parent)?.keep();
        let mut guard = shell(SWEEPER).arg(&path).stdout(Stdio::null()).spawn()?;
        let leash = guard.stdin.take();
        Ok(Self { path, guard, leash })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(self.leash.take());
        let _ = self.guard.wait();
    }
}

/// Runs a command to its end under a guard; it dies when the future is dropped.
pub async fn run(command: &mut Command) -> std::io::Result<Output> {
    let mut guarded = guarded(command);
    guarded.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = tokio::process::Command::from(guarded).spawn()?;
    let _leash = child.stdin.take();
    child.wait_with_output().await
}

/// A command under a guard, which has the exit code of what it runs; that dies when the guard's stdin is closed.
pub fn guarded(command: &Command) -> Command {
    let mut guarded = shell(GUARD);
    guarded.arg("").arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => guarded.env(key, value),
            None => guarded.env_remove(key),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        guarded.current_dir(dir);
    }
    guarded
}

/// Sends a signal, named as `kill -NAME` names it, to a process. It is no error when there is none.
pub fn send(signal: &str, pid: u32) {
    let _ = Command::new("sh").arg("-c").arg(format!("kill -{signal} {pid}")).stderr(Stdio::null()).status();
}

/// The same for all processes of a group, as the terminal does at Ctrl-C.
pub fn send_to_group(signal: &str, leader: u32) {
    let _ = Command::new("sh").arg("-c").arg(format!("kill -{signal} -{leader}")).stderr(Stdio::null()).status();
}

/// Whether a process lives; a zombie does not.
pub fn alive(pid: u32) -> bool {
    state(&format!("/proc/{pid}/stat")).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

fn threads(pid: u32) -> Vec<char> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| state(&format!("{}/stat", task.path().display()))).collect()
}

/// The state letter of proc(5); the name before it may hold anything, also spaces and brackets.
fn state(file: &str) -> Option<char> {
    std::fs::read_to_string(file).ok()?.rsplit(") ").next()?.chars().next()
}

/// In a process group of its own, so that Ctrl-C in the terminal reaches the test run and not the guards.
fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg("guard").stdin(Stdio::piped()).process_group(0);
    command
}
