//! What the kernel says of a process: memory and processor time.

use std::{path::Path, process::Command, sync::LazyLock, time::Duration};

/// Memory in KiB, as proc(5) has it. A process that is gone has none, and nothing can be said of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// VmHWM: the most that was ever resident.
    pub peak: u64,
    /// VmRSS.
    pub now: u64,
    /// RssAnon: heap and stacks, without the program's own pages.
    pub anonymous: u64,
}

pub fn memory(pid: u32) -> Memory {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|kib| kib.parse().ok());
        kib.unwrap_or_else(|| panic!("process {pid} has ended: there is no {name}"))
    };
    Memory { peak: field("VmHWM:"), now: field("VmRSS:"), anonymous: field("RssAnon:") }
}

/// Open file descriptors.
pub fn files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// User and system time of all threads so far, ended ones included. In steps of a clock tick, usually 10 ms.
pub fn cpu(pid: u32) -> Duration {
    static TICKS_A_SECOND: LazyLock<u32> = LazyLock::new(|| {
        let said = Command::new("getconf").arg("CLK_TCK").output().ok();
        said.and_then(|said| String::from_utf8(said.stdout).ok()?.trim().parse().ok()).unwrap_or(100)
    });
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name, which may hold anything, the state is field 3; utime and stime are fields 14 and 15.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_secs(ticks(11) + ticks(12)) / *TICKS_A_SECOND
}

/// Bytes of all files in a folder, not of those in folders below.
pub fn size_of(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).filter(std::fs::Metadata::is_file).map(|file| file.len()).sum()
}
