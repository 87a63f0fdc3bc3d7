//! Silences of the ledger: recorded all the same, and kept from the sinks that they are for.

use super::*;
use crate::{
    ledger::silences::{self, New},
    route::{Rules, Table},
};

fn new(namespace: &str, sinks: &[&str], until: jiff::Timestamp) -> New {
    New {
        namespace: namespace.into(),
        sinks: sinks.iter().map(|sink| (*sink).to_owned()).collect(),
        until,
        reason: "migration".into(),
        by: "ann".into(),
        ..New::default()
    }
}

fn hour() -> jiff::Timestamp {
    jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silenced_event_is_recorded_and_counted_and_goes_to_no_silenced_sink() {
    let folder = folder();
    let (a, b) = (Script::new([]), Script::new([]));
    let rig = Rig::open(&folder.path().join("k.db"), vec![("a", quick(), a.clone()), ("b", quick(), b.clone())]).await;
    for (round, routed) in [false, true].into_iter().enumerate() {
        if routed {
            let rules = Rules { sinks: vec!["a".into(), "b".into()], ..Rules::default() };
            let table = Table::new(&rules).unwrap();
            rig.ledger.set_route(Some(Arc::new(move |event, around| table.route(event, &around.context(event.time)))));
        }
        let silence = rig.ledger.silence(&rig.store, new("shop", &["a"], hour())).await.unwrap();
        rig.append([event("quiet", round)]).await;
        assert!(rig.ledger.end_silence(&rig.store, silence.id).await.unwrap());
        assert!(!rig.ledger.end_silence(&rig.store, silence.id).await.unwrap(), "it is over already");
        rig.append([event("loud", round)]).await;
        until("the loud one at both", || a.of("loud").len() == round + 1 && b.of("loud").len() == round + 1).await;
        assert!(a.of("quiet").is_empty(), "with routes: {routed}");
        assert_eq!(b.of("quiet").len(), round + 1, "the silence is for the other one");
        assert_eq!(rig.ledger.counts().silenced().values().sum::<u64>(), round as u64 + 1);
    }
    assert_eq!(rig.count("SELECT count(*) FROM events WHERE name = 'quiet'"), 2, "history has them");
    let all = rig.ledger.silence(&rig.store, new("", &[], hour())).await.unwrap();
    rig.append([event("none", 9)]).await;
    rig.ledger.end_silence(&rig.store, all.id).await.unwrap();
    rig.append([event("last", 9)]).await;
    until("the last one", || !a.of("last").is_empty() && !b.of("last").is_empty()).await;
    assert!(a.of("none").is_empty() && b.of("none").is_empty());
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_made_in_the_file_by_another_process_holds_within_seconds_over_restarts_and_until_its_end() {
    let folder = folder();
    let path = folder.path().join("k.db");
    let script = Script::new([]);
    let rig = Rig::open(&path, vec![("a", quick(), script.clone())]).await;
    let other = rusqlite::Connection::open(&path).unwrap();
    other.busy_timeout(Duration::from_secs(10)).unwrap();
    let now = jiff::Timestamp::now();
    let made = silences::make(&other, &new("sh*", &[], now + jiff::SignedDuration::from_secs(8)), now).unwrap();
    until("it is taken up", || rig.ledger.silences() == [made.clone()]).await;
    rig.append([event("quiet", 1)]).await;
    rig.close().await;
    let rig = Rig::open(&path, vec![("a", quick(), script.clone())]).await;
    assert_eq!(rig.ledger.silences(), [made], "from the first change on");
    until("it is over", || rig.ledger.silences().is_empty()).await;
    rig.append([event("loud", 2)]).await;
    until("the loud one", || !script.of("loud").is_empty()).await;
    assert!(script.of("quiet").is_empty());
    for wrong in [
        New { reason: " ".into(), ..new("", &[], hour()) },
        new("", &[], now),
        new("", &[], now + jiff::SignedDuration::from_hours(24 * 400)),
        New { kind: "x".repeat(400), ..new("", &[], hour()) },
    ] {
        assert!(silences::make(&other, &wrong, now).is_err(), "{wrong:?}");
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_search_is_brought_up_to_date_shortly_after_the_commit() {
    let folder = folder();
    let rig = Rig::open(&folder.path().join("k.db"), vec![]).await;
    rig.append((0..1_500).map(|n| event("web", n))).await;
    until("all are searched", || rig.count("SELECT count(*) FROM search('\"~n=shop\"')") == 1_500).await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_silences_of_a_leader_hold_when_another_takes_over() {
    let folder = folder();
    let (a, b) = (Script::new([]), Script::new([]));
    let leader = Rig::open(&folder.path().join("a.db"), vec![("hook", quick(), a.clone())]).await;
    let standby = Rig::open(&folder.path().join("b.db"), vec![("hook", quick(), b.clone())]).await;
    standby.ledger.lead().end();
    let text = |rig: &Rig| rig.ledger.silences_to_text("a", 64 << 10);
    let made = leader.ledger.silence(&leader.store, new("shop", &[], hour())).await.unwrap();
    let other = leader.ledger.silence(&leader.store, new("pay", &["hook"], hour())).await.unwrap();
    // One that was made on the standby itself does not count.
    standby.ledger.silence(&standby.store, new("stray", &[], hour())).await.unwrap();
    standby.ledger.adopt_silences(&standby.store, "b", &text(&leader)).await.unwrap();
    assert_eq!(standby.ledger.silences(), leader.ledger.silences());
    // While it stands by it keeps nothing back: what the leader has told or kept, its mark takes off the list.
    standby.append([event("recorded", 1)]).await;
    assert_eq!(standby.waiting(), 1);
    standby.ledger.lead().until(tokio::time::Instant::now() + Duration::from_secs(3600));
    standby.append([event("kept", 2)]).await;
    until("it delivers what it recorded", || standby.waiting() == 0).await;
    assert_eq!((b.of("recorded").len(), b.of("kept").len()), (1, 0));
    // A silence that ends, ends for all; its number is not given again.
    leader.ledger.end_silence(&leader.store, made.id).await.unwrap();
    standby.ledger.adopt_silences(&standby.store, "b", &text(&leader)).await.unwrap();
    assert_eq!(standby.ledger.silences(), std::slice::from_ref(&other));
    let next = standby.ledger.silence(&standby.store, new("next", &[], hour())).await.unwrap();
    assert!(next.id > other.id, "{} after {}", next.id, other.id);
    // Its own word, and what is none, changes nothing.
    for text in [standby.ledger.silences_to_text("b", 0), "{\"by\":\"b\",\"silences\":[]}".into(), "nonsense".into()] {
        standby.ledger.adopt_silences(&standby.store, "b", &text).await.unwrap();
    }
    assert_eq!(standby.ledger.silences().len(), 2);
    leader.close().await;
    standby.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_silences_as_have_room_are_told_to_the_others() {
    let folder = folder();
    let rig = Rig::open(&folder.path().join("k.db"), vec![]).await;
    for hours in 1..40 {
        let until = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(hours);
        let long = New { reason: "x".repeat(900), ..new("shop", &[], until) };
        rig.ledger.silence(&rig.store, long).await.unwrap();
    }
    let text = rig.ledger.silences_to_text("a", 16 << 10);
    assert!(text.len() <= 16 << 10 && text.len() > 4 << 10, "{}", text.len());
    let told: serde_json::Value = serde_json::from_str(&text).unwrap();
    let ids: Vec<i64> = told["silences"].as_array().unwrap().iter().map(|s| s["id"].as_i64().unwrap()).collect();
    assert_eq!(ids.last(), Some(&39), "those that last longest are among them");
    rig.close().await;
}
