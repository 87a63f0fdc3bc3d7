//! What is not certain is said, and what is not known is never made up.

use proptest::{collection::vec, prelude::*};

use super::{
    lives::{Deed, deeds, gadget, gadgets, live, object},
    *,
};
use crate::{
    cluster::store::FeedId,
    event::render::yaml::yaml,
    ledger::{absence, retention},
};

/// Lives of which retention by size has forgotten some events in the middle, those that nobody waited for.
async fn check(deeds: Vec<(u8, Deed)>, forgotten: Vec<bool>) {
    let rig = Rig::new();
    live(&rig, &deeds).await;
    let mut history = rig.history();
    let mut known = Vec::new();
    for n in 0..3 {
        let rows = history.of_object(&gadget(n), Order::Asc, None, 1_000).unwrap().rows;
        for row in &rows {
            let detail = history.detail(row.seq).unwrap().unwrap();
            let then = history.at(&gadget(n), When::At(row.time)).unwrap().object;
            known.push((n, row.clone(), detail.before, detail.after, then));
        }
    }
    let gone: Vec<i64> = known.iter().zip(&forgotten).filter(|(_, gone)| **gone).map(|(one, _)| one.1.seq).collect();
    let kept = |seq: i64| !gone.contains(&seq);
    let seqs = gone.clone();
    rig.store.write(Box::new(move |transaction| retention::forget(transaction, &seqs).map(drop))).await.unwrap();
    for (n, row, before, after, then) in &known {
        match history.at(&gadget(*n), When::At(row.time)) {
            Ok(state) => assert_eq!(&state.object, then, "object {n} at {}", row.time),
            Err(error) => assert!(unknown(&error), "{error}"),
        }
        if let Ok((lines, _)) = history.blame(&gadget(*n), When::At(row.time)) {
            let text: String = lines.iter().map(|line| format!("{}\n", line.text)).collect();
            assert_eq!(text, then.as_ref().map_or(String::new(), yaml));
        }
        match history.at(&gadget(*n), When::After(row.seq)) {
            Ok(state) => assert_eq!(&state.object, after, "object {n} after {}", row.seq),
            Err(error) => assert!(unknown(&error), "{error}"),
        }
        let detail = history.detail(row.seq).unwrap();
        assert_eq!(detail.is_some(), kept(row.seq));
        let Some(detail) = detail else { continue };
        assert!(detail.before.is_none() || detail.before == *before, "before {row:?}");
        assert!(detail.after.is_none() || detail.after == *after, "after {row:?}");
    }
}

fn unknown(error: &Error) -> bool {
    matches!(error, Error::NotKept { .. } | Error::Gap(_) | Error::Unknown(_))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn over_events_that_were_forgotten_in_the_middle_an_object_is_right_or_not_known(
        deeds in deeds(), forgotten in vec(prop::bool::weighted(0.3), 40)
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(check(deeds, forgotten));
    }
}

/// Three versions of a gadget, the second of which came after an absence.
struct Story {
    rig: Rig,
    feed: FeedId,
    rows: Vec<Row>,
}

const SECOND: i64 = 1_000;

