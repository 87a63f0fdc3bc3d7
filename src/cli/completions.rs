//! `kubediff completions`: what makes a shell complete kubediff's words.

use std::io::{self, Write};

use clap_complete::Shell;

/// Print what makes a shell complete kubediff's commands and options
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  source <(kubediff completions bash)                                     for this shell
  kubediff completions bash > /etc/bash_completion.d/kubediff             for good
  kubediff completions zsh > \"${fpath[1]}/_kubediff\"
  kubediff completions fish > ~/.config/fish/completions/kubediff.fish
  kubediff completions powershell >> $PROFILE")]
pub(crate) struct Args {
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &Args, command: &mut clap::Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "kubediff", &mut script);
    Ok(io::stdout().write_all(&script)?)
}
