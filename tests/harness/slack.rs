//! A Slack that keeps to Slack's documented limits, and answers as Slack does: HTTP 200 with `ok:false` for most
//! mistakes, 429 with Retry-After for haste, plain `ok` from an incoming webhook.
//!
//! | what | where it is written |
//! |---|---|
//! | the errors of a call, and that `text` is cut | <https://docs.slack.dev/reference/methods/chat.postMessage>, <https://docs.slack.dev/reference/methods/chat.update> |
//! | one message a second a channel, tiers, 429 | <https://docs.slack.dev/apis/web-api/rate-limits> |
//! | the statuses and words of an incoming webhook | <https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks>, <https://api.slack.com/changelog/2016-05-17-changes-to-errors-for-incoming-webhooks> |
//! | limits of blocks | see `blocks.rs` |
//!
//! `cannot_reply_to_message` is on none of the pages; it is what callers report of a thread that is not there.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    blocks,
    receiver::{Answer, Received, Receiver},
};

pub const TOKEN: &str = "xoxb-test-token";
pub const WEBHOOK_PATH: &str = "/services/T000/B000/secret";

/// Longer texts are cut: <https://api.slack.com/changelog/2018-04-truncating-really-long-messages>.
const TEXT: usize = 40_000;
/// One message a second a channel, short bursts tolerated but not promised; a little less, since a sender's clock and
/// ours are not one.
pub const PACE: Duration = Duration::from_millis(900);
/// chat.update is of tier 3: 50 and more a minute, by method, workspace and app.
const UPDATES_A_MINUTE: usize = 60;

/// A message as the channel shows it.
#[derive(Clone, Debug)]
pub struct Message {
    /// The id, `C…`, whatever name the message was sent to.
    pub channel: String,
    pub ts: String,
    pub thread_ts: Option<String>,
    pub text: String,
    /// Its own and those of its attachments.
    pub blocks: Vec<Value>,
    /// Whether the text was longer than Slack shows.
    pub truncated: bool,
    /// How often chat.update changed it.
    pub edits: usize,
    pub at: Instant,
}

#[derive(Default)]
struct State {
    pace: Duration,
    /// By name, as `#ops`; the ids are made up when a name is first used.
    channels: HashMap<String, String>,
    messages: Vec<Message>,
    last_post: HashMap<String, Instant>,
    updates: Vec<Instant>,
    errors: Vec<String>,
    clock: u64,
}

pub struct Slack {
    receiver: Receiver,
    state: Arc<Mutex<State>>,
}

impl Slack {
    pub fn start() -> Self {
        Self::start_with_pace(PACE)
    }

    /// One that wants this long between two messages of a channel.
    pub fn start_with_pace(pace: Duration) -> Self {
        let state = Arc::new(Mutex::new(State { pace, ..State::default() }));
        let receiver = Receiver::with(None, {
            let state = state.clone();
            move |request| lock(&state).answer(request)
        });
        Self { receiver, state }
    }

    /// For `api_url`, with [`TOKEN`].
    pub fn api_url(&self) -> String {
        self.receiver.url("/api/")
    }

    /// For `webhook_url`; its messages go to the channel `#webhook`.
    pub fn webhook_url(&self) -> String {
        self.receiver.url(WEBHOOK_PATH)
    }

    /// What lies below: for the raw requests, and for faults of the transport (`slack.receiver().then(...)`).
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// The messages as they stand now, in the order in which they were posted.
    pub fn messages(&self) -> Vec<Message> {
        lock(&self.state).messages.clone()
    }