impl Story {
    /// The changes are 100 s apart, and whoever made the second says that it was made `made` after the first.
    async fn new(made: Option<i64>, observed: &str) -> Self {
        let rig = Rig::new();
        live(&rig, &(1..4).map(|n| (0, Deed::Put(json!({"replicas": n})))).collect::<Vec<_>>()).await;
        let history = rig.history();
        let feed = history.connection().query_row("SELECT id FROM feeds", [], |row| row.get(0)).unwrap();
        let now = Timestamp::now().as_millisecond();
        let start = now - 1_000 * SECOND;
        let observed = observed.to_owned();
        rig.store
            .write(Box::new(move |transaction| {
                transaction.execute("UPDATE feeds SET since = ?1", [start - SECOND])?;
                transaction.execute("UPDATE events SET time = ?1 + (seq - 1) * 100000", [start])?;
                transaction.execute("UPDATE events SET observed = ?1 WHERE seq = 2", [&observed])?;
                let (_, event) = crate::ledger::rows::event(transaction, 2)?.unwrap();
                let mut event = (*event).clone();
                let time = made.map(|made| Timestamp::from_millisecond(start + made * SECOND).unwrap());
                event.actors = vec![Actor { time, ..sample::event().actors[0].clone() }];
                let json = serde_json::to_vec(&event).unwrap();
                transaction.execute("UPDATE events SET event = ?1 WHERE seq = 2", [json])?;
                transaction.execute("INSERT OR REPLACE INTO meta VALUES ('watching', ?1)", [now]).map(drop)
            }))
            .await
            .unwrap();
        let mut history = history;
        let rows = history.of_object(&gadget(0), Order::Asc, None, 10).unwrap().rows;
        Self { rig, feed, rows }
    }

    /// Not watched, in seconds after the first change.
    async fn away(&self, feed: FeedId, since: i64, until: Option<i64>) {
        let first = self.rows[0].time.as_millisecond();
        let at = move |second: i64| first + second * SECOND;
        let write =
            move |transaction: &rusqlite::Transaction<'_>| absence::tell(transaction, feed, at(since), until.map(at));
        self.rig.store.write(Box::new(write)).await.unwrap();
    }

