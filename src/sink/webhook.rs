//! An HTTP request an event, or a batch of them.

mod sign;
mod template;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, io::Write, sync::Arc, time::SystemTime};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::future::BoxFuture;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE},
};
use reqwest::{Client, Request, Response, Url};
use serde_json::Value;

pub use self::template::{READY, ready};
use super::{BuildError, Outcome, Pace, Secret, Sink, format, http as wire};
use crate::event::{Event, Redacted};

const JSON: &str = "application/json";

/// `[sinks.NAME] type = "webhook"`
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Settings {
    /// A credential as it often is one: never in a log or an error.
    pub url: Secret,
    pub format: Format,
    /// Sent with every request; values may hold tokens.
    pub headers: BTreeMap<String, Secret>,
    pub auth: Option<Auth>,
    /// Standard Webhooks secrets (`whsec_…`). With several, every request carries a signature by each: give the new one
    /// beside the old one while the receiver changes over. `signing_secret` is one or a list.
    pub signing_secrets: Vec<Secret>,
    /// Events a request at most; more than 1 sends a JSON array (`json`, `legacy`), a CloudEvents batch, or gives the
    /// template all of them as `events`, which it then has to read. 1 when not set.
    pub batch: Option<usize>,
    /// Requests at the same time, each about other objects. 8 when not set.
    pub in_flight: Option<usize>,
    pub gzip: bool,
    /// PEM certificates that are trusted besides the system's.
    pub ca: Option<String>,
    pub client_certificate: Option<ClientCertificate>,
    /// `http://proxy:3128`, with a password or not.
    pub proxy: Option<Secret>,
    /// Where the page is reached by those who read the message; `link` in templates. `page_url`
    pub page_url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub enum Format {
    /// The event as its schema says.
    #[default]
    Json,
    /// CloudEvents 1.0, structured mode, with the event as `data`.
    CloudEvents,
    /// The old kubediff's payload.
    Legacy,
    Template(Template),
}

/// Templates are minijinja; `docs/sinks.md` lists what they see. [`ready`] has those for common services.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Template {
    pub body: String,
    /// Header names and templates of their values. `Content-Type` is `application/json` unless set here.
    pub headers: BTreeMap<String, String>,
    /// `vars.NAME` in the template: a routing key, for example.
    pub vars: BTreeMap<String, Secret>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Auth {
    Bearer(Secret),
    Basic { username: String, password: Secret },
}

/// PEM texts.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientCertificate {
    pub certificate: String,
    pub key: Secret,
}

impl Settings {
    /// Everything in it that must not be told, but the URL.
    fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let auth = self.auth.iter().map(|auth| match auth {
            Auth::Bearer(secret) | Auth::Basic { password: secret, .. } => secret,
        });
        let vars = match &self.format {
            Format::Template(template) => Some(template.vars.values()),
            _ => None,
        };
        auth.chain(self.headers.values())
            .chain(&self.signing_secrets)
            .chain(vars.into_iter().flatten())
            .chain(&self.proxy)
    }
}

pub struct Webhook {
    client: Client,
    url: Url,
    private: wire::Private,
    encode: Encode,
    headers: HeaderMap,
    signer: sign::Signer,
    gzip: bool,
    pace: Pace,
    whole: bool,
}

enum Encode {
    /// The event as it is: printed without a detour.
    Json,
    Each(fn(&Event) -> Value, &'static str, &'static str),
    Template(Box<template::Compiled>),
}

/// A request's body, with the headers that come from it.
struct Content {
    body: Bytes,
    headers: HeaderMap,
}

impl Content {
    fn new(body: serde_json::Result<impl Into<Bytes>>, kind: &'static str) -> Result<Self, String> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        Ok(Self { body: body.map_err(|error| error.to_string())?.into(), headers })
    }
}

