//! kubediff beside a plain Go program on client-go's informers: the same control plane, objects, changes and receiver,
//! one after the other in one run. `make bench` runs it; `docs/benchmarks.md` is what `--write` makes of it.
#![allow(unreachable_pub, reason = "nothing of a bench binary is reachable from outside")]

mod args;
mod budget;
mod fleet;
mod load;
mod machine;
mod measure;
mod objects;
mod plot;
mod population;
mod process;
mod recorder;
mod report;
mod soak;
mod subject;
mod wire;

/// The harness of the tests.
#[path = "../../tests"]
mod tests {
    #[allow(dead_code, reason = "the bench uses the part of it that it needs")]
    pub mod harness;
}

use std::process::ExitCode;

use clap::Parser;

use self::{args::Args, report::Report, tests::harness};

/// Seconds of idling at all sizes but the first: what is asked at rest does not depend on the size.
const SHORT_IDLE: u32 = 60;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let args = Args::parse();
    let subjects = match subject::all(&args).await {
        Ok(subjects) => subjects,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(hours) = args.soak_hours {
        return soak::run(&args, hours, &subjects).await;
    }
    let mut report = Report::new();
    for (nth, &size) in args.sizes.iter().enumerate() {
        let idle = if nth == 0 { args.idle } else { args.idle.min(SHORT_IDLE) };
        report.sizes.push(measure::size(&args, size, idle, &subjects).await);
        println!("{}", report.text());
        // After each, so that a run that is cut short leaves what it has.
        if args.write {
            match report.write() {
                Ok(path) => println!("written to {path}"),
                Err(e) => {
                    eprintln!("the report could not be written: {e}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    let missed: Vec<_> = report.sizes.iter().flat_map(budget::of).filter(|budget| !budget.met).collect();
    for budget in &missed {
        eprintln!("missed: {}: {} at most, is {}", budget.what, budget.most, budget.is);
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
