//! Pod: phase, restarts, crash loops, exits, scheduling, readiness, eviction.

use serde_json::Value;

use super::{Sentence, Update, words};

pub(super) fn tell(update: &Update<'_>, sentence: &mut Sentence) {
    if update.touches(&["spec", "nodeName"]) && update.was("/spec/nodeName").is_null() {
        sentence.say(format!("scheduled to {}", words::value(update.is("/spec/nodeName"))));
        sentence.tell(update, &["spec", "nodeName"]);
        // The server copies those of the node.
        let copied = |key: &str| key.starts_with("topology.kubernetes.io/");
        for (told, spot) in sentence.told.iter_mut().zip(update.spots) {
            let all = || spot.len() == 2 && spot.to().as_object().is_some_and(|all| all.keys().all(|key| copied(key)));
            *told |= spot.starts(&["metadata", "labels"]) && (copied(spot.key(2)) || all());
        }
    }
    if !update.touches(&["status"]) {
        return;
    }
    let (was, is) = (&update.old["status"], &update.new["status"]);
    let before = sentence.parts.len();
    phase(was, is, sentence);
    let gone = matches!(words::text(&is["phase"]), "Failed" | "Succeeded") && was["phase"] != is["phase"];
    if !gone {
        containers(was, is, sentence);
        conditions(was, is, sentence, before);
    }
    running_and_ready(sentence, before);
    if sentence.parts.len() == before && !update.spots.iter().any(|spot| spot.key(0) != "status") {
        details(was, is, sentence);
    }
    if sentence.parts.len() > before {
        sentence.tell(update, &["status"]);
    }
}

fn phase(was: &Value, is: &Value, sentence: &mut Sentence) {
    if was["phase"] == is["phase"] {
        return;
    }
    let reason = words::text(&is["reason"]);
    let message = words::message(&is["message"]);
    match words::text(&is["phase"]) {
        "Failed" if reason == "Evicted" => {
            sentence.say(if message.is_empty() { "Pod evicted".into() } else { format!("Pod evicted: {message}") });
        }
        "Failed" => {
            let exit = statuses(is).find_map(|status| exit(&status["state"]["terminated"]));
            let why = [exit.unwrap_or_default(), message, reason.to_owned()].into_iter().find(|why| !why.is_empty());
            sentence.say(why.map_or("Pod failed".to_owned(), |why| format!("Pod failed: {why}")));
        }
        "Succeeded" => sentence.say("Pod succeeded"),
        "Running" => sentence.say("Pod is running"),
        "Pending" => {}
        other => sentence.say(format!("Pod is {}", words::one_line(other))),
    }
}

/// What happens at once is told at once.
fn running_and_ready(sentence: &mut Sentence, before: usize) {
    if let [first, second] = &sentence.parts[before..]
        && (first.as_str(), second.as_str()) == ("Pod is running", "Pod is ready")
    {
        sentence.parts.truncate(before);
        sentence.say("Pod is running and ready");
    }
}

/// Smaller news, when there is none that matters: what still goes wrong, and steps on the way to running.
fn details(was: &Value, is: &Value, sentence: &mut Sentence) {
    for status in statuses(is) {
        let name = words::text(&status["name"]);
        let before = statuses(was).find(|before| before["name"] == name).unwrap_or(&Value::Null);
        if before == status {
            continue;
        }
        match words::text(&status["state"]["waiting"]["reason"]) {
            reason if reason.contains("Image") => {
                sentence.say(format!("{name} still cannot pull {} ({reason})", words::value(&status["image"])));
            }
            "CrashLoopBackOff" => {
                let restarts = words::number(&status["restartCount"]);
                sentence.say(format!("{name} still crash-looping: {}", words::count(restarts, "restart")));
            }
            _ if before["ready"] != status["ready"] => {
                sentence.say(format!("{name} is {}ready", if status["ready"] == true { "" } else { "not " }));
            }
            _ if before["started"] != status["started"] && status["started"] == true => {
                sentence.say(format!("{name} has started"));
            }
            _ if !status["state"]["running"].is_null() && before["state"]["running"].is_null() => {
                sentence.say(format!("{name} is running"));
            }
            "" => {}
            reason => sentence.say(format!("{name} waits: {}", words::one_line(reason))),
        }
    }
    let unscheduled = words::condition(is, "PodScheduled");
    if sentence.parts.is_empty() && unscheduled["status"] == "False" {
        sentence.say(format!("Pod still cannot be scheduled: {}", words::message(&unscheduled["message"])));
    }
    if sentence.parts.is_empty() && was["podIP"] != is["podIP"] && !is["podIP"].is_null() {
        sentence.say(format!("Pod has the address {}", words::value(&is["podIP"])));
    }
    let turned = |kind: &str| {
        words::condition(was, kind)["status"] != words::condition(is, kind)["status"]
            && words::condition(is, kind)["status"] == "True"
    };
    if sentence.parts.is_empty() && turned("Initialized") && !is["initContainerStatuses"].is_null() {
        sentence.say("init containers are done");
    }
    if sentence.parts.is_empty() && (turned("PodReadyToStartContainers") || turned("Initialized")) {
        sentence.say("Pod is ready to start its containers");
    }
}

