//! The fault proxy: stands between a client and the API server, passes requests on, and breaks the ones it is told to.
//!
//! It ends the client's TLS with a certificate of the harness's authority, and speaks HTTP/1.1 on both sides, so that
//! one stream is one connection. Tokens pass through.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use http_body_util::{BodyExt, StreamBody};
use hyper::{Request, Response, body::Incoming, header};
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::{
    Access,
    certs::CA,
    pipe::{Flow, Pipe},
    request::Seen,
    serve::{Answered, Body, Server, full},
};

pub use super::{
    pipe::{After, Then},
    request::{Matching, Verb},
};

/// What to do to a request that matches.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Answer with this code and a Kubernetes `Status`; with Retry-After seconds if given. The server is not asked.
    Answer { code: u16, retry_after: Option<u32> },
    /// Wait, then pass it on.
    Delay(Duration),
    /// Never answer.
    Hang,
    /// Close the connection without an answer.
    Drop,
    /// Pass the answer on up to a point, then do this to it.
    Stream(After, Then),
}

impl Fault {
    pub fn answer(code: u16) -> Self {
        Self::Answer { code, retry_after: None }
    }

    /// In a word or two.
    pub fn name(&self) -> String {
        match self {
            Self::Answer { code, .. } => format!("answer {code}"),
            Self::Delay(_) => "delay".into(),
            Self::Hang => "hang".into(),
            Self::Drop => "drop".into(),
            Self::Stream(_, Then::EndWith(_)) => "error event".into(),
            Self::Stream(_, then) => format!("{then:?}").split(['(', ' ']).next().unwrap_or_default().to_lowercase(),
        }
    }

    /// 429 as the API server says it.
    pub fn too_many_requests(retry_after: u32) -> Self {
        Self::Answer { code: 429, retry_after: Some(retry_after) }
    }

    /// An ERROR event of this code in the stream, after which it ends.
    pub fn error_event(after: usize, code: u16) -> Self {
        let event = json!({"type": "ERROR", "object": status(code)});
        Self::Stream(After::Events(after), Then::EndWith(format!("{event}\n").into()))
    }
}

struct Rule {
    matching: Matching,
    fault: Fault,
    /// Matching requests that it still lets pass.
    passes: usize,
    /// `None`: always.
    left: Option<usize>,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    seen: Vec<Seen>,
    /// The answers that are under way. A closed one has no receiver any more.
    streams: Vec<(Seen, watch::Sender<Flow>)>,
    /// How often each fault struck.
    struck: BTreeMap<String, usize>,
}

pub struct Proxy {
    server: Server,
    state: Arc<Mutex<State>>,
    access: Access,
}