    /// What is said so many seconds after the first change: the replicas, and since when that is not certain.
    fn at(&self, second: i64) -> (i64, Option<i64>) {
        let first = self.rows[0].time.as_millisecond();
        let at = Timestamp::from_millisecond(first + second * SECOND).unwrap();
        let state = self.rig.history().at(&gadget(0), When::At(at)).unwrap();
        let since = state.doubt.map(|doubt| {
            if let Some(event) = &doubt.event {
                assert_eq!((event, doubt.until), (&self.rows[1].id, Some(self.rows[1].time)));
            }
            (doubt.since.as_millisecond() - first) / SECOND
        });
        (state.object.unwrap()["spec"]["replicas"].as_i64().unwrap(), since)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_seen_live_is_certain_and_what_a_list_found_is_not() {
    let live = Story::new(Some(100), "live").await;
    assert_eq!([live.at(50), live.at(99), live.at(150), live.at(500)], [(1, None), (1, None), (2, None), (3, None)]);
    let late = Story::new(Some(100), "late").await;
    assert_eq!([late.at(50), late.at(150)], [(1, Some(0)), (2, None)], "nobody knows when they left");
    late.away(0, 40, Some(95)).await;
    assert_eq!(
        [late.at(39), late.at(40), late.at(99), late.at(100)],
        [(1, None), (1, Some(40)), (1, Some(40)), (2, None)]
    );
    let audit = Story::new(Some(100), "audit").await;
    audit.away(0, 40, Some(95)).await;
    assert_eq!([audit.at(1), audit.at(99)], [(1, Some(0)), (1, Some(0))], "the watch had missed it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_made_while_kubediff_was_away_is_seen_later_and_that_is_said() {
    for feed_alone in [false, true] {
        // Made in the absence, and seen right after it.
        let story = Story::new(Some(60), "live").await;
        let feed = if feed_alone { story.feed } else { 0 };
        story.away(feed, 40, Some(95)).await;
        let said = [story.at(39), story.at(41), story.at(97), story.at(101), story.at(201)];
        assert_eq!(said, [(1, None), (1, Some(40)), (1, Some(40)), (2, None), (3, None)]);
        // Of a feed that it is none of nothing is said.
        let story = Story::new(Some(60), "live").await;
        story.away(story.feed + 1, 40, Some(95)).await;
        assert_eq!(story.at(50), (1, None));
    }
    // Nobody says when it was made, but it came soon.
    let story = Story::new(None, "live").await;
    story.away(0, 10, Some(60)).await;
    assert_eq!(story.at(15), (1, Some(10)));
    // It says that it was made long after.
    let story = Story::new(Some(100), "live").await;
    story.away(0, 10, Some(20)).await;
    assert_eq!(story.at(15), (1, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_is_not_watched_any_more_is_what_it_was_last() {
    let story = Story::new(Some(100), "live").await;
    story.away(story.feed, 300, None).await;
    assert_eq!([story.at(250), story.at(301)], [(3, None), (3, Some(300))]);
    let story = Story::new(Some(100), "live").await;
    let first = story.rows[0].time.as_millisecond();
    let stopped = first + 300 * SECOND;
    story
        .rig
        .store
        .write(Box::new(move |t| t.execute("UPDATE meta SET value = ?1 WHERE key = 'watching'", [stopped]).map(drop)))
        .await
        .unwrap();
    assert_eq!([story.at(250), story.at(310), story.at(700)], [(3, None), (3, None), (3, Some(300))]);
    let now = story.rig.history().at(&gadget(0), When::Now).unwrap();
    assert!(now.doubt.unwrap().reason.contains("has not run"), "the file is older than now");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_managers_of_one_event_are_blamed_for_what_each_of_them_set() {
    let rig = Rig::new();
    let managed = |who: &str, second: u8, subresource: &str, fields: Value| {
        json!({"manager": who, "operation": "Update", "subresource": subresource, "apiVersion": "v1",
               "time": format!("2026-11-16T10:00:{second:02}Z"), "fieldsType": "FieldsV1", "fieldsV1": fields})
    };
    let gadget_of = |image: &str, size: u8, ready: u8, second: u8| {
        let mut object = object(0, 0, &json!({"image": image, "size": size}));
        object["status"] = json!({"ready": ready});
        object["metadata"]["managedFields"] = json!([
            managed("helm", second, "", json!({"f:spec": {"f:image": {}}})),
            managed("kubectl-edit", second + 1, "", json!({"f:spec": {"f:size": {}}})),
            managed("gadgeteer", second + 2, "status", json!({"f:status": {"f:ready": {}}})),
        ]);
        object
    };
    let mut feed = rig.feed(&gadgets()).await;
    let before = rig.document(&gadgets(), 10, &gadget_of("1", 1, 1, 1));
    feed.put(Update::Applied(before)).await.unwrap();
    // Found by a list: three changes in one.
    let after = rig.document(&gadgets(), 20, &gadget_of("2", 2, 2, 10));
    feed.put(Update::ListBegan).await.unwrap();
    feed.put(Update::Listed(vec![after])).await.unwrap();
    feed.put(Update::ListEnded(Version::from("21"))).await.unwrap();
    rig.settle().await;
    let mut history = rig.history();
    let event = history.event(2).unwrap().unwrap();
    assert_eq!((event.observed, event.actors.len()), (crate::event::Observed::Late, 3), "{event:?}");
    let (lines, _) = history.blame(&gadget(0), When::Now).unwrap();
    let who = |path: &str| {
        let line = lines.iter().find(|line| line.path == path).unwrap();
        (line.event.as_deref() == Some(event.id.as_str()), line.manager.as_deref().unwrap(), line.hand)
    };
    assert_eq!(who("/spec/image"), (true, "helm", false));
    assert_eq!(who("/spec/size"), (true, "kubectl-edit", true));
    assert_eq!(who("/status/ready"), (true, "gadgeteer", false));
    // In the event that made it, which has no changes, by those who own them.
    let (lines, _) = history.blame(&gadget(0), When::After(1)).unwrap();
    let line = |path: &str| lines.iter().find(|line| line.path == path).unwrap().manager.clone().unwrap();
    assert_eq!(line("/status/ready"), "gadgeteer");
    assert_ne!(line("/spec/image"), "gadgeteer", "who writes status does not write spec");
}
