//! The command line: what can be typed, and how the program ends.
//!
//! A subcommand is a file `cli/<name>.rs` with its `Args` and an `async fn run(args, shutdown)`; it is named once in
//! [`Command`] and once in [`run`]. It prints with `writeln!(io::stdout(), ...)?` and never with `println!`, which
//! panics when the reader of a pipe goes away.

mod at;
mod blame;
mod check;
mod clock;
mod completions;
mod connect;
mod dead_letters;
mod demo;
mod diff;
mod explain;
mod history;
mod history_source;
mod migrate;
mod object;
mod rbac;
mod record;
mod redaction;
mod replay;
mod resources;
mod run;
mod show;
mod silence;
mod surroundings;
mod tail;
mod terminal;
mod test_sink;
mod undo;
mod watch;

use std::{ffi::OsStr, io, path::Path, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use kubediff::shutdown::Shutdown;

use crate::log;

/// `0.1.0 (1a2b3c4d5e6f)`
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("KUBEDIFF_REVISION"), ")");

const AFTER_HELP: &str = "\
Examples:
  kubediff demo                             what it does, on a recorded cluster; nothing else is needed
  kubediff run --config kubediff.toml       the daemon: everything that changes, to where it should go
  kubediff watch deploy -n shop             what happens to the Deployments of a namespace
  kubediff history deploy/web -n shop       what happened to a Deployment, and who did it
  kubediff show 7f0c1a2b3c                  one change, field by field
  kubediff at deploy/web 10:42 -n shop      an object as it was
  kubediff blame deploy/web -n shop         who set each of its lines last
  kubediff undo 7f0c1a2b3c                  the kubectl command that takes a change back
  kubediff tail -n shop                     what is recorded, as it is
  kubediff silence -n shop --for 1h --reason R   tell nobody for a while
  kubediff resources                        what is watched by default, and what is not
  kubediff rbac --config kubediff.toml      the smallest role that it needs
  kubediff diff old.yaml new.yaml           what changed between two files; no cluster needed
  kubediff record --for 5m                  a recording of a cluster, without its secrets: for bug reports
  kubediff check --config kubediff.toml     whether a configuration is right, and what it would do
  kubediff explain event.json               which routes take an event, and why the others do not
  kubediff replay --since 24h --config F    what a configuration would have sent
  kubediff test-sink ops --config F         does the sink work? Sends one sample
  kubediff dead-letters list --config F     what could not be delivered, and why
  kubediff completions bash                 words for the shell
  kubediff --version                        the version and the git revision that it was built from
  KUBEDIFF_LOG=debug kubediff COMMAND       say more on stderr; also per module: info,kubediff::sink=debug
  kubediff --log-format json COMMAND        log for machines

As a plugin of kubectl: put it on the PATH as kubectl-kubediff, and kubectl kubediff history deploy/web works.
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
    /// Play a recording of a real cluster: a minute that shows what kubediff does
    Demo(demo::Args),
    /// Watch a cluster and tell of its changes: the daemon
    Run(run::Args),
    /// Show what changes in a cluster, as it changes
    Watch(watch::Args),
    /// List what would be watched, what not, and why
    Resources(resources::Args),
    History(history::Args),
    Show(show::Args),
    At(at::Args),
    Blame(blame::Args),
    Undo(undo::Args),
    Tail(tail::Args),
    /// Print the smallest Role or ClusterRole that a configuration needs
    Rbac(rbac::Args),
    /// Write down what happens in a cluster, redacted, to be played by `kubediff demo`
    Record(record::Args),
    Diff(diff::Args),
    Check(check::Args),
    Explain(explain::Args),
    Replay(replay::Args),
    Silence(silence::Args),
    Migrate(migrate::Args),
    /// Send one sample to a sink, and print what the other side said
    TestSink(test_sink::Args),
    /// List what could not be delivered, or ask for another try
    DeadLetters(dead_letters::Args),
    Completions(completions::Args),
}

async fn run(command: Command, shutdown: Shutdown) -> anyhow::Result<ExitCode> {
    match command {
        Command::Demo(args) => demo::run(args, shutdown).await?,
        Command::Run(args) => run::run(args, shutdown).await?,
        Command::Watch(args) => watch::run(args, shutdown).await?,
        Command::Resources(args) => resources::run(args, shutdown).await?,
        Command::Rbac(args) => rbac::run(args, shutdown).await?,
        Command::Record(args) => record::run(args, shutdown).await?,
        Command::Diff(args) => return diff::run(&args),
        Command::Check(args) => return check::run(args),
        Command::Explain(args) => return explain::run(args).await,
        Command::History(args) => history::run(args).await?,
        Command::Show(args) => show::run(args).await?,
        Command::At(args) => at::run(args).await?,
        Command::Blame(args) => blame::run(args).await?,
        Command::Undo(args) => undo::run(args).await?,
        Command::Tail(args) => tail::run(args, shutdown).await?,
        Command::Replay(args) => replay::run(args).await?,
        Command::Silence(args) => silence::run(args).await?,
        Command::Completions(args) => completions::run(&args, &mut Cli::command())?,
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
    let called = std::env::args_os().next();
    let command = Cli::command().bin_name(called_as(called.as_deref()));
    let parsed = command.try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
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

/// What help calls the program: a plugin of kubectl is not called by the name of its file.
fn called_as(file: Option<&OsStr>) -> &'static str {
    let name = file.and_then(|file| Path::new(file).file_stem()).and_then(OsStr::to_str);
    match name {
        Some("kubectl-kubediff") => "kubectl kubediff",
        _ => "kubediff",
    }
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    // The demo's screen is for the demo.
    let level = if matches!(cli.command, Command::Demo(_)) { "warn" } else { log::DEFAULT };
    log::start(&cli.log, level)?;
    // The first to be asked for a TLS provider decides; every crate here is built with ring alone.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Two threads take in thousands of changes a second; one for each core of a large node would cost memory for nothing.
    let workers = std::thread::available_parallelism().map_or(2, |cores| cores.get().min(2));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
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
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_says_what_it_is_for_and_those_with_options_have_examples() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{} says nothing", command.get_name());
            let examples = command.get_after_help().is_some_and(|help| help.to_string().contains("Examples:"));
            assert!(examples || EXAMPLES_ELSEWHERE.contains(&command.get_name()), "{}", command.get_name());
        }
    }

    /// The examples of the program itself show all that there is to these.
    const EXAMPLES_ELSEWHERE: [&str; 3] = ["resources", "check", "migrate"];

    #[test]
    fn a_plugin_of_kubectl_is_called_so_in_its_help() {
        let name = |file: &str| called_as(Some(OsStr::new(file)));
        assert_eq!(name("/usr/local/bin/kubectl-kubediff"), "kubectl kubediff");
        assert_eq!(name("./kubediff"), "kubediff");
        assert_eq!(called_as(None), "kubediff");
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
