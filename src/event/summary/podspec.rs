//! Words for the fields of containers and pod templates, in whatever kind they are.

use serde_json::Value;

use super::words;
use crate::{diff::Op, event::path::Spot};

/// `None` when the change is not in a container, or has no words of its own.
pub(super) fn part(spot: &Spot<'_>) -> Option<String> {
    if spot.key(0) != "spec" {
        return None;
    }
    let lists = ["containers", "initContainers", "ephemeralContainers"];
    for index in 1..spot.len() {
        let key = spot.key(index);
        if lists.contains(&key) {
            return container(spot, index);
        }
        match key {
            "annotations" if spot.key(index + 1) == "kubectl.kubernetes.io/restartedAt" => {
                return Some("restarted".into());
            }
            "volumes" if spot.len() == index + 2 => return named(spot, "volume", index + 1),
            "nodeSelector" if spot.len() == index + 2 => {
                return Some(words::change(&format!("node selector {}", spot.key(index + 1)), spot.from(), spot.to()));
            }
            "serviceAccountName" => return Some(words::change("service account", spot.from(), spot.to())),
            "priorityClassName" => return Some(words::change("priority class", spot.from(), spot.to())),
            // Inside these every word is the user's own.
            "labels" | "annotations" | "matchLabels" => {
                let map = key.trim_end_matches('s');
                let place = if spot.key(index - 1) == "metadata" { "pod " } else { "" };
                let map = if map == "matchLabel" { "selector" } else { map };
                return Some(words::change(&format!("{place}{map} {}", spot.key(index + 1)), spot.from(), spot.to()));
            }
            _ => {}
        }
    }
    None
}

/// `volume cache added`.
fn named(spot: &Spot<'_>, what: &str, index: usize) -> Option<String> {
    let name = name_of(spot.item(index));
    match spot.change.op {
        Op::Add => Some(format!("{what} {name} added")),
        Op::Remove => Some(format!("{what} {name} removed")),
        _ => None,
    }
}

fn name_of(item: &Value) -> String {
    let name = ["name", "mountPath", "containerPort", "ip", "key"].iter().map(|key| &item[*key]).find(|v| !v.is_null());
    words::value(name.unwrap_or(item))
}

/// `list` is where the list of containers stands in the path.
fn container(spot: &Spot<'_>, list: usize) -> Option<String> {
    let kind = match spot.key(list) {
        "initContainers" => "init container",
        "ephemeralContainers" => "ephemeral container",
        _ => "container",
    };
    let at = list + 1;
    if spot.len() == at {
        let all = if spot.removed() { spot.from() } else { spot.to() };
        let names: Vec<String> = words::items(all).iter().map(name_of).collect();
        let verb = if spot.removed() { "removed" } else { "added" };
        return Some(format!("{kind} {} {verb}", words::list(&names, 3)));
    }
    let item = spot.item(at);
    let name = name_of(item);
    if spot.len() == at + 1 {
        return match spot.change.op {
            Op::Add => Some(format!("{kind} {name} added ({})", words::value(&item["image"]))),
            Op::Remove => Some(format!("{kind} {name} removed")),
            _ => None,
        };
    }
    let of = if kind == "init container" { format!("init {name}") } else { name };
    let change = |what: &str| Some(words::change(what, spot.from(), spot.to()));
    match spot.key(at + 1) {
        "image" => change(&format!("image of {of}")),
        "imagePullPolicy" => change(&format!("pull policy of {of}")),
        "env" => env(spot, at + 2, &of),
        "envFrom" => Some(format!("env sources of {of} changed")),
        "resources" => resources(spot, at + 2, &of),
        "command" => Some(format!("command of {of} changed")),
        "args" if spot.len() == at + 2 => Some(format!("arguments of {of} changed")),
        "args" => match spot.change.op {
            Op::Add => Some(format!("argument {} of {of} added", words::value(spot.to()))),
            Op::Remove => Some(format!("argument {} of {of} removed", words::value(spot.from()))),
            _ => change(&format!("argument of {of}")),
        },
        probe @ ("livenessProbe" | "readinessProbe" | "startupProbe") => {
            let probe = format!("{} probe", probe.trim_end_matches("Probe"));
            match (spot.len() == at + 2, spot.change.op) {
                (true, Op::Add) => Some(format!("{probe} added to {of}")),
                (true, Op::Remove) => Some(format!("{probe} removed from {of}")),
                (true, _) => Some(format!("{probe} of {of} changed")),
                (false, _) => change(&format!("{probe} of {of}: {}", trail(spot, at + 2))),
            }
        }
        "ports" if spot.len() == at + 3 => Some(named(spot, "port", at + 2)? + &format!(" ({of})")),
        "volumeMounts" if spot.len() == at + 3 => Some(named(spot, "mount", at + 2)? + &format!(" ({of})")),
        _ if spot.moved() => None,
        _ => change(&format!("{} of {of}", trail(spot, at + 1))),
    }
}

/// The rest of the path as a person reads it.
fn trail(spot: &Spot<'_>, from: usize) -> String {
    let mut text = String::new();
    for index in from..spot.len() {
        match spot.key(index) {
            "" => text.push_str(&format!("[{}]", name_of(spot.item(index)))),
            key => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
        }
    }
    text
}

fn env(spot: &Spot<'_>, at: usize, of: &str) -> Option<String> {
    if spot.len() == at {
        let all = if spot.removed() { spot.from() } else { spot.to() };
        let names: Vec<String> = words::items(all).iter().map(name_of).collect();
        let verb = if spot.removed() { "removed from" } else { "added to" };
        return Some(format!("env {} {verb} {of}", words::list(&names, 3)));
    }
    let item = spot.item(at);
    let name = name_of(item);
    if spot.len() == at + 1 {
        return match spot.change.op {
            Op::Add if item["value"].is_string() && !words::is_hidden(&item["value"]) => {
                Some(format!("env {name}={} added to {of}", words::value(&item["value"])))
            }
            Op::Add => Some(format!("env {name} added to {of}")),
            Op::Remove => Some(format!("env {name} removed from {of}")),
            _ => None,
        };
    }
    match spot.key(at + 1) {
        "value" => Some(words::change(&format!("env {name} of {of}"), spot.from(), spot.to())),
        _ => Some(format!("source of env {name} of {of} changed")),
    }
}

/// `memory limit of web 512Mi -> 1Gi`.
fn resources(spot: &Spot<'_>, at: usize, of: &str) -> Option<String> {
    let noun = |group: &str| group.trim_end_matches('s').to_owned();
    let amounts = |group: &str, amounts: &Value| {
        let amounts = amounts.as_object()?;
        let amounts: Vec<String> =
            amounts.iter().map(|(name, amount)| format!("{name} {}", words::whole(amount))).collect();
        Some(format!("{group} {}", amounts.join(", ")))
    };
    match spot.len() - at {
        0 => {
            let all = if spot.removed() { spot.from() } else { spot.to() };
            let all = all.as_object()?.iter().filter_map(|(group, all)| amounts(group, all)).collect::<Vec<_>>();
            let verb = if spot.removed() { "removed from" } else { "set on" };
            Some(format!("{} {verb} {of}", all.join(", ")))
        }
        1 if spot.removed() => Some(format!("{} removed from {of}", spot.key(at))),
        1 => Some(format!("{} set on {of}", amounts(spot.key(at), spot.to())?)),
        _ => {
            let what = format!("{} {} of {of}", spot.key(at + 1), noun(spot.key(at)));
            Some(words::change(&what, spot.from(), spot.to()))
        }
    }
}
