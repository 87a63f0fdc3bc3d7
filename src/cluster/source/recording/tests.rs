//! Written, read back, played.

use super::*;

fn pods() -> Resource {
    Resource {
        group: String::new(),
        version: "v1".into(),
        plural: "pods".into(),
        singular: "pod".into(),
        kind: "Pod".into(),
        short_names: vec![],
        namespaced: true,
    }
}

fn pod(namespace: &str, name: &str, version: u32) -> Bytes {
    let text = format!(
        "{{\"metadata\":{{\n\"namespace\":\"{namespace}\",\"name\":\"{name}\",\"resourceVersion\":\"{version}\"}}}}"
    );
    Bytes::from(text)
}

fn written() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "two pods").unwrap();
    let of = writer.resource(&pods()).unwrap();
    writer.object(of, &pod("a", "one", 1)).unwrap();
    writer.object(of, &pod("b", "two", 2)).unwrap();
    writer.listed(of, &"10".into()).unwrap();
    writer.frame(of, Duration::from_secs(10), &Frame::Added(pod("a", "three", 11))).unwrap();
    writer
        .frame(of, Duration::from_secs(15), &Frame::Bookmark { version: "12".into(), initial_events_end: false })
        .unwrap();
    writer.frame(of, Duration::from_secs(20), &Frame::Deleted(pod("a", "one", 13))).unwrap();
    writer.into_inner()
}

fn watch(version: &str) -> Watch {
    Watch { version: version.into(), timeout: Duration::from_secs(300), initial_events: false }
}

async fn names(player: &Player, feed: &Feed) -> (usize, Version) {
    let page = player.list(feed, &List::default()).await.unwrap();
    (page.items.len(), page.version)
}

#[tokio::test(start_paused = true)]
async fn a_recording_plays_as_it_was_written_only_faster() {
    let recording = Recording::read(written()).unwrap();
    assert_eq!(
        (recording.note.as_str(), recording.changes(), recording.length()),
        ("two pods", 2, Duration::from_secs(20))
    );
    let player = Player::new(recording, 10.0);
    assert_eq!(player.discover().await.unwrap().resources, [pods()]);
    let feed = Feed::new(pods(), Scope::All);
    assert_eq!(names(&player, &feed).await, (2, "10".into()));
    let began = Instant::now();
    let mut frames = player.watch(&feed, &watch("10")).await.unwrap();
    assert!(matches!(frames.next().await, Some(Ok(Frame::Added(_)))));
    assert_eq!(began.elapsed().as_secs(), 1);
    assert_eq!(names(&player, &feed).await, (3, "11".into()), "a list shows what was played");
    assert!(matches!(frames.next().await, Some(Ok(Frame::Deleted(_)))));
    assert_eq!(began.elapsed().as_secs(), 2);
    assert_eq!(names(&player, &feed).await, (2, "13".into()));
    assert!(frames.next().await.is_none());
    assert_eq!(began.elapsed().as_secs(), 300, "it ends as a server ends it");
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_from_its_version_and_keeps_to_its_namespace() {
    let player = Player::new(Recording::read(written()).unwrap(), 1000.0);
    let mut frames = player.watch(&Feed::new(pods(), Scope::All), &watch("11")).await.unwrap();
    assert_eq!(
        frames.next().await,
        Some(Ok(Frame::Deleted(Bytes::from(
            String::from_utf8(pod("a", "one", 13).to_vec()).unwrap().replace('\n', " ")
        ))))
    );
    let other = Feed::new(pods(), Scope::Namespace("b".into()));
    assert_eq!(names(&player, &other).await.0, 1);
    assert!(player.watch(&other, &watch("10")).await.unwrap().next().await.is_none());
}

#[test]
fn a_compressed_recording_is_read_the_same() {
    let compressed = zstd::stream::encode_all(written().as_slice(), 3).unwrap();
    assert_eq!(Recording::read(compressed).unwrap().changes(), 2);
}

#[test]
fn what_is_no_recording_says_so() {
    assert!(matches!(Recording::read(Vec::new()), Err(ReadError::NoRecording)));
    assert!(matches!(Recording::read("hello\n"), Err(ReadError::NoRecording)));
    assert!(matches!(Recording::read("{\"of\":1}\n"), Err(ReadError::NoRecording)));
    assert!(matches!(Recording::read("{\"recording\":2}\n"), Err(ReadError::Format { found: 2 })));
    for bad in ["x", "{\"of\":0,\"object\":{}}", "{\"of\":9,\"listed\":\"1\"}"] {
        let text = format!("{{\"recording\":1}}\n{bad}\n");
        assert!(matches!(Recording::read(text), Err(ReadError::Line { line: 2 })), "{bad}");
    }
}
