//! The contract of the informers, over a small server in memory. The cases are those that users of shared informers have
//! come to rely upon.

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt, future::BoxFuture};
use serde_json::json;

use super::*;
use crate::{
    cluster::{
        Resource, Scope,
        source::{
            Discovered, Error, Frame, Frames, List, Page, Watch,
            script::world::{Fault, World},
        },
        store::{Place, Writing},
    },
    redact::Settings as Redaction,
};

struct Rig {
    world: World,
    factory: Factory,
    writing: Writing,
}

fn feed() -> Feed {
    Feed::new(Resource::core("v1", "pods", "Pod"), Scope::All)
}

impl Rig {
    fn new() -> Self {
        Self::on(&World::new(Resource::core("v1", "pods", "Pod"), true), &Place::Temporary)
    }

    fn on(world: &World, place: &Place) -> Self {
        Self::over(world, world.clone(), place, Settings::default())
    }

    /// The world by way of another source.
    fn over(world: &World, source: impl Source, place: &Place, settings: Settings) -> Self {
        let (store, writing) = Store::open(place, None).unwrap();
        let door = Arc::new(Door::new(&Redaction::default(), &store.redaction_key()).unwrap());
        let factory = Factory::new(Arc::new(source), door, store, settings, None);
        Self { world: world.clone(), factory, writing }
    }

    async fn stop(self) {
        self.factory.shut_down().await;
        drop(self.factory);
        tokio::task::spawn_blocking(|| self.writing.join()).await.unwrap();
    }
}

fn name(delta: &Delta) -> String {
    let sign = match delta {
        Delta::Added(_) => '+',
        Delta::Updated { .. } => '~',
        Delta::Deleted { .. } => '-',
    };
    format!("{sign}{}", delta.object().meta().name)
}

/// The next changes, in words.
async fn next(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut said = Vec::new();
    for _ in 0..count {
        said.push(name(&subscription.next().await.expect("a change")));
    }
    said
}

/// What the informer has stored: names with versions.
async fn stored(informer: &Informer) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let take = |document: crate::redact::Document| {
        all.insert(
            format!("{}/{}", document.meta().namespace, document.meta().name),
            document.meta().version.0.clone(),
        );
    };
    informer.lister().await.unwrap().for_each(take).unwrap();
    all
}

fn truth(world: &World) -> BTreeMap<String, String> {
    let version = |object: &serde_json::Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    world.objects().iter().map(|(key, object)| (key.clone(), version(object))).collect()
}

#[tokio::test]
async fn whoever_subscribes_later_gets_what_there_is_and_then_the_same_changes() {
    let rig = Rig::new();
    rig.world.apply("ns", "one", &json!({}));
    let informer = rig.factory.informer(feed());
    assert!(!informer.has_synced(), "it does not run yet");
    rig.factory.start();
    informer.wait_for_sync().await.unwrap();
    let mut early = informer.subscribe().await.unwrap();
    assert_eq!(next(&mut early, 1).await, ["+one"]);
    rig.world.apply("ns", "two", &json!({}));
    assert_eq!(next(&mut early, 1).await, ["+two"]);
    let mut late = rig.factory.informer(feed()).subscribe().await.unwrap();
    let mut listed = Vec::new();
    while let Some(object) = late.next_listed().await {
        listed.push(object.meta().name.clone());
    }
    assert_eq!(listed, ["one", "two"]);
    rig.world.apply("ns", "one", &json!({"n": 1}));
    rig.world.delete("ns", "two");
    for subscription in [&mut early, &mut late] {
        assert_eq!(next(subscription, 2).await, ["~one", "-two"]);
    }
    assert_eq!(rig.world.requests(), (0, 1), "one watch for both");
    rig.stop().await;
}

