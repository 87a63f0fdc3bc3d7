//! Readers beside the writer.

use std::{sync::mpsc, time::Duration};

use serde_json::json;

use super::*;

const OBJECTS: u64 = 500;

#[tokio::test]
async fn readers_in_the_middle_of_a_read_hold_up_no_commit_and_see_their_own_moment() {
    let (store, _writing, notes) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    let state = |version: u64, k: &str| {
        (0..OBJECTS).map(|n| make.object(&format!("o{n}"), version + n, &json!({"k": k}))).collect::<Vec<_>>()
    };
    list(&mut target, state(1, "before"), OBJECTS).await;
    settle(&store).await;

    let mut reader = store.reader().unwrap();
    let ((begin, begun), (go_on, may_go_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let feed = target.id();
    let reading = std::thread::spawn(move || {
        let mut seen = Vec::new();
        reader
            .for_each(feed, |document| {
                if seen.is_empty() {
                    begin.send(()).unwrap();
                    may_go_on.recv().unwrap();
                }
                seen.push(document.value()["data"]["k"].clone());
            })
            .unwrap();
        seen
    });
    begun.recv().unwrap();
    let writing = async {
        let mut subscription = store.subscribe(feed, 2 * OBJECTS as usize).await.unwrap();
        let first = subscription.next().await.unwrap();
        for document in state(1000, "after") {
            target.put(Update::Applied(document)).await.unwrap();
            // Each in a commit of its own.
            settle(&store).await;
        }
        (subscription, first)
    };
    let written = tokio::time::timeout(Duration::from_secs(60), writing).await;
    let (mut subscription, first) = written.expect("nobody is in its way");
    assert_eq!(notes.take().len() as u64, OBJECTS);
    let fresh = store.reader().unwrap().get(feed, "shop", "o7").unwrap().unwrap();
    assert_eq!(fresh.value()["data"]["k"], "after", "whoever reads now sees what is committed");

    go_on.send(()).unwrap();
    let seen = reading.join().unwrap();
    assert_eq!(seen, vec![json!("before"); OBJECTS as usize]);
    let mut told = vec![say(&first)];
    for _ in 1..2 * OBJECTS {
        told.push(say(&subscription.next().await.unwrap()));
    }
    let began = (0..OBJECTS).map(|n| format!("+o{n}@{}", n + 1));
    let went_on = (0..OBJECTS).map(|n| format!("~o{n}@{} o{n}@{}", n + 1, n + 1000));
    assert_eq!(told, began.chain(went_on).collect::<Vec<_>>());
}
