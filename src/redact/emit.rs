//! Prints a tape as canonical JSON: no spaces, keys sorted by their bytes, strings escaped as serde_json does it, the
//! tape's edits applied. Equal values are equal bytes, whatever order the server wrote them in.

use std::borrow::Cow;

use super::tape::{Fate, Kind, Tape};

pub(super) struct Emitter<'t, 'a> {
    tape: &'t Tape<'a>,
    pub(super) out: Vec<u8>,
    /// Keys of the objects that are open now, to be sorted; one stack for all of them.
    keys: Vec<Key>,
}

/// A key's place on the tape, and its first bytes as a number: most keys are told apart by those.
#[derive(Clone, Copy)]
struct Key {
    first: u64,
    at: u32,
}

impl<'t, 'a> Emitter<'t, 'a> {
    pub(super) fn new(tape: &'t Tape<'a>, capacity: usize) -> Self {
        Self { tape, out: Vec::with_capacity(capacity), keys: Vec::with_capacity(64) }
    }

    /// Prints a value. False, and nothing is printed, when it is dropped, or is an object of which nothing is left:
    /// an annotation that is left out must not leave `annotations: {}` behind.
    pub(super) fn value(&mut self, at: usize) -> bool {
        let token = &self.tape.tokens[at];
        match token.fate {
            Fate::Drop => return false,
            Fate::Edit(edit) => {
                let tape = self.tape;
                self.string(&tape.edits[edit as usize]);
                return true;
            }
            Fate::Keep => {}
        }
        match token.kind {
            Kind::Null => self.out.extend_from_slice(b"null"),
            Kind::True => self.out.extend_from_slice(b"true"),
            Kind::False => self.out.extend_from_slice(b"false"),
            Kind::Number => self.number(self.tape.raw(at)),
            Kind::String => self.string_at(at),
            Kind::Array => {
                self.out.push(b'[');
                let mut first = true;
                let (mut item, end) = (at + 1, self.tape.next(at));
                while item < end {
                    if self.tape.tokens[item].fate != Fate::Drop {
                        if !first {
                            self.out.push(b',');
                        }
                        first = false;
                        if !self.value(item) {
                            self.out.extend_from_slice(b"{}");
                        }
                    }
                    item = self.tape.next(item);
                }
                self.out.push(b']');
            }
            Kind::Object => return self.object(&[], self.tape.fields(at).map(|(key, _)| key)),
        }
        true
    }

    /// Prints an object of the fields at these keys, and of `more` texts, which must be sorted and none of the fields.
    pub(super) fn object(&mut self, more: &[(&str, &str)], keys: impl Iterator<Item = usize>) -> bool {
        let (tape, from, start) = (self.tape, self.keys.len(), self.out.len());
        self.keys.extend(keys.map(|key| Key { first: first_bytes(tape, key), at: key as u32 }));
        let to = self.keys.len();
        let had_fields = to > from;
        // Sorted, and each key once.
        let ready = self.keys[from..].is_sorted_by(|a, b| compare(tape, *a, *b).is_lt());
        if !ready {
            self.keys[from..].sort_by(|a, b| compare(tape, *a, *b));
        }
        self.out.push(b'{');
        let mut more = more.iter().peekable();
        for i in from..to {
            let Key { at: key, .. } = self.keys[i];
            if !ready && i + 1 < to && compare(tape, self.keys[i], self.keys[i + 1]).is_eq() {
                continue;
            }
            let name = key_text(tape, key);
            while let Some((extra, text)) = more.next_if(|(extra, _)| *extra < name.as_ref()) {
                self.field(start, extra);
                self.string(text);
            }
            let before = self.out.len();
            if tape.tokens[key as usize].escaped || tape.tokens[key as usize].fate != Fate::Keep {
                self.field(start, &name);
            } else {
                if before > start + 1 {
                    self.out.push(b',');
                }
                self.out.push(b'"');
                self.out.extend_from_slice(name.as_bytes());
                self.out.extend_from_slice(b"\":");
            }
            if !self.value(key as usize + 1) {
                self.out.truncate(before);
            }
        }
        for (extra, text) in more {
            self.field(start, extra);
            self.string(text);
        }
        self.keys.truncate(from);
        if had_fields && self.out.len() == start + 1 {
            self.out.truncate(start);
            return false;
        }
        self.out.push(b'}');
        true
    }

    fn field(&mut self, start: usize, name: &str) {
        if self.out.len() > start + 1 {
            self.out.push(b',');
        }
        self.string(name);
        self.out.push(b':');
    }

    fn string_at(&mut self, at: usize) {
        if !self.tape.tokens[at].canonical {
            self.string(&self.tape.string(at));
        } else {
            self.out.push(b'"');
            self.out.extend_from_slice(self.tape.raw(at).as_bytes());
            self.out.push(b'"');
        }
    }

    fn string(&mut self, text: &str) {
        quote(&mut self.out, text);
    }

    /// Short integers stand as they are; all else as serde_json would print it. A number that serde_json cannot hold
    /// is told in words, for the document has to be readable.
    fn number(&mut self, raw: &str) {
        let plain = raw.len() <= 18 && !raw.starts_with("-0") && raw.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        if plain {
            self.out.extend_from_slice(raw.as_bytes());
        } else if let Ok(number) = serde_json::from_str::<serde_json::Number>(raw) {
            self.out.extend_from_slice(number.to_string().as_bytes());
        } else {
            self.out.extend_from_slice(b"\"kubediff: number out of range\"");
        }
    }
}

pub(super) fn quote(out: &mut Vec<u8>, text: &str) {
    // Writing a str into a Vec cannot fail.
    let _ = serde_json::to_writer(out, text);
}

#[inline]
fn compare(tape: &Tape<'_>, a: Key, b: Key) -> std::cmp::Ordering {
    a.first.cmp(&b.first).then_with(|| key_text(tape, a.at).cmp(&key_text(tape, b.at)))
}

/// The first eight bytes of a key as it is printed, with zeros after a short one, in the order of the keys.
#[inline]
fn first_bytes(tape: &Tape<'_>, key: usize) -> u64 {
    let token = &tape.tokens[key];
    let (start, end) = (token.start as usize, token.end as usize);
    if !token.escaped
        && token.fate == Fate::Keep
        && let Some(bytes) = tape.text.as_bytes().get(start..start + 8)
    {
        let word = u64::from_be_bytes(bytes.try_into().unwrap_or_default());
        let beyond = 8usize.saturating_sub(end - start) * 8;
        return if beyond == 64 { 0 } else { word >> beyond << beyond };
    }
    let mut word = [0; 8];
    let text = key_text(tape, key as u32);
    let len = text.len().min(8);
    word[..len].copy_from_slice(&text.as_bytes()[..len]);
    u64::from_be_bytes(word)
}

fn key_text<'t>(tape: &'t Tape<'_>, key: u32) -> Cow<'t, str> {
    match tape.tokens[key as usize].fate {
        Fate::Edit(edit) => Cow::Borrowed(&tape.edits[edit as usize]),
        _ => tape.string(key as usize),
    }
}
