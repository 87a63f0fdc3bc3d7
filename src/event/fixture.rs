//! Events from two pieces of YAML, for the tests of this stage.

use serde_json::Value;

use super::{Builder, Cluster, Event, Observed, State, What, owner::Unknown};
use crate::{
    cluster::{Resource, Version},
    diff::{self, Keys},
    redact::Meta,
};

pub(super) const TIME: &str = "2026-11-16T11:42:17Z";

pub(super) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub(super) fn resource(document: &Value) -> Resource {
    let api = document["apiVersion"].as_str().unwrap_or("v1");
    let (group, version) = api.split_once('/').unwrap_or(("", api));
    let kind = document["kind"].as_str().unwrap_or("Thing");
    Resource {
        group: group.into(),
        version: version.into(),
        plural: format!("{}s", kind.to_lowercase()),
        singular: kind.to_lowercase(),
        kind: kind.into(),
        short_names: vec![],
        namespaced: true,
    }
}

fn meta(document: &Value, version: &str) -> Meta {
    let text = |key: &str| document["metadata"][key].as_str().unwrap_or("").to_owned();
    Meta {
        uid: "0b1f".into(),
        namespace: text("namespace"),
        name: text("name"),
        version: Version::from(version),
        created: text("creationTimestamp").parse().ok(),
        ..Meta::default()
    }
}

pub(super) fn builder() -> Builder {
    Builder::new(Cluster { name: "prod-eu".into(), uid: "c1".into() })
}

/// The event that leads from one document to the other; an empty text is no object. `head` is put before both.
pub(super) fn event(head: &str, old: &str, new: &str) -> Event {
    managed(head, old, new, b"[]", b"[]")
}

pub(super) fn managed(head: &str, old: &str, new: &str, before: &[u8], after: &[u8]) -> Event {
    let document = |text: &str| if text.is_empty() { Value::Null } else { yaml(&format!("{head}\n{text}")) };
    let (old_document, new_document) = (document(old), document(new));
    let resource = resource(if new.is_empty() { &old_document } else { &new_document });
    let (old_meta, new_meta) = (meta(&old_document, "1017"), meta(&new_document, "1042"));
    let was = State { meta: &old_meta, document: &old_document, managed_fields: before };
    let is = State { meta: &new_meta, document: &new_document, managed_fields: after };
    let version = Version::from("1042");
    let what = match (old.is_empty(), new.is_empty()) {
        (true, _) => What::Created { new: is },
        (_, true) => What::Deleted { old: was, version: &version },
        _ => What::Updated { old: was, new: is, diff: diff::diff(&old_document, &new_document, &Keys::default()) },
    };
    builder().build(&resource, Observed::Live, TIME.parse().unwrap(), what, &Unknown)
}
