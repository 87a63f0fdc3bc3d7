//! The configuration as it was written: values with the place where each stands, the environment laid over the file.

use std::{collections::BTreeMap, ops::Range};

use toml::de::{DeTable, DeValue};

use super::problem::{Origin, Problem};

pub(super) type Table = BTreeMap<String, Node>;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) at: Origin,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    Date(String),
    List(Vec<Node>),
    Table(Table),
}

impl Value {
    /// The value as an error names it. Never the text itself: it may be a secret.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Text(_) => "a text".to_owned(),
            Self::Integer(number) => format!("the number {number}"),
            Self::Float(number) => format!("the number {number}"),
            Self::Flag(flag) => format!("{flag}"),
            Self::Date(_) => "a date".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Table(_) => "a table".to_owned(),
        }
    }
}

/// Reads TOML. What could be read is returned beside what could not. One slip makes the parser stumble over all that
/// follows, so only the first is told, and every key that is there twice.
pub(super) fn parse(text: &str) -> (Table, Vec<Problem>) {
    let lines = Lines::new(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    let problems = errors.iter().map(|error| Problem {
        at: error.span().map_or(Origin::File, |span| lines.origin(span)),
        key: String::new(),
        message: format!("not TOML: {}", error.message().replace('\n', "; ")),
    });
    let mut problems: Vec<_> = problems.collect();
    problems.sort_by(|a, b| a.at.cmp(&b.at));
    let mut stumbled = false;
    problems.retain(|problem| problem.message.ends_with("duplicate key") || !std::mem::replace(&mut stumbled, true));
    let table = lines.table(document.into_inner());
    (table, problems)
}

/// Lays one table over another: tables are merged, all else is replaced, and so is the place of a secret.
pub(super) fn overlay(below: &mut Table, above: Table) {
    let is_place = |table: &Table| table.len() == 1 && (table.contains_key("file") || table.contains_key("env"));
    for (key, node) in above {
        match (below.get_mut(&key).map(|old| &mut old.value), node.value) {
            (Some(Value::Table(old)), Value::Table(new)) if !is_place(&new) => overlay(old, new),
            (_, value) => {
                below.insert(key, Node { value, at: node.at });
            }
        }
    }
}

/// Where each line begins.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Self(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    fn origin(&self, span: Range<usize>) -> Origin {
        Origin::Line(self.0.partition_point(|start| *start <= span.start))
    }

    fn table(&self, table: DeTable<'_>) -> Table {
        let mut nodes = Table::new();
        for (key, value) in table {
            let at = self.origin(key.span());
            let value = self.value(value.into_inner());
            nodes.insert(key.into_inner().into_owned(), Node { value, at });
        }
        nodes
    }

    fn value(&self, value: DeValue<'_>) -> Value {
        match value {
            DeValue::String(text) => Value::Text(text.into_owned()),
            // What is too large for any key is still told by its key.
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| Value::Float(number.as_str().parse().unwrap_or(f64::MAX)), Value::Integer),
            DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => Value::Flag(flag),
            DeValue::Datetime(date) => Value::Date(date.to_string()),
            DeValue::Array(items) => Value::List(
                items
                    .into_iter()
                    .map(|item| {
                        let at = self.origin(item.span());
                        Node { value: self.value(item.into_inner()), at }
                    })
                    .collect(),
            ),
            DeValue::Table(table) => Value::Table(self.table(table)),
        }
    }
}

impl From<Node> for ::config::Value {
    fn from(node: Node) -> Self {
        let origin = match &node.at {
            Origin::Variable(name) => name.clone(),
            Origin::Line(_) | Origin::File => "the file".to_owned(),
        };
        let kind = match node.value {
            Value::Text(text) | Value::Date(text) => text.into(),
            Value::Integer(number) => number.into(),
            Value::Float(number) => number.into(),
            Value::Flag(flag) => flag.into(),
            Value::List(items) => ::config::ValueKind::Array(items.into_iter().map(Into::into).collect()),
            Value::Table(table) => {
                table.into_iter().map(|(key, node)| (key, node.into())).collect::<::config::Map<_, Self>>().into()
            }
        };
        Self::new(Some(&origin), kind)
    }
}
