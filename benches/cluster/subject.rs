//! The two programs that are measured, each as a process of its own.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    args::{Args, Size},
    harness::{
        cluster::free_port,
        guard::{self, Daemon},
    },
};

/// A program.
#[derive(Clone, Debug)]
pub struct Subject {
    pub name: &'static str,
    program: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Kubediff,
    Baseline,
}

/// Those that are asked for and there. A kubediff that has no `run` yet is left out with a line that says so.
pub async fn all(args: &Args) -> Result<Vec<Subject>, String> {
    let mut subjects = Vec::new();
    let wanted = |name: &str| args.only.as_deref().is_none_or(|only| only == name);
    if wanted("kubediff") {
        let program = args.kubediff.clone().unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_kubediff")));
        let told = guard::run(Command::new(&program).args(["run", "--help"])).await;
        let told = told.map_err(|e| format!("{}: {e}", program.display()))?;
        if told.status.success() && String::from_utf8_lossy(&told.stdout).contains("--config") {
            subjects.push(Subject { name: "kubediff", program, kind: Kind::Kubediff });
        } else {
            eprintln!("{} knows no `run --config`: it is left out", program.display());
        }
    }
    if wanted("baseline") {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/baseline/build");
        let built = tokio::process::Command::new(script).stderr(Stdio::inherit()).output().await;
        let built = built.map_err(|e| format!("{script}: {e}"))?;
        if !built.status.success() {
            return Err(format!("{script} failed: its message is on stderr"));
        }
        let program = PathBuf::from(String::from_utf8_lossy(&built.stdout).trim());
        subjects.push(Subject { name: "baseline", program, kind: Kind::Baseline });
    }
    if subjects.is_empty() { Err("there is nothing to measure".to_owned()) } else { Ok(subjects) }
}

/// A program that runs.
pub struct Running {
    daemon: Daemon,
    began: Instant,
    /// Where it says that it is synced.
    ready: Ready,
}

enum Ready {
    Url(String),
    /// The word `synced` in what it printed.
    Log(PathBuf),
}

impl Subject {
    /// Where it keeps what outlives it, when it keeps anything.
    pub fn state(&self, dir: &Path) -> Option<PathBuf> {
        (self.kind == Kind::Kubediff).then(|| dir.join("state"))
    }

    /// Starts it in `dir`, where an earlier run may have left its state.
    pub fn start(&self, dir: &Path, kubeconfig: &Path, webhook: &str) -> Running {
        let log = dir.join(format!("{}.log", self.name));
        let _ = std::fs::remove_file(&log);
        let kubeconfig = kubeconfig.to_string_lossy().into_owned();
        let (args, ready) = match self.kind {
            Kind::Kubediff => {
                let state = dir.join("state");
                std::fs::create_dir_all(&state).expect("a writable folder");
                let probes = format!("127.0.0.1:{}", free_port());
                let config = dir.join("kubediff.toml");
                let text = format!(
                    "cluster = \"bench\"\n\n[state]\npath = {:?}\n\n[server]\nprobes = {probes:?}\npage = \"\"\n\n\
                     [sinks.hook]\ntype = \"webhook\"\nurl = {webhook:?}\nformat = \"json\"\n",
                    state.join("kubediff.db")
                );
                std::fs::write(&config, text).expect("a writable folder");
                let config = config.to_string_lossy().into_owned();
                let args = vec!["run".into(), "--config".into(), config, "--kubeconfig".into(), kubeconfig];
                (args, Ready::Url(format!("http://{probes}/readyz")))
            }
            Kind::Baseline => {
                (vec!["-kubeconfig".into(), kubeconfig, "-webhook".into(), webhook.to_owned()], Ready::Log(log))
            }
        };
        let began = Instant::now();
        let daemon = Daemon::start(self.name, dir, &self.program, args);
        let daemon = daemon.unwrap_or_else(|e| panic!("{}: {e}", self.program.display()));
        Running { daemon, began, ready }
    }
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// Waits until it is synced and says how long that took from its start.
    pub async fn synced(&mut self, size: Size) -> Duration {
        let deadline = self.began
            + Duration::from_secs(60)
            + Duration::from_millis(5) * u32::try_from(size.objects()).unwrap_or(0);
        let http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client");
        loop {
            let ready = match &self.ready {
                Ready::Url(url) => http.get(url).send().await.is_ok_and(|answer| answer.status().is_success()),
                Ready::Log(log) => {
                    std::fs::read_to_string(log).is_ok_and(|text| text.lines().any(|line| line == "synced"))
                }
            };
            if ready {
                return self.began.elapsed();
            }
            if let Some(status) = self.daemon.exited() {
                panic!("it ended with {status}; {}", self.daemon.log_tail());
            }
            assert!(Instant::now() < deadline, "it is not synced; {}", self.daemon.log_tail());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// SIGTERM, and waits until it has ended.
    pub async fn stop(mut self) -> Duration {
        let began = Instant::now();
        self.daemon.signal("TERM");
        while self.daemon.exited().is_none() {
            if began.elapsed() > Duration::from_secs(30) {
                eprintln!("it does not end by SIGTERM and is killed; {}", self.daemon.log_tail());
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        began.elapsed()
    }
}
