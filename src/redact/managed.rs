//! `metadata.managedFields` as it is kept beside a document. It names fields and holds no values, but for the keys of
//! list items: `k:{"name":"web"}` and `v:"value"`, which are masked by the same rules.

use super::{
    DEPTH, Rules,
    emit::quote,
    tape::{Kind, Tape},
};

/// Names of fields below this length cannot be tokens; nearly all are.
const SHORT: usize = 16;

/// In the server's order, without spaces.
pub(super) fn fields(rules: &Rules, tape: &Tape<'_>, at: Option<usize>) -> Box<[u8]> {
    let Some(at) = at.filter(|&at| tape.kind(at) == Kind::Array) else { return Box::from(*b"[]") };
    let mut out = Vec::with_capacity(tape.raw(at).len());
    let readable = tape.depth <= DEPTH || tape.depth_of(at) <= DEPTH;
    Printer { rules, tape, readable, out: &mut out }.value(at, None);
    out.into()
}

struct Printer<'r, 'a> {
    rules: &'r Rules,
    tape: &'r Tape<'a>,
    /// False: `fieldsV1` is left out, serde_json could not read it back.
    readable: bool,
    out: &'r mut Vec<u8>,
}

impl Printer<'_, '_> {
    /// `under`: the nearest `f:` above. Under the name of a credential the values of a set are masked whole.
    fn value(&mut self, at: usize, under: Option<usize>) {
        match self.tape.kind(at) {
            Kind::Object => {
                self.out.push(b'{');
                let mut first = true;
                for (key, value) in self.tape.fields(at) {
                    if !self.readable && self.tape.raw(key) == "fieldsV1" {
                        continue;
                    }
                    if !first {
                        self.out.push(b',');
                    }
                    first = false;
                    self.key(key, under);
                    self.out.push(b':');
                    let below = if self.tape.raw(key).starts_with("f:") { Some(key) } else { under };
                    self.value(value, below);
                }
                self.out.push(b'}');
            }
            Kind::Array => {
                self.out.push(b'[');
                let (mut item, end) = (at + 1, self.tape.next(at));
                while item < end {
                    if item > at + 1 {
                        self.out.push(b',');
                    }
                    self.value(item, under);
                    item = self.tape.next(item);
                }
                self.out.push(b']');
            }
            Kind::String => self.string(at, |rules, text| rules.text(text, 0)),
            _ => self.out.extend_from_slice(self.tape.raw(at).as_bytes()),
        }
    }

    fn key(&mut self, key: usize, under: Option<usize>) {
        let raw = self.tape.raw(key);
        if raw.starts_with("k:") {
            self.string(key, |rules, text| rules.text(&text[2..], 0).map(|masked| format!("k:{masked}")));
        } else if raw.starts_with("v:") {
            let credential =
                under.is_some_and(|name| self.rules.credential(self.tape.string(name).trim_start_matches("f:")));
            self.string(key, |rules, text| {
                let value = &text[2..];
                let masked = match serde_json::from_str::<String>(value) {
                    Ok(inner) if credential => rules.whole(&inner).map(|mask| format!("\"{mask}\"")),
                    _ => rules.text(value, 0),
                };
                masked.map(|masked| format!("v:{masked}"))
            });
        } else if raw.len() < SHORT {
            self.verbatim(key);
        } else {
            self.string(key, Rules::shape);
        }
    }

    fn string(&mut self, at: usize, masked: impl Fn(&Rules, &str) -> Option<String>) {
        match masked(self.rules, &self.tape.string(at)) {
            Some(masked) => quote(self.out, &masked),
            None => self.verbatim(at),
        }
    }

    fn verbatim(&mut self, at: usize) {
        self.out.push(b'"');
        self.out.extend_from_slice(self.tape.raw(at).as_bytes());
        self.out.push(b'"');
    }
}
