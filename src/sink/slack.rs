//! Messages that a person wants to read, by an incoming webhook or a bot token.

mod answer;
mod blocks;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use reqwest::{Client, Response, Url};
use serde_json::{Value, json};

use super::{
    BuildError, Chat, Failed, Habits, Outcome, Place, Secret, http as wire,
    rollup::{Card, Story},
};
use crate::event::Event;

/// `[sinks.NAME] type = "slack"`
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub access: Access,
    /// Where the page is reached by those who read the message; no link without it. `page_url`
    pub page_url: Option<String>,
    /// How long a message waits for more changes of the same root owner. `group_wait_secs`
    pub group_wait: Duration,
    /// How long changes of the same root owner go into the same message, its thread with a bot token. `group_max_secs`
    pub group_max: Duration,
    /// PEM certificates that are trusted besides the system's.
    pub ca: Option<String>,
    pub proxy: Option<Secret>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// `webhook_url`: messages can be posted and not changed.
    Webhook { url: Secret },
    /// `token` and `channel`: one message per root owner and window, edited in place, its parts in the thread.
    Bot { token: Secret, channel: String, api_url: String },
}

/// Slack's own API; `api_url` names another one for tests and proxies.
pub const API_URL: &str = "https://slack.com/api/";
pub const GROUP_WAIT: Duration = Duration::from_secs(10);
pub const GROUP_MAX: Duration = Duration::from_secs(300);

/// One message a second a channel, short bursts tolerated: <https://docs.slack.dev/apis/web-api/rate-limits>.
const INTERVAL: Duration = Duration::from_secs(1);
const BURST: u32 = 3;

impl Settings {
    pub fn new(access: Access) -> Self {
        Self { access, page_url: None, group_wait: GROUP_WAIT, group_max: GROUP_MAX, ca: None, proxy: None }
    }
}

pub struct Slack {
    client: Client,
    to: To,
    private: wire::Private,
    page_url: Option<String>,
    habits: Habits,
}

enum To {
    Webhook(Url),
    Bot { authorization: http::HeaderValue, channel: String, post: Url, update: Url },
}

/// What is wrong with each part of the settings, by itself.
pub(super) fn objections(settings: &Settings) -> Vec<(Vec<String>, BuildError)> {
    let mut found = Vec::new();
    for (part, connect) in [
        ("ca", wire::Connect { ca: settings.ca.as_deref(), ..wire::Connect::default() }),
        ("proxy", wire::Connect { proxy: settings.proxy.as_ref(), ..wire::Connect::default() }),
    ] {
        if connect.ca.is_some() || connect.proxy.is_some() {
            found.extend(wire::client(&connect).err().map(|error| (vec![part.to_owned()], error)));
        }
    }
    let to = Slack::new(&Settings { ca: None, proxy: None, ..settings.clone() });
    let part = match (&settings.access, &to) {
        (Access::Webhook { .. }, _) => "webhook_url",
        (Access::Bot { .. }, Err(BuildError::Url(_))) => "api_url",
        (Access::Bot { .. }, _) => "token",
    };
    found.extend(to.err().map(|error| (vec![part.to_owned()], error)));
    found
}

impl Slack {
    pub fn new(settings: &Settings) -> Result<Self, BuildError> {
        let client = wire::client(&wire::Connect {
            ca: settings.ca.as_deref(),
            certificate: None,
            proxy: settings.proxy.as_ref(),
        })?;
        let mut private = wire::Private::default();
        let to = match &settings.access {
            Access::Webhook { url } => {
                let url = wire::url(url)?;
                private = wire::Private::of(&url);
                To::Webhook(url)
            }
            Access::Bot { token, channel, api_url } => {
                private.add(token.expose().trim());
                let base = wire::url(&Secret::new(format!("{}/", api_url.trim_end_matches('/'))))?;
                let method = |name: &str| base.join(name).map_err(|why| BuildError::Url(why.to_string()));
                let mut authorization = http::HeaderValue::from_str(&format!("Bearer {}", token.expose().trim()))
                    .map_err(|_| BuildError::Header("token: it holds characters that no header may".into()))?;
                authorization.set_sensitive(true);
                let (post, update) = (method("chat.postMessage")?, method("chat.update")?);
                To::Bot { authorization, channel: channel.clone(), post, update }
            }
        };
        let habits = Habits {
            edits: matches!(to, To::Bot { .. }),
            wait: settings.group_wait,
            max: settings.group_max,
            interval: INTERVAL,
            burst: BURST,
        };
        Ok(Self { client, to, private, page_url: settings.page_url.clone(), habits })
    }

    async fn call(&self, url: &Url, mut message: Value) -> Result<Value, Failed> {
        let answered = self.send(url, &message).await;
        match answered {
            // Better plain than not at all.
            Err(Failed::Outcome(Outcome::Reject { reason })) if reason.contains("blocks") => {
                tracing::warn!(reason, "Slack does not take the blocks of a message; sending its text alone");
                if let Some(message) = message.as_object_mut() {
                    message.remove("attachments");
                }
                self.send(url, &message).await
            }
            other => other,
        }
    }

