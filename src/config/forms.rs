//! What single values must look like, and what must hold between the keys of one table. A check answers with what is
//! wrong; it never repeats a value that may be a secret.

use std::str::FromStr;

use super::tree::{Table, Value};
use crate::{
    cluster::{select, store},
    event::Class,
    redact::{self, Door},
    route::parts::{Hours, Owners, Paths, Patterns, When},
};

type Checked = Result<(), String>;

fn one<T, E: std::fmt::Display>(text: &str, build: impl Fn(&[String]) -> Result<T, E>) -> Checked {
    build(&[text.to_owned()]).map(drop).map_err(|error| error.to_string())
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Checked {
    text.parse::<T>().map(drop).map_err(|error| error.to_string())
}

pub(super) fn not_empty(text: &str) -> Checked {
    if text.trim().is_empty() { Err("must not be empty".to_owned()) } else { Ok(()) }
}

/// A word for metrics: bounded, and printable.
pub(super) fn label(text: &str) -> Checked {
    not_empty(text)?;
    match text.len() > 100 || text.chars().any(char::is_control) {
        true => Err("must be at most 100 characters, on one line".to_owned()),
        false => Ok(()),
    }
}

pub(super) fn name(text: &str) -> Checked {
    one(text, Patterns::names)
}

pub(super) fn word(text: &str) -> Checked {
    one(text, Patterns::words)
}

pub(super) fn path(text: &str) -> Checked {
    one(text, Paths::new)
}

pub(super) fn owner(text: &str) -> Checked {
    one(text, Owners::new)
}

pub(super) fn selector(text: &str) -> Checked {
    parsed::<store::Selector>(text)
}

/// `a.b=c,d.e!=f`, as the API server takes it.
pub(super) fn field_selector(text: &str) -> Checked {
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let key = part.split_once("!=").or_else(|| part.split_once("==")).or_else(|| part.split_once('='));
        if key.is_none_or(|(key, _)| key.trim().is_empty()) {
            return Err(format!("`{part}` is not of the form field=value or field!=value"));
        }
    }
    Ok(())
}

pub(super) fn resource(text: &str) -> Checked {
    parsed::<select::Pattern>(text)
}

pub(super) fn namespace(text: &str) -> Checked {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '*' | '?');
    match !text.is_empty() && text.len() <= 63 && text.chars().all(fine) {
        true => Ok(()),
        false => Err(format!("`{text}` is not a namespace's name or pattern: small letters, digits, - and * or ?")),
    }
}

pub(super) fn redaction(text: &str) -> Checked {
    // The door compiles without a limit of its own; this one is far below what a bomb takes.
    let bounded = regex::RegexBuilder::new(text).size_limit(1 << 20).build();
    if let Err(regex::Error::CompiledTooBig(_)) = bounded {
        return Err(format!("the regular expression `{text}` is too large"));
    }
    door(&redact::Settings { patterns: vec![text.to_owned()], ..redact::Settings::default() })
}

pub(super) fn noise(text: &str) -> Checked {
    door(&redact::Settings { ignore: vec![text.to_owned()], ..redact::Settings::default() })
}

fn door(settings: &redact::Settings) -> Checked {
    let last = |text: String| text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned();
    match Door::new(settings, &[0; 32]) {
        Ok(_) => Ok(()),
        Err(redact::Error::Pattern { pattern, source }) => {
            Err(format!("`{pattern}` is not a regular expression: {}", last(source.to_string())))
        }
        Err(redact::Error::EmptyPattern { pattern }) => {
            Err(format!("`{pattern}` matches the empty text, it would mask everything"))
        }
        Err(redact::Error::Path { path, reason }) => Err(format!("`{path}` is not a path: {reason}")),
    }
}

pub(super) fn hours(text: &str) -> Checked {
    Hours::new(&[text.to_owned()], &[], "").map(drop).map_err(|error| error.to_string())
}

pub(super) fn weekday(text: &str) -> Checked {
    Hours::new(&[], &[text.to_owned()], "").map(drop).map_err(|error| error.to_string())
}

pub(super) fn zone(text: &str) -> Checked {
    Hours::new(&[], &[], text).map(drop).map_err(|error| error.to_string())
}

pub(super) fn time(text: &str) -> Checked {
    let wrong = |_| format!("`{text}` is not a time; write it as 2026-01-31T22:00:00Z or with +01:00");
    text.parse::<jiff::Timestamp>().map(drop).map_err(wrong)
}

pub(super) fn when(text: &str) -> Checked {
    When::new(text).map(drop).map_err(|error| error.to_string())
}

pub(super) fn classes() -> Vec<&'static str> {
    Class::ALL.iter().map(|class| class.as_str()).collect()
}

pub(super) fn address(text: &str) -> Checked {
    let wrong = || format!("`{text}` is not an address; write host and port, such as 127.0.0.1:9090 or [::]:9090");
    match text.is_empty() {
        true => Ok(()),
        false => text.parse::<std::net::SocketAddr>().map(drop).map_err(|_| wrong()),
    }
}

pub(super) fn url(text: &str) -> Checked {
    match reqwest::Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(()),
        _ => Err("is not a URL that begins with http:// or https://".to_owned()),
    }
}

pub(super) fn url_or_empty(text: &str) -> Checked {
    if text.is_empty() { Ok(()) } else { url(text) }
}

pub(super) fn bytes(text: &str) -> Checked {
    parse_bytes(text).map(drop)
}

