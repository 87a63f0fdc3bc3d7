//! Assignments to names of credentials within a text: `password: x`, `PASSWORD=x`, `"password": "x"`, `--token x`,
//! `<password>x</password>`, `name: DB_PASSWORD` with `value: x` beside it. Files of any format are read alike, by lines;
//! where a value ends is guessed so that rather too much is masked than too little.

mod forms;
mod pairs;
mod value;

use super::{
    Rules,
    keys::{Group, is_key, is_random, names_a_secret},
    manifest,
    mapping::{self, Mapping},
    mark::LAST_APPLIED,
    nothing::says_nothing,
    text::Span,
};

/// Names longer than this are no names.
const NAME: usize = 128;

/// How far around a name is looked.
const NEAR: usize = 256;

/// How far the value of a key is looked at, which only its look may tell to be a credential.
const KEY: usize = 1024;

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
        // The value that reaches furthest: names within it are part of it. Those before it, where it stands further down
        // than its name, are not.
        let mut hidden = 0..0;
        // Asked of every name, so it is found out once.
        let has_lines = !hits.is_empty() && text.trim_end().contains('\n');
        // Where the mappings end that have been read and are not over yet.
        let mut open: Vec<usize> = Vec::new();
        for &hit in hits {
            if hit < done || hidden.contains(&hit) {
                continue;
            }
            let name = name_around(text, hit);
            done = name.end;
            let bare = text[name.clone()].trim_start_matches('-').trim_end_matches(['.', '-']);
            let last_applied = is_last_applied(bare);
            let is_credential =
                last_applied || (self.credential(bare) && !(names_a_secret(bare) && after_slash(text, &name)));
            if !is_credential && !is_key(bare) {
                continue;
            }
            let value = Value { text, name: &name, bare, has_lines };
            if !is_credential {
                spans.extend(value.random().map(|(start, end)| (start, end, None)));
                continue;
            }
            let applied = if last_applied { value.applied() } else { None };
            if let Some((start, end)) = applied.or_else(|| value.find()) {
                if end > hidden.end {
                    hidden = start..end;
                }
                if !says_nothing(&text[start..end]) {
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
            } else {
                spans.extend(value.braced().map(|(start, end)| (start, end, None)));
            }
        }
    }

    /// What the value at this place is assigned to, if that is a credential.
    pub(super) fn owner<'t>(&self, text: &'t str, at: usize) -> Option<Owner<'t>> {
        let before = text[..at].trim_end_matches([' ', '\t']).strip_suffix([':', '='])?;
        let name = before.trim_end_matches([' ', '"', '\'', '\\']);
        let len = name.bytes().rev().take(NAME).take_while(|b| is_name(*b)).count();
        let name = name[name.len() - len..].trim_start_matches('-');
        if is_last_applied(name) {
            return Some(Owner::LastApplied);
        }
        (!name.is_empty() && self.credential(name)).then_some(Owner::Credential(name))
    }
}

/// What an object within a text is called.
pub(super) enum Owner<'t> {
    Credential(&'t str),
    /// What kubectl keeps of a manifest, of which nothing may be shown.
    LastApplied,
}

fn is_last_applied(name: &str) -> bool {
    name.starts_with("last-applied") && LAST_APPLIED.ends_with(name)
}

