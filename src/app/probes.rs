//! `/livez`, `/readyz` and `/metrics`: what an orchestrator asks, with the reason for each answer.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{HeaderName, StatusCode, header},
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::parts::{Turned, silence};
use crate::{
    cluster::{informer::Informer, store::Store},
    metrics,
};

/// What the answers are made from.
#[derive(Clone)]
pub(super) struct Health {
    pub(super) metrics: metrics::Sources,
    /// The loops that have to turn, by name.
    pub(super) loops: Arc<[(&'static str, Turned)]>,
}

pub(super) async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "probes");
    Ok(listener)
}

pub(super) async fn serve(listener: TcpListener, health: Health, stop: CancellationToken) {
    let router = Router::new()
        .route("/livez", get(async |State(health): State<Health>| livez(&health.metrics.store, &health.loops).await))
        .route("/readyz", get(readyz))
        .route("/metrics", get(prometheus))
        .with_state(health);
    let serving = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
    if let Err(error) = serving.await {
        tracing::error!(%error, "the probes' server ended");
    }
}

async fn prometheus(State(health): State<Health>) -> Result<([(HeaderName, &'static str); 1], String), StatusCode> {
    // It reads the state file: not on the runtime's own threads.
    let text = tokio::task::spawn_blocking(move || metrics::render(&health.metrics)).await;
    let text = text.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}

/// Less than the 5 s that the chart's probe waits.
const ROUND: Duration = Duration::from_secs(4);

/// A disk that takes longer than this for a commit cannot be called writable.
const STUCK: Duration = Duration::from_secs(10);

/// Of the loops the fleet's is the slowest: it wakes at least every 6 minutes to ask what is served.
const LONGEST: Duration = Duration::from_secs(600);

/// Alive: the loops turn. That this is answered at all shows it of the runtime, which all tasks share; a task that panics
/// ends the process. The writer of the state file is a thread of its own, and is asked. The service's own loop, the fleet's
/// and the election's have to have come round lately. What waits for another side has a time limit of its own and is not
/// looked at here: informers, sinks, readers of the page. Neither a full disk nor a slow one is a reason to be restarted,
/// which would take what is in the disk's way and put more there; loops that wait for it may.
async fn livez(store: &Store, loops: &[(&'static str, Turned)]) -> (StatusCode, String) {
    let mut alive = true;
    let mut text = "[+] runtime: turns\n".to_owned();
    let mut check = |fine: bool, name: &str, detail: &str| {
        alive &= fine;
        text += &format!("[{}] {name}: {detail}\n", if fine { '+' } else { '-' });
    };
    let turns = store.turns(ROUND).await;
    let waited = store.disk_wait();
    match waited.filter(|_| !turns) {
        None if turns => check(true, "writer", "turns"),
        Some(waited) => check(true, "writer", &format!("has waited for the disk for {} s", waited.as_secs())),
        None => check(false, "writer", &format!("has not come round for {} s", ROUND.as_secs())),
    }
    let held_up = waited.is_some() || store.health().borrow().failing.is_some();
    for (name, turned) in loops {
        match (silence(turned), held_up) {
            (silence, _) if silence < LONGEST => check(true, name, "turns"),
            (silence, true) => check(true, name, &format!("has waited for the disk for {} s", silence.as_secs())),
            (silence, false) => check(false, name, &format!("has not come round for {} s", silence.as_secs())),
        }
    }
    (if alive { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

/// Ready: something is in sync, and so is everything else that has had no trouble; the state file can be written; of
/// several replicas the Lease was reached once, and a standby is as ready as the leader.
async fn readyz(State(health): State<Health>) -> (StatusCode, String) {
    let mut ready = true;
    let mut lines = Vec::new();
    let mut check = |fine: bool, name: &str, detail: String| {
        ready &= fine;
        lines.push(format!("[{}] {name}: {detail}\n", if fine { '+' } else { '-' }));
    };
    let discovered = health.metrics.overview.borrow().discovered;
    check(
        discovered,
        "discovery",
        if discovered { "done".into() } else { "the API server has not answered yet".into() },
    );
    let slow = health.metrics.store.disk_wait().filter(|waited| *waited > STUCK);
    let slow = slow.map(|waited| format!("a commit has waited for the disk for {} s", waited.as_secs()));
    let failing = health.metrics.store.health().borrow().failing.clone().or(slow);
    check(failing.is_none(), "state", failing.unwrap_or_else(|| "writable".into()));
    if let Some(replica) = &health.metrics.replica {
        let status = replica.borrow().clone();
        check(status.reached, "replica", status.to_string());
    }
    let seen: Vec<Seen> = health.metrics.factory.informers().iter().map(Seen::new).collect();
    let (fine, detail) = judge(seen);
    check(fine, "informers", detail);
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, lines.concat())
}

/// An informer, as far as it matters here.
struct Seen {
    feed: String,
    synced: bool,
    /// What went wrong last.
    trouble: Option<String>,
    state: &'static str,
}

impl Seen {
    fn new(informer: &Informer) -> Self {
        let status = informer.status().borrow().clone();
        let trouble = status.problem.as_ref().map(|problem| problem.error.to_string());
        Self { feed: informer.feed().to_string(), synced: informer.has_synced(), trouble, state: status.state() }
    }
}

/// One bad resource is one bad resource: what is forbidden or fails is told and does not count, from its first failure
/// until it is in sync, also while it is being tried again. But where nothing at all is in sync, nothing is seen.
fn judge(mut seen: Vec<Seen>) -> (bool, String) {
    seen.sort_by(|a, b| (a.trouble.is_some(), &a.feed).cmp(&(b.trouble.is_some(), &b.feed)));
    let synced = seen.iter().filter(|one| one.synced).count();
    let fine = synced > 0 && seen.iter().all(|one| one.synced || one.trouble.is_some());
    let mut detail = match seen.len() {
        0 => "nothing is watched: the cluster serves nothing that the configuration asks for".to_owned(),
        all => format!("{synced} of {all} in sync"),
    };
    for one in seen.iter().filter(|one| !one.synced) {
        detail += &format!("\n    {}: {}", one.feed, one.trouble.as_deref().unwrap_or(one.state));
    }
    (fine, detail)
}

#[cfg(test)]
mod tests {
    use tokio::{sync::watch, time::Instant};

    use super::*;
    use crate::cluster::store::Place;

    fn seen(feed: &str, synced: bool, trouble: Option<&str>, state: &'static str) -> Seen {
        Seen { feed: feed.to_owned(), synced, trouble: trouble.map(str::to_owned), state }
    }

    #[test]
    fn one_bad_resource_does_not_count_whatever_is_tried_with_it_and_nothing_in_sync_does() {
        let pods = || seen("v1/pods", true, None, "live");
        for state in ["waiting", "listing", "not_permitted", "connecting"] {
            let (fine, said) = judge(vec![pods(), seen("v1/secrets", false, Some("no answer"), state)]);
            assert_eq!((fine, said.as_str()), (true, "1 of 2 in sync\n    v1/secrets: no answer"), "{state}");
        }
        for state in ["starting", "listing"] {
            let (fine, said) = judge(vec![pods(), seen("v1/secrets", false, None, state)]);
            assert_eq!((fine, said), (false, format!("1 of 2 in sync\n    v1/secrets: {state}")));
        }
        // What was in sync once may fail later.
        assert!(judge(vec![seen("v1/pods", true, Some("no answer"), "waiting")]).0);
        let (fine, said) = judge(vec![seen("v1/pods", false, Some("not permitted"), "not_permitted")]);
        assert_eq!((fine, said.as_str()), (false, "0 of 1 in sync\n    v1/pods: not permitted"));
        let (fine, said) = judge(Vec::new());
        assert!(!fine && said.contains("nothing is watched"), "{said}");
    }

    #[tokio::test]
    async fn it_is_alive_while_the_writer_turns_and_not_while_it_is_stuck() {
        let (store, writing) = Store::open(&Place::Temporary, None).unwrap();
        assert_eq!(livez(&store, &[]).await.0, StatusCode::OK);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let stuck = store.clone();
        let stuck = tokio::spawn(async move {
            let hold = Box::new(move |_: &rusqlite::Transaction<'_>| {
                let _ = held.recv();
                Ok(())
            });
            stuck.write(hold).await
        });
        tokio::task::yield_now().await;
        let (status, text) = livez(&store, &[]).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
        assert!(text.contains("[-] writer"), "{text}");
        drop(release);
        stuck.await.unwrap().unwrap();
        assert_eq!(livez(&store, &[]).await.0, StatusCode::OK);
        drop(store);
        tokio::task::spawn_blocking(|| writing.join()).await.unwrap();
    }

    #[tokio::test]
    async fn it_is_not_alive_when_a_loop_has_not_come_round_and_says_which() {
        let (store, writing) = Store::open(&Place::Temporary, None).unwrap();
        let at = |ago: u64| watch::channel(Instant::now().checked_sub(Duration::from_secs(ago)).unwrap()).1;
        let (status, text) = livez(&store, &[("service", at(20)), ("fleet", at(400))]).await;
        assert_eq!(text, "[+] runtime: turns\n[+] writer: turns\n[+] service: turns\n[+] fleet: turns\n");
        assert_eq!(status, StatusCode::OK);
        let (status, text) = livez(&store, &[("service", at(20)), ("election", at(601))]).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
        assert!(text.contains("[+] service: turns\n[-] election: has not come round for 60"), "{text}");
        drop(store);
        tokio::task::spawn_blocking(|| writing.join()).await.unwrap();
    }
}
