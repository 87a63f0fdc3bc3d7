//! What a worker does when the file cannot be read: a damaged one is left to the next start, what may heal is waited for.

use std::os::unix::fs::FileExt;

use rusqlite::{Connection, ffi};

use super::{super::seat::Found, *};

/// Overwrites the first leaf of a table, as a write that was torn leaves it.
fn tear(path: &Path, table: &str) {
    let file = Connection::open(path).unwrap();
    file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let leaf = "SELECT pageno FROM dbstat WHERE name = ?1 AND pagetype = 'leaf' ORDER BY path LIMIT 1";
    let page: u32 = file.query_row(leaf, [table], |row| row.get(0)).unwrap();
    let size: u32 = file.pragma_query_value(None, "page_size", |row| row.get(0)).unwrap();
    drop(file);
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&vec![0xa5; size as usize], u64::from(page - 1) * u64::from(size)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_page_ends_it_once_and_the_next_start_begins_anew() {
    for table in ["deliveries", "events"] {
        let folder = folder();
        let path = folder.path().join("k.db");
        let down = Script::new((0..100_000).map(|_| Outcome::retry("down")));
        let rig = Rig::open(&path, vec![("a", quick(), down)]).await;
        rig.append((0..1_000).map(|n| event(&format!("web-{n}"), n))).await;
        rig.close().await;
        tear(&path, table);

        let script = Script::new([]);
        let mut rig = Rig::open(&path, vec![("a", quick(), script.clone())]).await;
        let (_, ended) = rig.delivery.as_mut().unwrap().next_end().await.unwrap();
        assert!(matches!(&ended, Ended::Failed(why) if why.contains("malformed")), "{table}: {ended:?}");
        rig.close().await;

        let rig = Rig::open(&path, vec![("a", quick(), script.clone())]).await;
        assert_eq!(rig.count("SELECT count(*) FROM events"), 0, "{table}: a fresh file");
        rig.append([event("web", 1)]).await;
        until("the new one is delivered", || script.of("web") == ["1"]).await;
        rig.close().await;
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.into_iter().any(|name| name.to_string_lossy().contains(".corrupt-")), "{table}: it is kept");
    }
}

fn code(code: i32) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
}

/// What a worker would stand on.
fn seat(rig: &Rig, id: i64) -> seat::Seat {
    let name: Arc<str> = "a".into();
    seat::Seat {
        id,
        retry: quick(),
        store: rig.store.clone(),
        reader: None,
        shared: rig.ledger.shared.clone(),
        counts: rig.ledger.shared.counts.sink(&name),
        wake: Arc::default(),
        stop: seat::Stop::default(),
        wholes: crate::ledger::whole::Wholes::default(),
        name,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_may_succeed_later_is_tried_until_it_does() {
    let folder = folder();
    let path = folder.path().join("k.db");
    let rig = Rig::open(&path, vec![("a", quick(), Script::new([]))]).await;
    let mut seat = seat(&rig, 1);
    let mut left = [ffi::SQLITE_IOERR, ffi::SQLITE_BUSY, ffi::SQLITE_CANTOPEN, ffi::SQLITE_FULL].into_iter();
    let read = seat.read(move |_| left.next().map_or(Ok(17), |failure| Err(code(failure)))).await;
    assert!(matches!(read, Ok(17)), "{read:?}");
    let marker = folder.path().join("k.db.damaged");
    assert!(!marker.exists());

    seat.stop.drained.cancel();
    let read = seat.read(|_| Err::<(), _>(code(ffi::SQLITE_IOERR))).await;
    assert!(matches!(read, Err(Ended::Drained)), "the end does not wait for a disk: {read:?}");
    let read = seat.read(|_| Err::<(), _>(code(ffi::SQLITE_CORRUPT))).await;
    assert!(matches!(read, Err(Ended::Failed(_))), "{read:?}");
    assert!(marker.exists(), "the next start has to know");
    drop(seat);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_retention_took_is_not_counted_as_damaged_and_what_is_missing_is() {
    let folder = folder();
    let path = folder.path().join("k.db");
    let down = Script::new((0..100_000).map(|_| Outcome::retry("down")));
    let rig = Rig::open(&path, vec![("a", quick(), down)]).await;
    rig.append((0..4).map(|n| event(&format!("web-{n}"), n))).await;
    let sink = rig.count("SELECT id FROM sinks WHERE name = 'a'");
    rig.close().await;
    let mut file = Connection::open(&path).unwrap();
    let transaction = file.transaction().unwrap();
    let seqs: Vec<i64> = (0..4)
        .map(|n| transaction.query_row("SELECT seq FROM events WHERE name = 'web-' || ?1", [n], |row| row.get(0)))
        .collect::<Result<_, _>>()
        .unwrap();
    retention::forget(&transaction, &seqs[..1]).unwrap();
    transaction.execute("DELETE FROM events WHERE name = 'web-1'", []).unwrap();
    transaction.execute("UPDATE events SET event = x'28b52ffd00' WHERE name = 'web-2'", []).unwrap();
    transaction.commit().unwrap();
    drop(file);

    // A worker that knew all four numbers already.
    let rig = Rig::open(&path, vec![]).await;
    let found = seat(&rig, sink).events(seqs).await.unwrap();
    assert!(matches!(found.as_slice(), [Found::Gone, Found::Damaged, Found::Damaged, Found::Event(..)]), "{found:?}");
    rig.close().await;

    let script = Script::new([]);
    let rig = Rig::open(&path, vec![("a", quick(), script.clone())]).await;
    until("nothing waits", || rig.waiting() == 0).await;
    assert_eq!(script.of("web-3"), ["3"]);
    assert_eq!(rig.ledger.counts().lost(Lost::Damaged), 2, "the one without its row, and the one that cannot be read");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_read_only_or_fails_holds_everything_up_loses_nothing_and_heals_by_itself() {
    for failure in [ffi::SQLITE_READONLY, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_PERM] {
        let folder = folder();
        let script = Script::new([]);
        let rig = Rig::open(&folder.path().join("k.db"), vec![("a", quick(), script.clone())]).await;
        rig.append([event("web", 0)]).await;
        let mut attempts = 0;
        let failing: crate::cluster::store::Write = Box::new(move |_| {
            attempts += 1;
            if attempts <= 3 { Err(code(failure)) } else { Ok(()) }
        });
        let store = rig.store.clone();
        let written = tokio::spawn(async move { store.write(failing).await });
        let health = rig.store.health();
        until("the writer says so", || health.borrow().failing.is_some()).await;
        rig.append((1..20).map(|n| event("web", n))).await;
        written.await.unwrap().unwrap();
        assert_eq!(health.borrow().failing, None, "{failure}");
        until("all of it", || script.taken().len() == 20).await;
        rig.close().await;
    }
}
