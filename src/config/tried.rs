//! What shows only when it is tried: templates, certificates, signing secrets, and what would never match. Each part of the
//! configuration that nothing else is wrong with is tried by itself, so that all of it is told at once.

use super::{
    File, Sources, file, plan,
    problem::{Origin, Problem},
    tree::{Node, Table, Value},
    typed,
};

/// What is wrong beside the problems that were found before.
pub(super) fn out(table: &Table, sources: &Sources, before: &[Problem]) -> Vec<Problem> {
    let is_wrong = |path: &str| {
        let mut below = before.iter().filter_map(|problem| problem.key.strip_prefix(path));
        below.any(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let mut found = Vec::new();
    if let Some(Node { value: Value::Table(sinks), .. }) = table.get("sinks") {
        for (name, node) in sinks.iter().filter(|(name, _)| !is_wrong(&format!("sinks.{name}"))) {
            let Some(sink) = alone(name, node) else { continue };
            for (path, message) in plan::try_out(&sink, sources) {
                found.push(place(name, node, &path, message));
            }
        }
    }
    let parts = ["watch", "routes", "silences"];
    if parts.iter().all(|part| !is_wrong(part)) {
        let of = table.iter().filter(|(key, _)| parts.contains(&key.as_str()));
        let file = typed(of.map(|(key, node)| (key.clone(), node.clone())).collect());
        if file.is_ok_and(|file: File| plan::lacks_namespaces(&file)) {
            let message = "namespace_labels are asked for, and Namespaces are not watched, so that nothing would match; add \
                           \"v1/namespaces\" to watch.include, or name namespaces by a pattern";
            let (key, at) = ["routes", "silences"]
                .iter()
                .find_map(|part| namespace_labels(table, part, part))
                .unwrap_or_else(|| ("watch".to_owned(), Origin::File));
            found.push(Problem { at, key, message: message.to_owned() });
        }
    }
    found
}

fn alone(name: &str, node: &Node) -> Option<file::Sink> {
    let sinks = Table::from([(name.to_owned(), node.clone())]);
    let sinks = Node { value: Value::Table(sinks), at: node.at.clone() };
    typed(Table::from([("sinks".to_owned(), sinks)])).ok()?.sinks.remove(name)
}

/// At the line of the key itself, or of the nearest one around it that was written.
fn place(name: &str, sink: &Node, path: &[String], message: String) -> Problem {
    let (mut key, mut node) = (format!("sinks.{name}"), sink);
    for part in path {
        node = match &node.value {
            Value::Table(table) if table.contains_key(part) => {
                key = super::check::join(&key, part);
                &table[part]
            }
            Value::List(list) => match part.parse::<usize>().ok().and_then(|index| list.get(index)) {
                Some(item) => {
                    key = format!("{key}[{part}]");
                    item
                }
                None => break,
            },
            _ => break,
        };
    }
    Problem { at: node.at.clone(), key, message }
}

/// The first place where they are asked for.
fn namespace_labels(table: &Table, list: &str, path: &str) -> Option<(String, Origin)> {
    let Some(Value::List(items)) = table.get(list).map(|node| &node.value) else { return None };
    items.iter().enumerate().find_map(|(index, item)| {
        let Value::Table(item) = &item.value else { return None };
        let path = format!("{path}[{index}]");
        if let Some(Value::Table(matching)) = item.get("match").map(|node| &node.value)
            && let Some(Node { value: Value::Text(text), at }) = matching.get("namespace_labels")
            && !text.is_empty()
        {
            return Some((format!("{path}.match.namespace_labels"), at.clone()));
        }
        namespace_labels(item, "routes", &format!("{path}.routes"))
    })
}
