//! What kubediff may cost, and whether it does.

use std::time::Duration;

use crate::measure::{Figures, Measured};

pub struct Budget {
    pub what: String,
    pub most: String,
    pub is: String,
    pub met: bool,
}

const MIB: u64 = 1024;

/// Those that can be checked at this size.
pub fn of(measured: &Measured) -> Vec<Budget> {
    let find = |name: &str| measured.subjects.iter().find(|figures| figures.name == name);
    let Some(kubediff) = find("kubediff") else { return Vec::new() };
    let mut budgets = Vec::new();
    let mut check = |what: &str, most: String, is: String, met: bool| {
        budgets.push(Budget { what: what.to_owned(), most, is, met });
    };
    let mut memory = |what: &str, is: u64, most: u64| {
        check(what, format!("{most} MB"), format!("{:.1} MB", is as f64 / MIB as f64), is < most * MIB);
    };
    match (measured.size.pods, measured.size.configmaps) {
        (10_000, 10_000) => {
            memory("peak RSS, initial list included", kubediff.peak, 60);
            memory("steady RSS", kubediff.steady, 45);
        }
        (100_000, 0) => memory("peak RSS at 100,000 pods", kubediff.peak, 90),
        _ => {}
    }
    let seconds = |d: Duration| format!("{:.2} s", d.as_secs_f64());
    let twice = measured.kubectl * 2;
    check("time to sync, against kubectl get --raw", seconds(twice), seconds(kubediff.sync), kubediff.sync < twice);
    let restart = kubediff.restart.sync;
    check("warm restart", seconds(Duration::from_secs(1)), seconds(restart), restart < Duration::from_secs(1));
    if let Some(warm) = kubediff.warm {
        let lists = warm.lists + warm.streaming_lists;
        check("lists at a warm restart", "0".into(), lists.to_string(), lists == 0);
    }
    check(
        "changes made while down that arrive",
        kubediff.restart.made.to_string(),
        kubediff.restart.arrived.to_string(),
        kubediff.restart.arrived == kubediff.restart.made,
    );
    for (run, cpu) in &kubediff.runs {
        if run.asked == 200 {
            let p99 = run.percentile(99).unwrap_or(Duration::MAX);
            check("p99 at 200 changes a second", "250 ms".into(), millis(p99), p99 < Duration::from_millis(250));
        }
        if run.asked >= 1_000 {
            let name = format!("CPU a change at {} a second", run.asked);
            check(&name, "150 us".into(), format!("{} us", cpu.as_micros()), *cpu < Duration::from_micros(150));
        }
        if run.asked == 2_000 {
            let received = run.received.min(run.made);
            check("changes a second", "at least 1,900".into(), format!("{received:.0}"), received >= 1_900.0);
        }
    }
    if let Some(baseline) = find("baseline") {
        // Over the whole run, first list and changes: Go's heap grows to twice what it holds once there is something to
        // collect. The table has the first list by itself too.
        if measured.size.objects() >= 20_000 {
            for (what, ours, theirs) in [
                ("peak RSS of the whole run", kubediff.peak_loaded, baseline.peak_loaded),
                ("steady RSS after all changes", kubediff.steady_loaded, baseline.steady_loaded),
            ] {
                let ratio = theirs as f64 / ours.max(1) as f64;
                let name = format!("{what}, of the baseline's");
                check(&name, "1/25".into(), format!("1/{ratio:.1}"), ratio >= 25.0);
            }
        }
        for (at, ours, theirs) in cpu(kubediff, baseline) {
            let ratio = theirs.as_secs_f64() / ours.as_secs_f64().max(1e-9);
            let name = format!("CPU a change at {at} a second, of the baseline's");
            check(&name, "1/4".into(), format!("1/{ratio:.1}"), ratio >= 4.0);
        }
    }
    budgets
}

/// CPU a change of both, at the rates that both kept up with. Of few changes it is not known well enough: the kernel counts
/// in hundredths of a second.
fn cpu(kubediff: &Figures, baseline: &Figures) -> impl Iterator<Item = (u32, Duration, Duration)> {
    const ENOUGH: usize = 1_000;
    let pairs = kubediff.runs.iter().zip(&baseline.runs);
    let kept = pairs.filter(|((ours, _), (theirs, _))| ours.missing == 0 && theirs.missing == 0);
    kept.filter(|((run, _), _)| run.changes >= ENOUGH).map(|((run, ours), (_, theirs))| (run.asked, *ours, *theirs))
}

pub fn millis(d: Duration) -> String {
    if d == Duration::MAX { "never".into() } else { format!("{:.1} ms", d.as_secs_f64() * 1e3) }
}