#[tokio::test]
async fn a_subscription_that_is_dropped_ends_and_disturbs_no_other() {
    let rig = Rig::new();
    let informer = rig.factory.informer(feed());
    rig.factory.start();
    informer.wait_for_sync().await.unwrap();
    let gone = informer.subscribe().await.unwrap();
    let mut other = informer.subscribe().await.unwrap();
    drop(gone);
    rig.world.apply("ns", "one", &json!({}));
    assert_eq!(next(&mut other, 1).await, ["+one"]);
    rig.stop().await;
}

#[tokio::test]
async fn a_stopped_informer_keeps_what_it_has_and_a_removed_one_ends_its_subscribers() {
    let rig = Rig::new();
    rig.world.apply("ns", "one", &json!({}));
    let informer = rig.factory.informer(feed());
    rig.factory.start();
    informer.wait_for_sync().await.unwrap();
    let mut before = informer.subscribe().await.unwrap();
    informer.stop();
    for _ in 0..50 {
        assert_eq!(informer.wait_for_sync().await, Ok(()), "it was in sync, and stays so");
        assert_eq!(next(&mut informer.subscribe().await.unwrap(), 1).await, ["+one"]);
        assert_eq!(informer.caught_up().await, Err(Closed), "it hears of nothing new");
    }
    rig.factory.remove(&feed(), Close::Forget).await.unwrap();
    assert_eq!(next(&mut before, 1).await, ["+one"]);
    assert!(before.next().await.is_none());
    assert!(informer.subscribe().await.is_err(), "there is nothing to subscribe to any more");

    let never = rig.factory.informer(feed());
    rig.factory.shut_down().await;
    rig.factory.start();
    assert_eq!(never.wait_for_sync().await, Err(Closed), "nothing starts after the end");
    rig.stop().await;
}

/// A world whose watch can be held in the middle of reading a change.
struct Held {
    world: World,
    /// The name of the object whose next change is held.
    name: &'static str,
    reached: std::sync::mpsc::Sender<()>,
    release: Arc<Mutex<std::sync::mpsc::Receiver<()>>>,
}

impl Source for Held {
    fn discover(&self) -> BoxFuture<'_, Result<Discovered, Error>> {
        self.world.discover()
    }

    fn list<'a>(&'a self, feed: &'a Feed, list: &'a List) -> BoxFuture<'a, Result<Page, Error>> {
        self.world.list(feed, list)
    }

    fn watch<'a>(&'a self, feed: &'a Feed, watch: &'a Watch) -> BoxFuture<'a, Result<Frames, Error>> {
        let (name, reached, release) = (self.name, self.reached.clone(), self.release.clone());
        let hold = move |frame: &Result<Frame, Error>| {
            let named = matches!(frame, Ok(Frame::Added(object)) if String::from_utf8_lossy(object).contains(name));
            if named && reached.send(()).is_ok() {
                let _ = lock(&release).recv();
            }
        };
        async move { Ok(self.world.watch(feed, watch).await?.inspect(hold).boxed()) }.boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_removed_while_it_reads_a_change_and_taken_up_again_does_not_skip_it() {
    let world = World::new(Resource::core("v1", "pods", "Pod"), true);
    let (reached, reaching) = std::sync::mpsc::channel();
    let (release, held) = std::sync::mpsc::channel();
    let source = Held { world: world.clone(), name: "held", reached, release: Arc::new(Mutex::new(held)) };
    let rig = Rig::over(&world, source, &Place::Temporary, Settings::default());
    world.apply("ns", "one", &json!({}));
    let informer = rig.factory.informer(feed());
    rig.factory.start();
    informer.wait_for_sync().await.unwrap();
    world.apply("ns", "held", &json!({}));
    let reaching = tokio::task::spawn_blocking(move || reaching.recv().is_ok());
    assert!(reaching.await.unwrap(), "it is in the middle of the change");
    let removing = tokio::spawn({
        let factory = rig.factory.clone();
        async move { factory.remove(&feed(), Close::Keep).await }
    });
    // As long as a close would take.
    for _ in 0..3 {
        tokio::time::timeout(Duration::from_secs(60), informer.shared.stop.cancelled()).await.expect("it is stopped");
        rig.factory.inner.store.write(Box::new(|_| Ok(()))).await.unwrap();
    }
    assert!(!removing.is_finished(), "it waits for the reader");
    drop(release);
    removing.await.unwrap().unwrap();

    let again = rig.factory.informer(feed());
    rig.factory.start();
    again.caught_up().await.unwrap();
    assert_eq!(stored(&again).await, truth(&world));
    drop((informer, again));
    rig.stop().await;
}

