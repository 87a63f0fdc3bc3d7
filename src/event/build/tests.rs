use std::path::Path;

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::{
    super::fixture::{self, event, managed},
    *,
};
use crate::{diff::Keys, event::owner::Unknown};

const DEPLOYMENT: &str = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, creationTimestamp: '2026-11-16T10:00:00Z'}, ";
const OLD: &str = "spec: {template: {spec: {containers: [{name: web, image: 'nginx:1.25'}]}}}}";
const NEW: &str = "spec: {template: {spec: {containers: [{name: web, image: 'nginx:1.27'}]}}}}";

fn schema() -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Event>();
    serde_json::to_value(schema).unwrap()
}

#[test]
fn an_update_becomes_the_event_of_the_design() {
    let fields =
        json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {"f:image": {}}}}}}});
    let after = json!([{"manager": "kubectl-set", "operation": "Update", "apiVersion": "apps/v1",
        "time": "2026-11-16T11:42:16Z", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
    let event = managed(DEPLOYMENT, OLD, NEW, b"[]", after.to_string().as_bytes());
    assert_eq!(
        serde_json::to_value(&event).unwrap(),
        json!({
            "schema": "kubediff.event/v1", "id": event.id, "time": "2026-11-16T11:42:17Z", "observed": "live",
            "type": "updated", "cluster": {"name": "prod-eu", "uid": "c1"},
            "resource": {"group": "apps", "version": "v1", "resource": "deployments", "kind": "Deployment",
                "namespace": "shop", "name": "web", "uid": "0b1f", "resourceVersion": "1042",
                "previousResourceVersion": "1017"},
            "owner": {"kind": "Deployment", "namespace": "shop", "name": "web"},
            "actors": [{"manager": "kubectl-set", "operation": "Update", "subresource": "", "time": "2026-11-16T11:42:16Z"}],
            "classes": ["spec", "image"],
            "summary": "image of web nginx:1.25 -> nginx:1.27",
            "changes": [{"op": "replace", "path": "/spec/template/spec/containers/0/image",
                "field": "spec.template.spec.containers[web].image", "from": "nginx:1.25", "to": "nginx:1.27"}],
            "patch": [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:1.27"}],
        })
    );
    assert!(event.by_hand() && !event.is_child());
}

#[test]
fn created_and_deleted_events_carry_the_object_and_no_patch() {
    let created = event(DEPLOYMENT, "", NEW);
    assert_eq!((created.kind, created.patch.is_none(), created.object.is_some()), (Kind::Created, true, true));
    assert_eq!(created.resource.previous_resource_version, None);
    let deleted = event(DEPLOYMENT, OLD, "");
    assert_eq!((deleted.kind, deleted.patch.is_none(), deleted.object.is_some()), (Kind::Deleted, true, true));
    assert_eq!(deleted.resource.resource_version, "1042");
    assert_eq!(deleted.resource.previous_resource_version.as_deref(), Some("1017"));
    assert_eq!(deleted.actors, []);
    assert_eq!(deleted.summary, "Deployment web deleted after 102 minutes");
}

#[test]
fn ids_stay_the_same_for_ever_and_differ_by_each_of_their_parts() {
    let of = |cluster: &str, uid: &str, version: &str, kind| id(cluster, uid, &Version::from(version), kind);
    let base = of("c1", "0b1f", "1042", Kind::Updated);
    // As `printf 'c1\0000b1f\0001042' | sha256sum | cut -c1-32` has it.
    assert_eq!(base, "facdab97c4aad9d75dbe98dee16bc19e");
    assert_eq!(of("c1", "0b1f", "1042", Kind::Deleted), "a891eda52a5ff4cf8754c7e7beeaa6e4");
    for other in [
        of("c2", "0b1f", "1042", Kind::Updated),
        of("c1", "0b1e", "1042", Kind::Updated),
        of("c1", "0b1f", "1043", Kind::Updated),
        of("c1", "0b1f", "1042", Kind::Deleted),
        of("c10b", "1f", "1042", Kind::Updated),
    ] {
        assert_ne!(base, other);
    }
    assert_eq!(event(DEPLOYMENT, OLD, NEW), event(DEPLOYMENT, OLD, NEW));
}

/// One replica watched, the other was away and compared a list: it takes an update for the creation, and of a deletion it
/// knows no version.
#[test]
fn what_two_replicas_learn_in_different_ways_has_the_same_id() {
    let of = |uid: &str, version: &str, kind| id("c1", uid, &Version::from(version), kind);
    assert_eq!(of("0b1f", "1042", Kind::Created), of("0b1f", "1042", Kind::Updated));
    assert_eq!(of("0b1f", "1042", Kind::Deleted), of("0b1f", "1050", Kind::Deleted));
    assert_ne!(
        of("", "1042", Kind::Deleted),
        of("", "1050", Kind::Deleted),
        "without a uid only versions tell them apart"
    );
}

#[test]
fn the_owner_is_the_root_of_the_chain() {
    let object = fixture::yaml(
        "{apiVersion: v1, kind: Pod, metadata: {name: web-5d-x, namespace: shop, ownerReferences: [
            {apiVersion: apps/v1, kind: ReplicaSet, name: web-5d, uid: u, controller: true}]}}",
    );
    let resource = fixture::resource(&object);
    let document = fixture::admit(&resource, &object);
    let new = State { document: &document, contents: &document.contents() };
    let time = fixture::TIME.parse().unwrap();
    let event = fixture::builder().build(&resource, Observed::Late, time, What::Created { new }, &Unknown);
    assert_eq!(
        event.owner,
        Some(OwnerRef { kind: "ReplicaSet".into(), namespace: "shop".into(), name: "web-5d".into() })
    );
    assert!(event.is_child());
}

