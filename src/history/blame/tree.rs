//! A tree of a document's shape, in which every place remembers who wrote it.

use std::collections::BTreeMap;

use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use super::lookup;

#[derive(Clone, Debug)]
pub(in crate::history) struct Node<By> {
    /// `None` for what was there before every author.
    by: Option<By>,
    inside: Inside<By>,
}

#[derive(Clone, Debug)]
enum Inside<By> {
    Nothing,
    Fields(BTreeMap<String, Node<By>>),
    Items(Vec<Node<By>>),
}

impl<By: Clone + PartialEq> Node<By> {
    pub(super) fn new(value: &Value, by: Option<&By>) -> Self {
        let inside = match value {
            Value::Object(fields) => {
                Inside::Fields(fields.iter().map(|(key, value)| (key.clone(), Self::new(value, by))).collect())
            }
            Value::Array(items) => Inside::Items(items.iter().map(|item| Self::new(item, by)).collect()),
            _ => Inside::Nothing,
        };
        Self { by: by.cloned(), inside }
    }

    /// Who wrote a place last.
    pub(super) fn find(&self, pointer: &str) -> Option<&By> {
        self.descend(&steps(pointer)).and_then(|node| node.by.as_ref())
    }

    /// Who wrote each place, in no order.
    #[cfg(test)]
    pub(in crate::history) fn all_by(&self) -> Vec<By> {
        let inside: Vec<&Self> = match &self.inside {
            Inside::Nothing => Vec::new(),
            Inside::Fields(fields) => fields.values().collect(),
            Inside::Items(items) => items.iter().collect(),
        };
        self.by.iter().cloned().chain(inside.into_iter().flat_map(Self::all_by)).collect()
    }

    /// What one author wrote at a place and below it, another one did.
    pub(super) fn hand_over(&mut self, pointer: &str, from: &By, to: &By) {
        if let Some(node) = self.descend_mut(&steps(pointer)) {
            node.rename(from, to);
        }
    }

    fn rename(&mut self, from: &By, to: &By) {
        if self.by.as_ref() == Some(from) {
            self.by = Some(to.clone());
        }
        match &mut self.inside {
            Inside::Nothing => {}
            Inside::Fields(fields) => fields.values_mut().for_each(|node| node.rename(from, to)),
            Inside::Items(items) => items.iter_mut().for_each(|node| node.rename(from, to)),
        }
    }

    /// Plays an event's patch onto the document and the tree. `None` when it does not fit.
    pub(super) fn play(&mut self, document: &mut Value, patch: &Patch, by: &By) -> Option<()> {
        for operation in &patch.0 {
            match operation {
                PatchOperation::Add(op) => {
                    let path = op.path.to_string();
                    let there = lookup(document, &path).cloned();
                    self.put(&path, Self::new(&op.value, Some(by)), there.as_ref().map(|old| (old, &op.value)), by)?;
                }
                PatchOperation::Replace(op) => {
                    let path = op.path.to_string();
                    let old = lookup(document, &path)?.clone();
                    self.descend_mut(&steps(&path))?.rewrite(&old, &op.value, by);
                }
                PatchOperation::Remove(op) => drop(self.take(&op.path.to_string())?),
                PatchOperation::Move(op) => {
                    let moved = self.take(&op.from.to_string())?;
                    self.put(&op.path.to_string(), moved, None, by)?;
                }
                PatchOperation::Copy(op) => {
                    let copy = self.descend(&steps(&op.from.to_string()))?.clone();
                    self.put(&op.path.to_string(), copy, None, by)?;
                }
                PatchOperation::Test(_) => {}
            }
            json_patch::patch(document, std::slice::from_ref(operation)).ok()?;
        }
        Some(())
    }

    /// A new value in the place of an old one: what is equal in both keeps its author.
    fn rewrite(&mut self, old: &Value, new: &Value, by: &By) {
        if old == new {
            return;
        }
        match (old, new, &mut self.inside) {
            (Value::Object(old), Value::Object(new), Inside::Fields(fields)) => {
                fields.retain(|key, _| new.contains_key(key));
                for (key, value) in new {
                    match (old.get(key), fields.get_mut(key)) {
                        (Some(old), Some(node)) => node.rewrite(old, value, by),
                        _ => drop(fields.insert(key.clone(), Self::new(value, Some(by)))),
                    }
                }
            }
            (Value::Array(old), Value::Array(new), Inside::Items(items)) => {
                items.truncate(new.len());
                for (index, value) in new.iter().enumerate() {
                    match (old.get(index), items.get_mut(index)) {
                        (Some(old), Some(node)) => node.rewrite(old, value, by),
                        _ => items.push(Self::new(value, Some(by))),
                    }
                }
            }
            _ => *self = Self::new(new, Some(by)),
        }
    }

    fn put(&mut self, pointer: &str, node: Self, over: Option<(&Value, &Value)>, by: &By) -> Option<()> {
        let steps = steps(pointer);
        let Some((last, parents)) = steps.split_last() else {
            *self = node;
            return Some(());
        };
        match &mut self.descend_mut(parents)?.inside {
            Inside::Fields(fields) => match (fields.get_mut(last), over) {
                (Some(there), Some((old, new))) => there.rewrite(old, new, by),
                _ => drop(fields.insert(last.clone(), node)),
            },
            Inside::Items(items) => {
                let at = if last == "-" { items.len() } else { last.parse().ok().filter(|at| *at <= items.len())? };
                items.insert(at, node);
            }
            Inside::Nothing => return None,
        }
        Some(())
    }

    fn take(&mut self, pointer: &str) -> Option<Self> {
        let steps = steps(pointer);
        let (last, parents) = steps.split_last()?;
        match &mut self.descend_mut(parents)?.inside {
            Inside::Fields(fields) => fields.remove(last),
            Inside::Items(items) => {
                let at: usize = last.parse().ok().filter(|at| *at < items.len())?;
                Some(items.remove(at))
            }
            Inside::Nothing => None,
        }
    }

    fn descend(&self, steps: &[String]) -> Option<&Self> {
        steps.iter().try_fold(self, |node, step| match &node.inside {
            Inside::Fields(fields) => fields.get(step),
            Inside::Items(items) => items.get(step.parse::<usize>().ok()?),
            Inside::Nothing => None,
        })
    }

    fn descend_mut(&mut self, steps: &[String]) -> Option<&mut Self> {
        steps.iter().try_fold(self, |node, step| match &mut node.inside {
            Inside::Fields(fields) => fields.get_mut(step),
            Inside::Items(items) => items.get_mut(step.parse::<usize>().ok()?),
            Inside::Nothing => None,
        })
    }
}

fn steps(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
}
