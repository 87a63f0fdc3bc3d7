//! The API server as a source: raw bytes over `kube::Client`.
//!
//! Objects are never parsed here, only cut out of their lists and events. No text of this file ever holds a body or what
//! a JSON parser says about one: either may quote a secret.

mod discover;
mod wire;

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use futures::{future::BoxFuture, stream};
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use kube::{Client, Config, client::Body};
use serde::Deserialize;

use self::wire::{Line, Lines, Query};
use super::{Discovered, Error, Frame, Frames, List, Page, Source, Watch};
use crate::{
    cluster::{Feed, Resource},
    redact::{Said, Sentences},
};

#[derive(Clone, Debug)]
pub struct Settings {
    /// How long an answer may take to begin, and how long it may pause once it has.
    pub request_timeout: Duration,
    /// A watch event larger than this is skipped and reported ([`Frame::TooLarge`]). etcd takes 1.5 MB by default; only
    /// aggregated APIs have larger objects, of which the door keeps the metadata.
    pub max_event_bytes: usize,
    /// A page of a list larger than this fails the list.
    pub max_page_bytes: usize,
    /// Goes over what the server says in errors.
    pub sentences: Arc<Sentences>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(60),
            max_event_bytes: 64 << 20,
            max_page_bytes: 256 << 20,
            sentences: Arc::default(),
        }
    }
}

pub struct Api {
    client: Client,
    settings: Settings,
}

impl Api {
    /// Connects as the configuration says. kube's own retries are turned off: they sleep up to 15 times on 429, 503 and
    /// 504 where nobody sees it, and the reflector has its own. kube sets no read timeout, which is right for watches;
    /// [`Settings::request_timeout`] stands in for it elsewhere. Refreshing tokens is left to kube.
    pub fn connect(mut config: Config, settings: Settings) -> Result<Self, kube::Error> {
        config.default_retry = false;
        config.read_timeout = None;
        Ok(Self::new(Client::try_from(config)?, settings))
    }

    /// For a client that is there already. It should not retry by itself: see [`Api::connect`].
    pub fn new(client: Client, settings: Settings) -> Self {
        Self { client, settings }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// GETs a path and gives the response once it is known to be a 2xx.
    async fn get(&self, path: &str, accept: &str) -> Result<Response<Body>, Error> {
        let request = Request::get(path)
            .header(header::ACCEPT, accept)
            .header(header::ACCEPT_ENCODING, "identity")
            .body(Body::empty())
            .map_err(|error| Error::Invalid(Said::own(format!("the request could not be built: {error}"))))?;
        let response = tokio::time::timeout(self.settings.request_timeout, self.client.send(request))
            .await
            .map_err(|_| Error::Connection("no answer in time".into()))?
            .map_err(|error| connection(&error))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response).await) }
    }

    /// What a response that is not a 2xx means.
    async fn refusal(&self, response: Response<Body>) -> Error {
        let code = response.status();
        let retry_after = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        let status = match self.collect(response.into_body(), 256 << 10).await {
            Ok(body) => serde_json::from_slice(&body).unwrap_or_default(),
            Err(_) => Status::default(),
        };
        status.into_error(code.as_u16(), retry_after, &self.settings.sentences)
    }

    /// The whole body, when it is no larger than `max`.
    async fn collect(&self, mut body: Body, max: usize) -> Result<Bytes, Error> {
        let mut all = BytesMut::new();
        loop {
            let frame = tokio::time::timeout(self.settings.request_timeout, body.frame())
                .await
                .map_err(|_| Error::Connection("the answer stopped in the middle".into()))?;
            let Some(frame) = frame else { return Ok(all.freeze()) };
            let Ok(data) = frame.map_err(|error| connection(&error))?.into_data() else { continue };
            if all.len() + data.len() > max {
                return Err(Error::Malformed(format!("an answer of more than {max} bytes")));
            }
            all.extend_from_slice(&data);
        }
    }

    async fn fetch(&self, path: &str, accept: &str) -> Result<Bytes, Error> {
        let response = self.get(path, accept).await?;
        self.collect(response.into_body(), self.settings.max_page_bytes).await
    }
}

impl Source for Api {
    fn discover(&self) -> BoxFuture<'_, Result<Discovered, Error>> {
        Box::pin(discover::discover(self))
    }

    fn list<'a>(&'a self, feed: &'a Feed, page: &'a List) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let mut query = Query::of(feed);
            if page.limit > 0 {
                query.add("limit", &page.limit.to_string());
            }
            match &page.continue_token {
                Some(token) => query.add("continue", token),
                None if !page.version.as_str().is_empty() => query.add("resourceVersion", page.version.as_str()),
                None => {}
            }
            let accept = if feed.metadata_only {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
            } else {
                "application/json"
            };
            let body = self.fetch(&query.into_path(), accept).await?;
            wire::page(&body)
        })
    }

    fn watch<'a>(&'a self, feed: &'a Feed, watch: &'a Watch) -> BoxFuture<'a, Result<Frames, Error>> {
        Box::pin(async move {
            let mut query = Query::of(feed);
            query.add("watch", "true");
            query.add("allowWatchBookmarks", "true");
            query.add("timeoutSeconds", &watch.timeout.as_secs().max(1).to_string());
            if !watch.version.as_str().is_empty() {
                query.add("resourceVersion", watch.version.as_str());
            }
            if watch.initial_events {
                query.add("sendInitialEvents", "true");
                query.add("resourceVersionMatch", "NotOlderThan");
            }
            let accept = if feed.metadata_only {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
            } else {
                "application/json"
            };
            let response = self.get(&query.into_path(), accept).await?;
            let lines = Lines::new(self.settings.max_event_bytes);
            Ok(frames(response.into_body(), lines, self.settings.sentences.clone()))
        })
    }

    fn openapi_index(&self) -> BoxFuture<'_, Result<HashMap<String, String>, Error>> {
        Box::pin(self.openapi_places())
    }

    fn openapi<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<Option<Bytes>, Error>> {
        Box::pin(self.openapi_document(resource))
    }
}

