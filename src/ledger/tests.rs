//! Delivery with scripted sinks on a real file.

mod damage;
mod exchange;
mod journal;
mod replicas;
mod silences;
mod whole;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use futures::future::BoxFuture;

use super::{retention::Keep, *};
use crate::{
    cluster::store::{Place, Store, Writing},
    sink::{Outcome, Pace, Retry, Sink, Target, sample, stdout},
};

/// Answers as it was told, then `Delivered`; keeps what it took.
#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Outcome>>,
    taken: Mutex<Vec<(String, String)>>,
    attempts: AtomicUsize,
    delay: Mutex<Duration>,
    reject: Mutex<Option<String>>,
    batch: usize,
    hang: std::sync::atomic::AtomicBool,
}

impl Script {
    fn new(answers: impl IntoIterator<Item = Outcome>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), batch: 1, ..Self::default() })
    }

    fn taken(&self) -> Vec<(String, String)> {
        self.taken.lock().unwrap().clone()
    }

    /// The versions that came of one object, in order.
    fn of(&self, name: &str) -> Vec<String> {
        self.taken().into_iter().filter(|(object, _)| object == name).map(|(_, version)| version).collect()
    }
}

impl Sink for Script {
    fn send<'a>(&'a self, batch: &'a [Arc<Redacted>]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            self.attempts.fetch_add(1, SeqCst);
            if self.hang.load(SeqCst) {
                std::future::pending::<()>().await;
            }
            let delay = *self.delay.lock().unwrap();
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            let rejected = self.reject.lock().unwrap().clone();
            if rejected.is_some_and(|name| batch.iter().any(|event| event.resource.name == name)) {
                return Outcome::reject("it does not like the name");
            }
            let outcome = self.answers.lock().unwrap().pop_front().unwrap_or(Outcome::Delivered);
            if outcome == Outcome::Delivered {
                let took = batch.iter().map(|e| (e.resource.name.clone(), e.resource.resource_version.clone()));
                self.taken.lock().unwrap().extend(took);
            }
            outcome
        })
    }

    fn pace(&self) -> Pace {
        Pace { batch: self.batch.max(1), in_flight: 4, patient: false }
    }
}

fn settings(name: &str, retry: Retry) -> sink::Settings {
    sink::Settings { name: name.into(), target: Target::Stdout(stdout::Settings::default()), retry }
}

fn quick() -> Retry {
    Retry {
        timeout: Duration::from_millis(300),
        min: Duration::from_millis(5),
        max: Duration::from_millis(40),
        budget: Duration::from_secs(60),
    }
}

fn event(name: &str, version: usize) -> Arc<Redacted> {
    let mut event = sample::event_now();
    event.resource.name = name.to_owned();
    event.resource.resource_version = version.to_string();
    event.owner = None;
    Arc::new(Redacted::invented(event))
}

struct Rig {
    ledger: Ledger,
    store: Store,
    writing: Writing,
    delivery: Option<Delivery>,
}

impl Rig {
    async fn open(path: &Path, sinks: Vec<(&str, Retry, Arc<Script>)>) -> Self {
        let (ledger, recorder) = Ledger::new(sample::event().cluster);
        let (store, writing) = Store::open(&Place::File(path.to_owned()), Some(Box::new(recorder))).unwrap();
        let sinks =
            sinks.into_iter().map(|(name, retry, script)| (settings(name, retry), Built::Sink(script))).collect();
        let delivery = ledger.start(store.clone(), Keep::default(), sinks).await.unwrap();
        Self { ledger, store, writing, delivery: Some(delivery) }
    }

    async fn append(&self, events: impl IntoIterator<Item = Arc<Redacted>>) {
        let all: Vec<_> = events.into_iter().map(|event| self.ledger.append(&self.store, event)).collect();
        for result in futures::future::join_all(all).await {
            result.unwrap();
        }
    }

