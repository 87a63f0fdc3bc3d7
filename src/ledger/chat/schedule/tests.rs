use super::{
    super::group::{Group, Message},
    *,
};
use crate::sink::Place;

const SECOND: i64 = 1_000;

fn schedule(edits: bool) -> Schedule {
    Schedule::new(Habits {
        edits,
        wait: Duration::from_secs(10),
        max: Duration::from_secs(300),
        interval: Duration::from_secs(1),
        burst: 3,
    })
}

fn group(message: bool, time: i64) -> Group {
    let place = Place { channel: "C1".into(), ts: "1".into() };
    let mut group = Group::new(message.then_some(Message { place, opened: 0 }), time);
    group.add(time, time, 0);
    group
}

#[test]
fn owners_that_never_stop_changing_do_not_keep_a_new_one_from_being_told() {
    let mut schedule = schedule(true);
    let busy = ["a", "b", "c"];
    let mut now = 0;
    for key in busy {
        schedule.insert(key.to_owned(), group(true, now));
    }
    schedule.insert("new".to_owned(), group(false, now));
    let due = 10 * SECOND;
    // Each turn takes two seconds: the message and its part of the thread.
    while schedule.get("new").is_some() {
        let Some(Turn::One(key)) = schedule.turn(now) else {
            now += 100;
            continue;
        };
        schedule.take(&key);
        now += 2 * SECOND;
        schedule.changed(key.clone(), now);
        if busy.contains(&key.as_str()) {
            // It has changed again meanwhile.
            schedule.insert(key, group(true, now - SECOND));
        }
        assert!(now <= due + 4 * 2 * SECOND, "after each of the others had a turn, at most");
    }
    assert!(now > due, "it waited for company first");
}

#[test]
fn a_message_is_edited_at_most_once_in_an_interval_and_at_once_after_a_quiet_while() {
    let mut schedule = schedule(true);
    schedule.changed("web".into(), 1_000);
    schedule.insert("web".into(), group(true, 1_500));
    assert_eq!(schedule.next_at(), Some(1_000 + millis(EDIT_INTERVAL)));
    schedule.changed("other".into(), 60_000);
    schedule.insert("web".into(), group(true, 60_500));
    assert_eq!(schedule.next_at(), Some(60_500));
}

#[test]
fn what_cannot_be_edited_waits_until_it_is_quiet_and_not_for_ever() {
    let mut schedule = schedule(false);
    let mut busy = group(false, 0);
    busy.add(2, 8 * SECOND, 0);
    schedule.insert("web".into(), busy);
    assert_eq!(schedule.next_at(), Some(18 * SECOND));
    schedule.get_mut("web").unwrap().add(3, 299 * SECOND, 0);
    assert_eq!(schedule.next_at(), Some(300 * SECOND));
}

#[test]
fn one_that_fails_again_and_again_lets_the_others_pass() {
    let mut schedule = schedule(true);
    schedule.insert("bad".into(), group(false, 0));
    schedule.insert("good".into(), group(false, 5 * SECOND));
    let turn = |schedule: &Schedule, key: &str| schedule.turn(21 * SECOND) == Some(Turn::One(key.into()));
    assert!(turn(&schedule, "bad"));
    schedule.get_mut("bad").unwrap().tried_at = 20 * SECOND;
    assert!(turn(&schedule, "good"));
    schedule.drain();
    assert!(turn(&schedule, "good"));
    schedule.take("good");
    assert!(turn(&schedule, "bad"));
}

#[test]
fn too_many_new_owners_are_told_together_and_those_with_a_message_by_themselves() {
    let mut schedule = schedule(true);
    schedule.insert("open".into(), group(true, 0));
    (0..OVERFLOW).for_each(|n| schedule.insert(format!("new-{n}"), group(false, 0)));
    assert_eq!(schedule.turn(20 * SECOND), Some(Turn::One("open".into())), "it was due before them");
    schedule.insert("one-more".into(), group(false, 15 * SECOND));
    assert_eq!(schedule.turn(20 * SECOND), Some(Turn::One("open".into())), "one of them is not due yet");
    let Some(Turn::Digest(keys)) = schedule.turn(25 * SECOND) else { panic!("no digest") };
    assert!(keys.len() == OVERFLOW + 1 && !keys.contains(&"open".to_owned()), "{keys:?}");
}

/// What `docs/specs/sink.md` says about memory.
#[test]
fn what_waits_takes_numbers_and_no_texts() {
    let mut schedule = schedule(true);
    let key = |n: usize| format!("9a4f0c1e-0000-4000-8000-000000000000/Deployment/shop/web-{n}");
    for n in 0..super::super::PENDING {
        schedule.insert(key(n), group(true, 0));
    }
    let of = |key: &String, group: &Group| {
        let numbers = group.seqs.capacity() + group.began.capacity() + group.times.capacity();
        let place = group.message.as_ref().map_or(0, |m| m.place.channel.capacity() + m.place.ts.capacity());
        size_of::<String>() + key.capacity() + size_of::<Group>() + numbers * size_of::<i64>() + place
    };
    let bytes: usize = schedule.groups.iter().map(|(key, group)| of(key, group)).sum();
    assert!(bytes < 2_500_000, "{bytes}");
}
