//! When a sink is given up on, what becomes of its letters, and that the others do not notice.

use std::time::Duration;

use kubediff::ledger::{Ledger, dead, retention::Keep};

use super::{Place, Rig, Store, sample};
use crate::{
    harness::{Answer, PATIENCE, poll},
    sinks::subject::{Subject, event},
};

/// Longer than the few attempts that tell a reason, shorter than anyone waits for.
const BUDGET: Duration = Duration::from_millis(700);

#[tokio::test(flavor = "multi_thread")]
async fn what_its_budget_does_not_suffice_for_is_kept_with_the_last_reason_and_sent_again_on_request() {
    for subject in Subject::over_http() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k.db");
        let receiver = subject.receiver().unwrap();
        subject.then(std::iter::repeat_n(Answer::status(503).with_body("closed for today"), 10_000));
        let rig = Rig::open_with(&path, &subject, |settings| settings.retry.budget = BUDGET).await;
        rig.append([event(0, 0), event(1, 0)]).await;
        poll(PATIENCE, format!("both are dead letters of {}", subject.name), async || {
            (rig.count("SELECT count(*) FROM dead_letters") == 2).then_some(())
        })
        .await;
        assert_eq!(rig.count("SELECT count(*) FROM deliveries"), 0, "{}", subject.name);
        let letters = dead::list(rig.store.reader().unwrap().connection(), Some("subject"), None, 10).unwrap();
        for letter in &letters {
            // On a busy machine the last attempt may have run out of time.
            let told = letter.reason.contains("503") || letter.reason.contains("no answer");
            assert!(told, "{}: {}", subject.name, letter.reason);
            assert!(letter.attempts > 0, "{}: {letter:?}", subject.name);
        }
        assert!(receiver.received().len() > 1, "{}: it was tried more than once", subject.name);

        receiver.as_usual();
        let other = rusqlite::Connection::open(&path).unwrap();
        other.busy_timeout(PATIENCE).unwrap();
        assert_eq!(dead::retry(&other, None, Some("subject")).unwrap(), 2);
        poll(PATIENCE, format!("{} has them in the end", subject.name), async || {
            (subject.has(0, 0) && subject.has(1, 0)).then_some(())
        })
        .await;
        rig.delivered(subject.name).await;
        assert_eq!(rig.count("SELECT count(*) FROM dead_letters"), 0, "{}", subject.name);
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_hangs_delays_no_other() {
    for slow in Subject::over_http() {
        let folder = tempfile::tempdir().unwrap();
        slow.receiver().unwrap().answer(Answer::Hang);
        let others = Subject::all();
        let mut sinks = vec![(slow.settings(), slow.build())];
        for (n, other) in others.iter().enumerate() {
            let mut settings = other.settings();
            settings.name = format!("other-{n}");
            sinks.push((settings, other.build()));
        }
        // Nothing but the deadline of an attempt would end the wait for it.
        sinks[0].0.retry.timeout = PATIENCE * 2;
        let (ledger, recorder) = Ledger::new(sample::event().cluster);
        let (store, writing) = Store::open(&Place::File(folder.path().join("k.db")), Some(Box::new(recorder))).unwrap();
        let delivery = ledger.start(store.clone(), Keep::default(), sinks).await.unwrap();
        for n in 0..4 {
            ledger.append(&store, event(0, n)).await.unwrap();
        }
        for other in &others {
            poll(PATIENCE, format!("{} while {} hangs", other.name, slow.name), async || other.has(0, 3).then_some(()))
                .await;
        }
        assert!(slow.taken().is_empty(), "{}", slow.name);
        let late = delivery.drain(Duration::from_secs(3)).await;
        assert_eq!(late, [std::sync::Arc::from("subject")]);
        drop((ledger, store));
        tokio::task::spawn_blocking(move || writing.join()).await.unwrap();
    }
}
