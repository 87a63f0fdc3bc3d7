//! What is masked in a text, by what it looks like: tokens of known shapes, key blocks, passwords in URLs, assignments
//! to names of credentials ([`super::assign`]), and JSON or manifests inside of it.
//!
//! Nearly every string of a cluster is plain, so the way to "nothing here" is short: one table look-up a byte. Only
//! what it stops at is searched for literals, and only the detectors whose literals occur are run.

use std::sync::LazyLock;

use regex::Regex;

use super::{
    Rules,
    emit::quote,
    keys::Group,
    literals::{
        AWS, COMMAND, CRYPT, DSNS, HEADER, JWT, MANIFEST, NAMES, PACKED, PEM, SHAPES, SQL, TOKEN, URL, classes,
        occurring,
    },
    manifest,
    mark::{LEVELS, Marker},
    mask,
    packed::{begins_in_lines, decoded},
    tape::{Fate, Kind, Tape},
    url,
};

/// Of the ends of words those of ASCII are meant: with those of any script the whole text is read many times slower as soon
/// as it holds a letter of another one.
pub(super) fn regex(pattern: &str) -> Regex {
    Regex::new(&pattern.replace(r"\b", r"(?-u:\b)")).expect("a pattern of our own")
}

/// Group 1 is masked where there is one, else the whole match.
static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|xox[a-z]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{16,}",
        r"|[sr]k_(?:live|test)_[A-Za-z0-9]{8,}|AIza[A-Za-z0-9_-]{30,}|npm_[A-Za-z0-9]{20,}",
        r"|gl(?:pat|dt|rt)-[A-Za-z0-9_.-]{16,}|hv[sb]\.[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_-]{16,}",
        r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|do[opr]_v1_[a-f0-9]{32,}|dckr_pat_[A-Za-z0-9_-]{16,}",
        r"|pypi-[A-Za-z0-9_-]{32,}|GOCSPX-[A-Za-z0-9_-]{16,}|shp(?:at|ss|ca|pa)_[a-fA-F0-9]{32}",
        r"|AGE-SECRET-KEY-1[A-Z0-9]{20,}|\b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}",
        r"|hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]+)|/api/webhooks/[0-9]+/([A-Za-z0-9_-]+)",
        r"|[?&;]sig=([^&\s\x22']+)",
        r"|\bhf_[A-Za-z0-9]{30,}|\bglsa_[A-Za-z0-9]{24,}_[a-f0-9]{8}|\bglc_[A-Za-z0-9+/=]{32,}|\bdapi[a-f0-9]{32}",
        r"|\bNRAK-[A-Z0-9]{20,}|\bdt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}",
        r"|\blin_api_[A-Za-z0-9]{32,}|\bsntry[su]_[A-Za-z0-9+/=_-]{32,}|\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{30,}",
        r"|\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}|\brubygems_[a-f0-9]{40,}|\bkey-[a-f0-9]{32}\b|\bLTAI[A-Za-z0-9]{16,22}\b",
        r"|\bgl(?:ptt|cbt|ft|imt|soat|agent)-[A-Za-z0-9_-]{16,}|\bdp\.(?:st|pt|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{32,}",
        r"|\.office\.com/webhook(?:b2)?/([^\s\x22'?]+)|hooks\.zapier\.com/hooks/catch/([^\s\x22'?]+)",
        r"|/hooks/([a-z0-9]{26})\b",
    ))
});
static OPENAI: LazyLock<Regex> = LazyLock::new(|| regex(r"\bsk-[A-Za-z0-9_-]{20,}"));
static JWTS: LazyLock<Regex> = LazyLock::new(|| regex(r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)*"));
static AWS_ID: LazyLock<Regex> = LazyLock::new(|| regex(r"(?:AKIA|ASIA|AIDA|AROA)[A-Z0-9]{16}"));
static AWS_SECRET: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?:^|[^A-Za-z0-9/+=])([A-Za-z0-9/+]{40})(?:$|[^A-Za-z0-9/+=])"));
static HEADERS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b(?i:(bearer|basic))(?:[ \t]+|%20|\\?\x22?:[ \t]*\\?\x22?)([A-Za-z0-9._~+/=-]{6,})"));
static CRYPTS: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"\$(?:apr1|2[aby]|1|5|6|7|y|argon2[a-z]*|scrypt|pbkdf2[a-z0-9-]*)\$[A-Za-z0-9./$=,+-]{8,}",
        r"|\{(?i:s?sha(?:256|384|512)?|s?md5|crypt|pbkdf2[a-z0-9-]*|argon2)\}[A-Za-z0-9./$=,+-]{8,}",
        r"|\bpbkdf2[_:][a-z0-9_:]+[$:][0-9]+[$:][A-Za-z0-9./$:=,+-]{8,}|SCRAM-SHA-[0-9]+\$[0-9]+:[A-Za-z0-9+/=:$]{16,}",
    ))
});
static DSN: LazyLock<Regex> =
    LazyLock::new(|| regex(r"[\w.-]+:([^\s\x22'@]+)@(?:tcp|unix)\(|:thin:[\w.-]+/([^\s\x22'@]+)@"));
