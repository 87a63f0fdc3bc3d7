//! `kubediff resources`: what would be watched, what not, and why.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    core::v1::Namespace,
};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use kubediff::{
    cluster::{
        Feed, Resource,
        select::{self, Verdict},
        source::Source,
    },
    config::Sources,
    shutdown::Shutdown,
};

use super::{Usage, connect};

/// Questions to the API server at a time.
const AT_ONCE: usize = 16;

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
    let connected = args.cluster.connect(&[]).await?;
    let found = connected.api.discover().await?;
    let resources: Vec<Arc<Resource>> = found.resources.into_iter().map(Arc::new).collect();
    let client = connected.api.client();
    let (live, unresolved) = match settings.namespaces.needs_live() {
        true => namespaces(client).await.map_or_else(|error| (BTreeSet::new(), Some(error)), |names| (names, None)),
        false => (BTreeSet::new(), None),
    };
    let selected = select::plan(&settings, &resources, &live);
    let ask = async |feed| Ok::<_, kube::Error>((feed, denied(client, feed).await?));
    let permitted: Result<Vec<_>, _> =
        stream::iter(&selected.feeds).map(ask).buffer_unordered(AT_ONCE).try_collect().await;
    let mut feeds: HashMap<String, Vec<(&Feed, Vec<&str>)>> = HashMap::new();
    for (feed, denied) in permitted.as_ref().ok().into_iter().flatten() {
        feeds.entry(feed.resource.group_resource()).or_default().push((feed, denied.clone()));
    }
    let mut rows: Vec<(Standing, String, String, String)> = selected
        .verdicts
        .iter()
        .map(|(resource, verdict)| {
            let feeds = feeds.get(&resource.group_resource()).map_or(&[][..], Vec::as_slice);
            let (standing, why) = stand(verdict, feeds);
            (standing, resource.to_string(), resource.kind.clone(), why)
        })
        .collect();
    rows.sort();
    let width =
        |column: fn(&(Standing, String, String, String)) -> usize| rows.iter().map(column).max().unwrap_or_default();
    let (names, kinds) = (width(|row| row.1.len()), width(|row| row.2.len()));
    let mut out = io::stdout().lock();
    for (standing, name, kind, why) in &rows {
        writeln!(out, "{standing:<8} {name:<names$}  {kind:<kinds$}  {why}")?;
    }
    for gone in &found.unavailable {
        writeln!(out, "unknown  {}/{}  its server does not answer: {}", gone.group, gone.version, gone.reason)?;
    }
    for (_, words) in select::unmatched(&settings, &resources) {
        writeln!(out, "no match {words}")?;
    }
    if let Err(error) = &permitted {
        writeln!(out, "unknown  whether it is permitted: the API server was asked and said {error}")?;
    } else if rows.iter().any(|row| row.0 == Standing::Denied) {
        writeln!(out, "What is denied is taken up when it is permitted; `kubediff rbac` prints the role for it.")?;
    }
    if let Some(error) = unresolved {
        writeln!(out, "unknown  which namespaces there are for the patterns: {error}")?;
    }
    Ok(())
}

/// What is said of a resource first, and the order in which they are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Watched,
    Denied,
    Skipped,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Watched => "watched",
            Self::Denied => "denied",
            Self::Skipped => "skipped",
        })
    }
}

/// A resource's verdict, and what its feeds may not do.
fn stand(verdict: &Verdict, feeds: &[(&Feed, Vec<&str>)]) -> (Standing, String) {
    if matches!(verdict, Verdict::Skipped(_)) {
        return (Standing::Skipped, verdict.to_string());
    }
    let denied: Vec<_> = feeds.iter().filter(|(_, verbs)| !verbs.is_empty()).collect();
    let none = !denied.is_empty() && denied.len() == feeds.len();
    let mut why = verdict.to_string();
    for (feed, verbs) in denied {
        let place = feed.namespace().map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        why.push_str(&format!("; not permitted{place}: {}", verbs.join(", ")));
    }
    (if none { Standing::Denied } else { Standing::Watched }, why)
}

/// What it takes to watch a feed, as the reflector does, and this user may not.
async fn denied(client: &kube::Client, feed: &Feed) -> Result<Vec<&'static str>, kube::Error> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let mut denied = Vec::new();
    for verb in ["list", "watch"] {
        let attributes = ResourceAttributes {
            group: Some(feed.resource.group.clone()),
            version: Some(feed.resource.version.clone()),
            resource: Some(feed.resource.plural.clone()),
            namespace: feed.namespace().map(str::to_owned),
            verb: Some(verb.to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
        let review = SelfSubjectAccessReview { spec, ..Default::default() };
        let answer = reviews.create(&PostParams::default(), &review).await?;
        if !answer.status.is_some_and(|status| status.allowed) {
            denied.push(verb);
        }
    }
    Ok(denied)
}

/// The names of all namespaces.
async fn namespaces(client: &kube::Client) -> Result<BTreeSet<String>, kube::Error> {
    let all: Api<Namespace> = Api::all(client.clone());
    let all = all.list_metadata(&ListParams::default()).await?;
    Ok(all.items.into_iter().filter_map(|namespace| namespace.metadata.name).collect())
}
