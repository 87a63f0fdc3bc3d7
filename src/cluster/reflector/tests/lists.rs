//! Lists: streaming, paged, unfinished, expired.

use super::*;
use crate::cluster::source::{
    Frame,
    script::{End, Many, bookmark, initial_events_end, page},
};

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_at_its_mark_and_goes_on_as_a_watch() {
    let (script, feed) = (Script::new(), feed());
    let frames = vec![
        Frame::Added(pod("a", 1)),
        Frame::Added(pod("b", 2)),
        initial_events_end("10"),
        Frame::Modified(pod("a", 11)),
    ];
    script.watches(&feed, frames, End::Hang);
    let map = Map::default();
    let running = run(script.clone(), feed, &map);
    until("the change after the list", || map.log().len() == 4).await;
    assert_eq!(map.log(), ["list", "listed a@1 b@2", "ended 10", "applied a@11"]);
    assert_eq!(asked(&script), ["stream"]);
    let status = running.now();
    assert_eq!((status.phase, status.synced, status.objects, status.events), (Phase::Live, true, 2, 1));
    assert_eq!(status.lists, Lists { ok: 1, failed: 0 });
    assert_eq!(status.relists, [(Relist::First, 1)].into());
}

#[tokio::test(start_paused = true)]
async fn an_object_deleted_before_the_streaming_list_ends_is_not_in_it() {
    let (script, feed) = (Script::new(), feed());
    let frames = vec![
        Frame::Added(pod("a", 1)),
        Frame::Added(pod("b", 2)),
        Frame::Deleted(pod("a", 3)),
        Frame::Modified(pod("b", 4)),
        bookmark("5"),
        initial_events_end("6"),
    ];
    script.watches(&feed, frames, End::Hang);
    let map = Map::default();
    let _running = run(script, feed, &map);
    until("the list", || map.lock().cursor.is_some()).await;
    assert_eq!(map.log(), ["list", "listed a@1 b@2", "deleted a@3", "listed b@4", "ended 6"]);
    assert_eq!(map.lock().objects, [("b".into(), "4".into())].into());
}