#[tokio::test]
async fn an_audit_that_cannot_read_the_file_decides_nothing_and_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, away) = (folder.path().join("kubediff.db"), folder.path().join("away.db"));
    let world = World::new(Resource::core("v1", "pods", "Pod"), true);
    world.apply("ns", "one", &json!({}));
    let settings = Settings { audit: Some(Duration::from_millis(20)), ..Settings::default() };
    let rig = Rig::over(&world, world.clone(), &Place::File(path.clone()), settings);
    let informer = rig.factory.informer(feed());
    rig.factory.start();
    informer.wait_for_sync().await.unwrap();
    let until = async |what: &str, holds: &dyn Fn(&Audits) -> bool| {
        let mut audits = informer.shared.audits.subscribe();
        let held = async { audits.wait_for(holds).await.unwrap().clone() };
        tokio::select! {
            audits = tokio::time::timeout(Duration::from_secs(60), held) => audits.expect(what),
            why = rig.factory.broken() => panic!("{why}"),
        }
    };
    until("one that finds nothing", &|audits| audits.done > 0).await;

    // It cannot be opened, then it can be opened and not be read.
    std::fs::rename(&path, &away).unwrap();
    let before = informer.audits().undecided;
    until("one without a file", &|audits| audits.undecided > before).await;
    std::fs::rename(&away, &path).unwrap();
    let rename = |from: &'static str, to: &'static str| {
        let sql = format!("ALTER TABLE {from} RENAME TO {to}");
        rig.factory.inner.store.write(Box::new(move |transaction| transaction.execute_batch(&sql)))
    };
    rename("objects", "hidden").await.unwrap();
    let before = informer.audits().undecided;
    until("one of a file that cannot be read", &|audits| audits.undecided > before + 1).await;
    rename("hidden", "objects").await.unwrap();
    let before = informer.audits().done;
    let after = until("one as ever", &|audits| audits.done > before + 1).await;
    assert_eq!(after.missed, 0);
    world.apply("ns", "two", &json!({}));
    informer.caught_up().await.unwrap();
    assert_eq!(stored(&informer).await, truth(&world));
    rig.stop().await;
}

#[tokio::test]
async fn stopping_before_the_first_list_fails_those_who_wait() {
    let rig = Rig::new();
    rig.world.fault(Fault::Mute);
    let informer = rig.factory.informer(feed());
    rig.factory.start();
    let waiting = tokio::spawn({
        let informer = informer.clone();
        async move { (informer.wait_for_sync().await, informer.caught_up().await) }
    });
    while rig.world.requests().1 == 0 {
        tokio::task::yield_now().await;
    }
    informer.stop();
    assert_eq!(waiting.await.unwrap(), (Err(Closed), Err(Closed)));
    rig.stop().await;
}

