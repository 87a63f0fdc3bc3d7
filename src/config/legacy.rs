//! The old kubediff's YAML, taken as it is: it becomes TOML, and that is read.

mod yaml;

use std::{fmt::Write as _, path::Path};

use self::yaml::{Reader, Said};
use super::problem::Problem;

#[derive(Debug, Default)]
struct Legacy {
    mode: Mode,
    kinds: Vec<Said<String>>,
    namespaces: Vec<Said<String>>,
    slack: Option<Said<Slack>>,
    webhook: Option<Said<Webhook>>,
    noop: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Mode {
    /// Every type of event.
    #[default]
    Watch,
    /// Updates alone.
    Diff,
}

/// Those that are enabled.
#[derive(Clone, Debug, Default)]
struct Slack {
    token: Said<String>,
    channel: Said<String>,
    /// The headline of a message; messages have their own now.
    title: String,
}

#[derive(Clone, Debug, Default)]
struct Webhook {
    url: Said<String>,
}

/// The same configuration as TOML, and where in the YAML each of its keys comes from.
pub struct Migrated {
    pub toml: String,
    /// A key of the TOML, the YAML's own, and its line.
    origins: Vec<(String, String, usize)>,
}

impl Migrated {
    /// A problem of the TOML, as one of the YAML.
    pub(super) fn place(&self, problem: Problem) -> Problem {
        use super::problem::Origin;
        if !matches!(problem.at, Origin::Line(_)) {
            return problem;
        }
        let of = |key: &str| problem.key == key || problem.key.starts_with(&format!("{key}."));
        match self.origins.iter().filter(|(key, ..)| of(key)).max_by_key(|(key, ..)| key.len()) {
            Some((_, key, line)) => Problem { at: Origin::Line(*line), key: key.clone(), message: problem.message },
            // The lines are those of the TOML that nobody has seen.
            None => Problem { at: Origin::File, ..problem },
        }
    }
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

/// The same configuration as TOML. Everything that the old kubediff would not have understood is in the answer.
pub fn migrate(text: &str) -> Result<Migrated, Vec<Problem>> {
    let old = match text.trim().is_empty() {
        true => Legacy::default(),
        false => Reader::read(text, Legacy::read)?,
    };
    Ok(write(&old))
}

impl Legacy {
    fn read(reader: &mut Reader, document: &yaml::Node) -> Self {
        let mut old = Self::default();
        let keys = ["mode", "resources", "namespaces", "notifier"];
        let mut top = reader.map(document, "", &keys);
        if let Some(node) = top.take("mode") {
            match reader.text(&node, "mode").as_str() {
                "watch" | "" => {}
                "diff" => old.mode = Mode::Diff,
                other => reader.wrong(&node, "mode", format!("expected watch or diff, found `{other}`")),
            }
        }
        for (index, node) in reader.list(top.take("resources").as_ref(), "resources").iter().enumerate() {
            let key = format!("resources[{index}]");
            match reader.map(node, &key, &["kind"]).take("kind") {
                Some(kind) => {
                    let key = format!("{key}.kind");
                    old.kinds.push(Said { value: reader.text(&kind, &key), line: kind.line, key });
                }
                None => {
                    reader.wrong(node, &key, "is without kind; expected version/resource or group/version/resource");
                }
            }
        }
        for (index, node) in reader.list(top.take("namespaces").as_ref(), "namespaces").iter().enumerate() {
            let key = format!("namespaces[{index}]");
            old.namespaces.push(Said { value: reader.text(node, &key), line: node.line, key });
        }
        let Some(notifier) = top.take("notifier") else { return old };
        let mut notifier = reader.map(&notifier, "notifier", &["slack", "webhook", "noop"]);
        if let Some(node) = notifier.take("slack") {
            let key = "notifier.slack";
            let mut slack = reader.map(&node, key, &["enabled", "token", "channel", "title"]);
            let enabled = reader.flag(slack.take("enabled").as_ref(), "notifier.slack.enabled");
            let mut said = |name: &str| reader.said(slack.take(name).as_ref(), &format!("{key}.{name}"), node.line);
            let value = Slack { token: said("token"), channel: said("channel"), title: said("title").value };
            old.slack = enabled.then(|| Said { value, line: node.line, key: key.to_owned() });
        }
        if let Some(node) = notifier.take("webhook") {
            let key = "notifier.webhook";
            let mut webhook = reader.map(&node, key, &["enabled", "url"]);
            let enabled = reader.flag(webhook.take("enabled").as_ref(), "notifier.webhook.enabled");
            let value = Webhook { url: reader.said(webhook.take("url").as_ref(), "notifier.webhook.url", node.line) };
            old.webhook = enabled.then(|| Said { value, line: node.line, key: key.to_owned() });
        }
        if let Some(node) = notifier.take("noop") {
            let mut noop = reader.map(&node, "notifier.noop", &["enabled"]);
            old.noop = reader.flag(noop.take("enabled").as_ref(), "notifier.noop.enabled");
        }
        old
    }
}

/// `group/*/resource`: the old kubediff named the version that it asked for, which clusters serve no more in the end. The
/// resource is the same at every version.
fn at_any_version(kind: &str) -> String {
    match kind.split('/').collect::<Vec<_>>().as_slice() {
        [group, version, resource] if version.starts_with('v') && !group.is_empty() => format!("{group}/*/{resource}"),
        _ => kind.to_owned(),
    }
}

fn write(old: &Legacy) -> Migrated {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let mut origins = Vec::new();
    let mut from = |key: String, said: (&str, usize)| origins.push((key, said.0.to_owned(), said.1));
    let list = |items: &[String]| items.iter().map(|item| quote(item)).collect::<Vec<_>>().join(", ");
    line("[watch]".into());
    let mut namespaces: Vec<String> = old.namespaces.iter().map(|said| said.value.clone()).collect();
    if namespaces.is_empty() {
        namespaces.push("all".into());
    }
    line(format!("namespaces = [{}]", list(&namespaces)));
    let kinds: Vec<_> = old.kinds.iter().map(|kind| at_any_version(&kind.value)).collect();
    if !kinds.is_empty() {
        line(format!("include = [{}]", list(&kinds)));
    }
    for (name, all) in [("namespaces", &old.namespaces), ("include", &old.kinds)] {
        for (index, said) in all.iter().enumerate() {
            from(format!("watch.{name}[{index}]"), (&said.key, said.line));
        }
        if let Some(first) = all.first() {
            from(format!("watch.{name}"), (&first.key, first.line));
        }
    }

    let mut sinks = Vec::new();
    // The old one wrote to its log whatever else it did, and to nothing else when told to notify nobody.
    if old.noop || old.slack.is_none() && old.webhook.is_none() {
        sinks.push("log");
        line("\n[sinks.log]\ntype = \"stdout\"\nformat = \"json\"".into());
    }
    if let Some(Said { value: slack, line: at, key }) = &old.slack {
        from("sinks.slack".into(), (key, *at));
        from("sinks.slack.token".into(), (&slack.token.key, slack.token.line));
        from("sinks.slack.channel".into(), (&slack.channel.key, slack.channel.line));
        sinks.push("slack");
        line("\n[sinks.slack]\ntype = \"slack\"".into());
        line("# better: token = { env = \"SLACK_TOKEN\" } or { file = \"/run/secrets/slack\" }".into());
        line(format!("token = {}", quote(&slack.token.value)));
        line(format!("channel = {}", quote(&slack.channel.value)));
        if !slack.title.is_empty() {
            line(format!("# The title {} has no counterpart: a message begins with its summary.", quote(&slack.title)));
        }
    }
    if let Some(Said { value: webhook, line: at, key }) = &old.webhook {
        from("sinks.webhook".into(), (key, *at));
        from("sinks.webhook.url".into(), (&webhook.url.key, webhook.url.line));
        sinks.push("webhook");
        line("\n[sinks.webhook]\ntype = \"webhook\"".into());
        line(format!("url = {}\nformat = \"legacy\"", quote(&webhook.url.value)));
    }
    if old.mode == Mode::Diff {
        let names: Vec<_> = sinks.iter().map(|name| (*name).to_owned()).collect();
        line("\n[[routes]]\nname = \"updates\"\nmatch = { types = [\"updated\"] }".into());
        line(format!("sinks = [{}]", list(&names)));
        line("\n[[routes]]\nname = \"mode: diff\"\ndrop = \"not an update\"".into());
    }
    Migrated { toml: out, origins }
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
