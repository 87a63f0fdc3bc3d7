//! The one seam to the outside: what is served, a page of a list, a watch from a version.
//!
//! Behind it stand the API server ([`api`]), a recording ([`recording`]) and a script of faults ([`script`]). Objects
//! pass as the bytes that came in; nothing here looks inside them.

pub mod api;
pub mod recording;
pub mod script;

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use serde::Deserialize;

use super::{Feed, Resource, Version};
use crate::redact::Said;

/// Where objects come from.
pub trait Source: Send + Sync + 'static {
    /// Every resource that can be listed and watched now, one version per kind.
    fn discover(&self) -> BoxFuture<'_, Result<Discovered, Error>>;

    /// One page of a list.
    fn list<'a>(&'a self, feed: &'a Feed, page: &'a List) -> BoxFuture<'a, Result<Page, Error>>;

    /// The changes after a version. The stream ends when the server ends it; its errors are the connection's.
    fn watch<'a>(&'a self, feed: &'a Feed, watch: &'a Watch) -> BoxFuture<'a, Result<Frames, Error>>;

    /// Where the OpenAPI v3 document of each group and version (`apps/v1`, `v1`) is, with a hash of it: a document whose
    /// place is the same is the same.
    fn openapi_index(&self) -> BoxFuture<'_, Result<HashMap<String, String>, Error>> {
        Box::pin(async { Ok(HashMap::new()) })
    }

    /// The OpenAPI v3 document of a group and version, for the keys of its lists. `None` where there is none.
    fn openapi<'a>(&'a self, _resource: &'a Resource) -> BoxFuture<'a, Result<Option<Bytes>, Error>> {
        Box::pin(async { Ok(None) })
    }
}

pub type Frames = BoxStream<'static, Result<Frame, Error>>;

/// What discovery found.
#[derive(Clone, Debug, Default)]
pub struct Discovered {
    pub resources: Vec<Resource>,
    /// Groups that are registered but did not answer. Their resources are unknown, not gone.
    pub unavailable: Vec<Unavailable>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    pub group: String,
    /// Empty: all versions of the group.
    pub version: String,
    pub reason: String,
}

/// Which page of which list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Items a page; 0 for all in one answer.
    pub limit: u32,
    /// The token that the page before ended with.
    pub continue_token: Option<String>,
    /// `""` asks for the newest state with a quorum read.
    pub version: Version,
}

#[derive(Clone, Debug)]
pub struct Page {
    /// The raw JSON of each item. Items of built-in lists carry no kind and apiVersion.
    pub items: Vec<Bytes>,
    pub version: Version,
    pub continue_token: Option<String>,
}

/// From where, and for how long the server keeps the watch open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    pub version: Version,
    pub timeout: Duration,
    /// Ask for the present state as ADDED events first, ended by a marked bookmark (a streaming list).
    pub initial_events: bool,
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Added(Bytes),
    Modified(Bytes),
    Deleted(Bytes),
    /// `initial_events_end` marks the end of a streaming list.
    Bookmark {
        version: Version,
        initial_events_end: bool,
    },
    /// An event larger than the source's limit. It was skipped; the stream goes on behind it.
    TooLarge {
        bytes: u64,
    },
    /// The server's own `ERROR` event. Nothing follows it.
    Error(Error),
}

/// What went wrong, by what the caller has to do about it. Texts never hold an object's bytes: they may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// HTTP 410, or an ERROR event that says so: the version or the continue token is too old.
    #[error("the version is too old: {0}")]
    Expired(Said),
    /// "Too large resource version": the server has not caught up with it, or was restored from a backup.
    #[error("the server does not know this version yet: {0}")]
    TooNew(Said),
    /// HTTP 429, with the server's Retry-After.
    #[error("the server asks to wait{}", .after.map_or_else(String::new, |d| format!(" {} s", d.as_secs())))]
    Busy { after: Option<Duration> },
    #[error("not permitted: {0}")]
    Forbidden(Said),
    #[error("not authenticated: {0}")]
    Unauthorized(Said),
    /// The resource is not served (any more).
    #[error("not served: {0}")]
    NotFound(Said),
    /// The request itself is refused: an unknown parameter, a selector that the server does not take.
    #[error("refused: {0}")]
    Invalid(Said),
    /// 500, 503, 504 and the like.
    #[error("the server failed with {code}: {message}")]
    Server { code: u16, message: Said },
    /// Connecting, TLS, a cut or silent connection.
    #[error("connection: {0}")]
    Connection(String),
    /// Bytes that are not what the protocol says, a torn frame among them.
    #[error("not understood: {0}")]
    Malformed(String),
}

/// What names an object, read of its bytes without taking it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) version: Version,
}

impl Named {
    /// At any depth of the rest; `None` where even names cannot be read.
    pub(crate) fn of(object: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Raw {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            name: String,
            #[serde(default)]
            namespace: String,
            #[serde(default)]
            resource_version: String,
        }
        let Raw { metadata } = serde_json::from_slice(object).ok()?;
        Some(Self { namespace: metadata.namespace, name: metadata.name, version: Version(metadata.resource_version) })
    }
}