/// A part of a text, and what stands in its place; `None` for its mask.
pub(super) type Span = (usize, usize, Option<String>);

impl Rules {
    /// The text with all that is secret in it masked; `None` when nothing is. `level`: how many strings it is inside of.
    pub(super) fn text(&self, text: &str, level: u8) -> Option<String> {
        if text.len() < 5 {
            return self.own(text);
        }
        let (mut found, names) = occurring(text);
        if begins_in_lines(text) {
            found |= PACKED;
        }
        if found == 0 {
            return self.own(text);
        }
        if let Some(b'{' | b'[' | b'"') = text.trim_start().as_bytes().first()
            && let Ok(mut tape) = Tape::parse(text)
        {
            if level >= LEVELS || tape.depth > super::DEPTH {
                return self.whole(text);
            }
            return self.json(&mut tape, level + 1, None);
        }
        let mut spans = Vec::new();
        if manifest::quoted(self, text, level, &mut spans) {
            return self.whole(text);
        }
        if found & MANIFEST != 0 && manifest::secrets(text, &mut spans) {
            return self.whole(text);
        }
        self.shapes(text, found, level, &mut spans);
        if found & COMMAND != 0 {
            self.commands(text, &mut spans);
        }
        if found & SQL != 0 {
            self.statements(text, &mut spans);
        }
        if found & NAMES != 0 && (text.contains("INSERT INTO") || text.contains("insert into")) {
            self.inserts(text, &mut spans);
        }
        if found & NAMES != 0 {
            self.assignments(text, &names, &mut spans);
        }
        self.own_spans(text, &mut spans);
        self.splice(text, spans)
    }

    /// Like [`Rules::text`], but only by shape: for names of fields, of which a pattern of the user's masks the value.
    pub(super) fn shape(&self, text: &str) -> Option<String> {
        let found = classes(text) & SHAPES;
        if found == 0 {
            return None;
        }
        let mut spans = Vec::new();
        self.shapes(text, found, LEVELS, &mut spans);
        self.splice(text, spans)
    }

    /// Like [`Rules::text`], but without assignments: `auth:1.2` is an image and assigns nothing.
    pub(super) fn image(&self, text: &str) -> Option<String> {
        let found = classes(text) & SHAPES;
        if found == 0 {
            return self.own(text);
        }
        let mut spans = Vec::new();
        self.shapes(text, found, LEVELS, &mut spans);
        self.own_spans(text, &mut spans);
        self.splice(text, spans)
    }

    /// Masks inside of a text that is JSON, and leaves its spaces and its order as they are. `under`: it stands under the
    /// name of a credential.
    pub(super) fn json(&self, tape: &mut Tape<'_>, level: u8, under: Option<Group>) -> Option<String> {
        let mut marker = Marker { rules: self, tape, level };
        match under {
            None => marker.value(0),
            Some(group) => marker.hide(0, group),
        }
        if tape.edits.is_empty() {
            return None;
        }
        let (mut out, mut copied, mut at) = (Vec::with_capacity(tape.text.len()), 0, 0);
        while at < tape.tokens.len() {
            let token = &tape.tokens[at];
            let Fate::Edit(edit) = token.fate else {
                at += 1;
                continue;
            };
            let quotes = usize::from(token.kind == Kind::String);
            out.extend_from_slice(&tape.text.as_bytes()[copied..token.start as usize - quotes]);
            quote(&mut out, &tape.edits[edit as usize]);
            copied = token.end as usize + quotes;
            at = token.next as usize;
        }
        out.extend_from_slice(&tape.text.as_bytes()[copied..]);
        Some(String::from_utf8_lossy(&out).into_owned())
    }

