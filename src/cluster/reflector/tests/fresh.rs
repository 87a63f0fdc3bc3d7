//! Whether all is read, what is stuck, and how it ends.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::{FutureExt, StreamExt};

use super::*;
use crate::cluster::source::{
    Frame,
    script::{End, bookmark, initial_events_end, page},
};

/// A reflector with a hand on its freshness.
fn ask(script: &Script, map: &Map, shared: Arc<Shared>) -> (Freshness, CancellationToken) {
    let reflector = Reflector::new(reader(script.clone(), feed(), Settings::default(), shared), map.clone());
    let (freshness, stop) = (reflector.freshness(), CancellationToken::new());
    tokio::spawn(reflector.run(stop.clone()));
    (freshness, stop)
}

/// A watch that says something after a while and nothing more, until the time that it was asked for is over.
fn says_after(script: &Script, pause: Duration, frames: Vec<Frame>) {
    script.watches_with(&feed(), move |watch| {
        let end = watch.timeout;
        let frames = futures::stream::once(tokio::time::sleep(pause))
            .flat_map(move |()| futures::stream::iter(frames.clone().into_iter().map(Ok)))
            .chain(futures::stream::once(tokio::time::sleep(end)).filter_map(|()| async { None }));
        async move { Ok(frames.boxed()) }.boxed()
    });
}

/// How long each watch was asked to stay open, in seconds.
fn timeouts(script: &Script) -> Vec<u64> {
    let watches = script.requests().into_iter().filter_map(|request| match request {
        Request::Watch { watch, .. } => Some(watch.timeout.as_secs()),
        _ => None,
    });
    watches.collect()
}

/// What a list of one item says how far the server is.
fn is_at(script: &Script, version: &str) {
    script.lists(&feed(), Ok(page(version, Some("more"), [pod("a", 3)])));
}

#[tokio::test(start_paused = true)]
async fn a_question_opens_a_short_watch_that_has_to_come_as_far_as_the_server_is() {
    let (script, map) = (Script::new(), Map::at("42"));
    script.watches(&feed(), vec![bookmark("43")], End::Hang);
    is_at(&script, "45");
    says_after(&script, Duration::from_secs(2), vec![Frame::Added(pod("a", 44)), bookmark("46")]);
    script.watches(&feed(), vec![], End::Hang);
    let (freshness, _stop) = ask(&script, &map, Shared::new(4, None));
    until("the first watch", || map.log() == ["at 43"]).await;
    let began = Instant::now();
    freshness.caught_up().await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(2), "the bookmark of before does not answer it");
    assert_eq!(map.log(), ["at 43", "applied a@44", "at 46"], "all is put when it is answered");
    until("the watch after it", || asked(&script).len() == 4).await;
    assert_eq!(asked(&script), ["watch 42", "list", "watch 43", "watch 46"]);
    let open = timeouts(&script);
    assert!(open[1] <= 4 && [open[0], open[2]].iter().all(|secs| (300..=600).contains(secs)), "{open:?}");
}

#[tokio::test(start_paused = true)]
async fn where_nothing_was_written_since_the_cursor_or_a_change_is_as_far_it_is_answered_at_once() {
    let (script, map) = (Script::new(), Map::at("42"));
    script.watches(&feed(), vec![], End::Hang);
    is_at(&script, "42");
    script.watches(&feed(), vec![], End::Hang);
    is_at(&script, "44");
    script.watches(&feed(), vec![Frame::Modified(pod("a", 44))], End::Hang);
    let (freshness, _stop) = ask(&script, &map, Shared::new(4, None));
    until("the first watch", || asked(&script).len() == 1).await;
    let began = Instant::now();
    freshness.caught_up().await.unwrap();
    freshness.caught_up().await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(map.log(), ["applied a@44"]);
}

#[tokio::test(start_paused = true)]
async fn questions_that_come_while_one_is_being_answered_are_answered_together_after_it() {
    let (script, map) = (Script::new(), Map::at("42"));
    script.watches(&feed(), vec![], End::Hang);
    is_at(&script, "50");
    says_after(&script, Duration::from_secs(2), vec![bookmark("50")]);
    is_at(&script, "60");
    says_after(&script, Duration::from_secs(2), vec![bookmark("60")]);
    let (freshness, _stop) = ask(&script, &map, Shared::new(4, None));
    until("the first watch", || asked(&script).len() == 1).await;
    let first = tokio::spawn({
        let freshness = freshness.clone();
        async move { freshness.caught_up().await }
    });
    until("the short watch", || asked(&script).len() == 3).await;
    let later = tokio::spawn(async move { futures::future::join_all((0..10).map(|_| freshness.caught_up())).await });
    first.await.unwrap().unwrap();
    assert_eq!(map.lock().cursor, Some("50".into()), "the later ones did not keep the first one from its answer");
    assert!(later.await.unwrap().iter().all(Result::is_ok));
    assert_eq!(asked(&script), ["watch 42", "list", "watch 42", "list", "watch 50"]);
    assert_eq!(map.lock().cursor, Some("60".into()));
}

