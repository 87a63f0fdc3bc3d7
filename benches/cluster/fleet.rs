//! What follows from the figures for a fleet of clusters: arithmetic, and said to be.

use std::fmt::Write as _;

use crate::{
    measure::{Figures, Measured},
    report::table,
};

const CLUSTERS: f64 = 1_000.0;
/// As the configuration has it by default.
const RETENTION_DAYS: f64 = 14.0;
const MOST_LEDGER_GB: f64 = 2.147;

/// One instance in each of 1,000 clusters of the measured size, each with the lowest measured rate of changes.
pub fn section(sizes: &[Measured]) -> Option<String> {
    let measured = sizes.iter().min_by_key(|measured| measured.size.objects().abs_diff(20_000))?;
    let figures = measured.subjects.iter().find(|figures| figures.name == "kubediff")?;
    let (run, cpu) = figures.runs.iter().min_by_key(|(run, _)| run.asked)?;
    let rate = f64::from(run.asked);
    let mut rows = vec![["", "one", "1,000"].map(str::to_owned).to_vec()];
    let mut row = |name: &str, one: f64, unit: &str| {
        let cell = |value: f64| {
            let digits = if value < 10.0 { 2 } else { 0 };
            format!("{value:.digits$} {unit}")
        };
        rows.push(vec![name.to_owned(), cell(one), cell(one * CLUSTERS)]);
    };
    row("memory, steady after changes", figures.steady_loaded as f64 / 1024.0 / 1024.0, "GB");
    row(&format!("cores at {rate} changes a second"), rate * cpu.as_secs_f64(), "cores");
    row("events", rate, "a second");
    if let Some(disk) = disk(figures, rate) {
        row("disk: objects, and 14 days of events or 2 GiB", disk, "GB");
    }
    if let Some(idle) = figures.idle {
        let an_hour = 3600.0 / measured.idle.as_secs_f64().max(1.0);
        row("asked of the API server at rest, an hour", idle.bytes as f64 * an_hour / 1e9, "GB");
    }
    if let Some(cold) = figures.cold {
        row("asked of the API server at a cold start", cold.bytes as f64 / 1e9, "GB");
    }
    if let Some(warm) = figures.warm {
        row("asked of the API server at a restart", warm.bytes as f64 / 1e9, "GB");
    }
    let mut text = format!(
        "\n## 1,000 clusters, computed\n\nFrom the figures above for {} and {rate} changes a second in each cluster: what was measured of one, \
         times 1,000. Nothing of this was run; `docs/scaling.md` says what it leaves out.\n\n",
        measured.size
    );
    let _ = write!(text, "{}", table(&rows));
    Some(text)
}

fn disk(figures: &Figures, rate: f64) -> Option<f64> {
    let disk = figures.disk.as_ref()?;
    let empty = disk.empty? as f64;
    let event = (disk.loaded as f64 - empty).max(0.0) / disk.events.max(1) as f64;
    let events = rate * 86_400.0 * RETENTION_DAYS * event / 1e9;
    Some((empty / 1e9 + events).min(MOST_LEDGER_GB))
}
