use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;

use super::*;

fn row(seq: i64, object: i64) -> Row {
    Row { seq, object, attempts: 0, next_at: 0, since: 0 }
}

fn loaded(rows: &[Row]) -> Queue {
    let mut queue = Queue::new();
    let (after, asked) = queue.wants().unwrap();
    queue.load(after, asked, rows, 0);
    queue
}

fn seqs(batch: &[Row]) -> Vec<i64> {
    batch.iter().map(|row| row.seq).collect()
}

#[test]
fn an_object_that_is_retried_blocks_its_own_later_events_and_no_others() {
    let mut queue = loaded(&[row(1, 7), row(2, 7), row(3, 8), row(4, 7)]);
    assert_eq!(seqs(&queue.take(0, 1)), [1]);
    queue.retry(&[1], 1_000);
    assert_eq!(seqs(&queue.take(0, 1)), [3]);
    assert_eq!(seqs(&queue.take(999, 1)), [0; 0]);
    assert_eq!(queue.next_at(), Some(1_000));
    assert_eq!(seqs(&queue.take(1_000, 1)), [1]);
    assert_eq!(queue.attempts(1), 1);
    queue.finish(1);
    let (after, asked) = queue.wants().expect("what was passed over is looked up again");
    assert!(after < 2);
    queue.load(after, asked, &[row(2, 7), row(3, 8), row(4, 7)], 1_000);
    assert_eq!(seqs(&queue.take(1_000, 1)), [2]);
}

#[test]
fn several_events_of_an_object_go_in_one_batch_in_order() {
    let mut queue = loaded(&[row(1, 7), row(2, 8), row(3, 7)]);
    assert_eq!(seqs(&queue.take(0, 10)), [1, 2, 3]);
}

#[test]
fn a_rejected_batch_is_sent_one_by_one_in_order() {
    let mut queue = loaded(&[row(1, 7), row(2, 8), row(3, 7), row(4, 9)]);
    let batch = seqs(&queue.take(0, 3));
    queue.one_by_one(&batch);
    assert_eq!(seqs(&queue.take(0, 10)), [1]);
    assert_eq!(seqs(&queue.take(0, 10)), [2]);
    // 3 is of the same object as 1, which is on its way.
    assert_eq!(seqs(&queue.take(0, 10)), [4]);
    queue.finish(1);
    assert_eq!(seqs(&queue.take(0, 10)), [3]);
}

#[test]
fn a_retry_that_is_stored_is_not_due_before_its_time() {
    let mut queue = Queue::new();
    let (after, asked) = queue.wants().unwrap();
    queue.load(after, asked, &[Row { next_at: 500, ..row(1, 7) }, row(2, 7), row(3, 8)], 100);
    assert_eq!(seqs(&queue.take(100, 10)), [3]);
    assert_eq!(seqs(&queue.take(500, 10)), [1]);
}

/// What is read of a table with a backlog of one object, and a row of another now and then, until all of it has gone.
fn read_of_a_hot_object(backlog: i64) -> usize {
    let mut file: BTreeMap<i64, Row> =
        (1..=backlog).map(|seq| (seq, row(seq, if seq % 50 == 0 { seq } else { 7 }))).collect();
    let mut queue = Queue::new();
    let mut read = 0;
    while !file.is_empty() {
        let batch = seqs(&queue.take(0, 100));
        // While it is on its way there is time to look for others.
        while let Some((after, asked)) = queue.wants() {
            let page: Vec<Row> = file.range(after + 1..).take(asked).map(|(_, row)| *row).collect();
            read += page.len();
            queue.load(after, asked, &page, 0);
        }
        for seq in batch {
            queue.finish(seq);
            file.remove(&seq);
            queue.forget(seq);
        }
    }
    read
}

#[test]
fn a_long_backlog_of_one_object_is_not_read_again_and_again() {
    let (short, long) = (read_of_a_hot_object(20_000), read_of_a_hot_object(80_000));
    assert!(long < 6 * short, "four times as much: {short} rows, then {long}");
}

/// A table and a receiver that fails as the script says, until everything has arrived.
fn play(objects: &[i64], script: &[u8], window: usize, batch: usize, in_flight: usize) {
    let mut file: BTreeMap<i64, Row> =
        objects.iter().enumerate().map(|(n, object)| (n as i64 + 1, row(n as i64 + 1, *object))).collect();
    let of: HashMap<i64, i64> = file.values().map(|row| (row.seq, row.object)).collect();
    let mut queue = Queue::with_window(window);
    let mut flying: Vec<Vec<i64>> = Vec::new();
    let mut arrived: HashMap<i64, Vec<i64>> = HashMap::new();
    let mut unacknowledged: Vec<i64> = Vec::new();
    let mut script = script.iter().copied().chain(std::iter::repeat(0));
    let mut now = 0;
    let mut idle = 0;
    while !file.is_empty() {
        while let Some((after, asked)) = queue.wants() {
            let page: Vec<Row> = file.range(after + 1..).take(asked).map(|(_, row)| *row).collect();
            queue.load(after, asked, &page, now);
        }
        assert!(queue.len() <= window, "{} in memory", queue.len());
        while flying.len() < in_flight {
            let taken = seqs(&queue.take(now, batch));
            if taken.is_empty() {
                break;
            }
            let on_the_way: HashSet<i64> = flying.iter().flatten().map(|seq| of[seq]).collect();
            for seq in &taken {
                assert!(!on_the_way.contains(&of[seq]), "two of one object are on their way");
                let before: Vec<i64> =
                    file.range(..seq).filter(|(_, row)| row.object == of[seq]).map(|(s, _)| *s).collect();
                for earlier in before {
                    let gone = arrived.get(&of[seq]).is_some_and(|seqs| seqs.contains(&earlier));
                    assert!(gone || taken.contains(&earlier), "{seq} overtook {earlier}");
                }
            }
            flying.push(taken);
        }
        let act = script.next().unwrap_or(0);
        if flying.is_empty() {
            now += 10;
            idle += 1;
            assert!(idle < 100_000, "it is stuck with {} left", file.len());
        } else {
            let sent = flying.swap_remove(usize::from(act) % flying.len());
            match act % 8 {
                1 | 2 => queue.retry(&sent, now + i64::from(act)),
                3 if sent.len() > 1 => queue.one_by_one(&sent),
                4 if sent.len() > 1 => queue.put_back(&sent),
                _ => {
                    for seq in sent {
                        arrived.entry(of[&seq]).or_default().push(seq);
                        queue.finish(seq);
                        unacknowledged.push(seq);
                    }
                }
            }
            now += i64::from(act % 5);
        }
        if act % 3 == 0 {
            for seq in unacknowledged.drain(..) {
                file.remove(&seq);
                queue.forget(seq);
            }
        }
    }
    for seqs in arrived.values() {
        assert!(seqs.is_sorted(), "out of order: {seqs:?}");
    }
    assert_eq!(arrived.values().map(Vec::len).sum::<usize>(), objects.len(), "each is delivered once");
}

proptest! {
    #[test]
    fn everything_arrives_in_order_per_object_within_the_window(
        objects in proptest::collection::vec(0..12i64, 1..400),
        script in proptest::collection::vec(any::<u8>(), 0..400),
        window in 8..60usize,
        batch in 1..9usize,
        in_flight in 1..5usize,
    ) {
        play(&objects, &script, window, batch, in_flight);
    }
}
