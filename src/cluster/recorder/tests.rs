//! What is recorded of a small world plays as that world.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::cluster::{
    Feed, Scope,
    source::{
        Error as SourceError, List,
        recording::{Player, Recording},
        script::world::{Fault, World},
    },
};

fn secrets() -> Resource {
    Resource::core("v1", "secrets", "Secret")
}

fn settings(length: u64) -> Settings {
    let length = Some(Duration::from_secs(length));
    Settings { select: select::Settings::default(), patterns: Vec::new(), note: "a test".into(), lists: 2, length }
}

/// The names that a list of the recording shows so long after it began.
async fn names_at(recording: &[u8], secs: u64) -> Vec<String> {
    let player = Player::new(Recording::read(recording.to_vec()).unwrap(), 1.0);
    let feed = Feed::new(secrets(), Scope::All);
    let version = player.list(&feed, &List::default()).await.unwrap().version;
    let watch = crate::cluster::source::Watch { version, timeout: Duration::from_secs(300), initial_events: false };
    let _frames = player.watch(&feed, &watch).await.unwrap();
    tokio::time::advance(Duration::from_secs(secs)).await;
    let page = player.list(&feed, &List::default()).await.unwrap();
    let name = |item: &bytes::Bytes| {
        let value: serde_json::Value = serde_json::from_slice(item).unwrap();
        value["metadata"]["name"].as_str().unwrap().to_owned()
    };
    page.items.iter().map(name).collect()
}

async fn recorded(world: &World, length: u64, meanwhile: impl AsyncFnOnce()) -> (Vec<u8>, Written) {
    let recording = record(Arc::new(world.clone()), settings(length), Vec::new(), CancellationToken::new());
    let (result, ()) = tokio::join!(recording, meanwhile());
    result.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_recording_plays_what_happened_and_holds_no_secret() {
    for streaming in [true, false] {
        let world = World::new(secrets(), streaming);
        world.apply("shop", "one", &json!({"stringData": {"password": "hunter2-planted"}}));
        world.apply("shop", "two", &json!({}));
        let (bytes, written) = recorded(&world, 30, async || {
            tokio::time::sleep(Duration::from_secs(5)).await;
            world.apply("shop", "one", &json!({"stringData": {"password": "hunter3-planted"}}));
            world.apply("shop", "three", &json!({}));
            tokio::time::sleep(Duration::from_secs(5)).await;
            world.delete("shop", "two");
        })
        .await;
        assert_eq!((written.resources, written.objects, written.changes), (1, 2, 3));
        assert_eq!((written.length.as_secs(), written.refused, written.unread), (30, 0, vec![]));
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(!text.contains("planted") && text.contains("password") && text.contains("hmac:"), "{text}");
        assert_eq!(names_at(&bytes, 1).await, ["one", "two"]);
        assert_eq!(names_at(&bytes, 6).await, ["one", "three", "two"]);
        assert_eq!(names_at(&bytes, 20).await, ["one", "three"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_only_a_new_list_shows_is_recorded_as_changes() {
    let world = World::new(secrets(), false);
    world.apply("shop", "one", &json!({}));
    world.apply("shop", "two", &json!({}));
    let cut = Fault::Cut { after: 1, error: Some(SourceError::Connection("cut".into())) };
    world.fault(cut);
    let (bytes, written) = recorded(&world, 120, async || {
        tokio::time::sleep(Duration::from_secs(20)).await;
        world.apply("shop", "one", &json!({"a": 1}));
        world.apply("shop", "one", &json!({"a": 2}));
        world.delete("shop", "two");
        world.apply("shop", "three", &json!({}));
        world.compact();
    })
    .await;
    assert_eq!(written.objects, 2);
    assert_eq!(names_at(&bytes, 10).await, ["one", "two"]);
    assert_eq!(names_at(&bytes, 110).await, ["one", "three"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_said() {
    let world = World::new(secrets(), false);
    for _ in 0..200 {
        world.fault(Fault::List(SourceError::Forbidden("no".into())));
    }
    let (_, written) = recorded(&world, 5, async || {}).await;
    assert_eq!(written.unread, [("secrets".to_owned(), "not permitted: no".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_ends_it() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let world = World::new(secrets(), false);
    world.apply("shop", "one", &json!({}));
    let ended = record(Arc::new(world), settings(600), Full, CancellationToken::new()).await;
    assert!(matches!(ended, Err(Error::Write(error)) if error.kind() == io::ErrorKind::StorageFull));
}
