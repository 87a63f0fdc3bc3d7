//! Roles, bindings, service accounts: who may do what from now on.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Sentence, Update, words};

/// Roles with more than this many (verb, resource) pairs are told by field.
const GRANTS: usize = 4_000;

/// `Group contractors`, `ServiceAccount ci/deployer`.
pub(super) fn subject(subject: &Value) -> String {
    let (kind, name) = (words::text(&subject["kind"]), words::text(&subject["name"]));
    words::one_line(&match words::text(&subject["namespace"]) {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    })
}

pub(super) fn binding(update: &Update<'_>, sentence: &mut Sentence) {
    let who = format!("{} {}", update.resource.kind, update.name);
    if update.touches(&["subjects"]) {
        let all = |value: &Value| words::items(value).iter().map(subject).collect::<Vec<_>>();
        let (was, is) = (all(update.was("/subjects")), all(update.is("/subjects")));
        let more = words::beyond(&is, &was);
        let less = words::beyond(&was, &is);
        let also = if was.is_empty() || more.len() == is.len() { "" } else { "also " };
        if !more.is_empty() {
            sentence.say(format!("{who} now {also}binds {}", words::list(&more, 4)));
        }
        if !less.is_empty() {
            let who = if more.is_empty() { who.as_str() } else { "" };
            sentence.say(format!("{who} no longer binds {}", words::list(&less, 4)).trim_start().to_owned());
        }
        if !more.is_empty() || !less.is_empty() {
            sentence.tell(update, &["subjects"]);
        }
    }
    if update.touches(&["roleRef"]) {
        let role = |value: &Value| format!("{} {}", words::text(&value["kind"]), words::text(&value["name"]));
        sentence.say(format!("{who} now gives {} (was {})", role(update.is("/roleRef")), role(update.was("/roleRef"))));
        sentence.tell(update, &["roleRef"]);
    }
}

/// What the rules allow, as resource -> verbs. `None` when it is too much to spell out.
fn grants(rules: &Value) -> Option<BTreeMap<String, BTreeSet<&str>>> {
    let mut grants: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut pairs = 0;
    for rule in words::items(rules) {
        let verbs = words::items(&rule["verbs"]);
        let names = words::items(&rule["resourceNames"]);
        let groups = words::items(&rule["apiGroups"]);
        let mut targets = Vec::new();
        for resource in words::items(&rule["resources"]) {
            for group in groups {
                let mut target = match (words::text(resource), words::text(group)) {
                    ("*", "*") => "everything".to_owned(),
                    (resource, "" | "*") => resource.to_owned(),
                    (resource, group) => format!("{resource}.{group}"),
                };
                if !names.is_empty() {
                    let names: Vec<&str> = names.iter().map(words::text).collect();
                    target = format!("{target} {}", names.join(", "));
                }
                targets.push(target);
            }
        }
        targets.extend(words::items(&rule["nonResourceURLs"]).iter().map(|url| words::text(url).to_owned()));
        pairs += targets.len() * verbs.len();
        if pairs > GRANTS {
            return None;
        }
        for target in targets {
            grants.entry(target).or_default().extend(verbs.iter().map(words::text));
        }
    }
    Some(grants)
}

/// What `a` allows and `b` does not: `delete on pods, secrets`.
fn beyond(a: &BTreeMap<String, BTreeSet<&str>>, b: &BTreeMap<String, BTreeSet<&str>>) -> Vec<String> {
    let mut by_verbs: BTreeMap<Vec<&str>, Vec<&String>> = BTreeMap::new();
    for (target, verbs) in a {
        let has = b.get(target);
        let more: Vec<&str> = verbs.iter().copied().filter(|verb| !has.is_some_and(|has| has.contains(verb))).collect();
        if !more.is_empty() {
            by_verbs.entry(more).or_default().push(target);
        }
    }
    let spell = |(verbs, targets): (Vec<&str>, Vec<&String>)| {
        let verbs = if verbs.contains(&"*") { "everything".to_owned() } else { words::list(&verbs, 8) };
        format!("{verbs} on {}", words::list(&targets, 4))
    };
    by_verbs.into_iter().map(spell).collect()
}

pub(super) fn role(update: &Update<'_>, sentence: &mut Sentence) {
    if !update.touches(&["rules"]) {
        return;
    }
    let (Some(was), Some(is)) = (grants(update.was("/rules")), grants(update.is("/rules"))) else { return };
    let who = format!("{} {}", update.resource.kind, update.name);
    let (more, less) = (beyond(&is, &was), beyond(&was, &is));
    if !more.is_empty() {
        let also = if was.is_empty() { "" } else { "also " };
        sentence.say(format!("{who} now {also}allows {}", words::list_by("; ", &more, 3)));
    }
    if !less.is_empty() {
        let who = if more.is_empty() { who.as_str() } else { "" };
        sentence.say(format!("{who} no longer allows {}", words::list_by("; ", &less, 3)).trim_start().to_owned());
    }
    if more.is_empty() && less.is_empty() {
        sentence.say(format!("rules of {who} rewritten, they allow the same"));
    }
    sentence.tell(update, &["rules"]);
}

pub(super) fn account(update: &Update<'_>, sentence: &mut Sentence) {
    for (list, what) in [("secrets", "secret"), ("imagePullSecrets", "image pull secret")] {
        if !update.touches(&[list]) {
            continue;
        }
        let names = |value: &Value| -> Vec<String> {
            words::items(value).iter().map(|item| words::text(&item["name"]).to_owned()).collect()
        };
        let (was, is) = (names(&update.old[list]), names(&update.new[list]));
        for name in words::beyond(&is, &was) {
            sentence.say(format!("{what} {name} added"));
        }
        for name in words::beyond(&was, &is) {
            sentence.say(format!("{what} {name} removed"));
        }
        sentence.tell(update, &[list]);
    }
}
