//! What is read while events are removed is of one moment.

use super::*;

/// Enough for dozens of pages while they go.
const EVENTS: i64 = 3_000;
/// Removed at a time.
const STEP: i64 = 5;

#[test]
fn a_page_is_whole_while_the_oldest_events_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.db");
    million::fill(&path, EVENTS);
    let mut history = History::open(&path).unwrap();
    let file = rusqlite::Connection::open(&path).unwrap();
    let removing = std::thread::spawn(move || {
        file.execute_batch("PRAGMA synchronous = OFF").unwrap();
        for last in (STEP..=EVENTS).step_by(STEP as usize) {
            file.execute("DELETE FROM events WHERE seq <= ?1", [last]).unwrap();
        }
    });
    let (mut pages, mut oldest) = (0, 1);
    while !removing.is_finished() {
        let page = history.page(&Filter::default(), &Sight::Everything, Order::Asc, None, 200).expect("a page");
        assert!(page.rows.iter().all(|row| !row.id.is_empty()));
        let Some(first) = page.rows.first() else { break };
        assert!(first.seq >= oldest);
        oldest = first.seq;
        history.row(oldest).expect("a row or none");
        history.of_object(&first.object(), Order::Asc, None, 10).expect("its changes");
        pages += 1;
    }
    removing.join().unwrap();
    println!("{pages} pages while {EVENTS} events went");
}
