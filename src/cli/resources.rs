//! `kubediff resources`: what would be watched, what not, and why.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use kubediff::{
    cluster::{
        Resource,
        select::{self, Verdict},
        source::Source,
    },
    config::Sources,
    shutdown::Shutdown,
};

use super::{Usage, connect};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration that says what is watched
    #[arg(long, short, value_name = "FILE", env = "KUBEDIFF_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    cluster: connect::Options,
}

pub(crate) async fn run(args: Args, _: Shutdown) -> anyhow::Result<()> {
    let plan = Sources::new(args.config).load().map_err(|problems| Usage(problems.into()))?;
    let settings = plan.select;
    let connected = args.cluster.connect().await?;
    let found = connected.api.discover().await?;
    let resources: Vec<Arc<Resource>> = found.resources.into_iter().map(Arc::new).collect();
    let selected = select::plan(&settings, &resources, &BTreeSet::new());
    let mut rows: Vec<(bool, String, String, String)> = selected
        .verdicts
        .iter()
        .map(|(resource, verdict)| {
            let read = matches!(verdict, Verdict::Read(_));
            (!read, resource.to_string(), resource.kind.clone(), verdict.to_string())
        })
        .collect();
    rows.sort();
    let width =
        |column: fn(&(bool, String, String, String)) -> usize| rows.iter().map(column).max().unwrap_or_default();
    let (names, kinds) = (width(|row| row.1.len()), width(|row| row.2.len()));
    let mut out = io::stdout().lock();
    for (skipped, name, kind, why) in &rows {
        writeln!(out, "{:<8} {name:<names$}  {kind:<kinds$}  {why}", if *skipped { "skipped" } else { "watched" })?;
    }
    for gone in &found.unavailable {
        writeln!(out, "unknown  {}/{}  its server does not answer: {}", gone.group, gone.version, gone.reason)?;
    }
    for (pattern, nearest) in select::unmatched(&settings, &resources) {
        let hint = nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
        writeln!(out, "no match \"{pattern}\" fits nothing that is served{hint}")?;
    }
    Ok(())
}
