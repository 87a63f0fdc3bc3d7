//! Sentences for every kind: labels, conditions, pod templates, and what else changed, by its field.

use serde_json::Value;

use super::{Sentence, Update, podspec, words};
use crate::{diff::Op, event::path::Spot};

/// An object that was asked to go and is not gone yet.
pub(super) fn deletion(update: &Update<'_>, sentence: &mut Sentence) {
    let asked = |document: &Value| document["metadata"].get("deletionTimestamp").is_some();
    if update.touches(&["metadata", "deletionTimestamp"]) && asked(update.new) {
        // Whoever ends the grace early, as a kubelet does when all containers have stopped, moves the time.
        let (kind, name) = (&update.resource.kind, update.name);
        sentence.say(match (asked(update.old), kind.as_str()) {
            (false, _) => format!("{kind} {name} is being deleted"),
            (true, "Pod") => format!("{kind} {name} has stopped and goes"),
            (true, _) => format!("{kind} {name} is being deleted now"),
        });
        sentence.tell(update, &["metadata", "deletionTimestamp"]);
        sentence.tell(update, &["metadata", "deletionGracePeriodSeconds"]);
    }
}

/// What the words of the kind have not told yet. Where they said something, the rest of status is left aside.
pub(super) fn tell(update: &Update<'_>, sentence: &mut Sentence) {
    let said = !sentence.parts.is_empty();
    let asked_for = update.spots.iter().any(|spot| spot.key(0) != "status");
    conditions(update, sentence, said);
    let said = !sentence.parts.is_empty();
    let mut moved = Vec::new();
    for index in 0..update.spots.len() {
        let spot = &update.spots[index];
        if sentence.told[index] {
            continue;
        }
        // Beside a change that somebody asked for, what the cluster notes about it is no news.
        if spot.key(0) == "status" && (said || asked_for) {
            continue;
        }
        if spot.moved() {
            moved.push(parent(&spot.change.field));
            continue;
        }
        sentence.say(part(spot));
    }
    moved.dedup();
    for field in moved {
        sentence.say(format!("{} reordered", short(field)));
    }
}

/// `Ready is now False: DeploymentNotReady`.
fn conditions(update: &Update<'_>, sentence: &mut Sentence, said: bool) {
    if !update.touches(&["status", "conditions"]) {
        return;
    }
    let (was, is) = (update.was("/status/conditions"), update.is("/status/conditions"));
    let mut news = Vec::new();
    for condition in words::items(is).iter().take(words::MANY) {
        let kind = words::text(&condition["type"]);
        let before = words::find(was, "type", kind);
        if kind.is_empty() || condition["status"].is_null() || before["status"] == condition["status"] {
            continue;
        }
        let mut part = format!("{kind} is now {}", words::value(&condition["status"]));
        if condition["status"] != "True" {
            let why = [&condition["message"], &condition["reason"]].map(words::message);
            if let Some(why) = why.iter().find(|why| !why.is_empty()) {
                part.push_str(&format!(": {why}"));
            }
        }
        news.push(part);
    }
    if news.is_empty() {
        return unchanged(update, sentence, said);
    }
    sentence.tell(update, &["status", "conditions"]);
    if !said {
        news.into_iter().for_each(|part| sentence.say(part));
    }
}

