//! Where events go. What every sink must do is written in `docs/specs/sink.md` and asserted on each of them by
//! `tests/sinks.rs`.
//!
//! | file | what it holds |
//! |---|---|
//! | [`stdout`] | one line an event, for log collectors and people |
//! | [`webhook`] | an HTTP request an event, or a batch of them |
//! | [`slack`] | messages that a person wants to read, one per root owner and window |
//! | `rollup` | all changes of one root owner in one window as one message, for chat |
//! | [`mod@format`], [`describe`] | the event as others expect it, and as people do |
//! | `http` | the one way to build an HTTP client, and what an HTTP answer means |
//! | [`sample`] | the event that `kubediff test-sink` sends |
//!
//! A sink only sends. Order, retries, deadlines and dead letters are the delivery worker's ([`crate::ledger`]).

pub mod describe;
pub mod format;
mod http;
pub(crate) mod rollup;
pub mod sample;
pub mod slack;
pub mod stdout;
pub mod webhook;

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;

pub use self::rollup::Card;
use self::rollup::Story;
use crate::event::{Event, Redacted};

/// Sends events to one place. It keeps no queue and never retries by itself.
pub trait Sink: Send + Sync + 'static {
    /// Sends all of `batch`, in that order, and answers for all of it once the other side has taken it for good. An
    /// answer other than [`Outcome::Delivered`] may be given after a part was sent: events can arrive twice, with the
    /// same id.
    ///
    /// It may be dropped at any moment, which counts as not delivered.
    fn send<'a>(&'a self, batch: &'a [Arc<Redacted>]) -> BoxFuture<'a, Outcome>;

    /// Sends one event, and tells what the other side said when it took it, where it says something: for people who try a
    /// sink out. Nothing secret is in it.
    fn try_out<'a>(&'a self, event: &'a Arc<Redacted>) -> BoxFuture<'a, (Outcome, String)> {
        Box::pin(async move { (self.send(std::slice::from_ref(event)).await, String::new()) })
    }

    /// How it wants to be used.
    fn pace(&self) -> Pace;

    /// Whether updates are to come with their whole object, as the change left it. It has to be worked out for each.
    fn wants_whole(&self) -> bool {
        false
    }
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The other side has it.
    Delivered,
    /// Not now. `after` is what the other side asked for; it holds for everything that goes there.
    Retry { after: Option<Duration>, reason: String },
    /// Never: this event as it is will not be taken. A batch of several is tried one by one before any is given up.
    Reject { reason: String },
    /// The other side asks to be left alone for good (HTTP 410). Nothing more is sent until the next start.
    Disabled { reason: String },
    /// Nobody reads any more and that is fine: the program ends cleanly. Only stdout says so.
    Closed,
}

impl Outcome {
    pub fn retry(reason: impl Into<String>) -> Self {
        Self::Retry { after: None, reason: reason.into() }
    }

    pub fn reject(reason: impl Into<String>) -> Self {
        Self::Reject { reason: reason.into() }
    }
}

/// How a sink wants to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Events that one `send` takes at most.
    pub batch: usize,
    /// Calls of `send` at the same time, each with other objects.
    pub in_flight: usize,
    /// An attempt is not cut short, however long it takes: a pipe that is full is no failure.
    pub patient: bool,
}

/// A place where people talk: what goes there is rolled up into messages ([`Card`]).
pub trait Chat: Send + Sync + 'static {
    /// Posts a message, in the thread of another one or by itself. Where nothing can be edited there is no place.
    fn post<'a>(&'a self, card: &'a Card, thread: Option<&'a Place>) -> BoxFuture<'a, Result<Option<Place>, Failed>>;

    /// Changes a message in place.
    fn update<'a>(&'a self, place: &'a Place, card: &'a Card) -> BoxFuture<'a, Result<(), Failed>>;

    fn habits(&self) -> Habits;

    /// A name for where its messages go, the same for two sinks that write to the same channel: a channel has one pace.
    /// `place` is where one of its messages stands, by which the channel may be known better. Nothing secret is in it.
    fn channel(&self, place: Option<&Place>) -> String;
}

/// Where a message stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub channel: String,
    pub ts: String,
}

/// Why a message could not be posted or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Never [`Outcome::Delivered`].
    Outcome(Outcome),
    /// The message that should be changed or answered is not there any more, or too old.
    Gone,
}

impl From<Outcome> for Failed {
    fn from(outcome: Outcome) -> Self {
        Self::Outcome(outcome)
    }
}

