//! Deployment, StatefulSet, DaemonSet, ReplicaSet: replicas, and how a rollout goes on. Containers have words in
//! `podspec`.

use serde_json::Value;

use super::{Sentence, Update, podspec, words};

/// A Deployment's count of its templates.
const REVISION: &[&str] = &["metadata", "annotations", "deployment.kubernetes.io/revision"];
const REVISION_POINTER: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";

pub(super) fn tell(update: &Update<'_>, sentence: &mut Sentence) {
    for (index, spot) in update.spots.iter().enumerate() {
        let part = if spot.is(&["spec", "replicas"]) {
            Some(words::change("replicas", spot.from(), spot.to()))
        } else if spot.is(&["spec", "paused"]) {
            Some(if spot.to() == &Value::Bool(true) { "rollout paused".into() } else { "rollout resumed".into() })
        } else if spot.starts(&["spec", "template"]) && !spot.moved() {
            podspec::part(spot)
        } else {
            // The controller's own bookkeeping beside what somebody asked for.
            sentence.told[index] |= spot.starts(REVISION);
            None
        };
        if let Some(part) = part {
            sentence.say(part);
            sentence.told[index] = true;
        }
    }
    // An image is what people look for first, then the number of replicas.
    sentence.parts.sort_by_key(|part| match part {
        part if part.starts_with("image of ") => 0,
        part if part.starts_with("replicas ") => 1,
        _ => 2,
    });
    if sentence.parts.is_empty() && update.spots.iter().all(|spot| spot.starts(REVISION)) {
        sentence.say(words::change("revision", update.was(REVISION_POINTER), update.is(REVISION_POINTER)));
    }
    if sentence.parts.is_empty()
        && update.touches(&["status"])
        && let Some(part) = progress(update)
    {
        sentence.say(part);
        sentence.tell(update, &["status"]);
    }
}

/// Pods that a status counts.
#[derive(PartialEq)]
struct Pods {
    /// Asked for.
    wanted: i64,
    /// There are, old ones included.
    all: i64,
    /// Of the newest template.
    updated: i64,
    ready: i64,
}

fn pods(kind: &str, document: &Value) -> Pods {
    let status = &document["status"];
    let number = |key: &str| words::number(&status[key]);
    match kind {
        "DaemonSet" => Pods {
            wanted: number("desiredNumberScheduled"),
            all: number("currentNumberScheduled"),
            updated: number("updatedNumberScheduled"),
            ready: number("numberReady"),
        },
        _ => {
            // The section that asks is missing when only status changed.
            let wanted = document["spec"]["replicas"].as_i64();
            let all = number("replicas");
            let updated = if kind == "ReplicaSet" { all } else { number("updatedReplicas") };
            Pods { wanted: wanted.unwrap_or(all.max(updated)), all, updated, ready: number("readyReplicas") }
        }
    }
}

fn progress(update: &Update<'_>) -> Option<String> {
    let kind = update.resource.kind.as_str();
    let (was, is) = (pods(kind, update.old), pods(kind, update.new));
    let progressing = |document: &Value| {
        let condition = words::condition(&document["status"], "Progressing");
        (words::text(&condition["status"]).to_owned(), words::text(&condition["reason"]).to_owned())
    };
    let (before, after) = (progressing(update.old), progressing(update.new));
    let Pods { wanted, all, updated, ready } = is;
    if before != after && after.1 == "ProgressDeadlineExceeded" {
        return Some(format!("rollout stuck: {updated} of {} updated, {ready} ready", words::count(wanted, "pod")));
    }
    if was == is && before == after {
        return None;
    }
    let done = |p: &Pods| p.updated == p.wanted && p.all == p.wanted && p.ready == p.wanted;
    if wanted == 0 && all == 0 {
        return Some("no pods left".into());
    }
    if updated < wanted || all > wanted.max(updated) && updated != was.updated {
        return Some(format!("rolling out: {updated} of {} updated, {ready} ready", words::count(wanted, "pod")));
    }
    let replaced = kind != "ReplicaSet" && (was.updated != updated || was.all > all);
    let finished = before.1 != after.1 && after.1 == "NewReplicaSetAvailable";
    if done(&is) && (finished || !done(&was) && replaced) {
        return Some(format!("rolled out: {} ready", words::count(wanted, "pod")));
    }
    if was.ready == ready && was.wanted == wanted && was.all == all {
        return None;
    }
    let mut part = format!("{ready} of {} ready", words::count(wanted, "pod"));
    if was.ready > ready && was.wanted == wanted {
        part.push_str(&format!(" (was {})", was.ready));
    }
    Some(part)
}
