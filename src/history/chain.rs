//! From an object up to its root owner, link by link, as it was when an event was recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Error, History, Name, detail::Detail, kinds::Kinds, objects::When};

/// Longer chains end here, as in [`crate::event::owner`].
const DEPTH: usize = 10;

/// An owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    pub group: String,
    pub version: String,
    /// The plural; empty where the kind is not watched, and nothing more is known of it.
    pub resource: String,
    pub kind: String,
    /// `""` for cluster-scoped owners.
    pub namespace: String,
    pub name: String,
}

impl History {
    /// The owner of an event's object, its owner, and so on. Ends where one is not known.
    pub fn owners(&mut self, detail: &Detail) -> Result<Vec<Link>, Error> {
        let kinds = self.kinds()?;
        let event = &detail.event;
        let document = detail.after.as_ref().or(event.object.as_ref()).or(detail.before.as_ref());
        let mut namespace = event.resource.namespace.clone();
        let mut reference = document.and_then(primary);
        let (mut links, mut seen) = (Vec::new(), vec![event.resource.uid.clone()]);
        while let Some(owner) = reference.take().filter(|owner| !seen.contains(&owner.uid)) {
            let link = owner.link(&kinds, &namespace);
            seen.push(owner.uid);
            namespace.clone_from(&link.namespace);
            if !link.resource.is_empty() && links.len() + 1 < DEPTH {
                let name = Name {
                    group: link.group.clone(),
                    resource: link.resource.clone(),
                    namespace: link.namespace.clone(),
                    name: link.name.clone(),
                };
                let then = self.look_up(&name, When::At(event.time))?;
                let document = if then.is_some() { then } else { self.look_up(&name, When::Now)? };
                reference = document.as_ref().and_then(primary);
            }
            links.push(link);
        }
        Ok(links)
    }
}

/// A reference to an owner.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Reference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    controller: bool,
}

impl Reference {
    fn link(&self, kinds: &Kinds, child: &str) -> Link {
        let (group, version) = self.api_version.rsplit_once('/').unwrap_or(("", &self.api_version));
        let known = kinds.0.iter().find(|resource| resource.group == group && resource.kind == self.kind);
        Link {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: known.map_or_else(String::new, |known| known.plural.clone()),
            kind: self.kind.clone(),
            // An owner without a namespace may own objects in one.
            namespace: if known.is_some_and(|known| !known.namespaced) { String::new() } else { child.to_owned() },
            name: self.name.clone(),
        }
    }
}

/// The controller among the references, else the first one.
fn primary(document: &Value) -> Option<Reference> {
    let all = document.pointer("/metadata/ownerReferences")?.as_array()?;
    let mut all: Vec<Reference> = all.iter().filter_map(|one| Reference::deserialize(one).ok()).collect();
    let at = all.iter().position(|owner| owner.controller).unwrap_or(0);
    (at < all.len()).then(|| all.swap_remove(at))
}
