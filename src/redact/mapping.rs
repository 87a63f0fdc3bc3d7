//! A mapping under the name of a credential, within a text: `passwords:` with a line for each of them, or
//! `tokens: {ci: x}`. Which of its values are masked is decided as it is for objects ([`super::keys::describes`]).

use std::ops::Range;

use super::{
    keys::{Group, describes, is_credential},
    mark::VALUES,
};

/// Mappings within mappings are read this far; what is below is masked whole.
const LEVELS: usize = 32;

/// What was read of it.
pub(super) struct Mapping {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The values to mask.
    pub(super) values: Vec<Range<usize>>,
}

/// A line or an entry.
struct Entry {
    /// How deep it stands: more is deeper.
    depth: usize,
    /// Empty for an item of a list that has no key.
    key: Range<usize>,
    /// Empty when what it holds stands below.
    value: Range<usize>,
}

/// The lines from `start` on that are indented deeper than the one at `line`.
pub(super) fn block(text: &str, line: usize, start: usize, group: Group) -> Option<Mapping> {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let own = indent(&text[line..]);
    let (mut entries, mut end) = (Vec::new(), start);
    for line in text[start..].split_inclusive('\n') {
        let content = line.trim();
        if !content.is_empty() && indent(line) <= own {
            break;
        }
        if !content.is_empty() && !content.starts_with('#') {
            entries.push(entry(text, end, line));
        }
        end += line.len();
    }
    if entries.first()?.key.is_empty() {
        return None;
    }
    let mut values = Vec::new();
    choose(text, &entries, group, LEVELS, &mut values);
    Some(Mapping { start, end, values })
}

fn entry(text: &str, at: usize, line: &str) -> Entry {
    let mut from = at + line.len() - line.trim_start().len();
    let end = at + line.trim_end().len();
    // An item stands deeper than the key it belongs to, also where both are indented alike.
    let mut depth = (from - at) * 2;
    if text[from..end].starts_with("- ") {
        depth += 1;
        from = end - text[from + 2..end].trim_start().len();
    }
    let content = &text[from..end];
    let colon = content.find(':').filter(|&at| {
        let rest = &content[at + 1..];
        !content[..at].contains(' ') && (rest.is_empty() || rest.starts_with(' '))
    });
    match colon {
        Some(colon) => {
            let key = inside(text, from..from + colon);
            let value = end - content[colon + 1..].trim_start().len()..end;
            Entry { depth, key, value }
        }
        None => Entry { depth, key: from..from, value: from..end },
    }
}

/// Those of the uppermost entries, and of names that are anybody's all below.
fn choose(text: &str, entries: &[Entry], group: Group, levels: usize, values: &mut Vec<Range<usize>>) {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
    if levels == 0 {
        return values.push(first.key.start..last.value.end);
    }
    let depth = first.depth;
    let group = group.narrowed(|key| {
        let of = |entry: &&Entry| entry.depth == depth && &text[entry.key.clone()] == key && !entry.value.is_empty();
        entries.iter().find(of).map(|entry| &text[inside(text, entry.value.clone())])
    });
    let mut rest = entries;
    while let Some((entry, after)) = rest.split_first() {
        let below = after.iter().take_while(|below| below.depth > entry.depth).count();
        let (below, after) = after.split_at(below);
        rest = after;
        let key = &text[entry.key.clone()];
        // What is called a credential itself is looked at by itself.
        let hidden = VALUES.contains(&key) || !(describes(key, group) || is_credential(key));
        if !hidden {
            continue;
        }
        let value = &text[entry.value.clone()];
        match value.as_bytes().first() {
            Some(b'|' | b'>') => {
                let whole = below.first().zip(below.last()).map(|(first, last)| first.key.start..last.value.end);
                values.extend(whole);
            }
            Some(b'{') if value.starts_with("{{") => {}
            Some(b'{') => {
                if group == Group::Many
                    && let Some(mapping) = flow(text, entry.value.start, group)
                {
                    values.extend(mapping.values);
                }
            }
            Some(b'[') if group == Group::Many => values.push(entry.value.clone()),
            Some(b'[' | b'&' | b'*') => {}
            Some(_) => values.push(inside(text, entry.value.clone())),
            None if group == Group::Many => choose(text, below, group, levels - 1, values),
            None => {}
        }
    }
}

/// The mapping that opens with the brace at `open`: to where that closes, or to the end.
pub(super) fn flow(text: &str, open: usize, group: Group) -> Option<Mapping> {
    let bytes = text.as_bytes();
    // A template.
    if matches!(bytes.get(open + 1), Some(b'{' | b'%')) {
        return None;
    }
    let (mut entries, mut depth, mut from, mut quote) = (Vec::new(), 0usize, open, None);
    let mut end = text.len();
    for (at, &byte) in bytes.iter().enumerate().skip(open) {
        match (byte, quote) {
            (_, Some(open)) if byte == open && bytes[at - 1] != b'\\' => quote = None,
            (_, Some(_)) => {}
            // An apostrophe within a word is none.
            (b'"' | b'\'', None) if !bytes[at - 1].is_ascii_alphanumeric() => quote = Some(byte),
            (b',' | b'{' | b'}' | b'[' | b']' | b'\n', None) => {
                entries.extend(assignment(text, from..at, depth));
                from = at + 1;
                match byte {
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    end = at;
                    break;
                }
            }
            _ => {}
        }
    }
    if end == text.len() {
        entries.extend(assignment(text, from..end, depth));
    }
    let mut values = Vec::new();
    choose(text, &entries, group, LEVELS, &mut values);
    Some(Mapping { start: open, end, values })
}

fn assignment(text: &str, part: Range<usize>, depth: usize) -> Option<Entry> {
    let content = text[part.clone()].trim();
    let start = part.start + (text[part.clone()].len() - text[part.clone()].trim_start().len());
    let quoted = content.chars().next().filter(|c| matches!(c, '"' | '\''));
    let after = quoted.and_then(|quote| content[1..].find(quote)).map_or(0, |at| at + 2);
    let Some(colon) = content[after..].find([':', '=']).map(|at| after + at) else {
        // An item of a list.
        return (depth > 1 && !content.is_empty()).then_some(Entry {
            depth,
            key: start..start,
            value: start..start + content.len(),
        });
    };
    let value = content[colon + 1..].trim_start().len();
    let end = start + content.len();
    Some(Entry { depth, key: inside(text, start..start + colon), value: end - value..end })
}

/// Without spaces around it and a pair of quotes.
fn inside(text: &str, part: Range<usize>) -> Range<usize> {
    let content = &text[part.clone()];
    let start = part.start + (content.len() - content.trim_start().len());
    let content = content.trim();
    let end = start + content.len();
    let quoted = content.len() >= 2 && ["\"", "'"].iter().any(|q| content.starts_with(q) && content.ends_with(q));
    if quoted { start + 1..end - 1 } else { start..end }
}
