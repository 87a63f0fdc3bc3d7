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
        self.starts += 1;
        let binary = env!("CARGO_BIN_EXE_kubediff");
        let kubeconfig = self.kubeconfig.to_str().unwrap();
        let args = [variable, binary, "run", "--config", "kubediff.toml", "--kubeconfig", kubeconfig];
        let name = format!("kubediff-{}", self.starts);
        self.running = Some(Daemon::start(&name, self.dir.path(), Path::new("/usr/bin/env"), args).unwrap());
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

    pub fn died(&mut self) -> bool {
        self.running.as_mut().is_none_or(|running| running.exited().is_some())
    }

    /// What it printed since its last start.
    pub fn log(&self) -> PathBuf {
        self.dir.path().join(format!("kubediff-{}.log", self.starts))
    }
}

/// How long a test's own short pauses are.
pub const MOMENT: Duration = Duration::from_millis(250);
