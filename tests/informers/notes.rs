//! What the journal of a rig was told.

use std::sync::{Arc, Mutex};

use kubediff::cluster::{
    Feed,
    store::{Delta, Journal, Seen, Within},
};

use crate::harness::{PATIENCE, poll};

/// What the journal was told and the store has committed: `configmaps shop/web` -> `Live updated`, ...
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    kept: Vec<Note>,
    tried: Vec<Note>,
}

struct Note {
    /// `configmaps shop/web`
    path: String,
    /// `Live updated`
    what: String,
    /// `web@3`: what a [`super::hand::Hand`] calls it.
    step: String,
}

impl Notes {
    pub fn of(&self, path: &str) -> Vec<String> {
        self.map(|note| (note.path == path).then(|| note.what.clone()))
    }

    pub fn about(&self, text: &str) -> Vec<String> {
        self.map(|note| note.path.contains(text).then(|| format!("{}: {}", note.path, note.what)))
    }

    /// What was told of the ConfigMaps of a namespace, by object, as the hand that changed them has it: how it was seen
    /// (`Live`, `Late`), and the step.
    pub fn steps_in(&self, namespace: &str) -> Vec<(String, String)> {
        let path = format!("configmaps {namespace}/");
        let seen = |what: &str| what.split(' ').next().unwrap_or_default().to_owned();
        self.map(|note| note.path.starts_with(&path).then(|| (seen(&note.what), note.step.clone())))
    }

    fn map<T>(&self, each: impl Fn(&Note) -> Option<T>) -> Vec<T> {
        self.0.lock().unwrap().kept.iter().filter_map(each).collect()
    }

    pub async fn wait_for(&self, path: &str, count: usize) -> Vec<String> {
        poll(PATIENCE, format!("{count} changes of {path}"), async || {
            Some(self.of(path)).filter(|told| told.len() >= count)
        })
        .await
    }

    pub async fn wait_for_last(&self, path: &str, end: &str) -> Vec<String> {
        let ends = |told: &Vec<String>| told.last().is_some_and(|last| last.ends_with(end));
        poll(PATIENCE, format!("{path} {end}"), async || Some(self.of(path)).filter(ends)).await
    }
}

impl Journal for Notes {
    fn record(&mut self, _: &mut Within<'_>, feed: &Feed, delta: &Delta, seen: Seen) -> Result<(), rusqlite::Error> {
        let meta = delta.object().meta();
        let generation = || delta.object().value()["data"]["generation"].as_str().unwrap_or_default().to_owned();
        let (what, step) = match delta {
            Delta::Added(_) => ("created", format!("{}@{}", meta.name, generation())),
            Delta::Updated { .. } => ("updated", format!("{}@{}", meta.name, generation())),
            Delta::Deleted { .. } => ("deleted", format!("-{}", meta.name)),
        };
        let path = format!("{} {}/{}", feed.resource.group_resource(), meta.namespace, meta.name);
        self.0.lock().unwrap().tried.push(Note { path, what: format!("{seen:?} {what}"), step });
        Ok(())
    }

    fn settled(&mut self, committed: bool) {
        let told = &mut *self.0.lock().unwrap();
        if committed {
            told.kept.append(&mut told.tried);
        } else {
            told.tried.clear();
        }
    }
}
