//! Node: ready or not, cordoned, pressure, taints, kubelet, size.

use serde_json::Value;

use super::{Sentence, Update, words};

pub(super) fn tell(update: &Update<'_>, sentence: &mut Sentence) {
    conditions(update, sentence);
    if update.touches(&["spec", "unschedulable"]) {
        let cordoned = update.is("/spec/unschedulable") == &Value::Bool(true);
        sentence.say(if cordoned { "Node cordoned" } else { "Node uncordoned" });
        sentence.tell(update, &["spec", "unschedulable"]);
    }
    if update.touches(&["spec", "taints"]) {
        taints(update, sentence);
        sentence.tell(update, &["spec", "taints"]);
    }
    for (index, spot) in update.spots.iter().enumerate() {
        let part = if spot.is(&["status", "nodeInfo", "kubeletVersion"]) {
            words::change("kubelet", spot.from(), spot.to())
        } else if spot.is(&["status", "capacity", "*"]) {
            words::change(&format!("capacity {}", spot.key(2)), spot.from(), spot.to())
        } else if spot.is(&["status", "allocatable", "*"]) && !update.touches(&["status", "capacity", spot.key(2)]) {
            words::change(&format!("allocatable {}", spot.key(2)), spot.from(), spot.to())
        } else {
            continue;
        };
        sentence.say(part);
        sentence.told[index] = true;
    }
    if !sentence.parts.is_empty() {
        sentence.tell(update, &["status"]);
    }
}

fn conditions(update: &Update<'_>, sentence: &mut Sentence) {
    let (was, is) = (&update.old["status"], &update.new["status"]);
    for condition in words::items(&is["conditions"]).iter().take(words::MANY) {
        let kind = words::text(&condition["type"]);
        let before = words::text(&words::condition(was, kind)["status"]);
        let after = words::text(&condition["status"]);
        if before == after {
            continue;
        }
        match (kind, after) {
            ("Ready", "True") => sentence.say("Node is Ready"),
            ("Ready", "Unknown") => sentence.say("Node is NotReady: its kubelet is silent"),
            ("Ready", _) => sentence.say("Node is NotReady"),
            // The kubelet's silence is told by Ready.
            (_, "Unknown") => {}
            ("NetworkUnavailable", "True") => sentence.say("Node has no network"),
            ("NetworkUnavailable", _) if before == "True" => sentence.say("Node has its network back"),
            ("NetworkUnavailable", _) => {}
            (kind, "True") => sentence.say(format!("Node has {}", words::one_line(kind))),
            (kind, _) if before == "True" => sentence.say(format!("Node no longer has {}", words::one_line(kind))),
            _ => {}
        }
    }
}

/// `dedicated=gpu:NoSchedule`.
fn text(taint: &Value) -> String {
    let value = words::text(&taint["value"]);
    let value = if value.is_empty() { String::new() } else { format!("={value}") };
    words::one_line(&format!("{}{value}:{}", words::text(&taint["key"]), words::text(&taint["effect"])))
}

fn taints(update: &Update<'_>, sentence: &mut Sentence) {
    let all = |value: &Value| words::items(value).iter().map(text).collect::<Vec<_>>();
    let (was, is) = (all(update.was("/spec/taints")), all(update.is("/spec/taints")));
    // The node controller mirrors conditions and cordons as taints: they are told by what they mirror.
    let said = !sentence.parts.is_empty();
    let own = |taint: &&String| !said || !taint.starts_with("node.kubernetes.io/");
    for taint in words::beyond(&is, &was).into_iter().filter(own) {
        sentence.say(mirrored(taint, true).unwrap_or_else(|| format!("taint {taint} added")));
    }
    for taint in words::beyond(&was, &is).into_iter().filter(own) {
        sentence.say(mirrored(taint, false).unwrap_or_else(|| format!("taint {taint} removed")));
    }
}

/// What a taint of the node controller means for pods.
fn mirrored(taint: &str, added: bool) -> Option<String> {
    let (why, effect) = taint.strip_prefix("node.kubernetes.io/")?.split_once(':')?;
    match (effect, added) {
        ("NoSchedule", true) => Some(format!("Node takes no new pods ({why})")),
        ("NoSchedule", false) => Some(format!("Node takes new pods again (no longer {why})")),
        ("NoExecute", true) => Some(format!("Node evicts its pods ({why})")),
        ("NoExecute", false) => Some(format!("Node keeps its pods again (no longer {why})")),
        _ => None,
    }
}
