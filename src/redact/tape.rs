//! JSON text as a flat list of tokens that point into it. Parsing copies nothing and knows no depth limit (it keeps its
//! own stack), so that even an object that serde_json would refuse can be looked at.

use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    True,
    False,
    Number,
    String,
    Array,
    Object,
}

/// What becomes of a token when the tape is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Keep,
    /// Left out, with its key.
    Drop,
    /// Printed as the string at this place of [`Tape::edits`].
    Edit(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    /// The bytes of the value; of a string those between its quotes.
    pub(super) start: u32,
    pub(super) end: u32,
    /// The token after this one and all that it holds.
    pub(super) next: u32,
    pub(super) kind: Kind,
    /// A string that holds a backslash.
    pub(super) escaped: bool,
    /// A string whose escapes are the ones that serde_json would write.
    pub(super) canonical: bool,
    pub(super) fate: Fate,
}

/// An object is its token, then key, value, key, value ...; a key is a string token. An array is its token, then its
/// items.
#[derive(Debug)]
pub(super) struct Tape<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: Vec<Token>,
    pub(super) edits: Vec<String>,
    /// How deep arrays and objects are nested; 0 for a scalar.
    pub(super) depth: usize,
}

/// Not JSON, seen at this byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) usize);

#[derive(Clone, Copy)]
enum Expect {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    CommaOrEnd,
}

