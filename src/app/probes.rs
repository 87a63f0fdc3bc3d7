//! `/livez`, `/readyz` and `/metrics`: what an orchestrator asks, with the reason for each answer.

use std::net::SocketAddr;

use axum::{
    Router,
    extract::State,
    http::{HeaderName, StatusCode, header},
    routing::get,
};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::{fleet::Overview, reflector::Phase},
    metrics,
};

/// What the answers are made from.
#[derive(Clone)]
pub(super) struct Health {
    pub(super) overview: watch::Receiver<Overview>,
    pub(super) metrics: metrics::Sources,
}

pub(super) async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "probes");
    Ok(listener)
}

pub(super) async fn serve(listener: TcpListener, health: Health, stop: CancellationToken) {
    let router = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
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

/// Ready: everything that may be read was in sync once, and the state file can be written. A resource that is forbidden
/// or does not answer is told and does not count: one bad resource is one bad resource.
async fn readyz(State(health): State<Health>) -> (StatusCode, String) {
    let mut ready = true;
    let mut lines = Vec::new();
    let mut check = |fine: bool, name: &str, detail: String| {
        ready &= fine;
        lines.push(format!("[{}] {name}: {detail}\n", if fine { '+' } else { '-' }));
    };
    let discovered = health.overview.borrow().discovered;
    check(
        discovered,
        "discovery",
        if discovered { "done".into() } else { "the API server has not answered yet".into() },
    );
    let failing = health.metrics.store.health().borrow().failing.clone();
    check(failing.is_none(), "state", failing.unwrap_or_else(|| "writable".into()));
    let informers = health.metrics.factory.informers();
    let synced = informers.iter().filter(|informer| informer.has_synced()).count();
    let mut waiting = Vec::new();
    for informer in informers.iter().filter(|informer| !informer.has_synced()) {
        let status = informer.status().borrow().clone();
        let degraded = status.phase == Phase::Waiting;
        let why = status.problem.filter(|_| degraded).map_or(status.phase.as_str().to_owned(), |p| p.error.to_string());
        waiting.push((degraded, informer.feed().to_string(), why));
    }
    let fine = waiting.iter().all(|(degraded, ..)| *degraded);
    check(fine, "informers", format!("{synced} of {} in sync", informers.len()));
    waiting.sort();
    lines.extend(waiting.iter().map(|(_, feed, why)| format!("    {feed}: {why}\n")));
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, lines.concat())
}
