//! The kubediff under test: a process that is killed, starved, misled and started again on the same state.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::harness::{PATIENCE, cluster::free_port, guard, guard::Daemon, poll};

/// Peaks of what the process used, over all of its starts.
#[derive(Debug, Default)]
pub struct Usage {
    rss_kib: AtomicU64,
    /// When it was first in sync, before anything was done to it.
    base_kib: AtomicU64,
    files: AtomicU64,
    /// The process that runs now; 0 while none does.
    pid: AtomicU64,
    /// What it counted that it never should, and how often metrics were read at all.
    losses: Mutex<BTreeSet<String>>,
    scrapes: AtomicU64,
}

/// Counters that have to stay at zero, by name and label. They begin anew with each start, so they are read all the time.
const LOSSES: [(&str, &str); 3] = [
    ("kubediff_lost_total", ""),
    ("kubediff_sink_deliveries_total", "outcome=\"dead\""),
    ("kubediff_audit_missed_total", ""),
];

pub struct Subject {
    dir: PathBuf,
    kubeconfig: PathBuf,
    clock: PathBuf,
    probes: u16,
    running: Option<Daemon>,
    starts: usize,
    usage: Arc<Usage>,
}

/// Becomes the program, with its output in a file that a limit of its own does not reach. When all of it is written, there
/// is a second file that says so.
const SCRIPT: &str = r#"trap '' XFSZ; log=$1; shift; exec env "$@" > >(cat >>"$log"; : >"$log.whole") 2>&1"#;
/// How long that may take when the program is gone. One that was ended before it began may never have come so far.
const WRITTEN: Duration = Duration::from_secs(5);

impl Subject {
    pub fn new(dir: &Path, kubeconfig: &Path) -> Self {
        let clock = dir.join("clock");
        std::fs::write(&clock, 0i64.to_ne_bytes()).expect("a writable folder");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chaos/clock.c");
        let built =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(dir.join("clock.so")).arg(source).status();
        assert!(built.is_ok_and(|status| status.success()), "cc, which SQLite is built with too, makes {source}");
        Self {
            dir: dir.to_owned(),
            kubeconfig: kubeconfig.to_owned(),
            clock,
            probes: free_port(),
            running: None,
            starts: 0,
            usage: Arc::default(),
        }
    }

    pub fn usage(&self) -> Arc<Usage> {
        self.usage.clone()
    }

    pub fn probes(&self) -> u16 {
        self.probes
    }

    pub fn state(&self) -> PathBuf {
        self.dir.join("kubediff.db")
    }

