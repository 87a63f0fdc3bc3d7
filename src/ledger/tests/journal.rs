//! From a stored object to what a sink gets.

use super::*;

/// The whole way: objects into the store, events out of a sink, with their patches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_stored_objects_become_events_whose_patches_chain() {
    use crate::{
        cluster::{
            Feed, Resource, Scope, Version,
            reflector::{Target as _, Update},
        },
        redact::{self, Door},
    };
    let folder = folder();
    let script = Arc::new(Keeper::default());
    let (ledger, recorder) = Ledger::new(sample::event().cluster);
    let (store, _writing) = Store::open(&Place::File(folder.path().join("k.db")), Some(Box::new(recorder))).unwrap();
    let sinks = vec![(settings("a", quick()), Built::Sink(script.clone()))];
    let delivery = ledger.start(store.clone(), Keep::default(), sinks).await.unwrap();
    let resource = Arc::new(Resource::core("v1", "configmaps", "ConfigMap"));
    let door = Door::new(&redact::Settings::default(), &store.redaction_key()).unwrap();
    let object = |version: u64, data: serde_json::Value| {
        let raw = serde_json::json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1",
            "resourceVersion": version.to_string(), "generation": version}, "data": data});
        door.admit(&resource, raw.to_string().as_bytes()).unwrap()
    };
    let mut feed = store.feed(Feed::new(resource.clone(), Scope::All), vec![], true).await.unwrap();
    feed.put(Update::ListBegan).await.unwrap();
    feed.put(Update::ListEnded(Version::from("1"))).await.unwrap();
    feed.put(Update::Applied(object(2, serde_json::json!({"a": "1"})))).await.unwrap();
    feed.put(Update::Applied(object(3, serde_json::json!({"a": "2", "b": "x"})))).await.unwrap();
    // Nothing that counts has changed.
    feed.put(Update::Applied(object(4, serde_json::json!({"a": "2", "b": "x"})))).await.unwrap();
    feed.put(Update::Applied(object(5, serde_json::json!({"b": "y"})))).await.unwrap();
    feed.put(Update::Deleted(object(6, serde_json::json!({"b": "y"})))).await.unwrap();
    until("four events", || script.0.lock().unwrap().len() == 4).await;
    let events = script.0.lock().unwrap().clone();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["created", "updated", "updated", "deleted"]);
    assert_eq!(ledger.counts().suppressed.load(SeqCst), 1);
    let mut document = events[0].object.clone().unwrap();
    for event in &events[1..3] {
        json_patch::patch(&mut document, event.patch.as_ref().unwrap()).unwrap();
    }
    assert_eq!(Some(&document), events[3].object.as_ref(), "patches lead from the created to the deleted document");
    let inverse: Vec<u8> = store
        .reader()
        .unwrap()
        .connection()
        .query_row("SELECT inverse FROM events WHERE seq = 2", [], |row| row.get(0))
        .unwrap();
    let inverse: json_patch::Patch = serde_json::from_slice(&rows::decompress(&inverse).unwrap()).unwrap();
    let mut back = events[0].object.clone().unwrap();
    json_patch::patch(&mut back, events[1].patch.as_ref().unwrap()).unwrap();
    json_patch::patch(&mut back, &inverse).unwrap();
    assert_eq!(Some(&back), events[0].object.as_ref(), "the inverse leads back");
    assert!(delivery.drain(Duration::from_secs(5)).await.is_empty());
}

/// Takes everything and keeps it.
#[derive(Default)]
struct Keeper(Mutex<Vec<Arc<Event>>>);

impl Sink for Keeper {
    fn send<'a>(&'a self, batch: &'a [Arc<Event>]) -> BoxFuture<'a, Outcome> {
        self.0.lock().unwrap().extend(batch.iter().cloned());
        Box::pin(async { Outcome::Delivered })
    }

    fn pace(&self) -> Pace {
        Pace { batch: 10, in_flight: 1, patient: false }
    }
}
