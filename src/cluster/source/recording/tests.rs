//! Written, read back, played.

use futures::StreamExt;
use tokio::time::Instant;

use super::*;
use crate::cluster::{
    Feed, Scope,
    source::{Error, List, Source, Watch},
};

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
    let of = writer.resource(&pods(), None).unwrap();
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

#[tokio::test(start_paused = true)]
async fn what_comes_later_is_served_later_and_nothing_of_it_is_skipped() {
    let mut writer = Writer::new(Vec::new(), "").unwrap();
    let of = writer.resource(&pods(), None).unwrap();
    writer.listed(of, &"10".into()).unwrap();
    let gadgets = Resource { plural: "gadgets".into(), group: "example.com".into(), ..pods() };
    let of = writer.resource(&gadgets, Some(Duration::from_secs(5))).unwrap();
    writer.listed(of, &"1".into()).unwrap();
    for (at, version) in [(5, 11), (6, 12), (7, 13)] {
        writer.frame(of, Duration::from_secs(at), &Frame::Modified(pod("a", "one", version))).unwrap();
    }
    writer.gone(of, Duration::from_secs(20)).unwrap();
    writer.mark(Duration::from_secs(5), "gadgets").unwrap();
    let recording = Recording::read(writer.into_inner()).unwrap();
    assert_eq!(recording.marks, [(Duration::from_secs(5), "gadgets".to_owned())]);

    let player = Player::new(recording, 1.0);
    let (pods, gadgets) = (Feed::new(pods(), Scope::All), Feed::new(gadgets, Scope::All));
    let _began = player.watch(&pods, &watch("10")).await.unwrap();
    assert_eq!(player.discover().await.unwrap().resources.len(), 1);
    assert!(matches!(player.list(&gadgets, &List::default()).await, Err(Error::NotFound(_))));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(player.discover().await.unwrap().resources.len(), 2);
    assert_eq!(names(&player, &gadgets).await, (0, "1".into()), "as it was at its beginning");
    let frames = player.watch(&gadgets, &watch("1")).await.unwrap();
    assert_eq!(frames.take(3).collect::<Vec<_>>().await.len(), 3, "what is overdue comes at once");
    assert_eq!(names(&player, &gadgets).await, (1, "13".into()));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(player.discover().await.unwrap().resources.len(), 1);
    let unknown = Feed::new(Resource::core("v1", "nodes", "Node"), Scope::All);
    assert!(matches!(player.list(&unknown, &List::default()).await, Err(Error::Forbidden(_))));
}

#[tokio::test]
async fn names_can_be_selected_as_by_a_server() {
    let player = Player::new(Recording::read(written()).unwrap(), 1.0);
    let count = async |fields: &str| {
        let mut feed = Feed::new(pods(), Scope::All);
        feed.fields = fields.into();
        names(&player, &feed).await.0
    };
    assert_eq!(count("metadata.name=one").await, 1);
    assert_eq!(count("metadata.name==three").await, 0);
    assert_eq!(count("metadata.namespace!=a").await, 1);
    assert_eq!(count("metadata.namespace!=a,metadata.name=one").await, 0);
}

#[test]
fn times_move_with_the_beginning_and_the_speed() {
    let mut writer = Writer::new(Vec::new(), "").unwrap();
    let of = writer.resource(&pods(), None).unwrap();
    writer.began("2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
    let pod = |at: &str| {
        format!(r#"{{"metadata":{{"name":"one","resourceVersion":"1"}},"at":"{at}","text":"at {at}"}}"#).into_bytes()
    };
    writer.object(of, &pod("2025-12-31T23:00:00Z")).unwrap();
    let change = Frame::Modified(pod("2026-01-01T00:00:10.250000Z").into());
    writer.frame(of, Duration::from_secs(10), &change).unwrap();
    let text = writer.into_inner();
    let moved = Recording::read(text).unwrap().retimed("2027-07-07T12:00:00Z".parse().unwrap(), 2.0);
    let at = |object: &Bytes| {
        let value: serde_json::Value = serde_json::from_slice(object).unwrap();
        (value["at"].as_str().unwrap().to_owned(), value["text"].as_str().unwrap().to_owned())
    };
    let before = at(moved.served[0].objects.values().next().unwrap());
    assert_eq!(before, ("2027-07-07T11:00:00Z".into(), "at 2025-12-31T23:00:00Z".into()), "an hour before");
    let Frame::Modified(object) = &moved.changes[0].frame else { panic!("not modified") };
    assert_eq!(at(object).0, "2027-07-07T12:00:05.125000Z", "in half the time");
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
    for bad in ["x", "{\"mark\":\"no time\"}", "{\"of\":0,\"object\":{}}", "{\"of\":9,\"listed\":\"1\"}"] {
        let text = format!("{{\"recording\":1}}\n{bad}\n");
        assert!(matches!(Recording::read(text), Err(ReadError::Line { line: 2 })), "{bad}");
    }
}
