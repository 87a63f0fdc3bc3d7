//! Two replicas with a ledger each, one history, and the mark between them.

use futures::future::BoxFuture;

use super::{super::mark::AT_EASE, *};
use crate::{
    cluster::{
        Feed, Resource, Scope, Version,
        reflector::{Target as _, Update},
        store::{FeedTarget, Span},
    },
    redact::{self, Document, Door},
};

struct Replica {
    rig: Rig,
    sink: Arc<Script>,
    feed: FeedTarget,
    door: Door,
    resource: Arc<Resource>,
    _folder: tempfile::TempDir,
}

impl Replica {
    /// One whose first list was at this version, standing by.
    async fn new(listed: u64) -> Self {
        Self::with(listed, quick()).await
    }

    async fn with(listed: u64, retry: Retry) -> Self {
        let folder = folder();
        let sink = Script::new([]);
        let (ledger, recorder) = Ledger::new(sample::event().cluster);
        let path = crate::cluster::store::Place::File(folder.path().join("k.db"));
        let (store, writing) = Store::open(&path, Some(Box::new(recorder))).unwrap();
        let sinks = vec![(settings("a", retry), Built::Sink(sink.clone()))];
        let delivery = ledger.stand_by(store.clone(), Keep::default(), sinks).await.unwrap();
        let resource = Arc::new(Resource::core("v1", "configmaps", "ConfigMap"));
        let door = Door::new(&redact::Settings::default(), &store.redaction_key()).unwrap();
        let feed = store.feed(Feed::new(resource.clone(), Scope::All), vec![], false).await.unwrap();
        let rig = Rig { ledger, store, writing, delivery: Some(delivery) };
        let mut replica = Self { rig, sink, feed, door, resource, _folder: folder };
        replica.list(&[], listed).await;
        replica
    }

    fn object(&self, name: &str, version: u64) -> Document {
        let raw = serde_json::json!({"metadata": {"name": name, "namespace": "shop", "uid": name,
            "resourceVersion": version.to_string()}, "data": {"n": version.to_string()}});
        self.door.admit(&self.resource, raw.to_string().as_bytes()).unwrap()
    }

    async fn list(&mut self, objects: &[(&str, u64)], version: u64) {
        self.feed.put(Update::ListBegan).await.unwrap();
        let objects = objects.iter().map(|(name, version)| self.object(name, *version)).collect();
        self.feed.put(Update::Listed(objects)).await.unwrap();
        self.feed.put(Update::ListEnded(Version(version.to_string()))).await.unwrap();
        self.settle().await;
    }

    async fn watch(&mut self, changes: &[(&str, u64)]) {
        for (name, version) in changes {
            let object = self.object(name, *version);
            self.feed.put(Update::Applied(object)).await.unwrap();
        }
        self.settle().await;
    }

    /// Until everything so far is committed.
    async fn settle(&self) {
        self.rig.store.write(Box::new(|_| Ok(()))).await.unwrap();
    }

    async fn lead_until(&mut self, what: &str, done: impl Fn(&Script) -> bool) {
        self.rig.delivery.as_mut().unwrap().lead().unwrap();
        let sink = self.sink.clone();
        until(what, || done(&sink)).await;
    }

    /// What it says it has delivered, as another one reads it.
    async fn mark(&self) -> Mark {
        let text = self.rig.ledger.mark(&self.rig.store, AT_EASE).await.unwrap().to_text(1 << 20);
        Mark::from_text(&text).unwrap()
    }

    async fn heed(&self, other: &Self) -> u64 {
        self.rig.ledger.heed(&self.rig.store, other.mark().await).await.unwrap()
    }

