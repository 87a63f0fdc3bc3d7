//! Values as words: short, on one line, the difference in sight, nothing redacted shown as if it were a value.

use std::collections::HashSet;

use serde_json::Value;

/// How much of one value a sentence shows.
pub(in crate::event) const VALUE: usize = 60;

/// How much of what is equal stays around a difference that had to be cut.
const AROUND: usize = 12;

/// `hmac:` and 12 hex digits.
const HASH: usize = 17;

/// What redaction leaves of a secret.
pub(in crate::event) fn is_hash(text: &str) -> bool {
    text.strip_prefix("hmac:").is_some_and(|hex| hex.len() == 12 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Whether the value is a redacted one, or holds one.
pub(in crate::event) fn is_hidden(value: &Value) -> bool {
    match value {
        Value::String(text) => hashes(text).next().is_some(),
        Value::Array(items) => items.iter().any(is_hidden),
        Value::Object(fields) => fields.values().any(is_hidden),
        _ => false,
    }
}

/// Where in a text redacted parts begin; each is [`HASH`] bytes long.
fn hashes(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices("hmac:").map(|(at, _)| at).filter(|at| text.get(*at..at + HASH).is_some_and(is_hash))
}

/// The text with `(hidden)` in place of what was redacted.
pub(in crate::event) fn hide(text: &str) -> std::borrow::Cow<'_, str> {
    let (mut shown, mut end) = (String::new(), 0);
    for at in hashes(text) {
        shown.push_str(&text[end..at]);
        shown.push_str("(hidden)");
        end = at + HASH;
    }
    if end == 0 { text.into() } else { (shown + &text[end..]).into() }
}

/// Cut to so many characters, with an ellipsis.
pub(in crate::event) fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => {
            let mut cut: String = text.chars().take(limit.saturating_sub(1)).collect();
            cut.truncate(cut.trim_end().len());
            cut.push('…');
            cut
        }
    }
}

/// Cut to so many characters in the middle: both ends of a path say something.
pub(in crate::event) fn cut_middle(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    if length <= limit || limit < 3 {
        return cut(text, limit);
    }
    let head = (limit - 1) / 3;
    let tail = limit - 1 - head;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{start}…{end}")
}

/// Without line breaks and other control characters: they would break the line, or the terminal.
pub(in crate::event) fn one_line(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => line.push_str("\\n"),
            '\t' => line.push_str("\\t"),
            '\r' => line.push_str("\\r"),
            c if c.is_control() => line.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => line.push(c),
        }
    }
    line
}

/// What an object is called stands before what it holds.
const FIRST: &[&str] = &["kind", "name", "type"];

