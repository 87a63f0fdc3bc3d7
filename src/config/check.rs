//! Compares what was written with what can be written, and collects everything that is wrong.

use super::{
    file::{File, Sink},
    keys::{Key, Section, Shape},
    problem::{Origin, Problem},
    secret::{Secret, Source},
    tree::{Node, Table, Value},
};
use crate::route::{MAX_DEPTH, spell::did_you_mean};

/// More routes than this, and nobody knows who gets what; it also bounds the time that an event takes.
const MAX_ROUTES: usize = 2_000;
const MAX_SINKS: usize = 200;
/// Characters of `redact.key`: whoever knows it can try out values for the hashes.
const MIN_KEY: usize = 32;

/// Whether secrets are looked up in files and in the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// They must be there.
    Now,
    /// Only their form is checked: for a machine that has none of them.
    Skip,
}

/// Everything that is wrong with a configuration.
pub(super) fn check(table: &Table, variables: &[(String, String)], lookup: Lookup) -> Vec<Problem> {
    let sinks = match table.get("sinks").map(|node| &node.value) {
        Some(Value::Table(sinks)) => sinks.keys().cloned().collect(),
        _ => Vec::new(),
    };
    let mut checker = Checker { problems: Vec::new(), sinks, variables, lookup, routes: 0 };
    checker.table(File::section(), table, "", &Origin::File, 0);
    if !table.get("default_sinks").is_some_and(|node| matches!(&node.value, Value::List(list) if !list.is_empty())) {
        checker.sinkless(table, "routes", 0);
    }
    checker.problems
}

struct Checker<'a> {
    problems: Vec<Problem>,
    sinks: Vec<String>,
    variables: &'a [(String, String)],
    lookup: Lookup,
    routes: usize,
}

