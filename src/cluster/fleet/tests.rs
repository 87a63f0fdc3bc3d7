//! The fleet over a small cluster in memory, in time that goes on only when it is told to: how long something takes is
//! counted in the fleet's own waits, however slow the machine is.

mod meanwhile;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use serde_json::json;
use tokio::{task::JoinHandle, time::Instant};

use super::*;
use crate::{
    cluster::{
        Scope, discovery, informer,
        select::Pattern,
        source::{Discovered, Error, Frames, List, Page, Source, Unavailable, Watch, script::world::World},
        store::{Journal, Place, Seen, Within, Writing},
    },
    redact::{Door, Said},
};

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Several resources, each a [`World`]; each answer takes its time.
#[derive(Clone, Default)]
struct Worlds(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    worlds: BTreeMap<String, (Resource, World)>,
    /// From when on a resource is served.
    served: HashMap<String, Instant>,
    forbidden: HashSet<String>,
    /// Left out of what is said to be served, as by a server that is only starting; with what it answers meanwhile.
    hidden: HashMap<String, Option<Error>>,
    latency: Duration,
    unavailable: Vec<Unavailable>,
    /// What was asked for, `list configmaps@shop` or `watch configmaps@shop`, and when.
    asked: Vec<(String, Instant)>,
}

impl Worlds {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// A resource that is served after a while.
    fn serve(&self, resource: Resource, after: Duration) -> World {
        let world = World::new(resource.clone(), true);
        let mut inner = self.lock();
        inner.served.insert(resource.group_resource(), Instant::now() + after);
        inner.worlds.insert(resource.group_resource(), (resource, world.clone()));
        world
    }

    fn forbid(&self, resource: &str, forbidden: bool) {
        let forbid = &mut self.lock().forbidden;
        if forbidden {
            forbid.insert(resource.to_owned());
        } else {
            forbid.remove(resource);
        }
    }

    /// When a resource was asked for, from the first time on.
    fn asked(&self, what: &str) -> Vec<Instant> {
        self.lock().asked.iter().filter(|(asked, _)| asked.contains(what)).map(|(_, at)| *at).collect()
    }

    fn forget(&self) {
        self.lock().asked.clear();
    }

    /// The world that answers, once its time is over.
    async fn answer(&self, verb: &str, feed: &Feed) -> Result<World, Error> {
        let name = feed.resource.group_resource();
        let latency = {
            let mut inner = self.lock();
            let scope = feed.namespace().map(|namespace| format!("@{namespace}")).unwrap_or_default();
            inner.asked.push((format!("{verb} {name}{scope}"), Instant::now()));
            inner.latency
        };
        tokio::time::sleep(latency).await;
        let inner = self.lock();
        if let Some(Some(error)) = inner.hidden.get(&name) {
            return Err(error.clone());
        }
        if inner.forbidden.contains(&name) {
            return Err(Error::Forbidden(Said::own(format!("{name} is forbidden"))));
        }
        match inner.worlds.get(&name) {
            // No object has a label.
            Some((resource, _)) if !feed.labels.is_empty() => Ok(World::new(resource.clone(), true)),
            Some((_, world)) if inner.served[&name] <= Instant::now() => Ok(world.clone()),
            _ => Err(Error::NotFound(Said::own(name))),
        }
    }
}

impl Source for Worlds {
    fn discover(&self) -> BoxFuture<'_, Result<Discovered, Error>> {
        async {
            let latency = self.lock().latency;
            tokio::time::sleep(latency).await;
            let (inner, now) = (self.lock(), Instant::now());
            let served = inner.worlds.values().map(|(resource, _)| resource);
            let served = served.filter(|resource| {
                let name = resource.group_resource();
                inner.served[&name] <= now && !inner.hidden.contains_key(&name)
            });
            Ok(Discovered { resources: served.cloned().collect(), unavailable: inner.unavailable.clone() })
        }
        .boxed()
    }

    fn list<'a>(&'a self, feed: &'a Feed, list: &'a List) -> BoxFuture<'a, Result<Page, Error>> {
        async { self.answer("list", feed).await?.list(feed, list).await }.boxed()
    }

    fn watch<'a>(&'a self, feed: &'a Feed, watch: &'a Watch) -> BoxFuture<'a, Result<Frames, Error>> {
        let verb = if watch.initial_events { "list" } else { "watch" };
        async move { self.answer(verb, feed).await?.watch(feed, watch).await }.boxed()
    }
}