impl<'a> Tape<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, Malformed> {
        let bytes = text.as_bytes();
        if u32::try_from(bytes.len()).is_err() {
            return Err(Malformed(0));
        }
        let mut tokens: Vec<Token> = Vec::with_capacity(bytes.len() / 7 + 4);
        let mut open: Vec<u32> = Vec::with_capacity(16);
        let (mut depth, mut pos, mut expect) = (0, 0, Expect::Value);
        loop {
            while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(pos) {
                pos += 1;
            }
            let Some(&byte) = bytes.get(pos) else { break };
            match expect {
                Expect::Key | Expect::KeyOrEnd if byte == b'"' => {
                    pos = string(bytes, pos, &mut tokens)?;
                    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(pos) {
                        pos += 1;
                    }
                    if bytes.get(pos) != Some(&b':') {
                        return Err(Malformed(pos));
                    }
                    pos += 1;
                    expect = Expect::Value;
                }
                Expect::KeyOrEnd if byte == b'}' => {
                    pos += 1;
                    close(&mut tokens, &mut open, pos);
                    expect = Expect::CommaOrEnd;
                }
                Expect::ValueOrEnd if byte == b']' => {
                    pos += 1;
                    close(&mut tokens, &mut open, pos);
                    expect = Expect::CommaOrEnd;
                }
                Expect::Value | Expect::ValueOrEnd => {
                    expect = Expect::CommaOrEnd;
                    match byte {
                        b'"' => pos = string(bytes, pos, &mut tokens)?,
                        b'{' | b'[' => {
                            open.push(tokens.len() as u32);
                            depth = depth.max(open.len());
                            let kind = if byte == b'{' { Kind::Object } else { Kind::Array };
                            push(&mut tokens, kind, pos, pos + 1, false);
                            pos += 1;
                            expect = if byte == b'{' { Expect::KeyOrEnd } else { Expect::ValueOrEnd };
                        }
                        b't' if bytes[pos..].starts_with(b"true") => {
                            push(&mut tokens, Kind::True, pos, pos + 4, false);
                            pos += 4;
                        }
                        b'f' if bytes[pos..].starts_with(b"false") => {
                            push(&mut tokens, Kind::False, pos, pos + 5, false);
                            pos += 5;
                        }
                        b'n' if bytes[pos..].starts_with(b"null") => {
                            push(&mut tokens, Kind::Null, pos, pos + 4, false);
                            pos += 4;
                        }
                        b'-' | b'0'..=b'9' => {
                            let end = number(bytes, pos)?;
                            push(&mut tokens, Kind::Number, pos, end, false);
                            pos = end;
                        }
                        _ => return Err(Malformed(pos)),
                    }
                }
                Expect::CommaOrEnd => {
                    let Some(&container) = open.last() else { return Err(Malformed(pos)) };
                    let object = tokens[container as usize].kind == Kind::Object;
                    match byte {
                        b',' => expect = if object { Expect::Key } else { Expect::Value },
                        b'}' if object => close(&mut tokens, &mut open, pos + 1),
                        b']' if !object => close(&mut tokens, &mut open, pos + 1),
                        _ => return Err(Malformed(pos)),
                    }
                    pos += 1;
                }
                Expect::Key | Expect::KeyOrEnd => return Err(Malformed(pos)),
            }
        }
        if tokens.is_empty() || !open.is_empty() || !matches!(expect, Expect::CommaOrEnd) {
            return Err(Malformed(pos));
        }
        Ok(Self { text, tokens, edits: Vec::new(), depth })
    }

    #[inline]
    pub(super) fn kind(&self, at: usize) -> Kind {
        self.tokens[at].kind
    }

    #[inline]
    pub(super) fn next(&self, at: usize) -> usize {
        self.tokens[at].next as usize
    }

    /// The bytes of a token as they stand in the text; of a string, what is between its quotes.
    #[inline]
    pub(super) fn raw(&self, at: usize) -> &'a str {
        let token = &self.tokens[at];
        &self.text[token.start as usize..token.end as usize]
    }

    /// A string or key, unescaped. What is half a surrogate pair becomes U+FFFD.
    #[inline]
    pub(super) fn string(&self, at: usize) -> Cow<'a, str> {
        let raw = self.raw(at);
        if self.tokens[at].escaped { Cow::Owned(unescape(raw)) } else { Cow::Borrowed(raw) }
    }

    /// The keys and values of an object as places on the tape; nothing for any other token.
    #[inline]
    pub(super) fn fields(&self, at: usize) -> Fields<'_> {
        let end = if self.kind(at) == Kind::Object { self.next(at) } else { at };
        Fields { tokens: &self.tokens, at: at + 1, end }
    }

    /// The value of an object's field; the last one when the key is there twice, as serde_json reads it.
    pub(super) fn get(&self, at: usize, key: &str) -> Option<usize> {
        let mut found = None;
        for (name, value) in self.fields(at) {
            if self.raw(name) == key || (self.tokens[name].escaped && self.string(name) == key) {
                found = Some(value);
            }
        }
        found
    }

    pub(super) fn get_string(&self, at: usize, key: &str) -> Option<Cow<'a, str>> {
        self.get(at, key).filter(|&value| self.kind(value) == Kind::String).map(|value| self.string(value))
    }

    pub(super) fn drop_at(&mut self, at: usize) {
        self.tokens[at].fate = Fate::Drop;
    }

    /// A dropped token stays dropped.
    pub(super) fn edit(&mut self, at: usize, text: String) {
        if self.tokens[at].fate != Fate::Drop {
            self.tokens[at].fate = Fate::Edit(self.edits.len() as u32);
            self.edits.push(text);
        }
    }

    /// How deep a value is nested by itself; 0 for a scalar.
    pub(super) fn depth_of(&self, at: usize) -> usize {
        let (mut ends, mut deepest): (Vec<usize>, usize) = (Vec::new(), 0);
        for (i, token) in self.tokens[at..self.next(at)].iter().enumerate() {
            while ends.last().is_some_and(|&end| end <= at + i) {
                ends.pop();
            }
            if matches!(token.kind, Kind::Array | Kind::Object) {
                ends.push(token.next as usize);
                deepest = deepest.max(ends.len());
            }
        }
        deepest
    }
}

pub(super) struct Fields<'t> {
    tokens: &'t [Token],
    at: usize,
    end: usize,
}

impl Iterator for Fields<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        if self.at >= self.end {
            return None;
        }
        let (key, value) = (self.at, self.at + 1);
        self.at = self.tokens[value].next as usize;
        Some((key, value))
    }
}

