//! What the store costs: a changed object until it is committed, and an object read back.
//!
//! Documents are made before the clock starts, and every update has a content of its own: a rewrite of what is there
//! would skip the work.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kubediff::{
    cluster::{
        Feed, Resource, Scope, Version,
        reflector::{Target, Update},
        store::{FeedTarget, Place, Store},
    },
    redact::{self, Document, Door},
};
use serde_json::{Value, json};

const OBJECTS: u64 = 2_000;
const BATCH: u64 = 50;

struct Rig {
    runtime: tokio::runtime::Runtime,
    store: Store,
    target: FeedTarget,
    door: Door,
    resource: Resource,
    version: u64,
    _dir: tempfile::TempDir,
}

/// About 5 KB, of which a change touches one value.
fn pod(i: u64, version: u64) -> Value {
    let env: Vec<Value> = (0..40)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}-of-the-setting-{}", i % 17)}))
        .collect();
    json!({"metadata": {"name": format!("web-{i:06}"), "namespace": "shop", "uid": format!("uid-{i}"),
            "resourceVersion": version.to_string(), "labels": {"app": "web", "shard": (i % 10).to_string()}},
        "spec": {"nodeName": format!("node-{}", i % 50), "containers": [
            {"name": "web", "image": format!("registry.example/shop/web:{version:x}"), "env": env}]},
        "status": {"phase": "Running", "podIP": format!("10.0.{}.{}", i / 250 % 250, i % 250)}})
}

impl Rig {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (store, _) = Store::open(&Place::File(dir.path().join("kubediff.db")), None).expect("a new file");
        let door = Door::new(&redact::Settings::default(), &store.redaction_key()).expect("the usual rules");
        let resource = Resource::core("v1", "pods", "Pod");
        let feed = Feed::new(resource.clone(), Scope::All);
        let target = runtime.block_on(store.feed(feed, Vec::new(), false)).expect("the store is open");
        let mut rig = Self { runtime, store, target, door, resource, version: 1, _dir: dir };
        let all = (0..OBJECTS).map(|i| rig.document(i, 1)).collect();
        let listed = [Update::ListBegan, Update::Listed(all), Update::ListEnded(Version("1".to_owned()))];
        rig.commit(listed);
        rig
    }

    fn document(&self, i: u64, version: u64) -> Document {
        self.door.admit(&self.resource, pod(i, version).to_string().as_bytes()).expect("a pod")
    }

    /// Changes of other objects each, at versions that were never there.
    fn updates(&mut self, count: u64) -> Vec<Update> {
        let first = self.version + 1;
        self.version += count;
        (first..first + count).map(|version| Update::Applied(self.document(version * 7 % OBJECTS, version))).collect()
    }

    fn commit(&mut self, updates: impl IntoIterator<Item = Update>) {
        let Self { runtime, store, target, .. } = self;
        runtime.block_on(async {
            for update in updates {
                target.put(update).await.expect("the store is open");
            }
            store.write(Box::new(|_| Ok(()))).await.expect("the store is open");
        });
    }
}

fn store(criterion: &mut Criterion) {
    let mut rig = Rig::new();
    let mut group = criterion.benchmark_group("store");
    group.measurement_time(Duration::from_secs(8)).sample_size(20);
    group.throughput(Throughput::Elements(BATCH));
    group.bench_function(format!("{BATCH} updates, committed"), |b| {
        b.iter_custom(|times| {
            let mut took = Duration::ZERO;
            for _ in 0..times {
                let updates = rig.updates(BATCH);
                let began = Instant::now();
                rig.commit(updates);
                took += began.elapsed();
            }
            took
        });
    });
    group.throughput(Throughput::Elements(1));
    let (mut reader, feed) = (rig.store.reader().expect("a reader"), rig.target.id());
    let mut i = 0;
    group.bench_function("an object read", |b| {
        b.iter_batched(
            || {
                i = (i + 7) % OBJECTS;
                format!("web-{i:06}")
            },
            |name| black_box(reader.get(feed, "shop", &name).expect("a row")),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, store);
criterion_main!(benches);
