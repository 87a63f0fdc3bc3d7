//! What a person means by `deploy`, `Deployment` or `deployments.apps`: from what the ledger has read, without asking a
//! cluster.

use super::{Error, History, filter::like, group_resource};
use crate::cluster::Resource;

/// Short names of what every cluster serves, for kinds that are not watched any more.
const SHORT: &[(&str, &str)] = &[
    ("cm", "configmaps"),
    ("cs", "componentstatuses"),
    ("ep", "endpoints"),
    ("ev", "events"),
    ("limits", "limitranges"),
    ("ns", "namespaces"),
    ("no", "nodes"),
    ("pvc", "persistentvolumeclaims"),
    ("pv", "persistentvolumes"),
    ("po", "pods"),
    ("rc", "replicationcontrollers"),
    ("quota", "resourcequotas"),
    ("sa", "serviceaccounts"),
    ("svc", "services"),
    ("crd", "customresourcedefinitions"),
    ("crds", "customresourcedefinitions"),
    ("ds", "daemonsets"),
    ("deploy", "deployments"),
    ("rs", "replicasets"),
    ("sts", "statefulsets"),
    ("hpa", "horizontalpodautoscalers"),
    ("cj", "cronjobs"),
    ("csr", "certificatesigningrequests"),
    ("ing", "ingresses"),
    ("netpol", "networkpolicies"),
    ("pdb", "poddisruptionbudgets"),
    ("pc", "priorityclasses"),
    ("sc", "storageclasses"),
];

/// The kinds that the ledger knows of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds(pub Vec<Resource>);

impl Kinds {
    /// Those that a word or a pattern means, however it is spelt: kind, plural, singular or short name, with a group
    /// where needed.
    pub fn find(&self, word: &str) -> Vec<&Resource> {
        let word = word.to_lowercase();
        let names = |resource: &Resource| {
            let mut names = vec![resource.kind.to_lowercase(), resource.plural.to_lowercase()];
            names.push(resource.singular.to_lowercase());
            names.extend(resource.short_names.iter().map(|name| name.to_lowercase()));
            names.extend(SHORT.iter().filter(|(_, plural)| *plural == resource.plural).map(|(s, _)| (*s).to_owned()));
            names
        };
        let takes = |resource: &&Resource| {
            let group = resource.group.to_lowercase();
            names(resource).iter().filter(|name| !name.is_empty()).any(|name| {
                let full = if group.is_empty() { name.clone() } else { format!("{name}.{group}") };
                let versioned = if group.is_empty() {
                    format!("{name}.{}", resource.version)
                } else {
                    format!("{name}.{}.{group}", resource.version)
                };
                like(&word, name) || like(&word, &full) || like(&word, &versioned)
            })
        };
        self.0.iter().filter(takes).collect()
    }

    /// The resource of a group and plural.
    pub fn get(&self, group: &str, plural: &str) -> Option<&Resource> {
        self.0.iter().find(|resource| resource.group == group && resource.plural == plural)
    }
}

impl History {
    pub fn kinds(&self) -> Result<Kinds, Error> {
        let mut known: Vec<Resource> = Vec::new();
        let mut add = |resource: Resource| {
            if !known.iter().any(|other| (&other.group, &other.plural) == (&resource.group, &resource.plural)) {
                known.push(resource);
            }
        };
        let mut statement =
            self.connection().prepare_cached("SELECT DISTINCT about FROM feeds WHERE about IS NOT NULL ORDER BY id")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            // It was written by this program; what cannot be read says nothing.
            if let Ok(resource) = serde_json::from_str(row.get_ref(0)?.as_str().unwrap_or_default()) {
                add(resource);
            }
        }
        // Of those that are not read any more there may still be events.
        let mut statement = self.connection().prepare_cached(
            "WITH RECURSIVE place (g, r, s) AS (
               SELECT * FROM (SELECT api_group, resource, seq FROM events INDEXED BY events_by_object
                              ORDER BY api_group, resource LIMIT 1)
               UNION ALL
               SELECT e.api_group, e.resource, e.seq FROM place JOIN events e ON e.seq = coalesce(
                 (SELECT seq FROM events INDEXED BY events_by_object WHERE api_group = g AND resource > r
                  ORDER BY api_group, resource LIMIT 1),
                 (SELECT seq FROM events INDEXED BY events_by_object WHERE api_group > g
                  ORDER BY api_group, resource LIMIT 1)))
             SELECT e.api_group, e.resource, e.kind, e.version, e.namespace != '' FROM place JOIN events e ON e.seq = s",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let kind: String = row.get(2)?;
            add(Resource {
                group: row.get(0)?,
                plural: row.get(1)?,
                singular: kind.to_lowercase(),
                kind,
                version: row.get(3)?,
                short_names: Vec::new(),
                namespaced: row.get(4)?,
            });
        }
        known.sort_by_key(|resource| (!resource.group.is_empty(), group_resource(&resource.group, &resource.plural)));
        Ok(Kinds(known))
    }
}
