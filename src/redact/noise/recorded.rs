//! What a noise profile would have left of changes that are recorded already.

use serde_json::Value;

use super::{Paths, Profile, Segment};
use crate::{cluster::Resource, redact::Error};

/// The paths of a profile, asked about single changes. What was left outside when they were recorded does not come back.
#[derive(Clone, Debug)]
pub struct Recorded(Paths);

impl Recorded {
    pub fn new(profile: Profile, ignore: &[String]) -> Result<Self, Error> {
        Paths::new(profile, ignore).map(Self)
    }

    /// Whether nothing of a change would have been seen: it lies at or below a path, or differs by nothing else than what
    /// paths lead to.
    pub fn hides(&self, resource: &Resource, pointer: &str, from: Option<&Value>, to: Option<&Value>) -> bool {
        let at: Vec<String> = pointer.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~")).collect();
        let mut onward = Vec::new();
        for path in self.0.0.iter().filter(|path| path.is_for(resource)) {
            reach(&at, &path.segments, &mut onward);
        }
        if onward.iter().any(|rest| rest.is_empty()) {
            return true;
        }
        if onward.is_empty() || (from.is_none() && to.is_none()) {
            return false;
        }
        let [from, to] = [from, to].map(|value| {
            let mut value = value?.clone();
            let dropped = onward.iter().filter(|rest| strip(&mut value, rest)).count() > 0;
            (!(dropped && is_empty(&value))).then_some(value)
        });
        from == to
    }
}

/// What is left of a path once it has come as far as `at`, by each way that there is.
fn reach<'p>(at: &[String], segments: &'p [Segment], found: &mut Vec<&'p [Segment]>) {
    let (Some((segment, rest)), Some((key, below))) = (segments.split_first(), at.split_first()) else {
        return found.push(segments);
    };
    if *segment == Segment::AnyDepth {
        reach(at, rest, found);
        reach(below, segments, found);
    } else if segment.matches(key) {
        reach(below, rest, found);
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Takes out what a path leads to; whether there was any.
fn strip(value: &mut Value, segments: &[Segment]) -> bool {
    let Some((segment, rest)) = segments.split_first() else { return false };
    let mut dropped = false;
    if *segment == Segment::AnyDepth {
        dropped |= strip(value, rest);
    }
    let rest = if *segment == Segment::AnyDepth { segments } else { rest };
    let mut keep = |matches: bool, child: &mut Value| {
        if !matches {
            return true;
        }
        let gone = if rest.is_empty() { true } else { strip(child, rest) && is_empty(child) };
        dropped |= gone || rest.is_empty();
        !gone
    };
    match value {
        Value::Object(fields) => fields.retain(|key, child| keep(segment.matches(key), child)),
        Value::Array(items) => {
            let mut index = 0usize;
            items.retain_mut(|child| {
                index += 1;
                keep(segment.matches_index(index - 1), child)
            });
        }
        _ => {}
    }
    dropped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_hidden_when_it_is_noise_and_nothing_else() {
        let ignore = ["/metadata/annotations/example.com~1*", "Deployment:/spec/replicas", "/status/**/seen"];
        let ignore: Vec<String> = ignore.iter().map(|&path| path.to_owned()).collect();
        let noise = Recorded::new(Profile::Quiet, &ignore).unwrap();
        let deployment = Resource::core("v1", "deployments", "Deployment").in_group("apps");
        let map = Resource::core("v1", "configmaps", "ConfigMap");
        let hides = |resource: &Resource, path: &str, from: Value, to: Value| {
            let [from, to] = [from, to].map(|value| (!value.is_null()).then_some(value));
            noise.hides(resource, path, from.as_ref(), to.as_ref())
        };
        for (resource, path, from, to, hidden) in [
            (&deployment, "/spec/replicas", json!(1), json!(2), true),
            (&map, "/spec/replicas", json!(1), json!(2), false),
            (&map, "/metadata/annotations/example.com~1stamp", json!("a"), json!("b"), true),
            (&map, "/metadata/annotations/example.org~1stamp", json!("a"), json!("b"), false),
            (&map, "/metadata/annotations", json!(null), json!({"example.com/stamp": "a"}), true),
            (&map, "/metadata/annotations", json!(null), json!({"example.com/stamp": "a", "x": "y"}), false),
            (&map, "/metadata/annotations", json!({"example.com/a": "a", "x": "y"}), json!({"x": "y"}), true),
            (&map, "/status/deep/down/seen", json!(1), json!(2), true),
            (&map, "/status/deep", json!({"a": {"seen": 1}, "b": 1}), json!({"a": {"seen": 2}, "b": 1}), true),
            (&map, "/status/deep", json!({"a": {"seen": 1}, "b": 1}), json!({"a": {"seen": 2}, "b": 2}), false),
            (&map, "/status/conditions/0/lastProbeTime", json!("a"), json!("b"), true),
            (&map, "/status/conditions/0/status", json!("a"), json!("b"), false),
            (&map, "/data/k", json!(null), json!("b"), false),
        ] {
            assert_eq!(hides(resource, path, from.clone(), to.clone()), hidden, "{path}: {from} -> {to}");
        }
        let all = Recorded::new(Profile::All, &[]).unwrap();
        assert!(!all.hides(&map, "/status/conditions/0/lastProbeTime", None, None));
    }
}
