//! An HTTP request an event, or a batch of them.

mod sign;
mod template;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, io::Write, sync::Arc, time::SystemTime};

use flate2::{Compression, write::GzEncoder};
use futures::future::BoxFuture;
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE},
};
use reqwest::{Client, Url};
use serde_json::Value;

pub use self::template::{READY, ready};
use super::{BuildError, Outcome, Pace, Secret, Sink, format, http as wire};
use crate::event::Event;

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
    /// template all of them as `events`. 1 when not set.
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
}

enum Encode {
    Each(fn(&Event) -> Value, &'static str, &'static str),
    Template(Box<template::Compiled>),
}

/// A request's body, with the headers that come from it.
struct Content {
    body: Vec<u8>,
    headers: HeaderMap,
}

impl Webhook {
    pub fn new(settings: &Settings) -> Result<Self, BuildError> {
        let encode = match &settings.format {
            Format::Json => Encode::Each(format::json, "application/json", "application/json"),
            Format::Legacy => Encode::Each(format::legacy, "application/json", "application/json"),
            Format::CloudEvents => Encode::Each(
                format::cloud_event,
                "application/cloudevents+json; charset=UTF-8",
                "application/cloudevents-batch+json; charset=UTF-8",
            ),
            Format::Template(template) => {
                Encode::Template(Box::new(template::Compiled::new(template, settings.page_url.as_deref())?))
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
        })
    }

    fn content(&self, batch: &[Arc<Event>]) -> Result<Content, String> {
        match &self.encode {
            Encode::Each(value, one, many) => {
                let (body, kind) = if self.pace.batch > 1 {
                    let all: Vec<Value> = batch.iter().map(|event| value(event)).collect();
                    (serde_json::to_vec(&all), many)
                } else {
                    (batch.first().map_or_else(|| Ok(Vec::new()), |event| serde_json::to_vec(&value(event))), one)
                };
                let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
                Ok(Content { body: body.map_err(|error| error.to_string())?, headers })
            }
            Encode::Template(template) => template.render(batch),
        }
    }
}

impl Sink for Webhook {
    fn send<'a>(&'a self, batch: &'a [Arc<Event>]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let Content { mut body, headers } = match self.content(batch) {
                Ok(content) => content,
                Err(reason) => return Outcome::reject(reason),
            };
            let mut request = self.client.post(self.url.clone()).headers(self.headers.clone()).headers(headers);
            match self.signer.headers(batch, SystemTime::now(), &body) {
                Ok(signed) => request = request.headers(signed),
                Err(reason) => return Outcome::reject(reason),
            }
            if self.gzip {
                body = match gzip(&body) {
                    Ok(body) => body,
                    Err(error) => return Outcome::retry(error.to_string()),
                };
                request = request.header(CONTENT_ENCODING, "gzip");
            }
            match request.body(body).send().await {
                Ok(response) => wire::outcome(response, &self.private).await,
                Err(error) => wire::failure(error, &self.private),
            }
        })
    }

    fn pace(&self) -> Pace {
        self.pace
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
