//! History over a real file: what was recorded is asked back.

mod doubts;
mod filters;
mod lives;
mod long;
mod million;
mod moments;
mod tallies;
mod upgrade;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{objects::When, *};
use crate::{
    cluster::{
        Feed, Resource, Scope, Version,
        reflector::{Target as _, Update},
        store::{FeedTarget, Place, Store, Writing},
    },
    event::{Actor, Cluster, Event, Kind, OwnerRef, Redacted},
    ledger::{Ledger, search, tally},
    redact::{self, Document, Door},
    sink::sample,
};

/// A ledger with a door, to put objects and events into.
struct Rig {
    ledger: Ledger,
    store: Store,
    door: Door,
    _writing: Writing,
    _folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, recorder) = Ledger::new(Cluster { name: "test".into(), uid: "c".into() });
        let place = Place::File(folder.path().join("k.db"));
        let (store, writing) = Store::open(&place, Some(Box::new(recorder))).unwrap();
        let door = Door::new(&redact::Settings::default(), &store.redaction_key()).unwrap();
        Self { ledger, store, door, _writing: writing, _folder: folder }
    }

    fn history(&self) -> History {
        History::open(self.store.path()).unwrap()
    }

    /// A feed whose first list is over and was empty.
    async fn feed(&self, resource: &Resource) -> FeedTarget {
        let mut feed = self.store.feed(Feed::new(resource.clone(), Scope::All), vec![], false).await.unwrap();
        feed.put(Update::ListBegan).await.unwrap();
        feed.put(Update::ListEnded(Version::from("1"))).await.unwrap();
        self.settle().await;
        feed
    }

    async fn settle(&self) {
        self.store.write(Box::new(|_| Ok(()))).await.unwrap();
    }

    /// Brings the search up to date.
    async fn index(&self) {
        self.store.write(Box::new(search::fill_all)).await.unwrap();
    }

    fn document(&self, resource: &Resource, version: u64, object: &Value) -> Document {
        let mut raw = object.clone();
        raw["metadata"]["resourceVersion"] = json!(version.to_string());
        self.door.admit(resource, raw.to_string().as_bytes()).unwrap()
    }

    async fn append(&self, event: Event) {
        self.ledger.append(&self.store, Arc::new(Redacted::invented(event))).await.unwrap();
    }
}

fn config_maps() -> Resource {
    Resource::core("v1", "configmaps", "ConfigMap")
}

fn name(resource: &str, namespace: &str, name: &str) -> Name {
    Name { group: String::new(), resource: resource.into(), namespace: namespace.into(), name: name.into() }
}
