//! The command that takes a change back. It is printed for people to read and is never run.

use json_patch::{Patch, PatchOperation, TestOperation};
use serde_json::Value;

use crate::{event::Event, redact::has_mask};

/// A `kubectl patch` that sets what an update changed back to what it was, and does nothing when any of it has changed
/// since. `None` where that cannot be: a value that was masked is not known, nor what the change led to after a gap.
pub fn command(event: &Event, inverse: &Patch, after: Option<&Value>) -> Option<String> {
    let patch = patch(inverse, after?)?;
    let r = &event.resource;
    let resource = if r.group.is_empty() { r.resource.clone() } else { format!("{}.{}", r.resource, r.group) };
    let mut command = format!("kubectl patch {} {}", quote(&resource), quote(&r.name));
    if !r.namespace.is_empty() {
        command.push_str(" -n ");
        command.push_str(&quote(&r.namespace));
    }
    let status = |op: &PatchOperation| op.path().to_string().starts_with("/status");
    match (inverse.0.iter().all(status), inverse.0.iter().any(status)) {
        (true, _) => command.push_str(" --subresource=status"),
        // The server takes the two apart: one command cannot do both.
        (false, true) => return None,
        (false, false) => {}
    }
    command.push_str(" --type=json -p ");
    command.push_str(&quote(&serde_json::to_string(&patch).ok()?));
    (command.len() <= LONGEST).then_some(command)
}

/// Linux takes no longer argument than 128 KiB.
const LONGEST: usize = 120_000;
/// Fields by which items of lists are told apart, as Kubernetes names them; the first that tells them apart counts.
const KEYS: [&str; 12] = [
    "name",
    "key",
    "type",
    "containerPort",
    "port",
    "mountPath",
    "devicePath",
    "topologyKey",
    "ip",
    "uid",
    "host",
    "path",
];

/// The inverse, and before each of its operations tests that what it is about is still as the change left it. A patch is
/// applied whole or not at all. Operations move what comes after them in a list, so each test speaks of the document as
/// the ones before it leave it.
pub fn patch(inverse: &Patch, after: &Value) -> Option<Patch> {
    let mut draft = Draft { document: after.clone(), operations: Vec::new(), tested: Vec::new() };
    for operation in &inverse.0 {
        draft.add(operation)?;
    }
    Some(Patch(draft.operations))
}

struct Draft {
    /// As the operations so far leave it.
    document: Value,
    operations: Vec<PatchOperation>,
    /// Paths that were tested and not touched since.
    tested: Vec<String>,
}

impl Draft {
    fn add(&mut self, operation: &PatchOperation) -> Option<()> {
        let path = operation.path().to_string();
        match operation {
            PatchOperation::Add(op) if masked(&op.value) => return None,
            PatchOperation::Replace(op) if masked(&op.value) => return None,
            PatchOperation::Add(_) => self.expect_room(&path)?,
            PatchOperation::Replace(_) | PatchOperation::Remove(_) => self.expect(&path)?,
            PatchOperation::Move(op) => {
                self.expect(&op.from.to_string())?;
                self.expect_room(&path)?;
            }
            PatchOperation::Copy(op) => {
                self.expect(&op.from.to_string())?;
                self.expect_room(&path)?;
            }
            PatchOperation::Test(_) => {}
        }
        self.operations.push(operation.clone());
        json_patch::patch(&mut self.document, std::slice::from_ref(operation)).ok()?;
        // In a list others have moved; elsewhere nothing but what is there.
        let in_list =
            !matches!(operation, PatchOperation::Replace(_)) && split(&path).is_some_and(|(_, n)| n.is_some());
        self.tested.retain(|tested| !in_list && !tested.starts_with(&path));
        Some(())
    }

    /// What is there now is what was left there.
    fn expect(&mut self, path: &str) -> Option<()> {
        self.expect_way(path)?;
        let there = self.document.pointer(path)?.clone();
        let told = self.test_value(path, &there);
        // Where not a word of it may be said, its place in the list still has to be the same.
        match split(path) {
            Some((list, Some(at))) if !told => self.expect_item(list, at),
            _ => Some(()),
        }
    }