impl Api {
    /// By group and version; the places are paths with a hash.
    async fn openapi_places(&self) -> Result<HashMap<String, String>, Error> {
        #[derive(Deserialize)]
        struct Index {
            paths: HashMap<String, Entry>,
        }
        #[derive(Deserialize)]
        struct Entry {
            #[serde(rename = "serverRelativeURL")]
            url: String,
        }
        let index = match self.fetch("/openapi/v3", "application/json").await {
            Ok(index) => index,
            Err(Error::NotFound(_)) => return Ok(HashMap::new()),
            Err(error) => return Err(error),
        };
        let index: Index = wire::parse(&index, "the OpenAPI index")?;
        let of_api = |path: &str| path.strip_prefix("apis/").or_else(|| path.strip_prefix("api/")).map(str::to_owned);
        Ok(index.paths.into_iter().filter_map(|(path, entry)| Some((of_api(&path)?, entry.url))).collect())
    }

    /// A document is about a megabyte: none is kept.
    async fn openapi_document(&self, resource: &Resource) -> Result<Option<Bytes>, Error> {
        let root = if resource.group.is_empty() { "api" } else { "apis" };
        match self.fetch(&format!("/openapi/v3/{root}/{}", resource.api_version()), "application/json").await {
            Ok(document) => Ok(Some(document)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The events of a body, line by line. The stream ends after its first error.
fn frames(body: Body, lines: Lines, sentences: Arc<Sentences>) -> Frames {
    Box::pin(stream::unfold(Some((body, lines, sentences)), |state| async move {
        let (mut body, mut lines, sentences) = state?;
        loop {
            match lines.next() {
                Some(Line::Whole(line)) if line.is_empty() => {}
                Some(Line::Whole(line)) => {
                    let frame = wire::frame(&line, &sentences);
                    let go_on = !matches!(frame, Err(_) | Ok(Frame::Error(_)));
                    return Some((frame, go_on.then_some((body, lines, sentences))));
                }
                Some(Line::TooLong(bytes)) => {
                    return Some((Ok(Frame::TooLarge { bytes }), Some((body, lines, sentences))));
                }
                None => match body.frame().await {
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            lines.feed(data);
                        }
                    }
                    Some(Err(error)) => return Some((Err(connection(&error)), None)),
                    None if lines.torn() => {
                        return Some((Err(Error::Malformed("the stream ended inside an event".into())), None));
                    }
                    None => return None,
                },
            }
        }
    }))
}

/// What a connection says of its failure, with its causes: the outermost text alone is often "client error".
fn connection(error: &dyn std::error::Error) -> Error {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    Error::Connection(text)
}

/// The part of `meta/v1 Status` that decides what to do.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    code: Option<u16>,
    reason: Option<String>,
    message: Option<String>,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    causes: Option<Vec<Cause>>,
    retry_after_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: Option<String>,
}

impl Status {
    /// `http` is the response's own code, 0 for an ERROR event inside a watch.
    fn into_error(self, http: u16, retry_after: Option<Duration>, sentences: &Sentences) -> Error {
        let code = if http != 0 { http } else { self.code.unwrap_or(500) };
        let reason = self.reason.unwrap_or_default();
        let mut message = self.message.unwrap_or_default();
        if message.is_empty() {
            let words = StatusCode::from_u16(code).ok().and_then(|code| code.canonical_reason());
            message = if reason.is_empty() { words.unwrap_or("no reason given").to_owned() } else { reason.clone() };
        }
        // Servers quote what they do not understand, and that may be a Secret.
        let mut message = sentences.masked(&message);
        message.cut(300);
        let details = self.details.unwrap_or_default();
        let too_new = message.contains("Too large resource version")
            || details.causes.iter().flatten().any(|cause| cause.reason.as_deref() == Some("ResourceVersionTooLarge"));
        match (code, reason.as_str()) {
            (410, _) | (_, "Expired" | "Gone") => Error::Expired(message),
            _ if too_new => Error::TooNew(message),
            (429, _) | (_, "TooManyRequests") => {
                Error::Busy { after: retry_after.or(details.retry_after_seconds.map(Duration::from_secs)) }
            }
            (401, _) => Error::Unauthorized(message),
            (403, _) => Error::Forbidden(message),
            (404, _) => Error::NotFound(message),
            (400 | 405 | 406 | 415 | 422, _) => Error::Invalid(message),
            _ => Error::Server { code, message },
        }
    }
}

#[cfg(test)]
mod tests;