/// A fleet that runs, in a time of its own.
struct Rig {
    factory: Factory,
    store: Store,
    writing: Writing,
    overview: watch::Receiver<Overview>,
    reload: watch::Sender<select::Settings>,
    trigger: Trigger,
    stop: CancellationToken,
    running: JoinHandle<Result<(), Closed>>,
    began: Instant,
    /// While a blocking task runs, tokio's paused clock stands still.
    _clock: std::sync::mpsc::Sender<()>,
}

/// How far the time goes at once; further when something takes long and its exact time does not matter.
const STEP: Duration = millis(10);
const STRIDE: Duration = millis(200);

impl Rig {
    fn start(worlds: &Worlds, place: &Place, settings: select::Settings) -> Self {
        Self::start_with(worlds, place, settings, None)
    }

    fn start_with(
        worlds: &Worlds,
        place: &Place,
        settings: select::Settings,
        journal: Option<Box<dyn Journal>>,
    ) -> Self {
        let (clock, held) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || held.recv().is_err());
        let (store, writing) = Store::open(place, journal).unwrap();
        let door = Door::new(&crate::redact::Settings::default(), &store.redaction_key()).unwrap();
        let (source, trigger): (Arc<dyn Source>, _) = (Arc::new(worlds.clone()), Trigger::new());
        let informers = informer::Settings::default();
        let factory = Factory::new(source.clone(), Arc::new(door), store.clone(), informers, Some(trigger.clone()));
        let discovery = Discovery::new(source, discovery::Settings::default(), trigger.clone());
        let (reload, reloaded) = watch::channel(settings.clone());
        let fleet = Fleet::new(factory.clone(), store.clone(), discovery, trigger.clone(), settings);
        let (overview, stop) = (fleet.overview(), CancellationToken::new());
        let running = tokio::spawn(fleet.run(stop.clone(), reloaded));
        let began = Instant::now();
        Self { factory, store, writing, overview, reload, trigger, stop, running, began, _clock: clock }
    }

    /// Lets time pass until something holds, and says how much has passed since the start. Before each step everything
    /// that is under way goes as far as it can without more time.
    async fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) -> Duration {
        for step in 0..3_000 {
            self.settle().await;
            if holds(self) {
                return self.began.elapsed();
            }
            tokio::time::advance(if step < 300 { STEP } else { STRIDE }).await;
        }
        panic!("never came true: {what}");
    }

    async fn settle(&self) {
        for _ in 0..3 {
            self.store.write(Box::new(|_| Ok(()))).await.unwrap();
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Lets so many seconds pass, without a look in between.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.settle().await;
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        self.settle().await;
    }

    async fn synced(&self) -> Duration {
        self.until("all is in sync", |rig| {
            let overview = rig.overview.borrow();
            let known = overview.discovered && !overview.awaits_namespaces;
            known && rig.factory.informers().iter().all(Informer::has_synced)
        })
        .await
    }

    fn watched(&self) -> BTreeSet<String> {
        self.factory.informers().iter().map(|informer| informer.feed().to_string()).collect()
    }

    async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
        self.factory.shut_down().await;
        drop((self.factory, self.store));
        self.writing.join();
    }
}

fn config_maps() -> Resource {
    Resource::core("v1", "configmaps", "ConfigMap")
}

fn namespaces() -> Resource {
    Resource::core("v1", "namespaces", "Namespace").cluster_scoped()
}

