//! Assignments to names of credentials within a text: `password: x`, `PASSWORD=x`, `"password": "x"`, `--token x`,
//! `<password>x</password>`, `name: DB_PASSWORD` with `value: x` after it. Files of any format are read alike, by lines;
//! where a value ends is guessed so that rather too much is masked than too little.

mod forms;

use super::{
    Rules,
    keys::{Group, is_key, is_random},
    mapping::{self, Mapping},
    mark::LAST_APPLIED,
    nothing::says_nothing,
    text::Span,
};

/// Names longer than this are no names.
const NAME: usize = 128;

/// How far around a name is looked.
const NEAR: usize = 256;

/// Mappings under the names of credentials that are inside of each other are read by their fields this far; one further
/// down is masked whole. So no part of a text is read more often.
const NESTED: usize = 8;

/// What stands on a line before a name and its value.
#[rustfmt::skip]
const DIRECTIVES: &[&str] = &[
    "ENV", "proxy_set_header", "add_header", "fastcgi_param", "uwsgi_param", "grpc_set_header", "set-header",
    "add-header", "SetEnv", "RequestHeader set", "Header set", "header_up",
];

const LAST_APPLIED_DOMAIN: &str = "kubectl.kubernetes.io/";

impl Rules {
    /// `hits`: where something that may be part of a name stands.
    pub(super) fn assignments(&self, text: &str, hits: &[usize], spans: &mut Vec<Span>) {
        let mut done = 0;
        // Asked of every name, so it is found out once.
        let has_lines = !hits.is_empty() && text.trim_end().contains('\n');
        // Where the mappings end that have been read and are not over yet.
        let mut open: Vec<usize> = Vec::new();
        for &hit in hits {
            if hit < done {
                continue;
            }
            let name = name_around(text, hit);
            done = name.end;
            let bare = text[name.clone()].trim_start_matches('-').trim_end_matches(['.', '-']);
            let last_applied = LAST_APPLIED.ends_with(bare) && bare.starts_with("last-applied");
            let is_credential = last_applied || self.credential(bare);
            if !is_credential && !is_key(bare) {
                continue;
            }
            let value = Value { text, name: &name, bare, has_lines };
            if !is_credential {
                // Which of the keys are credentials, only their values tell.
                let random = value.find().filter(|(start, end)| is_random(&text[*start..*end]));
                spans.extend(random.map(|(start, end)| (start, end, None)));
            } else if let Some((start, end)) = value.find() {
                done = done.max(end);
                let value = &text[start..end];
                if !says_nothing(value) {
                    spans.push((start, end, None));
                }
            } else if let Some(mapping) = value.mapping() {
                open.retain(|end| *end > name.start);
                if open.len() >= NESTED {
                    done = done.max(mapping.end);
                    spans.push((mapping.start, mapping.end, None));
                    continue;
                }
                open.push(mapping.end);
                let hidden = mapping.values.into_iter().filter(|part| !says_nothing(&text[part.clone()]));
                spans.extend(hidden.map(|part| (part.start, part.end, None)));
            }
        }
    }

    /// The name of a credential that the value at this place is assigned to.
    pub(super) fn name_before<'t>(&self, text: &'t str, at: usize) -> Option<&'t str> {
        let before = text[..at].trim_end_matches([' ', '\t']).strip_suffix([':', '='])?;
        let name = before.trim_end_matches([' ', '"', '\'', '\\']);
        let len = name.bytes().rev().take(NAME).take_while(|b| is_name(*b)).count();
        let name = name[name.len() - len..].trim_start_matches('-');
        (!name.is_empty() && self.credential(name)).then_some(name)
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn name_around(text: &str, hit: usize) -> std::ops::Range<usize> {
    let bytes = text.as_bytes();
    let before = bytes[..hit].iter().rev().take(NAME).take_while(|b| is_name(**b)).count();
    let after = bytes[hit..].iter().take(NAME).take_while(|b| is_name(**b)).count();
    hit - before..hit + after
}