impl Webhook {
    pub fn new(settings: &Settings) -> Result<Self, BuildError> {
        let encode = match &settings.format {
            Format::Json => Encode::Json,
            Format::Legacy => Encode::Each(format::legacy, "application/json", "application/json"),
            Format::CloudEvents => Encode::Each(
                format::cloud_event,
                "application/cloudevents+json; charset=UTF-8",
                "application/cloudevents-batch+json; charset=UTF-8",
            ),
            Format::Template(template) => {
                let compiled = template::Compiled::new(template, settings.page_url.as_deref())?;
                match lost_in_batch(&compiled, settings) {
                    Some(batch) => return Err(BuildError::Batch(batch)),
                    None => Encode::Template(Box::new(compiled)),
                }
            }
        };
        let client = wire::client(&wire::Connect {
            ca: settings.ca.as_deref(),
            certificate: settings.client_certificate.as_ref(),
            proxy: settings.proxy.as_ref(),
        })?;
        let url = wire::url(&settings.url)?;
        let mut private = wire::Private::of(&url);
        settings.secrets().for_each(|secret| private.add(secret.expose()));
        Ok(Self {
            client,
            url,
            private,
            encode,
            headers: headers(settings)?,
            signer: sign::Signer::new(&settings.signing_secrets)?,
            gzip: settings.gzip,
            pace: Pace {
                batch: settings.batch.unwrap_or(1).max(1),
                in_flight: settings.in_flight.unwrap_or(8).max(1),
                patient: false,
            },
            whole: settings.format == Format::Legacy,
        })
    }

    fn content(&self, batch: &[Arc<Redacted>]) -> Result<Content, String> {
        match &self.encode {
            Encode::Json => match batch {
                [event] if self.pace.batch <= 1 => Content::new(event.json().cloned(), JSON),
                _ => Content::new(array(batch), JSON),
            },
            Encode::Each(value, one, many) => {
                if self.pace.batch > 1 {
                    let all: Vec<Value> = batch.iter().map(|event| value(event)).collect();
                    Content::new(serde_json::to_vec(&all), many)
                } else {
                    let body = batch.first().map_or_else(|| Ok(Vec::new()), |event| serde_json::to_vec(&value(event)));
                    Content::new(body, one)
                }
            }
            Encode::Template(template) => {
                template.render(&batch.iter().map(|event| &***event).collect::<Vec<&Event>>())
            }
        }
    }
}

/// The texts of the events, as a JSON array.
fn array(batch: &[Arc<Redacted>]) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::from(b"[");
    for (nth, event) in batch.iter().enumerate() {
        if nth > 0 {
            text.push(b',');
        }
        text.extend_from_slice(event.json()?);
    }
    text.push(b']');
    Ok(text)
}

/// The size of a batch of which the template would tell the first event alone.
fn lost_in_batch(compiled: &template::Compiled, settings: &Settings) -> Option<usize> {
    settings.batch.filter(|batch| *batch > 1 && !compiled.reads_all())
}

/// What is wrong with each part of the settings, by itself.
pub(super) fn objections(settings: &Settings) -> Vec<(Vec<String>, BuildError)> {
    let mut found = Vec::new();
    let mut note = |path: &[&str], error: Option<BuildError>| {
        found.extend(error.map(|error| (path.iter().map(|part| (*part).to_owned()).collect(), error)));
    };
    if let Format::Template(template) = &settings.format {
        // The body without headers, then each header with a body that cannot be wrong.
        let body = Template { headers: BTreeMap::new(), ..template.clone() };
        let plain = template.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let body = Template { headers: plain.map(|(name, text)| (name.clone(), text.clone())).collect(), ..body };
        match template::Compiled::new(&body, settings.page_url.as_deref()) {
            Ok(compiled) => note(&["batch"], lost_in_batch(&compiled, settings).map(BuildError::Batch)),
            Err(error) => note(&["template"], Some(error)),
        }
        for (name, text) in &template.headers {
            let header = Template {
                body: "0".into(),
                headers: BTreeMap::from([(name.clone(), text.clone())]),
                vars: template.vars.clone(),
            };
            note(&["template_headers", name], template::Compiled::new(&header, settings.page_url.as_deref()).err());
        }
    }
    for (part, connect) in [
        ("ca", wire::Connect { ca: settings.ca.as_deref(), ..wire::Connect::default() }),
        (
            "client_certificate",
            wire::Connect { certificate: settings.client_certificate.as_ref(), ..wire::Connect::default() },
        ),
        ("proxy", wire::Connect { proxy: settings.proxy.as_ref(), ..wire::Connect::default() }),
    ] {
        if connect.ca.is_some() || connect.certificate.is_some() || connect.proxy.is_some() {
            let error = wire::client(&connect).err();
            let key = matches!(&error, Some(BuildError::Tls(why)) if why.starts_with("client key"));
            note(&[if key { "client_key" } else { part }], error);
        }
    }
    note(&["url"], wire::url(&settings.url).err());
    for (name, value) in &settings.headers {
        let error = HeaderName::from_bytes(name.as_bytes()).map_err(|why| why.to_string());
        let error = error.and_then(|_| secret_header(value.expose())).err();
        note(&["headers", name], error.map(|why| BuildError::Header(format!("{name}: {why}"))));
    }
    if let Some(auth) = &settings.auth {
        let part = if matches!(auth, Auth::Bearer(_)) { "bearer_token" } else { "password" };
        note(&[part], headers(&Settings { headers: BTreeMap::new(), ..settings.clone() }).err());
    }
    for (index, secret) in settings.signing_secrets.iter().enumerate() {
        note(&["signing_secret", &index.to_string()], sign::Signer::new(std::slice::from_ref(secret)).err());
    }
    found
}

