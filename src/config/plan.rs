//! The checked plan: what the program runs on, in the types of the stages.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use super::{
    Lookup, Secret, Sources,
    file::{self, File},
    secret::Source,
};
use crate::{
    cluster::{informer, reflector, select},
    redact,
    route::{self, Rules, Table},
};

/// What the program runs on. Everything in it has been checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `None`: the context's name, or the cluster's uid.
    pub cluster: Option<String>,
    pub select: select::Settings,
    pub informer: informer::Settings,
    pub redact: redact::Settings,
    pub state: State,
    pub server: Server,
    /// In the order of their names; one to stdout when none is configured.
    pub sinks: Vec<Sink>,
    pub table: Arc<Table>,
    /// Files beside the configuration that it depends on.
    pub files: Vec<PathBuf>,
    /// As typed, defaults filled in.
    pub file: File,
}

/// `[state]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// `None`: in memory.
    pub path: Option<PathBuf>,
    pub retention: Duration,
    pub max_bytes: u64,
}

/// `[server]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub probes: Option<SocketAddr>,
    pub page: Option<SocketAddr>,
    pub page_url: Option<String>,
}

/// `[sinks.NAME]`
#[derive(Clone, Debug, PartialEq)]
pub struct Sink {
    pub name: String,
    pub kind: SinkKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SinkKind {
    Stdout(file::Stdout),
}

/// The sink that there is when none is configured.
pub const DEFAULT_SINK: &str = "stdout";

impl Plan {
    /// Builds from a file that [`super::check`] has no objection to.
    pub(super) fn new(file: File, sources: &Sources) -> Result<Self, String> {
        let mut secrets = Secrets { sources, files: Vec::new() };
        let mut sinks =
            file.sinks.iter().map(|(name, sink)| secrets.sink(name, sink)).collect::<Result<Vec<_>, _>>()?;
        if sinks.is_empty() {
            sinks.push(Sink { name: DEFAULT_SINK.to_owned(), kind: SinkKind::Stdout(file::Stdout::default()) });
        }
        let rules = Rules {
            sinks: sinks.iter().map(|sink| sink.name.clone()).collect(),
            routes: file.routes.clone(),
            default_sinks: file.default_sinks.clone(),
            silences: file.silences.clone(),
            annotations: file.annotations,
        };
        let table = Table::new(&rules).map_err(|error: route::Error| error.to_string())?;
        Ok(Self {
            cluster: some(&file.cluster),
            select: select(&file.watch)?,
            informer: informer(&file.watch),
            redact: redact::Settings {
                secrets: file.watch.secrets,
                patterns: file.redact.patterns.clone(),
                noise: file.noise.profile,
                ignore: file.noise.ignore.clone(),
                max_bytes: usize::try_from(file.redact.max_object_bytes.0).unwrap_or(usize::MAX),
            },
            state: State {
                path: (file.state.path != "memory").then(|| PathBuf::from(&file.state.path)),
                retention: Duration::from_secs(file.state.retention_days * 86_400),
                max_bytes: file.state.max_bytes.0,
            },
            server: Server {
                probes: file.server.probes.parse().ok(),
                page: file.server.page.parse().ok(),
                page_url: some(&file.server.page_url),
            },
            sinks,
            table: Arc::new(table),
            files: secrets.files,
            file,
        })
    }

