//! A mapping or a list of mappings under the name of a credential, within a text: `passwords:` with a line for each of
//! them, or `tokens: {ci: x}`. Which of its values are masked is decided as it is for objects
//! ([`super::keys::describes`]).

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
    /// Whether the brace that opened it closes.
    closes: bool,
    /// The values to mask.
    pub(super) values: Vec<Range<usize>>,
}

/// A line or an entry.
pub(super) struct Entry {
    /// How deep it stands: more is deeper.
    depth: usize,
    /// Whether an item of a list begins with it.
    begins_item: bool,
    /// Empty for an item of a list that has no key.
    pub(super) key: Range<usize>,
    /// Empty when what it holds stands below.
    pub(super) value: Range<usize>,
}

/// The lines from `start` on that stand deeper than this column; the items of a list may stand in it.
pub(super) fn block(text: &str, column: usize, start: usize, group: Group) -> Option<Mapping> {
    let (mut entries, mut at, mut end, mut dashed) = (Vec::new(), start, start, false);
    for line in text[start..].split_inclusive('\n') {
        let content = line.trim();
        if !content.is_empty() && !content.starts_with('#') {
            let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
            let is_item = content == "-" || content.starts_with("- ");
            if indent < column || (indent == column && !is_item) {
                break;
            }
            if content == "-" {
                dashed = true;
            } else {
                let mut entry = entry(text, at, line);
                entry.begins_item |= std::mem::take(&mut dashed);
                entries.push(entry);
            }
            end = at + line.len();
        }
        at += line.len();
    }
    if entries.first()?.key.is_empty() {
        return None;
    }
    let mut choice = Choice { text, end, read: start, values: Vec::new() };
    choice.among(&entries, group, LEVELS);
    Some(Mapping { start, end, closes: true, values: choice.values })
}

fn entry(text: &str, at: usize, line: &str) -> Entry {
    let mut from = at + line.len() - line.trim_start().len();
    let end = at + line.trim_end().len();
    let mut begins_item = false;
    while let Some(rest) = text[from..end].strip_prefix("- ") {
        begins_item = true;
        from = end - rest.trim_start().len();
    }
    let depth = from - at;
    let content = &text[from..end];
    let colon = content.find(':').filter(|&at| {
        let rest = &content[at + 1..];
        !content[..at].contains(' ') && (rest.is_empty() || rest.starts_with([' ', '\t']))
    });
    match colon {
        Some(colon) => {
            let key = inside(text, from..from + colon);
            let value = end - content[colon + 1..].trim_start().len()..end;
            Entry { depth, begins_item, key, value }
        }
        None => Entry { depth, begins_item, key: from..from, value: from..end },
    }
}

/// Which of the entries are masked.
struct Choice<'t> {
    text: &'t str,
    /// Of the whole mapping.
    end: usize,
    /// Up to where braces have been read: what is before is not looked at by lines.
    read: usize,
    values: Vec<Range<usize>>,
}

