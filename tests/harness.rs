//! What every test stands on: a real control plane, a proxy that makes it misbehave, and receivers that play the sinks.
//!
//! `cluster().await` is the one control plane of the run; a test that wants to break its control plane starts a private
//! one with `Cluster::start`. Every process here hangs on a guard (`guard.rs`) and dies with the test run.

pub mod access;
pub mod blocks;
pub mod browser;
pub mod certs;
pub mod cluster;
pub mod controllers;
pub mod guard;
pub mod namespace;
pub mod pipe;
pub mod proxy;
pub mod receiver;
pub mod request;
pub mod serve;
pub mod slack;
pub mod tools;

use std::{
    io::Write,
    time::{Duration, Instant},
};

use tokio::sync::OnceCell;

#[allow(unused_imports, reason = "the names that tests are written with")]
pub use self::{
    access::Access,
    browser::Browser,
    cluster::{Cluster, Options},
    namespace::Namespace,
    proxy::{After, Fault, Matching, Proxy, Then, Verb},
    receiver::{Answer, Received, Receiver},
    slack::Slack,
};

/// How long a test waits for something that should take seconds, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The control plane that all tests of this run share: etcd and kube-apiserver, started by the first who asks.
///
/// Tests run in runtimes of their own, so nothing in it is bound to one: it is child processes and plain data. It is
/// never dropped; the guards end it when this process does.
pub async fn cluster() -> &'static Cluster {
    static SHARED: OnceCell<Result<Cluster, String>> = OnceCell::const_new();
    let shared = SHARED.get_or_init(|| async { Cluster::try_start(Options::default()).await });
    match shared.await {
        Ok(cluster) => cluster,
        Err(why) => panic!("the control plane did not start: {why}"),
    }
}

/// Asks until there is an answer, and fails the test when there is none in time.
///
/// The deadline is of real time, also in tests whose tokio clock is paused.
#[track_caller]
pub fn poll<T>(
    deadline: Duration,
    what: impl Into<String>,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> impl Future<Output = T> {
    let (began, what, caller) = (Instant::now(), what.into(), std::panic::Location::caller());
    async move {
        let mut wait = Duration::from_millis(10);
        loop {
            if let Some(answer) = probe().await {
                return answer;
            }
            assert!(began.elapsed() < deadline, "waited {deadline:?} in vain, at {caller}, for: {what}");
            tokio::time::sleep(wait).await;
            wait = (wait * 3 / 2).min(Duration::from_millis(250));
        }
    }
}

/// Writes a line to stderr past the capture of the test runner, for what the reader of a run should see.
pub fn say(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Makes ring the TLS provider of this process, as kubediff's `main` does.
pub fn install_tls_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
