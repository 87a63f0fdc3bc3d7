//! What routes ask of an event's surroundings, as far as history knows it: labels and annotations.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use kubediff::{
    event::Event,
    history::around::texts,
    route::{Context, IGNORE, SINKS},
};
use serde_json::Value;

use super::{
    history_source::{Source, is_unknown},
    object::Object,
};

/// Of one event.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Surroundings {
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) namespace_labels: BTreeMap<String, String>,
    pub(crate) namespace_annotations: BTreeMap<String, String>,
}

impl Surroundings {
    pub(crate) fn context(&self, now: Timestamp) -> Context<'_> {
        Context {
            annotations: &self.annotations,
            namespace_labels: &self.namespace_labels,
            namespace_annotations: &self.namespace_annotations,
            ..Context::at(now)
        }
    }
}

/// Looks things up once.
pub(crate) struct Lookup<'s> {
    source: &'s Source,
    namespaces: HashMap<String, Option<Value>>,
    /// Of objects, the annotations that routes heed.
    objects: HashMap<Object, BTreeMap<String, String>>,
}

impl<'s> Lookup<'s> {
    pub(crate) fn new(source: &'s Source) -> Self {
        Self { source, namespaces: HashMap::new(), objects: HashMap::new() }
    }

    /// Labels and annotations of the namespace and of the object as they are now; of what is gone, as it was then.
    pub(crate) async fn of(&mut self, event: &Event) -> anyhow::Result<Surroundings> {
        let annotations = match &event.object {
            Some(object) => texts(Some(object), "/metadata/annotations"),
            None => self.heeded(event).await?,
        };
        let r = &event.resource;
        // A Namespace is in itself.
        let name = if r.kind == "Namespace" && r.group.is_empty() { &r.name } else { &r.namespace };
        let namespace = self.namespace(name, event.time).await?;
        Ok(Surroundings {
            annotations,
            namespace_labels: texts(namespace, "/metadata/labels"),
            namespace_annotations: texts(namespace, "/metadata/annotations"),
        })
    }

    async fn heeded(&mut self, event: &Event) -> anyhow::Result<BTreeMap<String, String>> {
        let r = &event.resource;
        let object = Object {
            group: r.group.clone(),
            version: r.version.clone(),
            resource: r.resource.clone(),
            kind: r.kind.clone(),
            namespace: r.namespace.clone(),
            name: r.name.clone(),
        };
        if let Some(known) = self.objects.get(&object) {
            return Ok(known.clone());
        }
        let document = document(self.source, &object, event.time).await?;
        let mut annotations = texts(document.as_ref(), "/metadata/annotations");
        annotations.retain(|key, _| key == IGNORE || key == SINKS);
        self.objects.insert(object, annotations.clone());
        Ok(annotations)
    }

    async fn namespace(&mut self, name: &str, then: Timestamp) -> anyhow::Result<Option<&Value>> {
        if name.is_empty() {
            return Ok(None);
        }
        if !self.namespaces.contains_key(name) {
            let object = Object {
                group: String::new(),
                version: "v1".into(),
                resource: "namespaces".into(),
                kind: "Namespace".into(),
                namespace: String::new(),
                name: name.to_owned(),
            };
            let found = document(self.source, &object, then).await?;
            self.namespaces.insert(name.to_owned(), found);
        }
        Ok(self.namespaces.get(name).and_then(Option::as_ref))
    }
}

/// What is not known says nothing, here as in the daemon. That it cannot be asked is another matter.
async fn document(source: &Source, object: &Object, then: Timestamp) -> anyhow::Result<Option<Value>> {
    let found = |at: Option<Timestamp>| async move {
        match source.object(object, at).await {
            Ok(state) => Ok(state.object),
            Err(error) if is_unknown(&error) => Ok(None),
            Err(error) => Err(error.context(format!("cannot look up {}", object.title()))),
        }
    };
    match found(None).await? {
        Some(now) => Ok(Some(now)),
        None => found(Some(then)).await,
    }
}
