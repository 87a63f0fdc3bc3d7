//! HorizontalPodAutoscaler, PodDisruptionBudget, ResourceQuota: the numbers that hold others within bounds.

use super::{Sentence, Update, words};

pub(super) fn hpa(update: &Update<'_>, sentence: &mut Sentence) {
    for (index, spot) in update.spots.iter().enumerate() {
        let what = if spot.is(&["spec", "minReplicas"]) {
            "minimum replicas"
        } else if spot.is(&["spec", "maxReplicas"]) {
            "maximum replicas"
        } else {
            continue;
        };
        sentence.say(words::change(what, spot.from(), spot.to()));
        sentence.told[index] = true;
    }
    if update.touches(&["status", "desiredReplicas"]) {
        let current = words::number(update.was("/status/currentReplicas"));
        let (was, is) =
            (words::number(update.was("/status/desiredReplicas")), words::number(update.is("/status/desiredReplicas")));
        let from = if was > 0 { was } else { current };
        if from != is {
            sentence.say(format!("HPA scaled {from} -> {is}"));
        }
        sentence.tell(update, &["status"]);
    } else if update.touches(&["status", "currentReplicas"]) && sentence.parts.is_empty() {
        let (was, is) =
            (words::number(update.was("/status/currentReplicas")), words::number(update.is("/status/currentReplicas")));
        sentence.say(format!("HPA sees {} (was {was})", words::count(is, "replica")));
        sentence.tell(update, &["status"]);
    }
    metrics(update, sentence);
    let (was, is) = (&update.old["status"], &update.new["status"]);
    for (kind, bad) in [("AbleToScale", "HPA cannot scale"), ("ScalingActive", "HPA cannot read its metrics")] {
        let (before, after) = (words::condition(was, kind), words::condition(is, kind));
        if before["status"] != after["status"] && after["status"] == "False" {
            sentence.say(format!("{bad}: {}", words::message(&after["message"])));
            sentence.tell(update, &["status"]);
        }
    }
    if let (before, after) = (words::condition(was, "ScalingLimited"), words::condition(is, "ScalingLimited"))
        && before["status"] != after["status"]
        && after["status"] == "True"
        && after["reason"] == "TooManyReplicas"
    {
        sentence.say("HPA is at its maximum");
        sentence.tell(update, &["status"]);
    }
}

/// `cpu at 64% (was 35%)`, when there is nothing else.
fn metrics(update: &Update<'_>, sentence: &mut Sentence) {
    if !sentence.parts.is_empty() || !update.touches(&["status", "currentMetrics"]) {
        return;
    }
    let (was, is) = (update.was("/status/currentMetrics"), update.is("/status/currentMetrics"));
    for metric in words::items(is).iter().take(words::MANY) {
        let resource = &metric["resource"];
        let name = words::text(&resource["name"]);
        let old = words::items(was).iter().take(words::MANY).find(|old| old["resource"]["name"] == name);
        let percent = |metric: &serde_json::Value| metric["resource"]["current"]["averageUtilization"].as_i64();
        match (old.and_then(percent), percent(metric)) {
            (Some(before), Some(now)) if before != now => {
                sentence.say(format!("{} at {now}% (was {before}%)", words::one_line(name)));
            }
            (None, Some(now)) => sentence.say(format!("{} at {now}%", words::one_line(name))),
            _ => {}
        }
    }
    if sentence.parts.is_empty() {
        sentence.say("metrics changed");
    }
    sentence.tell(update, &["status", "currentMetrics"]);
}

pub(super) fn pdb(update: &Update<'_>, sentence: &mut Sentence) {
    if !update.touches(&["status"]) {
        return;
    }
    let is = &update.new["status"];
    if update.changed("/status/disruptionsAllowed") || update.changed("/status/currentHealthy") {
        let allowed = words::number(&is["disruptionsAllowed"]);
        let (healthy, wanted) = (words::number(&is["currentHealthy"]), words::number(&is["desiredHealthy"]));
        let disruptions = if allowed == 0 { "no disruption".into() } else { words::count(allowed, "disruption") };
        sentence.say(format!("PDB allows {disruptions}: {healthy} healthy, {wanted} needed"));
        sentence.tell(update, &["status"]);
    } else if update.changed("/status/expectedPods") || update.changed("/status/desiredHealthy") {
        let (was, expected) = (words::number(update.was("/status/expectedPods")), words::number(&is["expectedPods"]));
        let before = if was == expected { String::new() } else { format!(" (was {was})") };
        let wanted = words::number(&is["desiredHealthy"]);
        sentence.say(format!("PDB covers {}{before}, {wanted} needed", words::count(expected, "pod")));
        sentence.tell(update, &["status"]);
    }
}

pub(super) fn quota(update: &Update<'_>, sentence: &mut Sentence) {
    let asked = update.touches(&["spec"]);
    for (index, spot) in update.spots.iter().enumerate() {
        if spot.is(&["spec", "hard", "*"]) {
            sentence.say(words::change(&format!("quota of {}", words::one_line(spot.key(2))), spot.from(), spot.to()));
        } else if spot.is(&["status", "used", "*"]) && !asked {
            let hard = &update.new["status"]["hard"][spot.key(2)];
            let of = if hard.is_null() { String::new() } else { format!(" of {}", words::value(hard)) };
            let what = format!("{} used", words::one_line(spot.key(2)));
            sentence.say(format!("{}{of}", words::change(&what, spot.from(), spot.to())));
        } else {
            continue;
        }
        sentence.told[index] = true;
    }
}
