//! A running kubediff, asked by HTTP.

#[cfg(test)]
pub(crate) mod scripted;
#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::{Context, anyhow};
use jiff::Timestamp;
use kubediff::{
    cluster::Resource,
    history::{Row, kinds::Kinds},
    ledger::silences::{New, Silence},
    sink,
};
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{AtTime, Blame, Detail, Page, Query};
use crate::cli::{Usage, object::Object};

/// No page takes longer; a stream says something every 15 s.
const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_secs(2);
/// What the server does not say of "behind" is which of the two it is.
const LEFT_OUT: &str = "some changes are left out here: they are no longer kept, or were too many to catch up with; \
                        kubediff history has all that are kept";

pub(crate) struct Server {
    client: Client,
    base: Url,
    token: Option<String>,
    /// What keeps a port-forward open.
    _forward: Option<tokio::task::JoinSet<()>>,
}

impl Server {
    pub(super) fn new(url: &str, token: Option<String>, ca: Option<&str>) -> anyhow::Result<Self> {
        let wrong = |why: String| Usage(anyhow!("--server {url:?}: {why}; write http://127.0.0.1:8080"));
        let base = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(wrong("it is no http or https address".into()).into());
        }
        Ok(Self { client: sink::client(ca)?, base, token, _forward: None })
    }

    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    pub(super) fn with_token(self, token: String) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Whether it answers only those who say who they are.
    pub(super) async fn wants_token(&self) -> anyhow::Result<bool> {
        let sent = self.request(Method::GET, &["whoami"], &[])?.timeout(PATIENCE).send().await;
        Ok(self.reached(sent)?.status() == StatusCode::UNAUTHORIZED)
    }

    /// Keeps what leads to it alive for as long as it is used.
    pub(super) fn through(self, forward: tokio::task::JoinSet<()>) -> Self {
        Self { _forward: Some(forward), ..self }
    }

    fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
    ) -> anyhow::Result<reqwest::RequestBuilder> {
        let mut url = self.base.clone();
        let base = || anyhow!("{} cannot have a path", self.base);
        url.path_segments_mut().map_err(|()| base())?.pop_if_empty().extend(["api", "v1"]).extend(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query.iter().map(|(key, value)| (*key, value.as_str())));
        }
        let request = self.client.request(method, url);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token.trim()),
            None => request,
        })
    }

    async fn ask<T: DeserializeOwned>(&self, path: &[&str], query: &[(&str, String)]) -> anyhow::Result<T> {
        self.answer(self.request(Method::GET, path, query)?.timeout(PATIENCE)).await
    }

    async fn answer<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> anyhow::Result<T> {
        let response = self.reached(request.send().await)?;
        let answer = refusal(response).await?.bytes().await.context("the answer broke off")?;
        serde_json::from_slice(&answer).with_context(|| format!("{} does not answer as kubediff does", self.base))
    }

    fn reached(&self, sent: Result<Response, reqwest::Error>) -> anyhow::Result<Response> {
        sent.with_context(|| format!("cannot reach a kubediff at {}; is server.page on?", self.base))
    }

    pub(super) async fn events<T: DeserializeOwned>(
        &self,
        query: &Query,
        limit: usize,
        cursor: Option<&str>,
        full: bool,
    ) -> anyhow::Result<Page<T>> {
        #[derive(serde::Deserialize)]
        struct Answer<T> {
            events: Vec<T>,
            next: Option<Cursor>,
        }
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Cursor {
            Text(String),
            Number(i64),
        }
        let mut query = query.clone();
        query.push(("limit", limit.to_string()));
        query.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
        query.extend(full.then(|| ("full", "true".to_owned())));
        let Answer { events, next } = self.ask(&["events"], &query).await?;
        let next = next.map(|next| match next {
            Cursor::Text(text) => text,
            Cursor::Number(number) => number.to_string(),
        });
        Ok((events, next))
    }

    pub(super) async fn detail(&self, id: &str) -> anyhow::Result<Detail> {
        self.ask(&["events", id], &[]).await
    }

    pub(super) async fn objects(&self, query: &Query) -> anyhow::Result<Vec<Object>> {
        #[derive(serde::Deserialize)]
        struct Answer {
            objects: Vec<Object>,
            next: Option<String>,
        }
        let mut found = Vec::new();
        let mut query = query.clone();
        query.push(("limit", "500".to_owned()));
        loop {
            let Answer { objects, next } = self.ask(&["objects"], &query).await?;
            found.extend(objects);
            query.retain(|(key, _)| *key != "cursor");
            match next {
                Some(next) => query.push(("cursor", next)),
                None => return Ok(found),
            }
        }
    }

    /// Those that it watches. Of others there may be events.
    pub(super) async fn kinds(&self) -> anyhow::Result<Kinds> {
        #[derive(serde::Deserialize)]
        struct Answer {
            informers: Vec<Informer>,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Informer {
            group: String,
            version: String,
            resource: String,
            kind: String,
            #[serde(default)]
            short_names: Vec<String>,
        }
        let Answer { informers } = self.ask(&["status"], &[]).await?;
        let resource = |one: Informer| Resource {
            group: one.group,
            short_names: one.short_names,
            ..Resource::core(&one.version, &one.resource, &one.kind)
        };
        Ok(Kinds(informers.into_iter().map(resource).collect()))
    }

    pub(super) async fn object(&self, object: &Object, at: Option<Timestamp>) -> anyhow::Result<AtTime> {
        self.ask(&path(object), &query_at(at)).await
    }

    pub(super) async fn blame(&self, object: &Object, at: Option<Timestamp>) -> anyhow::Result<Blame> {
        let mut path = path(object).to_vec();
        path.push("blame");
        self.ask(&path, &query_at(at)).await
    }

    pub(super) async fn follow(&self, query: &Query, mut after: i64, told: &mut dyn super::Told) -> anyhow::Result<()> {
        let mut begun = false;
        loop {
            let mut query = query.clone();
            query.push(("after", after.to_string()));
            match self.stream(&query, &mut after, &mut begun, told).await {
                Err(error) if !begun || error.is::<NotTaken>() => return Err(error),
                Err(error) => eprintln!("kubediff: {error:#}; trying again"),
                Ok(()) => {}
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Until the connection ends; an error of `told` is wrapped as [`NotTaken`].
    async fn stream(
        &self,
        query: &Query,
        after: &mut i64,
        begun: &mut bool,
        told: &mut dyn super::Told,
    ) -> anyhow::Result<()> {
        let sent = self.request(Method::GET, &["stream"], query)?.send().await;
        let mut response = refusal(self.reached(sent)?).await?;
        *begun = true;
        let mut lines = Lines::default();
        while let Some(chunk) = response.chunk().await.context("the stream broke off")? {
            for message in lines.take(&chunk) {
                // Also without a change: so far it has come, and goes on from there.
                *after = message.id.unwrap_or(*after);
                match message.event.as_str() {
                    "change" => {
                        let row: Row = serde_json::from_str(&message.data).context("the stream is not kubediff's")?;
                        told.tell(row).await.map_err(|error| anyhow::Error::new(NotTaken(error.into())))?;
                    }
                    "behind" => eprintln!("kubediff: {LEFT_OUT}"),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    pub(super) async fn silences(&self) -> anyhow::Result<Vec<Silence>> {
        #[derive(serde::Deserialize)]
        struct Answer {
            silences: Vec<Silence>,
        }
        Ok(self.ask::<Answer>(&["silences"], &[]).await?.silences)
    }

    pub(super) async fn silence(&self, new: &New) -> anyhow::Result<Silence> {
        let body = json!({"namespace": new.namespace, "kind": new.kind, "name": new.name, "sinks": new.sinks,
                          "until": new.until, "reason": new.reason});
        self.answer(self.request(Method::POST, &["silences"], &[])?.timeout(PATIENCE).json(&body)).await
    }

    pub(super) async fn end_silence(&self, id: i64) -> anyhow::Result<()> {
        let request = self.request(Method::DELETE, &["silences", &id.to_string()], &[])?.timeout(PATIENCE);
        refusal(self.reached(request.send().await)?).await.map(drop)
    }
}

/// What the one who is told could not take; the stream is not to blame.
#[derive(Debug, thiserror::Error)]
#[error("it cannot be shown")]
struct NotTaken(#[source] Box<dyn std::error::Error + Send + Sync>);

fn path(object: &Object) -> [&str; 6] {
    let group = if object.group.is_empty() { "core" } else { &object.group };
    let namespace = if object.namespace.is_empty() { "-" } else { &object.namespace };
    ["objects", group, &object.version, &object.resource, namespace, &object.name]
}

fn query_at(at: Option<Timestamp>) -> Vec<(&'static str, String)> {
    at.map(|at| ("at", at.to_string())).into_iter().collect()
}

/// The answer, or why there is none in the words of the other side.
async fn refusal(response: Response) -> anyhow::Result<Response> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let answer: Value = serde_json::from_slice(&response.bytes().await.unwrap_or_default()).unwrap_or_default();
    let text = |part: &str| answer["error"][part].as_str().unwrap_or_default().to_owned();
    let (message, remedy) = (text("message"), text("remedy"));
    let words = match (message.as_str(), status.as_u16()) {
        ("", 401) => "kubediff wants to know who asks: give --token \"$(kubectl create token NAME)\"".to_owned(),
        ("", 404) => "there is no such thing, or this is no kubediff".to_owned(),
        ("", _) => format!("the answer was {status}"),
        (message, _) if remedy.is_empty() => message.to_owned(),
        (message, _) => format!("{message}; {remedy}"),
    };
    Err(Refusal { code: text("code"), words }.into())
}

/// An answer that is none.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(crate) struct Refusal {
    /// As the API has them; empty where it was not kubediff that answered.
    code: String,
    words: String,
}

impl Refusal {
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self.code.as_str(), "not-found" | "not-kept" | "gap")
    }
}

/// Server-sent events, as they come in pieces.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
    id: Option<i64>,
    event: String,
    data: String,
}

#[derive(Debug, PartialEq)]
struct Message {
    id: Option<i64>,
    event: String,
    data: String,
}

impl Lines {
    fn take(&mut self, chunk: &[u8]) -> Vec<Message> {
        self.rest.extend_from_slice(chunk);
        let mut messages = Vec::new();
        while let Some(end) = self.rest.iter().position(|&b| b == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            match line.split_once(':') {
                _ if line.is_empty() => {
                    let (id, event, data) =
                        (self.id.take(), std::mem::take(&mut self.event), std::mem::take(&mut self.data));
                    if id.is_some() || !data.is_empty() {
                        messages.push(Message { id, event, data });
                    }
                }
                Some(("id", value)) => self.id = value.trim().parse().ok(),
                Some(("event", value)) => value.trim_start().clone_into(&mut self.event),
                Some(("data", value)) => {
                    if !self.data.is_empty() {
                        self.data.push('\n');
                    }
                    self.data.push_str(value.strip_prefix(' ').unwrap_or(value));
                }
                _ => {}
            }
        }
        messages
    }
}
