//! Manifests inside of texts: an error that quotes the object it was about, a ConfigMap that holds files of YAML. Where
//! a Secret's manifest cannot be told apart from the text around it, the whole text is masked.

use std::sync::LazyLock;

use regex::Regex;

use super::{
    DEPTH, Rules,
    assign::Owner,
    keys::Group,
    mark::LEVELS,
    tape::Tape,
    text::{Span, regex},
};

/// At most so many places of a text are tried as the beginning of JSON in vain: each try may read to the end.
const TRIES: usize = 16;

/// JSON objects within a text that is not JSON itself, masked as such. True when the text has to be masked whole.
pub(super) fn quoted(rules: &Rules, text: &str, level: u8, spans: &mut Vec<Span>) -> bool {
    let (mut from, mut tries) = (0, 0);
    while let Some(start) = text[from..].find("{\"").map(|at| from + at) {
        if tries == TRIES {
            break;
        }
        let Some(end) = balanced(&text[start..]).map(|len| start + len) else { break };
        let Ok(mut tape) = Tape::parse(&text[start..end]) else {
            (from, tries) = (start + 1, tries + 1);
            continue;
        };
        from = end;
        if level >= LEVELS || tape.depth > DEPTH {
            return true;
        }
        let under = match rules.owner(text, start) {
            Some(Owner::LastApplied) => {
                spans.push((start, end, None));
                continue;
            }
            Some(Owner::Credential(name)) => Some(Group::of(name)),
            None => None,
        };
        // Kept as it is, it still is not looked at a second time as plain text.
        let masked = rules.json(&mut tape, level + 1, under).unwrap_or_else(|| text[start..end].to_owned());
        spans.push((start, end, Some(masked)));
    }
    false
}

/// The length of the object that begins the text, by its braces.
pub(super) fn balanced(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

static KIND: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"\bkind\\*["']?\s*[:=]\s*\\*["']?Secret(?:List)?\b|\bSecret\{"#));
static VALUES: LazyLock<Regex> = LazyLock::new(|| regex(r#"(?i)\b(?:string|binary)?data\\*["']?\s*[:={]"#));
static YAML_KIND: LazyLock<Regex> = LazyLock::new(|| regex(r#"(?m)^[ \t-]*kind:[ \t]*["']?Secret["']?[ \t]*\r?$"#));

/// Manifests of Secrets: in YAML the values of `data` and `stringData` are masked one by one. True when there is one in
/// any other form. `spans`: those of [`quoted`], in their order.
pub(super) fn secrets(text: &str, spans: &mut Vec<Span>) -> bool {
    let objects: Vec<(usize, usize)> = spans.iter().map(|(start, end, _)| (*start, *end)).collect();
    let within = |at: usize| {
        let before = objects.partition_point(|(start, _)| *start <= at);
        objects[..before].last().is_some_and(|(_, end)| at < *end)
    };
    if !KIND.find_iter(text).any(|found| !within(found.start())) || !VALUES.is_match(text) {
        return false;
    }
    let mut start = 0;
    let mut unread = false;
    for end in text.match_indices("\n---").map(|(at, _)| at + 1).chain([text.len()]) {
        let document = &text[start..end];
        if YAML_KIND.is_match(document) {
            yaml_values(document, start, spans);
        } else if KIND.find_iter(document).any(|found| !within(start + found.start())) && VALUES.is_match(document) {
            unread = true;
        }
        start = end;
    }
    unread
}

/// Every value in the blocks `data:` and `stringData:` of a YAML document that begins at `offset` of its text.
fn yaml_values(document: &str, offset: usize, spans: &mut Vec<Span>) {
    let mut lines = document.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line))
    });
    let mut block: Option<usize> = None;
    // The indent of the block's keys, and where the value that is open now begins.
    let (mut keys, mut open): (Option<usize>, Option<usize>) = (None, None);
    let mut finish = |open: &mut Option<usize>, end: usize| {
        if let Some(start) = open.take() {
            let value = &document[start..end];
            let trimmed = value.trim();
            if !trimmed.is_empty() {
                let start = start + (value.len() - value.trim_start().len());
                spans.push((offset + start, offset + start + trimmed.len(), None));
            }
        }
    };
    for (start, line) in &mut lines {
        let content = line.trim();
        if content.is_empty() {
            continue;
        }
        let indent = line.len() - line.trim_start_matches([' ', '-']).len();
        if let Some(parent) = block {
            if indent > parent {
                let key_indent = *keys.get_or_insert(indent);
                if indent <= key_indent {
                    finish(&mut open, start);
                    // A line without a colon is masked whole.
                    open = Some(start + line.find(": ").or_else(|| line.find(":\n")).map_or(indent, |at| at + 1));
                }
                continue;
            }
            finish(&mut open, start);
            (block, keys) = (None, None);
        }
        let key = content.trim_start_matches("- ");
        for name in ["data:", "stringData:"] {
            if let Some(rest) = key.strip_prefix(name) {
                block = Some(indent);
                if !rest.trim().is_empty() {
                    open = Some(start + line.find(name).unwrap_or(0) + name.len());
                    keys = Some(usize::MAX);
                }
            }
        }
    }
    finish(&mut open, document.len());
}
