//! How much memory it takes when very much waits for sinks, a webhook that is down and a chat that takes one message a
//! second.

use kubediff::{event::Event, sink::sample};

use super::{Kubediff, config};
use crate::harness::{self, Answer, PATIENCE, Receiver, Slack, poll, slack};

/// What one event that waits is made into, each of another object; `{n}` is its number in the text of the event.
const EVENTS: &str = "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
    INSERT INTO events (seq, id, time, type, api_group, resource, kind, namespace, name, uid, owner_kind,
        owner_namespace, owner_name, classes, managers, summary, event)
    SELECT e.seq + n.i, printf('%032x', n.i), e.time, e.type, e.api_group, e.resource, e.kind, e.namespace,
        e.name || '-' || n.i, e.uid, e.owner_kind, e.owner_namespace, e.owner_name, e.classes, e.managers, e.summary,
        CAST(replace(?2, '{n}', n.i) AS BLOB) FROM events e, n";
const DELIVERIES: &str = "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
    INSERT INTO deliveries (sink, seq, object)
    SELECT s.id, d.seq + n.i, d.object + n.i FROM deliveries d, n, sinks s
    WHERE d.sink = (SELECT id FROM sinks WHERE name = 'hook')";

fn text() -> String {
    let mut event = Event { id: "{n}".into(), owner: None, patch: None, ..sample::event_now() };
    event.resource.name = "web-{n}".into();
    serde_json::to_string(&event).unwrap()
}

#[tokio::test]
async fn a_million_events_that_wait_take_no_more_memory_than_a_thousand() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("backlog").await;
    let mut peaks = Vec::new();
    for waiting in [1_000_u32, 1_000_000] {
        let (receiver, slack) = (Receiver::start(), Slack::start());
        receiver.answer(Answer::status(503));
        let more = format!(
            "retry_min_secs = 1\nretry_max_secs = 1\n[sinks.ops]\ntype = \"slack\"\ntoken = \"{}\"\nchannel = \"#ops\"\n\
             api_url = \"{}\"\ngroup_wait_secs = 1\n[state]\npath = \"kubediff.db\"\nmax_bytes = \"8GiB\"\n",
            slack::TOKEN,
            slack.api_url()
        );
        let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config(ns.name(), &receiver, &more));
        kubediff.start().await;
        cluster.kubectl(&["create", "configmap", &format!("of-{waiting}"), "-n", ns.name()]).await;
        receiver.wait_for(1, PATIENCE).await;
        kubediff.kill();
        let file = rusqlite::Connection::open(kubediff.path("kubediff.db")).unwrap();
        file.execute_batch("PRAGMA synchronous = OFF").unwrap();
        let hook = "SELECT seq FROM deliveries WHERE sink = (SELECT id FROM sinks WHERE name = 'hook')";
        file.execute(&format!("DELETE FROM events WHERE seq NOT IN ({hook})"), []).unwrap();
        assert_eq!(file.execute(EVENTS, rusqlite::params![waiting - 1, text()]).unwrap(), waiting as usize - 1);
        assert_eq!(file.execute(DELIVERIES, [waiting - 1]).unwrap(), 2 * (waiting as usize - 1));
        drop(file);

        receiver.forget();
        kubediff.start().await;
        receiver.wait_for(5, PATIENCE).await;
        // Back for a moment: a good part of it goes out, and more is read from the file.
        receiver.answer(Answer::ok());
        receiver.wait_for_accepted(900, PATIENCE).await;
        let digests = if waiting == 1_000 { 1 } else { 3 };
        poll(PATIENCE, "the chat is told in digests", async || {
            let told = slack.messages().iter().filter(|m| m.text.contains(" changes of ")).count();
            (told >= digests).then_some(())
        })
        .await;
        peaks.push(kubediff.peak_memory());
        kubediff.kill();
    }
    println!("peak memory with a thousand waiting {} kB, with a million {} kB", peaks[0], peaks[1]);
    assert!(peaks[1] < peaks[0] + 24_000, "{peaks:?} kB");
}