    /// What is put there comes where it was.
    fn expect_room(&mut self, path: &str) -> Option<()> {
        self.expect_way(path)?;
        let (parent, _) = split(path)?;
        match self.document.pointer(parent)? {
            Value::Array(items) => {
                let length = items.len();
                let at = match split(path)?.1 {
                    Some(at) => at,
                    None => length,
                };
                if length == 0 {
                    self.test(parent, Value::Array(Vec::new()));
                }
                for neighbour in [at.checked_sub(1), Some(at)].into_iter().flatten().filter(|at| *at < length) {
                    self.expect_item(parent, neighbour)?;
                }
            }
            _ => match self.document.pointer(path).cloned() {
                Some(there) => drop(self.test_value(path, &there)),
                // The API server takes a test for null as one that nothing is there.
                None => self.test(path, Value::Null),
            },
        }
        Some(())
    }

    /// Each list that the path goes through still has the same item there.
    fn expect_way(&mut self, path: &str) -> Option<()> {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1).collect::<Vec<_>>();
        for end in ends {
            let Some((parent, Some(at))) = split(&path[..end]) else { continue };
            if matches!(self.document.pointer(parent), Some(Value::Array(_))) {
                self.expect_item(parent, at)?;
            }
        }
        Some(())
    }

    /// The item of a list is the same one, whatever else about it has changed.
    fn expect_item(&mut self, list: &str, at: usize) -> Option<()> {
        let items = self.document.pointer(list)?.as_array()?;
        let item = items.get(at)?.clone();
        let path = format!("{list}/{at}");
        let apart = |key: &&&str| {
            let value = &item[**key];
            let plain = matches!(value, Value::String(_) | Value::Number(_)) && !masked(value);
            plain && items.iter().filter(|other| other[**key] == *value).count() == 1
        };
        if let Some(key) = KEYS.iter().find(apart).filter(|_| item.is_object()) {
            self.test(&format!("{path}/{key}"), item[*key].clone());
            return Some(());
        }
        self.test_value(&path, &item).then_some(())
    }

    /// Tests as much of a value as may be said; `false` when that is nothing.
    fn test_value(&mut self, path: &str, value: &Value) -> bool {
        if !masked(value) {
            self.test(path, value.clone());
            return true;
        }
        let mut told = false;
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    told |= self.test_value(&format!("{path}/{key}"), value);
                }
            }
            Value::Array(items) => {
                for (at, value) in items.iter().enumerate() {
                    told |= self.test_value(&format!("{path}/{at}"), value);
                }
            }
            _ => {}
        }
        told
    }

    fn test(&mut self, path: &str, value: Value) {
        if self.tested.iter().any(|tested| tested == path) {
            return;
        }
        // It is a path of an operation, or below one.
        let Ok(pointer) = serde_json::from_value(Value::String(path.to_owned())) else { return };
        self.tested.push(path.to_owned());
        self.operations.push(PatchOperation::Test(TestOperation { path: pointer, value }));
    }
}

fn masked(value: &Value) -> bool {
    has_mask(&value.to_string())
}

/// Where something is, and its number when it is one.
fn split(path: &str) -> Option<(&str, Option<usize>)> {
    path.rsplit_once('/').map(|(parent, last)| (parent, last.parse().ok()))
}