#[test]
fn the_checked_in_schema_is_the_one_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/event.schema.json");
    let now = format!("{:#}\n", schema());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == now,
        "docs/event.schema.json is not what the types say; `UPDATE=1 cargo test --lib event::build` writes it anew"
    );
}

#[test]
fn events_are_valid_by_the_schema_and_read_back_as_they_were() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let events = [event(DEPLOYMENT, OLD, NEW), event(DEPLOYMENT, "", NEW), event(DEPLOYMENT, OLD, "")];
    for event in events {
        let value = serde_json::to_value(&event).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0], "{value:#}");
        assert_eq!(serde_json::from_value::<Event>(value).unwrap(), event);
    }
    let mut wrong = serde_json::to_value(event(DEPLOYMENT, OLD, NEW)).unwrap();
    wrong["classes"] = json!(["no such class"]);
    assert!(!validator.is_valid(&wrong));
}

#[test]
fn the_documentation_names_every_field_and_class() {
    let docs = include_str!("../../../docs/events.md");
    for class in super::super::Class::ALL {
        assert!(
            docs.contains(&format!("| `{class}` | {} |", class.about().trim())),
            "docs/events.md lacks the class {class}"
        );
    }
    let schema = schema();
    let mut objects = vec![&schema];
    objects.extend(schema["$defs"].as_object().into_iter().flatten().map(|(_, def)| def));
    for field in objects.iter().filter_map(|def| def["properties"].as_object()).flat_map(|fields| fields.keys()) {
        assert!(
            docs.contains(&format!("`{field}`")) || docs.contains(&format!(".{field}`")),
            "docs/events.md lacks {field}"
        );
    }
    for tool in super::super::actors::BY_HAND {
        assert!(docs.contains(&format!("`{tool}`")), "docs/events.md lacks the tool {tool}");
    }
}

#[test]
fn a_huge_change_does_not_take_forever() {
    let owned: serde_json::Map<_, _> =
        (50_000..52_000).map(|i| (format!("k:{{\"name\":\"n{i}\"}}"), json!({"f:value": {}}))).collect();
    let managed_fields = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "time": fixture::TIME,
        "fieldsV1": {"f:spec": {"f:list": owned}}}]);
    let object = |value: &str, managed_fields: &Value| {
        let list: Vec<Value> =
            (0..2_000).map(|i| json!({"name": format!("n{i}"), "value": format!("{value}{i}")})).collect();
        json!({"metadata": {"name": "g", "managedFields": managed_fields}, "spec": {"list": list, "rules": list},
            "subjects": list, "rules": list, "status": {"conditions": list}})
    };
    let (old, new) = (object("a", &json!([])), object("b", &managed_fields));
    for (api, kind) in [
        ("acme.example/v1", "Gadget"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("networking.k8s.io/v1", "Ingress"),
        ("v1", "Node"),
    ] {
        let resource = fixture::resource(&json!({"apiVersion": api, "kind": kind}));
        let (old, new) = (fixture::admit(&resource, &old), fixture::admit(&resource, &new));
        let (was, is) = (old.contents(), new.contents());
        let diff = crate::diff::documents(&was, &is, &Keys::default());
        let (old, new) = (State { document: &old, contents: &was }, State { document: &new, contents: &is });
        let what = What::Updated { old, new, diff };
        let started = std::time::Instant::now();
        let time = fixture::TIME.parse().unwrap();
        let event = fixture::builder().build(&resource, Observed::Live, time, what, &Unknown);
        let took = started.elapsed();
        assert!(event.changes.len() >= 8_000 && event.summary.len() < 500, "{}", event.summary);
        assert_eq!(event.actors.len(), 1);
        // 10,000 changes take 0.4 s without optimisation, on a busy machine more; the square of them a quarter of a minute.
        assert!(took < std::time::Duration::from_secs(6), "{kind}: {took:?}");
    }
}
