//! The environment as a configuration: `KUBEDIFF__WATCH__SECRETS=off`. The names of keys and sinks are in capitals, `__`
//! stands between them, `-` in the name of a sink or of a header is written `_`. A list is a JSON list, or texts with commas between.

use super::{
    file::{File, Sink},
    keys::{Key, Section, Shape},
    problem::{Origin, Problem},
    tree::{Node, Table, Value, overlay},
};
use crate::route::spell::did_you_mean;

pub(super) const PREFIX: &str = "KUBEDIFF__";

/// What the environment says, in the form of a file. `below` is the file, for the names and types of its sinks.
pub(super) fn collect(variables: &[(String, String)], below: &Table) -> (Table, Vec<Problem>) {
    let mut named: Vec<_> =
        variables.iter().filter_map(|(name, text)| Some((name, name.strip_prefix(PREFIX)?, text))).collect();
    // The types of sinks are needed for their other keys.
    named.sort_by_key(|(name, path, _)| (!path.ends_with("__TYPE"), (*name).clone()));
    let mut layer = Table::new();
    let mut problems = Vec::new();
    for (name, path, text) in named {
        let at = Origin::Variable(name.clone());
        let parts: Vec<_> = path.split("__").map(str::to_lowercase).collect();
        match (Reader { at: &at, below, layer: &layer }).table(File::section(), &parts, text) {
            Ok(table) => overlay(&mut layer, table),
            Err(message) => problems.push(Problem { at, key: String::new(), message }),
        }
    }
    (layer, problems)
}

/// Whether a header is the one that a variable names: in either case, `_` for `-`.
fn is_header(written: &str, variable: &str) -> bool {
    written.to_lowercase().replace('-', "_") == variable
}

struct Reader<'a> {
    at: &'a Origin,
    below: &'a Table,
    layer: &'a Table,
}

