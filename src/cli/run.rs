//! `kubediff run`: the daemon.

use std::{path::PathBuf, sync::Arc};

use kubediff::{app, config::Sources, shutdown::Shutdown};
use tokio::sync::watch;

use super::{Usage, connect};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration: TOML, or the YAML of the old kubediff. Without one, everything but the noisy kinds is watched
    /// and printed as JSON lines
    #[arg(long, short, value_name = "FILE", env = "KUBEDIFF_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    cluster: connect::Options,
}

pub(crate) async fn run(args: Args, shutdown: Shutdown) -> anyhow::Result<()> {
    let plan = Sources::new(args.config).load().map_err(|problems| Usage(problems.into()))?;
    let connected = args.cluster.connect().await?;
    let (_reload, plans) = watch::channel(None);
    Ok(app::run(plan, Arc::new(connected.api), connected.name, shutdown, plans).await?)
}
