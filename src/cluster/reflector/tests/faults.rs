//! Watches: resuming, ending, failing, lying.

use super::*;
use crate::cluster::{
    discovery::Trigger,
    source::{
        Frame,
        script::{End, bookmark, initial_events_end, page},
    },
};

fn expired() -> Error {
    Error::Expired("too old resource version".into())
}

#[tokio::test(start_paused = true)]
async fn a_stored_cursor_is_resumed_from_without_a_list() {
    let (script, feed) = (Script::new(), feed());
    script.watches(&feed, vec![Frame::Modified(pod("a", 43)), Frame::Deleted(pod("b", 44))], End::Hang);
    let map = Map::at("42");
    let running = run(script.clone(), feed, &map);
    until("both changes", || map.log().len() == 2).await;
    assert_eq!(map.log(), ["applied a@43", "deleted b@44"]);
    assert_eq!(asked(&script), ["watch 42"]);
    assert!(running.now().synced);
    assert_eq!(map.lock().cursor, Some("44".into()));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_move_the_cursor_and_the_next_watch_begins_there() {
    let (script, feed) = (Script::new(), feed());
    script.watches(&feed, vec![Frame::Added(pod("a", 43)), bookmark("50"), bookmark("60")], End::Close);
    let map = Map::at("42");
    let running = run(script.clone(), feed, &map);
    until("the second watch", || asked(&script).len() == 2).await;
    assert_eq!(asked(&script), ["watch 42", "watch 60"]);
    assert_eq!(map.log(), ["applied a@43", "at 60"]);
    assert!(running.now().last_bookmark.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_leads_to_a_list_of_the_newest_state() {
    for in_stream in [true, false] {
        let (script, feed, map, shared) = (Script::new(), feed(), Map::at("42"), Shared::new(4, None));
        shared.refuse_streams("", None);
        if in_stream {
            script.watches(&feed, vec![Frame::Added(pod("a", 43)), Frame::Error(expired())], End::Hang);
        } else {
            script.refuses_watch(&feed, expired());
        }
        script.lists(&feed, Ok(page("90", None, [pod("b", 80)])));
        let running = run_with(script.clone(), feed, &map, Settings::default(), shared);
        until("the list", || map.lock().cursor == Some("90".into())).await;
        let log = map.log();
        assert_eq!(log[log.len() - 3..], ["list", "listed b@80", "ended 90"]);
        assert_eq!(log.len(), if in_stream { 4 } else { 3 });
        assert_eq!(running.now().relists, [(Relist::Expired, 1)].into());
        assert!(
            script
                .requests()
                .iter()
                .all(|asked| !matches!(asked, Request::List { list, .. } if list.version != Version::default())),
            "a list asks for the newest state"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_waited_for_and_not_listed() {
    let (script, feed) = (Script::new(), feed());
    script.refuses_watch(&feed, Error::Busy { after: Some(Duration::from_secs(20)) });
    script.refuses_watch(&feed, Error::Busy { after: None });
    script.watches(&feed, vec![Frame::Error(Error::Busy { after: None })], End::Hang);
    script.watches(&feed, vec![Frame::Added(pod("a", 43))], End::Hang);
    let map = Map::at("42");
    let began = Instant::now();
    let running = run(script.clone(), feed, &map);
    until("the change", || map.log().len() == 1).await;
    assert!(began.elapsed() >= Duration::from_secs(20), "Retry-After is kept to");
    assert_eq!(asked(&script), ["watch 42", "watch 42", "watch 42", "watch 42"]);
    assert_eq!(running.now().watches.0, [(Ended::Busy, 3)].into());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_went_back_in_time_is_listed() {
    let (script, feed) = (Script::new(), feed());
    script.refuses_watch(&feed, Error::TooNew("Too large resource version: 42, current: 7".into()));
    script.watches(&feed, vec![Frame::Added(pod("a", 3)), initial_events_end("7")], End::Hang);
    let map = Map::at("42");
    let running = run(script.clone(), feed, &map);
    until("the list", || map.lock().cursor == Some("7".into())).await;
    assert_eq!(running.now().relists, [(Relist::WentBack, 1)].into());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_was_mute_all_its_life_is_checked_against_the_newest_version() {
    let (script, feed) = (Script::new(), feed());
    // Ended by the server in its time, without one word; then one that nobody ends.
    script.watches_with(&feed, |watch| {
        let timeout = watch.timeout;
        Box::pin(async move {
            let end = futures::stream::once(tokio::time::sleep(timeout));
            Ok(futures::StreamExt::boxed(futures::StreamExt::filter_map(end, |()| async { None })))
        })
    });
    script.lists(&feed, Ok(page("42", Some("more"), [pod("a", 3)])));
    script.watches(&feed, vec![], End::Hang);
    script.lists(&feed, Ok(page("7", Some("more"), [pod("a", 3)])));
    script.watches(&feed, vec![Frame::Added(pod("a", 3)), initial_events_end("7")], End::Hang);
    let map = Map::at("42");
    let running = run(script.clone(), feed, &map);
    until("the list", || map.lock().cursor == Some("7".into())).await;
    assert_eq!(asked(&script), ["watch 42", "list", "watch 42", "list", "stream"]);
    assert_eq!(running.now().watches.0, [(Ended::Timeout, 1), (Ended::TooNew, 1), (Ended::Silent, 1)].into());
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_from_before_the_cursor_means_that_the_server_went_back() {
    let (script, feed) = (Script::new(), feed());
    script.watches(&feed, vec![bookmark("7")], End::Hang);
    script.watches(&feed, vec![initial_events_end("8")], End::Hang);
    let map = Map::at("42");
    let _running = run(script.clone(), feed, &map);
    until("the list", || map.lock().cursor == Some("8".into())).await;
    assert_eq!(map.log(), ["list", "ended 8"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_dropped_and_resumed() {
    let (script, feed) = (Script::new(), feed());
    script.watches(&feed, vec![Frame::Added(pod("a", 43))], End::Hang);
    script.watches(&feed, vec![Frame::Added(pod("b", 44))], End::Hang);
    let map = Map::at("42");
    let began = Instant::now();
    let running = run(script.clone(), feed, &map);
    until("the change of the second watch", || map.log().len() == 2).await;
    let waited = began.elapsed();
    assert!(waited > Duration::from_secs(300) && waited < Duration::from_secs(640), "{waited:?}");
    assert_eq!(asked(&script), ["watch 42", "watch 43"]);
    assert_eq!(running.now().watches.0, [(Ended::Silent, 1)].into());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_had_bookmarks_is_dropped_soon_after_they_stop() {
    let (script, feed) = (Script::new(), feed());
    script.watches(&feed, vec![bookmark("43")], End::Hang);
    script.watches(&feed, vec![Frame::Added(pod("b", 44))], End::Hang);
    let map = Map::at("42");
    let began = Instant::now();
    let _running = run(script.clone(), feed, &map);
    until("the change of the second watch", || map.log().len() == 2).await;
    assert!(began.elapsed() < Duration::from_secs(190), "{:?}", began.elapsed());
    assert_eq!(asked(&script), ["watch 42", "watch 43"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_an_error_with_growing_pauses() {
    let (script, feed) = (Script::new(), feed());
    for _ in 0..6 {
        script.watches(&feed, vec![], End::Close);
    }
    let map = Map::at("42");
    let began = Instant::now();
    let running = run(script.clone(), feed, &map);
    until("the seventh watch", || asked(&script).len() == 7).await;
    assert!(began.elapsed() > Duration::from_secs(25), "{:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(180), "{:?}", began.elapsed());
    assert_eq!(running.now().watches.0, [(Ended::Failed, 6)].into());
    assert!(asked(&script).iter().all(|request| request == "watch 42"), "no list");
}

#[tokio::test(start_paused = true)]
async fn a_torn_frame_loses_nothing_and_doubles_nothing() {
    let (script, feed) = (Script::new(), feed());
    let torn = Error::Malformed("the stream ended inside an event".into());
    script.watches(&feed, vec![Frame::Added(pod("a", 43)), Frame::Added(pod("b", 44))], End::Fail(torn));
    script.watches(&feed, vec![Frame::Modified(pod("a", 45))], End::Fail(Error::Connection("reset".into())));
    script.watches(&feed, vec![Frame::Deleted(pod("b", 46))], End::Hang);
    let map = Map::at("42");
    let _running = run(script.clone(), feed, &map);
    until("all changes", || map.log().len() == 4).await;
    assert_eq!(map.log(), ["applied a@43", "applied b@44", "applied a@45", "deleted b@46"]);
    assert_eq!(asked(&script), ["watch 42", "watch 44", "watch 45"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_no_json_ends_the_watch_and_is_read_again() {
    let (script, feed) = (Script::new(), feed());
    let torn = bytes::Bytes::from_static(b"{\"metadata\":{\"name\":\"b\",\"resour}");
    script.watches(&feed, vec![Frame::Added(pod("a", 43)), Frame::Added(torn), Frame::Added(pod("c", 45))], End::Hang);
    script.watches(&feed, vec![Frame::Added(pod("b", 44)), Frame::Added(pod("c", 45))], End::Hang);
    let map = Map::at("42");
    let _running = run(script.clone(), feed, &map);
    until("all changes", || map.log().len() == 3).await;
    assert_eq!(map.log(), ["applied a@43", "applied b@44", "applied c@45"]);
    assert_eq!(asked(&script), ["watch 42", "watch 43"]);
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_comes_back_heals_the_feed() {
    let (script, feed) = (Script::new(), feed());
    for _ in 0..3 {
        script.refuses_watch(&feed, Error::Forbidden("pods is forbidden".into()));
    }
    let map = Map::at("42");
    let mut running = run(script.clone(), feed.clone(), &map);
    running.status.wait_for(|status| status.phase == Phase::Waiting).await.unwrap();
    let problem = running.now().problem.unwrap();
    assert_eq!(problem.error.to_string(), "not permitted: pods is forbidden");
    script.watches(&feed, vec![Frame::Added(pod("a", 43))], End::Hang);
    until("the change", || map.log().len() == 1).await;
    assert_eq!(running.now().phase, Phase::Live);
    assert_eq!(running.now().problem, Some(running.now().problem.unwrap()), "what was wrong can still be read");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_served_no_more_tells_discovery() {
    let (script, feed) = (Script::new(), feed());
    let trigger = Trigger::new();
    script.refuses_watch(&feed, Error::NotFound("the server could not find the requested resource".into()));
    let shared = Shared::new(4, Some(trigger.clone()));
    let _running = run_with(script, feed, &Map::at("42"), Settings::default(), shared);
    tokio::time::timeout(Duration::from_secs(5), trigger.fired()).await.expect("the trigger fires");
}

#[tokio::test(start_paused = true)]
async fn what_the_door_refuses_is_counted_and_the_rest_goes_on() {
    let (script, feed) = (Script::new(), feed());
    let nameless = Bytes::from_static(br#"{"metadata":{"resourceVersion":"44"}}"#);
    let frames = vec![
        Frame::Added(nameless),
        Frame::TooLarge { bytes: 50 << 20 },
        Frame::Added(deep("deep", 45)),
        Frame::Deleted(deep("deep", 46)),
        Frame::Added(pod("a", 47)),
    ];
    script.watches(&feed, frames, End::Hang);
    let map = Map::at("42");
    let running = run(script, feed, &map);
    until("the last change", || map.lock().objects.contains_key("a")).await;
    assert_eq!(running.now().refused, 4);
    assert_eq!(map.log(), ["unreadable deep@45", "unreadable deep@46 deleted", "applied a@47"]);
}

/// A pod whose metadata no reader of JSON takes.
fn deep(name: &str, version: u32) -> Bytes {
    let nest = format!("{}{}", "[".repeat(500), "]".repeat(500));
    Bytes::from(format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}","x":{nest}}}}}"#))
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_does_not_pass_for_deleted() {
    let (script, feed) = (Script::new(), feed());
    let map = Map::default();
    map.lock().objects.extend([("deep".into(), "1".into()), ("gone".into(), "2".into())]);
    script.watches(
        &feed,
        vec![Frame::Added(deep("deep", 3)), Frame::Added(pod("a", 4)), initial_events_end("5")],
        End::Hang,
    );
    let _running = run(script, feed, &map);
    until("the list", || map.lock().cursor.is_some()).await;
    assert_eq!(map.lock().objects.keys().collect::<Vec<_>>(), ["a", "deep"]);
}

#[tokio::test(start_paused = true)]
async fn namespaces_that_are_left_out_move_the_cursor_and_nothing_else() {
    let (script, mut feed) = (Script::new(), feed());
    feed.not_namespaces = vec!["n*".into()];
    script.watches(&feed, vec![Frame::Added(pod("a", 43)), Frame::Added(pod("b", 44))], End::Hang);
    let map = Map::at("42");
    let _running = run(script, feed, &map);
    until("the cursor moved", || map.lock().cursor == Some("44".into())).await;
    assert_eq!(map.log(), ["at 44"]);
}

#[tokio::test(start_paused = true)]
async fn stopping_gives_the_target_back_and_a_closed_target_ends_the_reflector() {
    struct Gone;
    impl Target for Gone {
        fn cursor(&self) -> Option<Version> {
            Some("42".into())
        }
        async fn put(&mut self, _: Update) -> Result<(), Closed> {
            Err(Closed)
        }
    }
    let (script, feed) = (Script::new(), feed());
    let map = Map::at("42");
    let running = run(script.clone(), feed.clone(), &map);
    until("it watches", || asked(&script).len() == 1).await;
    drop(running.stop);
    assert_eq!(running.task.await.unwrap().unwrap().lock().cursor, Some("42".into()));

    let script = Script::new();
    script.watches(&feed, vec![Frame::Added(pod("a", 43))], End::Hang);
    let reflector = Reflector::new(reader(script, feed, Settings::default(), Shared::new(4, None)), Gone);
    assert_eq!(reflector.run(CancellationToken::new()).await.err(), Some(Closed));
}
