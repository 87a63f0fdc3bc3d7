//! The list keys of every kind, from the API server's own OpenAPI documents: fetched when a group and version is first
//! watched, again when its CRDs change, and only their extract kept.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, PoisonError, RwLock},
};

use crate::{
    cluster::{Resource, source::Source},
    diff::keys::{Keys, Schema},
};

/// A handle; clones share it.
#[derive(Clone, Default)]
pub struct Schemas(Arc<RwLock<HashMap<Resource, Arc<Keys>>>>);

impl Schemas {
    /// The keys of a kind; none while its document is not there yet, and the heuristics of the diff do.
    pub fn keys(&self, resource: &Resource) -> Arc<Keys> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(resource).cloned().unwrap_or_default()
    }

    /// Fetches what is not known of these resources, a document after the other.
    pub async fn learn(&self, source: &dyn Source, resources: &[Arc<Resource>]) {
        let mut seen = HashSet::new();
        for resource in resources {
            let known = self.0.read().unwrap_or_else(PoisonError::into_inner).contains_key(&**resource);
            if !known && seen.insert(resource.api_version()) {
                self.fetch(source, resource, resources).await;
            }
        }
    }

    /// Forgets a group, so that it is fetched again: one of its CRDs changed.
    pub fn forget(&self, group: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).retain(|resource, _| resource.group != group);
    }

    async fn fetch(&self, source: &dyn Source, of: &Resource, resources: &[Arc<Resource>]) {
        let schema = match source.openapi(of).await {
            Ok(Some(document)) => match Schema::from_openapi(&document) {
                Ok(schema) => schema,
                Err(error) => {
                    tracing::warn!(api = of.api_version(), %error, "its OpenAPI document was not understood; lists are matched by likeness");
                    return;
                }
            },
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(api = of.api_version(), %error, "no OpenAPI document; lists are matched by likeness");
                return;
            }
        };
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for resource in resources.iter().filter(|resource| resource.api_version() == of.api_version()) {
            let keys = schema.kind(&resource.group, &resource.version, &resource.kind);
            all.insert(Resource::clone(resource), Arc::new(keys));
        }
    }
}
