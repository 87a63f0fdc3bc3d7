//! YAML with the line of every value, read leniently: everything that is wrong is collected, and the rest goes on.

use std::{collections::BTreeMap, fmt};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::{
    config::problem::{Origin, Problem},
    route::spell::did_you_mean,
};

/// Values that stand for others by an alias, which no configuration of old needs many of.
const MOST_BY_ALIAS: usize = 10_000;

/// A value, with its line.
#[derive(Clone, Debug)]
pub(super) struct Node {
    value: Value,
    pub(super) line: usize,
}

#[derive(Clone, Debug)]
enum Value {
    Nothing,
    Flag(bool),
    /// A number, as it would be written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    /// By key; the line of a key is that of its value's beginning, or its own where that is empty.
    Map(Vec<(String, usize, Node)>),
}

/// What was said, where, under which key.
#[derive(Clone, Debug, Default)]
pub(super) struct Said<T> {
    pub(super) value: T,
    pub(super) line: usize,
    pub(super) key: String,
}

/// The values of a map that are still to be looked at.
pub(super) struct Map(BTreeMap<String, Node>);

impl Map {
    pub(super) fn take(&mut self, key: &str) -> Option<Node> {
        self.0.remove(key)
    }
}

#[derive(Default)]
pub(super) struct Reader {
    problems: Vec<Problem>,
}

impl Reader {
    /// Reads a document; everything that is wrong with it is in the answer.
    pub(super) fn read<T>(text: &str, document: impl FnOnce(&mut Self, &Node) -> T) -> Result<T, Vec<Problem>> {
        let options = serde_saphyr::options! {
            alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MOST_BY_ALIAS },
        };
        let parsed: Result<Spanned<Value>, _> = serde_saphyr::from_str_with_options(text, options);
        let root = parsed.map_err(|error| {
            let at = error.location().map_or(Origin::File, |at| Origin::Line(usize::try_from(at.line()).unwrap_or(1)));
            let message = error.without_snippet().to_string();
            let message = message.lines().next().unwrap_or_default().to_owned();
            vec![Problem { at, key: String::new(), message: format!("not the old kubediff's YAML: {message}") }]
        })?;
        let mut reader = Self::default();
        let read = document(&mut reader, &root.into());
        if reader.problems.is_empty() { Ok(read) } else { Err(reader.problems) }
    }

    pub(super) fn wrong(&mut self, node: &Node, key: &str, message: impl Into<String>) {
        self.at(node.line, key, &message.into());
    }

    fn at(&mut self, line: usize, key: &str, message: &str) {
        let message = format!("not the old kubediff's YAML: {message}");
        self.problems.push(Problem { at: Origin::Line(line), key: key.to_owned(), message });
    }

    fn expected(&mut self, node: &Node, key: &str, what: &str) {
        let found = match &node.value {
            Value::Nothing => "nothing".to_owned(),
            Value::Flag(flag) => flag.to_string(),
            Value::Number(number) => format!("the number {number}"),
            Value::Text(_) => "a text".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        };
        self.wrong(node, key, format!("expected {what}, found {found}"));
    }

    /// The values of these keys; others are wrong.
    pub(super) fn map(&mut self, node: &Node, key: &str, keys: &[&str]) -> Map {
        let mut known = BTreeMap::new();
        match &node.value {
            Value::Nothing => {}
            Value::Map(entries) => {
                for (name, line, value) in entries {
                    if keys.contains(&name.as_str()) {
                        known.insert(name.clone(), value.clone());
                        continue;
                    }
                    let near = did_you_mean(name, keys.iter().copied());
                    let path = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                    self.at(*line, &path, &format!("there is no such key; expected one of {}{near}", keys.join(", ")));
                }
            }
            _ => self.expected(node, key, "a map"),
        }
        Map(known)
    }

    pub(super) fn list(&mut self, node: Option<&Node>, key: &str) -> Vec<Node> {
        match node {
            None | Some(Node { value: Value::Nothing, .. }) => Vec::new(),
            Some(Node { value: Value::List(items), .. }) => items.clone(),
            Some(node) => {
                self.expected(node, key, "a list");
                Vec::new()
            }
        }
    }

    pub(super) fn text(&mut self, node: &Node, key: &str) -> String {
        match &node.value {
            Value::Nothing => String::new(),
            Value::Text(text) => text.clone(),
            _ => {
                self.expected(node, key, "a text");
                String::new()
            }
        }
    }

    /// The text under a key that may be left out: then it is missing where the map around it is.
    pub(super) fn said(&mut self, node: Option<&Node>, key: &str, around: usize) -> Said<String> {
        let value = node.map(|node| self.text(node, key)).unwrap_or_default();
        Said { value, line: node.map_or(around, |node| node.line), key: key.to_owned() }
    }

    pub(super) fn flag(&mut self, node: Option<&Node>, key: &str) -> bool {
        match node {
            None | Some(Node { value: Value::Nothing, .. }) => false,
            Some(Node { value: Value::Flag(flag), .. }) => *flag,
            Some(node) => {
                self.expected(node, key, "true or false");
                false
            }
        }
    }
}

impl From<Spanned<Value>> for Node {
    fn from(spanned: Spanned<Value>) -> Self {
        let line = usize::try_from(spanned.referenced.line()).unwrap_or(1);
        Self { value: spanned.value, line }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("YAML")
            }

            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Nothing)
            }

            fn visit_none<E>(self) -> Result<Value, E> {
                Ok(Value::Nothing)
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
                Ok(Value::Flag(flag))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
                Ok(Value::Number(number.to_string()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
                Ok(Value::Number(number.to_string()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
                Ok(Value::Number(number.to_string()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Value, E> {
                Ok(Value::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element::<Spanned<Value>>()? {
                    list.push(item.into());
                }
                Ok(Value::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
                let mut map = Vec::new();
                while let Some(key) = entries.next_key::<Spanned<String>>()? {
                    let line = usize::try_from(key.referenced.line()).unwrap_or(1);
                    map.push((key.value, line, entries.next_value::<Spanned<Value>>()?.into()));
                }
                Ok(Value::Map(map))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