    pub fn write_config(&self, text: &str) {
        // As an editor does it: the file is never half there.
        let (new, path) = (self.dir.join("kubediff.toml.new"), self.dir.join("kubediff.toml"));
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path)).expect("a writable folder");
    }

    pub fn spawn(&mut self, failpoint: Option<String>) {
        assert!(self.running.is_none());
        self.starts += 1;
        let text = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
        let mut args = vec!["-c".to_owned(), SCRIPT.to_owned(), "kubediff".to_owned(), self.log(self.starts)];
        args.push(format!("LD_PRELOAD={}", text(&self.dir.join("clock.so"))));
        args.push(format!("KUBEDIFF_TEST_CLOCK={}", text(&self.clock)));
        args.push("KUBEDIFF_LOG=debug,hyper_util=info,rustls=info,h2=info".to_owned());
        args.extend(failpoint.map(|name| format!("KUBEDIFF_FAILPOINT={name}")));
        args.push(env!("CARGO_BIN_EXE_kubediff").to_owned());
        args.extend(["run", "--config", "kubediff.toml", "--kubeconfig"].map(str::to_owned));
        args.push(text(&self.kubeconfig));
        let daemon =
            Daemon::start("kubediff", &self.dir, Path::new("/usr/bin/env"), [vec!["bash".to_owned()], args].concat());
        let daemon = daemon.expect("bash runs");
        self.usage.pid.store(daemon.pid().into(), Ordering::SeqCst);
        self.running = Some(daemon);
    }

    fn log(&self, start: usize) -> String {
        self.dir.join(format!("kubediff-{start}.log")).to_str().expect("a path in UTF-8").to_owned()
    }

    /// What all of its starts printed.
    pub fn logs(&self) -> Vec<PathBuf> {
        (1..=self.starts).map(|start| self.log(start).into()).collect()
    }

    /// How often it has printed this since its last start.
    pub fn said(&self, text: &str) -> u64 {
        std::fs::read_to_string(self.log(self.starts)).map_or(0, |log| log.matches(text).count() as u64)
    }

    /// The same over all of its starts.
    pub fn said_ever(&self, text: &str) -> u64 {
        let logs = self.logs().into_iter().map(|log| std::fs::read_to_string(log).unwrap_or_default());
        logs.map(|log| log.matches(text).count() as u64).sum()
    }

    /// Waits a little until it has printed this once more; it may be in no state to do so.
    pub async fn until_said(&self, text: &str, before: u64) -> bool {
        for _ in 0..40 {
            if self.said(text) > before {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    /// Stands still, or goes on.
    pub fn suspend(&self, still: bool) {
        if let Some(running) = &self.running {
            running.signal(if still { "STOP" } else { "CONT" });
        }
    }

    /// As `kill -9` does.
    pub fn kill(&mut self) {
        self.usage.pid.store(0, Ordering::SeqCst);
        drop(self.running.take());
    }

    /// By SIGTERM. It has to finish by itself, with success, unless it had not begun: before it says anything it is still
    /// the shell that becomes it.
    pub async fn stop(&mut self) -> Result<(), String> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        running.signal("TERM");
        let ended = poll(PATIENCE, "kubediff to finish", async || running.exited()).await;
        self.usage.pid.store(0, Ordering::SeqCst);
        self.wait_for_log();
        if ended.success() || self.log_tail().is_empty() {
            Ok(())
        } else {
            Err(format!("SIGTERM ended it with {ended}: {}", self.log_tail()))
        }
    }

    /// How it ended, if it did so by itself.
    pub fn died(&mut self) -> Option<String> {
        let ended = self.running.as_mut()?.exited()?;
        self.usage.pid.store(0, Ordering::SeqCst);
        self.running = None;
        self.wait_for_log();
        Some(format!("it ended with {ended}: {}", self.log_tail()))
    }

    /// Until the last words of a process that is gone are in its log.
    fn wait_for_log(&self) {
        let (whole, until) = (format!("{}.whole", self.log(self.starts)), Instant::now() + WRITTEN);
        while !Path::new(&whole).exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(self.log(self.starts)).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// From now on no file of the process may grow beyond its first page: what it writes fails, as on a full disk. Waits
    /// until it is kubediff: the shell before it would hand the limit on to who writes the log.
    pub async fn fill_disk(&mut self, full: bool) {
        let Some(running) = &mut self.running else { return };
        let name = format!("/proc/{}/comm", running.pid());
        poll(PATIENCE, "the shell to become kubediff", async || {
            let begun = std::fs::read_to_string(&name).is_ok_and(|name| name.trim() == "kubediff");
            (begun || running.exited().is_some()).then_some(())
        })
        .await;
        let limit = if full { "--fsize=4096:" } else { "--fsize=unlimited:" };
        let mut set = Command::new("prlimit");
        let set = set.args(["--pid", &running.pid().to_string(), limit]).stderr(std::process::Stdio::null()).status();
        assert!(set.is_ok_and(|status| status.success()) || !guard::alive(running.pid()), "prlimit {limit}");
    }

    /// The wall clock is off by so many seconds.
    pub fn set_clock(&self, off_secs: i64) {
        use std::{fs::OpenOptions, os::unix::fs::FileExt};
        let file = OpenOptions::new().write(true).open(&self.clock).expect("the clock's file");
        file.write_all_at(&off_secs.to_ne_bytes(), 0).expect("the clock's file");
    }

    /// A page of the probes; `None` when nobody answers.
    pub async fn page(&self, path: &str) -> Option<(u16, String)> {
        page(self.probes, path).await
    }
}

async fn page(port: u16, path: &str) -> Option<(u16, String)> {
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build().ok()?;
    let answer = http.get(format!("http://127.0.0.1:{port}{path}")).send().await.ok()?;
    Some((answer.status().as_u16(), answer.text().await.ok()?))
}

/// The sum of a metric's series that have this label.
pub fn metric(text: &str, name: &str, label: &str) -> f64 {
    let named = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    let lines = text.lines().filter(named).filter(|line| line.contains(label));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

impl Usage {
    /// Samples for as long as it is polled.
    pub async fn sample(&self, probes: u16) {
        let looks = async {
            loop {
                self.look();
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let scrapes = async {
            loop {
                self.scrape(probes).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        tokio::join!(looks, scrapes);
    }

    /// That the counters are there to be read at all, when everything has come to rest.
    pub async fn last_scrape(&self, probes: u16) {
        self.scrape(probes).await;
        let text = page(probes, "/metrics").await.map(|(_, text)| text).unwrap_or_default();
        let absent = LOSSES.iter().filter(|(name, _)| !text.contains(&format!("# TYPE {name} ")));
        let mut losses = self.losses.lock().expect("no panic while it is held");
        losses.extend(absent.map(|(name, _)| format!("there is no metric {name}")));
    }

    /// Reads the counters that have to stay at zero.
    async fn scrape(&self, probes: u16) {
        let Some((200, text)) = page(probes, "/metrics").await else { return };
        self.scrapes.fetch_add(1, Ordering::SeqCst);
        let mut losses = self.losses.lock().expect("no panic while it is held");
        for (name, label) in LOSSES {
            let sum = metric(&text, name, label);
            if sum > 0.0 {
                losses.insert(format!("{name}{{{label}}} is {sum}"));
            }
        }
    }

    /// What was counted that never should be.
    pub fn losses(&self) -> Vec<String> {
        if self.scrapes.load(Ordering::SeqCst) == 0 {
            return vec!["its metrics could never be read".to_owned()];
        }
        self.losses.lock().expect("no panic while it is held").iter().cloned().collect()
    }

    /// What it has now is what it is compared with later.
    pub fn note_base(&self) {
        self.look();
        self.base_kib.store(self.rss_kib.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    fn look(&self) {
        let pid = self.pid.load(Ordering::SeqCst);
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        // The shell and env that become the program come first.
        if pid > 0 && status.starts_with("Name:\tkubediff") {
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
            self.rss_kib.fetch_max(peak.and_then(|kib| kib.parse().ok()).unwrap_or(0), Ordering::SeqCst);
            let files = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
            self.files.fetch_max(files as u64, Ordering::SeqCst);
        }
    }

    /// Whether it took more than so much on top, or more files.
    pub fn too_much(&self, growth_kib: u64, files: u64) -> Option<String> {
        let [base, peak] = [&self.base_kib, &self.rss_kib].map(|kib| kib.load(Ordering::SeqCst));
        let too_much = base == 0 || peak > base + growth_kib || self.files.load(Ordering::SeqCst) > files;
        too_much.then(|| format!("{self}; {growth_kib} KiB more and {files} files are the most"))
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [base, peak, files] = [&self.base_kib, &self.rss_kib, &self.files].map(|n| n.load(Ordering::SeqCst));
        write!(f, "{} MiB at most after {} MiB at rest, {files} files", peak >> 10, base >> 10)
    }
}