    fn count(&self, sql: &str) -> i64 {
        self.store.reader().unwrap().connection().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn waiting(&self) -> i64 {
        self.count("SELECT count(*) FROM deliveries")
    }

    async fn close(mut self) -> Vec<Arc<str>> {
        let late = match self.delivery.take() {
            Some(delivery) => delivery.drain(Duration::from_secs(5)).await,
            None => Vec::new(),
        };
        drop((self.ledger, self.store));
        tokio::task::spawn_blocking(move || self.writing.join()).await.unwrap();
        late
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_arrives_in_order_per_object_while_the_sink_fails_now_and_then() {
    let folder = folder();
    let answers = (0..300).map(|n| match n % 5 {
        0 => Outcome::retry("busy"),
        1 if n % 15 == 1 => Outcome::Retry { after: Some(Duration::from_millis(10)), reason: "slower".into() },
        _ => Outcome::Delivered,
    });
    let script = Script::new(answers);
    let rig = Rig::open(&folder.path().join("k.db"), vec![("a", quick(), script.clone())]).await;
    rig.append((0..400).map(|n| event(&format!("web-{}", n % 7), n))).await;
    until("all 400", || script.taken().len() >= 400).await;
    until("the list is empty", || rig.waiting() == 0).await;
    let mut of: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (name, version) in script.taken() {
        of.entry(name).or_default().push(version.parse().unwrap());
    }
    assert_eq!(of.len(), 7);
    for (name, versions) in &of {
        assert!(versions.is_sorted(), "{name}: {versions:?}");
    }
    assert_eq!(script.taken().len(), 400, "none twice when nothing was cut off");
    assert_eq!(rig.close().await, Vec::<Arc<str>>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_hangs_or_is_dead_delays_no_other() {
    let folder = folder();
    let (dead, hanging, good) =
        (Script::new((0..100_000).map(|_| Outcome::retry("down"))), Script::new([]), Script::new([]));
    hanging.hang.store(true, SeqCst);
    let sinks =
        vec![("dead", quick(), dead.clone()), ("hanging", quick(), hanging.clone()), ("good", quick(), good.clone())];
    let rig = Rig::open(&folder.path().join("k.db"), sinks).await;
    let began = Instant::now();
    rig.append((0..200).map(|n| event(&format!("web-{n}"), n))).await;
    until("all 200 at the good one", || good.taken().len() == 200).await;
    assert!(began.elapsed() < Duration::from_secs(30));
    until("a deadline at the hanging one", || hanging.attempts.load(SeqCst) > 4).await;
    assert!(dead.taken().is_empty() && hanging.taken().is_empty());
    assert!(dead.attempts.load(SeqCst) < 500, "a sink that is down is not hammered");
    hanging.hang.store(false, SeqCst);
    until("the hanging one catches up", || hanging.taken().len() == 200).await;
    let counts: HashMap<_, _> = rig.ledger.counts().sinks().into_iter().collect();
    assert_eq!(counts["dead"].health().failing.as_deref(), Some("down"));
    assert_eq!(counts["good"].health().failing, None);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_event_is_a_dead_letter_with_its_reason_and_is_sent_again_on_request() {
    let folder = folder();
    let script = Arc::new(Script { batch: 10, ..Script::default() });
    *script.reject.lock().unwrap() = Some("poison".into());
    let rig = Rig::open(&folder.path().join("k.db"), vec![("a", quick(), script.clone())]).await;
    rig.append((0..20).map(|n| event(if n == 7 { "poison" } else { "web" }, n))).await;
    until("the others", || script.taken().len() >= 19).await;
    until("a dead letter", || rig.count("SELECT count(*) FROM dead_letters") == 1).await;
    let versions: Vec<usize> = script.of("web").iter().map(|v| v.parse().unwrap()).collect();
    assert!(versions.is_sorted(), "{versions:?}");
    let letters = dead::list(rig.store.reader().unwrap().connection(), None, None, 10).unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].sink.as_str(), letters[0].reason.as_str()), ("a", "it does not like the name"));
    assert!(letters[0].about.contains("shop/poison"), "{:?}", letters[0]);
    *script.reject.lock().unwrap() = None;
    // As another process does it.
    let other = rusqlite::Connection::open(rig.store.path()).unwrap();
    assert_eq!(dead::retry(&other, Some(letters[0].id), None).unwrap(), 1);
    until("the poison", || !script.of("poison").is_empty()).await;
    until("no dead letter", || rig.count("SELECT count(*) FROM dead_letters") == 0).await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_delivered_within_its_budget_is_a_dead_letter() {
    let folder = folder();
    let script = Script::new((0..100_000).map(|_| Outcome::retry("down")));
    let retry = Retry { budget: Duration::from_millis(200), ..quick() };
    let rig = Rig::open(&folder.path().join("k.db"), vec![("a", retry, script.clone())]).await;
    rig.append([event("web", 1), event("web", 2), event("db", 1)]).await;
    until("three dead letters", || rig.count("SELECT count(*) FROM dead_letters") == 3).await;
    assert_eq!(rig.waiting(), 0);
    let letters = dead::list(rig.store.reader().unwrap().connection(), Some("a"), None, 10).unwrap();
    assert!(letters.iter().all(|letter| letter.reason.contains("down")), "{letters:?}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_that_is_asked_for_again_has_its_whole_budget_again() {
    let folder = folder();
    let script = Script::new([Outcome::reject("no"), Outcome::retry("down"), Outcome::retry("down")]);
    let retry = Retry { budget: Duration::from_secs(5), ..quick() };
    let rig = Rig::open(&folder.path().join("k.db"), vec![("a", retry, script.clone())]).await;
    let mut old = Event::clone(&event("web", 1));
    old.time -= jiff::SignedDuration::from_hours(1);
    rig.append([Arc::new(Redacted::invented(old))]).await;
    until("a dead letter", || rig.count("SELECT count(*) FROM dead_letters") == 1).await;
    let other = rusqlite::Connection::open(folder.path().join("k.db")).unwrap();
    assert_eq!(dead::retry(&other, None, None).unwrap(), 1);
    until("it is delivered", || script.taken().len() == 1).await;
    assert_eq!(script.attempts.load(SeqCst), 4);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_goes_on_where_it_stopped_and_a_new_sink_begins_with_new_events() {
    let folder = folder();
    let path = folder.path().join("k.db");
    let down = Script::new((0..100_000).map(|_| Outcome::retry("down")));
    let slow = Retry { min: Duration::from_millis(500), ..quick() };
    let rig = Rig::open(&path, vec![("a", slow, down.clone())]).await;
    rig.append((0..50).map(|n| event(&format!("web-{}", n % 3), n))).await;
    until("it was tried", || down.attempts.load(SeqCst) > 0).await;
    rig.close().await;
    assert!(down.taken().is_empty());
    let (up, new) = (Script::new([]), Script::new([]));
    let rig = Rig::open(&path, vec![("a", quick(), up.clone()), ("b", quick(), new.clone())]).await;
    rig.append([event("late", 99)]).await;
    until("all at the old sink", || up.taken().len() == 51).await;
    until("the new one", || new.taken().len() == 1).await;
    for name in ["web-0", "web-1", "web-2"] {
        let versions: Vec<usize> = up.of(name).iter().map(|v| v.parse().unwrap()).collect();
        assert!(versions.is_sorted() && versions.len() >= 16, "{name}: {versions:?}");
    }
    assert_eq!(new.taken(), [("late".to_owned(), "99".to_owned())]);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_sends_what_can_be_sent_and_names_who_was_late() {
    let folder = folder();
    let (good, hanging) = (Script::new([]), Script::new([]));
    *good.delay.lock().unwrap() = Duration::from_millis(20);
    hanging.hang.store(true, SeqCst);
    let patient = Retry { timeout: Duration::from_secs(3600), ..quick() };
    let mut rig =
        Rig::open(&folder.path().join("k.db"), vec![("good", quick(), good.clone()), ("hanging", patient, hanging)])
            .await;
    rig.append((0..40).map(|n| event(&format!("web-{n}"), n))).await;
    let began = Instant::now();
    let late = rig.delivery.take().unwrap().drain(Duration::from_secs(5)).await;
    assert_eq!(late, ["hanging".into()]);
    assert!(began.elapsed() < Duration::from_secs(40));
    assert_eq!(good.taken().len(), 40);
    assert_eq!(rig.count("SELECT count(*) FROM deliveries d JOIN sinks s ON s.id = d.sink WHERE s.name = 'good'"), 0);
    assert_eq!(rig.waiting(), 40, "what hangs is kept");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_is_disabled_gets_nothing_more_and_loses_nothing() {
    let folder = folder();
    let script = Script::new([Outcome::Disabled { reason: "410".into() }]);
    let rig = Rig::open(&folder.path().join("k.db"), vec![("a", quick(), script.clone())]).await;
    rig.append([event("web", 1)]).await;
    until("it is disabled", || rig.ledger.counts().sinks()[0].1.health().disabled).await;
    rig.append([event("web", 2), event("db", 3)]).await;
    assert_eq!(rig.waiting(), 3);
    // At the end everything is sent that can be.
    rig.close().await;
    assert_eq!(script.attempts.load(SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_leads_no_more_does_not_call_its_sinks_failing() {
    let folder = folder();
    let script = Script::new((0..100_000).map(|_| Outcome::retry("down")));
    let mut rig = Rig::open(&folder.path().join("k.db"), vec![("a", quick(), script)]).await;
    rig.append([event("web", 1)]).await;
    let counts = rig.ledger.counts().sink(&"a".into());
    until("it fails", || counts.health().failing.is_some()).await;
    rig.delivery.as_mut().unwrap().stop_leading().await;
    assert_eq!((counts.health().failing, counts.health().failing_since), (None, None));
    rig.delivery.as_mut().unwrap().lead().unwrap();
    until("it fails again", || counts.health().failing.is_some()).await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_pipe_ends_the_worker_cleanly() {
    let folder = folder();
    let script = Script::new([Outcome::Closed]);
    let mut rig = Rig::open(&folder.path().join("k.db"), vec![("log", quick(), script)]).await;
    rig.append([event("web", 1)]).await;
    let ended = rig.delivery.as_mut().unwrap().next_end().await;
    assert_eq!(ended, Some(("log".into(), Ended::Closed)));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_was_ahead_holds_up_no_delivery_after_the_next_start() {
    let folder = folder();
    let path = folder.path().join("k.db");
    let down = Script::new((0..100_000).map(|_| Outcome::retry("down")));
    let rig = Rig::open(&path, vec![("a", quick(), down)]).await;
    rig.append([event("web", 1)]).await;
    until("it was tried", || rig.count("SELECT attempts FROM deliveries") > 0).await;
    rig.close().await;
    let (store, writing) = Store::open(&Place::File(path.clone()), None).unwrap();
    let ahead = |tx: &rusqlite::Transaction<'_>| tx.execute("UPDATE deliveries SET next_at = next_at + 36000000", []);
    store.write(Box::new(move |tx| ahead(tx).map(drop))).await.unwrap();
    drop(store);
    tokio::task::spawn_blocking(move || writing.join()).await.unwrap();
    let script = Script::new([]);
    let rig = Rig::open(&path, vec![("a", quick(), script.clone())]).await;
    until("it arrived", || script.taken().len() == 1).await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_holds_everything_up_loses_nothing_and_heals_by_itself() {
    let folder = folder();
    let script = Script::new([]);
    let rig = Rig::open(&folder.path().join("k.db"), vec![("a", quick(), script.clone())]).await;
    rig.append([event("web", 0)]).await;
    // The file may have no more pages for three attempts: SQLite answers as it does on a full disk.
    let mut attempts = 0;
    let full: crate::cluster::store::Write = Box::new(move |tx| {
        attempts += 1;
        let pages: i64 = if attempts <= 3 { 1 } else { 1 << 30 };
        tx.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
        tx.execute("INSERT INTO meta (key, value) VALUES ('filler', randomblob(1000000))", []).map(drop)
    });
    let store = rig.store.clone();
    let filled = tokio::spawn(async move { store.write(full).await });
    let health = rig.store.health();
    until("the writer says so", || health.borrow().failing.as_ref().is_some_and(|why| why.contains("full"))).await;
    assert!(rig.count("SELECT count(*) FROM events") >= 1, "reading goes on");
    rig.append((1..100).map(|n| event("web", n))).await;
    filled.await.unwrap().unwrap();
    assert_eq!(health.borrow().failing, None);
    assert!(rig.ledger.counts().rolled_back.load(SeqCst) >= 3);
    until("all of it", || script.taken().len() == 100).await;
    let versions: Vec<usize> = script.of("web").iter().map(|v| v.parse().unwrap()).collect();
    assert!(versions.is_sorted());
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_removes_the_oldest_by_age_and_by_size_and_gives_the_space_back() {
    let folder = folder();
    let path = folder.path().join("k.db");
    let down = Script::new((0..100_000).map(|_| Outcome::retry("down")));
    let rig = Rig::open(&path, vec![("down", Retry { min: Duration::from_secs(60), ..quick() }, down)]).await;
    let mut old = Event::clone(&event("old", 1));
    old.time = jiff::Timestamp::now() - Duration::from_secs(20 * 24 * 3600);
    rig.append([Arc::new(Redacted::invented(old))]).await;
    rig.append((0..1500).map(|n| {
        let mut event = Event::clone(&event(&format!("web-{n}"), n));
        event.summary = (0..1000).map(|_| char::from(rand::random_range(b'a'..=b'z'))).collect();
        Arc::new(Redacted::invented(event))
    }))
    .await;
    let keep = Keep { age: Duration::from_secs(14 * 24 * 3600), max_bytes: 1 << 40 };
    let removed = retention_step(&rig, keep).await;
    assert_eq!((removed.events, removed.expired, removed.no_room), (1, 1, 0), "by age");
    let before = rig.used();
    rig.store.write(Box::new(|tx| tx.execute("DELETE FROM deliveries WHERE seq % 2 = 0", []).map(drop))).await.unwrap();
    let keep = Keep { max_bytes: before / 2, ..keep };
    let removed = retention_step(&rig, keep).await;
    assert_eq!((removed.events, removed.no_room), (500, 0), "those that nobody waits for go first");
    let (mut lost, mut waiting_to, newest) = (0, 0, rig.count("SELECT max(seq) FROM events"));
    while rig.used() > keep.max_bytes {
        let removed = retention::step(&rig.store, &rig.ledger.shared, keep, waiting_to).await.unwrap();
        waiting_to = removed.waiting_to;
        assert!(removed.no_room == 0 || waiting_to == newest, "that all of them wait is looked for once a pass");
        lost += removed.no_room;
    }
    assert!(lost > 0, "at last undelivered ones, and they are counted");
    assert!(rig.used() <= before / 2);
    while retention_step(&rig, keep).await.more {}
    assert!(rig.count("PRAGMA freelist_count") <= 100, "the space is given back");
    rig.close().await;
}

impl Rig {
    fn used(&self) -> u64 {
        retention::used_bytes(self.store.reader().unwrap().connection()).unwrap()
    }
}

async fn retention_step(rig: &Rig, keep: Keep) -> retention::Removed {
    retention::step(&rig.store, &rig.ledger.shared, keep, 0).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_settings_take_over_what_waits_and_leave_the_other_sinks_alone() {
    let folder = folder();
    let (wrong, right, other) =
        (Script::new((0..100_000).map(|_| Outcome::retry("wrong token"))), Script::new([]), Script::new([]));
    let sinks = vec![("a", quick(), wrong.clone()), ("b", quick(), other.clone())];
    let mut rig = Rig::open(&folder.path().join("k.db"), sinks).await;
    rig.append((0..20).map(|n| event("web", n))).await;
    until("b has it all", || other.taken().len() == 20).await;
    let changed = Retry { timeout: Duration::from_secs(1), ..quick() };
    let sinks = vec![
        (settings("a", changed), Built::Sink(right.clone() as Arc<dyn Sink>)),
        (settings("b", quick()), Built::Sink(Script::new([]) as Arc<dyn Sink>)),
    ];
    rig.delivery.as_mut().unwrap().set(sinks, None).await.unwrap();
    rig.append([event("web", 20)]).await;
    until("a has it all", || right.taken().len() == 21).await;
    until("b goes on as it was", || other.taken().len() == 21).await;
    let versions: Vec<usize> = right.of("web").iter().map(|v| v.parse().unwrap()).collect();
    assert!(versions.is_sorted(), "{versions:?}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_comes_while_another_sink_is_stopped_is_told_of_afterwards() {
    let folder = folder();
    let (slow, closing) = (Script::new([]), Script::new([Outcome::Closed]));
    *slow.delay.lock().unwrap() = Duration::from_millis(200);
    let patient = Retry { timeout: Duration::from_secs(10), ..quick() };
    let sinks = vec![("slow", patient, slow.clone()), ("closing", quick(), closing.clone())];
    let mut rig = Rig::open(&folder.path().join("k.db"), sinks).await;
    rig.append([event("web", 1)]).await;
    until("both are at it", || slow.attempts.load(SeqCst) == 1 && closing.attempts.load(SeqCst) == 1).await;
    let delivery = rig.delivery.as_mut().unwrap();
    let left = vec![(settings("closing", quick()), Built::Sink(closing.clone() as Arc<dyn Sink>))];
    delivery.set(left, None).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), delivery.next_end()).await.expect("it is not forgotten");
    assert_eq!(ended, Some(("closing".into(), Ended::Closed)));
    assert_eq!(slow.taken().len(), 1, "what was in hand was finished");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_is_renamed_under_load_loses_nothing_between_the_names() {
    let folder = folder();
    let script = Script::new([]);
    *script.delay.lock().unwrap() = Duration::from_millis(2);
    let to = |name: &'static str| -> Option<Route> {
        Some(Arc::new(move |_: &Event, _: &Around| Decision { sinks: vec![name.into()], ..Decision::default() }))
    };
    let mut rig = Rig::open(&folder.path().join("k.db"), vec![("old", quick(), script.clone())]).await;
    rig.ledger.set_route(to("old"));
    let (ledger, store) = (rig.ledger.clone(), rig.store.clone());
    let load = tokio::spawn(async move {
        for n in 0..300 {
            ledger.append(&store, event("web", n)).await.unwrap();
        }
    });
    for name in ["new", "old", "newer"] {
        tokio::time::sleep(Duration::from_millis(30)).await;
        let renamed = vec![(settings(name, quick()), Built::Sink(script.clone() as Arc<dyn Sink>))];
        rig.delivery.as_mut().unwrap().set(renamed, to(name)).await.unwrap();
    }
    load.await.unwrap();
    until("all have come", || script.taken().len() >= 300).await;
    let mut versions: Vec<usize> = script.of("web").iter().map(|v| v.parse().unwrap()).collect();
    versions.sort_unstable();
    assert_eq!(versions, (0..300).collect::<Vec<_>>(), "each once");
    rig.close().await;
}