    /// The versions that wait here.
    fn waits(&self) -> Vec<i64> {
        let reader = self.rig.store.reader().unwrap();
        let mut statement = reader.connection().prepare("SELECT version FROM deliveries ORDER BY seq").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_sends_nothing_and_takes_off_its_list_what_the_leader_has_delivered() {
    let (mut a, mut b) = (Replica::new(10).await, Replica::new(10).await);
    let history = [("web", 11), ("db", 12), ("web", 13)];
    a.watch(&history).await;
    b.watch(&history).await;
    assert_eq!(b.waits(), [11, 12, 13]);
    assert_eq!(b.heed(&a).await, 0, "the leader has delivered nothing yet");
    a.lead_until("a has told it all", |sink| sink.taken().len() == 3).await;
    until("a has it off its list", || a.rig.waiting() == 0).await;
    assert_eq!(b.heed(&a).await, 3);
    assert!(b.waits().is_empty() && b.sink.taken().is_empty());
    // The leader is gone; what it had not seen is the other's.
    b.watch(&[("web", 14)]).await;
    b.lead_until("b goes on", |sink| sink.taken().len() == 1).await;
    assert_eq!(b.sink.of("web"), ["14"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_at_the_leader_stays_on_the_standbys_list_though_later_changes_are_delivered() {
    // No pause is longer than the longest: it has to outlast the test.
    let patient = Retry { max: Duration::from_secs(600), ..quick() };
    let (mut a, mut b) = (Replica::with(10, patient).await, Replica::new(10).await);
    let history = [("poison", 11), ("web", 12), ("poison", 13), ("web", 14)];
    a.watch(&history).await;
    b.watch(&history).await;
    // One object cannot be delivered, the other can.
    a.rig
        .store
        .write(Box::new(|tx| {
            tx.execute("UPDATE deliveries SET next_at = ?1 WHERE version = 11", [i64::MAX / 2]).map(drop)
        }))
        .await
        .unwrap();
    a.lead_until("web is told", |sink| sink.of("web").len() == 2).await;
    until("a has web off its list", || a.rig.waiting() == 2).await;
    b.heed(&a).await;
    assert_eq!(b.waits(), [11, 13]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_lags_does_not_tell_again_what_it_reads_later() {
    let (mut a, mut b) = (Replica::new(10).await, Replica::new(10).await);
    a.watch(&[("web", 11), ("web", 12)]).await;
    a.lead_until("a has told it", |sink| sink.taken().len() == 2).await;
    until("a has it off its list", || a.rig.waiting() == 0).await;
    b.heed(&a).await;
    // It takes over, and only then reads what the leader had told.
    b.lead_until("b leads", |_| true).await;
    b.watch(&[("web", 11), ("web", 12), ("web", 13)]).await;
    until("b tells what is new", || b.sink.of("web") == ["13"]).await;
    // Having come so far it heeds the old mark no more: versions mean something else after a restore.
    b.mark().await;
    assert!(b.rig.ledger.shared.plan().told.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_only_a_list_showed_one_of_them_are_matched_by_their_versions() {
    let (mut a, mut b) = (Replica::new(10).await, Replica::new(10).await);
    a.watch(&[("web", 11), ("db", 12)]).await;
    b.watch(&[("web", 11), ("db", 12)]).await;
    a.lead_until("a has told the first", |sink| sink.taken().len() == 2).await;
    until("a has it off its list", || a.rig.waiting() == 0).await;
    b.heed(&a).await;
    // The leader was away and sees by a list what the other watched: web changed, db is gone.
    b.watch(&[("web", 13), ("web", 14), ("web", 15)]).await;
    let gone = b.object("db", 16);
    b.feed.put(Update::Deleted(gone)).await.unwrap();
    b.settle().await;
    a.list(&[("web", 15)], 20).await;
    until("a has told of both", || a.sink.taken().len() == 4).await;
    until("a has it off its list", || a.rig.waiting() == 0).await;
    assert_eq!(b.heed(&a).await, 4);
    // The other way round: a deletion that only a list of the standby showed may have come after what the leader saw.
    b.watch(&[("old", 30)]).await;
    a.watch(&[("old", 30)]).await;
    until("a has told of it", || a.sink.of("old").len() == 1).await;
    until("a has it off its list", || a.rig.waiting() == 0).await;
    b.heed(&a).await;
    b.list(&[("web", 15)], 40).await;
    assert_eq!(b.waits(), [40]);
    assert_eq!(b.heed(&a).await, 0, "the leader knows nothing of it");
    a.feed.put(Update::Bookmark(Version::from("41"))).await.unwrap();
    a.settle().await;
    assert_eq!(b.heed(&a).await, 1, "the leader has seen the deletion, or there was none");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_older_than_the_new_leader_stays_with_the_one_that_knows_it() {
    // The sink was down before there was a second replica.
    let mut a = Replica::new(10).await;
    a.watch(&[("web", 11), ("web", 12)]).await;
    let mut b = Replica::new(20).await;
    a.watch(&[("web", 21)]).await;
    b.watch(&[("web", 21)]).await;
    assert_eq!(b.heed(&a).await, 0);
    // a restarts, b leads and tells what it knows.
    b.lead_until("b has told what it knows", |sink| sink.taken().len() == 1).await;
    until("b has it off its list", || b.rig.waiting() == 0).await;
    assert_eq!(a.heed(&b).await, 1);
    assert_eq!(a.waits(), [11, 12], "nobody told of these");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_replica_speaks_for_the_time_before_it_once_the_leader_has_told_of_all_of_it() {
    let mut a = Replica::new(10).await;
    a.watch(&[("web", 11)]).await;
    let mut b = Replica::new(20).await;
    b.heed(&a).await;
    let since = |b: &Replica| b.rig.count("SELECT begins FROM feeds");
    assert_eq!(since(&b), 20, "something from before waits at the leader");
    a.watch(&[("web", 21)]).await;
    b.watch(&[("web", 21)]).await;
    a.lead_until("a has told it all", |sink| sink.taken().len() == 2).await;
    until("a has it off its list", || a.rig.waiting() == 0).await;
    b.heed(&a).await;
    assert_eq!(since(&b), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lead_that_ran_out_or_was_taken_away_ends_the_sending_at_once() {
    let mut a = Replica::new(10).await;
    a.rig.ledger.lead().end();
    a.rig.delivery.as_mut().unwrap().lead().unwrap();
    a.watch(&[("web", 11)]).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(a.sink.attempts.load(SeqCst), 0, "it is not allowed to");
    a.rig.ledger.lead().until(tokio::time::Instant::now() + Duration::from_secs(60));
    let sink = a.sink.clone();
    until("it is told", || sink.taken().len() == 1).await;
    // On its way when the lead is lost: dropped, and still on the list.
    a.sink.hang.store(true, SeqCst);
    let before = a.sink.attempts.load(SeqCst);
    a.watch(&[("web", 12)]).await;
    until("it is on its way", || sink.attempts.load(SeqCst) > before).await;
    a.rig.delivery.as_mut().unwrap().stop_leading().await;
    assert_eq!(a.waits(), [12]);
    let after = a.sink.attempts.load(SeqCst);
    a.watch(&[("db", 13)]).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(a.sink.attempts.load(SeqCst), after, "nothing more is sent");
    a.sink.hang.store(false, SeqCst);
    a.lead_until("it leads again", |sink| sink.taken().len() == 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_heard_of_a_sink_later_does_not_speak_for_the_time_before() {
    let (mut a, mut b) = (Replica::new(10).await, Replica::new(10).await);
    let young = || (settings("young", quick()), Built::Sink(Script::new([]) as Arc<dyn Sink>));
    let old = |replica: &Replica| (settings("a", quick()), Built::Sink(replica.sink.clone() as Arc<dyn Sink>));
    let sinks = vec![old(&a), young()];
    a.rig.delivery.as_mut().unwrap().set(sinks, None).await.unwrap();
    a.watch(&[("web", 11)]).await;
    b.watch(&[("web", 11)]).await;
    let sinks = vec![old(&b), young()];
    b.rig.delivery.as_mut().unwrap().set(sinks, None).await.unwrap();
    a.watch(&[("web", 12)]).await;
    b.watch(&[("web", 12)]).await;
    assert_eq!(a.waits(), [11, 11, 12, 12]);
    b.lead_until("b has told all that it has to", |_| true).await;
    until("b's list is empty", || b.rig.waiting() == 0).await;
    assert_eq!(a.heed(&b).await, 3);
    assert_eq!(a.waits(), [11], "the younger sink was told of it by nobody");
}

/// One replica watched all of it, the other was away and compared a list. Whoever keeps ids gets nothing twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_summed_up_after_an_absence_has_the_ids_of_what_was_watched() {
    let (mut a, mut b) = (Replica::new(10).await, Replica::new(10).await);
    for replica in [&mut a, &mut b] {
        replica.watch(&[("gone", 11), ("web", 12)]).await;
    }
    a.watch(&[("new", 13), ("web", 14), ("new", 15), ("web", 16)]).await;
    let last = a.object("gone", 17);
    a.feed.put(Update::Deleted(last)).await.unwrap();
    a.settle().await;
    b.list(&[("web", 16), ("new", 15)], 20).await;
    let ids = |replica: &Replica| -> BTreeMap<String, String> {
        let reader = replica.rig.store.reader().unwrap();
        let sql = "SELECT id, name || ' ' || type || ' ' || observed FROM events ORDER BY seq";
        let mut statement = reader.connection().prepare(sql).unwrap();
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let (watched, found) = (ids(&a), ids(&b));
    let late: Vec<_> = found.iter().filter(|(_, what)| what.ends_with("late")).collect();
    let mut what: Vec<&str> = late.iter().map(|(_, what)| what.as_str()).collect();
    what.sort_unstable();
    assert_eq!(what, ["gone deleted late", "new created late", "web updated late"]);
    for (id, what) in late {
        assert!(watched.contains_key(id), "{what} has an id that nobody knows; {watched:#?}");
    }
}

impl Replica {
    /// The resource is gone from the cluster, and its objects with it.
    async fn end(&self) {
        self.rig.store.close(self.feed.id(), crate::cluster::store::Close::Gone).await.unwrap();
    }

    /// It is there again, and was listed at this version.
    async fn again(&mut self, listed: u64) {
        self.feed = self.rig.store.feed(Feed::new(self.resource.clone(), Scope::All), vec![], true).await.unwrap();
        self.list(&[], listed).await;
    }

    fn stop_leading(&mut self) -> impl Future<Output = ()> {
        self.rig.delivery.as_mut().unwrap().stop_leading()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_went_with_its_resource_is_told_once_by_whoever_has_seen_the_end() {
    let (mut a, mut b) = (Replica::new(10).await, Replica::new(10).await);
    let history = [("web", 11), ("db", 12)];
    a.watch(&history).await;
    b.watch(&history).await;
    a.lead_until("a has told what there was", |sink| sink.taken().len() == 2).await;
    until("a has it off its list", || a.rig.waiting() == 0).await;
    // The standby sees the end first: the leader cannot speak for what it does not know.
    b.end().await;
    assert_eq!(b.heed(&a).await, 2);
    assert_eq!(b.waits(), [i64::MAX; 2], "the ends of both objects");
    // The leader sees it too, and cannot deliver it.
    a.stop_leading().await;
    a.end().await;
    assert_eq!((b.heed(&a).await, b.waits().len()), (0, 2), "what waits at the leader is not told");
    a.lead_until("a has told the end", |sink| sink.taken().len() == 4).await;
    until("a has it off its list", || a.rig.waiting() == 0).await;
    assert_eq!(b.heed(&a).await, 2);
    assert_eq!(b.waits(), [0; 0]);

    // Another life of the same resource is none of what that mark speaks of, at the leader's side or here.
    let before = a.mark().await;
    b.again(20).await;
    b.watch(&[("web", 21), ("new", 22)]).await;
    b.end().await;
    assert_eq!(b.waits().len(), 4, "also while the old mark is heeded");
    b.rig.ledger.heed(&b.rig.store, before).await.unwrap();
    assert_eq!(b.waits().len(), 4);
    b.lead_until("b tells it", |sink| sink.taken().len() == 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_one_saw_by_watching_and_the_other_by_the_end_waits_for_whoever_leads() {
    let (mut a, mut b) = (Replica::new(10).await, Replica::new(10).await);
    for replica in [&mut a, &mut b] {
        replica.watch(&[("web", 11), ("db", 30)]).await;
    }
    a.lead_until("a has told what there was", |sink| sink.taken().len() == 2).await;
    until("a has it off its list", || a.rig.waiting() == 0).await;
    a.stop_leading().await;
    let last = a.object("web", 40);
    a.feed.put(Update::Deleted(last)).await.unwrap();
    a.end().await;
    b.end().await;
    // The leader's own word for the deletion has another version, and waits.
    assert_eq!(b.heed(&a).await, 2, "what was told before");
    assert_eq!(b.waits().len(), 2);
    a.lead_until("a has told the deletions", |sink| sink.taken().len() == 4).await;
    until("a has it off its list", || a.rig.waiting() == 0).await;
    assert_eq!(b.heed(&a).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leads_no_more_goes_on_with_all_of_its_sinks_standing_by() {
    let folder = folder();
    let sinks = ["a", "b", "c"].map(|name| (name, quick(), Script::new([]))).to_vec();
    let mut rig = Rig::open(&folder.path().join("k.db"), sinks).await;
    let delivery = rig.delivery.as_mut().unwrap();
    for _ in 0..20 {
        delivery.lead().unwrap();
        tokio::task::yield_now().await;
        delivery.stop_leading().await;
        let ended = tokio::time::timeout(Duration::from_millis(1), delivery.next_end()).await;
        assert!(ended.is_err(), "that it was told to stop is no failure: {ended:?}");
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_the_new_leader_never_saw_is_told_to_be_gone_by_the_one_that_told_of_it() {
    let (mut a, mut b) = (Replica::new(10).await, Replica::new(10).await);
    for replica in [&a, &b] {
        replica.rig.ledger.lead().end();
    }
    a.rig.ledger.lead().until(tokio::time::Instant::now() + Duration::from_secs(600));
    a.watch(&[("web", 11), ("brief", 12)]).await;
    a.lead_until("a tells of both", |sink| sink.taken().len() == 2).await;
    until("a has it off its list", || a.rig.waiting() == 0).await;
    b.heed(&a).await;
    a.stop_leading().await;
    a.rig.ledger.lead().end();
    // Both were away, and the object is gone when they look again: the new leader has never heard of it.
    b.list(&[("web", 11)], 20).await;
    b.rig.ledger.lead().until(tokio::time::Instant::now() + Duration::from_secs(600));
    b.lead_until("b leads", |_| true).await;
    a.list(&[("web", 11)], 25).await;
    assert_eq!(a.waits(), [25], "its deletion");
    assert_eq!(a.heed(&b).await, 0, "the new leader cannot speak for it");
    // What happens from now on it can.
    for replica in [&mut a, &mut b] {
        replica.watch(&[("web", 30)]).await;
    }
    until("b has told it", || b.rig.waiting() == 0).await;
    assert_eq!(a.heed(&b).await, 1);
    assert_eq!(a.waits(), [25]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_had_to_list_again_speaks_for_all_that_it_has_told() {
    let (mut a, mut b) = (Replica::new(10).await, Replica::new(10).await);
    b.rig.ledger.lead().end();
    for replica in [&mut a, &mut b] {
        replica.watch(&[("web", 11), ("db", 12)]).await;
        replica.list(&[("web", 15)], 20).await;
    }
    a.lead_until("a tells it all", |sink| sink.taken().len() == 4).await;
    until("a has it off its list", || a.rig.waiting() == 0).await;
    assert_eq!(b.heed(&a).await, 4, "what was watched, and what the lists showed");
    // And the other can speak for that time too, should it lead now.
    assert_eq!(b.mark().await.up_to(&Feed::new(b.resource.clone(), Scope::All).key()), Some(20));
    a.watch(&[("web", 30)]).await;
    b.watch(&[("web", 30)]).await;
    a.lead_until("a tells that", |sink| sink.taken().len() == 5).await;
    until("a has it off its list", || a.rig.waiting() == 0).await;
    b.heed(&a).await;
    let begins: i64 = b.rig.count("SELECT begins FROM feeds");
    assert_eq!(begins, 10, "the leader has told all of the time before");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_list_that_is_too_long_to_be_read_in_time_nothing_is_said_and_the_other_sinks_do_not_suffer() {
    let a = Replica::new(10).await;
    let sinks: Vec<(Arc<str>, i64)> = vec![("long".into(), 77), ("a".into(), 1)];
    let rows = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
        INSERT INTO deliveries (sink, seq, object, feed, after, version) SELECT 77, i, i, 5, i, i + 1 FROM n";
    a.rig.store.write(Box::new(move |tx| tx.execute(rows, []).map(drop))).await.unwrap();
    a.rig
        .store
        .write(Box::new(|tx| tx.execute("INSERT INTO sinks (id, name) VALUES (77, 'long')", []).map(drop)))
        .await
        .unwrap();
    let read = |within| Mark::read(a.rig.store.reader().unwrap().connection(), &sinks, within).unwrap();
    let live = |by| mark::Place { feed: 5, span: Span { after: by - 1, by } };
    let whole = read(AT_EASE);
    assert!(whole.speaks_of("long") && whole.speaks_of("a"));
    assert!(!whole.covers("long", 9, live(9)));
    // The second one has the rest of the time.
    let hasty = read(Duration::from_millis(2));
    assert!(!hasty.speaks_of("long") && hasty.speaks_of("a"));
}

/// A chat that takes one message a second, and knows whether the lead held at each.
struct Slow {
    lead: Lead,
    posts: Mutex<Vec<bool>>,
}

impl sink::Chat for Slow {
    fn post<'a>(
        &'a self,
        _: &'a sink::Card,
        _: Option<&'a sink::Place>,
    ) -> BoxFuture<'a, Result<Option<sink::Place>, sink::Failed>> {
        self.posts.lock().unwrap().push(self.lead.holds());
        Box::pin(std::future::ready(Ok(None)))
    }

    fn update<'a>(&'a self, _: &'a sink::Place, _: &'a sink::Card) -> BoxFuture<'a, Result<(), sink::Failed>> {
        unreachable!("it has no messages that can be changed")
    }

    fn habits(&self) -> sink::Habits {
        let second = Duration::from_secs(1);
        sink::Habits { edits: false, wait: Duration::ZERO, max: second, interval: second, burst: 1 }
    }

    fn channel(&self, _: Option<&sink::Place>) -> String {
        "slow".to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_turn_comes_when_the_lead_has_ended_is_not_sent_and_stays_on_the_list() {
    let folder = folder();
    let (ledger, recorder) = Ledger::new(sample::event().cluster);
    let path = crate::cluster::store::Place::File(folder.path().join("k.db"));
    let (store, writing) = Store::open(&path, Some(Box::new(recorder))).unwrap();
    let chat = Arc::new(Slow { lead: ledger.lead().clone(), posts: Mutex::default() });
    let sinks = vec![(settings("chat", quick()), Built::Chat(chat.clone()))];
    let mut delivery = ledger.stand_by(store.clone(), Keep::default(), sinks).await.unwrap();
    delivery.lead().unwrap();
    let rig = Rig { ledger, store, writing, delivery: Some(delivery) };
    rig.append([event("web", 1)]).await;
    until("the first is sent", || chat.posts.lock().unwrap().len() == 1).await;
    until("it is off the list", || rig.waiting() == 0).await;
    // The second waits for its turn, a second after the first, and the lead ends meanwhile.
    rig.ledger.lead().until(tokio::time::Instant::now() + Duration::from_millis(400));
    rig.append([event("db", 2)]).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!((chat.posts.lock().unwrap().len(), rig.waiting()), (1, 1));
    rig.ledger.lead().until(tokio::time::Instant::now() + Duration::from_secs(60));
    until("it is sent when the lead is back", || chat.posts.lock().unwrap().len() == 2).await;
    assert_eq!(*chat.posts.lock().unwrap(), [true, true]);
    rig.close().await;
}