    fn shapes(&self, text: &str, found: u32, level: u8, spans: &mut Vec<Span>) {
        if found & PEM != 0 {
            key_blocks(text, spans);
        }
        if found & URL != 0 {
            url::passwords(text, spans);
        }
        if found & DSNS != 0 {
            groups(&DSN, text, spans);
        }
        if found & JWT != 0 {
            groups(&JWTS, text, spans);
        }
        if found & TOKEN != 0 {
            groups(&TOKENS, text, spans);
            spans.extend(OPENAI.find_iter(text).filter_map(|m| {
                let random =
                    |s: &str| s.bytes().any(|b| b.is_ascii_digit()) && s.bytes().any(|b| b.is_ascii_uppercase());
                random(m.as_str()).then(|| (m.start(), m.end(), None))
            }));
        }
        if found & AWS != 0 && AWS_ID.is_match(text) {
            groups(&AWS_ID, text, spans);
            groups(&AWS_SECRET, text, spans);
        }
        if found & CRYPT != 0 {
            groups(&CRYPTS, text, spans);
        }
        if found & HEADER != 0 {
            for found in HEADERS.captures_iter(text) {
                let (Some(scheme), Some(value)) = (found.get(1), found.get(2)) else { continue };
                let text = value.as_str();
                let secret = if scheme.as_str().eq_ignore_ascii_case("basic") {
                    decoded(text).is_some_and(|bytes| bytes.contains(&b':'))
                } else {
                    text.len() >= 20 || text.bytes().any(|b| b.is_ascii_digit())
                };
                if secret {
                    spans.push((value.start(), value.end(), None));
                }
            }
        }
        if found & PACKED != 0 {
            self.packed(text, level, spans);
        }
    }

    /// Puts the masks in their places. Spans that overlap are masked as one.
    pub(super) fn splice(&self, text: &str, mut spans: Vec<Span>) -> Option<String> {
        let masked_before = text.contains(mask::PREFIX);
        spans.retain(|(start, end, by)| {
            start < end && (by.is_some() || !(masked_before && mask::covers(text, *start, *end)))
        });
        if spans.is_empty() {
            return None;
        }
        spans.sort_by_key(|(start, end, by)| (*start, std::cmp::Reverse(*end), by.is_some()));
        let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
        for span in spans {
            match merged.last_mut() {
                // What lies within a replaced part has been looked at when it was replaced.
                Some(last) if span.1 <= last.1 => {}
                Some(last) if span.0 < last.1 => *last = (last.0, span.1, None),
                _ => merged.push(span),
            }
        }
        let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
        for (start, end, by) in merged {
            out.push_str(&text[copied..start]);
            out.push_str(&by.unwrap_or_else(|| self.mask.of(&text.as_bytes()[start..end])));
            copied = end;
        }
        out.push_str(&text[copied..]);
        (out != text).then_some(out)
    }
}

pub(super) fn groups(regex: &Regex, text: &str, spans: &mut Vec<Span>) {
    for found in regex.captures_iter(text) {
        let part = found.iter().skip(1).flatten().next().or_else(|| found.get(0));
        spans.extend(part.map(|part| (part.start(), part.end(), None)));
    }
}

/// Of the blocks of PEM those that anybody may read, by the ends of their labels; all others are masked.
const READABLE: &[&str] = &[
    "CERTIFICATE",
    "CERTIFICATE REQUEST",
    "PUBLIC KEY",
    "PUBLIC KEY BLOCK",
    "X509 CRL",
    "DH PARAMETERS",
    "EC PARAMETERS",
    "DSA PARAMETERS",
    "SIGNATURE",
    "SIGNED MESSAGE",
];

/// A label longer than this is none.
const LABEL: usize = 64;

fn holds_key(label: &str) -> bool {
    let is_label = (1..=LABEL).contains(&label.len()) && !label.contains('\n');
    label.contains("PRIVATE KEY") || (is_label && !READABLE.iter().any(|end| label.ends_with(end)))
}

/// Blocks of keys, from their first line to their last; to the end of the text when that is missing.
pub(super) fn key_blocks(text: &str, spans: &mut Vec<Span>) {
    let mut from = 0;
    while let Some(start) = text[from..].find("-----BEGIN ").map(|at| from + at) {
        let header = start + 11;
        let Some(dashes) = text[header..].find("-----").map(|at| header + at) else {
            // A header that never ends: a cut text.
            if text[header..].contains("PRIVATE") {
                spans.push((start, text.len(), None));
            }
            return;
        };
        let label = &text[header..dashes];
        from = dashes + 5;
        if holds_key(label) {
            let end = text[from..].find("-----END").map_or(text.len(), |at| {
                let closing = from + at + 8;
                text[closing..].find("-----").map_or(text.len(), |at| closing + at + 5)
            });
            spans.push((start, end, None));
            from = end;
        }
    }
}
