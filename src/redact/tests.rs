//! What passes the door, and what does not.

use serde_json::{Value, json};

use super::*;
use crate::cluster::Resource;

pub(super) fn resource(group: &str, kind: &str) -> Resource {
    let singular = kind.to_lowercase();
    Resource {
        group: group.into(),
        version: "v1".into(),
        plural: format!("{singular}s"),
        singular,
        kind: kind.into(),
        short_names: vec![],
        namespaced: true,
    }
}

pub(super) fn door(settings: &Settings) -> Door {
    Door::new(settings, &[7; 32]).expect("a door")
}

pub(super) fn admit(kind: &str, object: &Value) -> Document {
    let raw = serde_json::to_vec(object).expect("json");
    door(&Settings::default()).admit(&resource("", kind), &raw).expect("admitted")
}

#[test]
fn values_of_a_secret_are_hashed_and_its_keys_stay() {
    let document = admit(
        "Secret",
        &json!({"metadata": {"name": "db"}, "type": "Opaque", "data": {"user": "Ym9i", "password": "aHVudGVyMg=="},
                "stringData": {"again": "hunter2"}}),
    );
    let value = document.value();
    assert_eq!(value["kind"], "Secret");
    assert_eq!(value["apiVersion"], "v1");
    assert_eq!(value["data"]["password"], value["stringData"]["again"]);
    assert_ne!(value["data"]["password"], value["data"]["user"]);
    assert!(value["data"]["user"].as_str().is_some_and(mask::is_mask));
    assert_eq!(value["type"], "Opaque");
}