    /// What differs from the plan that ran before.
    pub fn changes(&self, old: &Self) -> Changes {
        let named = |plan: &Self| plan.sinks.iter().map(|sink| (sink.name.clone(), sink.clone())).collect::<Vec<_>>();
        let (new_sinks, old_sinks) = (named(self), named(old));
        let find = |all: &[(String, Sink)], name: &str| all.iter().find(|(n, _)| n == name).map(|(_, s)| s.clone());
        let mut changes = Changes {
            cluster: self.cluster != old.cluster,
            watch: self.file.watch != old.file.watch,
            redact: self.redact != old.redact,
            state: self.state != old.state,
            server: self.server != old.server,
            routes: self.file.routes != old.file.routes
                || self.file.silences != old.file.silences
                || self.file.default_sinks != old.file.default_sinks
                || self.file.annotations != old.file.annotations,
            ..Changes::default()
        };
        for (name, sink) in &new_sinks {
            match find(&old_sinks, name) {
                None => changes.sinks_added.push(name.clone()),
                Some(before) if before != *sink => changes.sinks_changed.push(name.clone()),
                Some(_) => {}
            }
        }
        let gone = old_sinks.iter().filter(|(name, _)| find(&new_sinks, name).is_none());
        changes.sinks_removed = gone.map(|(name, _)| name.clone()).collect();
        changes
    }
}

/// What differs between two plans, so that what stays is left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub cluster: bool,
    /// Feeds may come and go. Those that both plans have go on.
    pub watch: bool,
    /// What documents look like: stored ones are compared with new ones, so this needs a restart.
    pub redact: bool,
    /// Needs a restart.
    pub state: bool,
    /// Needs a restart.
    pub server: bool,
    pub sinks_added: Vec<String>,
    pub sinks_changed: Vec<String>,
    pub sinks_removed: Vec<String>,
    /// Routes, silences, the default: the table is swapped.
    pub routes: bool,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Sections that a running program cannot change.
    pub fn needs_restart(&self) -> Vec<&'static str> {
        let all = [("cluster", self.cluster), ("redact", self.redact), ("state", self.state), ("server", self.server)];
        all.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn select(watch: &file::Watch) -> Result<select::Settings, String> {
    let patterns = |texts: &[String]| {
        let parsed = texts.iter().map(|text| select::Pattern::parse(text)).collect::<Result<Vec<_>, _>>();
        parsed.map_err(|error| error.to_string())
    };
    let selectors = watch.selectors.iter().map(|selector| {
        Ok(select::Selector {
            resource: select::Pattern::parse(&selector.resource).map_err(|error| error.to_string())?,
            labels: selector.labels.clone(),
            fields: selector.fields.clone(),
        })
    });
    Ok(select::Settings {
        include: patterns(&watch.include)?,
        exclude: patterns(&watch.exclude)?,
        default_exclude: patterns(&watch.default_exclude)?,
        namespaces: select::Namespaces { include: watch.namespaces.clone(), exclude: watch.exclude_namespaces.clone() },
        labels: watch.selector.clone(),
        selectors: selectors.collect::<Result<_, String>>()?,
        secrets: watch.secrets,
    })
}

fn informer(watch: &file::Watch) -> informer::Settings {
    let defaults = informer::Settings::default();
    let longest = Duration::from_secs(watch.watch_timeout_secs);
    informer::Settings {
        reflector: reflector::Settings {
            watch_timeout: longest / 2..=longest,
            page: u32::try_from(watch.page_size).unwrap_or(u32::MAX),
            ..defaults.reflector
        },
        lists: usize::try_from(watch.concurrent_lists).unwrap_or(usize::MAX),
        audit: (watch.audit_interval_secs > 0).then(|| Duration::from_secs(watch.audit_interval_secs)),
        ..defaults
    }
}

/// Looks secrets up, and notes the files that they are in.
struct Secrets<'a> {
    sources: &'a Sources,
    files: Vec<PathBuf>,
}

impl Secrets<'_> {
    fn get(&mut self, source: &Source) -> Result<Secret, String> {
        if let Source::File { file } = source {
            self.files.push(file.clone());
        }
        match (source, self.sources.lookup) {
            (Source::Plain(secret), _) => Ok(secret.clone()),
            (_, Lookup::Now) => source.read(&self.sources.variables),
            (_, Lookup::Skip) => Ok(Secret::default()),
        }
    }

    fn sink(&mut self, name: &str, sink: &file::Sink) -> Result<Sink, String> {
        let kind = match sink {
            file::Sink::Stdout(stdout) => SinkKind::Stdout(stdout.clone()),
            _ => SinkKind::Stdout(file::Stdout::default()),
        };
        let _ = self.get(&Source::Plain(Secret::default()));
        Ok(Sink { name: name.to_owned(), kind })
    }
}
