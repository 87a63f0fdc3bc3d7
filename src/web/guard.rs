//! What every request and every answer has to keep to: names of the server, methods, sizes, headers, connections.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{Server, Settings, problem::Problem};

/// Bytes of a body: a silence has a few hundred.
pub const MOST_BODY: usize = 16 << 10;
/// Bytes of a path with its parameters.
const MOST_URI: usize = 8 << 10;
/// Bytes of a request's first lines.
const MOST_HEAD: usize = 32 << 10;
/// How long they may take to arrive.
const SLOW_REQUEST: Duration = Duration::from_secs(30);
/// Connections at a time; more wait.
const CONNECTIONS: usize = 512;

/// No script, style or picture but the page's own files, no frame around it, nothing told to others.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// The names under which the server is asked. Where no token is needed, a page of somebody else's could reach it by a
/// name of its own that leads to this address (DNS rebinding): there, only names will do that nobody else can have.
#[derive(Clone, Debug)]
pub enum Hosts {
    /// A page of somebody else's has no token.
    Any,
    /// Those that mean this machine, and the one under which people reach the page.
    Loopback(Option<String>),
    /// Those of a network behind which no name of the internet can be: addresses, names without a dot, names of services.
    Network(Option<String>),
}

impl Hosts {
    pub fn new(settings: &Settings) -> Self {
        let public = settings.page_url.as_deref().and_then(|url| url.parse::<axum::http::Uri>().ok());
        let public = public.and_then(|url| url.host().map(str::to_ascii_lowercase));
        match settings.address.ip().is_loopback() {
            _ if settings.needs_token() => Self::Any,
            true => Self::Loopback(public),
            false => Self::Network(public),
        }
    }

    fn take(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).map(without_port);
        let (public, on_network) = match self {
            Self::Any => return true,
            Self::Loopback(public) => (public, false),
            Self::Network(public) => (public, true),
        };
        let Some(host) = host.filter(|host| !host.is_empty()) else { return false };
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        let of_service = || !host.contains('.') || [".svc", ".cluster.local"].iter().any(|end| host.ends_with(end));
        address.is_some_and(|address| on_network || address.is_loopback())
            || host == "localhost"
            || host.ends_with(".localhost")
            || public.as_ref() == Some(&host)
            || (on_network && address.is_none() && of_service())
    }
}

fn without_port(host: &str) -> String {
    let host = host.trim().to_ascii_lowercase();
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() => name.to_owned(),
        _ => host,
    }
}

pub(super) async fn guard(State(server): State<Server>, request: Request, next: Next) -> Response {
    let mut response = match refusal(&server, &request) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn refusal(server: &Server, request: &Request) -> Option<Problem> {
    let headers = request.headers();
    if !server.hosts.take(headers) {
        let remedy = "ask it as localhost, or set server.page_url to the name under which it is reached";
        return Some(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "wrong-host",
            "this is not the server's name",
            remedy,
        ));
    }
    if request.uri().path_and_query().is_some_and(|uri| uri.as_str().len() > MOST_URI) {
        return Some(Problem::new(
            StatusCode::URI_TOO_LONG,
            "too-long",
            "the address is too long",
            "ask for less at once",
        ));
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads && !(request.uri().path().starts_with("/api/v1/silences")) {
        return Some(Problem::method());
    }
    // A page of somebody else's may not write: it cannot but say where it comes from.
    let foreign = headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
    let other_origin = match (headers.get(header::ORIGIN), headers.get(header::HOST)) {
        (Some(origin), Some(host)) => {
            let (origin, host) = (origin.to_str().unwrap_or_default(), host.to_str().unwrap_or_default());
            origin.split_once("://").is_none_or(|(_, origin)| !origin.eq_ignore_ascii_case(host))
        }
        _ => false,
    };
    (!reads && (foreign || other_origin))
        .then(|| Problem::forbidden("another site may not do this", "use kubediff's own page, or the command line"))
}

/// Takes connections, so many at a time, until it is told to stop; then those that are idle end, and the others after
/// their answer.
pub(super) async fn accept(listener: TcpListener, router: Router, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut open = JoinSet::new();
    loop {
        let accepted = async {
            let place = room.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = open.join_next() => {}
            (place, accepted) = accepted => match accepted {
                Ok((stream, _)) => drop(open.spawn(connection(stream, place.ok(), router.clone(), stop.clone()))),
                Err(error) => {
                    // Too many open files, most likely: some will be closed.
                    tracing::warn!(%error, "a connection to the page could not be taken");
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            },
        }
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

/// One connection, from its first request to its last. The place is held as long as it lives.
async fn connection(stream: TcpStream, place: Option<OwnedSemaphorePermit>, router: Router, stop: CancellationToken) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(SLOW_REQUEST).max_buf_size(MOST_HEAD);
    let serving = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(serving);
    tokio::select! {
        // It was cut or is not HTTP: nobody is left to be told.
        _ = serving.as_mut() => return drop(place),
        () = stop.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
    drop(place);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::Auth;

    fn takes(address: &str, auth: Auth, page_url: Option<&str>, host: &str) -> bool {
        let settings =
            Settings { address: address.parse().unwrap(), auth, page_url: page_url.map(str::to_owned), judge: None };
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        Hosts::new(&settings).take(&headers)
    }

    #[test]
    fn without_tokens_no_name_of_somebody_else_leads_here() {
        let on_loopback = |host: &str| takes("127.0.0.1:8080", Auth::Auto, Some("https://diff.example/x"), host);
        for host in
            ["127.0.0.1:8080", "[::1]:8080", "localhost", "a.localhost:8080", "diff.example", "DIFF.example:443"]
        {
            assert!(on_loopback(host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "10.0.0.5:8080", "kubediff", ""] {
            assert!(!on_loopback(host), "{host}");
        }
        let on_network = |host: &str| takes("0.0.0.0:8080", Auth::None, Some("https://diff.example"), host);
        for host in ["10.0.0.5:8080", "[fd00::5]:8080", "kubediff:8080", "kubediff.monitoring.svc", "localhost:8080"] {
            assert!(on_network(host), "{host}");
        }
        assert!(on_network("kubediff.monitoring.svc.cluster.local:80") && on_network("diff.example"));
        for host in ["evil.example", "10.0.0.5.evil.example", "svc.evil.example:8080", ""] {
            assert!(!on_network(host), "{host}");
        }
        assert!(takes("0.0.0.0:8080", Auth::Auto, None, "evil.example"), "there a token is needed");
        assert!(takes("127.0.0.1:8080", Auth::Token, None, "evil.example"));
    }
}
