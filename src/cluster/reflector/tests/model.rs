//! Random changes and faults against a small server with real semantics. The oracle: the target's map equals the
//! server's at the end; every change was reported once and in order, or lies in a time that a list jumped over.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::cluster::source::script::world::{Fault, World};

#[derive(Clone, Debug)]
enum Act {
    Apply(u8),
    Delete(u8),
    Compact,
    Advance(u8),
    Fault(Fault),
    /// Let some time pass.
    Rest(u16),
    /// The reader is stopped, and started again from its cursor.
    Restart,
}

fn error() -> impl Strategy<Value = Error> {
    prop_oneof![
        Just(Error::Connection("reset".into())),
        Just(Error::Malformed("torn".into())),
        Just(Error::Expired("too old".into())),
        Just(Error::Busy { after: Some(Duration::from_secs(2)) }),
        Just(Error::Forbidden("no".into())),
        Just(Error::Server { code: 503, message: "away".into() }),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => (0..12u8).prop_map(Act::Apply),
        4 => (0..12u8).prop_map(Act::Delete),
        1 => Just(Act::Compact),
        2 => (1..9u8).prop_map(Act::Advance),
        5 => (0..30_000u16).prop_map(Act::Rest),
        1 => Just(Act::Restart),
        1 => error().prop_map(|error| Act::Fault(Fault::List(error))),
        1 => error().prop_map(|error| Act::Fault(Fault::LaterPage(error))),
        2 => error().prop_map(|error| Act::Fault(Fault::Open(error))),
        3 => (0..6usize, proptest::option::of(error())).prop_map(|(after, error)| Act::Fault(Fault::Cut { after, error })),
        1 => Just(Act::Fault(Fault::Mute)),
    ]
}

async fn play(acts: Vec<Act>, streaming: bool) {
    let world = World::new(pods(), streaming);
    for number in 0..5 {
        world.apply("ns", &format!("o{number}"), &json!({"at": "first"}));
    }
    let map = Map::default();
    let settings = || Settings { page: 3, ..Settings::default() };
    let start = || run_with(world.clone(), feed(), &map, settings(), Shared::new(1, None));
    let mut running = start();
    for act in acts {
        match act {
            Act::Apply(number) => {
                world.apply("ns", &format!("o{number}"), &json!({}));
            }
            Act::Delete(number) => {
                world.delete("ns", &format!("o{number}"));
            }
            Act::Compact => world.compact(),
            Act::Advance(by) => world.advance(by.into()),
            Act::Fault(fault) => world.fault(fault),
            Act::Rest(millis) => tokio::time::sleep(Duration::from_millis(millis.into())).await,
            Act::Restart => {
                drop(running.stop);
                running.task.await.unwrap().unwrap();
                map.lock().restart();
                running = start();
            }
        }
    }
    world.clear_faults();
    let expected = || -> BTreeMap<String, String> {
        let version = |object: &serde_json::Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        world
            .objects()
            .iter()
            .map(|(key, object)| (key.trim_start_matches("ns/").to_owned(), version(object)))
            .collect()
    };
    until("the map equals the world", || map.lock().objects == expected() && running.now().phase == Phase::Live).await;
    check(&map.log(), &world);
}

/// Follows the log with a position in the world's history: watches report every change in turn, lists jump.
fn check(log: &[String], world: &World) {
    let history = world.log();
    let words = |version: u64| {
        let change = history.iter().find(|change| change.version == version).expect("a change of the world");
        let name = change.key.trim_start_matches("ns/");
        if change.object.is_some() { format!("applied {name}@{version}") } else { format!("deleted {name}@{version}") }
    };
    let mut at = 0;
    let mut listing = false;
    for entry in log {
        let last = entry.rsplit(['@', ' ']).next().and_then(|number| number.parse::<u64>().ok());
        match entry.split(' ').next().unwrap() {
            "list" => listing = true,
            "listed" => {}
            "restart" => listing = false,
            "ended" => {
                listing = false;
                at = last.unwrap();
            }
            "at" => {
                let to = last.unwrap();
                let skipped = history.iter().find(|change| change.version > at && change.version <= to);
                assert_eq!(skipped, None, "a bookmark passed over a change");
                at = to;
            }
            "applied" | "deleted" if !listing => {
                let next = history.iter().find(|change| change.version > at).expect("a change to report");
                assert_eq!(*entry, words(next.version), "the next change after {at}");
                at = next.version;
            }
            "deleted" => {}
            other => panic!("{other}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_goes_wrong_every_change_is_reported_once_and_the_end_is_right(
        acts in proptest::collection::vec(act(), 0..60),
        streaming in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(acts, streaming));
    }
}
