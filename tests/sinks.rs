//! What every sink must do (`docs/specs/sink.md`), asserted on every sink.

mod commands;
mod giving_up;
mod messages;
mod subject;
mod told;
mod wire;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use kubediff::{
    cluster::store::{Place, Store, Writing},
    event::Redacted,
    ledger::{Delivery, Ended, Ledger, dead, retention::Keep},
    sink::{self, sample},
};

use self::subject::{Subject, event};
use crate::harness::{Answer, PATIENCE, Receiver, poll};

/// A ledger on a file, delivering to one subject.
struct Rig {
    ledger: Ledger,
    store: Store,
    writing: Writing,
    delivery: Delivery,
}

impl Rig {
    async fn open(path: &Path, subject: &Subject) -> Self {
        Self::open_with(path, subject, |_| {}).await
    }

    async fn open_with(path: &Path, subject: &Subject, adjust: impl FnOnce(&mut sink::Settings)) -> Self {
        let mut settings = subject.settings();
        adjust(&mut settings);
        let (ledger, recorder) = Ledger::new(sample::event().cluster);
        let (store, writing) = Store::open(&Place::File(path.to_owned()), Some(Box::new(recorder))).unwrap();
        let sinks = vec![(settings, subject.build())];
        let delivery = ledger.start(store.clone(), Keep::default(), sinks).await.unwrap();
        Self { ledger, store, writing, delivery }
    }

    async fn append(&self, events: impl IntoIterator<Item = Arc<Redacted>>) {
        for event in events {
            self.ledger.append(&self.store, event).await.unwrap();
        }
    }

