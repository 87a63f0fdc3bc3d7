//! An OpenAPI v3 document of the server's shape, small, and what is kept of it.

use serde_json::{Value, json};

use super::*;
use crate::diff::path::{Item, Key};

fn reference(name: &str) -> Value {
    json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}], "default": {}, "description": "long"})
}

/// What `/openapi/v3/apis/apps/v1` and a CRD's document have, in small: references, references in `allOf`, inline
/// schemas, a schema that holds itself, booleans where a schema may stand.
pub(in crate::diff) fn document() -> Value {
    let gvk = |group: &str, version: &str, kind: &str| json!([{"group": group, "version": version, "kind": kind}]);
    let text = json!({"type": "string", "default": ""});
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": {"/apis/apps/v1/deployments": {"get": {"responses": {"200": {"description": "OK"}}}}},
        "components": {"schemas": {
            "Deployment": {
                "type": "object",
                "description": "Deployment enables declarative updates.",
                "properties": {
                    "apiVersion": text,
                    "metadata": reference("ObjectMeta"),
                    "spec": reference("DeploymentSpec"),
                    "status": {"type": "object", "properties": {"conditions": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"type": text, "status": text}},
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["type"],
                        "x-kubernetes-patch-merge-key": "type",
                        "x-kubernetes-patch-strategy": "merge",
                    }}},
                },
                "x-kubernetes-group-version-kind": gvk("apps", "v1", "Deployment"),
            },
            "DeploymentList": {
                "properties": {"items": {"type": "array", "items": reference("Deployment")}},
                "x-kubernetes-group-version-kind": gvk("apps", "v1", "DeploymentList"),
            },
            "DeploymentSpec": {"properties": {
                "replicas": {"type": "integer"},
                "selector": {"type": "object", "additionalProperties": {"type": "string"}},
                "template": {"properties": {"metadata": reference("ObjectMeta"), "spec": reference("PodSpec")}},
            }},
            "PodSpec": {"properties": {
                "containers": {
                    "type": "array", "items": reference("Container"),
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                },
                "tolerations": {
                    "type": "array", "items": {"properties": {"key": text}}, "x-kubernetes-list-type": "atomic",
                },
            }},
            "Container": {"properties": {
                "name": text,
                "args": {"type": "array", "items": text, "x-kubernetes-list-type": "atomic"},
                "env": {
                    "type": "array", "items": {"properties": {"name": text, "value": text}},
                    "x-kubernetes-patch-merge-key": "name",
                },
                "ports": {
                    "type": "array", "items": {"properties": {"containerPort": {"type": "integer"}}},
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
                    "x-kubernetes-patch-merge-key": "containerPort",
                },
            }},
            "ObjectMeta": {"properties": {
                "labels": {"type": "object", "additionalProperties": text},
                "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
                "ownerReferences": {
                    "type": "array", "items": {"$ref": "#/components/schemas/OwnerReference"},
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
                },
            }},
            "OwnerReference": {"properties": {"uid": text, "name": text}},
            "Scale": {
                "properties": {"spec": {"properties": {"replicas": {"type": "integer"}}}, "gone": reference("Nowhere")},
                "x-kubernetes-group-version-kind": gvk("autoscaling", "v1", "Scale"),
            },
            "Props": {"properties": {
                "required": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
                "properties": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Props"}},
                "items": {"$ref": "#/components/schemas/Props"},
                "$ref": text,
                "additionalProperties": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }},
            "Backend": {
                "properties": {
                    "spec": {"properties": {
                        "schema": {"$ref": "#/components/schemas/Props"},
                        "pools": {"type": "object", "additionalProperties": {
                            "type": "array",
                            "items": {"type": "object", "additionalProperties": true},
                            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["zone", "tier"],
                        }},
                    }},
                },
                "additionalProperties": false,
                "x-kubernetes-group-version-kind": {"group": "example.com", "version": "v1", "kind": "Backend"},
            },
        }},
    })
}

fn schema() -> Schema {
    Schema::from_openapi(document().to_string().as_bytes()).unwrap()
}

