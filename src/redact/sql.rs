//! Credentials in SQL. `PASSWORD 'x'` is found by its name ([`super::assign`]).

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::{
    Rules,
    nothing::says_nothing,
    text::{Span, groups, regex},
};

/// A quote that never closes lasts to the end.
static STATEMENTS: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"(?i)\bidentified\s+(?:with\s+\S+\s+)?(?:by|as|using)\s+(?:password\s+)?",
        r"(?:'((?:[^'\\]|\\.|'')*)|\x22((?:[^\x22\\]|\\.)*))",
        r"|\b(?:user|role)\s+\S+\s+identified\s+by\s+([^\s;'\x22]+)",
        r"|\bset\s+password\s+for\s+[^=;\n]{1,200}=\s*(?:\w+\s*\(\s*)?'((?:[^'\\]|\\.|'')*)",
    ))
});

/// `INSERT INTO users (name, password) VALUES `
static INSERTS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?i)\binsert\s+into\s+[^\s(]{1,200}\s*\(([^()]{1,2000})\)\s*values\s*"));

impl Rules {
    pub(super) fn statements(&self, text: &str, spans: &mut Vec<Span>) {
        let mut found = Vec::new();
        groups(&STATEMENTS, text, &mut found);
        found.retain(|(start, end, _)| !says_nothing(&text[*start..*end]));
        spans.append(&mut found);
    }

    /// The values of columns that are called by the names of credentials.
    pub(super) fn inserts(&self, text: &str, spans: &mut Vec<Span>) {
        let mut done = 0;
        for insert in INSERTS.captures_iter(text) {
            let (Some(whole), Some(columns)) = (insert.get(0), insert.get(1)) else { continue };
            // What lies within the rows of another one has been read.
            if whole.start() < done {
                continue;
            }
            let name = |column: &str| self.credential(column.trim_matches([' ', '\t', '\r', '\n', '"', '`', '[', ']']));
            let secret: Vec<bool> = columns.as_str().split(',').map(name).collect();
            if !secret.contains(&true) {
                continue;
            }
            let mut rows = Rows { text, at: whole.end() };
            for values in &mut rows {
                let hidden = values.into_iter().zip(&secret).filter(|(_, secret)| **secret).map(|(value, _)| value);
                let given = hidden.filter(|value| !says_nothing(&text[value.clone()]));
                spans.extend(given.map(|value| (value.start, value.end, None)));
            }
            done = rows.at;
        }
    }
}

/// The rows of a statement: `('bob', 'x'), ('eve', 'y')`.
struct Rows<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Rows<'_> {
    type Item = Vec<Range<usize>>;

    /// The values of the next row, without their quotes.
    fn next(&mut self) -> Option<Vec<Range<usize>>> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|b| b.is_ascii_whitespace() || *b == b',') {
            self.at += 1;
        }
        if bytes.get(self.at) != Some(&b'(') {
            return None;
        }
        let (mut values, mut start, mut depth) = (Vec::new(), self.at + 1, 0);
        let mut quoted: Option<(usize, usize)> = None;
        self.at += 1;
        loop {
            let byte = bytes.get(self.at).copied();
            match byte {
                Some(b'\'') => {
                    let open = self.at + 1;
                    self.at = closing(bytes, open);
                    quoted = quoted.or(Some((open, self.at)));
                }
                Some(b'(') => depth += 1,
                Some(b')') if depth > 0 => depth -= 1,
                Some(b',') if depth > 0 => {}
                Some(b',' | b')') | None => {
                    values.push(quoted.take().map_or(start..self.at, |(open, close)| open..close));
                    start = self.at + 1;
                    if byte != Some(b',') {
                        self.at = (self.at + 1).min(bytes.len());
                        return Some(values);
                    }
                }
                Some(_) => {}
            }
            self.at += 1;
        }
    }
}

/// Where the quote that is open closes; the end of the text when it never does.
fn closing(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 1,
            b'\'' => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}
