//! `kubediff test-sink`: one sample to one sink, and what the other side said.

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use anyhow::bail;
use kubediff::{
    config::Sources,
    sink::{self, Outcome, sample},
};

use super::Usage;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff test-sink ops --config kubediff.toml
The sample looks like a changed image of a Deployment shop/web and says that it is a sample. What the other side answers is
printed: a status with the beginning of its text, or the channel and the number of the message in Slack.")]
pub(crate) struct Args {
    /// As in [sinks.NAME]
    name: String,
    /// The configuration
    #[arg(long, short, value_name = "FILE", env = "KUBEDIFF_CONFIG")]
    config: Option<PathBuf>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let plan = Sources::new(args.config).load().map_err(|problems| Usage(problems.into()))?;
    let Some(settings) = plan.sinks.iter().find(|sink| sink.name == args.name) else {
        let names: Vec<&str> = plan.sinks.iter().map(|sink| sink.name.as_str()).collect();
        return Err(Usage(anyhow::anyhow!("there is no sink {:?}; there are: {}", args.name, names.join(", "))).into());
    };
    let built = sink::build(settings).map_err(|error| Usage(anyhow::anyhow!("sink {}: {error}", args.name)))?;
    let event = Arc::new(sample::redacted_now());
    let timeout = settings.retry.timeout;
    let Ok((outcome, said)) = tokio::time::timeout(timeout, built.try_out(&event)).await else {
        bail!("sink {}: no answer within {} s", args.name, timeout.as_secs_f32());
    };
    match outcome {
        Outcome::Delivered if said.is_empty() => writeln!(io::stderr(), "sink {}: delivered", args.name)?,
        Outcome::Delivered => writeln!(io::stderr(), "sink {}: delivered; the answer: {said}", args.name)?,
        Outcome::Retry { after: Some(after), reason } => {
            bail!("sink {}: asks to wait {} s: {reason}", args.name, after.as_secs_f32())
        }
        Outcome::Retry { after: None, reason } => bail!("sink {}: would be tried again: {reason}", args.name),
        Outcome::Reject { reason } => bail!("sink {}: does not take it: {reason}", args.name),
        Outcome::Disabled { reason } => bail!("sink {}: wants nothing more: {reason}", args.name),
        Outcome::Closed => return Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
    }
    Ok(())
}
