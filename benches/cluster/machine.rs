//! Where and of what figures are: the machine and the revision.

use std::process::Command;

pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model =
        cpus.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1)).unwrap_or("CPU").trim();
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = read("/proc/meminfo");
    let kib =
        memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{cores} cores ({model}), {} GB, Linux {}", kib.unwrap_or(0) >> 20, kernel.trim())
}

pub(crate) fn commit() -> String {
    let git = |args: &[&str]| {
        let said = Command::new("git").args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
        said.status.success().then(|| String::from_utf8_lossy(&said.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    let changed =
        git(&["status", "--porcelain", "--", "src", "Cargo.toml", "Cargo.lock"]).is_some_and(|list| !list.is_empty());
    if changed { format!("{commit}, with changes") } else { commit }
}
