//! Which resources and namespaces are read: patterns, verdicts with their reasons, and the feeds that follow.
//!
//! Pure: no I/O, no clock.

mod pattern;

use std::{collections::BTreeSet, fmt, sync::Arc};

use glob_match::glob_match;

pub use self::pattern::{Pattern, PatternError};
use super::{Feed, Resource, Scope};
use crate::redact::Secrets;

/// What is left out unless the user names it: kinds that change all the time and say little, and copies of others.
pub const DEFAULT_EXCLUDE: [&str; 14] = [
    "v1/events",
    "events.k8s.io/*",
    "coordination.k8s.io/leases",
    "v1/endpoints",
    "discovery.k8s.io/endpointslices",
    "certificates.k8s.io/certificatesigningrequests",
    "cert-manager.io/certificaterequests",
    "cilium.io/ciliumidentities",
    "cilium.io/ciliumendpoints",
    "cilium.io/ciliumendpointslices",
    "wgpolicyk8s.io/policyreports",
    "wgpolicyk8s.io/clusterpolicyreports",
    "openreports.io/*",
    "reports.kyverno.io/*",
];

/// The same objects under two groups: the first is not read where the second is. Of Events the old group stays, since
/// that is the one people name.
const TWINS: [(&str, &str, &str); 7] = [
    ("events.k8s.io", "", "events"),
    ("extensions", "apps", "deployments"),
    ("extensions", "apps", "daemonsets"),
    ("extensions", "apps", "replicasets"),
    ("extensions", "networking.k8s.io", "ingresses"),
    ("extensions", "networking.k8s.io", "networkpolicies"),
    ("extensions", "policy", "podsecuritypolicies"),
];

/// What the user asks for.
#[derive(Clone, Debug)]
pub struct Settings {
    pub include: Vec<Pattern>,
    /// The user's own. It beats everything.
    pub exclude: Vec<Pattern>,
    /// Beaten by an include that names the resource.
    pub default_exclude: Vec<Pattern>,
    pub namespaces: Namespaces,
    /// A label selector for every feed.
    pub labels: String,
    /// Selectors for some resources, on top.
    pub selectors: Vec<Selector>,
    pub secrets: Secrets,
}

#[derive(Clone, Debug)]
pub struct Selector {
    pub resource: Pattern,
    pub labels: String,
    pub fields: String,
}

/// Namespaces by name or pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    /// Empty, or with `all` in it: every namespace.
    pub include: Vec<String>,
    pub exclude: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            include: vec![Pattern::all()],
            exclude: Vec::new(),
            default_exclude: DEFAULT_EXCLUDE
                .iter()
                .map(|text| Pattern::parse(text).expect("a right pattern"))
                .collect(),
            namespaces: Namespaces::default(),
            labels: String::new(),
            selectors: Vec::new(),
            secrets: Secrets::default(),
        }
    }
}

/// Whether a resource is read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// By this include pattern.
    Read(String),
    Skipped(Reason),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    NotIncluded,
    /// By this pattern of the user's.
    Excluded(String),
    /// By this pattern of the default list.
    ExcludedByDefault(String),
    SecretsOff,
    /// Its objects are read as this resource.
    Twin(String),
    /// It is cluster-scoped, and the configuration names namespaces.
    ClusterScoped,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotIncluded => f.write_str("no include pattern fits"),
            Self::Excluded(pattern) => write!(f, "excluded by \"{pattern}\""),
            Self::ExcludedByDefault(pattern) => {
                write!(f, "excluded by default (\"{pattern}\"); name it under include to read it")
            }
            Self::SecretsOff => f.write_str("secrets = \"off\""),
            Self::Twin(other) => write!(f, "the same objects are read as {other}"),
            Self::ClusterScoped => f.write_str("it is in no namespace, and the configuration names namespaces"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(pattern) => write!(f, "included by \"{pattern}\""),
            Self::Skipped(reason) => reason.fmt(f),
        }
    }
}

/// What follows from the settings for what is served now.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub feeds: Vec<Feed>,
    /// Every resource with its verdict, in the order in which they were given.
    pub verdicts: Vec<(Arc<Resource>, Verdict)>,
}

impl Plan {
    pub fn skipped(&self) -> impl Iterator<Item = (&Resource, &Reason)> {
        self.verdicts.iter().filter_map(|(resource, verdict)| match verdict {
            Verdict::Read(_) => None,
            Verdict::Skipped(reason) => Some((resource.as_ref(), reason)),
        })
    }
}

/// The feeds for these resources, given the namespaces that exist now. Namespaces that are named need not exist yet;
/// patterns take up those that do.
pub fn plan(settings: &Settings, resources: &[Arc<Resource>], namespaces: &BTreeSet<String>) -> Plan {
    let mut verdicts: Vec<_> =
        resources.iter().map(|resource| (Arc::clone(resource), settings.verdict(resource))).collect();
    drop_twins(&mut verdicts);
    let scopes = settings.namespaces.scopes(namespaces);
    let mut feeds = Vec::new();
    for (resource, verdict) in &mut verdicts {
        if matches!(verdict, Verdict::Skipped(_)) {
            continue;
        }
        match &scopes {
            Scopes::All { .. } if !resource.namespaced => feeds.push(settings.feed(resource, Scope::All)),
            Scopes::All { fields, patterns } => {
                let mut feed = settings.feed(resource, Scope::All);
                feed.fields = join(&feed.fields, fields);
                feed.not_namespaces.clone_from(patterns);
                feeds.push(feed);
            }
            Scopes::Some(_) if !resource.namespaced => *verdict = Verdict::Skipped(Reason::ClusterScoped),
            Scopes::Some(names) => {
                feeds.extend(names.iter().map(|name| settings.feed(resource, Scope::Namespace(name.clone()))));
            }
        }
    }
    Plan { feeds, verdicts }
}

