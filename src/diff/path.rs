//! Where the walk is: as a JSON pointer into either document, and in the words of [`super::Change::field`].

use std::{fmt::Write, sync::Arc};

use serde_json::Value;

/// One step down from the root.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    Member(&'a str),
    Item(Item<'a>),
}

/// A list item; `old` and `new` are its indices in the two lists, and where it is in one alone, that one twice.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub(super) old: usize,
    pub(super) new: usize,
    pub(super) value: &'a Value,
    pub(super) key: Key<'a>,
}

/// The members that tell the items of a list apart.
#[derive(Clone, Copy)]
pub(super) enum Key<'a> {
    /// The list has none; its items are told apart by value and place.
    None,
    Schema(&'a [Arc<str>]),
    Guess(&'static [&'static str]),
}

impl<'a> Key<'a> {
    pub(super) fn len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Schema(names) => names.len(),
            Self::Guess(names) => names.len(),
        }
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'a str> {
        (0..self.len()).map(move |at| match self {
            Self::None => "",
            Self::Schema(names) => &*names[at],
            Self::Guess(names) => names[at],
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Old = 0,
    New = 1,
}

/// The steps from the root, and their texts as far as they were asked for: places that changed are often beside each
/// other.
#[derive(Default)]
pub(super) struct Path<'a> {
    steps: Vec<Step<'a>>,
    pointers: [Text; 2],
    fields: [Text; 2],
}

/// The text of the first steps of a path.
#[derive(Default)]
struct Text {
    text: String,
    /// For each step where the text of it ends.
    ends: Vec<usize>,
}

impl<'a> Path<'a> {
    pub(super) fn push(&mut self, step: Step<'a>) {
        self.steps.push(step);
    }

    pub(super) fn pop(&mut self) {
        self.steps.pop();
        for text in self.pointers.iter_mut().chain(&mut self.fields) {
            text.cut(self.steps.len());
        }
    }

    pub(super) fn steps(&self) -> &[Step<'a>] {
        &self.steps
    }

    pub(super) fn is_root(&self) -> bool {
        self.steps.is_empty()
    }

    pub(super) fn pointer(&mut self, side: Side) -> &str {
        self.pointers[side as usize].extend(&self.steps, |pointer, step| {
            pointer.push('/');
            match step {
                Step::Member(name) => escape(pointer, name),
                Step::Item(item) => index(pointer, item.index(side)),
            }
        })
    }

    pub(super) fn field(&mut self, side: Side) -> &str {
        self.fields[side as usize].extend(&self.steps, |field, step| match step {
            Step::Member(name) if is_plain(name) => {
                if !field.is_empty() {
                    field.push('.');
                }
                field.push_str(name);
            }
            Step::Member(name) => {
                field.push('[');
                quote(field, name);
                field.push(']');
            }
            Step::Item(item) => {
                field.push('[');
                if !item.label(field) {
                    index(field, item.index(side));
                }
                field.push(']');
            }
        })
    }
}

impl Text {
    fn cut(&mut self, steps: usize) {
        if self.ends.len() > steps {
            self.ends.truncate(steps);
            self.text.truncate(self.ends.last().copied().unwrap_or(0));
        }
    }

    fn extend<'a>(&mut self, steps: &[Step<'a>], mut write: impl FnMut(&mut String, &Step<'a>)) -> &str {
        for step in &steps[self.ends.len()..] {
            write(&mut self.text, step);
            self.ends.push(self.text.len());
        }
        &self.text
    }
}

impl Item<'_> {
    fn index(&self, side: Side) -> usize {
        match side {
            Side::Old => self.old,
            Side::New => self.new,
        }
    }

    /// Writes the item's key values; false, and nothing written, when it has none.
    fn label(&self, out: &mut String) -> bool {
        // By far the most lists have one key with plain values.
        if self.key.len() == 1
            && let Some(Value::String(text)) = self.key.names().next().and_then(|name| self.value.get(name))
            && is_bare(text)
        {
            out.push_str(text);
            return true;
        }
        let parts: Vec<(&str, String, bool)> = self
            .key
            .names()
            .filter_map(|name| {
                let (text, is_text) = match self.value.get(name)? {
                    Value::String(text) => (text.clone(), true),
                    other => (other.to_string(), false),
                };
                Some((name, text, is_text))
            })
            .collect();
        match parts.as_slice() {
            [] => return false,
            [(_, text, _)] if is_bare(text) => out.push_str(text),
            [_, _, ..] if parts.iter().all(|(_, text, _)| is_bare_part(text)) => {
                for (at, (_, text, _)) in parts.iter().enumerate() {
                    if at > 0 {
                        out.push('/');
                    }
                    out.push_str(text);
                }
            }
            _ => {
                for (at, (name, text, is_text)) in parts.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    out.push_str(name);
                    out.push('=');
                    if *is_text && !is_bare_part(text) {
                        quote(out, text);
                    } else {
                        out.push_str(text);
                    }
                }
            }
        }
        true
    }
}

fn index(out: &mut String, index: usize) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{index}");
}

/// One token of a JSON pointer.
fn escape(pointer: &mut String, token: &str) {
    if !token.contains(['~', '/']) {
        return pointer.push_str(token);
    }
    for c in token.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-$".contains(&b))
}

/// A key's value that needs no name and no quotes beside other values.
fn is_bare_part(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:@*+%".contains(&b))
}

/// The same for a value alone: it may have slashes, but must not look like an index.
fn is_bare(text: &str) -> bool {
    text.bytes().any(|b| !b.is_ascii_digit()) && text.split('/').all(|part| part.is_empty() || is_bare_part(part))
}

fn quote(out: &mut String, text: &str) {
    out.push_str(&Value::from(text).to_string());
}
