//! Events from two pieces of YAML, through the door, for the tests of this stage.

use serde_json::Value;

use super::{Builder, Cluster, Event, Observed, State, What, owner::Unknown};
use crate::{
    cluster::{Resource, Version},
    diff::{self, Keys},
    redact::{Contents, Document, Door, Settings, noise},
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

/// What the door makes of an object, nothing of which is noise.
pub(super) fn admit(resource: &Resource, object: &Value) -> Document {
    let settings = Settings { noise: noise::Profile::All, ..Settings::default() };
    let door = Door::new(&settings, &[7; 32]).unwrap();
    door.admit(resource, object.to_string().as_bytes()).unwrap()
}

pub(super) fn builder() -> Builder {
    Builder::new(Cluster { name: "prod-eu".into(), uid: "c1".into() })
}

/// The event that leads from one document to the other; an empty text is no object. `head` is put before both.
pub(super) fn event(head: &str, old: &str, new: &str) -> Event {
    managed(head, old, new, b"[]", b"[]")
}

pub(super) fn managed(head: &str, old: &str, new: &str, before: &[u8], after: &[u8]) -> Event {
    let object = |text: &str, version: &str, managed_fields: &[u8]| {
        let mut object = yaml(&format!("{head}\n{text}"));
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = "thing".into();
        }
        object["metadata"]["uid"] = "0b1f".into();
        object["metadata"]["resourceVersion"] = version.into();
        object["metadata"]["managedFields"] = serde_json::from_slice(managed_fields).unwrap();
        let document = admit(&resource(&object), &object);
        (resource(&object), document.contents(), document)
    };
    let was = (!old.is_empty()).then(|| object(old, "1017", before));
    let is = (!new.is_empty()).then(|| object(new, "1042", after));
    let version = Version::from("1042");
    fn state((_, contents, document): &(Resource, Contents, Document)) -> State<'_> {
        State { document, contents }
    }
    let (resource, what) = match (&was, &is) {
        (None, Some(is)) => (&is.0, What::Created { new: state(is) }),
        (Some(was), None) => (&was.0, What::Deleted { old: state(was), version: &version }),
        (Some(was), Some(is)) => {
            let diff = diff::documents(&was.1, &is.1, &Keys::default());
            (&is.0, What::Updated { old: state(was), new: state(is), diff })
        }
        (None, None) => panic!("no object at all"),
    };
    builder().build(resource, Observed::Live, TIME.parse().unwrap(), what, &Unknown).into_inner()
}
