//! A recording HTTP(S) receiver that plays the sinks: it keeps every request, and answers as it is told.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    HeaderMap, Method, Request, Response,
    body::{Frame, Incoming},
    header,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rustls::ServerConfig;
use serde_json::Value;

use super::{
    certs::CA,
    poll,
    serve::{Answered, Server, full},
};

/// A request as it came in.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// When its body was whole.
    pub at: Instant,
    pub time: SystemTime,
    /// What it was answered.
    pub answer: Answer,
}

impl Received {
    /// The body as JSON; fails the test when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e} in the body {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// A header's value, `""` when it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap_or("not text"))
    }

    /// Whether the sender was told that it arrived.
    pub fn accepted(&self) -> bool {
        matches!(&self.answer, Answer::Reply { status, .. } if (200..300).contains(status))
    }
}

#[derive(Clone, Debug)]
pub enum Answer {
    Reply {
        status: u16,
        headers: Vec<(String, String)>,
        body: Bytes,
    },
    /// The request is taken, and never answered.
    Hang,
    /// The connection is cut before a byte of the answer.
    Cut,
    /// The connection is cut in the middle of the body of a 200: whether it arrived is anyone's guess.
    CutInBody,
    /// The other answer, later.
    Delayed(Duration, Box<Answer>),
}

impl Answer {
    pub fn status(status: u16) -> Self {
        Self::Reply { status, headers: Vec::new(), body: Bytes::new() }
    }

    pub fn ok() -> Self {
        Self::status(200)
    }

    /// 429 with `Retry-After`, in seconds or as a date.
    pub fn too_many_requests(retry_after: impl ToString) -> Self {
        Self::status(429).with_header("retry-after", retry_after)
    }

    pub fn redirect(status: u16, to: impl ToString) -> Self {
        Self::status(status).with_header("location", to)
    }

    pub fn json(status: u16, body: &Value) -> Self {
        Self::status(status).with_header("content-type", "application/json; charset=utf-8").with_body(body.to_string())
    }

    #[allow(clippy::needless_pass_by_value, reason = "a number or a text, as it reads best at the call")]
    pub fn with_header(mut self, name: &str, value: impl ToString) -> Self {
        if let Self::Reply { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.to_string()));
        }
        self
    }

    pub fn with_body(mut self, text: impl Into<Bytes>) -> Self {
        if let Self::Reply { body, .. } = &mut self {
            *body = text.into();
        }
        self
    }

    pub fn after(self, delay: Duration) -> Self {
        Self::Delayed(delay, Box::new(self))
    }
}

/// Decides on an answer from the request. Called for one request at a time, in order of arrival.
type Decide = Box<dyn FnMut(&Received) -> Answer + Send>;

struct State {
    received: Vec<Received>,
    /// Answers for the next requests; they come before `usual`.
    next: VecDeque<Answer>,
    usual: Decide,
}

pub struct Receiver {
    server: Server,
    state: Arc<Mutex<State>>,
}

impl Receiver {
    /// Plain HTTP; answers 200 until told otherwise.
    pub fn start() -> Self {
        Self::with(None, |_| Answer::ok())
    }

    /// HTTPS with a certificate of the harness's authority (`certs::CA.pem`).
    pub fn start_tls() -> Self {
        Self::with(Some(CA.server_config(false)), |_| Answer::ok())
    }

    /// HTTPS that asks for a client certificate of that authority (`certs::CA.client("name")`).
    pub fn start_mutual_tls() -> Self {
        Self::with(Some(CA.server_config(true)), |_| Answer::ok())
    }

    /// A receiver that thinks for itself.
    pub fn with(tls: Option<Arc<ServerConfig>>, decide: impl FnMut(&Received) -> Answer + Send + 'static) -> Self {
        let usual: Decide = Box::new(decide);
        let state = Arc::new(Mutex::new(State { received: Vec::new(), next: VecDeque::new(), usual }));
        let server = Server::start(tls, {
            let state = state.clone();
            move |request| answer(request, state.clone())
        });
        Self { server, state }
    }