/// The whole value on one line, as YAML in flow style would have it.
pub(in crate::event) fn whole(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => one_line(&hide(text)),
        Value::Array(items) => format!("[{}]", items.iter().map(whole).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let names = FIRST.iter().filter_map(|name| fields.get_key_value(*name));
            let rest = fields.iter().filter(|(key, _)| !FIRST.contains(&key.as_str()));
            let fields = names.chain(rest).map(|(key, value)| format!("{}: {}", one_line(key), whole(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The value, short.
pub(in crate::event) fn value(value: &Value) -> String {
    cut(&whole(value), VALUE)
}

/// Two values that differ, each within `limit` characters, cut where they are equal.
pub(in crate::event) fn pair(from: &Value, to: &Value, limit: usize) -> (String, String) {
    let (from, to) = (whole(from), whole(to));
    let (old, new): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    if old.len() <= limit && new.len() <= limit {
        return (from, to);
    }
    let shorter = old.len().min(new.len());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let tail = old.iter().rev().zip(new.iter().rev()).take(shorter - head).take_while(|(a, b)| a == b).count();
    let window = |text: &[char]| {
        if text.len() <= limit {
            return text.iter().collect();
        }
        // A little of what is equal stays on both sides; the room that is left goes to what comes before.
        let around = AROUND.min(limit / 4);
        let end = text.len().min(text.len() - tail + around);
        let room = limit.saturating_sub(1 + usize::from(end < text.len()));
        let latest = head.saturating_sub(around);
        let (start, end) = match end.saturating_sub(room) {
            start if start <= latest => (start, end),
            _ => (latest, text.len().min(latest + limit.saturating_sub(2))),
        };
        let mut cut = String::new();
        if start > 0 {
            cut.push('…');
        }
        cut.extend(&text[start..end]);
        if end < text.len() {
            cut.push('…');
        }
        cut
    };
    (window(&old), window(&new))
}

/// `nginx:1.25 -> nginx:1.27`; `None` when all that differs was redacted.
pub(in crate::event) fn arrow(from: &Value, to: &Value) -> Option<String> {
    let (from, to) = pair(from, to, VALUE);
    (from != to).then(|| format!("{from} -> {to}"))
}

/// `{what} 3 -> 5`, `{what} set to 5`, `{what} removed (was 3)`, `{what} changed` when the values are hidden.
pub(in crate::event) fn change(what: &str, from: &Value, to: &Value) -> String {
    match (from.is_null(), to.is_null()) {
        (false, false) => match arrow(from, to) {
            Some(arrow) => format!("{what} {arrow}"),
            None => format!("{what} changed (hidden)"),
        },
        (true, false) if is_hidden(to) && to.is_string() => format!("{what} set (hidden)"),
        (true, false) => format!("{what} set to {}", value(to)),
        (false, true) if is_hidden(from) => format!("{what} removed"),
        (false, true) => format!("{what} removed (was {})", value(from)),
        (true, true) => format!("{what} changed"),
    }
}

/// `a, b and 3 more`.
pub(in crate::event) fn list<T: AsRef<str>>(items: &[T], limit: usize) -> String {
    list_by(", ", items, limit)
}

/// The same of items that have commas themselves.
pub(super) fn list_by<T: AsRef<str>>(between: &str, items: &[T], limit: usize) -> String {
    let shown = if items.len() > limit { limit.saturating_sub(1).max(1) } else { items.len() };
    let mut text = items[..shown].iter().map(|item| one_line(item.as_ref())).collect::<Vec<_>>().join(between);
    if shown < items.len() {
        text.push_str(&format!(" and {} more", items.len() - shown));
    }
    text
}

/// `1 pod`, `3 pods`.
pub(in crate::event) fn count(number: i64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// `41 days`, `3 hours`, `1 minute`.
pub(in crate::event) fn age(seconds: i64) -> String {
    match seconds {
        ..120 => count(seconds.max(0), "second"),
        120..7_200 => count(seconds / 60, "minute"),
        7_200..172_800 => count(seconds / 3_600, "hour"),
        _ => count(seconds / 86_400, "day"),
    }
}

/// The number, or 0.
pub(in crate::event) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// The text, or "".
pub(in crate::event) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// The items, or none.
pub(in crate::event) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// What is in the first list and not in the second.
pub(in crate::event) fn beyond<'a>(a: &'a [String], b: &[String]) -> Vec<&'a String> {
    let b: HashSet<&String> = b.iter().collect();
    a.iter().filter(|text| !b.contains(text)).collect()
}

/// The item of a list with this value under this key.
pub(in crate::event) fn find<'a>(list: &'a Value, key: &str, want: &str) -> &'a Value {
    items(list).iter().take(MANY).find(|item| item[key] == want).unwrap_or(&Value::Null)
}

/// Conditions, containers and the like are few; of a list that is longer the beginning is looked at.
pub(in crate::event) const MANY: usize = 200;

/// The condition of this type, in a status.
pub(in crate::event) fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    find(&status["conditions"], "type", kind)
}

/// A message as the end of a sentence: short, one line, no full stop.
pub(in crate::event) fn message(value: &Value) -> String {
    cut(one_line(text(value).trim()).trim_end_matches('.'), 120)
}

/// How many lines a line diff adds and removes, also those that it has no room to show.
pub(in crate::event) fn line_counts(lines: &str) -> (i64, i64) {
    let (added, removed) = crate::diff::lines::counts(lines);
    let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
    (number(added), number(removed))
}
