//! Files of earlier versions, and what retention leaves.

use super::*;
use crate::ledger::retention::{Keep, remove};

/// A file as version 1 of the schema had it, with one event of each sort.
fn version_1(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;").unwrap();
    connection.execute_batch(include_str!("../../cluster/store/schema.sql")).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    for (n, observed) in ["live", "late", "audit"].iter().enumerate() {
        let mut event = sample::event();
        event.id = format!("{n:032x}");
        event.time = Timestamp::from_second(1_800_000_000 + n as i64).unwrap();
        let mut json = serde_json::to_value(&event).unwrap();
        json["observed"] = json!(observed);
        json["resource"]["version"] = json!("v1beta1");
        let frame = zstd::bulk::compress(json.to_string().as_bytes(), 1).unwrap();
        connection
            .execute(
                "INSERT INTO events (id, time, type, api_group, resource, kind, namespace, name, uid, owner_kind,
                 owner_namespace, owner_name, classes, managers, summary, event)
                 VALUES (?1, ?2, 'updated', 'apps', 'deployments', 'Deployment', 'shop', 'web', 'u', 'Deployment',
                 'shop', 'web', ' spec image ', ' kubectl-edit ', 'image of web', ?3)",
                rusqlite::params![event.id, event.time.as_millisecond(), frame],
            )
            .unwrap();
    }
    connection
        .execute(
            "INSERT INTO feeds (key, resource, version) VALUES ('deployments.apps@*?l=&f=', 'deployments.apps', '7')",
            [],
        )
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_version_1_is_brought_up_to_date_with_all_that_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.db");
    version_1(&path);
    assert!(matches!(History::open(&path), Err(Error::Schema { found: 1, .. })), "it says what to do");
    let (store, writing) = Store::open(&Place::File(path.clone()), None).unwrap();
    let history = History::open(&path).unwrap();
    for searched in [false, true] {
        if searched {
            store.write(Box::new(search::fill_all)).await.unwrap();
        }
        let page = history.page(&Filter::default(), &Sight::Everything, Order::Asc, None, 10).unwrap();
        let observed: Vec<&str> = page.rows.iter().map(|row| row.observed.as_str()).collect();
        assert_eq!(observed, ["live", "late", "audit"]);
        assert!(page.rows.iter().all(|row| row.version == "v1beta1" && row.hand), "{page:?}");
        let mut late = Filter::default();
        late.set("observed", "late", Timestamp::now()).unwrap();
        late.set("q", "image", Timestamp::now()).unwrap();
        assert_eq!(history.page(&late, &Sight::Everything, Order::Asc, None, 10).unwrap().rows.len(), 1);
    }
    let since: i64 = history.connection().query_row("SELECT since FROM feeds", [], |row| row.get(0)).unwrap();
    assert_eq!(since, 1_800_000_000_000, "what is known begins with the oldest event");
    drop(store);
    writing.join();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_forgotten_is_gone_from_the_search_too_and_times_before_it_are_not_kept() {
    let rig = Rig::new();
    let mut feed = rig.feed(&config_maps()).await;
    for n in 0..20u64 {
        let object =
            json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "data": {"n": n.to_string()}});
        feed.put(Update::Applied(rig.document(&config_maps(), n + 5, &object))).await.unwrap();
        rig.settle().await;
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    rig.index().await;
    let mut history = rig.history();
    let page = history.page(&Filter::default(), &Sight::Everything, Order::Asc, None, 100).unwrap();
    let cut = page.rows[9].time;
    rig.store
        .write(Box::new(move |transaction| {
            let keep = Keep { age: std::time::Duration::ZERO, max_bytes: u64::MAX };
            assert_eq!(remove(transaction, keep, cut.as_millisecond() + 1, 0)?.events, 10);
            Ok(())
        }))
        .await
        .unwrap();
    let mut q = Filter::default();
    q.set("q", "data", Timestamp::now()).unwrap();
    assert_eq!(history.page(&q, &Sight::Everything, Order::Asc, None, 100).unwrap().rows.len(), 10);
    let entries: i64 =
        history.connection().query_row("SELECT count(*) FROM search('data')", [], |row| row.get(0)).unwrap();
    assert_eq!(entries, 10);
    let web = name("configmaps", "shop", "web");
    let gone = history.at(&web, When::At(page.rows[3].time));
    assert!(matches!(gone, Err(Error::NotKept { since }) if since == cut), "{gone:?}");
    let kept = history.at(&web, When::At(page.rows[9].time)).unwrap();
    assert_eq!(kept.object.unwrap()["data"]["n"], "9", "the state before the oldest change that is kept");
    assert_eq!(history.at(&web, When::At(page.rows[15].time)).unwrap().object.unwrap()["data"]["n"], "15");
    let (lines, _) = history.blame(&web, When::At(page.rows[9].time)).unwrap();
    assert!(lines.iter().all(|line| line.event.is_none()), "older than what is kept");
}
