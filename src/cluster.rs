//! The cluster as kubediff sees it: which resources it serves, and the last version of every object.
//!
//! This file holds the words that all of its stages use; the stages are the files of the folder.

pub mod controller;
pub mod discovery;
mod ear;
pub mod fleet;
pub mod informer;
pub mod queue;
pub mod recorder;
pub mod reflector;
pub mod select;
pub mod source;
pub mod store;

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};

/// One kind of object that the API server serves, at the version that kubediff reads it at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resource {
    /// `""` for the core group.
    pub group: String,
    pub version: String,
    /// The plural that stands in the URL: `deployments`.
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub short_names: Vec<String>,
    pub namespaced: bool,
}

impl Resource {
    /// A namespaced resource of the core group, for those who need no discovery.
    pub fn core(version: &str, plural: &str, kind: &str) -> Self {
        Self {
            group: String::new(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            kind: kind.to_owned(),
            short_names: Vec::new(),
            namespaced: true,
        }
    }

    /// The same in a group: `Resource::core("v1", "deployments", "Deployment").in_group("apps")`.
    pub fn in_group(self, group: &str) -> Self {
        Self { group: group.to_owned(), ..self }
    }

    pub fn cluster_scoped(self) -> Self {
        Self { namespaced: false, ..self }
    }

    /// `v1` or `apps/v1`, as objects carry it.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// What stays the same when the served version moves from v1beta1 to v1: `deployments.apps`, `pods`.
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The URL path of the collection, in one namespace or in all.
    pub fn path(&self, scope: &Scope) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let api = self.api_version();
        match scope {
            Scope::All => format!("{root}/{api}/{}", self.plural),
            Scope::Namespace(namespace) => format!("{root}/{api}/namespaces/{namespace}/{}", self.plural),
        }
    }
}

/// `apps/v1/deployments`, `v1/pods`: how a person names it in `include` and `exclude`.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.api_version(), self.plural)
    }
}

/// Where a feed looks: the whole cluster, or one namespace of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    All,
    Namespace(String),
}

/// A resourceVersion. Opaque for equality; within one resource type the server promises that they order as integers of
/// any size, which is what [`Version::cmp_within`] does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Version(pub String);

impl Version {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Orders two versions of one resource type. `None` when either is not a decimal number.
    pub fn cmp_within(&self, other: &Self) -> Option<Ordering> {
        fn digits(v: &str) -> Option<&str> {
            (!v.is_empty() && v.bytes().all(|b| b.is_ascii_digit())).then(|| v.trim_start_matches('0'))
        }
        let (a, b) = (digits(&self.0)?, digits(&other.0)?);
        Some(a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
    }
}

impl From<&str> for Version {
    fn from(v: &str) -> Self {
        Self(v.to_owned())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What one informer reads: a resource in a scope, narrowed by selectors that the server applies.
///
/// Two feeds are the same when all but the served version is: a kind that moves from v1beta1 to v1 stays one feed.
#[derive(Clone, Debug)]
pub struct Feed {
    pub resource: std::sync::Arc<Resource>,
    pub scope: Scope,
    /// Kubernetes label selector syntax, `""` for all.
    pub labels: String,
    /// Kubernetes field selector syntax, `""` for all.
    pub fields: String,
    /// Ask the server for the objects' metadata alone: what is in a Secret then never leaves the server.
    pub metadata_only: bool,
    /// Namespace patterns whose objects are left out. No field selector can say a pattern, so the reflector does it.
    pub not_namespaces: Vec<String>,
    /// Read for kubediff's own use, as the namespaces that patterns need are: its changes are stored and not told.
    pub unasked: bool,
}

impl Feed {
    pub fn new(resource: impl Into<std::sync::Arc<Resource>>, scope: Scope) -> Self {
        Self {
            resource: resource.into(),
            scope,
            labels: String::new(),
            fields: String::new(),
            metadata_only: false,
            not_namespaces: Vec::new(),
            unasked: false,
        }
    }

    /// The one namespace that it is of.
    pub fn namespace(&self) -> Option<&str> {
        match &self.scope {
            Scope::All => None,
            Scope::Namespace(namespace) => Some(namespace),
        }
    }

    /// The feed's identity as text, stable over restarts and served versions: `deployments.apps@shop?l=app=web&f=`.
    pub fn key(&self) -> String {
        let scope = match &self.scope {
            Scope::All => "*",
            Scope::Namespace(namespace) => namespace,
        };
        let mut key = format!("{}@{scope}?l={}&f={}", self.resource.group_resource(), self.labels, self.fields);
        if self.metadata_only {
            key.push_str("&metadata");
        }
        for pattern in &self.not_namespaces {
            key.push_str("&not=");
            key.push_str(pattern);
        }
        key
    }
}

impl fmt::Display for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.resource)?;
        match &self.scope {
            Scope::All => Ok(()),
            Scope::Namespace(namespace) => write!(f, " in {namespace}"),
        }
    }
}
