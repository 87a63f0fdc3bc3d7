//! The oracle: what was received, replayed, is the state of a fresh list; nothing is missing, twice or out of order.

use std::{collections::BTreeMap, path::Path};

use kubediff::{
    cluster::{Resource, Scope},
    redact::{self, Door},
};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

pub use super::told::Replay;
use super::{
    told::{key, ours},
    work::GROUP,
};
use crate::harness::Access;

/// A fresh list, through the same door: the state's own key makes equal secrets equal masks.
pub struct Fresh {
    access: Access,
    door: Door,
    resources: Vec<Resource>,
}

impl Fresh {
    pub fn new(access: &Access, state: &Path, cluster_scoped: bool) -> Self {
        let file = Connection::open_with_flags(state, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("a state file");
        let query = "SELECT value FROM meta WHERE key = 'redaction_key'";
        let secret: [u8; 32] = file.query_row(query, [], |row| row.get(0)).expect("a key");
        let of = |group: &str, plural: &str, kind: &str| Resource {
            group: group.to_owned(),
            ..Resource::core("v1", plural, kind)
        };
        let mut resources = vec![
            of("", "configmaps", "ConfigMap"),
            of("", "secrets", "Secret"),
            of("", "serviceaccounts", "ServiceAccount"),
            of("", "pods", "Pod"),
            of("apps", "deployments", "Deployment"),
            of("apps", "replicasets", "ReplicaSet"),
        ];
        if cluster_scoped {
            resources.push(of("", "namespaces", "Namespace").cluster_scoped());
            resources.push(
                of("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition").cluster_scoped(),
            );
            resources.push(of(GROUP, "widgets", "Widget"));
            resources.push(of(GROUP, "gadgets", "Gadget"));
        }
        let door = Door::new(&redact::Settings::default(), &secret).expect("a door");
        Self { access: access.clone(), door, resources }
    }

    /// `None` when the server does not answer now.
    pub async fn list(&self) -> Option<BTreeMap<String, Value>> {
        let mut all = BTreeMap::new();
        for resource in &self.resources {
            let answer = self.access.get(&resource.path(&Scope::All)).send().await.ok()?;
            if answer.status() == 404 && resource.group == GROUP {
                continue;
            }
            if !answer.status().is_success() {
                return None;
            }
            let list: Value = answer.json().await.ok()?;
            for item in list["items"].as_array()? {
                let document = self.door.admit(resource, item.to_string().as_bytes()).expect("an object");
                let (namespace, name) = (&document.meta().namespace, &document.meta().name);
                if ours(&resource.plural, &resource.group, namespace, name) {
                    all.insert(key(&resource.group, &resource.plural, namespace, name), document.value());
                }
            }
        }
        Some(all)
    }
}