    async fn send(&self, url: &Url, message: &Value) -> Result<Value, Failed> {
        let mut request = self.client.post(url.clone()).json(message);
        if let To::Bot { authorization, .. } = &self.to {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let response = request.send().await.map_err(|error| wire::failure(error, &self.private))?;
        match self.to {
            To::Webhook(_) => webhook_answer(response, &self.private).await,
            To::Bot { .. } => api_answer(response, &self.private).await,
        }
    }
}

/// The message that an event alone would become, without Slack: nothing is connected, no secret is needed.
pub fn preview(settings: &Settings, event: &Event) -> Value {
    let mut story = Story::default();
    story.take(event);
    blocks::message(&story.card(), settings.page_url.as_deref())
}

impl Chat for Slack {
    fn post<'a>(&'a self, card: &'a Card, thread: Option<&'a Place>) -> BoxFuture<'a, Result<Option<Place>, Failed>> {
        Box::pin(async move {
            let mut message = blocks::message(card, self.page_url.as_deref());
            match &self.to {
                To::Webhook(url) => self.call(url, message).await.map(|_| None),
                To::Bot { channel, post, .. } => {
                    message["channel"] = thread.map_or(channel, |place| &place.channel).as_str().into();
                    if let Some(place) = thread {
                        message["thread_ts"] = place.ts.as_str().into();
                    }
                    let answer = self.call(post, message).await?;
                    let text = |key: &str| answer[key].as_str().map(str::to_owned);
                    Ok(text("channel").zip(text("ts")).map(|(channel, ts)| Place { channel, ts }))
                }
            }
        })
    }

    fn update<'a>(&'a self, place: &'a Place, card: &'a Card) -> BoxFuture<'a, Result<(), Failed>> {
        Box::pin(async move {
            let To::Bot { update, .. } = &self.to else { return Err(Failed::Gone) };
            let mut message = blocks::message(card, self.page_url.as_deref());
            message["channel"] = place.channel.as_str().into();
            message["ts"] = place.ts.as_str().into();
            self.call(update, message).await.map(drop)
        })
    }

    fn habits(&self) -> Habits {
        self.habits
    }

    /// Of a token it is the channel's name in that workspace, then its id. An incoming webhook does not say where it posts:
    /// it is a channel of its own.
    fn channel(&self, place: Option<&Place>) -> String {
        let hash = |texts: &[&[u8]]| xxhash_rust::xxh3::xxh3_128(&texts.join(&0));
        match (&self.to, place) {
            (To::Webhook(url), _) => format!("webhook {:032x}", hash(&[url.as_str().as_bytes()])),
            (To::Bot { post, .. }, Some(place)) => {
                format!("channel {:032x}", hash(&[post.as_str().as_bytes(), place.channel.as_bytes()]))
            }
            (To::Bot { post, authorization, channel, .. }, None) => {
                let name = channel.trim_start_matches('#');
                let parts = [post.as_str().as_bytes(), authorization.as_bytes(), name.as_bytes()];
                format!("name {:032x}", hash(&parts))
            }
        }
    }
}

/// HTTP 200 with `ok: false` is a failure.
async fn api_answer(response: Response, private: &wire::Private) -> Result<Value, Failed> {
    let after = wire::retry_after(response.headers(), jiff::Timestamp::now());
    let status = response.status();
    if !status.is_success() && status.as_u16() != 429 {
        return Err(wire::outcome(response, private).await.into());
    }
    let text = wire::text(response, 256 * 1024).await;
    let Ok(answer) = serde_json::from_str::<Value>(&text) else {
        let reason = format!("{status}: Slack's answer is not JSON; is api_url right?");
        return Err(Outcome::Retry { after, reason }.into());
    };
    if answer["ok"] == json!(true) {
        return Ok(answer);
    }
    let error = answer["error"].as_str().unwrap_or("no reason given");
    let details: Vec<&str> =
        answer["response_metadata"]["messages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    // What the other side says may repeat what it was sent, and has no bound.
    let told = |text: &str| super::describe::cut(&private.scrub(text), 300).to_string();
    Err(answer::meaning(&told(error), &told(&details.join("; ")), after))
}

/// An incoming webhook answers `ok`, or a status with a word.
async fn webhook_answer(response: Response, private: &wire::Private) -> Result<Value, Failed> {
    let status = response.status();
    if status.is_success() {
        return Ok(Value::Null);
    }
    let after = wire::retry_after(response.headers(), jiff::Timestamp::now());
    if status.is_server_error() || status.is_redirection() {
        return Err(wire::outcome(response, private).await.into());
    }
    let word = wire::text(response, 200).await;
    match word.trim() {
        word if !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_') => {
            Err(answer::meaning(word, "", after))
        }
        _ if status.as_u16() == 429 => Err(answer::meaning("rate_limited", "", after)),
        _ => Err(Outcome::Retry { after, reason: format!("{status}: Slack does not take the message") }.into()),
    }
}