impl Checker<'_> {
    fn wrong(&mut self, at: &Origin, key: &str, message: impl Into<String>) {
        self.problems.push(Problem { at: at.clone(), key: key.to_owned(), message: message.into() });
    }

    fn table(&mut self, section: Section, table: &Table, path: &str, at: &Origin, depth: usize) {
        for (name, node) in table {
            let path = join(path, name);
            match section.keys.iter().find(|key| key.name() == name) {
                Some(key) => self.value(key.shape, node, &path, depth),
                None => self.unknown(section.keys, name, node, &path),
            }
        }
        for (key, message) in section.rule.map(|rule| rule(table)).unwrap_or_default() {
            let at = table.get(key).map_or(at, |node| &node.at);
            let path = if key.is_empty() { path.to_owned() } else { join(path, key) };
            self.wrong(at, &path, message);
        }
    }

    fn unknown(&mut self, keys: &[Key], name: &str, node: &Node, path: &str) {
        let of_sink = path.starts_with("sinks.").then_some("type");
        let names: Vec<_> = of_sink.into_iter().chain(keys.iter().map(Key::name)).collect();
        let near = did_you_mean(name, names.iter().copied());
        self.wrong(&node.at, path, format!("there is no such key; expected one of {}{near}", names.join(", ")));
    }

    fn mismatch(&mut self, shape: Shape, node: &Node, path: &str) {
        self.wrong(&node.at, path, format!("expected {}, found {}", shape.expected(), node.value.describe()));
    }

    fn value(&mut self, shape: Shape, node: &Node, path: &str, depth: usize) {
        match (shape, &node.value) {
            (Shape::Flag, Value::Flag(_)) | (Shape::Text, Value::Text(_)) => {}
            (Shape::Number(least, most), Value::Integer(number)) => {
                if !u64::try_from(*number).is_ok_and(|number| (least..=most).contains(&number)) {
                    self.mismatch(shape, node, path);
                }
            }
            (Shape::Checked(_, check), Value::Text(text) | Value::Date(text)) => {
                if let Err(message) = check(text) {
                    self.wrong(&node.at, path, message);
                }
            }
            // A size may be a plain number.
            (Shape::Checked(what, check), Value::Integer(number)) if what.starts_with("a size") => {
                if check(&number.to_string()).is_err() {
                    self.mismatch(shape, node, path);
                }
            }
            (Shape::Word(words), Value::Text(text)) => self.word(&words(), text, node, path),
            (Shape::List(..) | Shape::Words(_) | Shape::Sinks, Value::List(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.item(shape, item, &format!("{path}[{index}]"));
                }
            }
            (Shape::Secret, _) | (Shape::Secrets, Value::Text(_) | Value::Table(_)) => self.secret(node, path),
            (Shape::Secrets, Value::List(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.secret(item, &format!("{path}[{index}]"));
                }
            }
            (Shape::SecretMap, Value::Table(entries)) => {
                for (name, entry) in entries {
                    self.secret(entry, &join(path, name));
                }
            }
            (Shape::TextMap, Value::Table(entries)) => {
                for (name, entry) in entries {
                    self.value(Shape::Text, entry, &join(path, name), depth);
                }
            }
            (Shape::Table(section), Value::Table(table)) => self.table(section(), table, path, &node.at, depth),
            (Shape::Tables(section), Value::List(items)) => self.tables(shape, section(), items, path, depth + 1),
            (Shape::SinkMap, Value::Table(sinks)) => self.sinks(sinks, node, path),
            _ => self.mismatch(shape, node, path),
        }
    }

    fn word(&mut self, words: &[&str], text: &str, node: &Node, path: &str) {
        if !words.contains(&text) {
            let near = did_you_mean(text, words.iter().copied());
            self.wrong(&node.at, path, format!("expected one of {}, found `{text}`{near}", words.join(", ")));
        }
    }

    fn item(&mut self, shape: Shape, item: &Node, path: &str) {
        let Value::Text(text) = &item.value else {
            return self.wrong(&item.at, path, format!("expected a text in quotes, found {}", item.value.describe()));
        };
        match shape {
            Shape::List(_, check) => {
                if let Err(message) = check(text) {
                    self.wrong(&item.at, path, message);
                }
            }
            Shape::Words(words) => self.word(&words(), text, item, path),
            Shape::Sinks if !self.sinks.contains(text) => {
                let near = did_you_mean(text, self.sinks.iter().map(String::as_str));
                let known = match self.sinks.is_empty() {
                    true => "there is no sink at all".to_owned(),
                    false => format!("expected one of {}", self.sinks.join(", ")),
                };
                self.wrong(&item.at, path, format!("there is no sink `{text}`; {known}{near}"));
            }
            _ => {}
        }
    }

    fn tables(&mut self, shape: Shape, section: Section, items: &[Node], path: &str, depth: usize) {
        let is_route = path == "routes" || path.ends_with(".routes");
        if is_route && depth > MAX_DEPTH {
            let at = items.first().map_or(Origin::File, |item| item.at.clone());
            return self.wrong(&at, path, format!("routes more than {MAX_DEPTH} deep"));
        }
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            self.routes += usize::from(is_route);
            if self.routes == MAX_ROUTES + 1 {
                self.wrong(&item.at, &path, format!("more than {MAX_ROUTES} routes"));
            }
            match &item.value {
                // What comes after is not looked at: checking it is what would take the time.
                _ if self.routes > MAX_ROUTES => {}
                Value::Table(table) => self.table(section, table, &path, &item.at, depth),
                _ => self.mismatch(shape, item, &path),
            }
        }
    }

    /// A route without sinks has those of the route around it, or `default_sinks`; without either, what it takes would be
    /// told to nobody without a word.
    fn sinkless(&mut self, table: &Table, path: &str, depth: usize) {
        let Some(Value::List(routes)) = table.get("routes").map(|node| &node.value) else { return };
        let says = |table: &Table, key: &str| {
            table.get(key).is_some_and(|node| !matches!(&node.value, Value::List(list) if list.is_empty()))
        };
        for (index, route) in routes.iter().enumerate().take(MAX_ROUTES) {
            let (Value::Table(table), path) = (&route.value, format!("{path}[{index}]")) else { continue };
            if depth >= MAX_DEPTH || says(table, "sinks") || table.contains_key("drop") {
                continue;
            }
            if says(table, "routes") {
                self.sinkless(table, &format!("{path}.routes"), depth + 1);
            } else if !self.problems.iter().any(|problem| problem.key.starts_with(&path)) {
                let message = "is without sinks, and there are no default_sinks, so that nobody would get what it takes; \
                               name sinks, or say drop = \"a reason\"";
                self.wrong(&route.at, &path, message);
            }
        }
    }

    fn sinks(&mut self, sinks: &Table, node: &Node, path: &str) {
        if sinks.len() > MAX_SINKS {
            return self.wrong(&node.at, path, format!("{} sinks, more than {MAX_SINKS}", sinks.len()));
        }
        for (name, node) in sinks {
            let path = join(path, name);
            if let Some(message) = wrong_name(name) {
                self.wrong(&node.at, &path, message);
            }
            let Value::Table(table) = &node.value else {
                self.mismatch(Shape::Table(File::section), node, &path);
                continue;
            };
            let of = match table.get("type") {
                Some(Node { value: Value::Text(of), .. }) => of,
                Some(other) => {
                    self.mismatch(Shape::Word(|| Sink::TYPES.to_vec()), other, &join(&path, "type"));
                    continue;
                }
                None => {
                    self.wrong(&node.at, &path, format!("is without type; expected one of {}", Sink::TYPES.join(", ")));
                    continue;
                }
            };
            match Sink::section(of) {
                Some(section) => {
                    let rest = table.iter().filter(|(key, _)| *key != "type");
                    let rest = rest.map(|(key, node)| (key.clone(), node.clone())).collect();
                    self.table(section, &rest, &path, &node.at, 0);
                }
                None => self.word(&Sink::TYPES, of, &table["type"], &join(&path, "type")),
            }
        }
    }

    fn secret(&mut self, node: &Node, path: &str) {
        let source = match &node.value {
            Value::Text(text) => Some(Source::Plain(Secret::new(text.clone()))),
            Value::Table(table) if table.len() == 1 => match table.first_key_value() {
                Some((key, Node { value: Value::Text(text), .. })) if key == "file" => {
                    Some(Source::File { file: text.into() })
                }
                Some((key, Node { value: Value::Text(text), .. })) if key == "env" => {
                    Some(Source::Env { env: text.clone() })
                }
                _ => None,
            },
            _ => None,
        };
        let Some(source) = source else { return self.mismatch(Shape::Secret, node, path) };
        let secret = match (&source, self.lookup) {
            (Source::File { .. } | Source::Env { .. }, Lookup::Skip) => return,
            _ => source.read(self.variables),
        };
        // What is known to be a URL is checked here, where its line is known.
        let is_url = path.starts_with("sinks.") && (path.ends_with(".url") || path.ends_with("_url"));
        match secret {
            Ok(secret) if is_url => {
                if let Err(message) = super::forms::url(secret.expose()) {
                    self.wrong(&node.at, path, message);
                }
            }
            Ok(secret) if path == "redact.key" && secret.expose().chars().count() < MIN_KEY => {
                self.wrong(&node.at, path, format!("a key of less than {MIN_KEY} characters can be guessed"));
            }
            Ok(_) => {}
            Err(message) => self.wrong(&node.at, path, message),
        }
    }
}

/// Names stand in environment variables, metrics and annotations.
fn wrong_name(name: &str) -> Option<String> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let good = !name.is_empty() && name.len() <= 63 && name.chars().all(fine) && !name.contains("__");
    (!good).then(|| "a sink's name is of small letters, digits, - and single _".to_owned())
}

pub(super) fn join(path: &str, key: &str) -> String {
    let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) && !key.is_empty();
    let key = if plain { key.to_owned() } else { format!("{key:?}") };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}
