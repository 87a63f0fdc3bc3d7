//! The checked plan: what the program runs on, in the types of the stages.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use super::{
    Lookup, Secret, Sources,
    file::{self, File},
    secret::Source,
};
use crate::{
    cluster::{informer, reflector, select},
    redact,
    route::{Rules, Table},
    sink::{self, slack, stdout, webhook},
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
    pub sinks: Vec<sink::Settings>,
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

/// The sink that there is when none is configured.
pub const DEFAULT_SINK: &str = "stdout";

impl Plan {
    /// Builds from a file that [`super::check`] has no objection to. What is wrong all the same comes with its key.
    pub(super) fn new(file: File, sources: &Sources) -> Result<Self, Vec<(String, String)>> {
        let mut secrets = Secrets { sources, page_url: some(&file.server.page_url), files: Vec::new() };
        let mut wrong = Vec::new();
        let mut sinks = Vec::new();
        for (name, sink) in &file.sinks {
            let built = secrets.target(sink).and_then(|target| secrets.try_out(&target).map(|()| target));
            match built {
                Ok(target) => sinks.push(sink::Settings { name: name.clone(), target, retry: retry(sink) }),
                Err(message) => wrong.push((format!("sinks.{name}"), message)),
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        if sinks.is_empty() {
            let target = sink::Target::Stdout(stdout::Settings::default());
            sinks.push(sink::Settings { name: DEFAULT_SINK.to_owned(), target, retry: sink::Retry::default() });
        }
        let rules = Rules {
            sinks: sinks.iter().map(|sink| sink.name.clone()).collect(),
            routes: file.routes.clone(),
            default_sinks: file.default_sinks.clone(),
            silences: file.silences.clone(),
            annotations: file.annotations,
        };
        let table = Table::new(&rules).map_err(|error| vec![(String::new(), error.to_string())])?;
        Ok(Self {
            cluster: some(&file.cluster),
            select: select(&file.watch).map_err(|error| vec![("watch".to_owned(), error)])?,
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
        let find = |plan: &Self, name: &str| plan.sinks.iter().find(|sink| sink.name == name).cloned();
        for sink in &self.sinks {
            match find(old, &sink.name) {
                None => changes.sinks_added.push(sink.name.clone()),
                Some(before) if before != *sink => changes.sinks_changed.push(sink.name.clone()),
                Some(_) => {}
            }
        }
        let gone = old.sinks.iter().filter(|sink| find(self, &sink.name).is_none());
        changes.sinks_removed = gone.map(|sink| sink.name.clone()).collect();
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

fn retry(sink: &file::Sink) -> sink::Retry {
    let retry = |timeout, min, max, budget| sink::Retry {
        timeout: Duration::from_secs(timeout),
        min: Duration::from_secs(min),
        max: Duration::from_secs(max),
        budget: Duration::from_secs(budget),
    };
    match sink {
        file::Sink::Stdout(_) => sink::Retry::default(),
        file::Sink::Webhook(s) => retry(s.timeout_secs, s.retry_min_secs, s.retry_max_secs, s.retry_for_secs),
        file::Sink::Slack(s) => retry(s.timeout_secs, s.retry_min_secs, s.retry_max_secs, s.retry_for_secs),
    }
}

/// Looks secrets up, and notes the files that they are in.
struct Secrets<'a> {
    sources: &'a Sources,
    page_url: Option<String>,
    files: Vec<PathBuf>,
}

impl Secrets<'_> {
    fn get(&mut self, source: &Source) -> Result<Secret, String> {
        if let Source::File { file } = source
            && !self.files.contains(file)
        {
            self.files.push(file.clone());
        }
        match (source, self.sources.lookup) {
            (Source::Plain(_), _) | (_, Lookup::Now) => source.read(&self.sources.variables),
            (_, Lookup::Skip) => Ok(Secret::default()),
        }
    }

    fn maybe(&mut self, source: &Option<Source>) -> Result<Option<Secret>, String> {
        source.as_ref().map(|source| self.get(source)).transpose()
    }

    fn text(&mut self, source: &Option<Source>) -> Result<Option<String>, String> {
        Ok(self.maybe(source)?.map(|secret| secret.expose().to_owned()))
    }

    fn map(&mut self, sources: &BTreeMap<String, Source>) -> Result<BTreeMap<String, Secret>, String> {
        sources.iter().map(|(name, source)| Ok((name.clone(), self.get(source)?))).collect()
    }

    fn target(&mut self, sink: &file::Sink) -> Result<sink::Target, String> {
        Ok(match sink {
            file::Sink::Stdout(stdout) => sink::Target::Stdout(stdout::Settings {
                format: match stdout.format {
                    file::StdoutFormat::Json => stdout::Format::Json,
                    file::StdoutFormat::Text => stdout::Format::Text,
                    file::StdoutFormat::Ecs => stdout::Format::Ecs,
                    file::StdoutFormat::Legacy => stdout::Format::Legacy,
                },
            }),
            file::Sink::Webhook(webhook) => sink::Target::Webhook(Box::new(self.webhook(webhook)?)),
            file::Sink::Slack(slack) => sink::Target::Slack(Box::new(self.slack(slack)?)),
        })
    }

    fn webhook(&mut self, sink: &file::Webhook) -> Result<webhook::Settings, String> {
        let auth = match (self.maybe(&sink.bearer_token)?, self.maybe(&sink.password)?) {
            (Some(token), _) => Some(webhook::Auth::Bearer(token)),
            (None, Some(password)) => Some(webhook::Auth::Basic { username: sink.username.clone(), password }),
            (None, None) => None,
        };
        let client_certificate = match (self.text(&sink.client_certificate)?, self.maybe(&sink.client_key)?) {
            (Some(certificate), Some(key)) => Some(webhook::ClientCertificate { certificate, key }),
            _ => None,
        };
        let count = |number: u64| usize::try_from(number).ok();
        Ok(webhook::Settings {
            url: self.maybe(&sink.url)?.unwrap_or_default(),
            format: match sink.format {
                file::WebhookFormat::Json => webhook::Format::Json,
                file::WebhookFormat::CloudEvents => webhook::Format::CloudEvents,
                file::WebhookFormat::Legacy => webhook::Format::Legacy,
                file::WebhookFormat::Template => {
                    let body = self.text(&sink.template)?.unwrap_or_default();
                    let ready = webhook::ready(body.trim())
                        .unwrap_or_else(|| webhook::Template { body, ..webhook::Template::default() });
                    webhook::Format::Template(webhook::Template {
                        headers: sink.template_headers.clone(),
                        vars: self.map(&sink.vars)?,
                        ..ready
                    })
                }
            },
            headers: self.map(&sink.headers)?,
            auth,
            signing_secrets: sink
                .signing_secret
                .as_slice()
                .iter()
                .map(|one| self.get(one))
                .collect::<Result<_, _>>()?,
            batch: count(sink.batch),
            in_flight: count(sink.in_flight),
            gzip: sink.gzip,
            ca: self.text(&sink.ca)?,
            client_certificate,
            proxy: self.maybe(&sink.proxy)?,
            page_url: self.page_url.clone(),
        })
    }

    fn slack(&mut self, sink: &file::Slack) -> Result<slack::Settings, String> {
        let access = match self.maybe(&sink.webhook_url)? {
            Some(url) => slack::Access::Webhook { url },
            None => slack::Access::Bot {
                token: self.maybe(&sink.token)?.unwrap_or_default(),
                channel: sink.channel.clone(),
                api_url: sink.api_url.clone(),
            },
        };
        Ok(slack::Settings {
            access,
            page_url: self.page_url.clone(),
            group_wait: Duration::from_secs(sink.group_wait_secs),
            group_max: Duration::from_secs(sink.group_max_secs),
            ca: self.text(&sink.ca)?,
            proxy: self.maybe(&sink.proxy)?,
        })
    }

    /// Certificates, templates, signing secrets: what only the sink itself can judge. Nothing is sent.
    fn try_out(&self, target: &sink::Target) -> Result<(), String> {
        if self.sources.lookup == Lookup::Skip {
            return Ok(());
        }
        let built = match target {
            sink::Target::Stdout(_) => Ok(()),
            sink::Target::Webhook(settings) => webhook::Webhook::new(settings).map(drop),
            sink::Target::Slack(settings) => slack::Slack::new(settings).map(drop),
        };
        built.map_err(|error| error.to_string())
    }
}
