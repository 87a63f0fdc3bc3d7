//! `kubediff watch`: the first thing a person tries. What changes, as it changes, in the terminal.

use std::sync::Arc;

use kubediff::{
    app,
    cluster::{
        informer,
        select::{self, Namespaces, Pattern},
        store::{self, Place},
    },
    ledger::{namespaces::Asks, retention::Keep},
    shutdown::Shutdown,
    sink::{self, stdout},
};
use tokio::sync::watch;

use super::{Usage, connect, redaction::Redaction};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff watch                            everything but the noisy kinds, in all namespaces
  kubediff watch deploy cm -n shop          Deployments and ConfigMaps of one namespace
  kubediff watch 'apps/*' -l app=web        a whole group, by label
  kubediff watch -o json | jq .summary      one event a line")]
pub(crate) struct Args {
    /// Kinds, resources, short names or patterns: deploy, configmaps, apps/*, *.cert-manager.io
    resources: Vec<String>,
    /// One namespace; give it again for several, or a pattern
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Vec<String>,
    /// All namespaces: the default, for the habit's sake
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Labels that objects must have
    #[arg(long, short = 'l', value_name = "SELECTOR", default_value = "")]
    selector: String,
    /// text for people, json for machines
    #[arg(long, short, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    output: String,
    #[command(flatten)]
    redaction: Redaction,
    #[command(flatten)]
    cluster: connect::Options,
}

pub(crate) async fn run(args: Args, shutdown: Shutdown) -> anyhow::Result<()> {
    let select = select(&args).map_err(Usage)?;
    let format = if args.output == "json" { stdout::Format::Json } else { stdout::Format::Text };
    let terminal = sink::Settings {
        name: "terminal".into(),
        target: sink::Target::Stdout(stdout::Settings { format, over_progress: false }),
        retry: sink::Retry::default(),
    };
    let redact = args.redaction.settings().map_err(Usage)?;
    let connected = args.cluster.connect(&redact.patterns).await?;
    let settings = app::Settings {
        cluster: connected.name,
        select,
        informer: informer::Settings::default(),
        redact,
        redaction_key: None,
        place: Place::Temporary,
        keep: Keep::default(),
        probes: None,
        page: None,
        sinks: vec![terminal],
        route: None,
        ha: None,
        asks_namespaces: Asks::Nothing,
        explain: None,
        may_fail: Vec::new(),
    };
    let (_never, reload) = watch::channel(app::Reload::default());
    Ok(app::run(settings, Arc::new(connected.api), shutdown, reload).await?)
}

fn select(args: &Args) -> anyhow::Result<select::Settings> {
    let mut settings = select::Settings::default();
    if !args.resources.is_empty() {
        settings.include = args.resources.iter().map(|text| Pattern::parse(text)).collect::<Result<_, _>>()?;
    }
    settings.namespaces = Namespaces { include: args.namespace.clone(), exclude: Vec::new() };
    settings.namespaces.check()?;
    // Checked here for its better words; the server applies it.
    args.selector.parse::<store::Selector>()?;
    settings.labels.clone_from(&args.selector);
    Ok(settings)
}