/// The body that a receiver would get for one event, without a receiver: nothing is connected, no secret is needed.
pub fn preview(settings: &Settings, event: &Event) -> Result<String, String> {
    let one =
        |value: Value| if settings.batch.is_some_and(|batch| batch > 1) { Value::Array(vec![value]) } else { value };
    match &settings.format {
        Format::Json => Ok(one(format::json(event)).to_string()),
        Format::Legacy => Ok(one(format::legacy(event)).to_string()),
        Format::CloudEvents => Ok(one(format::cloud_event(event)).to_string()),
        Format::Template(template) => {
            let compiled = template::Compiled::new(template, settings.page_url.as_deref());
            let content = compiled.map_err(|error| error.to_string())?.render(&[event])?;
            Ok(String::from_utf8_lossy(&content.body).into_owned())
        }
    }
}

impl Webhook {
    /// The answer to a batch, whatever it is, or why there is none.
    async fn post(&self, batch: &[Arc<Redacted>]) -> Result<Response, Outcome> {
        let Content { mut body, headers: of_content } = self.content(batch).map_err(Outcome::reject)?;
        let mut headers = self.headers.clone();
        headers.extend(of_content);
        self.signer.sign(batch, SystemTime::now(), &body, &mut headers).map_err(Outcome::reject)?;
        if self.gzip {
            body = gzip(&body).map_err(|error| Outcome::retry(error.to_string()))?.into();
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = headers;
        *request.body_mut() = Some(body.into());
        self.client.execute(request).await.map_err(|error| wire::failure(error, &self.private))
    }
}

impl Sink for Webhook {
    fn send<'a>(&'a self, batch: &'a [Arc<Redacted>]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            match self.post(batch).await {
                Ok(response) => wire::outcome(response, &self.private).await,
                Err(outcome) => outcome,
            }
        })
    }

    fn try_out<'a>(&'a self, event: &'a Arc<Redacted>) -> BoxFuture<'a, (Outcome, String)> {
        Box::pin(async move {
            match self.post(std::slice::from_ref(event)).await {
                Ok(response) if response.status().is_success() => {
                    (Outcome::Delivered, wire::said(response, &self.private).await)
                }
                Ok(response) => (wire::outcome(response, &self.private).await, String::new()),
                Err(outcome) => (outcome, String::new()),
            }
        })
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn wants_whole(&self) -> bool {
        self.whole
    }
}

fn headers(settings: &Settings) -> Result<HeaderMap, BuildError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &settings.headers {
        let wrong = |why: String| BuildError::Header(format!("{name}: {why}"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|why| wrong(why.to_string()))?;
        headers.insert(name, secret_header(value.expose()).map_err(wrong)?);
    }
    let auth = match &settings.auth {
        None => return Ok(headers),
        Some(Auth::Bearer(token)) => format!("Bearer {}", token.expose()),
        Some(Auth::Basic { username, password }) => {
            use base64::Engine;
            let pair = format!("{username}:{}", password.expose());
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
        }
    };
    headers.insert(AUTHORIZATION, secret_header(&auth).map_err(|why| BuildError::Header(format!("auth: {why}")))?);
    Ok(headers)
}

fn secret_header(value: &str) -> Result<HeaderValue, String> {
    let mut value =
        HeaderValue::from_str(value.trim()).map_err(|_| "it holds characters that no header may".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

fn gzip(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}