/// Conditions of which only times, reasons or messages moved: that is news when there is nothing else to say.
fn unchanged(update: &Update<'_>, sentence: &mut Sentence, said: bool) {
    let (was, is) = (update.was("/status/conditions"), update.is("/status/conditions"));
    let others = |(told, spot): (&bool, &Spot<'_>)| !told && !spot.starts(&["status", "conditions"]);
    if said || words::items(is).is_empty() || sentence.told.iter().zip(update.spots).any(others) {
        return;
    }
    for condition in words::items(is).iter().take(words::MANY) {
        let kind = words::text(&condition["type"]);
        let before = words::find(was, "type", kind);
        let why = words::message(&condition["message"]);
        if kind.is_empty() || before["message"] == condition["message"] || why.is_empty() {
            continue;
        }
        sentence.say(format!("{kind} is still {}: {why}", words::value(&condition["status"])));
    }
    if sentence.parts.is_empty() {
        sentence.say("conditions were checked again, none changed");
    }
    sentence.tell(update, &["status", "conditions"]);
}

fn part(spot: &Spot<'_>) -> String {
    metadata(spot).or_else(|| podspec::part(spot)).unwrap_or_else(|| field(spot))
}

fn metadata(spot: &Spot<'_>) -> Option<String> {
    if spot.key(0) != "metadata" {
        return None;
    }
    let map = match spot.key(1) {
        "labels" => "label",
        "annotations" => "annotation",
        "finalizers" => {
            let name = words::value(if spot.removed() { spot.from() } else { spot.to() });
            return match spot.change.op {
                Op::Add => Some(format!("finalizer {name} added")),
                Op::Remove => Some(format!("finalizer {name} removed")),
                _ => None,
            };
        }
        _ => return None,
    };
    if spot.len() == 2 {
        let all = if spot.removed() { spot.from() } else { spot.to() };
        let names: Vec<&String> = all.as_object().map(|all| all.keys().collect()).unwrap_or_default();
        let verb = if spot.removed() { "removed" } else { "added" };
        let plural = if names.len() == 1 { "" } else { "s" };
        return Some(format!("{map}{plural} {} {verb}", words::list(&names, 3)));
    }
    let name = words::one_line(spot.key(2));
    Some(match spot.change.op {
        Op::Add if words::is_hidden(spot.to()) => format!("{map} {name} added (hidden)"),
        Op::Add => format!("{map} {name}={} added", words::value(spot.to())),
        Op::Remove => format!("{map} {name} removed"),
        _ if spot.change.lines.is_some() => format!("{map} {name} changed"),
        _ => words::change(&format!("{map} {name}"), spot.from(), spot.to()),
    })
}

/// Any other field, by its name.
pub(super) fn field(spot: &Spot<'_>) -> String {
    let name = short(&spot.change.field);
    if let Some(lines) = &spot.change.lines {
        return lines_changed(&name, lines);
    }
    // A first status is told by what stands in it.
    if spot.is(&["status"])
        && spot.change.op == Op::Add
        && let Some(fields) = spot.to().as_object()
    {
        let plain = fields.iter().filter(|(_, value)| !is_composite(value) && !words::is_hidden(value));
        let plain: Vec<String> = plain.map(|(key, value)| format!("{key} {}", words::value(value))).collect();
        if !plain.is_empty() {
            return words::list(&plain, 4);
        }
    }
    let is_item = matches!(spot.steps.last(), Some(crate::event::path::Step::Item(_)));
    match spot.change.op {
        Op::Add if is_item && is_composite(spot.to()) => format!("{name} added"),
        Op::Add if is_item => format!("{} {} added", short(parent(&spot.change.field)), shown(spot.to())),
        Op::Remove if is_item && is_composite(spot.from()) => format!("{name} removed"),
        Op::Remove if is_item => format!("{} {} removed", short(parent(&spot.change.field)), shown(spot.from())),
        _ => words::change(&name, spot.from(), spot.to()),
    }
}

fn is_composite(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

fn shown(value: &Value) -> String {
    if words::is_hidden(value) { "(hidden)".into() } else { words::value(value) }
}

pub(super) fn lines_changed(name: &str, lines: &str) -> String {
    match words::line_counts(lines) {
        (added, 0) => format!("{name}: {} added", words::count(added, "line")),
        (0, removed) => format!("{name}: {} removed", words::count(removed, "line")),
        (added, removed) => format!("{name}: {} added, {removed} removed", words::count(added, "line")),
    }
}

/// The field without the part that goes without saying.
pub(super) fn short(field: &str) -> String {
    let field = field.strip_prefix("spec.").or_else(|| field.strip_prefix("data.")).unwrap_or(field);
    words::cut_middle(&words::one_line(field), words::VALUE)
}

/// The list that an item is in: `spec.ports[http]` -> `spec.ports`.
pub(in crate::event) fn parent(field: &str) -> &str {
    if !field.ends_with(']') {
        return field;
    }
    // Keys may hold brackets of their own; the last one that opens after a name begins the item.
    field.rfind('[').map_or(field, |at| &field[..at])
}
