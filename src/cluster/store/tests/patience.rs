//! How long commands wait for others.

use std::time::{Duration, Instant};

use super::*;

fn nothing() -> Write {
    Box::new(|_| Ok(()))
}

#[tokio::test]
async fn whoever_waits_for_a_write_does_not_wait_for_those_that_go_along() {
    const ROUNDS: u32 = 40;
    let (store, _writing, _) = open(&Place::Temporary);
    let began = Instant::now();
    for _ in 0..ROUNDS {
        store.write(nothing()).await.unwrap();
    }
    let alone = began.elapsed();
    let began = Instant::now();
    for _ in 0..ROUNDS {
        let along = tokio::spawn({
            let store = store.clone();
            async move { store.write_in_time(nothing(), Patience::Along).await }
        });
        // It is asleep with that one by now, or about to be.
        tokio::time::sleep(Duration::from_millis(2)).await;
        store.write(nothing()).await.unwrap();
        along.await.unwrap().unwrap();
    }
    let beside = began.elapsed();
    assert!(beside < 4 * alone + ROUNDS * writer::ALONG / 3, "{beside:?} beside patient ones, {alone:?} alone");
}

#[tokio::test]
async fn the_end_wakes_a_writer_that_waits_for_company() {
    let (store, writing, _) = open(&Place::Temporary);
    store.write(nothing()).await.unwrap();
    let along = tokio::spawn({
        let store = store.clone();
        async move { store.write_in_time(nothing(), Patience::Along).await }
    });
    tokio::task::yield_now().await;
    drop(store);
    tokio::task::spawn_blocking(|| writing.join()).await.unwrap();
    // It was written, or it is said that it was not.
    let _ = tokio::time::timeout(Duration::from_secs(20), along).await.expect("an answer").unwrap();
}
