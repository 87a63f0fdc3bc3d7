//! The event as others expect it: CloudEvents, Elastic Common Schema, the old kubediff's payload.

use serde_json::{Map, Value, json};

use crate::event::{Event, Kind};

/// CloudEvents asks receivers to take 64 KiB and no more; the rest is left for the envelope.
pub const CLOUD_EVENT_BYTES: usize = 64 * 1024;

/// The event as its schema says.
pub fn json(event: &Event) -> Value {
    serde_json::to_value(event).unwrap_or_default()
}

/// CloudEvents 1.0 in structured mode. An event that is too large is cut down; `kubedifftruncated` says so.
pub fn cloud_event(event: &Event) -> Value {
    let envelope = |data: Value, truncated: bool| {
        let r = &event.resource;
        let root = if r.group.is_empty() { "api".to_owned() } else { format!("apis/{}", r.group) };
        let mut envelope = json!({
            "specversion": "1.0",
            "id": event.id,
            "source": format!("//{}/{root}/{}/{}", event.cluster.uid, r.version, r.resource),
            "type": format!("io.kubediff.resource.{}.v1", word(event.kind)),
            "subject": object_name(event),
            "time": event.time,
            "datacontenttype": "application/json",
            "data": data,
        });
        if truncated {
            envelope["kubedifftruncated"] = Value::Bool(true);
        }
        envelope
    };
    let whole = envelope(json(event), false);
    if size(&whole) <= CLOUD_EVENT_BYTES {
        return whole;
    }
    let fitted = fit(event, CLOUD_EVENT_BYTES.saturating_sub(1024));
    envelope(json(&fitted), true)
}

/// Elastic Common Schema 8, with the whole event under `kubediff`.
pub fn ecs(event: &Event) -> Value {
    let r = &event.resource;
    let change = match event.kind {
        Kind::Created => "creation",
        Kind::Updated => "change",
        Kind::Deleted => "deletion",
    };
    let api_version = if r.group.is_empty() { r.version.clone() } else { format!("{}/{}", r.group, r.version) };
    let mut resource = Map::from_iter([
        ("type".into(), Value::from(r.kind.to_lowercase())),
        ("name".into(), Value::from(r.name.clone())),
        ("id".into(), Value::from(r.uid.clone())),
    ]);
    if !r.labels.is_empty() {
        let labels: Vec<String> = r.labels.iter().map(|(key, value)| format!("{key}:{value}")).collect();
        resource.insert("label".into(), labels.into());
    }
    if let Some(owner) = &event.owner {
        resource.insert("parent".into(), json!({"type": owner.kind.to_lowercase()}));
    }
    let mut orchestrator = json!({
        "type": "kubernetes",
        "api_version": api_version,
        "cluster": {"name": event.cluster.name, "id": event.cluster.uid},
        "resource": resource,
    });
    if !r.namespace.is_empty() {
        orchestrator["namespace"] = r.namespace.clone().into();
    }
    let mut document = json!({
        "@timestamp": event.time,
        "ecs": {"version": "8.17.0"},
        "message": format!("{} {}: {}", r.kind, object_name(event), event.summary),
        "log": {"level": "info"},
        "event": {
            "id": event.id,
            "kind": "event",
            "category": ["configuration"],
            "type": [change],
            "action": format!("{}-{}", r.kind.to_lowercase(), word(event.kind)),
            "module": "kubediff",
            "dataset": "kubediff.changes",
        },
        "orchestrator": orchestrator,
        "kubediff": json(event),
    });
    let managers: Vec<&str> = event.actors.iter().map(|actor| actor.manager.as_str()).collect();
    if !managers.is_empty() {
        document["user_agent"] = json!({"name": managers[0]});
        document["related"] = json!({"user": managers});
    }
    document
}

/// What the old kubediff sent: the whole object with every change. Of an update it has to be filled in
/// ([`super::Sink::wants_whole`]); where that could not be done, `Obj` is what names the object.
pub fn legacy(event: &Event) -> Value {
    let r = &event.resource;
    let api_version = if r.group.is_empty() { r.version.clone() } else { format!("{}/{}", r.group, r.version) };
    let kind = match event.kind {
        Kind::Created => "EventAdd",
        Kind::Updated => "EventUpdate",
        Kind::Deleted => "EventDelete",
    };
    let mut object = event.object.clone().unwrap_or_else(|| {
        let mut metadata = json!({"name": r.name, "uid": r.uid});
        if !r.namespace.is_empty() {
            metadata["namespace"] = r.namespace.clone().into();
        }
        if !r.labels.is_empty() {
            metadata["labels"] = json!(r.labels);
        }
        json!({"apiVersion": api_version, "kind": r.kind, "metadata": metadata})
    });
    // A document is without what changes with every write; the object had it.
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".to_owned(), r.resource_version.clone().into());
        if let Some(generation) = r.generation {
            metadata.insert("generation".to_owned(), generation.into());
        }
    }
    json!({
        "meta": {
            "Type": kind,
            "Kind": format!("{api_version}/{}", r.resource),
            "Obj": object,
            "Diff": event.patch.as_ref().map_or_else(|| json!([]), |patch| json!(patch)),
        },
        "timestamp": event.time,
    })
}

/// `created`, `updated`, `deleted`
pub fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Created => "created",
        Kind::Updated => "updated",
        Kind::Deleted => "deleted",
    }
}

/// `shop/web`, or `node-1` when cluster-scoped.
pub fn object_name(event: &Event) -> String {
    let r = &event.resource;
    if r.namespace.is_empty() { r.name.clone() } else { format!("{}/{}", r.namespace, r.name) }
}

/// The event with as much of it as fits: first the whole object goes, then the patch, then changes from the last on,
/// and at the very end labels and the rest of the sentence.
pub fn fit(event: &Event, bytes: usize) -> Event {
    let mut event = event.clone();
    let too_large = |event: &Event| size(event) > bytes;
    if too_large(&event) {
        event.object = None;
    }
    if too_large(&event) {
        event.patch = None;
    }
    while too_large(&event) && !event.changes.is_empty() {
        event.changes.truncate(event.changes.len() / 2);
    }
    if too_large(&event) {
        event.resource.labels.clear();
        event.actors.truncate(10);
        event.summary = event.summary.chars().take(500).collect();
    }
    event
}

/// The length of a value as JSON text, counted without building it.
pub fn size(value: &impl serde::Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
