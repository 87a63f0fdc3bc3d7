//! `name: DB_PASSWORD` and `value: x` as fields of one mapping, in any order and with others between them: in lines, or
//! in braces.

use std::ops::Range;

use super::{
    super::mapping::{assignment, inside},
    Value, is_name,
};

/// Fields that hold a name, and those that hold what it names.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "name", "key", "header", "headerName", "parameterName", "parameterKey", "variable", "Name", "Key", "ParameterKey",
];
#[rustfmt::skip]
const VALUES: &[&str] = &[
    "value", "values", "parameterValue", "stringValue", "default", "defaultValue", "Value", "ParameterValue",
];

/// Beside these it is a selector or a toleration.
const SELECTS: &[&str] = &["operator", "effect"];

/// How far around the name its value is looked for.
const FAR: usize = 1024;
const LINES: usize = 12;

/// A field that may hold the value.
enum Field {
    /// Its key, and where its value begins.
    Value(Range<usize>, usize),
    Selects,
    /// The name once more: another mapping.
    Again,
    Other,
}

impl Value<'_> {
    /// The name is the value of one field of a mapping, and what it names that of another one.
    pub(super) fn sibling(&self) -> Option<(usize, usize)> {
        let near = self.near_before();
        let key = near.trim_end_matches(['"', '\'', '\\', ' ', '\t']).strip_suffix([':', '='])?;
        let key = key.trim_end_matches(['"', '\'', '\\', ' ']);
        let len = key.bytes().rev().take_while(|b| is_name(*b)).count();
        let word = &key[key.len() - len..];
        if !NAMES.contains(&word) {
            return None;
        }
        let start = self.name.start - near.len() + key.len() - len;
        let line = near[..key.len() - len].rfind('\n').map_or(0, |at| at + 1);
        let before = &near[line..key.len() - len];
        if let Some(open) = opening(before) {
            return self.in_same_braces(self.name.start - near.len() + line + open);
        }
        let own = before.trim_end_matches(['"', '\'', '\\']);
        let is_first = own.trim_start_matches([' ', '\t']).starts_with('-');
        if !own.trim_matches([' ', '\t', '-']).is_empty() || (line == 0 && near.len() < self.name.start) {
            return None;
        }
        self.in_same_block(word, own.len(), start - before.len(), is_first)
    }

    /// The fields in the lines below and above that stand in the same column.
    fn in_same_block(&self, word: &str, column: usize, line: usize, is_first: bool) -> Option<(usize, usize)> {
        let mut found = None;
        let next = self.text[self.name.end..].find('\n').map(|len| self.name.end + len + 1);
        let mut at = next.unwrap_or(self.text.len());
        for line in self.window(at, at + FAR).split_inclusive('\n').take(LINES) {
            match self.field(at, line, column, word) {
                _ if is_before(line, column) => break,
                Field::Value(key, value) => found = found.or(Some((key, value))),
                Field::Selects => return None,
                Field::Again => break,
                Field::Other => {}
            }
            at += line.len();
        }
        let above = if is_first { "" } else { self.window(line.saturating_sub(FAR), line) };
        let whole = above.len() == line;
        let mut lines: Vec<&str> = above.split_inclusive('\n').rev().take(LINES).collect();
        if !whole && lines.len() < LINES {
            // It may be cut.
            lines.pop();
        }
        let mut at = line;
        for line in lines {
            at -= line.len();
            let items = line.trim_start_matches([' ', '\t', '-']);
            let begins = line[..line.len() - items.len()].contains('-') && line.len() - items.len() == column;
            match self.field(at, line, column, word) {
                _ if is_before(line, column) && !begins => break,
                Field::Value(key, value) => found = found.or(Some((key, value))),
                Field::Selects => return None,
                Field::Again => break,
                Field::Other => {}
            }
            if begins {
                break;
            }
        }
        let (key, value) = found?;
        Value { text: self.text, name: &key, bare: "value", has_lines: self.has_lines }.value(value, true)
    }

    /// What the line at this place says, if it is a field in this column.
    fn field(&self, at: usize, line: &str, column: usize, word: &str) -> Field {
        let content = line.trim_start_matches([' ', '\t', '-']);
        let name = content.trim_start_matches(['"', '\'']);
        let len = name.bytes().take_while(|b| is_name(*b)).count();
        let sign = name[len..].trim_start_matches(['"', '\'', ' ']);
        if line.len() - content.len() != column || !sign.starts_with([':', '=']) {
            return Field::Other;
        }
        let start = at + line.len() - name.len();
        match &name[..len] {
            key if key == word => Field::Again,
            key if VALUES.contains(&key) => Field::Value(start..start + len, at + line.len() - sign.len() + 1),
            key if SELECTS.contains(&key) => Field::Selects,
            _ => Field::Other,
        }
    }

    /// The other entries between the braces of which the first is at `open`.
    fn in_same_braces(&self, open: usize) -> Option<(usize, usize)> {
        let (mut depth, mut from, mut quote, mut found) = (0usize, open + 1, None, None);
        for (at, byte) in self.window(open + 1, open + 1 + FAR).bytes().enumerate().map(|(at, b)| (open + 1 + at, b)) {
            match (byte, quote) {
                (_, Some(open)) if byte == open => quote = None,
                (_, Some(_)) => {}
                (b'"' | b'\'', None) if !self.text.as_bytes()[at - 1].is_ascii_alphanumeric() => quote = Some(byte),
                (b'{' | b'[', None) => depth += 1,
                (b'}' | b']', None) if depth > 0 => depth -= 1,
                (b',' | b'}', None) if depth == 0 => {
                    if let Some(entry) = assignment(self.text, from..at, 1) {
                        let key = &self.text[entry.key];
                        if SELECTS.contains(&key) {
                            return None;
                        }
                        if VALUES.contains(&key) && found.is_none() {
                            found = Some(inside(self.text, entry.value)).filter(|value| !value.is_empty());
                        }
                    }
                    from = at + 1;
                    if byte == b'}' {
                        break;
                    }
                }
                _ => {}
            }
        }
        found.map(|value| (value.start, value.end))
    }

    /// A part of the text, as far as there is one.
    fn window(&self, from: usize, to: usize) -> &str {
        let bound = |mut at: usize| {
            at = at.min(self.text.len());
            while !self.text.is_char_boundary(at) {
                at += 1;
            }
            at
        };
        &self.text[bound(from)..bound(to)]
    }
}

/// Whether a line stands before this column and so ends what is in it.
fn is_before(line: &str, column: usize) -> bool {
    let content = line.trim_start_matches([' ', '\t']);
    !content.trim_end().is_empty() && !content.starts_with('#') && line.len() - content.len() < column
}

/// Where the brace stands that is open at the end of a line.
pub(super) fn opening(line: &str) -> Option<usize> {
    let mut closed = 0usize;
    for (at, byte) in line.bytes().enumerate().rev() {
        match byte {
            b'}' => closed += 1,
            b'{' if closed == 0 => return Some(at),
            b'{' => closed -= 1,
            _ => {}
        }
    }
    None
}
