//! `kubediff dead-letters`: what could not be delivered, and another try for it.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use kubediff::{
    config::Sources,
    ledger::{dead, lead},
};
use rusqlite::{Connection, OpenFlags};

use super::Usage;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff dead-letters list --config kubediff.toml          the newest, and why
  kubediff dead-letters list --state kubediff.db -o json     one JSON object a line
  kubediff dead-letters retry 17 --config kubediff.toml      one of them again
  kubediff dead-letters retry --all --sink ops               all of a sink again
A running kubediff takes them up within seconds, another one at its start. Of several replicas each has those that it gave
up itself, and sends them when it leads.")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    state: State,
}

#[derive(Debug, clap::Args)]
struct State {
    /// The configuration that names the state file
    #[arg(long, short, value_name = "FILE", env = "KUBEDIFF_CONFIG", global = true)]
    config: Option<PathBuf>,
    /// The state file itself
    #[arg(long, value_name = "FILE", global = true)]
    state: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Print them, the newest first
    List {
        /// Those of one sink
        #[arg(long)]
        sink: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 100)]
        limit: usize,
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Ask for another try
    Retry {
        /// The number in the first column of the list
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<i64>,
        #[arg(long)]
        all: bool,
        /// Those of one sink
        #[arg(long)]
        sink: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let path = args.state.path()?;
    let mut out = io::stdout();
    match &args.what {
        What::List { sink, limit, output } => {
            let file = open(&path)?;
            let letters = dead::list(&file, sink.as_deref(), None, *limit)?;
            for letter in &letters {
                match output {
                    Output::Json => writeln!(out, "{}", serde_json::to_string(letter)?)?,
                    Output::Table => writeln!(
                        out,
                        "{}  {}  {}  {} {}{}\n    {}\n    {}",
                        letter.id,
                        letter.time.strftime("%F %TZ"),
                        letter.sink,
                        letter.attempts,
                        if letter.attempts == 1 { "attempt" } else { "attempts" },
                        if letter.again { ", asked for again" } else { "" },
                        letter.about,
                        letter.reason
                    )?,
                }
            }
            if letters.is_empty() && matches!(output, Output::Table) {
                writeln!(out, "there are none: everything was delivered or is on its way")?;
            }
            if let (Some(name), Output::Table) = (lead::leader_instead(&file)?, output) {
                eprintln!("of this replica alone, which stands by; {name} leads and has its own");
            }
        }
        What::Retry { id, sink, .. } => {
            let file = open(&path)?;
            let n = dead::retry(&file, *id, sink.as_deref())?;
            anyhow::ensure!(n > 0 || id.is_none(), "there is no such dead letter; see `kubediff dead-letters list`");
            let them = if n == 1 { "dead letter" } else { "dead letters" };
            match lead::leader_instead(&file)? {
                None => writeln!(out, "{n} {them} will be sent again")?,
                Some(name) => {
                    writeln!(out, "{n} {them} will be sent again when this replica leads; now {name} does")?;
                }
            }
        }
    }
    Ok(())
}

impl State {
    fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(path) = &self.state {
            return Ok(path.clone());
        }
        let plan = Sources::new(self.config.clone()).load().map_err(|problems| Usage(problems.into()))?;
        plan.state.path.context("state.path is \"memory\": there is no file to look at")
    }
}

/// The file as it is, whether or not a kubediff has it open.
fn open(path: &Path) -> anyhow::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        Connection::open_with_flags(path, flags).with_context(|| format!("cannot open {}", path.display()))?;
    connection.busy_timeout(Duration::from_secs(10))?;
    Ok(connection)
}