impl Proxy {
    /// Stands before the server that `upstream` leads to.
    pub fn start(upstream: &Access) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let http = upstream.http_builder().http1_only().build().expect("an HTTP client");
        let server = Server::start(Some(CA.server_config(false)), {
            let (state, url) = (state.clone(), upstream.url.clone());
            move |request| answer(request, state.clone(), http.clone(), url.clone())
        });
        let access = Access { url: server.url(), token: upstream.token.clone() };
        Self { server, state, access }
    }

    /// The way through the proxy.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// A new client in the caller's runtime.
    pub async fn client(&self) -> kube::Client {
        self.access.client().await
    }

    /// A kubeconfig file in `dir` that leads through the proxy.
    pub fn kubeconfig(&self, dir: &Path) -> PathBuf {
        self.access.write_kubeconfig(dir, &format!("kubeconfig-proxy-{}", self.server.addr.port()))
    }

    /// Does this to every matching request from now on. Of several rules the oldest that matches counts.
    pub fn fault(&self, matching: Matching, fault: Fault) {
        self.state().rules.push(Rule { matching, fault, passes: 0, left: None });
    }

    /// Does this to the next `n` matching requests.
    pub fn fault_next(&self, n: usize, matching: Matching, fault: Fault) {
        self.state().rules.push(Rule { matching, fault, passes: 0, left: Some(n) });
    }

    /// Does this to one matching request: the `nth` from now on, whatever other rules do to those before it.
    pub fn fault_nth(&self, nth: usize, matching: Matching, fault: Fault) {
        self.state().rules.push(Rule { matching, fault, passes: nth - 1, left: Some(1) });
    }

    /// Forgets all rules, lets stalled streams flow, takes connections again.
    pub fn heal(&self) {
        self.state().rules.clear();
        self.set_flow(&Matching::all(), Flow::Open);
        self.server.refuse(false);
    }

    /// How often each fault struck a request or an answer that was under way: those that nobody met are not counted.
    pub fn struck(&self) -> BTreeMap<String, usize> {
        self.state().struck.clone()
    }

    /// Cuts the matching answers that are under way.
    pub fn cut(&self, matching: &Matching) {
        self.set_flow(matching, Flow::Cut);
    }

    /// Sends nothing more on the matching answers that are under way, until [`Proxy::resume`].
    pub fn stall(&self, matching: &Matching) {
        self.set_flow(matching, Flow::Stalled);
    }

    pub fn resume(&self, matching: &Matching) {
        self.set_flow(matching, Flow::Open);
    }

    /// Refuses connections and cuts the open ones; `false` takes them again.
    pub fn refuse(&self, refuse: bool) {
        self.server.refuse(refuse);
    }

    /// How many matching answers are under way: open watches.
    pub fn open(&self, matching: &Matching) -> usize {
        let state = self.state();
        state.streams.iter().filter(|(seen, flow)| !flow.is_closed() && matching.matches(seen)).count()
    }

    /// The requests since the start or the last [`Proxy::forget`], in order of arrival.
    pub fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// How many of them match: `proxy.count(&Matching::lists("configmaps"))`.
    pub fn count(&self, matching: &Matching) -> usize {
        self.state().seen.iter().filter(|seen| matching.matches(seen)).count()
    }

    pub fn forget(&self) {
        self.state().seen.clear();
    }

    fn set_flow(&self, matching: &Matching, to: Flow) {
        let mut state = self.state();
        let open = state.streams.iter().filter(|(seen, flow)| !flow.is_closed() && matching.matches(seen));
        let set = |flow: &watch::Sender<Flow>| {
            flow.send_if_modified(|flow| *flow != Flow::Cut && std::mem::replace(flow, to) != to)
        };
        let streams = open.filter(|(_, flow)| set(flow)).count();
        if to != Flow::Open && streams > 0 {
            *state.struck.entry(format!("{to:?}").to_lowercase()).or_default() += streams;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no panic while it is held")
}

async fn answer(request: Request<Incoming>, state: Arc<Mutex<State>>, http: reqwest::Client, url: String) -> Answered {
    let seen = Seen::new(&request, Instant::now());
    let fault = {
        let mut state = lock(&state);
        state.seen.push(seen.clone());
        let mut fault = None;
        for rule in state.rules.iter_mut().filter(|rule| rule.matching.matches(&seen)) {
            if rule.passes > 0 {
                rule.passes -= 1;
            } else if fault.is_none() && rule.left != Some(0) {
                rule.left = rule.left.map(|n| n - 1);
                fault = Some(rule.fault.clone());
            }
        }
        if let Some(fault) = &fault {
            *state.struck.entry(fault.name()).or_default() += 1;
        }
        fault
    };
    let point = match fault {
        Some(Fault::Answer { code, retry_after }) => return Ok(refusal(code, retry_after)),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Drop) => return Err(io::Error::other("told to drop it")),
        Some(Fault::Delay(delay)) => {
            tokio::time::sleep(delay).await;
            None
        }
        Some(Fault::Stream(after, then)) => Some((after, then)),
        None => None,
    };
    let upstream = match forward(request, &http, &url).await {
        Ok(upstream) => upstream,
        // A server that is down looks the same through the proxy.
        Err(e) => return Err(io::Error::other(e)),
    };
    let mut response = Response::builder().status(upstream.status());
    for (name, value) in upstream.headers() {
        if ![header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION].contains(name) {
            response = response.header(name, value);
        }
    }
    let (flow, flowing) = watch::channel(Flow::Open);
    {
        let mut state = lock(&state);
        state.streams.retain(|(_, flow)| !flow.is_closed());
        state.streams.push((seen, flow));
    }
    let (to, from) = mpsc::channel(1);
    tokio::spawn(Pipe::new(to, flowing, point).run(upstream));
    let frames = futures::stream::unfold(from, |mut from| async move { Some((from.recv().await?, from)) });
    Ok(response.body(StreamBody::new(frames).boxed_unsync()).expect("a response"))
}

async fn forward(request: Request<Incoming>, http: &reqwest::Client, url: &str) -> Result<reqwest::Response, String> {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut headers = head.headers;
    for name in [header::HOST, header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH] {
        headers.remove(name);
    }
    let body = body.collect().await.map_err(|e| e.to_string())?.to_bytes();
    let mut request = http.request(head.method, format!("{url}{path}")).headers(headers);
    if !body.is_empty() {
        request = request.body(body);
    }
    request.send().await.map_err(|e| e.to_string())
}

fn refusal(code: u16, retry_after: Option<u32>) -> Response<Body> {
    let mut response = Response::builder().status(code).header(header::CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    response.body(full(status(code).to_string())).expect("a response")
}

/// The `Status` object that the API server sends with an error.
fn status(code: u16) -> serde_json::Value {
    let (reason, message) = match code {
        401 => ("Unauthorized", "Unauthorized"),
        403 => ("Forbidden", "forbidden by the fault proxy"),
        404 => ("NotFound", "the server could not find the requested resource"),
        410 => ("Expired", "too old resource version: 1 (2)"),
        429 => ("TooManyRequests", "too many requests, please try again later"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => ("Timeout", "Too large resource version: 9, current: 1"),
        _ => ("InternalError", "an error of the fault proxy"),
    };
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code})
}
