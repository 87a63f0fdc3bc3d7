//! What is measured, in which order.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    args::{Args, Size},
    harness::{Cluster, Options, Proxy, Verb, guard, tools},
    load::{Load, Run},
    objects::Kind,
    population::{self, Population},
    process::{self, Memory},
    recorder::Recorder,
    subject::{Running, Subject},
    wire::Relay,
};

/// Changes that are made while a program is down.
const WHILE_DOWN: usize = 100;

/// One size, all programs.
pub struct Measured {
    pub size: Size,
    pub pod_bytes: usize,
    pub configmap_bytes: usize,
    /// `kubectl get --raw` of the same lists.
    pub kubectl: Duration,
    /// How long [`Figures::idle`] was counted.
    pub idle: Duration,
    pub subjects: Vec<Figures>,
}

/// One program at one size.
pub struct Figures {
    pub name: &'static str,
    pub sync: Duration,
    pub sync_cpu: Duration,
    /// After the start and a rest.
    pub peak: u64,
    pub steady: u64,
    pub steady_anonymous: u64,
    /// After all changes.
    pub peak_loaded: u64,
    pub steady_loaded: u64,
    pub runs: Vec<(Run, Duration)>,
    pub restart: Restart,
    /// `None` for a program that keeps nothing.
    pub disk: Option<Disk>,
    pub cold: Option<Asked>,
    pub idle: Option<Asked>,
    pub warm: Option<Asked>,
}

pub struct Restart {
    pub stop: Duration,
    pub sync: Duration,
    pub cpu: Duration,
    /// Of [`WHILE_DOWN`].
    pub made: usize,
    pub arrived: usize,
}

/// Bytes that are left after a proper stop.
pub struct Disk {
    /// With the objects alone, when that was measured.
    pub empty: Option<u64>,
    /// With the events of all changes.
    pub loaded: u64,
    pub events: usize,
}

/// What was asked of the API server.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub lists: usize,
    pub streaming_lists: usize,
    pub watches: usize,
    pub others: usize,
    /// That the server sent, on the wire.
    pub bytes: u64,
}

pub async fn size(args: &Args, size: Size, idle: u32, subjects: &[Subject]) -> Measured {
    let idle = Duration::from_secs(idle.into());
    let cluster = Cluster::start(Options::default()).await;
    let population = population::populate(&cluster, size).await;
    eprintln!(
        "{size} (pods of {} bytes, ConfigMaps of {}) in {:.1} s",
        population.pod_bytes,
        population.configmap_bytes,
        population.took.as_secs_f64()
    );
    let kubectl = kubectl(&cluster, size).await;
    let mut load = Load::new(&cluster, &population, size);
    let mut measured = Measured {
        size,
        pod_bytes: population.pod_bytes,
        configmap_bytes: population.configmap_bytes,
        kubectl,
        idle,
        subjects: Vec::new(),
    };
    for subject in subjects {
        eprintln!("{}: {size}", subject.name);
        let mut figures = Bench { args, cluster: &cluster, size, subject }.figures(&mut load).await;
        if !args.no_requests {
            Bench { args, cluster: &cluster, size, subject }.requests(&mut figures, idle).await;
        }
        measured.subjects.push(figures);
    }
    drop::<Population>(population);
    measured
}