/// How a chat wants to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// Messages can be changed and have threads.
    pub edits: bool,
    /// How long a message waits for more of the same owner.
    pub wait: Duration,
    /// How long the same owner's changes go to the same message.
    pub max: Duration,
    /// One message in this time, and so many at once after a quiet while.
    pub interval: Duration,
    pub burst: u32,
}

/// A sink that is ready to be used.
#[derive(Clone)]
pub enum Built {
    Sink(Arc<dyn Sink>),
    Chat(Arc<dyn Chat>),
}

impl Built {
    /// Sends one event at once, and tells what the other side said: for people who try a sink out.
    pub async fn try_out(&self, event: &Arc<Redacted>) -> (Outcome, String) {
        let chat = match self {
            Self::Sink(sink) => return sink.try_out(event).await,
            Self::Chat(chat) => chat,
        };
        let mut story = Story::default();
        story.add(event);
        match chat.post(&story.card(), None).await {
            Ok(Some(Place { channel, ts })) => (Outcome::Delivered, format!("channel {channel}, ts {ts}")),
            Ok(None) => (Outcome::Delivered, "ok (an incoming webhook does not say in which channel)".into()),
            Err(Failed::Outcome(outcome)) => (outcome, String::new()),
            Err(Failed::Gone) => (Outcome::retry("the message is gone"), String::new()),
        }
    }
}

/// Builds a sink; connects to nothing.
pub fn build(settings: &Settings) -> Result<Built, BuildError> {
    Ok(match &settings.target {
        Target::Stdout(stdout) => Built::Sink(Arc::new(stdout::Stdout::new(*stdout)?)),
        Target::Webhook(webhook) => Built::Sink(Arc::new(webhook::Webhook::new(webhook)?)),
        Target::Slack(slack) => Built::Chat(Arc::new(slack::Slack::new(slack)?)),
    })
}

/// An HTTP client as sinks have it, for others who ask: PEM certificates that are trusted besides the system's.
pub fn client(ca: Option<&str>) -> Result<reqwest::Client, BuildError> {
    http::client(&http::Connect { ca, ..http::Connect::default() })
}

/// Where the page shows an event.
pub fn link(page: &str, event: &Event) -> String {
    link_to(page, Some(&event.id))
}

fn link_to(page: &str, event: Option<&str>) -> String {
    let page = page.trim_end_matches('/');
    event.map_or_else(|| page.to_owned(), |id| format!("{page}/?event={id}"))
}

/// A sink as the configuration describes it, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// As in `[sinks.NAME]`.
    pub name: String,
    pub target: Target,
    pub retry: Retry,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    Stdout(stdout::Settings),
    Webhook(Box<webhook::Settings>),
    Slack(Box<slack::Settings>),
}

impl Target {
    /// The `type` in the configuration.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Stdout(_) => "stdout",
            Self::Webhook(_) => "webhook",
            Self::Slack(_) => "slack",
        }
    }
}

/// How often and how long a delivery is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// An attempt without an answer by then has failed. `timeout_secs`
    pub timeout: Duration,
    /// The first pause; each one after that is twice as long, with jitter. `retry_min_secs`
    pub min: Duration,
    /// The longest pause. `retry_max_secs`
    pub max: Duration,
    /// An event that could not be delivered for this long becomes a dead letter. `retry_for_secs`
    pub budget: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(15),
            min: Duration::from_secs(1),
            max: Duration::from_secs(60),
            budget: Duration::from_secs(24 * 3600),
        }
    }
}

/// A value that must not be shown. It prints as `<secret>` wherever it ends up.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// What is wrong with a target, each with the part of its settings: `["headers", "X-Key"]`. Nothing is connected, nothing
/// is sent.
pub fn objections(target: &Target) -> Vec<(Vec<String>, BuildError)> {
    match target {
        Target::Stdout(_) => Vec::new(),
        Target::Webhook(settings) => webhook::objections(settings),
        Target::Slack(settings) => slack::objections(settings),
    }
}

/// Why a sink cannot be built from its settings. Never holds a URL or another secret.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("the URL is not one: {0}")]
    Url(String),
    #[error("the TLS settings cannot be used: {0}")]
    Tls(String),
    #[error("the proxy cannot be used: {0}")]
    Proxy(String),
    #[error("a header cannot be sent: {0}")]
    Header(String),
    #[error("a signing secret is not `whsec_` and base64: {0}")]
    SigningSecret(String),
    #[error("the template does not compile: {0}")]
    Template(String),
    #[error(
        "batch is {0}, and the template reads the first event of a batch alone, so that the others would be lost: leave batch out, or write a template that goes through `events`"
    )]
    Batch(usize),
    #[error("cannot start: {0}")]
    Io(#[from] std::io::Error),
}
