//! kubediff beside a plain Go program on client-go's informers: the same control plane, objects, changes and receiver,
//! one after the other in one run. `make bench` runs it; `docs/benchmarks.md` is what `--write` makes of it.
#![allow(unreachable_pub, reason = "nothing of a bench binary is reachable from outside")]

mod args;
mod budget;
mod load;
mod measure;
mod objects;
mod plot;
mod population;
mod process;
mod recorder;
mod report;
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
    let mut report = Report::new();
    for &size in &args.sizes {
        report.sizes.push(measure::size(&args, size, &subjects).await);
        println!("{}", report.text());
    }
    if args.write {
        match report.write() {
            Ok(path) => println!("written to {path}"),
            Err(e) => {
                eprintln!("the report could not be written: {e}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
