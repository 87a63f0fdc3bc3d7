//! The old kubediff's YAML, taken as it is: it becomes TOML, and that is read.

use std::{fmt::Write as _, path::Path};

use serde::Deserialize;

use super::problem::{Origin, Problem};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Legacy {
    mode: Option<Mode>,
    resources: Option<Vec<Resource>>,
    namespaces: Option<Vec<String>>,
    notifier: Option<Notifier>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    /// Every type of event.
    #[default]
    Watch,
    /// Updates alone.
    Diff,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resource {
    kind: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Notifier {
    slack: Option<Slack>,
    webhook: Option<Webhook>,
    noop: Option<Noop>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Slack {
    enabled: bool,
    token: String,
    channel: String,
    /// The headline of a message; messages have their own now.
    title: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Webhook {
    enabled: bool,
    url: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Noop {
    enabled: bool,
}

/// By the file's name, or by what it begins with.
pub fn is_legacy(path: &Path, text: &str) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("yaml" | "yml") => true,
        Some("toml") => false,
        _ => {
            let first = text.lines().find(|line| !(line.trim().is_empty() || line.starts_with(['#', '-'])));
            let keys = ["mode:", "resources:", "namespaces:", "notifier:"];
            first.is_some_and(|line| keys.iter().any(|key| line.starts_with(key)))
        }
    }
}

/// The same configuration as TOML.
pub fn migrate(text: &str) -> Result<String, Problem> {
    let old: Legacy = if text.trim().is_empty() {
        Legacy::default()
    } else {
        serde_saphyr::from_str(text).map_err(|error| {
            let at = error.location().map_or(Origin::File, |at| Origin::Line(usize::try_from(at.line()).unwrap_or(1)));
            let message = error.without_snippet().to_string();
            let message = message.lines().next().unwrap_or_default().to_owned();
            Problem { at, key: String::new(), message: format!("not the old kubediff's YAML: {message}") }
        })?
    };
    Ok(write(&old))
}

fn write(old: &Legacy) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let list = |items: &[String]| items.iter().map(|item| quote(item)).collect::<Vec<_>>().join(", ");
    line("[watch]".into());
    let namespaces = old.namespaces.clone().filter(|list| !list.is_empty()).unwrap_or_else(|| vec!["all".into()]);
    line(format!("namespaces = [{}]", list(&namespaces)));
    let kinds: Vec<_> = old.resources.iter().flatten().map(|resource| resource.kind.clone()).collect();
    if !kinds.is_empty() {
        line(format!("include = [{}]", list(&kinds)));
    }

    let notifier = old.notifier.as_ref();
    let slack = notifier.and_then(|notifier| notifier.slack.as_ref()).filter(|slack| slack.enabled);
    let webhook = notifier.and_then(|notifier| notifier.webhook.as_ref()).filter(|webhook| webhook.enabled);
    let noop = notifier.and_then(|notifier| notifier.noop.as_ref()).is_some_and(|noop| noop.enabled);
    let mut sinks = Vec::new();
    // The old one wrote to its log whatever else it did, and to nothing else when told to notify nobody.
    if noop || slack.is_none() && webhook.is_none() {
        sinks.push("log");
        line("\n[sinks.log]\ntype = \"stdout\"\nformat = \"json\"".into());
    }
    if let Some(slack) = slack {
        sinks.push("slack");
        line("\n[sinks.slack]\ntype = \"slack\"".into());
        line("# better: token = { env = \"SLACK_TOKEN\" } or { file = \"/run/secrets/slack\" }".into());
        line(format!("token = {}", quote(&slack.token)));
        line(format!("channel = {}", quote(&slack.channel)));
        if !slack.title.is_empty() {
            line(format!("# The title {} has no counterpart: a message begins with its summary.", quote(&slack.title)));
        }
    }
    if let Some(webhook) = webhook {
        sinks.push("webhook");
        line("\n[sinks.webhook]\ntype = \"webhook\"".into());
        line(format!("url = {}\nformat = \"legacy\"", quote(&webhook.url)));
    }
    if old.mode.unwrap_or_default() == Mode::Diff {
        let names: Vec<_> = sinks.iter().map(|name| (*name).to_owned()).collect();
        line("\n[[routes]]\nname = \"updates\"\nmatch = { types = [\"updated\"] }".into());
        line(format!("sinks = [{}]", list(&names)));
        line("\n[[routes]]\nname = \"mode: diff\"\ndrop = \"not an update\"".into());
    }
    out
}

/// A TOML basic string.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
