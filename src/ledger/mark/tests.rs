//! Marks: what they cover, and that they never say more than is so.

use super::*;

const F: i64 = 7;
const G: i64 = 8;
const WEB: i64 = 100;
const DB: i64 = -200;

fn mark() -> Mark {
    let waits = |objects: &[(i64, i64)], feeds: &[(i64, i64)]| Waits {
        objects: objects.iter().copied().collect(),
        feeds: feeds.iter().copied().collect(),
        ..Waits::default()
    };
    Mark {
        feeds: BTreeMap::from([(F, (50, 100)), (G, (0, 9))]),
        sinks: BTreeMap::from([
            ("idle".into(), waits(&[], &[])),
            ("one".into(), waits(&[(WEB, 80)], &[])),
            ("many".into(), waits(&[], &[(F, 60)])),
            ("young".into(), Waits { since: BTreeMap::from([(F, 70)]), ..Waits::default() }),
        ]),
    }
}

fn live(feed: i64, by: i64) -> Place {
    Place { feed, span: Span { after: by - 1, by } }
}

#[test]
fn it_covers_what_lies_between_its_beginning_and_its_end() {
    let mark = mark();
    assert!(mark.covers("idle", WEB, live(F, 51)) && mark.covers("idle", WEB, live(F, 100)));
    assert!(!mark.covers("idle", WEB, live(F, 101)), "the leader has not seen it");
    assert!(!mark.covers("idle", WEB, live(F, 50)), "the leader was not there yet");
    assert!(!mark.covers("idle", WEB, live(G, 51)), "each feed for itself");
    assert!(!mark.covers("idle", WEB, live(9, 60)), "a feed that it does not know");
    assert!(!mark.covers("new", WEB, live(F, 60)), "a sink that it does not know");
    assert!(!mark.covers("young", WEB, live(F, 70)), "the leader had not heard of the sink yet");
    assert!(mark.covers("young", WEB, live(F, 71)) && mark.covers("young", WEB, live(G, 5)));
}

#[test]
fn it_covers_nothing_that_waits() {
    let mark = mark();
    assert!(mark.covers("one", WEB, live(F, 80)) && !mark.covers("one", WEB, live(F, 81)));
    assert!(mark.covers("one", DB, live(F, 81)), "another object");
    assert!(mark.covers("many", WEB, live(F, 60)) && !mark.covers("many", WEB, live(F, 61)));
    assert!(mark.covers("many", WEB, live(G, 9)), "another feed");
}

#[test]
fn a_change_that_a_list_showed_is_covered_only_as_a_whole() {
    let mark = mark();
    let late = |after, by| Place { feed: F, span: Span { after, by } };
    assert!(mark.covers("idle", WEB, late(60, 90)));
    assert!(!mark.covers("idle", WEB, late(40, 90)), "a part of it happened before the leader was there");
    assert!(!mark.covers("idle", WEB, late(60, 120)), "a part of it the leader has not seen");
    assert!(!mark.covers("one", WEB, late(60, 90)), "a part of it waits");
}

#[test]
fn a_beginning_moves_back_only_where_there_is_no_gap() {
    let sinks = |names: &[&str]| -> Vec<(Arc<str>, i64)> { names.iter().map(|name| ((*name).into(), 1)).collect() };
    let mark = mark();
    assert_eq!(mark.extends(F, 90, &sinks(&["idle"])), Some(50));
    assert_eq!(mark.extends(F, 101, &sinks(&["idle"])), None, "between 100 and 101 nobody knows");
    assert_eq!(mark.extends(F, 40, &sinks(&["idle"])), None, "it reaches back further by itself");
    assert_eq!(mark.extends(F, 90, &sinks(&["idle", "one"])), None, "of web something from before 90 waits");
    assert_eq!(mark.extends(F, 80, &sinks(&["idle", "one"])), Some(50), "what waits is in its own list as well");
    assert_eq!(mark.extends(F, 90, &sinks(&["many"])), None);
    assert_eq!(mark.extends(F, 90, &sinks(&["young"])), None, "nor did the leader tell this one of all of it");
    assert_eq!(mark.extends(F, 90, &sinks(&["new"])), None, "of a sink that it does not know it says nothing");
}

#[test]
fn it_is_let_go_of_where_the_feeds_have_come_as_far() {
    let cursors = BTreeMap::from([(F, (0, 99)), (G, (0, 9))]);
    let ahead = mark().ahead_of(&cursors).unwrap();
    assert_eq!(ahead.feeds.keys().collect::<Vec<_>>(), [&F]);
    assert_eq!(mark().ahead_of(&BTreeMap::from([(F, (0, 100)), (G, (0, 10))])), None);
}

#[test]
fn as_text_it_is_short_and_what_has_no_room_is_not_claimed() {
    let text = mark().to_text(1 << 10);
    assert_eq!(Mark::from_text(&text), Some(mark()));
    let feeds = (0..500).map(|n| (feed_hash(&format!("widgets{n}.example.com@*?l=&f=")), (0, 1_234_567 + n))).collect();
    let large = Mark { feeds, ..mark() };
    assert!(large.to_text(1 << 20).len() < 500 * 40, "{}", large.to_text(1 << 20).len());
    let cut = large.to_text(5_000);
    assert!(cut.len() <= 5_000);
    let cut = Mark::from_text(&cut).unwrap();
    assert!(cut.feeds.len() > 50 && cut.feeds.iter().all(|(feed, span)| large.feeds[feed] == *span));
    assert_eq!(cut.sinks, large.sinks, "never less of what waits");
    assert_eq!(Mark::from_text("no mark"), None);
}
