//! One event that looks like a real one: what `kubediff test-sink` sends and what templates are checked with.

use serde_json::json;

use crate::event::{Event, Redacted};

/// The id is new for each call in real use; see [`event_now`].
pub fn event() -> Event {
    let value = json!({
        "schema": crate::event::SCHEMA,
        "id": "00000000000000000000000000000000",
        "time": "2026-11-16T11:42:17.250Z",
        "observed": "live",
        "type": "updated",
        "cluster": {"name": "sample", "uid": "4f3c0d5e-0000-4000-8000-000000000000"},
        "resource": {
            "group": "apps", "version": "v1", "resource": "deployments", "kind": "Deployment", "namespace": "shop",
            "name": "web", "uid": "9a4f0c1e-0000-4000-8000-000000000000", "resourceVersion": "1042",
            "previousResourceVersion": "1017", "generation": 7, "labels": {"app": "web"},
        },
        "owner": {"kind": "Deployment", "namespace": "shop", "name": "web"},
        "actors": [
            {"manager": "kubectl-edit", "operation": "Update", "subresource": "", "time": "2026-11-16T11:42:17Z"},
        ],
        "classes": ["spec", "image"],
        "summary": "image of web: nginx:1.25 -> nginx:1.27 (a sample sent by kubediff test-sink)",
        "changes": [{
            "op": "replace", "path": "/spec/template/spec/containers/0/image",
            "field": "spec.template.spec.containers[web].image", "from": "nginx:1.25", "to": "nginx:1.27",
        }],
        "patch": [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:1.27"}],
    });
    serde_json::from_value(value).unwrap_or_else(|error| unreachable!("the sample is no event: {error}"))
}

/// The sample as of now, with an id of its own.
pub fn event_now() -> Event {
    Event { id: format!("{:032x}", rand::random::<u128>()), time: jiff::Timestamp::now(), ..event() }
}

/// The same as sinks take it.
pub fn redacted_now() -> Redacted {
    Redacted::invented(event_now())
}