/// Include patterns that fit nothing that is served, each with a sentence for the user that names the nearest one that would:
/// a CRD that is still to come, or a slip of the pen.
pub fn unmatched<'a>(settings: &'a Settings, resources: &[Arc<Resource>]) -> Vec<(&'a Pattern, String)> {
    let patterns = settings.include.iter().filter(|pattern| !resources.iter().any(|r| pattern.fits(r)));
    let words = |pattern: &'a Pattern| {
        let nearest = pattern.nearest(resources);
        let hint = nearest.map_or_else(|| ".".to_owned(), |nearest| format!("; did you mean {nearest}?"));
        (pattern, format!("\"{pattern}\" fits nothing that is served{hint}"))
    };
    patterns.map(words).collect()
}

impl Settings {
    /// The verdict on a resource by itself, without regard to namespaces and twins.
    pub fn verdict(&self, resource: &Resource) -> Verdict {
        let fitting =
            |patterns: &[Pattern]| patterns.iter().find(|pattern| pattern.fits(resource)).map(Pattern::to_string);
        if let Some(pattern) = fitting(&self.exclude) {
            return Verdict::Skipped(Reason::Excluded(pattern));
        }
        if self.secrets == Secrets::Off && is_secrets(resource) {
            return Verdict::Skipped(Reason::SecretsOff);
        }
        if let Some(pattern) = self.include.iter().find(|pattern| pattern.names(resource)) {
            return Verdict::Read(pattern.to_string());
        }
        let Some(pattern) = fitting(&self.include) else { return Verdict::Skipped(Reason::NotIncluded) };
        match fitting(&self.default_exclude) {
            Some(default) => Verdict::Skipped(Reason::ExcludedByDefault(default)),
            None => Verdict::Read(pattern),
        }
    }

    fn feed(&self, resource: &Arc<Resource>, scope: Scope) -> Feed {
        let mut feed = Feed::new(Arc::clone(resource), scope);
        feed.labels.clone_from(&self.labels);
        for selector in self.selectors.iter().filter(|selector| selector.resource.fits(resource)) {
            feed.labels = join(&feed.labels, &selector.labels);
            feed.fields = join(&feed.fields, &selector.fields);
        }
        feed.metadata_only = self.secrets == Secrets::Metadata && is_secrets(resource);
        feed
    }
}

fn is_secrets(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "secrets"
}

/// Both selectors have to hold: a comma says so.
fn join(one: &str, other: &str) -> String {
    match (one.is_empty(), other.is_empty()) {
        (_, true) => one.to_owned(),
        (true, _) => other.to_owned(),
        _ => format!("{one},{other}"),
    }
}

fn drop_twins(verdicts: &mut [(Arc<Resource>, Verdict)]) {
    for (copy, original, plural) in TWINS {
        let read = |group: &str| {
            verdicts.iter().position(|(resource, verdict)| {
                resource.group == group && resource.plural == plural && matches!(verdict, Verdict::Read(_))
            })
        };
        if let (Some(copy), Some(original)) = (read(copy), read(original)) {
            let original = verdicts[original].0.to_string();
            verdicts[copy].1 = Verdict::Skipped(Reason::Twin(original));
        }
    }
}

/// Where namespaced kinds are read.
enum Scopes {
    /// In one cluster-wide feed: excluded names go to the server as a field selector, patterns stay with the reflector.
    All { fields: String, patterns: Vec<String> },
    /// In a feed a namespace.
    Some(BTreeSet<String>),
}

/// Whether it stands for more than one name.
fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

impl Namespaces {
    pub fn is_all(&self) -> bool {
        self.include.is_empty() || self.include.iter().any(|name| name == "all" || name == "*")
    }

    /// Whether which feeds there are depends on which namespaces exist.
    pub fn needs_live(&self) -> bool {
        !self.is_all() && !self.patterns().is_empty()
    }

    /// Those of the included that stand for more than one name.
    pub fn patterns(&self) -> Vec<&str> {
        self.include.iter().map(String::as_str).filter(|name| is_pattern(name)).collect()
    }

    /// Whether objects in this namespace are read.
    pub fn contains(&self, namespace: &str) -> bool {
        let fits = |patterns: &[String]| patterns.iter().any(|pattern| glob_match(pattern, namespace));
        (self.is_all() || fits(&self.include)) && !fits(&self.exclude)
    }

    fn scopes(&self, live: &BTreeSet<String>) -> Scopes {
        if !self.is_all() {
            let named = self.include.iter().filter(|name| !is_pattern(name));
            return Scopes::Some(named.chain(live).filter(|name| self.contains(name)).cloned().collect());
        }
        let (patterns, names): (Vec<_>, Vec<_>) = self.exclude.iter().cloned().partition(|name| is_pattern(name));
        let fields: Vec<_> = names.iter().map(|name| format!("metadata.namespace!={name}")).collect();
        Scopes::All { fields: fields.join(","), patterns }
    }

    /// Checks names and patterns as a user wrote them.
    pub fn check(&self) -> Result<(), NamespaceError> {
        for name in self.include.iter().chain(&self.exclude) {
            let right = !name.is_empty()
                && name.len() <= 63
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-*?[]{},!".contains(c));
            if !right {
                let nearest: String =
                    name.trim().to_ascii_lowercase().replace(['_', '.', ' ', '/'], "-").chars().take(63).collect();
                return Err(NamespaceError { name: name.clone(), nearest });
            }
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{name}\" cannot be a namespace or a pattern of some: lower-case letters, digits, '-' and '*' are; did you mean \"{nearest}\"?"
)]
pub struct NamespaceError {
    pub name: String,
    pub nearest: String,
}

#[cfg(test)]
mod tests;
