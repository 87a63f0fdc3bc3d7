//! Two states of an object as values that are compared with each other and then thrown away: what is equal in both and
//! large is not built, but for a mark that stands in its place. Building values is most of what a comparison costs.

use std::sync::LazyLock;

use serde_json::{Map, Number, Value};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    Document, Part,
    tape::{Kind, Tape},
};

/// Lists whose items are large and seldom change; nobody looks at what is equal inside of their items.
const LARGE: &[&str] = &["containers", "initContainers", "ephemeralContainers", "volumes"];
/// Shorter values are built: that costs no more than a mark.
const WORTH_IT: usize = 48;

/// Begins every mark. Of this process alone, so that no object can hold one.
static MARK: LazyLock<String> = LazyLock::new(|| format!("\0{:016x}", rand::random::<u64>()));

/// The length of the JSON text that a mark stands for; `None` when the text is no mark.
pub(crate) fn marked(text: &str) -> Option<usize> {
    if !text.starts_with('\0') {
        return None;
    }
    text.strip_prefix(MARK.as_str())?.get(16..)?.parse().ok()
}

/// Whether a mark stands in the value for something that is in neither document.
pub(crate) fn holds_mark(value: &Value) -> bool {
    match value {
        Value::String(text) => marked(text).is_some(),
        Value::Array(items) => items.iter().any(holds_mark),
        Value::Object(fields) => fields.values().any(holds_mark),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Both documents with only these sections, and with marks in them.
pub(super) fn pair(old: &Document, new: &Document, parts: &[Part]) -> (Value, Value) {
    let (mut before, mut after) = (Map::new(), Map::new());
    for &part in parts {
        if part != Part::Body {
            // Small, and sentences look at all of it.
            old.add_fields(part, &mut before);
            new.add_fields(part, &mut after);
            continue;
        }
        let tapes = (tape(old), tape(new));
        let (Some(from), Some(to)) = (&tapes.0, &tapes.1) else {
            old.add_fields(part, &mut before);
            new.add_fields(part, &mut after);
            continue;
        };
        let (old, new) = Pair { old: from, new: to }.fields(0, 0, false);
        before.extend(old);
        after.extend(new);
    }
    (Value::Object(before), Value::Object(after))
}

/// What the door wrote, as a value; `None` when it did not.
pub(super) fn value(json: &[u8]) -> Option<Value> {
    let tape = Tape::parse(std::str::from_utf8(json).ok()?).ok()?;
    Some(whole(&tape, 0))
}

/// The fields of an object in their order, which is that of the map that is made of them: filling a map field by field
/// would look for the place of each.
type Fields = Vec<(String, Value)>;

/// The door wrote it: text, JSON and an object.
fn tape(document: &Document) -> Option<Tape<'_>> {
    let text = std::str::from_utf8(&document.section(Part::Body).json).ok()?;
    Tape::parse(text).ok().filter(|tape| tape.kind(0) == Kind::Object)
}

struct Pair<'t, 'a> {
    old: &'t Tape<'a>,
    new: &'t Tape<'a>,
}

impl Pair<'_, '_> {
    /// The fields of two objects, which are sorted. `inside`: of an item of a large list.
    fn fields(&self, from: usize, to: usize, inside: bool) -> (Fields, Fields) {
        let (mut olds, mut news) = (self.old.fields(from).peekable(), self.new.fields(to).peekable());
        let (mut before, mut after) = (Fields::new(), Fields::new());
        loop {
            let order = match (olds.peek(), news.peek()) {
                (None, None) => return (before, after),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(&(old, _)), Some(&(new, _))) => self.old.string(old).cmp(&self.new.string(new)),
            };
            let old = if order.is_le() { olds.next() } else { None };
            let new = if order.is_ge() { news.next() } else { None };
            match (old, new) {
                (Some((key, old)), Some((_, new))) => {
                    let name = self.old.string(key);
                    let inside = inside || LARGE.contains(&name.as_ref());
                    let (old, new) = self.values(old, new, inside, true);
                    after.push(((*name).to_owned(), new));
                    before.push((name.into_owned(), old));
                }
                (Some((key, old)), None) => before.push((self.old.string(key).into_owned(), whole(self.old, old))),
                (None, Some((key, new))) => after.push((self.new.string(key).into_owned(), whole(self.new, new))),
                (None, None) => return (before, after),
            }
        }
    }

    /// Two values at the same place. `may_mark`: not for items of lists, which are told apart by what is in them.
    fn values(&self, from: usize, to: usize, inside: bool, may_mark: bool) -> (Value, Value) {
        let (old, new) = (self.old, self.new);
        match (old.kind(from), new.kind(to)) {
            (Kind::Object, Kind::Object) | (Kind::Array, Kind::Array)
                if inside && may_mark && old.raw(from).len() >= WORTH_IT && old.raw(from) == new.raw(to) =>
            {
                let raw = old.raw(from);
                let mark = Value::String(format!("{}{:016x}{}", *MARK, xxh3_64(raw.as_bytes()), raw.len()));
                (mark.clone(), mark)
            }
            (Kind::Object, Kind::Object) => {
                let (before, after) = self.fields(from, to, inside);
                (Value::Object(Map::from_iter(before)), Value::Object(Map::from_iter(after)))
            }
            (Kind::Array, Kind::Array) if inside && items(old, from).count() == items(new, to).count() => {
                let both = items(old, from).zip(items(new, to));
                let (before, after) = both.map(|(from, to)| self.values(from, to, true, false)).unzip();
                (Value::Array(before), Value::Array(after))
            }
            _ => (whole(old, from), whole(new, to)),
        }
    }
}

/// The items of an array as places on the tape.
fn items(tape: &Tape<'_>, at: usize) -> impl Iterator<Item = usize> {
    let end = tape.next(at);
    let first = (at + 1 < end).then_some(at + 1);
    std::iter::successors(first, move |&item| Some(tape.next(item)).filter(|&next| next < end))
}

fn whole(tape: &Tape<'_>, at: usize) -> Value {
    match tape.kind(at) {
        Kind::Null => Value::Null,
        Kind::True => Value::Bool(true),
        Kind::False => Value::Bool(false),
        Kind::Number => number(tape.raw(at)),
        Kind::String => Value::String(tape.string(at).into_owned()),
        Kind::Array => Value::Array(items(tape, at).map(|item| whole(tape, item)).collect()),
        Kind::Object => {
            let field = |(key, value)| (tape.string(key).into_owned(), whole(tape, value));
            Value::Object(Map::from_iter(tape.fields(at).map(field)))
        }
    }
}

/// As serde_json reads it.
fn number(raw: &str) -> Value {
    match raw.parse::<u64>() {
        Ok(number) => Value::Number(number.into()),
        Err(_) => raw.parse::<Number>().map_or(Value::Null, Value::Number),
    }
}