    /// The next calls fail with `ok:false` and this error: `is_archived`, `token_revoked`, `internal_error`.
    pub fn fail_next(&self, error: &str) {
        lock(&self.state).errors.push(error.to_owned());
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl State {
    fn answer(&mut self, request: &Received) -> Answer {
        if request.path.starts_with("/services/") {
            return self.webhook(request);
        }
        let result = match request.path.strip_prefix("/api/") {
            Some("chat.postMessage") => self.call(request, Self::post),
            Some("chat.update") => self.call(request, Self::update),
            Some("auth.test") => self.call(request, |_, _| Ok(json!({"ok": true, "team": "test", "user": "kubediff"}))),
            _ => Err(Refusal::Error("unknown_method", Vec::new())),
        };
        match result {
            Ok(answer) => Answer::json(200, &answer),
            Err(Refusal::Pace) => {
                Answer::json(429, &json!({"ok": false, "error": "ratelimited"})).with_header("retry-after", 1)
            }
            Err(Refusal::Told(error)) => Answer::json(200, &json!({"ok": false, "error": error})),
            Err(Refusal::Error(error, details)) => {
                let mut answer = json!({"ok": false, "error": error});
                if !details.is_empty() {
                    answer["response_metadata"] = json!({"messages": details});
                }
                Answer::json(200, &answer)
            }
        }
    }

    fn call(
        &mut self,
        request: &Received,
        method: fn(&mut Self, &Value) -> Result<Value, Refusal>,
    ) -> Result<Value, Refusal> {
        match request.header("authorization").strip_prefix("Bearer ") {
            None => return Err(error("not_authed")),
            Some(token) if token != TOKEN => return Err(error("invalid_auth")),
            Some(_) => {}
        }
        if !self.errors.is_empty() {
            return Err(Refusal::Told(self.errors.remove(0)));
        }
        if !request.header("content-type").starts_with("application/json") {
            return Err(error("invalid_post_type"));
        }
        let body: Value = serde_json::from_slice(&request.body).map_err(|_| error("invalid_json"))?;
        method(self, &body)
    }

    fn post(&mut self, body: &Value) -> Result<Value, Refusal> {
        let name = body["channel"].as_str().filter(|name| !name.is_empty()).ok_or(error("channel_not_found"))?;
        let channel = self.channel(name)?;
        let (text, blocks) = content(body)?;
        let thread_ts = match &body["thread_ts"] {
            Value::Null => None,
            Value::String(ts) if self.messages.iter().any(|m| m.ts == *ts && m.channel == channel) => Some(ts.clone()),
            _ => return Err(error("cannot_reply_to_message")),
        };
        self.pace(&channel)?;
        let message = self.keep(channel, thread_ts, &text, blocks);
        Ok(json!({"ok": true, "channel": message.channel, "ts": message.ts,
            "message": {"type": "message", "text": message.text, "ts": message.ts, "bot_id": "B000"}}))
    }

    fn update(&mut self, body: &Value) -> Result<Value, Refusal> {
        // Unlike chat.postMessage it wants the id, not the name.
        let channel = body["channel"].as_str().unwrap_or_default().to_owned();
        if !self.channels.values().any(|id| *id == channel) {
            return Err(error("channel_not_found"));
        }
        let (text, blocks) = content(body)?;
        let now = Instant::now();
        self.updates.retain(|at| now - *at < Duration::from_secs(60));
        if self.updates.len() >= UPDATES_A_MINUTE {
            return Err(Refusal::Pace);
        }
        self.updates.push(now);
        let found = self.messages.iter_mut().find(|m| m.channel == channel && body["ts"] == m.ts.as_str());
        let message = found.ok_or(error("message_not_found"))?;
        message.truncated = text.chars().count() > TEXT;
        message.text = text.chars().take(TEXT).collect();
        message.blocks = blocks;
        message.edits += 1;
        Ok(json!({"ok": true, "channel": message.channel, "ts": message.ts, "text": message.text}))
    }

    fn webhook(&mut self, request: &Received) -> Answer {
        if request.path != WEBHOOK_PATH {
            return Answer::status(404).with_body("no_service");
        }
        if !self.errors.is_empty() {
            let word = self.errors.remove(0);
            return Answer::status(status(&word)).with_body(word);
        }
        let body = serde_json::from_slice::<Value>(&request.body).map_err(|_| error("invalid_payload"));
        match body.and_then(|body| content(&body)) {
            Err(Refusal::Error(error, _)) => Answer::status(400).with_body(error),
            Err(Refusal::Told(error)) => Answer::status(400).with_body(error),
            Err(Refusal::Pace) => Answer::too_many_requests(1),
            Ok((text, blocks)) => {
                let channel = self.channel("#webhook").unwrap_or_default();
                if self.pace(&channel).is_err() {
                    return Answer::too_many_requests(1).with_body("rate_limited");
                }
                self.keep(channel, None, &text, blocks);
                Answer::ok().with_header("content-type", "text/html").with_body("ok")
            }
        }
    }

    /// The id of a channel that is named by `#name`, `name` or its id.
    fn channel(&mut self, name: &str) -> Result<String, Refusal> {
        if self.channels.values().any(|id| id == name) {
            return Ok(name.to_owned());
        }
        let name = name.trim_start_matches('#');
        if name.is_empty() || name.chars().any(|c| c.is_uppercase() || c.is_whitespace()) {
            return Err(error("channel_not_found"));
        }
        let id = format!("C{:08}", self.channels.len() + 1);
        Ok(self.channels.entry(name.to_owned()).or_insert(id).clone())
    }

    fn pace(&mut self, channel: &str) -> Result<(), Refusal> {
        let now = Instant::now();
        if self.last_post.get(channel).is_some_and(|last| now - *last < self.pace) {
            return Err(Refusal::Pace);
        }
        self.last_post.insert(channel.to_owned(), now);
        Ok(())
    }

    fn keep(&mut self, channel: String, thread_ts: Option<String>, text: &str, blocks: Vec<Value>) -> Message {
        self.clock += 1;
        let ts = format!("{}.{:06}", 1_700_000_000 + self.clock, self.clock * 100);
        let truncated = text.chars().count() > TEXT;
        let text = text.chars().take(TEXT).collect();
        let message = Message { channel, ts, thread_ts, text, blocks, truncated, edits: 0, at: Instant::now() };
        self.messages.push(message.clone());
        message
    }
}

/// The status that an incoming webhook says a word with, of those that are written down.
fn status(word: &str) -> u16 {
    match word {
        "action_prohibited" => 403,
        "channel_not_found" | "no_service" => 404,
        "channel_is_archived" => 410,
        "rollup_error" => 500,
        _ => 400,
    }
}

enum Refusal {
    Pace,
    Told(String),
    Error(&'static str, Vec<String>),
}

fn error(name: &'static str) -> Refusal {
    Refusal::Error(name, Vec::new())
}

/// The text and the checked blocks of a message.
fn content(body: &Value) -> Result<(String, Vec<Value>), Refusal> {
    let text = match &body["text"] {
        Value::Null => "",
        Value::String(text) => text,
        _ => return Err(error("invalid_arguments")),
    };
    let listed = |blocks: &Value| match blocks {
        Value::Null => Ok(Vec::new()),
        Value::Array(blocks) => Ok(blocks.clone()),
        _ => Err(error("invalid_blocks_format")),
    };
    let mut blocks = listed(&body["blocks"])?;
    let mut problems = blocks::problems(&blocks);
    for attachment in body["attachments"].as_array().into_iter().flatten() {
        let attached = listed(&attachment["blocks"])?;
        problems.extend(blocks::problems(&attached));
        blocks.extend(attached);
    }
    if text.is_empty() && blocks.is_empty() {
        return Err(error("no_text"));
    }
    if blocks::characters(&blocks) > blocks::TOTAL {
        return Err(error("msg_blocks_too_long"));
    }
    if problems.is_empty() { Ok((text.to_owned(), blocks)) } else { Err(Refusal::Error("invalid_blocks", problems)) }
}