/// `2GiB`, `500MB`, `1048576`.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size; write a number with KiB, MiB, GiB, TiB, kB, MB, GB or TB");
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().map_err(|_| wrong())?;
    let unit: u64 = match text[end..].trim() {
        "" | "B" => 1,
        "KiB" | "Ki" => 1 << 10,
        "MiB" | "Mi" => 1 << 20,
        "GiB" | "Gi" => 1 << 30,
        "TiB" | "Ti" => 1 << 40,
        "kB" | "k" => 1000,
        "MB" | "M" => 1_000_000,
        "GB" | "G" => 1_000_000_000,
        "TB" | "T" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(wrong)
}

type Found = Vec<(&'static str, String)>;

fn is_true(table: &Table, key: &str) -> bool {
    table.get(key).is_some_and(|node| matches!(node.value, Value::Flag(true)))
}

/// Whether a key is there and says something.
fn says(table: &Table, key: &str) -> bool {
    table.get(key).is_some_and(|node| match &node.value {
        Value::Text(text) => !text.is_empty(),
        Value::List(list) => !list.is_empty(),
        Value::Table(table) => !table.is_empty(),
        _ => true,
    })
}

pub(super) fn namespaces_rule(table: &Table) -> Found {
    let Some(Value::List(list)) = table.get("namespaces").map(|node| &node.value) else { return Vec::new() };
    let all = list.iter().any(|item| matches!(&item.value, Value::Text(text) if text == "all"));
    match all && list.len() > 1 {
        true => vec![("namespaces", "\"all\" stands beside others; leave out the one or the others".to_owned())],
        false => Vec::new(),
    }
}

/// The times of the Lease must leave a leader time to stop.
pub(super) fn ha_rule(table: &Table) -> Found {
    let number = |key: &str, default: u64| match table.get(key).map(|node| &node.value) {
        Some(Value::Integer(number)) => u64::try_from(*number).unwrap_or(default),
        _ => default,
    };
    let (lease, renew, retry) = (number("lease_secs", 15), number("renew_secs", 10), number("retry_secs", 2));
    let mut found = Vec::new();
    if renew >= lease {
        found.push(("renew_secs", format!("is {renew}, not less than lease_secs, which is {lease}")));
    }
    if retry >= renew {
        found.push(("retry_secs", format!("is {retry}, not less than renew_secs, which is {renew}")));
    }
    found
}

pub(super) fn selectors_rule(table: &Table) -> Found {
    match (says(table, "resource"), says(table, "labels") || says(table, "fields")) {
        (false, _) => vec![("", "is without resource; expected a pattern of resources".to_owned())],
        (_, false) => vec![("", "selects nothing; expected labels or fields".to_owned())],
        _ => Vec::new(),
    }
}

pub(super) fn webhook_rule(table: &Table) -> Found {
    let mut found = Vec::new();
    if !table.contains_key("url") {
        found.push(("", "is without url; expected the address that requests go to".to_owned()));
    }
    let template = matches!(table.get("format").map(|node| &node.value), Some(Value::Text(text)) if text == "template");
    if template && !says(table, "template") {
        found.push(("format", "is \"template\", and there is no template".to_owned()));
    }
    for key in ["template", "template_headers", "vars"] {
        if !template && says(table, key) {
            found.push((key, "is for format = \"template\" only".to_owned()));
        }
    }
    if says(table, "username") != says(table, "password") {
        let key = if says(table, "username") { "username" } else { "password" };
        found.push((key, "needs both, username and password".to_owned()));
    }
    if says(table, "username") && says(table, "bearer_token") {
        found.push(("bearer_token", "stands beside username; a request has one kind of authorization".to_owned()));
    }
    if says(table, "client_certificate") != says(table, "client_key") {
        let key = if says(table, "client_key") { "client_key" } else { "client_certificate" };
        found.push((key, "needs both, client_certificate and client_key".to_owned()));
    }
    found
}

pub(super) fn slack_rule(table: &Table) -> Found {
    match (says(table, "token"), says(table, "webhook_url")) {
        (false, false) => vec![("", "is without token or webhook_url; expected one of them".to_owned())],
        (true, true) => vec![("webhook_url", "stands beside token; expected one of them".to_owned())],
        (true, false) if !says(table, "channel") => {
            vec![("", "is without channel, which a token needs: \"#ops\" or the channel's id".to_owned())]
        }
        (false, true) if says(table, "channel") => {
            vec![("channel", "is for token only; an incoming webhook has its channel in Slack".to_owned())]
        }
        _ => Vec::new(),
    }
}

pub(super) fn route_rule(table: &Table) -> Found {
    let drops = table.contains_key("drop");
    let mut found = Vec::new();
    for key in ["sinks", "routes", "continue"] {
        if drops && (key != "continue" && says(table, key) || key == "continue" && is_true(table, key)) {
            found.push((key, "stands beside drop, and what is dropped goes nowhere".to_owned()));
        }
    }
    found
}

pub(super) fn silence_rule(table: &Table) -> Found {
    let mut found = Vec::new();
    if !table.contains_key("reason") {
        found.push(("", "is without reason; say why".to_owned()));
    }
    if !["until", "hours", "weekdays"].iter().any(|key| says(table, key)) {
        found.push(("", "is for ever; expected until, hours or weekdays (a route with drop is for ever)".to_owned()));
    }
    let time = |key: &str| match table.get(key).map(|node| &node.value) {
        Some(Value::Text(text) | Value::Date(text)) => text.parse::<jiff::Timestamp>().ok(),
        _ => None,
    };
    if let (Some(from), Some(until)) = (time("from"), time("until"))
        && until <= from
    {
        found.push(("until", "is not after from".to_owned()));
    }
    found
}