    fn count(&self, sql: &str) -> i64 {
        self.store.reader().unwrap().connection().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    async fn delivered(&self, what: &str) {
        poll(PATIENCE, format!("{what}: nothing waits any more"), async || {
            (self.count("SELECT count(*) FROM deliveries") == 0).then_some(())
        })
        .await;
    }

    async fn close(self) {
        let late = self.delivery.drain(Duration::from_secs(10)).await;
        assert!(late.is_empty(), "{late:?} did not finish");
        drop((self.ledger, self.store));
        tokio::task::spawn_blocking(move || self.writing.join()).await.unwrap();
    }
}

/// Three objects with four changes each, one after the other.
fn changes() -> Vec<Arc<Redacted>> {
    (0..12).map(|n| event(n % 3, n / 3)).collect()
}

fn assert_all_in_order(subject: &Subject) {
    for object in 0..3 {
        // Where there is no thread, what is older than the newest is counted.
        let from = if subject.has_thread() { 0 } else { 3 };
        for version in from..4 {
            assert!(subject.has(object, version), "{}: change {version} of {object} is missing", subject.name);
        }
        // A chat's message shows the newest change above the others; its thread has them in order.
        if !subject.is_chat() {
            assert_eq!(subject.order(object), [0, 1, 2, 3], "{}", subject.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_arrives_in_order_per_object_while_the_other_side_misbehaves() {
    for subject in Subject::all() {
        let folder = tempfile::tempdir().unwrap();
        subject.then(
            [
                Answer::status(500),
                Answer::Cut,
                Answer::ok(),
                Answer::status(503),
                Answer::too_many_requests(1),
                Answer::CutInBody,
                Answer::Hang,
            ]
            .into_iter()
            .filter(|answer| !(subject.is_chat() && matches!(answer, Answer::Reply { status: 200, .. }))),
        );
        let rig = Rig::open(&folder.path().join("k.db"), &subject).await;
        rig.append(changes()).await;
        rig.delivered(subject.name).await;
        poll(PATIENCE, subject.name, async || subject.has(2, 3).then_some(())).await;
        assert_all_in_order(&subject);
        assert_eq!(rig.count("SELECT count(*) FROM dead_letters"), 0, "{}", subject.name);
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_has_the_same_id_every_time() {
    let subject = Subject::webhook("webhook", kubediff::sink::webhook::Format::Json, 1);
    let folder = tempfile::tempdir().unwrap();
    subject.then([Answer::status(500), Answer::Cut, Answer::CutInBody]);
    let rig = Rig::open(&folder.path().join("k.db"), &subject).await;
    let sent = event(0, 0);
    rig.append([sent.clone()]).await;
    rig.delivered("webhook").await;
    let requests = subject.receiver().unwrap().received();
    assert!(requests.len() >= 3, "{} requests", requests.len());
    for request in requests {
        assert_eq!(request.header("webhook-id"), sent.id);
        assert_eq!(request.json()["id"], sent.id);
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_is_honoured_for_everything_that_goes_there() {
    for subject in Subject::over_http() {
        let folder = tempfile::tempdir().unwrap();
        subject.then([Answer::too_many_requests(2)]);
        let rig = Rig::open(&folder.path().join("k.db"), &subject).await;
        rig.append([event(0, 0)]).await;
        subject.receiver().unwrap().wait_for(1, PATIENCE).await;
        poll(PATIENCE, "the answer is taken in", async || {
            rig.ledger.counts().sinks().iter().any(|(_, sink)| sink.health().failing.is_some()).then_some(())
        })
        .await;
        rig.append([event(1, 0)]).await;
        let requests = subject.receiver().unwrap().wait_for(2, PATIENCE).await;
        let pause = requests[1].at - requests[0].at;
        assert!(pause >= Duration::from_millis(1900), "{}: {pause:?}", subject.name);
        rig.delivered(subject.name).await;
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_other_side_rejects_becomes_a_dead_letter_and_the_rest_goes_on() {
    for subject in Subject::over_http() {
        let folder = tempfile::tempdir().unwrap();
        match subject.slack_far() {
            Some(slack) => slack.fail_next("msg_too_long"),
            None => subject.then([Answer::status(422).with_body("no such field")]),
        }
        let rig = Rig::open(&folder.path().join("k.db"), &subject).await;
        rig.append([event(0, 0)]).await;
        poll(PATIENCE, format!("a dead letter of {}", subject.name), async || {
            (rig.count("SELECT count(*) FROM dead_letters") == 1).then_some(())
        })
        .await;
        let letters = dead::list(rig.store.reader().unwrap().connection(), None, None, 10).unwrap();
        let reason = &letters[0].reason;
        assert!(reason.contains("422") || reason.contains("msg_too_long"), "{}: {reason}", subject.name);
        assert!(!reason.contains("secret"), "{}: {reason}", subject.name);
        rig.append([event(1, 0)]).await;
        rig.delivered(subject.name).await;
        assert_eq!(rig.count("SELECT count(*) FROM dead_letters"), 1, "{}: the rest goes on", subject.name);
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_without_an_answer_ends_at_its_deadline() {
    for subject in Subject::over_http() {
        let folder = tempfile::tempdir().unwrap();
        subject.then([Answer::Hang]);
        let rig = Rig::open(&folder.path().join("k.db"), &subject).await;
        let began = Instant::now();
        rig.append([event(0, 0)]).await;
        rig.delivered(subject.name).await;
        assert!(began.elapsed() >= Duration::from_millis(1400), "{}", subject.name);
        assert!(subject.has(0, 0), "{}", subject.name);
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_never_followed() {
    for subject in Subject::over_http() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = Receiver::start();
        subject.then([301, 302, 307, 308].map(|status| Answer::redirect(status, elsewhere.url("/there"))));
        let rig = Rig::open(&folder.path().join("k.db"), &subject).await;
        rig.append([event(0, 0)]).await;
        rig.delivered(subject.name).await;
        assert!(subject.has(0, 0), "{}", subject.name);
        assert!(elsewhere.received().is_empty(), "{} went elsewhere", subject.name);
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reason_never_tells_the_address() {
    for subject in Subject::over_http() {
        let folder = tempfile::tempdir().unwrap();
        let secret = subject.secret();
        let echo = subject.receiver().unwrap().url("/") + secret;
        let answer = Answer::status(500).with_body(format!("error at {echo}, that is {secret}"));
        subject.then(std::iter::repeat_n(answer, 10));
        let rig = Rig::open(&folder.path().join("k.db"), &subject).await;
        rig.append([event(0, 0)]).await;
        let counts = rig.ledger.counts().sinks()[0].1.clone();
        let told = |reason: &String| reason.contains("500");
        let reason = poll(PATIENCE, "a failure", async || counts.health().failing.filter(told)).await;
        assert!(!reason.contains(secret), "{}: {reason}", subject.name);
        rig.delivered(subject.name).await;
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_sends_what_waits_before_the_end() {
    for subject in Subject::all() {
        let folder = tempfile::tempdir().unwrap();
        let rig = Rig::open(&folder.path().join("k.db"), &subject).await;
        rig.append(changes()).await;
        let late = rig.delivery.drain(Duration::from_secs(20)).await;
        assert!(late.is_empty(), "{late:?}");
        poll(PATIENCE, subject.name, async || subject.has(2, 3).then_some(())).await;
        assert_all_in_order(&subject);
        drop((rig.ledger, rig.store));
        tokio::task::spawn_blocking(move || rig.writing.join()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_goes_on_where_it_stopped() {
    for subject in Subject::over_http() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k.db");
        let receiver = subject.receiver().unwrap();
        receiver.refuse(true);
        let rig = Rig::open(&path, &subject).await;
        rig.append(changes()).await;
        let counts = rig.ledger.counts().sinks()[0].1.clone();
        poll(PATIENCE, "a failure", async || counts.health().failing.map(drop)).await;
        rig.close().await;
        assert!(subject.taken().is_empty());
        receiver.refuse(false);
        let rig = Rig::open(&path, &subject).await;
        rig.delivered(subject.name).await;
        assert_all_in_order(&subject);
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_is_a_clean_end() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let sink = kubediff::sink::stdout::Stdout::to(kubediff::sink::stdout::Settings::default(), writer).unwrap();
    let (ledger, recorder) = Ledger::new(sample::event().cluster);
    let (store, _writing) = Store::open(&Place::File(folder.path().join("k.db")), Some(Box::new(recorder))).unwrap();
    let settings = Subject::stdout().settings();
    let sinks = vec![(settings, kubediff::sink::Built::Sink(Arc::new(sink)))];
    let mut delivery = ledger.start(store.clone(), Keep::default(), sinks).await.unwrap();
    ledger.append(&store, event(0, 0)).await.unwrap();
    assert_eq!(delivery.next_end().await, Some(("subject".into(), Ended::Closed)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_gone_gets_nothing_more() {
    let subject = Subject::webhook("webhook", kubediff::sink::webhook::Format::Json, 1);
    let folder = tempfile::tempdir().unwrap();
    subject.then([Answer::status(410)]);
    let rig = Rig::open(&folder.path().join("k.db"), &subject).await;
    rig.append([event(0, 0)]).await;
    let counts = rig.ledger.counts().sinks()[0].1.clone();
    poll(PATIENCE, "it is disabled", async || counts.health().disabled.then_some(())).await;
    rig.append([event(0, 1), event(1, 0)]).await;
    assert_eq!(rig.count("SELECT count(*) FROM deliveries"), 3, "and nothing is lost");
    // At the end everything is sent that can be.
    rig.close().await;
    assert_eq!(subject.receiver().unwrap().received().len(), 1);
}
