//! What kubediff tells about a change: the event, version 1. Its JSON Schema is `docs/event.schema.json`, its fields are
//! explained in `docs/events.md`.
//!
//! | file | what it finds out |
//! |---|---|
//! | [`actors`] | who: the field managers that made the change, and whether a person sits behind them |
//! | [`classes`] | what sort of change it is, as a closed list that routes can name |
//! | [`summary`] | one sentence that a person would write |
//! | [`owner`] | the root owner through owner references |
//! | [`build`] | all of it put together: two states and their diff in, an [`Event`] out |
//! | [`Redacted`] | an event that only [`build`] makes, of what has passed the door: what is recorded and sent |
//! | [`render`] | the event as text: terminal, Markdown, unified YAML |
//!
//! Pure: no I/O, no clock.

pub mod actors;
pub mod build;
pub mod classes;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod leaks;
pub mod owner;
mod path;
mod redacted;
pub mod render;
pub mod summary;

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use actors::by_hand;
pub use build::{Builder, State, What};
pub use classes::Class;
pub use owner::{Found, Owners};
pub use redacted::Redacted;

use crate::diff::Change;

pub const SCHEMA: &str = "kubediff.event/v1";

/// One change of one object, as it is stored, routed and sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Always `kubediff.event/v1`.
    pub schema: String,
    /// The same on every attempt to deliver it: a hash of cluster uid, object uid, and its resourceVersion or its deletion.
    pub id: String,
    /// When kubediff saw it.
    pub time: Timestamp,
    pub observed: Observed,
    #[serde(rename = "type")]
    pub kind: Kind,
    pub cluster: Cluster,
    pub resource: ResourceRef,
    /// The root owner through owner references: of a Pod its Deployment, of an object that nothing owns itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerRef>,
    /// The field managers that made the change, the newest first. Empty when the API server recorded none.
    #[serde(default)]
    pub actors: Vec<Actor>,
    /// What sort of change it is.
    #[serde(default)]
    pub classes: Vec<Class>,
    /// One sentence that a person would write.
    pub summary: String,
    /// The changed fields. Empty in created and deleted events.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// RFC 6902, from the object's document after the event before to the one after this event. Left out of created
    /// and deleted events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<serde_json::Map<String, serde_json::Value>>>")]
    pub patch: Option<json_patch::Patch>,
    /// The whole document: of a created object as it began, of a deleted one as it was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<serde_json::Value>,
}

impl Event {
    /// Whether a person's own program made the change, and not a controller, GitOps or helm.
    pub fn by_hand(&self) -> bool {
        self.actors.iter().any(|actor| by_hand(&actor.manager))
    }

    /// Whether the object belongs to another one, under which chat rolls it up.
    pub fn is_child(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.kind != self.resource.kind || owner.name != self.resource.name)
    }
}

/// What happened to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Created,
    Updated,
    Deleted,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
        }
    }

    /// `+`, `~` or `-`: says the same as the colour.
    pub fn glyph(self) -> char {
        match self {
            Self::Created => '+',
            Self::Updated => '~',
            Self::Deleted => '-',
        }
    }
}

/// How kubediff came to know of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Observed {
    /// By watching.
    Live,
    /// By comparing a list with what was stored: it happened while kubediff was away for too long.
    Late,
    /// By the periodic audit: a watch had missed it.
    Audit,
}

impl Observed {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Late => "late",
            Self::Audit => "audit",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    pub name: String,
    /// The uid of the kube-system namespace.
    pub uid: String,
}

/// The object that changed, and at which version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRef {
    /// `""` for the core group.
    pub group: String,
    pub version: String,
    /// The plural that stands in the URL: `deployments`.
    pub resource: String,
    pub kind: String,
    /// Left out for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The version that this event leads to; of a deleted event that of the deletion.
    pub resource_version: String,
    /// The version that kubediff had seen before. Left out of created events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_resource_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl ResourceRef {
    /// `shop/web`, or `node-1` when cluster-scoped.
    pub fn ns_name(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct OwnerRef {
    pub kind: String,
    /// Left out for cluster-scoped owners.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Actor {
    /// `kubectl-edit`, `argocd-controller`: the field manager, which is a program and not a user.
    pub manager: String,
    /// `Update` or `Apply`.
    pub operation: String,
    /// `status`, `scale`; empty for the object itself.
    pub subresource: String,
    /// When the manager last changed the object, to the second, by the API server's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// Which of the event's `changes` it made, by their numbers from 0 on. Left out where it is the only actor, and where
    /// that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<usize>,
}
