//! The end of a feed, and what comes after it.

use serde_json::json;

use super::*;

#[tokio::test]
async fn a_closed_feed_is_kept_forgotten_or_reported_as_gone() {
    let (store, _writing, notes) = open(&Place::Temporary);
    let make = Maker::new(&store);
    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    list(&mut target, vec![make.object("a", 1, &json!({}))], 5).await;
    store.close(target.id(), Close::Keep).await.unwrap();
    let target = store.feed(config_maps(), vec![], false).await.unwrap();
    assert_eq!(target.cursor(), Some(Version::from("5")));
    store.close(target.id(), Close::Gone).await.unwrap();
    assert_eq!(notes.take(), ["Live -a@1?"]);

    let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
    assert_eq!(target.cursor(), None);
    list(&mut target, vec![make.object("a", 1, &json!({}))], 5).await;
    store.close(target.id(), Close::Forget).await.unwrap();
    assert_eq!(store.feed(config_maps(), vec![], false).await.unwrap().cursor(), None);
    assert_eq!(notes.take(), [""; 0]);
}

/// Keeps the writer busy: whatever is sent until this is dropped comes as one batch.
async fn hold(store: &Store) -> std::sync::mpsc::Sender<()> {
    let (release, held) = std::sync::mpsc::channel();
    let (begins, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let wait: Write = Box::new(move |_| {
        let _ = begins.send(());
        let _ = held.recv();
        Ok(())
    });
    let store = store.clone();
    tokio::spawn(async move { store.write(wait).await });
    begun.recv().await.expect("the writer runs");
    release
}

fn rows(store: &Store) -> i64 {
    let reader = store.reader().unwrap();
    reader.connection().query_row("SELECT count(*) FROM objects", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn what_comes_after_the_end_of_a_feed_moves_no_cursor_and_is_told_to_the_next_reader() {
    for (how, together) in [Close::Keep, Close::Forget, Close::Gone].map(|how| [(how, false), (how, true)]).concat() {
        let (store, _writing, notes) = open(&Place::Temporary);
        let make = Maker::new(&store);
        let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
        list(&mut target, vec![make.object("a", 1, &json!({}))], 5).await;
        settle(&store).await;
        let release = if together { Some(hold(&store).await) } else { None };
        let id = target.id();
        let late = async {
            if !together {
                settle(&store).await;
            }
            target.put(Update::Applied(make.object("b", 6, &json!({})))).await.unwrap();
            list(&mut target, vec![], 9).await;
            drop(release);
        };
        let (closed, ()) = tokio::join!(biased; store.close(id, how), late);
        closed.unwrap();
        settle(&store).await;
        let kept = how == Close::Keep;
        assert_eq!(rows(&store), i64::from(kept), "{how:?}, together: {together}");
        notes.take();

        let mut target = store.feed(config_maps(), vec![], false).await.unwrap();
        assert_eq!(target.cursor(), kept.then(|| "5".into()), "{how:?}, together: {together}");
        if kept {
            target.put(Update::Applied(make.object("b", 6, &json!({})))).await.unwrap();
            settle(&store).await;
            assert_eq!(notes.take(), ["Live +b@6"]);
        }
    }
}

#[tokio::test]
async fn a_feed_that_is_opened_again_while_it_closes_begins_where_that_leaves_it() {
    for how in [Close::Keep, Close::Forget, Close::Gone] {
        let (store, _writing, notes) = open(&Place::Temporary);
        let make = Maker::new(&store);
        let mut before = store.feed(config_maps(), vec![], false).await.unwrap();
        list(&mut before, vec![make.object("a", 1, &json!({}))], 5).await;
        settle(&store).await;
        let release = hold(&store).await;
        before.put(Update::Applied(make.object("b", 6, &json!({})))).await.unwrap();
        let (closed, after, ()) = tokio::join!(biased;
            store.close(before.id(), how),
            store.feed(config_maps(), vec![], false),
            async { drop(release) });
        closed.unwrap();
        let mut after = after.expect("it is open");
        notes.take();
        let kept = how == Close::Keep;
        assert_eq!(after.cursor(), kept.then(|| "6".into()), "{how:?}");
        if !kept {
            list(&mut after, vec![make.object("b", 6, &json!({}))], 6).await;
        }
        after.put(Update::Applied(make.object("b", 7, &json!({"k": "1"})))).await.unwrap();
        settle(&store).await;
        assert_eq!(notes.take(), ["Live ~b@6 b@7"], "{how:?}");
        assert_eq!(rows(&store), if kept { 2 } else { 1 }, "{how:?}");
    }
}
