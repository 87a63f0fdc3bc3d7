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
    let mut unasked = Feed::new(resource.clone(), Scope::Namespace("other".into()));
    unasked.unasked = true;
    let mut unasked = store.feed(unasked, vec![], true).await.unwrap();
    unasked.put(Update::Applied(object(7, serde_json::json!({"c": "nobody asked"})))).await.unwrap();
    store.write(Box::new(|_| Ok(()))).await.unwrap();
    until("four events", || script.0.lock().unwrap().len() == 4).await;
    let events = script.0.lock().unwrap().clone();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["created", "updated", "updated", "deleted"]);
    assert_eq!(ledger.counts().suppressed.load(SeqCst), 1);
    let counted = &ledger.counts().changes()["configmaps"];
    let counted = [crate::event::Kind::Created, crate::event::Kind::Updated, crate::event::Kind::Deleted]
        .map(|kind| counted.of(kind));
    assert_eq!(counted, [1, 2, 1]);
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
struct Keeper(Mutex<Vec<Arc<Redacted>>>);

impl Sink for Keeper {
    fn send<'a>(&'a self, batch: &'a [Arc<Redacted>]) -> BoxFuture<'a, Outcome> {
        self.0.lock().unwrap().extend(batch.iter().cloned());
        Box::pin(async { Outcome::Delivered })
    }

    fn pace(&self) -> Pace {
        Pace { batch: 10, in_flight: 1, patient: false }
    }
}

/// Routes by what its namespace says, in whichever order the two come and go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_with_its_namespace_is_routed_by_the_namespaces_last_words() {
    use crate::{
        cluster::{
            Feed, Resource, Scope, Version,
            reflector::{Target as _, Update},
        },
        redact::{self, Door},
        route::Decision,
    };
    let folder = folder();
    let script = Arc::new(Keeper::default());
    let (ledger, recorder) = Ledger::new(sample::event().cluster);
    let (store, _writing) = Store::open(&Place::File(folder.path().join("k.db")), Some(Box::new(recorder))).unwrap();
    let sinks = vec![(settings("red", quick()), Built::Sink(script.clone()))];
    ledger.set_route(Some(Arc::new(|_, around| {
        let red = around.namespace_labels.get("team").is_some_and(|team| team == "red");
        Decision { sinks: red.then(|| "red".into()).into_iter().collect(), ..Decision::default() }
    })));
    let delivery = ledger.start(store.clone(), Keep::default(), sinks).await.unwrap();
    let door = Door::new(&redact::Settings::default(), &store.redaction_key()).unwrap();
    let of = |resource: &Resource, name: &str, namespace: &str, version: u64, team: &str| {
        let raw = serde_json::json!({"metadata": {"name": name, "namespace": namespace, "uid": format!("{name}-{team}"),
            "resourceVersion": version.to_string(), "labels": {"team": team}}});
        door.admit(resource, raw.to_string().as_bytes()).unwrap()
    };
    let (spaces, maps) = (
        Resource::core("v1", "namespaces", "Namespace").cluster_scoped(),
        Resource::core("v1", "configmaps", "ConfigMap"),
    );
    let mut feeds = Vec::new();
    for resource in [&spaces, &maps] {
        let mut feed = store.feed(Feed::new(resource.clone(), Scope::All), vec![], true).await.unwrap();
        feed.put(Update::ListBegan).await.unwrap();
        feed.put(Update::ListEnded(Version::from("1"))).await.unwrap();
        feeds.push(feed);
    }
    let [space_feed, map_feed] = feeds.as_mut_slice() else { unreachable!() };
    let told = || {
        script
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|e| format!("{} {}", e.kind.as_str(), e.resource.ns_name()))
            .collect::<Vec<_>>()
    };
    space_feed.put(Update::Applied(of(&spaces, "shop", "", 2, "red"))).await.unwrap();
    map_feed.put(Update::Applied(of(&maps, "web", "shop", 3, "none"))).await.unwrap();
    space_feed.put(Update::Deleted(of(&spaces, "shop", "", 5, "red"))).await.unwrap();
    map_feed.put(Update::Deleted(of(&maps, "web", "shop", 4, "none"))).await.unwrap();
    // The name is taken again, by others.
    space_feed.put(Update::Applied(of(&spaces, "shop", "", 6, "blue"))).await.unwrap();
    map_feed.put(Update::Applied(of(&maps, "web", "shop", 7, "none"))).await.unwrap();
    space_feed.put(Update::Applied(of(&spaces, "end", "", 8, "red"))).await.unwrap();
    until("the last one", || told().contains(&"created end".to_owned())).await;
    let mut told = told();
    told.sort();
    assert_eq!(told, ["created end", "created shop", "created shop/web", "deleted shop", "deleted shop/web"]);
    drop(delivery);
}
