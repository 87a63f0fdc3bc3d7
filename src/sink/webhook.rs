//! An HTTP request an event, or a batch of them.

use std::collections::BTreeMap;

use super::Secret;

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
    /// template all of them as `events`.
    pub batch: Option<usize>,
    /// Requests at the same time.
    pub in_flight: Option<usize>,
    pub gzip: bool,
    /// PEM certificates that are trusted besides the system's.
    pub ca: Option<String>,
    pub client_certificate: Option<ClientCertificate>,
    /// `http://proxy:3128`, with a password or not.
    pub proxy: Option<Secret>,
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

/// Templates are minijinja over `event` (the first of the batch), `events` (all) and `link`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Template {
    pub body: String,
    /// Header names and templates of their values. `Content-Type` is `application/json` unless set here.
    pub headers: BTreeMap<String, String>,
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