fn after_slash(text: &str, name: &std::ops::Range<usize>) -> bool {
    text[..name.start].ends_with('/')
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
            return self.content(at + 1);
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
            next => self.sibling().or_else(|| self.paired(at)).or_else(|| match next {
                Some(b',') if closed => self.called(gap + 1),
                Some(b'<') if gap == at => self.element(at),
                _ => self.after_space(gap, closed),
            }),
        }
    }

    /// Where what is assigned to the name by a sign begins, and whether by a colon.
    fn assigned(&self) -> Option<(usize, bool)> {
        let bytes = self.text.as_bytes();
        let mut at = self.name.end;
        while let Some(b'"' | b'\'') = bytes.get(at) {
            at += 1;
        }
        let gap = self.spaces(at);
        let sign = bytes.get(gap).filter(|sign| matches!(sign, b':' | b'='))?;
        Some((self.spaces(gap + 1), *sign == b':'))
    }

    /// The name is one of a mapping: `passwords:` and a line for each, or `tokens: {ci: x}`.
    fn mapping(&self) -> Option<Mapping> {
        let (from, colon) = self.assigned()?;
        let from = if colon { self.unmarked(from) } else { from };
        if self.text[from..].starts_with('{') {
            return mapping::flow(self.text, from, self.text.len(), Group::of(self.bare));
        }
        if !(colon && self.is_over(from) && self.begins_line()) {
            return None;
        }
        let next = from + self.text[from..].find('\n').map_or(0, |len| len + 1);
        mapping::block(self.text, self.column(), next, Group::of(self.bare))
    }

    /// Which of the keys are credentials, only their values tell.
    fn random(&self) -> Option<(usize, usize)> {
        let mut reach = (self.name.end + KEY).min(self.text.len());
        while !self.text.is_char_boundary(reach) {
            reach -= 1;
        }
        let (start, end) = Value { text: &self.text[..reach], ..*self }.find()?;
        let more = self.text.as_bytes()[end..].iter().take_while(|b| b.is_ascii_alphanumeric() || b"+/=_-".contains(b));
        let end = if end == reach { end + more.count() } else { end };
        is_random(&self.text[start..end]).then_some((start, end))
    }

    /// What kubectl keeps of a manifest, where that is not in quotes: all of it, to the end when it is cut.
    fn applied(&self) -> Option<(usize, usize)> {
        let (from, _) = self.assigned()?;
        let object = self.text[from..].strip_prefix('{').map(|_| &self.text[from..])?;
        Some((from, manifest::balanced(object).map_or(self.text.len(), |len| from + len)))
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

    /// What stands before the name on its line; `None` when that is far away.
    fn line_before(&self) -> Option<&str> {
        let near = self.near_before();
        match near.rfind('\n') {
            Some(at) => Some(&near[at + 1..]),
            None => (near.len() == self.name.start).then_some(near),
        }
    }

    /// The same without indents, dashes and quotes.
    fn lead(&self) -> Option<&str> {
        self.line_before().map(|before| before.trim_matches([' ', '\t', '-', '"', '\'', '#', ';', '?', '{']))
    }

    /// Whether nothing but an indent, a dash, a quote or `export` stands before the name on its line.
    fn begins_line(&self) -> bool {
        self.lead().is_some_and(|before| {
            matches!(before, "" | "export" | "set" | "ENV" | "ARG" | "SET" | "const" | "let" | "var" | "env")
                || before.ends_with(LAST_APPLIED_DOMAIN)
        })
    }

    /// How far from the beginning of its line a name stands, or what comes before it there: what belongs to it below
    /// stands deeper. `- tokens:` stands where its item begins.
    fn column(&self) -> usize {
        let before = self.line_before().unwrap_or_default();
        let (indent, rest) = before.split_at(before.len() - before.trim_start_matches([' ', '\t']).len());
        let items = rest.len() - rest.trim_start_matches("- ").trim_start_matches(' ').len();
        indent.len() + if rest[items..].trim_matches(['"', '\'']).is_empty() { items } else { 0 }
    }

    /// Whether the name stands in a mapping in braces that opened on its line: `{user: bob, password: x y}`.
    fn in_braces(&self) -> bool {
        let near = self.near_before();
        let line = &near[near.rfind('\n').map_or(0, |at| at + 1)..];
        if pairs::opening(line).is_some() {
            return true;
        }
        // The line began further away than is looked: in doubt a comma says it.
        let cut = line.len() == near.len() && near.len() < self.name.start;
        cut && line.trim_end_matches([' ', '"', '\'']).ends_with(',')
    }
}
