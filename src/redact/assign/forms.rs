//! Forms in which a value is not assigned to its name: both are members of something, or arguments.

use super::Value;

/// Functions that take a name and a value, or what stands for it, by the ends of their names.
const FUNCTIONS: &[&str] = &["define", "env", "get", "set", "put", "fetch", "default", "property", "header"];

impl Value<'_> {
    /// The name is itself a value: `name: DB_PASSWORD`, then `value: x`.
    pub(super) fn paired(&self, at: usize) -> Option<(usize, usize)> {
        let rest = self.text.get(at..)?;
        let inner = rest.trim_start_matches([' ', '\t', '\r', '\n', ',', '"', '\'', '\\']);
        if inner.len() == rest.len() {
            return None;
        }
        let after = inner.strip_prefix("value").or_else(|| inner.strip_prefix("Value"))?;
        let separator = after.trim_start_matches(['"', '\'', '\\', ' ']);
        separator
            .strip_prefix([':', '='])
            .map(|value| self.text.len() - value.len())
            .and_then(|at| self.value(at, true))
    }

    /// The name is the first of two arguments: `define('DB_PASSWORD', 'x')`, `getenv("TOKEN", "x")`.
    pub(super) fn called(&self, from: usize) -> Option<(usize, usize)> {
        let function = self.near_before().trim_end_matches(['"', '\'', '`']).trim_end().strip_suffix('(')?;
        let name = function.bytes().rev().take_while(u8::is_ascii_alphanumeric).count();
        let name = function[function.len() - name..].to_ascii_lowercase();
        if !FUNCTIONS.iter().any(|end| name.ends_with(end)) {
            return None;
        }
        let from = self.spaces(from);
        let quote = *self.text.as_bytes().get(from).filter(|b| matches!(b, b'"' | b'\'' | b'`'))?;
        let end = self.closing(from + 1, quote, 0);
        let after = self.text.as_bytes().get(self.spaces((end + 1).min(self.text.len())));
        matches!(after, None | Some(b')')).then_some((from + 1, end))
    }

    /// The name is the text of an element: `<name>db.password</name><value>x</value>`.
    pub(super) fn element(&self, at: usize) -> Option<(usize, usize)> {
        let rest = self.near_after(at);
        let closed = rest.strip_prefix("</name>").or_else(|| rest.strip_prefix("</key>"))?.trim_start();
        let value = closed.strip_prefix("<value>").or_else(|| closed.strip_prefix("<string>"))?;
        self.content(at + (rest.len() - value.len()))
    }

    /// The text of the element that opened right before, also where it is marked as such: `<![CDATA[x]]>`.
    pub(super) fn content(&self, from: usize) -> Option<(usize, usize)> {
        let rest = self.text[from..].trim_start();
        let (inner, close) = rest.strip_prefix("<![CDATA[").map_or((rest, "<"), |inner| (inner, "]]>"));
        let start = self.text.len() - inner.len();
        self.trimmed(start, inner.find(close).map_or(self.text.len(), |len| start + len))
    }
}
