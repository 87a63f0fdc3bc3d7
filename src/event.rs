//! What kubediff tells about a change: the event, version 1. Its JSON Schema is `docs/event.schema.json`.
//!
//! Pure: no I/O, no clock.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diff::Change;

pub const SCHEMA: &str = "kubediff.event/v1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Always `kubediff.event/v1`.
    pub schema: String,
    /// The same on every attempt to deliver it: a hash of cluster uid, object uid, resourceVersion and type.
    pub id: String,
    /// When kubediff saw it.
    pub time: Timestamp,
    pub observed: Observed,
    #[serde(rename = "type")]
    pub kind: Kind,
    pub cluster: Cluster,
    pub resource: ResourceRef,
    /// The root owner through owner references: of a Pod its Deployment. Left out when the object has no owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerRef>,
    /// The field managers that made the change.
    #[serde(default)]
    pub actors: Vec<Actor>,
    /// What sort of change it is: `spec`, `status`, `image`, `scale`, `rbac`, ...
    #[serde(default)]
    pub classes: Vec<String>,
    /// One sentence that a person would write.
    pub summary: String,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Created,
    Updated,
    Deleted,
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    pub name: String,
    /// The uid of the kube-system namespace.
    pub uid: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRef {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_resource_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerRef {
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Actor {
    /// `kubectl-edit`, `argocd-controller`: the field manager, which is a program and not a user.
    pub manager: String,
    pub operation: String,
    pub subresource: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
}
