//! Objects that change all the time: what is asked of them is answered, and takes no more room for that.

use std::{collections::BTreeSet, time::Instant};

use super::{
    lives::{gadget, gadgets, object},
    *,
};

/// How far back everything is dated.
const LONG_AGO: i64 = 10_000_000;
/// From one change to the next.
const APART: i64 = 40;

fn spec(replicas: i64) -> Value {
    json!({"replicas": replicas, "metrics": [{"name": "cpu", "value": 80}, {"name": "memory", "value": 70}], "max": 9})
}

/// One that was there before anyone looked or was created then, and whose `replicas` was set so many times since: by SQL but
/// for the first and the last time. Gives when it began.
async fn busy(rig: &Rig, created: bool, changes: i64) -> i64 {
    let document = |version, replicas| rig.document(&gadgets(), version, &object(0, 0, &spec(replicas)));
    let mut feed = rig.store.feed(Feed::new(gadgets(), Scope::All), vec![], false).await.unwrap();
    feed.put(Update::ListBegan).await.unwrap();
    if !created {
        feed.put(Update::Listed(vec![document(5, 0)])).await.unwrap();
    }
    feed.put(Update::ListEnded(Version::from("6"))).await.unwrap();
    if created {
        feed.put(Update::Applied(document(7, 0))).await.unwrap();
    }
    rig.settle().await;
    let began = Timestamp::now().as_millisecond() - LONG_AGO;
    let mut event = sample::event();
    event.id = "ID".into();
    (event.resource.group, event.resource.resource) = ("acme.example".into(), "gadgets".into());
    (event.resource.kind, event.resource.name) = ("Gadget".into(), "g0".into());
    event.actors = vec![Actor { manager: "autoscaler".into(), ..event.actors[0].clone() }];
    event.changes.clear();
    event.patch = Some(serde_json::from_value(set("VALUE")).unwrap());
    let event = serde_json::to_string(&event).unwrap().replace(&sample::event().time.to_string(), "TIME");
    let inverse = set("VALUE").to_string();
    rig.store
        .write(Box::new(move |transaction| {
            transaction.execute("UPDATE feeds SET since = ?1", [began])?;
            transaction.execute("UPDATE events SET time = ?1", [began + 1])?;
            transaction.execute(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                 INSERT INTO events (id, time, type, api_group, resource, kind, namespace, name, uid, owner_kind,
                   owner_namespace, owner_name, classes, managers, summary, event, inverse, observed, version)
                 SELECT printf('%032x', i), ?2 + i * ?3, 'updated', 'acme.example', 'gadgets', 'Gadget', 'shop', 'g0', '', '',
                   '', '', '', '', '', CAST(replace(replace(replace(?4, '\"VALUE\"', i), 'ID', printf('%032x', i)), 'TIME',
                     strftime('%Y-%m-%dT%H:%M:%fZ', (?2 + i * ?3) / 1000.0, 'unixepoch')) AS BLOB),
                   CAST(replace(?5, '\"VALUE\"', i - 1) AS BLOB), 'live', 'v1' FROM n",
                rusqlite::params![changes - 1, began, APART, event, inverse],
            )?;
            Ok(())
        }))
        .await
        .unwrap();
    feed.put(Update::Applied(document(8, changes))).await.unwrap();
    rig.settle().await;
    // It was compared with the first.
    let inverse = set("VALUE").to_string().replace("\"VALUE\"", &(changes - 1).to_string());
    rig.store
        .write(Box::new(move |transaction| {
            let last = "UPDATE events SET inverse = CAST(?1 AS BLOB) WHERE seq = (SELECT max(seq) FROM events)";
            transaction.execute(last, [&inverse]).map(drop)
        }))
        .await
        .unwrap();
    began
}

fn set(value: &str) -> Value {
    json!([{"op": "replace", "path": "/spec/replicas", "value": value}, {"op": "replace", "path": "/status/seen", "value": value}])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_fifty_thousand_changes_those_are_kept_that_a_line_is_from() {
    const CHANGES: i64 = 50_000;
    let rig = Rig::new();
    let began = busy(&rig, true, CHANGES).await;
    let mut history = rig.history();
    let created = history.of_object(&gadget(0), Order::Asc, None, 1).unwrap().rows.remove(0);
    for at in [1, CHANGES / 2, CHANGES - 1] {
        let asked = Instant::now();
        let time = timestamp(began + at * APART);
        let (lines, state) = history.blame(&gadget(0), When::At(time)).unwrap();
        let took = asked.elapsed();
        assert_eq!(state.object.unwrap()["spec"]["replicas"], at);
        let line = |path: &str| lines.iter().find(|line| line.path == path).unwrap();
        assert_eq!(line("/spec/replicas").event, Some(format!("{at:032x}")));
        assert_eq!(line("/spec/replicas").manager.as_deref(), Some("autoscaler"));
        assert_eq!(line("/spec/replicas").time, Some(time));
        assert_eq!(line("/spec/max").event.as_ref(), Some(&created.id));
        println!("blame after {at} of {CHANGES} changes: {took:.1?}");
    }
    let life = history.life(&gadget(0)).unwrap();
    assert_eq!(life.steps.len() as i64, CHANGES + 1);
    let now = history.document(&life, life.steps.len()).unwrap().unwrap();
    let tree = history.authors(&life, life.steps.len(), &now).unwrap();
    let kept: BTreeSet<String> = tree.all_by().into_iter().map(|by| by.wrote.id.clone()).collect();
    assert_eq!(kept.len(), 2, "the creation and the last change: {kept:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_take_too_long_is_said_to_and_later_times_are_answered() {
    let rig = Rig::new();
    let most = 1_000;
    let began = busy(&rig, false, most + 10).await;
    let mut history = rig.history();
    assert_eq!(std::mem::replace(&mut history.most_played, most as usize), 200_000, "as the specification says");
    let first = timestamp(began + 1);
    for answer in
        [history.at(&gadget(0), When::At(first)).map(drop), history.blame(&gadget(0), When::At(first)).map(drop)]
    {
        assert!(matches!(answer, Err(Error::TooLong { .. })), "{answer:?}");
    }
    let late = most - 5;
    let state = history.at(&gadget(0), When::At(timestamp(began + late * APART))).unwrap();
    assert_eq!(state.object.unwrap()["spec"]["replicas"], late);
    let first = history.of_object(&gadget(0), Order::Asc, None, 1).unwrap().rows.remove(0);
    let detail = history.detail(first.seq).unwrap().unwrap();
    assert_eq!((detail.before, detail.after), (None, None), "what changed is told, and not what it was");
    // Who set what, as far as changes are played.
    let (lines, _) = history.blame(&gadget(0), When::Now).unwrap();
    let line = |path: &str| lines.iter().find(|line| line.path == path).unwrap();
    assert!(line("/status/seen").event.is_some());
    assert_eq!(line("/spec/max").event, None, "it was set before half of them");
}
