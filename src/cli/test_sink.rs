//! `kubediff test-sink`: one sample to one sink, and what the other side said.

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use anyhow::bail;
use kubediff::{
    config::Sources,
    sink::{self, Built, Failed, Outcome, rollup::Story, sample},
};

use super::Usage;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff test-sink ops --config kubediff.toml
The sample looks like a changed image of a Deployment shop/web and says that it is a sample.")]
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
    let event = Arc::new(sample::event_now());
    let sent = async {
        match built {
            Built::Sink(sink) => sink.send(&[event]).await,
            Built::Chat(chat) => {
                let mut story = Story::default();
                story.add(&event);
                match chat.post(&story.card(), None).await {
                    Ok(_) => Outcome::Delivered,
                    Err(Failed::Outcome(outcome)) => outcome,
                    Err(Failed::Gone) => Outcome::retry("the message is gone"),
                }
            }
        }
    };
    let timeout = settings.retry.timeout;
    let outcome = tokio::time::timeout(timeout, sent).await;
    match outcome {
        Err(_) => bail!("sink {}: no answer within {} s", args.name, timeout.as_secs_f32()),
        Ok(Outcome::Delivered) => writeln!(io::stderr(), "sink {}: delivered", args.name)?,
        Ok(Outcome::Retry { after: Some(after), reason }) => {
            bail!("sink {}: asks to wait {} s: {reason}", args.name, after.as_secs_f32())
        }
        Ok(Outcome::Retry { after: None, reason }) => bail!("sink {}: would be tried again: {reason}", args.name),
        Ok(Outcome::Reject { reason }) => bail!("sink {}: does not take it: {reason}", args.name),
        Ok(Outcome::Disabled { reason }) => bail!("sink {}: wants nothing more: {reason}", args.name),
        Ok(Outcome::Closed) => return Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
    }
    Ok(())
}
