//! `kubediff watch`: the first thing a person tries. What changes, as it changes, in the terminal.

use std::sync::Arc;

use anyhow::Context;
use kubediff::{
    app,
    cluster::select::{Namespaces, Pattern},
    config::Sources,
    shutdown::Shutdown,
};
use tokio::sync::watch;

use super::{Usage, connect};

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
    cluster: connect::Options,
}

pub(crate) async fn run(args: Args, shutdown: Shutdown) -> anyhow::Result<()> {
    let wanted = format!(
        "[state]\npath = \"memory\"\n[server]\nprobes = \"\"\npage = \"\"\n[sinks.terminal]\ntype = \"stdout\"\nformat = \"{}\"\n",
        args.output
    );
    let mut plan = Sources::new(None).build("", &wanted).map_err(|problems| Usage(problems.into()))?;
    if !args.resources.is_empty() {
        let parsed: Result<_, _> = args.resources.iter().map(|text| Pattern::parse(text)).collect();
        plan.select.include = parsed.map_err(|error| Usage(error.into()))?;
    }
    plan.select.namespaces = Namespaces { include: args.namespace, exclude: Vec::new() };
    plan.select.namespaces.check().map_err(|error| Usage(error.into()))?;
    plan.select.labels = args.selector;
    let connected = args.cluster.connect().await.context("which cluster?")?;
    let (_reload, plans) = watch::channel(None);
    Ok(app::run(plan, Arc::new(connected.api), connected.name, shutdown, plans).await?)
}