fn statuses(status: &Value) -> impl Iterator<Item = &Value> {
    ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"]
        .into_iter()
        .flat_map(|list| words::items(&status[list]).iter().take(words::MANY))
}

/// `exit 137 (OOMKilled)`.
fn exit(terminated: &Value) -> Option<String> {
    let code = terminated["exitCode"].as_i64()?;
    Some(match words::text(&terminated["reason"]) {
        "" => format!("exit {code}"),
        reason => format!("exit {code} ({})", words::one_line(reason)),
    })
}

fn containers(was: &Value, is: &Value, sentence: &mut Sentence) {
    let several = statuses(is).nth(1).is_some();
    for status in statuses(is) {
        let name = words::text(&status["name"]);
        let before = statuses(was).find(|before| before["name"] == name).unwrap_or(&Value::Null);
        if before == status {
            continue;
        }
        let of = if several { format!(" ({name})") } else { String::new() };
        let restarts = words::number(&status["restartCount"]);
        let last = exit(&status["lastState"]["terminated"]).or_else(|| exit(&status["state"]["terminated"]));
        let last = last.map_or(String::new(), |last| format!(", last {last}"));
        let waiting = &status["state"]["waiting"];
        let reason = words::text(&waiting["reason"]);
        let waited = words::text(&before["state"]["waiting"]["reason"]);
        let restarted = restarts > words::number(&before["restartCount"]);
        match reason {
            "CrashLoopBackOff" if waited != reason || restarted => {
                sentence.say(format!("Pod crash-looping{of}: {}{last}", words::count(restarts, "restart")));
            }
            "CrashLoopBackOff" | "" | "ContainerCreating" | "PodInitializing" => {
                let ended = &status["state"]["terminated"];
                if restarted {
                    sentence.say(format!("{name} restarted: {}{last}", words::count(restarts, "restart")));
                } else if !ended.is_null() && before["state"]["terminated"].is_null() {
                    let done = ended["exitCode"] == 0;
                    let how = exit(ended).unwrap_or_default();
                    sentence.say(if done { format!("{name} completed") } else { format!("{name} ended: {how}") });
                }
            }
            // ErrImagePull and ImagePullBackOff alternate for as long as it fails: once is enough.
            _ if reason.contains("Image") && waited.contains("Image") => {}
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
                sentence.say(format!("{name} cannot pull {} ({reason})", words::value(&status["image"])));
            }
            _ if waited != reason => {
                let why = words::message(&waiting["message"]);
                let why = if why.is_empty() { String::new() } else { format!(": {why}") };
                sentence.say(format!("{name} cannot start, {}{why}", words::one_line(reason)));
            }
            _ => {}
        }
    }
}

/// `said` is how many parts there were before the Pod's own.
fn conditions(was: &Value, is: &Value, sentence: &mut Sentence, said: usize) {
    let flipped = |kind: &str| {
        let (before, after) = (words::condition(was, kind), words::condition(is, kind));
        (before["status"] != after["status"]).then_some((words::text(&before["status"]), after))
    };
    if let Some((before, scheduled)) = flipped("PodScheduled") {
        match words::text(&scheduled["status"]) {
            "False" => {
                let why = words::message(&scheduled["message"]);
                sentence.say(format!("Pod cannot be scheduled: {why}"));
            }
            "True" if before == "False" && sentence.parts.is_empty() => sentence.say("Pod scheduled"),
            _ => {}
        }
    }
    if let Some((before, ready)) = flipped("Ready") {
        match words::text(&ready["status"]) {
            "True" => sentence.say("Pod is ready"),
            // A crash loop says it already, and a Pod that was never ready is no news.
            "False" if before == "True" && sentence.parts.len() == said => {
                let why = words::message(&ready["message"]);
                sentence.say(if why.is_empty() {
                    "Pod is not ready".into()
                } else {
                    format!("Pod is not ready: {why}")
                });
            }
            _ => {}
        }
    }
    if let Some((_, target)) = flipped("DisruptionTarget")
        && target["status"] == "True"
    {
        sentence.say(format!("Pod is about to be disrupted: {}", words::message(&target["message"])));
    }
}