#[inline]
fn push(tokens: &mut Vec<Token>, kind: Kind, start: usize, end: usize, escaped: bool) {
    let next = tokens.len() as u32 + 1;
    tokens.push(Token { start: start as u32, end: end as u32, next, kind, escaped, canonical: true, fate: Fate::Keep });
}

fn close(tokens: &mut [Token], open: &mut Vec<u32>, pos: usize) {
    let next = tokens.len() as u32;
    if let Some(container) = open.pop() {
        let token = &mut tokens[container as usize];
        token.end = pos as u32;
        token.next = next;
    }
}

/// Reads the string that opens at `pos` and returns the place after its closing quote.
#[inline]
fn string(bytes: &[u8], pos: usize, tokens: &mut Vec<Token>) -> Result<usize, Malformed> {
    let start = pos + 1;
    let (mut at, mut escaped, mut canonical) = (start, false, true);
    loop {
        at = special(bytes, at);
        match bytes.get(at) {
            Some(b'"') => break,
            Some(b'\\') => {
                escaped = true;
                match bytes.get(at + 1) {
                    Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't') => at += 2,
                    Some(b'/') => {
                        canonical = false;
                        at += 2;
                    }
                    Some(b'u') if bytes.len() >= at + 6 && bytes[at + 2..at + 6].iter().all(u8::is_ascii_hexdigit) => {
                        canonical = false;
                        at += 6;
                    }
                    _ => return Err(Malformed(at)),
                }
            }
            _ => return Err(Malformed(at)),
        }
    }
    push(tokens, Kind::String, start, at, escaped);
    if let Some(token) = tokens.last_mut() {
        token.canonical = canonical;
    }
    Ok(at + 1)
}

/// The next quote, backslash or control character, eight bytes at a time.
fn special(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    while let Some(chunk) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        let quote = word ^ (ONES * b'"' as u64);
        let slash = word ^ (ONES * b'\\' as u64);
        let hits = (quote.wrapping_sub(ONES) & !quote)
            | (slash.wrapping_sub(ONES) & !slash)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        let hits = hits & TOPS;
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(&byte) = bytes.get(at) {
        if byte == b'"' || byte == b'\\' || byte < 0x20 {
            break;
        }
        at += 1;
    }
    at
}

fn number(bytes: &[u8], pos: usize) -> Result<usize, Malformed> {
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut at = if bytes[pos] == b'-' { pos + 1 } else { pos };
    let whole = digits(at);
    if whole == 0 || (whole > 1 && bytes[at] == b'0') {
        return Err(Malformed(at));
    }
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if fraction == 0 {
            return Err(Malformed(at));
        }
        at += 1 + fraction;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = bytes.get(at) {
            at += 1;
        }
        let exponent = if at <= bytes.len() { digits(at) } else { 0 };
        if exponent == 0 {
            return Err(Malformed(at));
        }
        at += exponent;
    }
    Ok(at)
}

/// `raw` is a string that the parser has accepted.
#[cold]
fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    loop {
        // Of what `special` stops at, an accepted string holds the backslash alone.
        let at = special(rest.as_bytes(), 0);
        if at == rest.len() {
            break;
        }
        out.push_str(&rest[..at]);
        let escape = rest.as_bytes().get(at + 1).copied().unwrap_or(b'\\');
        rest = rest.get(at + 2..).unwrap_or_default();
        match escape {
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => {
                let first = unit(rest);
                rest = rest.get(4..).unwrap_or_default();
                let pair = (0xd800..0xdc00).contains(&first) && rest.starts_with("\\u");
                let second = if pair { unit(&rest[2..]) } else { 0 };
                if pair && (0xdc00..0xe000).contains(&second) {
                    rest = rest.get(6..).unwrap_or_default();
                    let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                    out.push(char::from_u32(code).unwrap_or('\u{fffd}'));
                } else {
                    out.push(char::from_u32(first).unwrap_or('\u{fffd}'));
                }
            }
            other => out.push(other as char),
        }
    }
    out.push_str(rest);
    out
}

fn unit(hex: &str) -> u32 {
    hex.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0xfffd)
}
