//! The cases of the queue that controllers have relied upon for years, in paused time.

use std::collections::BTreeSet;

use super::*;

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The key that is given out next, and is done with at once.
async fn take<K: Clone + Eq + Hash>(queue: &Queue<K>) -> K {
    queue.next().await.expect("a key").key().clone()
}

#[tokio::test]
async fn a_key_added_twice_is_worked_on_once() {
    let queue = Queue::new();
    queue.add("a");
    queue.add("b");
    queue.add("a");
    assert_eq!(queue.len(), 2);
    assert_eq!(take(&queue).await, "a");
    assert_eq!(take(&queue).await, "b");
    assert!(queue.is_empty());
}

#[tokio::test]
async fn a_key_added_during_its_work_is_worked_on_again_but_not_at_once() {
    let queue = Queue::new();
    queue.add("a");
    let work = queue.next().await.unwrap();
    queue.add("a");
    queue.add("a");
    assert!(queue.is_empty(), "no second worker may take it now");
    drop(work);
    assert_eq!(take(&queue).await, "a");
    assert!(queue.is_empty(), "once, however often it was added");
}

#[tokio::test(start_paused = true)]
async fn a_key_with_a_pause_comes_when_it_is_over_and_once() {
    let queue = Queue::new();
    let began = Instant::now();
    queue.add_after("a", millis(50));
    assert!(queue.is_empty());
    assert_eq!((take(&queue).await, began.elapsed()), ("a", millis(50)));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(queue.is_empty());
    queue.add_after("a", Duration::ZERO);
    assert_eq!(queue.len(), 1, "no pause at all is no waiting");
}

#[tokio::test(start_paused = true)]
async fn of_two_times_for_one_key_the_earlier_counts() {
    for (first, second) in [(50, 70), (70, 50)] {
        let queue = Queue::new();
        let began = Instant::now();
        queue.add_after("a", millis(first));
        queue.add_after("a", millis(second));
        assert_eq!((take(&queue).await, began.elapsed()), ("a", millis(50)));
        tokio::time::sleep(millis(100)).await;
        assert!(queue.is_empty(), "and it counts once");
    }
}

#[tokio::test(start_paused = true)]
async fn keys_come_in_the_order_of_their_times_whenever_they_are_looked_for() {
    let queue = Queue::new();
    queue.add_after("last", Duration::from_secs(1));
    queue.add_after("second", millis(500));
    queue.add_after("first", millis(250));
    queue.add_after("second too", millis(500));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(queue.len(), 4);
    for expected in ["first", "second", "second too", "last"] {
        assert_eq!(take(&queue).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_earlier_time_wakes_a_worker_that_waits_for_a_later_one() {
    let queue = Queue::new();
    queue.add_after("late", Duration::from_secs(60));
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { (take(&queue).await, Instant::now()) }
    });
    tokio::time::sleep(millis(10)).await;
    let began = Instant::now();
    queue.add_after("soon", millis(50));
    assert_eq!(waiting.await.unwrap(), ("soon", began + millis(50)));
}

#[tokio::test(start_paused = true)]
async fn retries_wait_twice_as_long_each_time_until_forgotten_and_each_key_by_itself() {
    let queue = Queue::new();
    let retry = async |key| {
        let began = Instant::now();
        queue.retry(key);
        assert_eq!(take(&queue).await, key);
        began.elapsed()
    };
    for pause in [5, 10, 20, 40] {
        assert_eq!(retry("a").await, millis(pause));
    }
    assert_eq!((queue.retries(&"a"), queue.retries(&"b")), (4, 0));
    assert_eq!(retry("b").await, millis(5), "another key has failed never before");
    queue.forget(&"a");
    assert_eq!(retry("a").await, millis(5));
    assert_eq!(retry("b").await, millis(10), "and is not forgotten with it");
}

#[tokio::test(start_paused = true)]
async fn the_longest_retry_is_a_thousand_seconds_or_as_asked_for() {
    for (backoff, longest) in [
        (Backoff::default(), Duration::from_secs(1000)),
        (Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(3) }, Duration::from_secs(3)),
    ] {
        let queue = Queue::with_backoff(backoff);
        for _ in 0..70 {
            queue.retry("a");
            take(&queue).await;
        }
        let began = Instant::now();
        queue.retry("a");
        take(&queue).await;
        assert_eq!(began.elapsed(), longest);
    }
    assert_eq!(Backoff::default().pause(u32::MAX), Duration::from_secs(1000));
}

