//! Names, and that they are what the documentation says.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::cluster::store::Place;

const DOCUMENTED: &str = include_str!("../../docs/metrics.md");

#[test]
fn the_documentation_names_every_metric_and_no_other() {
    let mut missing = Vec::new();
    for definition in ALL {
        let labels: Vec<String> = definition.labels.iter().map(|label| format!("`{label}`")).collect();
        let row = format!("| `{}` | {} | {} |", definition.name, labels.join(", "), definition.help);
        if !DOCUMENTED.contains(&row) {
            missing.push(row);
        }
    }
    assert!(missing.is_empty(), "docs/metrics.md lacks these lines:\n{}", missing.join("\n"));
    let rows = DOCUMENTED.lines().filter(|line| line.starts_with("| `kubediff_")).count();
    assert_eq!(rows, ALL.len(), "docs/metrics.md names a metric that does not exist");
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    for definition in ALL {
        assert!(definition.name.starts_with("kubediff_"), "{}", definition.name);
        assert!(definition.help.ends_with('.'), "{}", definition.name);
        assert!(!definition.labels.iter().any(|label| ["name", "object", "namespace", "uid"].contains(label)));
        let unit = ["_total", "_seconds", "_bytes", "_info"].iter().any(|unit| definition.name.ends_with(unit));
        let plain =
            ["_state", "_synced", "_objects", "_depth", "_failing", "_successful", "_resources", "_groups", "_leader"];
        assert!(unit || plain.iter().any(|end| definition.name.ends_with(end)), "{}", definition.name);
    }
}

#[tokio::test]
async fn a_scrape_reads_no_object_and_no_delivery_of_another_sink_and_counts_not_all_the_time() {
    let (store, writing) = Store::open(&Place::Temporary, None).unwrap();
    let reader = store.reader().unwrap();
    for (query, steps) in [
        (counted::OBJECTS, &["SCAN objects USING COVERING INDEX objects_by_key"][..]),
        (counted::WAITING, &["SEARCH deliveries USING PRIMARY KEY (sink=?)"]),
        (
            counted::OLDEST,
            &["SEARCH deliveries USING PRIMARY KEY (sink=?)", "SEARCH events USING INTEGER PRIMARY KEY (rowid=?)"],
        ),
    ] {
        let mut statement = reader.connection().prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let plan = statement.raw_query().mapped(|row| row.get::<_, String>(3)).collect::<Result<Vec<_>, _>>().unwrap();
        let reads: Vec<_> = plan.iter().filter(|step| step.starts_with("SCAN") || step.starts_with("SEARCH")).collect();
        assert_eq!(reads, steps, "{query}");
    }

    let add = |rows: std::ops::Range<i64>| {
        let sql = "INSERT INTO deliveries (sink, seq, object) VALUES (7, ?1, 0)";
        store.write(Box::new(move |tx| rows.clone().try_for_each(|seq| tx.execute(sql, [seq]).map(drop))))
    };
    let (counted, now) = (Counted::default(), Instant::now());
    let waiting = |sinks: &[(&str, i64)], at: Instant| {
        let sinks = sinks.iter().map(|(name, id)| (Arc::from(*name), *id)).collect();
        let counted = counted.count(&reader, &sinks, at).unwrap();
        counted.sinks.values().map(|(waiting, _)| *waiting).collect::<Vec<_>>()
    };
    add(0..3).await.unwrap();
    assert_eq!(waiting(&[("hook", 7)], now), [3]);
    add(3..5).await.unwrap();
    assert_eq!(waiting(&[("hook", 7)], now), [3], "just now it was counted");
    assert_eq!(waiting(&[("hook", 7), ("new", 8)], now), [5, 0], "a sink that is new is not left out");
    add(5..6).await.unwrap();
    let later = now + Duration::from_secs(600);
    assert_eq!(waiting(&[("hook", 7)], later), [6]);
    store.write(Box::new(|tx| tx.execute("DELETE FROM deliveries", []).map(drop))).await.unwrap();
    assert_eq!(waiting(&[("hook", 7)], later), [0], "that nothing waits is always of now");
    drop((reader, store));
    tokio::task::spawn_blocking(|| writing.join()).await.unwrap();
}

#[test]
fn a_reload_counts_and_only_a_right_one_is_the_one_that_runs() {
    let mut reloads = Reloads { since: jiff::Timestamp::UNIX_EPOCH, ..Reloads::default() };
    reloads.add(false);
    assert_eq!((reloads.ok, reloads.right, reloads.wrong, reloads.since), (false, 0, 1, jiff::Timestamp::UNIX_EPOCH));
    reloads.add(true);
    assert_eq!((reloads.ok, reloads.right, reloads.wrong), (true, 1, 1));
    assert!(reloads.since > jiff::Timestamp::UNIX_EPOCH);
}