#[tokio::test]
async fn indexes_have_names_of_their_own_and_come_before_the_start() {
    let rig = Rig::new();
    rig.world.apply("a", "one", &json!({"nodeName": "n1"}));
    rig.world.apply("a", "two", &json!({"nodeName": "n2"}));
    rig.world.apply("b", "one", &json!({"nodeName": "n1"}));
    let informer = rig.factory.informer(feed());
    informer.add_index(Index::by_node()).unwrap();
    assert_eq!(informer.add_index(Index::by_node()), Err(IndexError::Taken("node".into())));
    rig.factory.start();
    assert_eq!(informer.add_index(Index::by_label()), Err(IndexError::Started));
    informer.wait_for_sync().await.unwrap();
    let mut lister = informer.lister().await.unwrap();
    let keys = |found: Vec<crate::redact::Document>| {
        found.iter().map(|d| format!("{}/{}", d.meta().namespace, d.meta().name)).collect::<Vec<_>>()
    };
    assert_eq!(keys(lister.by_index("node", "n1").unwrap()), ["a/one", "b/one"]);
    assert_eq!(keys(lister.by_index("node", "none").unwrap()), [""; 0]);
    let wrong = lister.by_index("nod", "n1").unwrap_err().to_string();
    assert_eq!(wrong, "the informer has no index \"nod\"; it has: node");
    let all: Selector = "".parse().unwrap();
    assert_eq!(keys(lister.list_in("a", &all).unwrap()), ["a/one", "a/two"]);
    assert_eq!(keys(lister.list(&all).unwrap()), ["a/one", "a/two", "b/one"]);
    rig.stop().await;
}

