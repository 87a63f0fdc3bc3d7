//! Hours of changes at one rate: memory, open files and the ledger over time, and whether the first two stay flat.
//! `make soak` runs it and writes `docs/soak.md`.

use std::{
    fmt::Write as _,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use crate::{
    args::Args,
    budget::millis,
    harness::{Cluster, Options},
    load::{Load, Run},
    machine,
    plot::{Plot, Series},
    population, process,
    recorder::Recorder,
    report,
    subject::Subject,
};

/// Changes are made and looked at in rounds of this length.
const ROUND: Duration = Duration::from_secs(10);
/// What comes before is not part of the line: dictionaries are trained, caches filled, the first pages of the file used.
const WARM_UP: f64 = 0.25;
/// By how much of its middle value memory may grow over the run, by the line through the samples.
const MOST_GROWTH: f64 = 0.05;
/// And how many open files it may end above where it began, by the same line.
const MOST_FILES: f64 = 2.0;

/// How much of the rate that was asked for has to have been made, or the run shows nothing.
const LEAST_MADE: f64 = 0.95;
/// As clusters do it: etcd's file would outgrow its quota else.
const COMPACTING: [&str; 1] = ["--etcd-compaction-interval=5m"];

/// One look.
struct Sample {
    seconds: f64,
    rss_kib: u64,
    files: usize,
    ledger: u64,
    made: usize,
    missing: usize,
    p99: Duration,
    /// Of the process, so far.
    cpu: Duration,
}

pub async fn run(args: &Args, hours: f64, subjects: &[Subject]) -> ExitCode {
    let Some(subject) = subjects.iter().find(|subject| subject.name == "kubediff") else {
        eprintln!("the soak is of kubediff");
        return ExitCode::FAILURE;
    };
    let (Some(&size), Some(&rate)) = (args.sizes.first(), args.rates.first()) else { return ExitCode::FAILURE };
    let cluster =
        Cluster::start(Options { apiserver_args: COMPACTING.map(str::to_owned).to_vec(), ..Options::default() }).await;
    let population = population::populate(&cluster, size).await;
    let mut load = Load::new(&cluster, &population, size);
    let dir = cluster.dir().join("soak");
    std::fs::create_dir_all(&dir).expect("a writable folder");
    let recorder = Recorder::start();
    let mut running = subject.start(&dir, cluster.kubeconfig(), &recorder.url());
    running.synced(size).await;

    let state = subject.state(&dir).unwrap_or_else(|| dir.clone());
    let began = Instant::now();
    let length = Duration::from_secs_f64(hours * 3600.0);
    let mut samples: Vec<Sample> = Vec::new();
    while began.elapsed() < length {
        let run: Run = load.run(&recorder, rate, rate as usize * ROUND.as_secs() as usize).await;
        let sample = Sample {
            seconds: began.elapsed().as_secs_f64(),
            rss_kib: process::memory(running.pid()).now,
            files: process::files(running.pid()),
            ledger: process::size_of(&state),
            made: samples.last().map_or(0, |sample| sample.made) + run.changes,
            missing: samples.last().map_or(0, |sample| sample.missing) + run.missing,
            p99: run.percentile(99).unwrap_or(Duration::MAX),
            cpu: process::cpu(running.pid()),
        };
        eprintln!(
            "{:6.0} s: {} changes, {} missing, {:.1} MB, {} files, ledger {:.1} MB, p99 {}",
            sample.seconds,
            sample.made,
            sample.missing,
            sample.rss_kib as f64 / 1024.0,
            sample.files,
            sample.ledger as f64 / 1e6,
            millis(sample.p99)
        );
        samples.push(sample);
    }
    running.stop().await;
    let verdict = Verdict::of(&samples, rate);
    let text = page(&format!("{size}, asked for {rate} changes a second"), &samples, &verdict);
    println!("{text}");
    if args.write
        && let Err(e) = write(&text, &samples)
    {
        eprintln!("the report could not be written: {e}");
        return ExitCode::FAILURE;
    }
    if verdict.kept() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Verdict {
    rss_median_kib: f64,
    /// Over the whole run, by the line through the samples after the warm-up.
    rss_growth_kib: f64,
    files_growth: f64,
    missing: usize,
    /// Changes a second, made and asked for.
    made: f64,
    asked: f64,
}

impl Verdict {
    fn of(samples: &[Sample], rate: u32) -> Self {
        let length = samples.last().map_or(0.0, |last| last.seconds);
        let warm: Vec<&Sample> = samples.iter().filter(|sample| sample.seconds >= length * WARM_UP).collect();
        let growth = |of: &dyn Fn(&Sample) -> f64| {
            let points: Vec<(f64, f64)> = warm.iter().map(|sample| (sample.seconds, of(sample))).collect();
            slope(&points) * length
        };
        let mut sizes: Vec<u64> = warm.iter().map(|sample| sample.rss_kib).collect();
        sizes.sort_unstable();
        Self {
            rss_median_kib: sizes.get(sizes.len() / 2).copied().unwrap_or(0) as f64,
            rss_growth_kib: growth(&|sample| sample.rss_kib as f64),
            files_growth: growth(&|sample| sample.files as f64),
            missing: samples.last().map_or(0, |last| last.missing),
            made: samples.last().map_or(0.0, |last| last.made as f64 / last.seconds),
            asked: rate.into(),
        }
    }

    fn rss_is_flat(&self) -> bool {
        self.rss_median_kib > 0.0 && self.rss_growth_kib <= self.rss_median_kib * MOST_GROWTH
    }

    fn files_are_flat(&self) -> bool {
        self.files_growth <= MOST_FILES
    }

    fn kept(&self) -> bool {
        self.rss_is_flat() && self.files_are_flat() && self.missing == 0 && self.made_enough()
    }

    fn made_enough(&self) -> bool {
        self.made >= self.asked * LEAST_MADE
    }
}

/// Of the line through the points with the least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let across: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let along: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    if along > 0.0 { across / along } else { 0.0 }
}

fn page(what: &str, samples: &[Sample], verdict: &Verdict) -> String {
    let Some(last) = samples.last() else { return "no time for a single round".to_owned() };
    let row = |cells: [String; 4]| cells.to_vec();
    let met = |kept: bool| if kept { "met" } else { "**missed**" }.to_owned();
    let mb = |kib: f64| format!("{:.1} MB", kib / 1024.0);
    let rows = vec![
        row(["", "at most", "is", ""].map(str::to_owned)),
        row([
            "growth of RSS over the run".into(),
            format!("{:.0} % of its middle value", MOST_GROWTH * 100.0),
            format!("{} of {}", mb(verdict.rss_growth_kib), mb(verdict.rss_median_kib)),
            met(verdict.rss_is_flat()),
        ]),
        row([
            "growth of open files".into(),
            format!("{MOST_FILES}"),
            format!("{:.1} of {}", verdict.files_growth, last.files),
            met(verdict.files_are_flat()),
        ]),
        row(["changes that did not arrive".into(), "0".into(), verdict.missing.to_string(), met(verdict.missing == 0)]),
        row([
            "changes made a second".into(),
            format!("at least {:.0} % of {}", LEAST_MADE * 100.0, verdict.asked),
            format!("{:.1}", verdict.made),
            met(verdict.made_enough()),
        ]),
    ];
    let mut p99: Vec<Duration> = samples.iter().map(|sample| sample.p99).collect();
    p99.sort_unstable();
    let grown = last.ledger.saturating_sub(samples[0].ledger) as f64;
    let events = (last.made - samples[0].made).max(1) as f64;
    let mut text = format!(
        "# Soak\n\nWritten by `make soak`; do not edit. kubediff alone: {what}. {:.0} minutes, {} changes ({:.0} a second).\n\n\
         {}; commit {}; {}\n\n",
        last.seconds / 60.0,
        last.made,
        last.made as f64 / last.seconds,
        machine::machine(),
        machine::commit(),
        jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC"),
    );
    text.push_str(&report::table(&rows));
    let _ = write!(
        text,
        "\nGrowth is that of the line through the samples after the first quarter, over the whole run. RSS was {} to {}, open\n\
         files {} to {}. The worst p99 of a round of {} s was {}, the middle one {}. CPU {:.0} us a change. The ledger ended at\n\
         {:.1} MB, {:.0} bytes more for every event; it stops growing at `state.max_bytes` or after `state.retention_days`.\n\n\
         ![Memory over time](benchmarks/soak.svg)\n\nEvery sample: [soak.csv](benchmarks/soak.csv).\n",
        mb(samples.iter().map(|s| s.rss_kib).min().unwrap_or(0) as f64),
        mb(samples.iter().map(|s| s.rss_kib).max().unwrap_or(0) as f64),
        samples.iter().map(|s| s.files).min().unwrap_or(0),
        samples.iter().map(|s| s.files).max().unwrap_or(0),
        ROUND.as_secs(),
        millis(p99[p99.len() - 1]),
        millis(p99[p99.len() / 2]),
        last.cpu.as_secs_f64() * 1e6 / last.made.max(1) as f64,
        last.ledger as f64 / 1e6,
        grown / events,
    );
    text
}

fn write(text: &str, samples: &[Sample]) -> std::io::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    std::fs::create_dir_all(docs.join("benchmarks"))?;
    let mut csv = "seconds,rss_kib,files,ledger_bytes,changes,missing,p99_ms,cpu_seconds\n".to_owned();
    for sample in samples {
        let Sample { seconds, rss_kib, files, ledger, made, missing, p99, cpu } = sample;
        let (p99, cpu) = (p99.as_secs_f64() * 1e3, cpu.as_secs_f64());
        let _ = writeln!(csv, "{seconds:.1},{rss_kib},{files},{ledger},{made},{missing},{p99:.1},{cpu:.2}");
    }
    std::fs::write(docs.join("benchmarks/soak.csv"), csv)?;
    let mut plot = Plot::from_zero("RSS, ledger and open files over time", "minutes", "MB; files");
    let mut line = |name: &str, of: &dyn Fn(&Sample) -> f64| {
        let points = samples.iter().map(|sample| (sample.seconds / 60.0, of(sample))).collect();
        plot.series.push(Series { name: name.to_owned(), points });
    };
    line("RSS, MB", &|sample| sample.rss_kib as f64 / 1024.0);
    line("ledger, MB", &|sample| sample.ledger as f64 / 1e6);
    line("open files", &|sample| sample.files as f64);
    std::fs::write(docs.join("benchmarks/soak.svg"), plot.svg())?;
    std::fs::write(docs.join("soak.md"), text)
}
