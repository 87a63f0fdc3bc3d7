//! The checked plan: what the program runs on, in the types of the stages.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use super::{
    Lookup, Secret, Sources,
    file::{self, File},
    secret::Source,
};
use crate::{
    cluster::{Resource, informer, reflector, select},
    ha,
    ledger::namespaces::Asks,
    redact,
    route::{Route, Rules, Table},
    sink::{self, slack, stdout, webhook},
    web,
};

/// What the program runs on. Everything in it has been checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `None`: the context's name, or the cluster's uid.
    pub cluster: Option<String>,
    pub select: select::Settings,
    pub informer: informer::Settings,
    pub redact: redact::Settings,
    /// Of the hashes that stand for secret values; `None`: each state file makes its own.
    pub redaction_key: Option<[u8; 32]>,
    pub state: State,
    pub server: Server,
    pub ha: Option<Ha>,
    /// In the order of their names; one to stdout when none is configured.
    pub sinks: Vec<sink::Settings>,
    pub table: Arc<Table>,
    /// Whether routes or annotations ask what namespaces say of themselves, and namespaces are watched.
    pub asks_namespaces: Asks,
    /// What is right and may yet surprise.
    pub notes: Vec<String>,
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
    pub auth: web::Auth,
    pub page_url: Option<String>,
}

/// `[ha]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ha {
    pub lease: String,
    pub create_lease: bool,
    /// `None`: the client's own.
    pub namespace: Option<String>,
    /// `None`: the host's name.
    pub identity: Option<String>,
    pub times: ha::Times,
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
            match secrets.target(sink) {
                Ok(target) => sinks.push(sink::Settings { name: name.clone(), target, retry: retry(sink) }),
                Err(message) => wrong.push((format!("sinks.{name}"), message)),
            }
        }
        let redaction_key = secrets.maybe(&file.redact.key).unwrap_or_else(|message| {
            wrong.push(("redact".to_owned(), message));
            None
        });
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
        let select = select(&file.watch).map_err(|error| vec![("watch".to_owned(), error)])?;
        let (asked, watched) = (asks_for_namespaces(&file), reads_namespaces(&select));
        let mut notes = Vec::new();
        if file.annotations && !watched {
            notes.push(
                "annotations kubediff.io/ignore and kubediff.io/sinks are heeded on objects alone, not on namespaces: \
                 Namespaces are not watched; name \"v1/namespaces\" in watch.include where all namespaces are watched, or \
                 name namespaces by a pattern"
                    .to_owned(),
            );
        }
        Ok(Self {
            cluster: some(&file.cluster),
            select,
            informer: informer(&file.watch),
            redact: redact::Settings {
                secrets: file.watch.secrets,
                patterns: file.redact.patterns.clone(),
                noise: file.noise.profile,
                ignore: file.noise.ignore.clone(),
                max_bytes: usize::try_from(file.redact.max_object_bytes.0).unwrap_or(usize::MAX),
            },
            redaction_key: redaction_key.map(|key| derive(&key)),
            state: State {
                path: (file.state.path != "memory").then(|| PathBuf::from(&file.state.path)),
                retention: Duration::from_secs(file.state.retention_days * 86_400),
                max_bytes: file.state.max_bytes.0,
            },
            server: Server {
                probes: file.server.probes.parse().ok(),
                page: file.server.page.parse().ok(),
                auth: file.server.auth,
                page_url: some(&file.server.page_url),
            },
            ha: ha(&file.ha),
            sinks,
            table: Arc::new(table),
            asks_namespaces: match watched {
                true if asked => Asks::Labels,
                true if file.annotations => Asks::Annotations,
                _ => Asks::Nothing,
            },
            notes,
            files: secrets.files,
            file,
        })
    }
}

/// Whether routes ask for the labels of namespaces and would never learn them.
pub(super) fn lacks_namespaces(file: &File) -> bool {
    asks_for_namespaces(file) && select(&file.watch).is_ok_and(|select| !reads_namespaces(&select))
}

/// Certificates, templates, signing secrets: what only the sink itself can judge, by the key that it is about. Nothing is
/// sent. What needs a secret that is not looked up is taken to be right.
pub(super) fn try_out(sink: &file::Sink, sources: &Sources) -> Vec<(Vec<String>, String)> {
    let mut secrets = Secrets { sources, page_url: None, files: Vec::new() };
    let Ok(mut target) = secrets.target(sink) else { return Vec::new() };
    if sources.lookup == Lookup::Skip {
        without_absent(&mut target);
    }
    let found = sink::objections(&target).into_iter();
    found.map(|(path, error)| (path, error.to_string())).collect()
}

/// Takes out what has not been looked up, which is empty.
fn without_absent(target: &mut sink::Target) {
    let absent = |secret: &Secret| secret.expose().is_empty();
    let (ca, proxy) = match target {
        sink::Target::Stdout(_) => return,
        sink::Target::Webhook(settings) => {
            if absent(&settings.url) {
                settings.url = Secret::new("http://localhost/");
            }
            settings.signing_secrets.retain(|secret| !absent(secret));
            settings.headers.retain(|_, value| !absent(value));
            let certificate = settings.client_certificate.take();
            settings.client_certificate =
                certificate.filter(|of| !of.certificate.is_empty() && !of.key.expose().is_empty());
            if let webhook::Format::Template(template) = &mut settings.format {
                // A text and a number alike, wherever a template puts it.
                template.vars.values_mut().filter(|value| absent(value)).for_each(|value| *value = Secret::new("0"));
                // As if it were right in every way, for a batch too.
                if template.body.is_empty() {
                    "{{ events | tojson }}".clone_into(&mut template.body);
                }
            }
            (&mut settings.ca, &mut settings.proxy)
        }
        sink::Target::Slack(settings) => {
            if let slack::Access::Webhook { url } = &mut settings.access
                && absent(url)
            {
                *url = Secret::new("http://localhost/");
            }
            (&mut settings.ca, &mut settings.proxy)
        }
    };
    ca.take_if(|ca| ca.is_empty());
    proxy.take_if(|proxy| absent(proxy));
}

fn asks_for_namespaces(file: &File) -> bool {
    fn any(routes: &[Route]) -> bool {
        routes.iter().any(|route| !route.matching.namespace_labels.is_empty() || any(&route.routes))
    }
    any(&file.routes) || file.silences.iter().any(|silence| !silence.matching.namespace_labels.is_empty())
}

fn reads_namespaces(settings: &select::Settings) -> bool {
    let namespaces = Arc::new(Resource::core("v1", "namespaces", "Namespace").cluster_scoped());
    settings.namespaces.needs_live() || !select::plan(settings, &[namespaces], &BTreeSet::new()).feeds.is_empty()
}

/// A key of the right length, whatever the text is.
fn derive(key: &Secret) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    Sha256::new().chain_update(b"kubediff redact.key\0").chain_update(key.expose().as_bytes()).finalize().into()
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn ha(ha: &file::Ha) -> Option<Ha> {
    ha.enabled.then(|| Ha {
        lease: ha.lease.clone(),
        create_lease: ha.create_lease,
        namespace: some(&ha.namespace),
        identity: some(&ha.identity),
        times: ha::Times {
            lease: Duration::from_secs(ha.lease_secs),
            renew: Duration::from_secs(ha.renew_secs),
            retry: Duration::from_secs(ha.retry_secs),
        },
    })
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
        in_turns: true,
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
                over_progress: false,
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
}
