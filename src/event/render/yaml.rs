//! A document as YAML, the way `kubectl get -o yaml` writes it: lists not indented, long texts as blocks.

use serde_json::Value;

/// The document, ending in a newline.
pub fn yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => mapping(fields, 0, &mut out),
        Value::Array(items) if !items.is_empty() => sequence(items, 0, &mut out),
        other => {
            scalar(other, 0, &mut out);
            out.push('\n');
        }
    }
    out
}

/// The lines of [`yaml`], each with the JSON pointer of what it shows.
pub fn yaml_lines(value: &Value) -> Vec<(String, String)> {
    let mut lines = Lines(Vec::new());
    lines.value(value, 0, String::new(), "");
    lines.0
}

struct Lines(Vec<(String, String)>);

impl Lines {
    /// `start` is what the first line begins with already.
    fn value(&mut self, value: &Value, indent: usize, start: String, path: &str) {
        match value {
            Value::Object(fields) if !fields.is_empty() => self.mapping(fields, indent, start, path),
            Value::Array(items) if !items.is_empty() => self.sequence(items, indent, start, path),
            other => self.scalar(other, indent, start, path),
        }
    }

    fn mapping(&mut self, fields: &serde_json::Map<String, Value>, indent: usize, mut start: String, path: &str) {
        for (key, value) in fields {
            let line = format!("{}{}:", std::mem::take(&mut start), quoted(key));
            let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
            match value {
                Value::Object(inside) if !inside.is_empty() => {
                    self.0.push((line, path.clone()));
                    self.mapping(inside, indent + 2, " ".repeat(indent + 2), &path);
                }
                Value::Array(items) if !items.is_empty() => {
                    self.0.push((line, path.clone()));
                    self.sequence(items, indent, " ".repeat(indent), &path);
                }
                other => self.scalar(other, indent + 2, line + " ", &path),
            }
            start = " ".repeat(indent);
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize, mut start: String, path: &str) {
        for (index, item) in items.iter().enumerate() {
            let line = std::mem::take(&mut start) + "- ";
            self.value(item, indent + 2, line, &format!("{path}/{index}"));
            start = " ".repeat(indent);
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize, start: String, path: &str) {
        let mut text = start;
        scalar(value, indent, &mut text);
        self.0.extend(text.split('\n').map(|line| (line.to_owned(), path.to_owned())));
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// The first line's indentation is already there when the mapping is an item of a list.
fn mapping(fields: &serde_json::Map<String, Value>, indent: usize, out: &mut String) {
    for (index, (key, value)) in fields.iter().enumerate() {
        if index > 0 || out.is_empty() || out.ends_with('\n') {
            pad(indent, out);
        }
        out.push_str(&quoted(key));
        out.push(':');
        member(value, indent, out);
    }
}

fn member(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            mapping(fields, indent + 2, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            sequence(items, indent, out);
        }
        other => {
            out.push(' ');
            scalar(other, indent + 2, out);
            out.push('\n');
        }
    }
}

fn sequence(items: &[Value], indent: usize, out: &mut String) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 || out.is_empty() || out.ends_with('\n') {
            pad(indent, out);
        }
        out.push_str("- ");
        match item {
            Value::Object(fields) if !fields.is_empty() => mapping(fields, indent + 2, out),
            Value::Array(items) if !items.is_empty() => sequence(items, indent + 2, out),
            other => {
                scalar(other, indent + 2, out);
                out.push('\n');
            }
        }
    }
}

/// Without a newline at the end; a block's lines stand at `indent`.
fn scalar(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::String(text) if is_block(text) => {
            out.push_str(match (text.ends_with('\n'), text.ends_with("\n\n")) {
                (false, _) => "|-",
                (true, false) => "|",
                (true, true) => "|+",
            });
            for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                out.push('\n');
                if !line.is_empty() {
                    pad(indent, out);
                    out.push_str(line);
                }
            }
        }
        Value::String(text) => out.push_str(&quoted(text)),
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        other => out.push_str(&other.to_string()),
    }
}

/// Texts of several lines that a block can hold as they are.
fn is_block(text: &str) -> bool {
    text.trim_end_matches('\n').contains('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t')
        && !text.contains(['\u{2028}', '\u{2029}', '\u{85}', '\u{feff}'])
}

/// Plain where that reads back as the same text, else in double quotes.
fn quoted(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { Value::from(text).to_string() }
}

fn is_plain(text: &str) -> bool {
    let first = text.chars().next();
    let starts_well = first.is_some_and(|c| {
        c.is_alphanumeric()
            || matches!(c, '/' | '.' | '_' | '(' | '$' | '+' | ';' | '=' | '^' | '<' | '\\' | '~')
            || (c == '-' && text.len() > 1 && !text.starts_with("- ") && !text.starts_with("---"))
    });
    let word = text.to_ascii_lowercase();
    let keyword = matches!(
        word.as_str(),
        "null"
            | "~"
            | "true"
            | "false"
            | "yes"
            | "no"
            | "on"
            | "off"
            | "y"
            | "n"
            | ".nan"
            | ".inf"
            | "-.inf"
            | "+.inf"
            | "="
            | "<<"
            | "..."
    );
    let digits = text.trim_start_matches(['-', '+', '.']);
    let numeric = digits.starts_with(|c: char| c.is_ascii_digit())
        && (digits.starts_with("0x")
            || digits.starts_with("0o")
            || text.parse::<f64>().is_ok()
            || text
                .chars()
                .all(|c| c.is_ascii_digit() || matches!(c, '_' | ':' | '.' | '+' | '-' | 'e' | 'E' | 'T' | 'Z')));
    starts_well
        && !keyword
        && !numeric
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with([':', ' '])
        && !text.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}'))
}
