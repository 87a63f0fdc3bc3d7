//! The command line: what can be typed, and how the program ends.
//!
//! A subcommand is a file `cli/<name>.rs` with its `Args` and an `async fn run(args, shutdown)`; it is named once in
//! [`Command`] and once in [`run`]. It prints with `writeln!(io::stdout(), ...)?` and never with `println!`, which
//! panics when the reader of a pipe goes away.

mod check;
mod connect;
mod dead_letters;
mod diff;
mod explain;
mod migrate;
mod resources;
mod run;
mod test_sink;
mod watch;

use std::{io, process::ExitCode};

use clap::{Parser, Subcommand};
use kubediff::shutdown::Shutdown;

use crate::log;

/// `0.1.0 (1a2b3c4d5e6f)`
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("KUBEDIFF_REVISION"), ")");

const AFTER_HELP: &str = "\
Examples:
  kubediff run --config kubediff.toml       the daemon: everything that changes, to where it should go
  kubediff watch deploy -n shop             what happens to the Deployments of a namespace
  kubediff resources                        what is watched by default, and what is not
  kubediff diff old.yaml new.yaml           what changed between two files; no cluster needed
  kubediff check --config kubediff.toml     whether a configuration is right, and what it would do
  kubediff explain event.json               which routes take an event, and why the others do not
  kubediff test-sink ops --config F         does the sink work? Sends one sample
  kubediff dead-letters list --config F     what could not be delivered, and why
  kubediff --version                        the version and the git revision that it was built from
  KUBEDIFF_LOG=debug kubediff COMMAND       say more on stderr; also per module: info,kubediff::sink=debug
  kubediff --log-format json COMMAND        log for machines

Exit codes: 0 fine, 1 failed, 2 wrong usage or configuration, 130 stopped by a second signal.
The first SIGINT or SIGTERM finishes what is under way.";

#[derive(Debug, Parser)]
#[command(name = "kubediff", version = VERSION, about, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    log: log::Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch a cluster and tell of its changes: the daemon
    Run(run::Args),
    /// Show what changes in a cluster, as it changes
    Watch(watch::Args),
    /// List what would be watched, what not, and why
    Resources(resources::Args),
    Diff(diff::Args),
    Check(check::Args),
    Explain(explain::Args),
    Migrate(migrate::Args),
    /// Send one sample to a sink, and print what the other side said
    TestSink(test_sink::Args),
    /// List what could not be delivered, or ask for another try
    DeadLetters(dead_letters::Args),
}

async fn run(command: Command, shutdown: Shutdown) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(args, shutdown).await?,
        Command::Watch(args) => watch::run(args, shutdown).await?,
        Command::Resources(args) => resources::run(args, shutdown).await?,
        Command::Diff(args) => return diff::run(&args),
        Command::Check(args) => return check::run(args),
        Command::Explain(args) => return explain::run(args),
        Command::Migrate(args) => return migrate::run(&args),
        Command::TestSink(args) => test_sink::run(args).await?,
        Command::DeadLetters(args) => dead_letters::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// An error that the user can mend by typing something else, or by editing the configuration: exit code 2.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) anyhow::Error);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Usage {}

/// Parses, runs, and turns the result into an exit code.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(help_or_error) => {
            // A reader that is gone has seen enough.
            let _ = help_or_error.print();
            return ExitCode::from(u8::try_from(help_or_error.exit_code()).unwrap_or(2));
        }
    };
    let result = start(cli);
    if let Err(error) = &result
        && !is_closed_pipe(error)
    {
        eprintln!("kubediff: {error:#}");
    }
    exit_code(&result)
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    log::start(&cli.log)?;
    // The first to be asked for a TLS provider decides; every crate here is built with ring alone.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(async { run(cli.command, Shutdown::on_signals()?).await });
    // Whatever still blocks a thread has had its chance to finish inside `run`.
    runtime.shutdown_background();
    result
}

fn exit_code(result: &anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => *code,
        Err(error) if is_closed_pipe(error) => ExitCode::SUCCESS,
        Err(error) if error.is::<Usage>() => ExitCode::from(2),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Whether it failed because nobody reads stdout any more: `kubediff ... | head`.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn exit_codes_tell_usage_from_failure() {
        let code = |error: anyhow::Error| format!("{:?}", exit_code(&Err(error)));
        assert_eq!(code(anyhow::anyhow!("failed")), format!("{:?}", ExitCode::from(1)));
        assert_eq!(code(Usage(anyhow::anyhow!("typo")).into()), format!("{:?}", ExitCode::from(2)));
        let closed = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing");
        assert_eq!(code(closed), format!("{:?}", ExitCode::SUCCESS));
    }
}