#[tokio::test(start_paused = true)]
async fn where_no_bookmark_comes_a_list_answers_and_a_server_that_fails_is_asked_again() {
    let (script, map) = (Script::new(), Map::at("42"));
    script.watches(&feed(), vec![], End::Hang);
    script.lists(&feed(), Err(Error::Server { code: 503, message: "not now".into() }));
    is_at(&script, "45");
    says_after(&script, Duration::from_secs(1), vec![Frame::Added(pod("a", 44))]);
    script.watches(&feed(), vec![Frame::Added(pod("a", 44)), initial_events_end("50")], End::Hang);
    let (freshness, _stop) = ask(&script, &map, Shared::new(4, None));
    until("the first watch", || asked(&script).len() == 1).await;
    freshness.caught_up().await.unwrap();
    assert_eq!(asked(&script), ["watch 42", "list", "list", "watch 42", "stream"]);
    assert_eq!(map.lock().cursor, Some("50".into()));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_begins_after_the_question_answers_it() {
    for streaming in [true, false] {
        let (script, map, shared) = (Script::new(), Map::default(), Shared::new(4, None));
        if streaming {
            script.watches(&feed(), vec![initial_events_end("50")], End::Hang);
        } else {
            shared.refuse_streams("", None);
            script.lists(&feed(), Ok(page("50", None, [])));
        }
        let (freshness, _stop) = ask(&script, &map, shared);
        freshness.caught_up().await.unwrap();
        assert_eq!(map.log(), ["list", "ended 50"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_always_has_more_does_not_keep_a_question_from_being_heard() {
    let (script, map) = (Script::new(), Map::at("42"));
    script.watches_with(&feed(), |_| {
        let endless = futures::stream::iter(43_u32..).map(|n| Ok(Frame::Modified(pod("a", n))));
        async move { Ok(endless.boxed()) }.boxed()
    });
    is_at(&script, "9000000000");
    script.watches(&feed(), vec![bookmark("9000000000")], End::Hang);
    let (freshness, stop) = ask(&script, &map, Shared::new(4, None));
    while map.lock().cursor == Some("42".into()) {
        tokio::task::yield_now().await;
    }
    freshness.caught_up().await.unwrap();
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_at_the_same_change_again_and_again_is_listed() {
    let failing = || Frame::Error(Error::Server { code: 500, message: "failed to read an object".into() });
    let (script, map) = (Script::new(), Map::at("42"));
    for _ in 0..3 {
        script.watches(&feed(), vec![failing()], End::Hang);
    }
    script.watches(&feed(), vec![Frame::Added(pod("a", 3)), initial_events_end("50")], End::Hang);
    let running = run(script.clone(), feed(), &map);
    until("the list", || map.lock().cursor == Some("50".into())).await;
    assert_eq!(asked(&script), ["watch 42", "watch 42", "watch 42", "stream"]);
    assert_eq!(running.now().relists, [(Relist::Stuck, 1)].into());

    // One that gets further each time is not stuck.
    let (script, map) = (Script::new(), Map::at("42"));
    for n in 43..50 {
        script.watches(&feed(), vec![Frame::Modified(pod("a", n)), failing()], End::Hang);
    }
    let running = run(script.clone(), feed(), &map);
    until("all of them", || asked(&script).len() == 8).await;
    assert_eq!((running.now().relists.len(), map.lock().cursor.clone()), (0, Some("49".into())));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_stopped_before_it_begins_asks_for_nothing_and_one_that_is_stopped_lets_go_of_its_watch() {
    struct Held(Arc<AtomicBool>);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let (script, map) = (Script::new(), Map::at("42"));
    let stop = CancellationToken::new();
    stop.cancel();
    let reflector =
        Reflector::new(reader(script.clone(), feed(), Settings::default(), Shared::new(4, None)), map.clone());
    assert!(reflector.run(stop).await.is_ok());
    assert_eq!(asked(&script), [""; 0]);

    let let_go = Arc::new(AtomicBool::new(false));
    let held = Held(let_go.clone());
    script.watches_with(&feed(), move |_| {
        let open = futures::stream::poll_fn(move |_| {
            let _open = &held;
            std::task::Poll::Pending
        });
        async move { Ok(open.boxed()) }.boxed()
    });
    let running = run(script.clone(), feed(), &map);
    until("the watch", || running.now().phase == Phase::Live).await;
    assert!(!let_go.load(Ordering::SeqCst));
    drop(running.stop);
    running.task.await.unwrap().unwrap();
    assert!(let_go.load(Ordering::SeqCst));
}