/// For a POSIX shell.
pub fn quote(text: &str) -> String {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._/:=@".contains(&b));
    if plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn undo(inverse: Value, after: &Value) -> Option<Patch> {
        patch(&serde_json::from_value(inverse).unwrap(), after)
    }

    /// As the API server reads it: a test for null is one that nothing is there.
    fn applied(patch: &Patch, to: &Value) -> Option<Value> {
        let mut document = to.clone();
        for operation in &patch.0 {
            match operation {
                PatchOperation::Test(test) if test.value.is_null() => {
                    let there = document.pointer(&test.path.to_string());
                    if there.is_some_and(|there| !there.is_null()) {
                        return None;
                    }
                }
                operation => json_patch::patch(&mut document, std::slice::from_ref(operation)).ok()?,
            }
        }
        Some(document)
    }

    fn container(name: &str, image: &str) -> Value {
        json!({"name": name, "image": image})
    }

    #[test]
    fn every_numbered_path_is_tested_so_that_a_list_that_changed_is_left_alone() {
        let before = json!({"containers": [container("web", "1"), container("side", "1")], "replicas": 3});
        let after = json!({"containers": [container("web", "2"), container("side", "2")], "replicas": 5});
        let inverse = json!([
            {"op": "replace", "path": "/replicas", "value": 3},
            {"op": "replace", "path": "/containers/0/image", "value": "1"},
            {"op": "replace", "path": "/containers/1/image", "value": "1"},
        ]);
        let patch = undo(inverse, &after).unwrap();
        assert_eq!(applied(&patch, &after), Some(before));
        for changed in [
            json!({"containers": [container("new", "9"), container("web", "2"), container("side", "2")], "replicas": 5}),
            json!({"containers": [container("side", "2"), container("web", "2")], "replicas": 5}),
            json!({"containers": [container("web", "2")], "replicas": 5}),
            json!({"containers": [container("web", "2"), container("other", "2")], "replicas": 5}),
            json!({"containers": [container("web", "2"), container("side", "3")], "replicas": 5}),
            json!({"containers": [container("web", "2"), container("side", "2")], "replicas": 6}),
        ] {
            assert_eq!(applied(&patch, &changed), None, "{changed}");
        }
        // What the change did not touch may be as it likes.
        let mut other = after.clone();
        other["paused"] = json!(true);
        other["containers"][0]["tty"] = json!(true);
        assert!(applied(&patch, &other).is_some());
    }

    #[test]
    fn tests_speak_of_a_list_as_the_operations_before_them_leave_it() {
        let before = json!({"args": ["-a", "-b", "-c"], "ports": [{"port": 80}]});
        let after = json!({"args": ["-x", "-b"], "ports": []});
        let inverse = json!([
            {"op": "remove", "path": "/args/0"},
            {"op": "add", "path": "/args/0", "value": "-a"},
            {"op": "add", "path": "/args/2", "value": "-c"},
            {"op": "add", "path": "/ports/0", "value": {"port": 80}},
        ]);
        let patch = undo(inverse, &after).unwrap();
        assert_eq!(applied(&patch, &after), Some(before));
        for changed in [
            json!({"args": ["-y", "-b"], "ports": []}),
            json!({"args": ["-x", "-d"], "ports": []}),
            json!({"args": ["-x", "-b"], "ports": [{"port": 81}]}),
        ] {
            assert_eq!(applied(&patch, &changed), None, "{changed}");
        }
    }

    #[test]
    fn what_was_taken_away_comes_back_only_where_nothing_is() {
        let after = json!({"metadata": {"labels": {}}});
        let inverse = json!([{"op": "add", "path": "/metadata/labels/team", "value": "shop"}]);
        let patch = undo(inverse, &after).unwrap();
        assert_eq!(applied(&patch, &after), Some(json!({"metadata": {"labels": {"team": "shop"}}})));
        assert_eq!(applied(&patch, &json!({"metadata": {"labels": {"team": "bank"}}})), None);
    }

    #[test]
    fn what_is_masked_is_neither_written_nor_tested_and_its_place_is() {
        let hidden = "hmac:0123456789ab";
        let env = |name: &str, value: &str| json!({"name": name, "value": value});
        let after = json!({"env": [env("KEY", hidden), env("MODE", "fast")]});
        let inverse = json!([{"op": "replace", "path": "/env/0/value", "value": hidden}]);
        assert_eq!(undo(inverse, &after), None);
        let inverse = json!([{"op": "remove", "path": "/env/0"}]);
        let patch = undo(inverse, &after).unwrap();
        assert!(!serde_json::to_string(&patch).unwrap().contains(hidden), "{patch}");
        assert!(applied(&patch, &json!({"env": [env("KEY", "real"), env("MODE", "fast")]})).is_some());
        assert_eq!(applied(&patch, &json!({"env": [env("MODE", "fast"), env("KEY", "real")]})), None);
        // Of a list of nothing but masked texts nothing can be said.
        let inverse = json!([{"op": "remove", "path": "/args/0"}]);
        assert_eq!(undo(inverse, &json!({"args": [hidden, hidden]})), None);
    }
}