/// A name of a credential in a text, of which the value is looked for.
struct Value<'a> {
    text: &'a str,
    name: &'a std::ops::Range<usize>,
    bare: &'a str,
    /// Whether the text has more than one line.
    has_lines: bool,
}

impl Value<'_> {
    fn find(&self) -> Option<(usize, usize)> {
        let bytes = self.text.as_bytes();
        let before = self.name.start.checked_sub(1).map(|at| bytes[at]);
        let mut at = self.name.end;
        let mut closed = false;
        while let Some(b'"' | b'\'' | b'`' | b']' | b'\\' | b')') = bytes.get(at) {
            closed = true;
            at += 1;
        }
        if bytes.get(at) == Some(&b'>') && matches!(before, Some(b'<' | b'"' | b'\'')) {
            let end = self.text[at..].find('<').map_or(self.text.len(), |len| at + len);
            return self.trimmed(at + 1, end);
        }
        let gap = self.spaces(at);
        match bytes.get(gap) {
            // `vault/token:1.2` is an image, `token://` a scheme.
            Some(b':') if self.text[gap..].starts_with("://") => None,
            Some(b':') if before == Some(b'/') && !matches!(bytes.get(gap + 1), None | Some(b' ' | b'\n')) => None,
            Some(b':' | b'=') => {
                let mut from = gap + 1;
                while let Some(b'=' | b'>' | b':') = bytes.get(from) {
                    from += 1;
                }
                self.value(from, bytes[gap] == b':')
            }
            next => self.paired(at).or_else(|| self.above()).or_else(|| match next {
                Some(b',') if closed => self.called(gap + 1),
                Some(b'<') if gap == at => self.element(at),
                _ => self.after_space(gap, closed),
            }),
        }
    }

    /// The name is one of a mapping: `passwords:` and a line for each, or `tokens: {ci: x}`.
    fn mapping(&self) -> Option<Mapping> {
        let bytes = self.text.as_bytes();
        let mut at = self.name.end;
        while let Some(b'"' | b'\'') = bytes.get(at) {
            at += 1;
        }
        let gap = self.spaces(at);
        if !matches!(bytes.get(gap), Some(b':' | b'=')) {
            return None;
        }
        let from = self.spaces(gap + 1);
        match bytes.get(from) {
            Some(b'{') => mapping::flow(self.text, from, Group::of(self.bare)),
            Some(b'\n' | b'\r') if bytes[gap] == b':' && self.begins_line() => {
                let line = self.text[..self.name.start].rfind('\n').map_or(0, |at| at + 1);
                let next = from + self.text[from..].find('\n').map_or(0, |len| len + 1);
                mapping::block(self.text, line, next, Group::of(self.bare))
            }
            _ => None,
        }
    }

    fn spaces(&self, from: usize) -> usize {
        from + self.text.as_bytes()[from..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count()
    }

    /// `--token x`; `requirepass x` on a line of its own; `machine m login l password x`; `ENV DB_PASSWORD x`;
    /// `WITH PASSWORD 'x'`.
    fn after_space(&self, gap: usize, closed: bool) -> Option<(usize, usize)> {
        let bytes = self.text.as_bytes();
        if gap == self.name.end || closed {
            return None;
        }
        let flag = bytes[self.name.start] == b'-';
        let alone = self.begins_line()
            && bytes[self.name.start].is_ascii_lowercase()
            && self.near_after(gap).split('\n').next().is_some_and(|rest| rest.split_whitespace().count() == 1);
        let setting = alone && (self.bare.contains("pass") || self.bare == "masterauth" || self.has_lines);
        let netrc = self.bare == "password" && ["login ", "machine "].iter().any(|w| self.near_before().contains(w));
        let haproxy = self.bare == "insecure-password";
        let directive = self.lead().is_some_and(|lead| DIRECTIVES.iter().any(|word| lead.ends_with(word)));
        let sql = self.bare.eq_ignore_ascii_case("password") && bytes.get(gap) == Some(&b'\'');
        let ipsec = self.bare == "PSK" && bytes.get(gap) == Some(&b'"');
        if flag || setting || netrc || haproxy || directive || sql || ipsec { self.value(gap, false) } else { None }
    }

    /// The end of what stands before the name. Bounded, as everything that is looked at once a name has to be: a text
    /// may be one long line full of names.
    fn near_before(&self) -> &str {
        let mut from = self.name.start.saturating_sub(NEAR);
        while !self.text.is_char_boundary(from) {
            from += 1;
        }
        &self.text[from..self.name.start]
    }

    fn near_after(&self, from: usize) -> &str {
        let mut end = (from + NEAR).min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        &self.text[from..end]
    }

    /// What stands before the name on its line, without indents, dashes and quotes; `None` when that is far away.
    fn lead(&self) -> Option<&str> {
        let near = self.near_before();
        let before = match near.rfind('\n') {
            Some(at) => &near[at + 1..],
            None if near.len() == self.name.start => near,
            None => return None,
        };
        Some(before.trim_matches([' ', '\t', '-', '"', '\'', '#', ';', '?', '{']))
    }

    /// Whether nothing but an indent, a dash, a quote or `export` stands before the name on its line.
    fn begins_line(&self) -> bool {
        self.lead().is_some_and(|before| {
            matches!(before, "" | "export" | "set" | "ENV" | "ARG" | "SET" | "const" | "let" | "var" | "env")
                || before.ends_with(LAST_APPLIED_DOMAIN)
        })
    }

    /// Whether the name stands in a mapping in braces that opened on its line: `{user: bob, password: x y}`.
    fn in_braces(&self) -> bool {
        let near = self.near_before();
        let line = &near[near.rfind('\n').map_or(0, |at| at + 1)..];
        let mut closed = 0;
        for byte in line.bytes().rev() {
            match byte {
                b'}' => closed += 1,
                b'{' if closed == 0 => return true,
                b'{' => closed -= 1,
                _ => {}
            }
        }
        // The line began further away than is looked: in doubt a comma says it.
        let cut = line.len() == near.len() && near.len() < self.name.start;
        cut && line.trim_end_matches([' ', '"', '\'']).ends_with(',')
    }

    fn value(&self, from: usize, colon: bool) -> Option<(usize, usize)> {
        let bytes = self.text.as_bytes();
        let mut from = self.spaces(from);
        // How the API server tells of a wrong value.
        if let Some(rest) = self.text[from..].strip_prefix("Invalid value:") {
            from = self.spaces(self.text.len() - rest.len());
        }
        for quotes in ["\"\"\"", "'''"] {
            if let Some(rest) = self.text[from..].strip_prefix(quotes) {
                return self.trimmed(from + 3, rest.find(quotes).map_or(self.text.len(), |len| from + 3 + len));
            }
        }
        let slashes = bytes[from..].iter().take_while(|b| **b == b'\\').count();
        match bytes.get(from + slashes) {
            Some(&quote @ (b'"' | b'\'' | b'`')) => {
                let start = from + slashes + 1;
                return Some((start, self.closing(start, quote, slashes)));
            }
            None if slashes == 0 => return None,
            Some(b'\n' | b'\r') if slashes == 0 => return if colon { self.block(false) } else { None },
            Some(b'|' | b'>') if colon && self.block_follows(from + 1) => return self.block(true),
            Some(b'[') => {
                let end = self.text[from..].find(']').map_or(self.text.len(), |len| from + len);
                return self.trimmed(from + 1, end);
            }
            Some(b'{') if !self.is_word(from) => return None,
            _ => {}
        }
        if self.begins_line() || self.bare.to_ascii_lowercase().ends_with("authorization") {
            let mut end = self.text[from..].find('\n').map_or(self.text.len(), |len| from + len);
            while self.text[..end].ends_with('\\') && end < self.text.len() {
                end = self.text[end + 1..].find('\n').map_or(self.text.len(), |len| end + 1 + len);
            }
            if self.bare.to_ascii_lowercase().ends_with("authorization") {
                end = self.text[from..end].find(['"', '\'']).map_or(end, |len| from + len);
            }
            return self.trimmed(from, end);
        }
        // `password=x;user=y` and `?token=x&page=2`: up to what looks like the next assignment. In braces a value may
        // hold blanks, and ends where they close.
        let rest = &self.text[from..];
        let blanks = colon && matches!(bytes[from - 1], b' ' | b'\t') && self.in_braces();
        let mut open = 0usize;
        let mut ends = |at: usize, c: char| match c {
            '"' | '\'' | '`' | '<' => true,
            '\\' => rest[at + 1..].starts_with('n'),
            ';' | '&' | ',' => {
                let word = &rest.as_bytes()[at + 1..];
                let len = word.iter().take(NAME).take_while(|b| is_name(**b) || **b == b' ').count();
                len > 0 && matches!(word.get(len), Some(b'=' | b':'))
            }
            '{' if blanks => {
                open += 1;
                false
            }
            '}' if blanks && open == 0 => true,
            '}' if blanks => {
                open -= 1;
                false
            }
            ' ' | '\t' if blanks => false,
            _ => c.is_whitespace(),
        };
        let end = rest.char_indices().find(|&(at, c)| ends(at, c)).map_or(rest.len(), |(at, _)| at);
        if blanks {
            return self.trimmed(from, from + end);
        }
        let value = rest[..end].trim_end_matches([')', ']', '}', ',', ';', '\\']);
        Some((from, from + value.len()))
    }

    /// Whether what begins with a brace is no mapping: nothing is assigned in it, and it does not close.
    fn is_word(&self, from: usize) -> bool {
        let rest = self.near_after(from + 1);
        let line = rest.split('\n').next().unwrap_or(rest).trim();
        !line.is_empty() && !line.contains(['{', '}', ':', '=', '"', '\''])
    }

    /// Whether nothing but the marks of a block scalar stands on the rest of the line.
    fn block_follows(&self, from: usize) -> bool {
        let near = self.near_after(from);
        near.find('\n').is_some_and(|end| near[..end].bytes().all(|b| b"+-0123456789 \t\r".contains(&b)))
    }

    /// Where the quote that is open closes; the end of the text when it never does.
    fn closing(&self, start: usize, quote: u8, slashes: usize) -> usize {
        let bytes = self.text.as_bytes();
        let (mut at, mut run) = (start, 0);
        while at < bytes.len() {
            match bytes[at] {
                b'\\' => run += 1,
                byte if byte == quote => {
                    let doubled = quote == b'\'' && slashes == 0 && bytes.get(at + 1) == Some(&b'\'');
                    let closes = if slashes == 0 { run % 2 == 0 } else { run <= slashes };
                    if doubled {
                        at += 1;
                    } else if closes {
                        return at - run.min(slashes);
                    }
                    run = 0;
                }
                _ => run = 0,
            }
            at += 1;
        }
        bytes.len()
    }

    /// The lines below the name that are indented deeper. A block scalar is masked whole; otherwise it is a list, or a
    /// mapping that is read by itself.
    fn block(&self, scalar: bool) -> Option<(usize, usize)> {
        if !self.begins_line() {
            return None;
        }
        let line_start = self.text[..self.name.start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = self.text[self.name.end..].find('\n').map_or(self.text.len(), |len| self.name.end + len);
        let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
        let own = indent(&self.text[line_start..]);
        let start = (line_end + 1).min(self.text.len());
        let mut end = start;
        for line in self.text[start..].split_inclusive('\n') {
            let content = line.trim();
            let item = !scalar && content.starts_with("- ");
            let deeper = indent(line) > own || (item && indent(line) == own);
            if !content.is_empty() && !deeper {
                break;
            }
            if !scalar && !content.is_empty() && !item {
                let mapping = content
                    .split_once(':')
                    .is_some_and(|(key, rest)| !key.contains(' ') && (rest.is_empty() || rest.starts_with(' ')));
                if mapping {
                    break;
                }
            }
            end += line.len();
        }
        self.trimmed(start, end)
    }

    fn trimmed(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let part = self.text.get(start..end)?;
        let from = start + (part.len() - part.trim_start().len());
        let value = part.trim();
        let value = value.strip_suffix([',', ';']).unwrap_or(value).trim_end();
        (!value.is_empty()).then(|| (from, from + value.len()))
    }
}