#[tokio::test]
async fn after_a_warm_start_sync_is_the_last_known_state_and_caught_up_is_the_present() {
    for bookmarks in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::File(folder.path().join("kubediff.db"));
        let world = World::new(Resource::core("v1", "pods", "Pod"), true);
        world.apply("ns", "old", &json!({}));
        let rig = Rig::on(&world, &place);
        rig.factory.informer(feed());
        rig.factory.start();
        rig.factory.wait_for_sync().await.unwrap();
        let last = truth(&world);
        rig.stop().await;

        for n in 0..300 {
            world.apply("ns", &format!("meanwhile-{n}"), &json!({}));
        }
        world.delete("ns", "old");
        if !bookmarks {
            world.without_bookmarks();
        }
        // Others write to the cluster too.
        world.advance(5);
        let requests = world.requests();
        let rig = Rig::on(&world, &place);
        let informer = rig.factory.informer(feed());
        // It cannot be told of anything before this is over.
        world.fault(Fault::Mute);
        rig.factory.start();
        informer.wait_for_sync().await.unwrap();
        assert_eq!(stored(&informer).await, last, "sync is a whole list, and the watch from there is open");
        let mut subscription = informer.subscribe().await.unwrap();
        assert_eq!(next(&mut subscription, 1).await, ["+old"]);
        informer.caught_up().await.unwrap();
        assert_eq!(stored(&informer).await, truth(&world), "everything that there was");
        assert_eq!(subscription.waiting(), 301, "and subscribers have been given it");
        let (lists, watches) = world.requests();
        let streamed = u64::from(!bookmarks);
        assert_eq!(watches - requests.1, 2 + streamed, "a watch, a short one, and a list where there is no bookmark");
        assert_eq!(lists - requests.0, 1, "of one item");

        // Later on too, and together with others.
        world.apply("ns", "later", &json!({}));
        let (one, other) = tokio::join!(informer.caught_up(), rig.factory.caught_up());
        assert_eq!((one, other), (Ok(()), Ok(())));
        assert_eq!(stored(&informer).await, truth(&world));
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_that_come_and_go_all_the_time_each_see_the_truth() {
    let rig = Rig::new();
    let informer = rig.factory.informer(feed());
    rig.factory.start();
    informer.wait_for_sync().await.unwrap();
    let over = CancellationToken::new();
    let mut coming_and_going = JoinSet::new();
    for _ in 0..20 {
        let (informer, over) = (informer.clone(), over.clone());
        coming_and_going.spawn(async move {
            let mut subscriptions = 0;
            while !over.is_cancelled() {
                let mut subscription = informer.subscribe().await.expect("it runs");
                subscriptions += 1;
                let mut known: BTreeMap<String, String> = BTreeMap::new();
                for _ in 0..rand::random_range(0..60) {
                    let delta = tokio::select! {
                        delta = subscription.next() => delta.expect("it runs"),
                        () = over.cancelled() => break,
                    };
                    let meta = delta.object().meta();
                    let (key, version) = (meta.name.clone(), meta.version.0.clone());
                    match &delta {
                        Delta::Added(_) => assert_eq!(known.insert(key, version), None),
                        Delta::Updated { old, .. } => {
                            assert_eq!(known.insert(key, version), Some(old.meta().version.0.clone()));
                        }
                        Delta::Deleted { .. } => assert!(known.remove(&key).is_some()),
                    }
                }
            }
            subscriptions
        });
    }
    let mut whole = informer.subscribe().await.unwrap();
    for n in 0..1_000 {
        let name = format!("pod-{}", rand::random_range(0..20));
        if n % 3 == 0 {
            rig.world.delete("ns", &name);
        } else {
            rig.world.apply("ns", &name, &json!({"n": n}));
        }
        tokio::task::yield_now().await;
    }
    rig.world.apply("ns", "the end", &json!({}));
    let mut known = BTreeMap::new();
    while !known.contains_key("ns/the end") {
        let delta = whole.next().await.unwrap();
        let meta = delta.object().meta();
        let key = format!("{}/{}", meta.namespace, meta.name);
        match delta {
            Delta::Deleted { .. } => drop(known.remove(&key)),
            _ => drop(known.insert(key, meta.version.0.clone())),
        }
    }
    assert_eq!(known, truth(&rig.world));
    over.cancel();
    let subscriptions: u64 = coming_and_going.join_all().await.into_iter().sum();
    assert!(subscriptions >= 20);
    rig.stop().await;
}

#[tokio::test]
async fn read_in_turns_a_stream_of_changes_arrives_whole_and_in_order_and_the_thread_ends_with_its_factory() {
    let world = World::new(Resource::core("v1", "pods", "Pod"), true);
    let settings = Settings { in_turns: true, ..Settings::default() };
    let rig = Rig::over(&world, world.clone(), &Place::Temporary, settings);
    let informer = rig.factory.informer(feed());
    rig.factory.start();
    informer.wait_for_sync().await.unwrap();
    let mut subscription = informer.subscribe().await.unwrap();
    for n in 0..60 {
        rig.world.apply("ns", "busy", &json!({"n": n}));
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let mut told = vec![name(&subscription.next().await.unwrap())];
    while told.len() < 60 {
        told.push(name(&subscription.next().await.unwrap()));
    }
    assert_eq!(told[0], "+busy");
    assert!(told[1..].iter().all(|step| step == "~busy"), "{told:?}");
    assert_eq!(stored(&informer).await, truth(&rig.world));
    let ear = rig.factory.inner.ear.as_ref().expect("a thread of its own").handle().clone();
    // While changes come, as at any other time.
    rig.world.apply("ns", "busy", &json!({"n": 60}));
    rig.factory.remove(&feed(), Close::Keep).await.unwrap();
    drop((informer, subscription));
    rig.stop().await;
    let gone = async {
        while ear.spawn(async {}).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), gone).await.expect("its runtime is over");
}

#[tokio::test]
async fn whoever_waits_for_an_informer_that_ends_by_itself_is_told() {
    let rig = Rig::new();
    let early = rig.factory.informer(feed());
    rig.factory.start();
    early.wait_for_sync().await.unwrap();
    let Rig { factory, writing, world } = rig;
    tokio::task::spawn_blocking(|| writing.join()).await.unwrap();
    let late = factory.informer(Feed::new(Resource::core("v1", "pods", "Pod"), Scope::Namespace("ns".into())));
    factory.start();
    // What it puts next finds the store closed.
    world.apply("ns", "one", &json!({}));
    let told = async {
        assert!(early.caught_up().await.is_err());
        assert!(late.wait_for_sync().await.is_err());
        assert!(late.subscribe().await.is_err() && late.lister().await.is_err());
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), told).await.expect("nobody waits for ever");
    factory.shut_down().await;
}
