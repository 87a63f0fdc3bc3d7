//! The one way to build an HTTP client, and what an HTTP answer means. No URL gets out of here in a text.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode, header::RETRY_AFTER};
use jiff::Timestamp;
use reqwest::{Client, Response, Url, redirect};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::{BuildError, Outcome, Secret, webhook::ClientCertificate};

/// Of an answer's body this much is read, for the reason.
const ANSWER_BYTES: usize = 2048;
/// Of which this much is told.
const ANSWER_SHOWN: usize = 300;
/// Whoever asks for more is asked again after this.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// How a client connects.
#[derive(Debug, Default)]
pub(super) struct Connect<'a> {
    /// PEM certificates that are trusted besides the system's.
    pub(super) ca: Option<&'a str>,
    pub(super) certificate: Option<&'a ClientCertificate>,
    pub(super) proxy: Option<&'a Secret>,
}

/// Redirects are never followed: a signed body goes to the one place that was configured.
pub(super) fn client(connect: &Connect<'_>) -> Result<Client, BuildError> {
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls(connect)?)
        .redirect(redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .connect_timeout(Duration::from_secs(10))
        .pool_idle_timeout(Duration::from_secs(60))
        .tcp_keepalive(Duration::from_secs(30))
        .user_agent(concat!("kubediff/", env!("CARGO_PKG_VERSION")));
    if let Some(proxy) = connect.proxy {
        let proxy =
            reqwest::Proxy::all(proxy.expose()).map_err(|error| BuildError::Proxy(error.without_url().to_string()))?;
        builder = builder.proxy(proxy);
    }
    builder.build().map_err(|error| BuildError::Tls(error.without_url().to_string()))
}

fn tls(connect: &Connect<'_>) -> Result<ClientConfig, BuildError> {
    let wrong = |what: &str, why: &dyn std::fmt::Display| BuildError::Tls(format!("{what}: {why}"));
    let mut roots = RootCertStore::empty();
    // A system without certificates is fine for plain HTTP and for a CA of one's own; the connection says so otherwise.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(pem) = connect.ca {
        for certificate in certificates(pem).map_err(|why| wrong("ca", &why))? {
            roots.add(certificate).map_err(|why| wrong("ca", &why))?;
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|why| wrong("protocol versions", &why))?
        .with_root_certificates(roots);
    let mut config = match connect.certificate {
        None => builder.with_no_client_auth(),
        Some(ClientCertificate { certificate, key }) => {
            let chain = certificates(certificate).map_err(|why| wrong("client certificate", &why))?;
            let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes())
                .map_err(|_| wrong("client key", &"no PEM private key in it"))?;
            builder.with_client_auth_cert(chain, key).map_err(|why| wrong("client certificate", &why))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if found.is_empty() => Err("no PEM certificate in it".into()),
        Ok(found) => Ok(found),
        Err(error) => Err(error.to_string()),
    }
}