    /// `receiver.url("/hook")`
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.url())
    }

    /// What every request is answered from now on, after what was queued by [`Receiver::then`].
    pub fn answer(&self, answer: Answer) {
        self.state().usual = Box::new(move |_| answer.clone());
    }

    /// Answers for the next requests, one each.
    pub fn then(&self, answers: impl IntoIterator<Item = Answer>) {
        self.state().next.extend(answers);
    }

    /// Takes back what was queued by [`Receiver::then`].
    pub fn as_usual(&self) {
        self.state().next.clear();
    }

    /// From now on each answer is drawn by weight; the same seed draws the same sequence.
    pub fn random(&self, seed: u64, mix: Vec<(u32, Answer)>) {
        let mut random = StdRng::seed_from_u64(seed);
        let total: u32 = mix.iter().map(|(weight, _)| weight).sum();
        self.state().usual = Box::new(move |_| {
            let mut at = random.random_range(0..total);
            let drawn = mix.iter().find(|(weight, _)| {
                let found = at < *weight;
                at = at.saturating_sub(*weight);
                found
            });
            drawn.map_or_else(Answer::ok, |(_, answer)| answer.clone())
        });
    }

    /// Refuses connections and cuts the open ones; `false` takes them again.
    pub fn refuse(&self, refuse: bool) {
        self.server.refuse(refuse);
    }

    /// All requests so far, in order of arrival.
    pub fn received(&self) -> Vec<Received> {
        self.state().received.clone()
    }

    /// Those that were answered with a 2xx.
    pub fn accepted(&self) -> Vec<Received> {
        self.state().received.iter().filter(|request| request.accepted()).cloned().collect()
    }

    pub fn forget(&self) {
        self.state().received.clear();
    }

    /// Waits until at least `n` requests have come.
    pub async fn wait_for(&self, n: usize, deadline: Duration) -> Vec<Received> {
        poll(deadline, format!("{n} requests at the receiver"), async || {
            let received = self.received();
            (received.len() >= n).then_some(received)
        })
        .await
    }

    /// Waits until at least `n` requests were answered with a 2xx.
    pub async fn wait_for_accepted(&self, n: usize, deadline: Duration) -> Vec<Received> {
        poll(deadline, format!("{n} accepted requests at the receiver"), async || {
            let accepted = self.accepted();
            (accepted.len() >= n).then_some(accepted)
        })
        .await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

async fn answer(request: Request<Incoming>, state: Arc<Mutex<State>>) -> Answered {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let mut received = Received {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body,
        at: Instant::now(),
        time: SystemTime::now(),
        answer: Answer::Hang,
    };
    let mut answer = {
        let mut state = lock(&state);
        let queued = state.next.pop_front();
        let answer = queued.unwrap_or_else(|| (state.usual)(&received));
        received.answer = answer.clone();
        state.received.push(received);
        answer
    };
    while let Answer::Delayed(delay, then) = answer {
        tokio::time::sleep(delay).await;
        answer = *then;
    }
    match answer {
        Answer::Reply { status, headers, body } => {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            Ok(response.body(full(body)).expect("a response"))
        }
        Answer::CutInBody => {
            let begun = stream::once(async { Ok(Frame::data(Bytes::from_static(b"{\"ok\""))) });
            let torn = stream::once(async {
                // Without a pause what was begun would stay in the server's buffer.
                tokio::task::yield_now().await;
                Err(io::Error::other("told to cut it"))
            });
            let response = Response::builder().header(header::CONTENT_LENGTH, 100);
            Ok(response.body(StreamBody::new(begun.chain(torn)).boxed_unsync()).expect("a response"))
        }
        Answer::Cut => Err(io::Error::other("told to cut it")),
        Answer::Hang | Answer::Delayed(..) => std::future::pending().await,
    }
}