fn widgets() -> Resource {
    Resource { group: "example.com".into(), ..Resource::core("v1", "widgets", "Widget") }
}

fn only(patterns: &[&str], namespaces: &[&str]) -> select::Settings {
    let include = namespaces.iter().map(|name| (*name).to_owned()).collect();
    select::Settings {
        include: patterns.iter().map(|text| Pattern::parse(text).unwrap()).collect(),
        namespaces: select::Namespaces { include, exclude: Vec::new() },
        ..select::Settings::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_crd_is_watched_within_two_seconds_of_being_served_however_long_that_takes() {
    // Also where nobody asked to see CRDs themselves, or only some of them.
    for (patterns, labels) in [(&["*"][..], ""), (&["v1/configmaps", "Widget"], ""), (&["*"], "team=a")] {
        let lags = if labels.is_empty() { &[0, 700, 1_000, 2_100, 5_200][..] } else { &[0, 1_000] };
        for lag in lags.iter().copied() {
            let worlds = Worlds::default();
            worlds.serve(config_maps(), Duration::ZERO);
            let crds = worlds.serve(sentinel::watched()[0].clone(), Duration::ZERO);
            worlds.serve(sentinel::watched()[1].clone(), Duration::ZERO);
            let settings = select::Settings { labels: labels.into(), ..only(patterns, &[]) };
            let rig = Rig::start(&worlds, &Place::Temporary, settings);
            rig.synced().await;
            rig.until("CRDs are listened to", |_| !worlds.asked("customresourcedefinitions").is_empty()).await;
            worlds.forget();
            worlds.serve(widgets(), millis(lag));
            crds.apply("", "widgets.example.com", &json!({}));
            let created = Instant::now();
            rig.until("it is in sync", |rig| {
                rig.factory.informers().iter().any(|i| i.feed().resource.plural == "widgets" && i.has_synced())
            })
            .await;
            let took = worlds.asked("list widgets.example.com")[0] - created;
            assert!(took <= millis(lag) + Duration::from_secs(2), "{took:?} after it was made, served after {lag} ms");
            if lag <= 1_000 {
                assert!(took <= Duration::from_secs(2), "{took:?} after it was made, served after {lag} ms");
            }
            rig.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crd_that_is_made_as_the_watch_for_them_is_renewed_is_found_as_fast() {
    let worlds = Worlds::default();
    worlds.serve(config_maps(), Duration::ZERO);
    let crds = worlds.serve(sentinel::watched()[0].clone(), Duration::ZERO);
    worlds.serve(sentinel::watched()[1].clone(), Duration::ZERO);
    let rig = Rig::start(&worlds, &Place::Temporary, only(&["v1/configmaps", "Widget"], &[]));
    rig.synced().await;
    let opened = || worlds.asked("watch customresourcedefinitions");
    rig.until("CRDs are listened to", |_| opened().len() == 1).await;
    // The server ends it after five minutes.
    for _ in 0..29 {
        rig.settle().await;
        tokio::time::advance(Duration::from_secs(10)).await;
    }
    rig.until("the watch is renewed", |_| opened().len() == 2).await;
    assert!(opened()[1] - opened()[0] < Duration::from_secs(301), "{:?}", opened()[1] - opened()[0]);
    worlds.serve(widgets(), Duration::ZERO);
    crds.apply("", "widgets.example.com", &json!({}));
    let created = rig.began.elapsed();
    let watched = rig
        .until("it is watched", |rig| rig.factory.informers().iter().any(|i| i.feed().resource.plural == "widgets"))
        .await;
    assert!(watched - created <= Duration::from_secs(2), "{:?} after it was made", watched - created);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_warm_start_lists_nothing_and_is_in_sync_after_two_round_trips() {
    let worlds = Worlds::default();
    let maps = worlds.serve(config_maps(), Duration::ZERO);
    worlds.serve(widgets(), Duration::ZERO);
    let spaces = worlds.serve(namespaces(), Duration::ZERO);
    spaces.apply("", "shop", &json!({}));
    maps.apply("shop", "web", &json!({"n": 1}));
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    for namespaces in [&[][..], &["sh*"]] {
        let rig = Rig::start(&worlds, &place, only(&["*"], namespaces));
        rig.synced().await;
        rig.stop().await;

        worlds.forget();
        worlds.lock().latency = millis(200);
        let rig = Rig::start(&worlds, &place, only(&["*"], namespaces));
        let took = rig.synced().await;
        // What is served, and then one watch each: all else is the machine's own.
        assert!(took < millis(600), "{took:?} at 200 ms a request");
        assert_eq!(worlds.asked("list"), [], "{:?}", worlds.lock().asked);
        worlds.lock().latency = Duration::ZERO;
        rig.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn patterns_that_nobody_may_resolve_keep_nothing_else_waiting_and_heal() {
    let worlds = Worlds::default();
    let maps = worlds.serve(config_maps(), Duration::ZERO);
    let spaces = worlds.serve(namespaces(), Duration::ZERO);
    for name in ["named", "team-a", "team-b", "other"] {
        spaces.apply("", name, &json!({}));
        maps.apply(name, "one", &json!({}));
    }
    worlds.forbid("namespaces", true);
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    let rig = Rig::start(&worlds, &place, only(&["v1/configmaps"], &["named", "team-*"]));
    let of = |names: &[&str]| {
        let feeds = names.iter().map(|name| format!("v1/configmaps in {name}"));
        feeds.chain(["v1/namespaces".to_owned()]).collect::<BTreeSet<_>>()
    };
    rig.until("what is named in full is in sync", |rig| {
        rig.factory.informers().iter().any(|i| i.feed().namespace() == Some("named") && i.has_synced())
    })
    .await;
    assert_eq!(rig.watched(), of(&["named"]));
    assert!(rig.overview.borrow().awaits_namespaces);

    // A reload is taken up meanwhile, and what is watched already stays so though a pattern names it now.
    let before = rig.began.elapsed();
    rig.reload.send_replace(only(&["v1/configmaps"], &["nam*", "other", "team-*"]));
    let after = rig.until("the reload", |rig| rig.watched() == of(&["named", "other"])).await;
    assert!(after - before < millis(500), "{:?}", after - before);

    worlds.forbid("namespaces", false);
    rig.until("all of them", |rig| rig.watched() == of(&["named", "other", "team-a", "team-b"])).await;
    rig.synced().await;
    spaces.apply("", "team-new", &json!({}));
    spaces.delete("", "team-a");
    maps.delete("team-a", "one");
    rig.until("those that come and go", |rig| rig.watched() == of(&["named", "other", "team-b", "team-new"])).await;
    rig.stop().await;

    // Forbidden again: what the last run knew is gone on with, and nothing of it is listed.
    worlds.forbid("namespaces", true);
    worlds.forget();
    let rig = Rig::start(&worlds, &place, only(&["v1/configmaps"], &["nam*", "other", "team-*"]));
    rig.until("as before", |rig| rig.watched() == of(&["named", "other", "team-b", "team-new"])).await;
    rig.until("in sync", |rig| rig.factory.informers().iter().filter(|informer| informer.has_synced()).count() == 4)
        .await;
    assert_eq!(worlds.asked("list configmaps"), []);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_among_what_is_served_is_gone_only_when_its_own_path_says_so() {
    let worlds = Worlds::default();
    let (_, things) = (worlds.serve(config_maps(), Duration::ZERO), worlds.serve(widgets(), Duration::ZERO));
    things.apply("shop", "one", &json!({}));
    let folder = tempfile::tempdir().unwrap();
    let place = Place::File(folder.path().join("kubediff.db"));
    let starting = Error::Server { code: 503, message: "not all paths are installed".into() };
    let hide = |how: Option<Option<Error>>| {
        let hidden = &mut worlds.lock().hidden;
        match how {
            Some(how) => drop(hidden.insert("widgets.example.com".into(), how)),
            None => hidden.clear(),
        }
    };
    let rig = Rig::start(&worlds, &place, only(&["*"], &[]));
    rig.synced().await;
    rig.stop().await;
    // At a start of its own, and while it runs.
    hide(Some(Some(starting.clone())));
    let (told, notes) = Told::new();
    let rig = Rig::start_with(&worlds, &place, only(&["*"], &[]), Some(Box::new(told)));
    for how in [Some(starting), None] {
        hide(Some(how));
        rig.trigger.fire();
        let from = rig.began.elapsed();
        rig.until("half a minute", |rig| rig.began.elapsed() - from > Duration::from_secs(30)).await;
        assert!(rig.watched().contains("example.com/v1/widgets"), "{:?}", rig.watched());
    }
    hide(None);
    things.apply("shop", "two", &json!({}));
    rig.until("it goes on where it was", |_| notes.lock().unwrap().len() == 1).await;
    assert_eq!(*notes.lock().unwrap(), ["+ shop/two of widgets.example.com"]);

    worlds.lock().worlds.remove("widgets.example.com");
    rig.trigger.fire();
    rig.until("its end", |rig| !rig.watched().contains("example.com/v1/widgets")).await;
    let mut ends = notes.lock().unwrap()[1..].to_vec();
    ends.sort();
    assert_eq!(ends, ["- shop/one of widgets.example.com", "- shop/two of widgets.example.com"]);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn new_crds_are_found_as_fast_after_a_reload_that_watches_fewer_of_them_or_more() {
    let worlds = Worlds::default();
    worlds.serve(config_maps(), Duration::ZERO);
    let crds = worlds.serve(sentinel::watched()[0].clone(), Duration::ZERO);
    worlds.serve(sentinel::watched()[1].clone(), Duration::ZERO);
    let rig = Rig::start(&worlds, &Place::Temporary, only(&["*"], &[]));
    rig.synced().await;
    let labelled = select::Settings { labels: "team=a".into(), ..only(&["*"], &[]) };
    for (n, settings) in [labelled, only(&["v1/configmaps", "Widget*"], &[]), only(&["*"], &[])].into_iter().enumerate()
    {
        worlds.forget();
        rig.reload.send_replace(settings);
        rig.until("CRDs are listened to anew", |_| !worlds.asked("customresourcedefinitions").is_empty()).await;
        // Whatever looks that set off are over.
        rig.pass(20).await;
        let plural = format!("widgets{n}");
        worlds.serve(Resource { plural: plural.clone(), kind: format!("Widget{n}"), ..widgets() }, Duration::ZERO);
        crds.apply("", &format!("{plural}.example.com"), &json!({}));
        let created = rig.began.elapsed();
        let watched = rig
            .until("it is watched", |rig| rig.factory.informers().iter().any(|i| i.feed().resource.plural == plural))
            .await;
        assert!(watched - created <= Duration::from_secs(2), "{:?} after it was made", watched - created);
    }
    rig.stop().await;
}

/// Writes down what a fleet is told.
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn new() -> (Self, Arc<Mutex<Vec<String>>>) {
        let notes = Arc::<Mutex<Vec<String>>>::default();
        (Self(notes.clone()), notes)
    }
}

impl Journal for Told {
    fn record(&mut self, _: &mut Within<'_>, feed: &Feed, delta: &Delta, _: Seen) -> Result<(), rusqlite::Error> {
        let (meta, of) = (delta.object().meta(), feed.resource.group_resource());
        let sign = if matches!(delta, Delta::Deleted { .. }) { '-' } else { '+' };
        self.0.lock().unwrap().push(format!("{sign} {}/{} of {of}", meta.namespace, meta.name));
        Ok(())
    }

    fn settled(&mut self, _: bool) {}
}