impl Reader<'_> {
    fn node(&self, value: Value) -> Node {
        Node { value, at: self.at.clone() }
    }

    fn table(&self, section: Section, parts: &[String], text: &str) -> Result<Table, String> {
        let (first, rest) = parts.split_first().ok_or("ends where a key should follow")?;
        let Some(key) = section.keys.iter().find(|key| key.name() == first) else {
            let names: Vec<_> = section.keys.iter().map(Key::name).collect();
            let near = did_you_mean(first, names.iter().copied());
            return Err(format!("there is no key `{first}`; expected one of {}{near}", names.join(", ")));
        };
        let value = self.value(key.shape, rest, text)?;
        Ok(Table::from([(first.clone(), self.node(value))]))
    }

    fn value(&self, shape: Shape, rest: &[String], text: &str) -> Result<Value, String> {
        match (shape, rest) {
            (Shape::Table(section), [_, ..]) => Ok(Value::Table(self.table(section(), rest, text)?)),
            (Shape::SinkMap, [sink, rest @ ..]) if !rest.is_empty() => self.sink(sink, rest, text),
            (Shape::Secret | Shape::Secrets, [by]) if by == "file" || by == "env" => {
                Ok(Value::Table(Table::from([(by.clone(), self.node(Value::Text(text.to_owned())))])))
            }
            (Shape::SecretMap | Shape::TextMap, [name]) => {
                Ok(Value::Table(Table::from([(name.clone(), self.node(Value::Text(text.to_owned())))])))
            }
            (_, [extra, ..]) => Err(format!("there is nothing below `{extra}`'s place; expected {}", shape.expected())),
            (_, []) => self.leaf(shape, text),
        }
    }

    fn leaf(&self, shape: Shape, text: &str) -> Result<Value, String> {
        let wrong = || format!("expected {}", shape.expected());
        match shape {
            Shape::Flag => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Ok(Value::Flag(true)),
                "false" | "0" | "no" | "off" => Ok(Value::Flag(false)),
                _ => Err(format!("{}, found `{text}`", wrong())),
            },
            Shape::Number(..) => {
                text.trim().parse().map(Value::Integer).map_err(|_| format!("{}, found `{text}`", wrong()))
            }
            Shape::List(..) | Shape::Words(_) | Shape::Sinks if !text.trim_start().starts_with('[') => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Ok(Value::List(items.map(|item| self.node(Value::Text(item.to_owned()))).collect()))
            }
            Shape::List(..)
            | Shape::Words(_)
            | Shape::Sinks
            | Shape::Table(_)
            | Shape::Tables(_)
            | Shape::SinkMap
            | Shape::SecretMap
            | Shape::TextMap => {
                let json = serde_json::from_str(text).map_err(|error| format!("{} as JSON: {error}", wrong()))?;
                self.json(json)
            }
            Shape::Text | Shape::Checked(..) | Shape::Word(_) | Shape::Secret | Shape::Secrets => {
                Ok(Value::Text(text.to_owned()))
            }
        }
    }

    /// A sink is found by its name in the file, whichever way its `-` is written; else it is a new one.
    fn sink(&self, name: &str, rest: &[String], text: &str) -> Result<Value, String> {
        fn sinks(table: &Table) -> Option<&Table> {
            match &table.get("sinks")?.value {
                Value::Table(sinks) => Some(sinks),
                _ => None,
            }
        }
        let all = || [self.below, self.layer].into_iter().filter_map(sinks).flatten();
        let name = all().find(|(known, _)| known.replace('-', "_") == name).map_or(name, |(known, _)| known);
        let kind = all().filter(|(known, _)| *known == name).find_map(|(_, node)| match &node.value {
            Value::Table(table) => match &table.get("type")?.value {
                Value::Text(of) => Some(of.as_str()),
                _ => None,
            },
            _ => None,
        });
        let of = match (rest, kind) {
            ([key], _) if key == "type" => return Ok(self.nest(name, "type", Value::Text(text.to_owned()))),
            (_, Some(kind)) => kind,
            (_, None) => {
                return Err(format!(
                    "there is no sink `{name}`; set {PREFIX}SINKS__{}__TYPE to one of {} to make one",
                    name.to_uppercase(),
                    Sink::TYPES.join(", ")
                ));
            }
        };
        let section = Sink::section(of).ok_or_else(|| format!("the sink `{name}` has no known type"))?;
        let headed: Vec<String>;
        let rest = match rest {
            [key, header] if key == "headers" || key == "template_headers" => {
                let written = all().filter(|(known, _)| *known == name).find_map(|(_, node)| match &node.value {
                    Value::Table(table) => match &table.get(key)?.value {
                        Value::Table(headers) => headers.keys().find(|known| is_header(known, header)),
                        _ => None,
                    },
                    _ => None,
                });
                headed = vec![key.clone(), written.map_or_else(|| header.replace('_', "-"), Clone::clone)];
                &headed[..]
            }
            rest => rest,
        };
        let table = self.table(section, rest, text)?;
        Ok(Value::Table(Table::from([(name.to_owned(), self.node(Value::Table(table)))])))
    }

    fn nest(&self, name: &str, key: &str, value: Value) -> Value {
        let inner = Table::from([(key.to_owned(), self.node(value))]);
        Value::Table(Table::from([(name.to_owned(), self.node(Value::Table(inner)))]))
    }

    fn json(&self, json: serde_json::Value) -> Result<Value, String> {
        Ok(match json {
            serde_json::Value::Null => return Err("null stands for nothing here; leave it out".to_owned()),
            serde_json::Value::Bool(flag) => Value::Flag(flag),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(number) => Value::Integer(number),
                None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Value::Text(text),
            serde_json::Value::Array(items) => Value::List(
                items.into_iter().map(|item| Ok(self.node(self.json(item)?))).collect::<Result<_, String>>()?,
            ),
            serde_json::Value::Object(entries) => Value::Table(
                entries
                    .into_iter()
                    .map(|(key, value)| Ok((key, self.node(self.json(value)?))))
                    .collect::<Result<_, String>>()?,
            ),
        })
    }
}
