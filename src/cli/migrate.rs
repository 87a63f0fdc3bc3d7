//! `kubediff migrate`: the old kubediff's YAML as TOML.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::anyhow;
use kubediff::config::{Lookup, Sources, legacy};

use super::Usage;

/// Print the configuration of the old kubediff as TOML
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The old kubediff's config.yaml
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = args.file.display().to_string();
    let text =
        std::fs::read_to_string(&args.file).map_err(|error| Usage(anyhow!("{name}: cannot be read: {error}")))?;
    let toml = legacy::migrate(&text)
        .map_err(|list| Usage(anyhow!(kubediff::config::Problems { file: name.clone(), list })))?
        .toml;
    // What is printed must be right, or it is of no use.
    let sources = Sources { path: None, variables: Vec::new(), lookup: Lookup::Skip };
    sources.build(&name, &toml).map_err(|problems| Usage(anyhow!("as TOML it would be wrong:\n{toml}\n{problems}")))?;
    write!(io::stdout(), "{toml}")?;
    Ok(ExitCode::SUCCESS)
}
