//! Updates with their whole object, however late they are sent.

use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};

use super::*;
use crate::{
    cluster::{
        Feed, Resource, Scope, Version,
        reflector::{Target as _, Update},
        store::{Close, FeedTarget},
    },
    event::Kind,
    redact::{self, Document, Door},
};

/// Wants everything whole, and takes nothing before it is opened.
#[derive(Default)]
struct Gate {
    open: AtomicBool,
    taken: Mutex<Vec<Arc<Redacted>>>,
    batch: usize,
}

impl Sink for Gate {
    fn send<'a>(&'a self, batch: &'a [Arc<Redacted>]) -> BoxFuture<'a, Outcome> {
        Box::pin(async {
            if !self.open.load(SeqCst) {
                return Outcome::retry("closed");
            }
            self.taken.lock().unwrap().extend(batch.iter().cloned());
            Outcome::Delivered
        })
    }

    fn pace(&self) -> Pace {
        Pace { batch: self.batch.max(1), in_flight: 2, patient: false }
    }

    fn wants_whole(&self) -> bool {
        true
    }
}

struct Rig {
    gate: Arc<Gate>,
    ledger: Ledger,
    store: Store,
    delivery: Delivery,
    feed: FeedTarget,
    door: Door,
    resource: Arc<Resource>,
    /// Every state that there was, by name and version.
    truth: HashMap<(String, String), Value>,
    version: u64,
    _writing: Writing,
    _folder: tempfile::TempDir,
}

impl Rig {
    async fn new(batch: usize) -> Self {
        let folder = folder();
        let gate = Arc::new(Gate { batch, ..Gate::default() });
        let (ledger, recorder) = Ledger::new(sample::event().cluster);
        let place = Place::File(folder.path().join("k.db"));
        let (store, writing) = Store::open(&place, Some(Box::new(recorder))).unwrap();
        let sinks = vec![(settings("old", quick()), Built::Sink(gate.clone()))];
        let delivery = ledger.start(store.clone(), Keep::default(), sinks).await.unwrap();
        let resource = Arc::new(Resource::core("v1", "configmaps", "ConfigMap"));
        let door = Door::new(&redact::Settings::default(), &store.redaction_key()).unwrap();
        let feed = store.feed(Feed::new(resource.clone(), Scope::All), vec![], false).await.unwrap();
        let truth = HashMap::new();
        let mut rig = Self {
            gate,
            ledger,
            store,
            delivery,
            feed,
            door,
            resource,
            truth,
            version: 1,
            _writing: writing,
            _folder: folder,
        };
        rig.list().await;
        rig
    }

    async fn list(&mut self) {
        self.feed.put(Update::ListBegan).await.unwrap();
        self.feed.put(Update::ListEnded(Version(self.version.to_string()))).await.unwrap();
    }

