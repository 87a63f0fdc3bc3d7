//! The event as text: for a terminal, as Markdown, and two documents as a unified YAML diff.
//!
//! What comes from the cluster is shown on its line and nowhere else: control characters are spelt out, so no value can
//! colour, move or forge anything.

pub mod markdown;
mod paint;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod unified;
pub mod yaml;

use jiff::tz::TimeZone;
use serde_json::Value;

use super::{Event, summary::words};
use crate::diff::{Change, Op};

pub use markdown::markdown;
pub use terminal::terminal;
pub use unified::unified;

/// How text is to look. The caller knows whether it writes to a terminal, and what NO_COLOR says.
#[derive(Clone, Debug)]
pub struct Style {
    pub color: bool,
    /// Columns; longer lines are cut with the change kept in sight. 0: never cut.
    pub width: usize,
    /// Where the reader's clock is; `None` leaves the time out.
    pub zone: Option<TimeZone>,
    /// Show what changed in status field by field. Without it a change of status alone is told by its summary.
    pub status: bool,
}

impl Style {
    /// No colour, nothing cut, times in UTC: for pipes and files.
    pub fn plain() -> Self {
        Self { color: false, width: 0, zone: Some(TimeZone::UTC), status: false }
    }
}

/// `Deployment`, `Gadget.acme.example`: the group where the kind alone may not say it.
pub fn kind(event: &Event) -> String {
    let (group, kind) = (event.resource.group.as_str(), &event.resource.kind);
    let known = matches!(group, "" | "apps" | "batch" | "autoscaling" | "policy") || group.ends_with(".k8s.io");
    words::one_line(&if known { kind.clone() } else { format!("{kind}.{group}") })
}

/// The managers, the newest first, each once.
pub fn managers(event: &Event) -> String {
    let mut managers: Vec<&str> = Vec::new();
    for actor in &event.actors {
        if !managers.contains(&actor.manager.as_str()) {
            managers.push(&actor.manager);
        }
    }
    words::list(&managers, 3)
}

/// How long the object of a deleted event had been there: `41 days`.
fn lifetime(event: &Event) -> Option<String> {
    let created = event.object.as_ref()?["metadata"]["creationTimestamp"].as_str()?;
    let age = event.time.duration_since(created.parse().ok()?).as_secs();
    Some(words::age(age))
}

/// The list and the key of an item: `spec.ports[http]` -> (`spec.ports`, `http`). `None` when the field is a member, of
/// which `["example.com/x"]` is one too.
fn item(field: &str) -> Option<(&str, &str)> {
    let inside = field.strip_suffix(']')?;
    let (mut quoted, mut escaped, mut open) = (false, false, None);
    for (at, c) in inside.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '[' if !quoted => open = Some(at),
            _ => {}
        }
    }
    let open = open?;
    let key = &inside[open + 1..];
    (!key.starts_with('"')).then_some((&inside[..open], key))
}

/// What came or went: `LOG_LEVEL=debug` where it is a name and a value, or a list of such, else in flow style.
fn item_text(value: &Value) -> String {
    match value {
        Value::Array(items) if !items.is_empty() && items.iter().all(is_pair) => {
            items.iter().map(item_text).collect::<Vec<_>>().join(", ")
        }
        _ if is_pair(value) => format!("{}={}", words::whole(&value["name"]), words::whole(&value["value"])),
        _ => words::whole(value),
    }
}

fn is_pair(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|fields| fields.len() == 2 && fields.contains_key("name") && fields.contains_key("value"))
}

/// The line diff of a change of text, where that is the way to show it: as the diff made it, or made here for short
/// texts.
fn lines(change: &Change) -> Option<String> {
    if let Some(lines) = &change.lines {
        return Some(lines.clone());
    }
    let (Some(Value::String(from)), Some(Value::String(to))) = (&change.from, &change.to) else { return None };
    if !from.trim_end().contains('\n') && !to.trim_end().contains('\n') {
        return None;
    }
    let diff = similar::TextDiff::from_lines(from.as_str(), to.as_str());
    let mut text = diff.unified_diff().context_radius(2).missing_newline_hint(false).to_string();
    // One hunk of a short text needs no line numbers.
    if text.matches("\n@@").count() == 0 && text.starts_with("@@") {
        text = text.split_once('\n').map_or(String::new(), |(_, rest)| rest.to_owned());
    }
    Some(text)
}

/// What became of the keys of a Secret: the verb, and the names.
fn secret_keys(event: &Event) -> Vec<(Op, Vec<String>)> {
    let mut keys: Vec<(Op, Vec<String>)> = Vec::new();
    for change in event.changes.iter().filter(|change| is_secret_value(event, change)) {
        let pointer = change.path.split('/').nth(2);
        let names = match pointer {
            Some(name) => vec![name.replace("~1", "/").replace("~0", "~")],
            None => {
                let all = change.to.as_ref().or(change.from.as_ref());
                all.and_then(Value::as_object).map(|all| all.keys().cloned().collect()).unwrap_or_default()
            }
        };
        match keys.iter_mut().find(|(op, _)| *op == change.op) {
            Some((_, all)) => all.extend(names),
            None => keys.push((change.op, names)),
        }
    }
    keys
}

fn is_secret_value(event: &Event, change: &Change) -> bool {
    let top = change.path.split('/').nth(1);
    event.resource.kind == "Secret" && event.resource.group.is_empty() && matches!(top, Some("data" | "stringData"))
}
