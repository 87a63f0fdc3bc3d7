//! The real binary with what it prints: stdout and stderr in a file each.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{PATIENCE, guard::Daemon, poll};

/// A kubediff that runs until it is stopped or dropped.
pub struct Program {
    daemon: Daemon,
    dir: tempfile::TempDir,
}

impl Program {
    /// Starts it with these files in its folder, where it also runs, and waits until it watches.
    pub async fn start(kubeconfig: &Path, variables: &[&str], files: &[(&str, &str)], args: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).expect("a writable folder");
        }
        // Both replace themselves, so that the guard's child is kubediff itself.
        let mut all = vec!["-c", "exec env \"$@\" >stdout 2>stderr", "env"];
        all.extend(variables);
        all.push(env!("CARGO_BIN_EXE_kubediff"));
        all.extend(args);
        all.extend(["--kubeconfig", kubeconfig.to_str().expect("a path in UTF-8")]);
        let daemon = Daemon::start("kubediff", dir.path(), Path::new("/bin/sh"), all).expect("sh runs");
        let mut program = Self { daemon, dir };
        poll(PATIENCE, "kubediff to watch", async || {
            let ended = program.daemon.exited();
            assert!(ended.is_none(), "it ended with {ended:?}: {}", program.stderr());
            program.stderr().contains("watching").then_some(())
        })
        .await;
        program
    }

    /// `kubediff watch` with these arguments.
    pub async fn watch(kubeconfig: &Path, args: &[&str]) -> Self {
        let args: Vec<&str> = ["watch"].into_iter().chain(args.iter().copied()).collect();
        Self::start(kubeconfig, &["TZ=UTC"], &[], &args).await
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn stdout(&self) -> String {
        self.read("stdout")
    }

    pub fn stderr(&self) -> String {
        self.read("stderr")
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.file(name)).unwrap_or_default()).into_owned()
    }

    /// The events that it printed as JSON.
    pub fn events(&self) -> Vec<Value> {
        let text = self.stdout();
        // The last line may be half written.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("an event a line")).collect()
    }

    /// The first event of which this is true.
    #[track_caller]
    pub fn event(&self, what: &str, is: impl Fn(&Value) -> bool) -> impl Future<Output = Value> {
        poll(PATIENCE, what, async move || self.events().into_iter().find(|event| is(event)))
    }

    /// Asks it to finish, and waits until it has, with success.
    pub async fn stop(&mut self) {
        self.daemon.signal("TERM");
        let ended = poll(PATIENCE, "kubediff to finish", async || self.daemon.exited()).await;
        assert!(ended.success(), "{ended}: {}", self.stderr());
    }
}