/// What must not be told, also when an error or the other side repeats it.
#[derive(Default)]
pub(super) struct Private(Vec<(String, &'static str)>);

impl Private {
    /// The parts of a URL that are as good as a password, and the host.
    pub(super) fn of(url: &Url) -> Self {
        let mut private = Self::default();
        private.0.push((url.to_string(), "<url>"));
        private.0.push((url.path().to_owned(), "<path>"));
        url.path_segments().into_iter().flatten().chain(url.query()).chain(url.password()).for_each(|part| {
            private.add(part);
        });
        private.add(url.username());
        url.query_pairs().for_each(|(_, value)| private.add(&value));
        if let Some(host) = url.host_str().filter(|host| host.parse::<std::net::IpAddr>().is_err()) {
            private.0.push((host.to_owned(), "<host>"));
        }
        private
    }

    pub(super) fn add(&mut self, secret: &str) {
        self.0.push((secret.to_owned(), "<secret>"));
    }

    pub(super) fn scrub(&self, text: &str) -> String {
        // What is shorter stands in any text.
        let long = self.0.iter().filter(|(secret, _)| secret.len() >= 6);
        long.fold(text.to_owned(), |text, (secret, instead)| text.replace(secret.as_str(), instead))
    }
}

/// Checks a URL without ever repeating it.
pub(super) fn url(secret: &Secret) -> Result<Url, BuildError> {
    let url = Url::parse(secret.expose().trim()).map_err(|why| BuildError::Url(why.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(BuildError::Url("it must begin with https:// or http://".into()));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(BuildError::Url("it names no host".into()));
    }
    Ok(url)
}

/// What an answer means for the events that were sent.
pub(super) async fn outcome(response: Response, private: &Private) -> Outcome {
    let status = response.status();
    if status.is_success() {
        return Outcome::Delivered;
    }
    let after = retry_after(response.headers(), Timestamp::now());
    let said = private.scrub(&text(response, ANSWER_BYTES).await);
    meaning(status, after, &said)
}

/// What was answered, in short: `200 OK: {"accepted":1}`.
pub(super) async fn said(response: Response, private: &Private) -> String {
    let status = response.status();
    match shown(&private.scrub(&text(response, ANSWER_BYTES).await)).as_str() {
        "" => status.to_string(),
        said => format!("{status}: {said}"),
    }
}

/// The beginning of a text, in one line.
fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(ANSWER_SHOWN).collect()
}

/// 4xx is about the event, unless it is about who asks, how often, or whether this place exists yet: those are tried
/// again, for whoever runs the other side may mend it.
fn meaning(status: StatusCode, after: Option<Duration>, said: &str) -> Outcome {
    let said = shown(said);
    let reason = |what: &str| match said.as_str() {
        "" => format!("{status}: {what}"),
        said => format!("{status}: {what}; it said: {said}"),
    };
    match status.as_u16() {
        410 => Outcome::Disabled { reason: reason("the receiver is gone and asks for no more") },
        300..400 => Outcome::Retry { after: None, reason: reason("a redirect, and redirects are never followed") },
        401 | 407 => Outcome::Retry { after, reason: reason("the credentials are not accepted") },
        403 => Outcome::Retry { after, reason: reason("not permitted") },
        404 => Outcome::Retry { after, reason: reason("there is nothing at this address") },
        408 | 425 => Outcome::Retry { after, reason: reason("the receiver wants it later") },
        429 => Outcome::Retry { after, reason: reason("too many requests") },
        400..500 => Outcome::Reject { reason: reason("the receiver does not take this event") },
        _ => Outcome::Retry { after, reason: reason("the receiver failed") },
    }
}

/// `Retry-After` in seconds (Discord sends fractions) or as a date, at most an hour.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let after = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        Err(_) => {
            let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
            Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
        }
    };
    Some(after.min(LONGEST_RETRY_AFTER))
}

/// Why no answer came.
pub(super) fn failure(error: reqwest::Error, private: &Private) -> Outcome {
    let error = error.without_url();
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        let text = cause.to_string();
        if !reason.contains(&text) {
            reason = format!("{reason}: {text}");
        }
        source = cause.source();
    }
    Outcome::retry(private.scrub(&reason))
}

/// The beginning of an answer's body.
pub(super) async fn text(mut response: Response, limit: usize) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < limit {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    bytes.truncate(limit);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())])
    }

    #[test]
    fn retry_after_is_read_in_seconds_fractions_and_as_a_date() {
        let now: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
        assert_eq!(retry_after(&headers("7"), now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after(&headers("0.25"), now), Some(Duration::from_millis(250)));
        assert_eq!(retry_after(&headers("Mon, 16 Nov 2026 10:00:30 GMT"), now), Some(Duration::from_secs(30)));
        assert_eq!(retry_after(&headers("Mon, 16 Nov 2026 09:00:00 GMT"), now), Some(Duration::ZERO));
        assert_eq!(retry_after(&headers("99999999"), now), Some(LONGEST_RETRY_AFTER));
        for nonsense in ["-1", "soon", "NaN", "inf", ""] {
            assert_eq!(retry_after(&headers(nonsense), now), None, "{nonsense:?}");
        }
    }

    #[test]
    fn only_what_is_about_the_event_itself_is_a_rejection() {
        let of = |code: u16| meaning(StatusCode::from_u16(code).unwrap(), None, "");
        for code in [400, 405, 409, 413, 415, 422] {
            assert!(matches!(of(code), Outcome::Reject { .. }), "{code}");
        }
        for code in [301, 302, 307, 401, 403, 404, 408, 429, 500, 502, 503, 504] {
            assert!(matches!(of(code), Outcome::Retry { .. }), "{code}");
        }
        assert!(matches!(of(410), Outcome::Disabled { .. }));
    }

    #[test]
    fn a_reason_never_repeats_the_url() {
        let url = Url::parse("https://hooks.example.com/services/T000/B0000000/verysecret?key=alsosecret").unwrap();
        let page = "404: https://hooks.example.com/services/T000/B0000000/verysecret?key=alsosecret (verysecret, \
                    key=alsosecret) at hooks.example.com";
        let clean = Private::of(&url).scrub(page);
        for part in ["verysecret", "alsosecret", "B0000000", "hooks.example.com"] {
            assert!(!clean.contains(part), "{clean}");
        }
    }
}