#[tokio::test(start_paused = true)]
async fn a_refused_streaming_list_is_paged_and_never_asked_for_again() {
    let (script, feed) = paged();
    script.lists(&feed, Ok(page("10", None, [pod("a", 1)])));
    script.refuses_watch(&feed, Error::Expired("compacted".into()));
    script.lists(&feed, Ok(page("20", None, [pod("b", 12)])));
    let map = Map::default();
    let _running = run(script.clone(), feed, &map);
    until("the second list", || map.lock().cursor == Some("20".into())).await;
    assert_eq!(map.log(), ["list", "listed a@1", "ended 10", "list", "listed b@12", "ended 20"]);
    assert_eq!(map.lock().objects, [("b".into(), "12".into())].into(), "a list without a means that a is gone");
    until("the watch", || asked(&script).len() == 5).await;
    assert_eq!(asked(&script), ["stream", "list", "watch 10", "list", "watch 20"]);
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_the_server_refuses_says_nothing_about_streaming_lists() {
    let shared = Shared::new(4, None);
    let (script, bad) = (Script::new(), Feed { fields: "spec.nonsense=1".into(), ..feed() });
    let invalid = || Error::Invalid("field label not supported: spec.nonsense".into());
    script.refuses_watch(&bad, invalid()).refuses_watch(&bad, invalid());
    script.lists(&bad, Err(invalid())).lists(&bad, Err(invalid()));
    let _bad = run_with(script.clone(), bad, &Map::default(), Settings::default(), Arc::clone(&shared));
    until("it was refused both ways", || asked(&script).contains(&"list".to_owned())).await;
    let good = Script::new();
    good.watches(&feed(), vec![Frame::Added(pod("a", 1)), initial_events_end("10")], End::Hang);
    let map = Map::default();
    let _good = run_with(good.clone(), feed(), &map, Settings::default(), shared);
    until("the list", || map.lock().cursor.is_some()).await;
    assert_eq!(asked(&good), ["stream"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_streaming_lists_is_paged_after_a_while() {
    let (script, feed) = (Script::new(), feed());
    script.watches(&feed, vec![Frame::Added(pod("a", 1))], End::Hang);
    script.lists(&feed, Ok(page("10", None, [pod("a", 1), pod("b", 2)])));
    let map = Map::default();
    let _running = run(script.clone(), feed, &map);
    until("the paged list", || map.lock().cursor == Some("10".into())).await;
    assert_eq!(map.log(), ["list", "listed a@1", "list", "listed a@1 b@2", "ended 10"]);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_that_is_cut_twice_is_paged() {
    let (script, feed) = (Script::new(), feed());
    for _ in 0..2 {
        script.watches(&feed, vec![Frame::Added(pod("a", 1))], End::Fail(Error::Connection("cut".into())));
    }
    script.lists(&feed, Ok(page("10", None, [pod("b", 2)])));
    let map = Map::default();
    let running = run(script.clone(), feed, &map);
    until("the paged list", || map.lock().cursor == Some("10".into())).await;
    assert_eq!(asked(&script)[..3], ["stream", "stream", "list"]);
    assert_eq!(map.lock().objects, [("b".into(), "2".into())].into());
    assert_eq!(running.now().lists, Lists { ok: 1, failed: 2 });
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_with_an_object_too_large_is_paged_since_it_names_not_all() {
    let (script, feed) = (Script::new(), feed());
    let map = Map::default();
    map.lock().objects.insert("large".into(), "1".into());
    let frames = vec![Frame::Added(pod("a", 2)), Frame::TooLarge { bytes: 70 << 20 }, initial_events_end("10")];
    script.watches(&feed, frames, End::Hang);
    script.lists(&feed, Ok(page("10", None, [pod("a", 2), pod("large", 3)])));
    let running = run(script.clone(), feed, &map);
    until("the paged list", || map.lock().cursor.is_some()).await;
    assert_eq!(map.log(), ["list", "listed a@2", "list", "listed a@2 large@3", "ended 10"]);
    assert_eq!(running.now().lists, Lists { ok: 1, failed: 1 });
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_too_large_is_asked_for_in_halves() {
    let (script, feed) = paged();
    let too_large = || Err(Error::Malformed("an answer of more than 268435456 bytes".into()));
    script.lists(&feed, too_large()).lists(&feed, too_large());
    script.lists(&feed, Ok(page("10", None, [pod("a", 2)])));
    let map = Map::default();
    let _running = run(script.clone(), feed, &map);
    until("the list", || map.lock().cursor.is_some()).await;
    let limits = script.requests().into_iter().filter_map(|request| match request {
        Request::List { list, .. } => Some(list.limit),
        _ => None,
    });
    assert_eq!(limits.collect::<Vec<_>>(), [100, 50, 25]);
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_list_implies_no_deletion() {
    let (script, feed) = (Script::new(), feed());
    let map = Map::default();
    map.lock().objects.insert("kept".into(), "1".into());
    for end in [End::Close, End::Fail(Error::Server { code: 500, message: "etcd is away".into() })] {
        script.watches(&feed, vec![Frame::Added(pod("a", 2))], end);
    }
    script.lists(&feed, Ok(page("10", Some("next"), [pod("a", 2)])));
    for _ in 0..4 {
        script.lists(&feed, Err(Error::Server { code: 503, message: "away".into() }));
    }
    let running = run(script.clone(), feed.clone(), &map);
    until("all of them failed", || running.now().lists.failed == 6).await;
    assert!(map.lock().objects.contains_key("kept"));
    assert!(!map.log().iter().any(|words| words.starts_with("ended")));
    assert_eq!(running.now().phase, Phase::Waiting);
    script.lists(&feed, Ok(page("10", None, [pod("b", 3)])));
    until("the list", || map.lock().cursor.is_some()).await;
    assert_eq!(map.lock().objects.keys().collect::<Vec<_>>(), ["a", "b"], "the page before it counts");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_on_page_seven_goes_on_at_page_seven() {
    let (script, feed) = paged();
    for number in 1..=6 {
        script.lists(&feed, Ok(page("10", Some(&format!("p{}", number + 1)), [pod(&format!("a{number}"), number)])));
    }
    script.lists(&feed, Err(Error::Busy { after: Some(Duration::from_secs(7)) }));
    script.lists(&feed, Err(Error::Connection("cut".into())));
    script.lists(&feed, Ok(page("10", None, [pod("a7", 7)])));
    let map = Map::default();
    let _running = run(script.clone(), feed, &map);
    let began = Instant::now();
    until("the list", || map.lock().cursor.is_some()).await;
    assert!(began.elapsed() >= Duration::from_secs(7), "Retry-After is kept to");
    assert_eq!(map.lock().objects.len(), 7);
    assert_eq!(
        asked(&script)[1..10],
        ["list", "page p2", "page p3", "page p4", "page p5", "page p6", "page p7", "page p7", "page p7"]
    );
    assert_eq!(map.log().iter().filter(|words| *words == "list").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_leads_to_one_full_list() {
    let (script, feed) = paged();
    script.lists(&feed, Ok(page("10", Some("old"), [pod("a", 1), pod("gone", 2)])));
    script.lists(&feed, Err(Error::Expired("the continue parameter is too old".into())));
    script.lists(&feed, Ok(page("20", None, [pod("a", 11), pod("b", 12)])));
    let map = Map::default();
    let _running = run(script.clone(), feed, &map);
    until("the list", || map.lock().cursor.is_some()).await;
    until("the watch", || asked(&script).len() == 5).await;
    assert_eq!(asked(&script), ["stream", "list", "page old", "list whole", "watch 20"]);
    assert_eq!(map.log(), ["list", "listed a@1 gone@2", "list", "listed a@11 b@12", "ended 20"]);
    assert_eq!(map.lock().objects.keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn pages_grow_and_shrink_with_the_objects() {
    let settings = Settings { page_bytes: 100_000, ..Settings::default() };
    let many = Many::new(pods(), 2_000, |number| {
        let padding = "x".repeat(if number < 1_000 { 100 } else { 10_000 });
        Bytes::from(format!(
            r#"{{"metadata":{{"name":"p{number:05}","resourceVersion":"{number}","labels":{{"x":"{padding}"}}}}}}"#
        ))
    });
    let reader = reader(many, feed(), settings, Shared::new(1, None));
    let mut walk = reader.walk();
    let (mut sizes, mut total) = (Vec::new(), 0);
    loop {
        let mut page = reader.next_page(&mut walk).await.unwrap();
        let mut size = 0;
        while let Some(chunk) = reader.next_chunk(&mut page) {
            size += chunk.documents.len();
        }
        sizes.push(size);
        total += size;
        if page.end.is_some() {
            break;
        }
    }
    assert_eq!(total, 2_000);
    assert_eq!(sizes[..2], [100, 500], "the first page is small, the others as large as is set");
    assert!(sizes.iter().rev().skip(1).take(20).all(|size| *size <= 10), "large objects come few at once: {sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn only_a_few_lists_run_at_once() {
    let shared = Shared::new(2, None);
    shared.refuse_streams("", None);
    let gates: Vec<_> = (0..5).map(|_| Arc::new(tokio::sync::Notify::new())).collect();
    let (mut runs, mut scripts) = (Vec::new(), Vec::new());
    for gate in &gates {
        let (script, feed) = (Script::new(), feed());
        let gate = Arc::clone(gate);
        script.lists_with(&feed, move |_| {
            Box::pin(async move {
                gate.notified().await;
                Ok(page("10", None, []))
            })
        });
        runs.push(run_with(script.clone(), feed, &Map::default(), Settings::default(), Arc::clone(&shared)));
        scripts.push(script);
    }
    let listing = || scripts.iter().filter(|script| asked(script).contains(&"list".to_owned())).count();
    until("two lists run", || listing() == 2).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(listing(), 2);
    for gate in &gates {
        gate.notify_one();
    }
    until("all are live", || runs.iter().all(|run| run.now().phase == Phase::Live)).await;
}

#[tokio::test(start_paused = true)]
async fn an_audit_reads_one_consistent_list_and_starts_over_when_its_token_expires() {
    let (script, feed) = (Script::new(), feed());
    script.lists(&feed, Ok(page("10", Some("t"), [pod("a", 1)])));
    script.lists(&feed, Err(Error::Expired("too old".into())));
    script.lists(&feed, Err(Error::Server { code: 503, message: "away".into() }));
    script.lists(&feed, Ok(page("20", None, [pod("a", 11), pod("b", 12)])));
    let reader = reader(script, feed, Settings::default(), Shared::new(4, None));
    let mut seen = Vec::new();
    let version = reader
        .list(|chunk| match chunk {
            None => seen.clear(),
            Some(chunk) => {
                seen.extend(chunk.documents.iter().map(|d| (d.meta().name.clone(), d.meta().version.clone())));
            }
        })
        .await
        .unwrap();
    assert_eq!(version, "20".into());
    assert_eq!(seen, [("a".into(), "11".into()), ("b".into(), "12".into())]);
}