#[tokio::test]
async fn a_shutdown_gives_out_what_waits_and_then_nothing() {
    let queue = Queue::new();
    queue.add(1);
    queue.add(2);
    queue.retry(3);
    queue.add_after(4, millis(1));
    queue.shut_down();
    queue.add(5);
    queue.retry(6);
    queue.add_after(7, Duration::ZERO);
    let mut got = Vec::new();
    while let Some(work) = queue.next().await {
        got.push(*work.key());
    }
    assert_eq!(got, [1, 2]);
}

#[tokio::test]
async fn draining_waits_for_the_work_that_is_being_done_and_a_shutdown_does_not() {
    let queue = Queue::new();
    queue.add("a");
    queue.add("b");
    let (a, b) = (queue.next().await.unwrap(), queue.next().await.unwrap());
    queue.shut_down();
    let draining = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    assert!(queue.next().await.is_none(), "other workers may go");
    drop(a);
    tokio::task::yield_now().await;
    assert!(!draining.is_finished());
    drop(b);
    draining.await.unwrap();
}

#[tokio::test]
async fn what_was_added_during_its_work_is_worked_on_before_a_drain_is_over() {
    let queue = Queue::new();
    queue.add("a");
    let work = queue.next().await.unwrap();
    queue.add("a");
    let draining = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    while !queue.lock().shutting_down {
        tokio::task::yield_now().await;
    }
    drop(work);
    tokio::task::yield_now().await;
    assert!(!draining.is_finished(), "its second turn is still to come");
    assert_eq!(take(&queue).await, "a");
    assert!(queue.next().await.is_none());
    draining.await.unwrap();
}

#[tokio::test]
async fn a_worker_that_panics_gives_its_key_free() {
    let queue = Queue::new();
    queue.add("a");
    let working = queue.clone();
    let worker = tokio::spawn(async move {
        let _work = working.next().await;
        working.add("a");
        panic!("on purpose");
    });
    assert!(worker.await.is_err());
    assert_eq!(take(&queue).await, "a");
}

#[tokio::test]
async fn a_key_that_is_done_with_leaves_nothing_behind() {
    let queue = Queue::new();
    let key = Arc::new("a large key");
    queue.add(key.clone());
    queue.retry(key.clone());
    queue.add_after(key.clone(), millis(1));
    for _ in 0..2 {
        assert_eq!(take(&queue).await, key);
    }
    queue.forget(&key);
    assert_eq!(Arc::strong_count(&key), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_producers_and_workers_share_the_keys_no_key_is_worked_on_twice_at_once_and_all_end() {
    let queue = Queue::new();
    let (busy, done) = (Arc::new(Mutex::new(HashSet::new())), Arc::new(Mutex::new(BTreeSet::new())));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let (queue, busy, done) = (queue.clone(), busy.clone(), done.clone());
        workers.spawn(async move {
            let mut seen: HashMap<i32, u32> = HashMap::new();
            while let Some(work) = queue.next().await {
                let key = *work.key();
                assert!(key < 50, "{key} was added after the shutdown");
                assert!(busy.lock().unwrap().insert(key), "{key} is worked on twice at once");
                tokio::task::yield_now().await;
                // Each worker adds each key once more, while it is at work on it.
                let times = seen.entry(key).or_default();
                *times += 1;
                if *times < 2 {
                    queue.add(key);
                }
                done.lock().unwrap().insert(key);
                assert!(busy.lock().unwrap().remove(&key));
            }
        });
    }
    let mut producers = tokio::task::JoinSet::new();
    for key in 0..50 {
        let queue = queue.clone();
        producers.spawn(async move {
            for _ in 0..50 {
                queue.add(key);
                tokio::task::yield_now().await;
            }
        });
    }
    producers.join_all().await;
    queue.drain().await;
    queue.add(999);
    workers.join_all().await;
    assert_eq!(done.lock().unwrap().len(), 50);
    assert!(queue.is_empty() && queue.lock().dirty.is_empty());
}
