//! A hand that writes ConfigMaps into a namespace and keeps account of what it did.

use std::{collections::BTreeSet, sync::Mutex};

use kubediff::cluster::{Feed, Resource, Scope};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Access;

pub struct Hand {
    access: Access,
    namespace: String,
    http: reqwest::Client,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// `web@3` for the third state of it that was written, `-web` for its deletion.
    steps: Vec<String>,
    /// How many of them were made before anything was news.
    known: usize,
}

/// Of a step, the object.
pub fn name(step: &str) -> &str {
    step.strip_prefix('-').or_else(|| step.split('@').next()).unwrap_or(step)
}

impl Hand {
    pub fn new(access: &Access, namespace: &str) -> Self {
        Self { access: access.clone(), namespace: namespace.to_owned(), http: access.http(), made: Mutex::default() }
    }

    /// The way by which it writes.
    pub fn access(&self) -> &Access {
        &self.access
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// What it writes, as an informer reads it.
    pub fn feed(&self) -> Feed {
        Feed::new(Resource::core("v1", "configmaps", "ConfigMap"), Scope::Namespace(self.namespace.clone()))
    }

    pub async fn create(&self, name: &str) {
        let object = self.next(name);
        self.send(Method::POST, "", Some(object)).await;
    }

    pub async fn change(&self, name: &str) {
        let object = self.next(name);
        self.send(Method::PUT, &format!("/{name}"), Some(object)).await;
    }

    pub async fn delete(&self, name: &str) {
        self.made.lock().unwrap().steps.push(format!("-{name}"));
        self.send(Method::DELETE, &format!("/{name}"), None).await;
    }

    /// Creates or changes an object, and says which step that was.
    pub async fn write(&self, name: &str) -> String {
        let there = alive(&self.made.lock().unwrap().steps).contains(name);
        if there {
            self.change(name).await;
        } else {
            self.create(name).await;
        }
        self.made.lock().unwrap().steps.last().unwrap().clone()
    }

    /// What was made so far is known; what is made from now on is to be told.
    pub fn rest_is_news(&self) {
        let made = &mut *self.made.lock().unwrap();
        made.known = made.steps.len();
    }

    /// The names that were there when the rest became news, and every step since.
    pub fn news(&self) -> (BTreeSet<String>, Vec<String>) {
        let made = self.made.lock().unwrap();
        let (known, news) = made.steps.split_at(made.known);
        (alive(known), news.to_vec())
    }

    fn next(&self, name: &str) -> Value {
        let steps = &mut self.made.lock().unwrap().steps;
        let states = steps.iter().filter(|step| step.rsplit_once('@').is_some_and(|(of, _)| of == name)).count();
        let generation = (states + 1).to_string();
        steps.push(format!("{name}@{generation}"));
        json!({"metadata": {"name": name}, "data": {"generation": generation}})
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) {
        let path = format!("/api/v1/namespaces/{}/configmaps{path}", self.namespace);
        let mut request = self.access.request_by(&self.http, method, &path);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.expect("an answer");
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }
}

/// The names that are there after these steps.
fn alive(steps: &[String]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for step in steps {
        if step.starts_with('-') {
            names.remove(name(step));
        } else {
            names.insert(name(step).to_owned());
        }
    }
    names
}
