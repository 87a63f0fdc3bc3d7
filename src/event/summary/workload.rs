//! Deployment, StatefulSet, DaemonSet, ReplicaSet: replicas, and how a rollout goes on. Containers have words in
//! `podspec`.

use serde_json::Value;

use super::{Sentence, Update, podspec, words};

/// A Deployment's count of its templates.
const REVISION: &[&str] = &["metadata", "annotations", "deployment.kubernetes.io/revision"];
const REVISION_POINTER: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";
/// The counts that a ReplicaSet had before, when its template is used again.
const REVISION_HISTORY: &[&str] = &["metadata", "annotations", "deployment.kubernetes.io/revision-history"];

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
            sentence.told[index] |= spot.starts(REVISION) || spot.starts(REVISION_HISTORY);
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
    if sentence.parts.is_empty() && sentence.told.iter().all(|told| *told) {
        let (was, is) = (update.was(REVISION_POINTER), update.is(REVISION_POINTER));
        sentence.say(match update.touches(REVISION_HISTORY) {
            true => format!("in use again, as revision {} (was {})", words::value(is), words::value(was)),
            false => words::change("revision", was, is),
        });
    }
    if sentence.parts.is_empty()
        && update.touches(&["status"])
        && let Some(part) = progress(update).or_else(|| availability(update))
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
    if was == is
        && before.1 != after.1
        && let Some(began) = began(update)
    {
        return Some(began);
    }
    // Old pods that are still there belong to the rollout; new ones too many to scaling down, and ones too few to
    // scaling up or to their end, unless the controller says that it rolls out.
    let under_way = matches!(after.1.as_str(), "NewReplicaSetCreated" | "FoundNewReplicaSet" | "ReplicaSetUpdated");
    let old_ones = updated < wanted && (all > updated || under_way) || updated == wanted && all > wanted;
    if old_ones && kind != "ReplicaSet" {
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
    if ready > wanted {
        return Some(format!("{} ready, {wanted} wanted", words::count(ready, "pod")));
    }
    let mut part = format!("{ready} of {} ready", words::count(wanted, "pod"));
    if was.ready > ready && was.wanted == wanted {
        part.push_str(&format!(" (was {})", was.ready));
    }
    Some(part)
}

/// What a Deployment's controller says of a rollout that begins, before the first pod is counted.
fn began(update: &Update<'_>) -> Option<String> {
    let condition = words::condition(&update.new["status"], "Progressing");
    // `Created new replica set "web-5d9"`
    let name = words::text(&condition["message"]).split('"').nth(1).unwrap_or_default();
    let name = if name.is_empty() { String::new() } else { format!(" {}", words::one_line(name)) };
    match words::text(&condition["reason"]) {
        "NewReplicaSetCreated" => Some(format!("rollout begins: new ReplicaSet{name}")),
        "FoundNewReplicaSet" => Some(format!("rollout begins: ReplicaSet{name} is used again")),
        "ReplicaSetUpdated" => Some("rollout goes on".into()),
        "DeploymentPaused" => Some("rollout is paused".into()),
        "DeploymentResumed" => Some("rollout is resumed".into()),
        "FailedCreate" | "ReplicaSetCreateError" => {
            Some(format!("rollout cannot go on: {}", words::message(&condition["message"])))
        }
        _ => None,
    }
}

/// What else a status counts, when the pods that are ready are the same.
fn availability(update: &Update<'_>) -> Option<String> {
    let kind = update.resource.kind.as_str();
    let (was, is) = (&update.old["status"], &update.new["status"]);
    let failure = words::condition(is, "ReplicaFailure");
    if failure["status"] == "True" && words::condition(was, "ReplicaFailure")["status"] != "True" {
        return Some(format!("pods cannot be created: {}", words::message(&failure["message"])));
    }
    let Pods { wanted, ready, .. } = pods(kind, update.new);
    let of_pods = |number: i64| format!("{number} of {}", words::count(wanted, "pod"));
    let available = |status| words::text(&words::condition(status, "Available")["status"]).to_owned();
    match (available(was).as_str(), available(is).as_str()) {
        (before, "False") if before != "False" => {
            return Some(format!("{kind} is not available: {} ready", of_pods(ready)));
        }
        ("False", "True") => return Some(format!("{kind} is available again: {} ready", of_pods(ready))),
        _ => {}
    }
    let changed = |key: &str| was[key] != is[key];
    let number = |key: &str| words::number(&is[key]);
    if changed("unavailableReplicas") {
        return Some(match number("unavailableReplicas") {
            0 => "all pods are available".into(),
            // Those of the old template are among them: it is not so many of those that are wanted.
            missing => format!("{} not available", words::count(missing, "pod")),
        });
    }
    if changed("availableReplicas") || changed("numberAvailable") {
        return Some(format!("{} available", of_pods(number("availableReplicas").max(number("numberAvailable")))));
    }
    if changed("terminatingReplicas") {
        return Some(match number("terminatingReplicas") {
            0 => "no pod is terminating any more".into(),
            ending => format!("{} terminating", words::count(ending, "pod")),
        });
    }
    if changed("currentRevision") && is["currentRevision"] == is["updateRevision"] {
        return Some(format!("revision {} is everywhere", words::value(&is["currentRevision"])));
    }
    None
}
