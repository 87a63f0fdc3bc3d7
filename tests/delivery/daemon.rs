//! The real binary, as a process that can be killed and started again on the same state.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::harness::{
    PATIENCE,
    guard::{self, Daemon},
    poll,
};

pub struct Kubediff {
    dir: tempfile::TempDir,
    kubeconfig: PathBuf,
    running: Option<Daemon>,
    starts: usize,
}

impl Kubediff {
    pub fn new(kubeconfig: &Path, config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("kubediff.toml"), config).unwrap();
        Self { dir, kubeconfig: kubeconfig.to_owned(), running: None, starts: 0 }
    }

    /// Starts it and waits until it watches.
    pub async fn start(&mut self) {
        self.spawn();
        self.watches().await;
    }

    /// The same, so that [`Self::fill_disk`] can be done to it: what it prints goes to its log through another process.
    pub async fn start_to_be_limited(&mut self) {
        let script = "trap '' XFSZ; exec env \"$@\" > >(exec cat) 2>&1";
        self.launch("/bin/bash", &["-c", script, "kubediff", "KUBEDIFF_LOG=info"]);
        self.watches().await;
    }

    async fn watches(&self) {
        let log = self.log();
        poll(PATIENCE, "kubediff watches", async || {
            std::fs::read_to_string(&log).ok().filter(|text| text.contains("watching")).map(drop)
        })
        .await;
    }

    pub fn spawn(&mut self) {
        self.spawn_with("KUBEDIFF_LOG=info");
    }

    /// With an environment variable, as `NAME=value`.
    pub fn spawn_with(&mut self, variable: &str) {
        self.launch("/usr/bin/env", &[variable]);
    }

    /// By a program that starts what follows its own arguments.
    fn launch(&mut self, program: &str, args: &[&str]) {
        self.starts += 1;
        let binary = env!("CARGO_BIN_EXE_kubediff");
        let kubeconfig = self.kubeconfig.to_str().unwrap();
        let args = [args, &[binary, "run", "--config", "kubediff.toml", "--kubeconfig", kubeconfig]].concat();
        let name = format!("kubediff-{}", self.starts);
        self.running = Some(Daemon::start(&name, self.dir.path(), Path::new(program), args).unwrap());
    }

    /// As `kill -9` does.
    pub fn kill(&mut self) {
        drop(self.running.take());
    }

    /// Asks it to finish, and waits until it has.
    pub async fn stop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        running.signal("TERM");
        let ended = poll(PATIENCE, "kubediff has finished", async || running.exited()).await;
        assert!(ended.success(), "{ended}: {}", running.log_tail());
        assert!(!guard::alive(running.pid()));
    }

    /// Puts a new configuration in place of the one before, in one step as editors do.
    pub fn write_config(&self, config: &str) {
        let new = self.dir.path().join("new.toml");
        std::fs::write(&new, config).unwrap();
        std::fs::rename(new, self.dir.path().join("kubediff.toml")).unwrap();
    }

    /// Gives it a new configuration, right and different from the one before, and waits until it was taken up.
    pub async fn reconfigure(&self, config: &str) {
        self.reloads(|| self.write_config(config)).await;
    }

    /// Sends SIGHUP, and waits until it has read its configuration again.
    pub async fn hang_up(&self) {
        self.reloads(|| self.running.as_ref().expect("it runs").signal("HUP")).await;
    }

    async fn reloads(&self, because: impl FnOnce()) {
        let reloads = || std::fs::read_to_string(self.log()).map_or(0, |log| log.matches(RELOADED).count());
        let before = reloads();
        because();
        poll(PATIENCE, "the new configuration is taken up", async || (reloads() > before).then_some(())).await;
    }

    /// Where its state is.
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("kubediff.db")
    }

    pub fn died(&mut self) -> bool {
        self.running.as_mut().is_none_or(|running| running.exited().is_some())
    }

    /// Whether it printed this since its last start.
    pub fn said(&self, text: &str) -> bool {
        std::fs::read_to_string(self.log()).is_ok_and(|log| log.contains(text))
    }

    /// The number that it printed last in a line with this text: `after_ms=12`.
    pub fn number_in_log(&self, text: &str, field: &str) -> Option<u64> {
        let log = std::fs::read_to_string(self.log()).ok()?;
        let line = log.lines().rev().find(|line| line.contains(text) && line.contains(field))?;
        let number = line.split(&format!("{field}=")).nth(1)?;
        number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    /// Deliveries on its list.
    pub fn waiting(&self) -> i64 {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let file = rusqlite::Connection::open_with_flags(self.dir.path().join("kubediff.db"), flags).unwrap();
        file.query_row("SELECT count(*) FROM deliveries", [], |row| row.get(0)).unwrap()
    }

    /// A file in its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The most memory that it has had since its last start, in kB.
    pub fn peak_memory(&self) -> u64 {
        let pid = self.running.as_ref().expect("it runs").pid();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// From now on no file of the process may grow beyond its first page: what it writes fails, as on a full disk.
    pub fn fill_disk(&self, full: bool) {
        let pid = self.running.as_ref().expect("it runs").pid().to_string();
        let limit = if full { "--fsize=4096:" } else { "--fsize=unlimited:" };
        let done = std::process::Command::new("prlimit").args(["--pid", &pid, limit]).status().unwrap();
        assert!(done.success());
    }

    /// What it printed since its last start.
    pub fn log(&self) -> PathBuf {
        self.dir.path().join(format!("kubediff-{}.log", self.starts))
    }
}

/// What it says when it goes by another configuration.
const RELOADED: &str = "the new configuration is in force";

/// How long a test's own short pauses are.
pub const MOMENT: Duration = Duration::from_millis(250);