/// `*` stands for an item of a list.
fn list(keys: &Keys, path: &str) -> Option<ListKeys> {
    let item = Item { old: 0, new: 0, value: &Value::Null, key: Key::None };
    let steps: Vec<Step<'_>> =
        path.split('.').map(|name| if name == "*" { Step::Item(item) } else { Step::Member(name) }).collect();
    keys.list(&steps).cloned()
}

fn map_keys(keys: &Keys, path: &str) -> Vec<String> {
    list(keys, path).unwrap_or_default().map.iter().map(ToString::to_string).collect()
}

#[test]
fn lists_are_found_through_references_and_inline_schemas() {
    let keys = schema().kind("apps", "v1", "Deployment");
    assert_eq!(map_keys(&keys, "spec.template.spec.containers"), ["name"]);
    assert_eq!(map_keys(&keys, "spec.template.spec.containers.*.ports"), ["containerPort", "protocol"]);
    assert_eq!(map_keys(&keys, "status.conditions"), ["type"]);
    assert_eq!(map_keys(&keys, "metadata.ownerReferences"), ["uid"]);
    assert!(list(&keys, "metadata.finalizers").unwrap().set);
    let env = list(&keys, "spec.template.spec.containers.*.env").unwrap();
    assert_eq!((env.map.len(), &*env.merge[0]), (0, "name"));
}

#[test]
fn lists_without_keys_and_paths_that_are_not_there_have_none() {
    let keys = schema().kind("apps", "v1", "Deployment");
    for path in ["spec.template.spec.tolerations", "spec.template.spec.containers.*.args", "spec.nowhere.at.all", "*.*"]
    {
        assert_eq!(list(&keys, path), None, "{path}");
    }
    assert_eq!(list(&Keys::default(), "spec.template.spec.containers"), None);
    assert!(schema().kind("apps", "v1", "Nothing").is_empty());
}

#[test]
fn a_schema_that_holds_itself_is_followed_to_any_depth() {
    let keys = schema().kind("example.com", "v1", "Backend");
    assert!(list(&keys, "spec.schema.required").unwrap().set);
    assert!(list(&keys, "spec.schema.properties.x.items.properties.y.required").unwrap().set);
    assert_eq!(map_keys(&keys, "spec.pools.any"), ["zone", "tier"]);
}

#[test]
fn only_what_leads_to_keys_is_kept() {
    let schema = schema();
    assert_eq!(schema.len(), 2, "{:?}", schema.kinds.keys());
    assert!(schema.kind("autoscaling", "v1", "Scale").is_empty());
    assert!(schema.kind("apps", "v1", "DeploymentList").is_empty());
    let names: Vec<&str> = schema.nodes.iter().flat_map(|node| &node.fields).map(|(name, _)| &**name).collect();
    for pruned in ["replicas", "tolerations", "args", "apiVersion", "labels", "selector"] {
        assert!(!names.contains(&pruned), "{pruned}");
    }
    assert!(schema.bytes() < 4096, "{}", schema.bytes());
}

#[test]
fn a_large_document_becomes_small() {
    let mut document = document();
    let schemas = document["components"]["schemas"].as_object_mut().unwrap();
    for number in 0..1000 {
        let words = "what this field is for, at length. ".repeat(40);
        schemas.insert(
            format!("Kind{number}"),
            json!({
                "description": words,
                "properties": {"metadata": reference("ObjectMeta"), "spec": {"description": words}},
                "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": format!("Kind{number}")}],
            }),
        );
    }
    let text = document.to_string();
    let schema = Schema::from_openapi(text.as_bytes()).unwrap();
    assert_eq!(schema.len(), 1002);
    assert!(schema.bytes() * 10 < text.len(), "{} of {}", schema.bytes(), text.len());
}

#[test]
fn what_is_no_openapi_document_is_an_error_and_an_empty_one_is_empty() {
    assert!(Schema::from_openapi(b"<html>").is_err());
    assert!(Schema::from_openapi(br#"{"components":{"schemas":{"A":{"properties":7}}}}"#).is_err());
    assert!(Schema::from_openapi(b"{}").unwrap().is_empty());
    assert!(Schema::from_openapi(br#"{"components":{"schemas":{}}}"#).unwrap().is_empty());
}
