//! A million small objects through the door into the store, without an API server: what the process holds then.
//!
//!     cargo bench --features jemalloc --bench memory -- 1000000
//!
//! Fails when a million take more than 250 MB. With `--write` the figures go to docs/benchmarks/million.md.

#[path = "cluster/machine.rs"]
mod machine;

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use kubediff::{
    cluster::{
        Feed, Resource, Scope,
        informer::{Factory, Settings},
        source::script::Many,
        store::{Place, Store},
    },
    redact::{self, Door},
};

/// As the program has it.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const MOST_KIB_A_MILLION: u64 = 250 << 10;

/// The number of objects is an argument; `cargo bench` adds `--bench`.
#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let count = std::env::args().skip(1).find_map(|arg| arg.parse::<u64>().ok()).unwrap_or(1_000_000);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("kubediff.db");
    let (store, writing) = Store::open(&Place::File(file.clone()), None).expect("a new file");
    let door = Door::new(&redact::Settings::default(), &[7; 32]).expect("the usual rules");
    let resource = Resource::core("v1", "configmaps", "ConfigMap");
    let source = Many::new(resource.clone(), count, small);
    let before = status("VmRSS:");
    let factory = Factory::new(Arc::new(source), Arc::new(door), store.clone(), Settings::default(), None);
    let informer = factory.informer(Feed::new(resource, Scope::All));
    let began = Instant::now();
    factory.start();
    informer.wait_for_sync().await.expect("the store is open");
    let took = began.elapsed();
    let synced = status("VmRSS:");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (steady, peak) = (status("VmRSS:"), status("VmHWM:"));
    let disk: u64 = std::fs::read_dir(dir.path())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|f| f.metadata().ok())
        .map(|f| f.len())
        .sum();
    let mb = |kib: u64| kib as f64 / 1024.0;
    let figures = format!(
        "{count} objects of {} bytes in {:.1} s: peak {:.1} MB, {:.1} MB when synced, {:.1} MB steady ({:.1} MB before, {:.0} bytes an object), {:.0} bytes an object on disk",
        small(0).len(),
        took.as_secs_f64(),
        mb(peak),
        mb(synced),
        mb(steady),
        mb(before),
        (steady.saturating_sub(before) << 10) as f64 / count as f64,
        disk as f64 / count as f64,
    );
    println!("{figures}");
    if std::env::args().any(|arg| arg == "--write") {
        write(&figures);
    }
    factory.shut_down().await;
    drop((factory, informer, store));
    writing.join();
    let most = MOST_KIB_A_MILLION * count.div_ceil(1_000_000);
    if peak < most {
        ExitCode::SUCCESS
    } else {
        eprintln!("more than {:.0} MB", mb(most));
        ExitCode::FAILURE
    }
}

fn write(figures: &str) {
    let text = format!(
        "# A million small objects\n\n\
         Written by `make bench`; do not edit. The informer and its store alone, fed by a scripted source through the door\n\
         (`benches/memory.rs`), in a process of their own; at most 250 MB at the peak.\n\n\
         {}; commit {}; {}\n\n{figures}.\n",
        machine::machine(),
        machine::commit(),
        jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC"),
    );
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/benchmarks/million.md");
    std::fs::write(page, text).expect("a writable work tree");
}

/// Small, and unlike its neighbours where objects are.
fn small(i: u64) -> Bytes {
    let at = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let text = format!(
        r#"{{"metadata":{{"name":"config-{i:08}","namespace":"team-{:04}","uid":"{:08x}-1111-4222-8333-{i:012x}","resourceVersion":"{}","creationTimestamp":"2026-10-01T00:00:00Z","labels":{{"app":"app-{}"}}}},"data":{{"value":"{at:016x}","mode":"active"}}}}"#,
        i / 1_000,
        at >> 32,
        1_000 + i,
        at % 500,
    );
    Bytes::from(text)
}

/// A field of /proc/self/status in KiB.
fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
