//! `kubediff wait`: does nothing until it is told to stop. Shows that logging, signals and exit codes work.

use std::{
    io::{self, Write},
    time::Duration,
};

use kubediff::shutdown::Shutdown;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long it takes to finish after the first signal
    #[arg(long, default_value_t = 0, value_name = "SECS")]
    finish_secs: u64,
    /// Print a line again and again while waiting
    #[arg(long)]
    chatty: bool,
}

pub(crate) async fn run(args: Args, shutdown: Shutdown) -> anyhow::Result<()> {
    tracing::info!("waiting");
    while args.chatty && !shutdown.has_begun() {
        writeln!(io::stdout(), "waiting")?;
        tokio::task::yield_now().await;
    }
    shutdown.begun().await;
    tokio::time::sleep(Duration::from_secs(args.finish_secs)).await;
    tracing::info!("finished");
    Ok(())
}