    fn object(&mut self, name: &str, life: u32, data: &Value) -> Document {
        self.version += 1;
        let raw = json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("{name}-{life}"),
            "resourceVersion": self.version.to_string()}, "data": data});
        let document = self.door.admit(&self.resource, raw.to_string().as_bytes()).unwrap();
        self.truth.insert((name.to_owned(), self.version.to_string()), document.value());
        document
    }

    async fn apply(&mut self, name: &str, life: u32, data: Value) {
        let object = self.object(name, life, &data);
        self.feed.put(Update::Applied(object)).await.unwrap();
    }

    async fn settle(&self) {
        self.store.write(Box::new(|_| Ok(()))).await.unwrap();
    }

    /// Opens the gate and gives what came, when all has.
    async fn taken(&self) -> Vec<Arc<Redacted>> {
        self.settle().await;
        self.gate.open.store(true, SeqCst);
        let count = || -> i64 {
            let reader = self.store.reader().unwrap();
            reader.connection().query_row("SELECT count(*) FROM deliveries", [], |row| row.get(0)).unwrap()
        };
        until("everything is sent", || count() == 0).await;
        self.gate.taken.lock().unwrap().clone()
    }

    fn check(&self, events: &[Arc<Redacted>]) {
        for event in events.iter().filter(|event| event.kind != Kind::Deleted) {
            let key = (event.resource.name.clone(), event.resource.resource_version.clone());
            assert_eq!(event.object.as_ref(), self.truth.get(&key), "{key:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changed_after_it_and_is_forgotten_is_not_made_up() {
    let mut rig = Rig::new(1).await;
    for n in 1..5 {
        rig.apply("web", 0, json!({"n": n.to_string()})).await;
        rig.settle().await;
        tick().await;
    }
    // For want of room an event is forgotten that nobody waits for; those that are waited for stay.
    rig.store
        .write(Box::new(|tx| {
            tx.execute_batch(&format!(
                "INSERT OR REPLACE INTO meta SELECT '{}', time FROM events WHERE seq = 3;
                 DELETE FROM events WHERE seq = 3; DELETE FROM deliveries WHERE seq = 3;",
                super::super::retention::HORIZON
            ))
        }))
        .await
        .unwrap();
    let events = rig.taken().await;
    let objects: Vec<bool> = events.iter().map(|event| event.object.is_some()).collect();
    assert_eq!(objects, [true, false, true], "the second one is not known any more");
    rig.check(&[events[0].clone(), events[2].clone()]);
}

/// Until the clock of the tables has moved on.
async fn tick() {
    let now = jiff::Timestamp::now().as_millisecond();
    until("a millisecond passes", || jiff::Timestamp::now().as_millisecond() > now + 1).await;
}

/// Some objects that change, are deleted and made again, in an order that looks random and is not.
async fn live(rig: &mut Rig, steps: u64) {
    let mut seed = 7_u64;
    let mut next = |most: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % most
    };
    let mut lives = [0_u32; 4];
    for step in 0..steps {
        let which = next(4);
        let name = format!("web-{which}");
        let life = &mut lives[usize::try_from(which).unwrap()];
        match next(12) {
            0 if life.is_multiple_of(2) => {
                // As it was, or with a last change.
                let object = rig.object(&name, *life, &json!({"n": step.to_string(), "last": "word"}));
                rig.feed.put(Update::Deleted(object)).await.unwrap();
                *life += 1;
            }
            _ => {
                *life += *life % 2;
                let mut data = json!({"n": step.to_string(), "same": "x".repeat(500)});
                data[format!("key-{}", next(5))] = json!("y");
                rig.apply(&name, *life, data).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_update_comes_with_the_object_that_it_left_also_after_a_long_wait() {
    for batch in [1, 50] {
        let mut rig = Rig::new(batch).await;
        live(&mut rig, 400).await;
        let events = rig.taken().await;
        assert!(events.len() > 300, "{} events", events.len());
        assert!(events.iter().filter(|event| event.kind == Kind::Updated).count() > 200);
        assert!(events.iter().filter(|event| event.kind == Kind::Deleted).count() > 5);
        rig.check(&events);
        // And without a wait.
        rig.gate.taken.lock().unwrap().clear();
        live(&mut rig, 50).await;
        let events = rig.taken().await;
        assert!(events.len() > 30);
        rig.check(&events);
        assert!(rig.delivery.drain(Duration::from_secs(5)).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_watched_for_a_while_is_left_without_its_object_instead_of_with_a_wrong_one() {
    let mut rig = Rig::new(1).await;
    rig.apply("web", 0, json!({"a": "1"})).await;
    rig.apply("web", 0, json!({"a": "2"})).await;
    rig.settle().await;
    // Its resource is not asked for any more, and then again. Meanwhile it has become another.
    rig.store.close(rig.feed.id(), Close::Forget).await.unwrap();
    tick().await;
    rig.feed = rig.store.feed(Feed::new(rig.resource.clone(), Scope::All), vec![], false).await.unwrap();
    let changed = rig.object("web", 0, &json!({"a": "3", "b": "4"}));
    rig.feed.put(Update::ListBegan).await.unwrap();
    rig.feed.put(Update::Listed(vec![changed])).await.unwrap();
    rig.feed.put(Update::ListEnded(Version(rig.version.to_string()))).await.unwrap();
    rig.settle().await;
    tick().await;
    rig.apply("web", 0, json!({"a": "5"})).await;
    let events = rig.taken().await;
    let objects: Vec<_> = events.iter().map(|event| (event.kind, event.object.clone())).collect();
    let truth = |version: &str| rig.truth.get(&("web".to_owned(), version.to_owned())).cloned();
    assert_eq!(objects, [(Kind::Created, truth("2")), (Kind::Updated, None), (Kind::Updated, truth("5"))]);
    assert_eq!(rig.ledger.counts().sinks().len(), 1);
}
