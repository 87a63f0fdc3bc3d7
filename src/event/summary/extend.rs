//! What shapes the cluster itself: Namespace, CustomResourceDefinition, APIService, webhook configurations.

use serde_json::Value;

use super::{Sentence, Update, words};
use crate::diff::Op;

pub(super) fn namespace(update: &Update<'_>, sentence: &mut Sentence) {
    if update.touches(&["status", "phase"]) && update.is("/status/phase") == "Terminating" {
        sentence.parts.clear();
        sentence.say("Namespace is terminating");
        sentence.tell(update, &["status"]);
        sentence.tell(update, &["metadata"]);
    }
    if sentence.parts.is_empty() && update.touches(&["status", "conditions"]) {
        ending(update, sentence);
    }
    for (index, spot) in update.spots.iter().enumerate() {
        if spot.len() == 3
            && spot.starts(&["metadata", "labels"])
            && let Some(mode) = spot.key(2).strip_prefix("pod-security.kubernetes.io/")
        {
            sentence.say(words::change(&format!("pod security {}", words::one_line(mode)), spot.from(), spot.to()));
            sentence.told[index] = true;
        }
    }
}

/// How far the end of a namespace is, from what its controller says.
fn ending(update: &Update<'_>, sentence: &mut Sentence) {
    let status = &update.new["status"];
    let conditions = words::items(&status["conditions"]).iter().take(words::MANY);
    let known = |kind: &str| kind.starts_with("NamespaceDeletion") || kind.ends_with("Remaining");
    let mut found = conditions.filter(|condition| known(words::text(&condition["type"]))).peekable();
    if found.peek().is_none() {
        return;
    }
    let holds: Vec<&Value> = found.filter(|condition| condition["status"] == "True").collect();
    let fails = holds.iter().find(|condition| words::text(&condition["type"]).starts_with("NamespaceDeletion"));
    sentence.say(match (fails, holds.first()) {
        (Some(failure), _) => format!("Namespace cannot be emptied: {}", words::message(&failure["message"])),
        (None, Some(rest)) => format!("Namespace is not empty yet: {}", words::message(&rest["message"])),
        (None, None) => "Namespace is being emptied".to_owned(),
    });
    sentence.tell(update, &["status"]);
}

pub(super) fn crd(update: &Update<'_>, sentence: &mut Sentence) {
    let mut schemas = Vec::new();
    for (index, spot) in update.spots.iter().enumerate() {
        if !spot.starts(&["spec", "versions", "*"]) {
            continue;
        }
        let version = words::one_line(words::text(&spot.item(2)["name"]));
        let yes = spot.to() == &Value::Bool(true);
        sentence.told[index] = true;
        match (spot.len(), spot.change.op, spot.key(3)) {
            (3, Op::Add, _) => sentence.say(format!("version {version} added")),
            (3, Op::Remove, _) => sentence.say(format!("version {version} removed")),
            (3, ..) => sentence.told[index] = false,
            (_, _, "served") => {
                sentence.say(format!("version {version} is {} served", if yes { "now" } else { "no longer" }));
            }
            (_, _, "storage") if yes => sentence.say(format!("version {version} is now the stored one")),
            (_, _, "storage") => {}
            (_, _, "deprecated") if yes => sentence.say(format!("version {version} is deprecated")),
            (_, _, "schema") => schemas.push(version),
            _ => sentence.told[index] = false,
        }
    }
    schemas.dedup();
    for version in schemas {
        sentence.say(format!("schema of {version} changed"));
    }
    if update.touches(&["status", "conditions"]) {
        let established = |document: &Value| words::condition(&document["status"], "Established")["status"] == "True";
        let names = |document: &Value| {
            let condition = words::condition(&document["status"], "NamesAccepted");
            (words::text(&condition["status"]).to_owned(), words::message(&condition["message"]))
        };
        let (before, (accepted, why)) = (names(update.old).0, names(update.new));
        if established(update.new) && !established(update.old) {
            sentence.say("API is served");
            sentence.tell(update, &["status"]);
        } else if before != accepted {
            sentence.say(match accepted.as_str() {
                "True" => "names are accepted, the API is not served yet".to_owned(),
                _ => format!("names are not accepted: {why}"),
            });
            sentence.tell(update, &["status"]);
        }
    }
}

pub(super) fn api_service(update: &Update<'_>, sentence: &mut Sentence) {
    let (was, is) = (&update.old["status"], &update.new["status"]);
    let (before, after) = (words::condition(was, "Available"), words::condition(is, "Available"));
    if update.touches(&["status"]) && before["status"] != after["status"] {
        sentence.say(match words::text(&after["status"]) {
            "True" => "API is available".to_owned(),
            _ => format!("API is not available: {}", words::message(&after["message"])),
        });
        sentence.tell(update, &["status"]);
    }
    if update.touches(&["spec", "caBundle"]) {
        sentence.say("CA bundle replaced");
        sentence.tell(update, &["spec", "caBundle"]);
    }
}

pub(super) fn webhooks(update: &Update<'_>, sentence: &mut Sentence) {
    for (index, spot) in update.spots.iter().enumerate() {
        if !spot.starts(&["webhooks", "*"]) {
            continue;
        }
        let name = words::one_line(words::text(&spot.item(1)["name"]));
        let part = match (spot.len(), spot.change.op, spot.key(2)) {
            (2, Op::Add, _) => format!("webhook {name} added"),
            (2, Op::Remove, _) => format!("webhook {name} removed"),
            (2, ..) => continue,
            (_, _, "clientConfig") if spot.last_key() == "caBundle" => format!("CA bundle of {name} replaced"),
            (_, _, "failurePolicy") => words::change(&format!("failure policy of {name}"), spot.from(), spot.to()),
            (_, _, "timeoutSeconds") => words::change(&format!("timeout of {name}"), spot.from(), spot.to()),
            (_, _, "rules") => format!("rules of {name} changed"),
            (_, _, "namespaceSelector" | "objectSelector") => format!("selector of {name} changed"),
            (3, _, key) => words::change(&format!("{key} of {name}"), spot.from(), spot.to()),
            (_, _, key) => format!("{key} of {name} changed"),
        };
        sentence.say(part);
        sentence.told[index] = true;
    }
}
