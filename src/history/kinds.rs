//! What a person means by `deploy`, `Deployment` or `deployments.apps`: from what the ledger has read, without asking a
//! cluster.

use super::{Error, History, filter::like, group_resource};
use crate::{cluster::Resource, route::spell::did_you_mean};

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

    /// Whether a word, which is no pattern, is the name of one of them, or of one that every cluster serves and nothing
    /// was read of here.
    pub fn knows(&self, word: &str) -> bool {
        let lower = word.to_lowercase();
        // In whatever group.
        let name = lower.split('.').next().unwrap_or_default();
        let served = |(short, plural): &(&str, &str)| {
            let singular = plural.strip_suffix("ies").map(|stem| format!("{stem}y"));
            [*short, *plural].contains(&name)
                || singular.is_some_and(|singular| singular == name)
                || ["s", "es"].iter().any(|end| plural.strip_suffix(end) == Some(name))
        };
        !self.find(word).is_empty() || SHORT.iter().any(served)
    }

    /// `; did you mean `deploy`?` when a name of a kind is near enough, else nothing.
    pub fn did_you_mean(&self, word: &str) -> String {
        let known = self.0.iter().flat_map(|resource| {
            let full = group_resource(&resource.group, &resource.plural);
            names(resource).into_iter().chain([full]).filter(|name| !name.is_empty())
        });
        let known: Vec<String> = known.collect();
        let served = SHORT.iter().flat_map(|(short, plural)| [*plural, *short]);
        did_you_mean(word, known.iter().map(String::as_str).chain(served))
    }

    /// The resource of a group and plural.
    pub fn get(&self, group: &str, plural: &str) -> Option<&Resource> {
        self.0.iter().find(|resource| resource.group == group && resource.plural == plural)
    }
}

/// Kind, plural, singular and short names; some may be empty.
fn names(resource: &Resource) -> Vec<String> {
    let mut names = vec![resource.kind.to_lowercase(), resource.plural.to_lowercase()];
    names.push(resource.singular.to_lowercase());
    names.extend(resource.short_names.iter().map(|name| name.to_lowercase()));
    names.extend(SHORT.iter().filter(|(_, plural)| *plural == resource.plural).map(|(s, _)| (*s).to_owned()));
    names
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_kind_is_told_from_one_that_nothing_is_known_of() {
        let gadgets = Resource {
            group: "acme.example".into(),
            short_names: vec!["gd".into()],
            ..Resource::core("v1", "gadgets", "Gadget")
        };
        let kinds = Kinds(vec![gadgets]);
        for known in [
            "gadgets",
            "Gadget",
            "gd",
            "gadgets.acme.example",
            "deploy",
            "Deployment",
            "deployments.apps",
            "ing",
            "ingress",
            "NetworkPolicy",
            "cm",
        ] {
            assert!(kinds.knows(known), "{known}");
        }
        for (wrong, hint) in [
            ("deplyo", "; did you mean `deploy`?"),
            ("gagdet", "; did you mean `gadget`?"),
            ("gadgets.acme.exmaple", "; did you mean `gadgets.acme.example`?"),
            ("nosuchkind", ""),
            ("", ""),
        ] {
            assert!(!kinds.knows(wrong), "{wrong}");
            assert_eq!(kinds.did_you_mean(wrong), hint, "{wrong}");
        }
    }
}
