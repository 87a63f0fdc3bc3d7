//! The keys of a kind's lists, taken from the API server's OpenAPI v3 documents.
//!
//! A document of a megabyte and more becomes a [`Schema`] of some tens of kilobytes: the branches that lead to a list
//! with keys, and nothing else. Kinds share the nodes that they have in common.

mod openapi;

#[cfg(test)]
pub(super) mod tests;

use std::{collections::HashMap, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::path::Step;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the OpenAPI document is not understood: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// The list keys of every kind in one OpenAPI v3 document. It can be stored: the document is a hundred times as large.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct Schema {
    nodes: Arc<[Node]>,
    kinds: HashMap<Kind, u32>,
}

/// A schema as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    nodes: Arc<[Node]>,
    kinds: Vec<(Kind, u32)>,
}

impl From<Stored> for Schema {
    fn from(stored: Stored) -> Self {
        Self { nodes: stored.nodes, kinds: stored.kinds.into_iter().collect() }
    }
}

impl From<Schema> for Stored {
    fn from(schema: Schema) -> Self {
        Self { nodes: schema.nodes, kinds: schema.kinds.into_iter().collect() }
    }
}

/// The list keys of one kind. Cheap to clone; the default knows no keys.
#[derive(Clone, Default)]
pub struct Keys {
    nodes: Arc<[Node]>,
    root: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Kind {
    group: String,
    version: String,
    kind: String,
}

/// What is known of one place in a document. Most nodes have fields or a list, not both.
#[derive(Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Node {
    /// Sorted by name; only members below which a list has keys.
    fields: Box<[(Arc<str>, u32)]>,
    /// What every member that is not in `fields` is, or every item of a list.
    each: Option<u32>,
    list: Option<Box<ListKeys>>,
}

/// How the items of one list are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct ListKeys {
    /// `x-kubernetes-list-map-keys`
    pub(super) map: Box<[Arc<str>]>,
    /// `x-kubernetes-patch-merge-key`, none or one.
    pub(super) merge: Box<[Arc<str>]>,
    /// `x-kubernetes-list-type: set`
    pub(super) set: bool,
}

impl Schema {
    /// Reads the bytes of `/openapi/v3/apis/apps/v1` and the like.
    pub fn from_openapi(document: &[u8]) -> Result<Self, Error> {
        openapi::extract(document)
    }

    /// The keys of a kind; those of a kind that the document does not have are empty.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Keys {
        let kind = Kind { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() };
        match self.kinds.get(&kind) {
            Some(&root) => Keys { nodes: self.nodes.clone(), root },
            None => Keys::default(),
        }
    }

    /// How many kinds of the document have lists with keys.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// About how much memory this holds.
    pub fn bytes(&self) -> usize {
        let mut names: HashMap<*const u8, usize> = HashMap::new();
        let mut total = 0;
        let text = |names: &mut HashMap<*const u8, usize>, text: &Arc<str>| {
            names.insert(text.as_ptr(), text.len() + 2 * size_of::<usize>());
        };
        for node in self.nodes.iter() {
            total += size_of::<Node>() + size_of_val(&*node.fields);
            for (name, _) in &node.fields {
                text(&mut names, name);
            }
            if let Some(list) = &node.list {
                total += size_of::<ListKeys>() + size_of_val(&*list.map) + size_of_val(&*list.merge);
                for name in list.map.iter().chain(&list.merge) {
                    text(&mut names, name);
                }
            }
        }
        for kind in self.kinds.keys() {
            total += size_of::<(Kind, u32)>() + kind.group.len() + kind.version.len() + kind.kind.len();
        }
        total + names.values().sum::<usize>()
    }
}

impl Keys {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The keys of the list that is reached by these steps.
    pub(super) fn list(&self, steps: &[Step<'_>]) -> Option<&ListKeys> {
        let mut node = self.nodes.get(self.root as usize)?;
        for step in steps {
            let next = match step {
                Step::Member(name) => node
                    .fields
                    .binary_search_by(|(field, _)| (**field).cmp(name))
                    .ok()
                    .map(|at| node.fields[at].1)
                    .or(node.each),
                Step::Item(_) => node.each,
            };
            node = self.nodes.get(next? as usize)?;
        }
        node.list.as_deref()
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("kinds", &self.kinds.len()).field("nodes", &self.nodes.len()).finish()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("nodes", &self.nodes.len()).field("root", &self.root).finish()
    }
}