impl Choice<'_> {
    fn among(&mut self, entries: &[Entry], group: Group, levels: usize) {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
        if levels == 0 {
            return self.values.push(first.key.start..last.value.end);
        }
        if !first.begins_item {
            return self.fields(entries, group, levels);
        }
        let mut rest = entries;
        while let Some((item, after)) = rest.split_first() {
            let more = after.iter().take_while(|next| !(next.begins_item && next.depth <= item.depth)).count();
            let (fields, after) = rest.split_at(more + 1);
            rest = after;
            // One that says which of its fields is the value says as well that the others are not.
            let tells = |entry: &Entry| {
                let key = &self.text[entry.key.clone()];
                VALUES.contains(&key) || is_credential(key)
            };
            let group = if fields.iter().any(tells) { Group::One } else { group };
            self.fields(fields, group, levels);
        }
    }

    /// Those of the uppermost entries, and of names that are anybody's all below.
    fn fields(&mut self, entries: &[Entry], group: Group, levels: usize) {
        let Some(depth) = entries.first().map(|first| first.depth) else { return };
        let text = self.text;
        let group = group.narrowed(|key| {
            let of =
                |entry: &&Entry| entry.depth == depth && &text[entry.key.clone()] == key && !entry.value.is_empty();
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
            if hidden && entry.value.end > self.read {
                self.entry(entry, below, group, levels);
            }
        }
    }

    fn entry(&mut self, entry: &Entry, below: &[Entry], group: Group, levels: usize) {
        let range = unmarked(self.text, entry.value.clone());
        let value = &self.text[range.clone()];
        let whole = below.first().zip(below.last()).map(|(first, last)| first.key.start..last.value.end);
        match value.as_bytes().first() {
            Some(b'|' | b'>') => self.values.extend(whole),
            Some(b'{') if value.starts_with("{{") => {}
            Some(b'{') if group == Group::Many => self.braces(range.start, group),
            Some(b'{' | b'*') => {}
            Some(b'[') => self.values.push(range.start..whole.map_or(range.end, |whole| whole.end)),
            // A comment, or nothing but an anchor and a tag.
            Some(b'#') | None if !below.is_empty() => {
                let is_list = below.first().is_some_and(|first| first.begins_item);
                let is_text = below.iter().all(|entry| entry.key.is_empty() && !entry.begins_item);
                match whole {
                    Some(whole) if is_text => self.values.push(whole),
                    _ if group == Group::Many => self.among(below, group, levels - 1),
                    _ if is_list => self.among(below, Group::One, levels - 1),
                    _ => {}
                }
            }
            // What is nothing but a mark may be a word that looks like one.
            None => self.values.push(entry.value.clone()),
            // It goes on in the lines below.
            Some(first) => {
                let is_open = matches!(first, b'"' | b'\'') && inside(self.text, range.clone()) == range;
                let goes_on = is_open || below.first().is_some_and(|first| first.key.is_empty());
                let more = whole.filter(|_| goes_on).map(|whole| range.start..whole.end);
                self.values.push(more.unwrap_or_else(|| inside(self.text, range)));
            }
        }
    }

    /// A mapping in braces: those that do not close are masked to the end, so that none are read twice.
    fn braces(&mut self, open: usize, group: Group) {
        match flow(self.text, open, self.end, group) {
            Some(mapping) if mapping.closes => {
                self.read = mapping.end;
                self.values.extend(mapping.values);
            }
            _ => {
                self.read = self.end;
                self.values.push(open..self.text[..self.end].trim_end().len());
            }
        }
    }
}

/// The mapping that opens with the brace at `open`: to where that closes, or to `limit`. `None` when nothing is assigned
/// in it.
pub(super) fn flow(text: &str, open: usize, limit: usize, group: Group) -> Option<Mapping> {
    let bytes = &text.as_bytes()[..limit];
    // A template.
    if matches!(bytes.get(open + 1), Some(b'{' | b'%')) {
        return None;
    }
    let (mut entries, mut depth, mut from, mut quote) = (Vec::new(), 0usize, open, None);
    let (mut end, mut closes) = (limit, false);
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
                    (end, closes) = (at, true);
                    break;
                }
            }
            _ => {}
        }
    }
    if !closes {
        entries.extend(assignment(text, from..end, depth));
    }
    if entries.is_empty() {
        return None;
    }
    let mut choice = Choice { text, end, read: open, values: Vec::new() };
    choice.among(&entries, group, LEVELS);
    Some(Mapping { start: open, end, closes, values: choice.values })
}

pub(super) fn assignment(text: &str, part: Range<usize>, depth: usize) -> Option<Entry> {
    let content = text[part.clone()].trim();
    let start = part.start + (text[part.clone()].len() - text[part.clone()].trim_start().len());
    let quoted = content.chars().next().filter(|c| matches!(c, '"' | '\''));
    let after = quoted.and_then(|quote| content[1..].find(quote)).map_or(0, |at| at + 2);
    let Some(colon) = content[after..].find([':', '=']).map(|at| after + at) else {
        return (depth > 1 && !content.is_empty()).then_some(Entry {
            depth,
            begins_item: true,
            key: start..start,
            value: start..start + content.len(),
        });
    };
    let value = content[colon + 1..].trim_start().len();
    let end = start + content.len();
    let key = inside(text, start..start + colon);
    Some(Entry { depth, begins_item: false, key, value: end - value..end })
}

/// Without the anchor and the tag of YAML before it.
fn unmarked(text: &str, mut part: Range<usize>) -> Range<usize> {
    for _ in 0..2 {
        let content = &text[part.clone()];
        if content.starts_with(['&', '!']) {
            let len = content.find([' ', '\t']).unwrap_or(content.len());
            part.start = part.end - content[len..].trim_start().len();
        }
    }
    part
}

/// Without spaces around it and a pair of quotes.
pub(super) fn inside(text: &str, part: Range<usize>) -> Range<usize> {
    let content = &text[part.clone()];
    let start = part.start + (content.len() - content.trim_start().len());
    let content = content.trim();
    let end = start + content.len();
    let quoted = content.len() >= 2 && ["\"", "'"].iter().any(|q| content.starts_with(q) && content.ends_with(q));
    if quoted { start + 1..end - 1 } else { start..end }
}