/// The faster of two runs, one after the other for each list, as the first may have to fill a cache.
async fn kubectl(cluster: &Cluster, size: Size) -> Duration {
    let program = tools::path("kubectl").await.unwrap_or_else(|why| panic!("{why}"));
    let mut best = Duration::MAX;
    for _ in 0..2 {
        let began = Instant::now();
        for (kind, n) in [(Kind::Pod, size.pods), (Kind::ConfigMap, size.configmaps)] {
            if n == 0 {
                continue;
            }
            let mut command = Command::new("sh");
            command.args(["-c", r#"exec "$0" get --raw "$1" >/dev/null"#]).arg(&program);
            command.arg(format!("/api/v1/{}", kind.plural())).env("KUBECONFIG", cluster.kubeconfig());
            let ran = guard::run(command.env("HOME", cluster.dir())).await.expect("kubectl runs");
            assert!(ran.status.success(), "kubectl: {}", String::from_utf8_lossy(&ran.stderr));
        }
        best = best.min(began.elapsed());
    }
    best
}

struct Bench<'a> {
    args: &'a Args,
    cluster: &'a Cluster,
    size: Size,
    subject: &'a Subject,
}

impl Bench<'_> {
    /// Start, rest, changes at each rate, restart.
    async fn figures(&self, load: &mut Load) -> Figures {
        let dir = self.cluster.dir().join(format!("{}-figures", self.subject.name));
        std::fs::create_dir_all(&dir).expect("a writable folder");
        let recorder = Recorder::start();
        let state = self.subject.state(&dir);

        let mut running = self.subject.start(&dir, self.cluster.kubeconfig(), &recorder.url());
        let sync = running.synced(self.size).await;
        let sync_cpu = process::cpu(running.pid());
        eprintln!("  synced in {:.2} s", sync.as_secs_f64());
        let rest = self.rest(&running).await;
        self.keep(&running, &dir, "rest");

        let mut runs = Vec::new();
        let mut changes = 0;
        for &rate in &self.args.rates {
            let wanted = (rate * self.args.seconds) as usize;
            let before = process::cpu(running.pid());
            let run = load.run(&recorder, rate, wanted).await;
            let cpu = (process::cpu(running.pid()) - before) / u32::try_from(run.changes.max(1)).unwrap_or(1);
            eprintln!(
                "  {rate}/s: {:.0} made, {:.0} received a second, p50 {:?}, p99 {:?}, {} missing, {cpu:?} a change",
                run.made,
                run.received,
                run.percentile(50).unwrap_or_default(),
                run.percentile(99).unwrap_or_default(),
                run.missing
            );
            changes += run.changes;
            runs.push((run, cpu));
        }
        let loaded = self.rest(&running).await;
        self.keep(&running, &dir, "loaded");
        let restart = self.restart(running, &dir, &recorder, load).await;
        let disk = state.map(|state| Disk {
            loaded: process::size_of(&state),
            events: changes + restart.arrived,
            empty: None,
        });
        Figures {
            name: self.subject.name,
            sync,
            sync_cpu,
            peak: rest.peak,
            steady: rest.now,
            steady_anonymous: rest.anonymous,
            peak_loaded: loaded.peak,
            steady_loaded: loaded.now,
            runs,
            restart,
            disk,
            cold: None,
            idle: None,
            warm: None,
        }
    }

    /// The middle of what is sampled in the second half of a rest.
    async fn rest(&self, running: &Running) -> Memory {
        let half = Duration::from_secs(self.args.rest.into()) / 2;
        tokio::time::sleep(half).await;
        let mut samples = Vec::new();
        for _ in 0..20 {
            samples.push(process::memory(running.pid()));
            tokio::time::sleep(half / 20).await;
        }
        samples.sort_unstable_by_key(|memory| memory.now);
        let middle = samples[samples.len() / 2];
        Memory { peak: process::memory(running.pid()).peak, ..middle }
    }

    async fn restart(&self, running: Running, dir: &Path, recorder: &Recorder, load: &mut Load) -> Restart {
        let stop = running.stop().await;
        recorder.forget();
        let (made, _) = load.make(200, WHILE_DOWN).await;
        let mut running = self.subject.start(dir, self.cluster.kubeconfig(), &recorder.url());
        let sync = running.synced(self.size).await;
        let cpu = process::cpu(running.pid());
        let deadline = Instant::now() + Duration::from_secs(5);
        while recorder.arrived(made.keys().copied()) < made.len() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let arrived = recorder.arrived(made.keys().copied());
        running.stop().await;
        let restart = Restart { stop, sync, cpu, made: made.len(), arrived };
        eprintln!(
            "  restart: stopped in {:?}, synced in {:.2} s, {} of {} changes made meanwhile arrived",
            restart.stop,
            sync.as_secs_f64(),
            arrived,
            restart.made
        );
        restart
    }

    /// Start, rest and restart again, now through what counts requests and bytes; it takes time, so none is measured.
    async fn requests(&self, figures: &mut Figures, idle: Duration) {
        let dir = self.cluster.dir().join(format!("{}-requests", self.subject.name));
        std::fs::create_dir_all(&dir).expect("a writable folder");
        let recorder = Recorder::start();
        let proxy = Proxy::start(self.cluster.access());
        let relay = Relay::start(proxy.access()).await;
        let kubeconfig = relay.access().write_kubeconfig(&dir, "kubeconfig");
        let counted = || {
            let asked = asked(&proxy, relay.take());
            proxy.forget();
            Some(asked)
        };
        let settle = Duration::from_secs(2);
        let mut running = self.subject.start(&dir, &kubeconfig, &recorder.url());
        running.synced(self.size).await;
        tokio::time::sleep(settle).await;
        figures.cold = counted();
        tokio::time::sleep(idle).await;
        figures.idle = counted();
        running.stop().await;
        if let (Some(disk), Some(state)) = (&mut figures.disk, self.subject.state(&dir)) {
            disk.empty = Some(process::size_of(&state));
        }
        counted();
        let mut running = self.subject.start(&dir, &kubeconfig, &recorder.url());
        running.synced(self.size).await;
        tokio::time::sleep(settle).await;
        figures.warm = counted();
        running.stop().await;
    }

    fn keep(&self, running: &Running, dir: &Path, when: &str) {
        let Some(keep) = &self.args.keep else { return };
        let to = |name: &str| keep.join(format!("{}-{}-{when}.{name}", self.subject.name, self.size.objects()));
        let _ = std::fs::create_dir_all(keep);
        let _ = std::fs::copy(format!("/proc/{}/smaps", running.pid()), to("smaps"));
        let _ = std::fs::copy(dir.join(format!("{}.log", self.subject.name)), to("log"));
    }
}

impl Asked {
    /// As many times that.
    pub fn times(self, times: f64) -> Self {
        let count = |n: usize| (n as f64 * times).round() as usize;
        Self {
            lists: count(self.lists),
            streaming_lists: count(self.streaming_lists),
            watches: count(self.watches),
            others: count(self.others),
            bytes: (self.bytes as f64 * times) as u64,
        }
    }
}

fn asked(proxy: &Proxy, bytes: u64) -> Asked {
    let mut asked = Asked { lists: 0, streaming_lists: 0, watches: 0, others: 0, bytes };
    for seen in proxy.seen() {
        match seen.verb {
            Verb::List => asked.lists += 1,
            Verb::Watch if seen.query.contains("sendInitialEvents=true") => asked.streaming_lists += 1,
            Verb::Watch => asked.watches += 1,
            Verb::Get | Verb::Write | Verb::Other => asked.others += 1,
        }
    }
    asked
}
