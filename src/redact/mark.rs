//! The rules for structured values: which tokens of a tape are masked. Names decide first, then what the text of a
//! string looks like ([`super::text`]).

use std::borrow::Cow;

use super::{
    Rules,
    keys::is_credential,
    literals::suspicious,
    mask::is_mask,
    tape::{Fate, Kind, Tape},
};

pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// JSON inside of strings is followed this far; what is below is masked whole when it looks like anything at all.
pub(super) const LEVELS: u8 = 4;

pub(super) struct Marker<'r, 't, 'a> {
    pub(super) rules: &'r Rules,
    pub(super) tape: &'t mut Tape<'a>,
    /// How many strings this JSON is inside of. A field cannot be dropped out of a string, it is masked there.
    pub(super) level: u8,
}

impl Marker<'_, '_, '_> {
    /// Marks a value and all that it holds. The caller has made sure that it is not nested too deep for the stack.
    pub(super) fn value(&mut self, at: usize) {
        match self.tape.kind(at) {
            Kind::String => {
                if let Some(masked) = self.rules.text(&self.tape.string(at), self.level) {
                    self.tape.edit(at, masked);
                }
            }
            Kind::Array => self.array(at),
            Kind::Object => self.object(at),
            Kind::Number => self.number(at),
            Kind::Null | Kind::True | Kind::False => {}
        }
    }

    fn object(&mut self, at: usize) {
        let mut pair = Pair::default();
        let mut secret = false;
        let end = self.tape.next(at);
        let mut key = at + 1;
        while key < end {
            let value = key + 1;
            self.field(key, value, &mut pair, &mut secret);
            key = self.tape.next(value);
        }
        if let (Some(value), false, true) = (pair.value, pair.is_selector, pair.name) {
            self.hide(value);
        }
        if secret {
            self.secret_values(at);
        }
    }

    fn field(&mut self, key: usize, value: usize, pair: &mut Pair, secret: &mut bool) {
        if self.tape.tokens[value].fate == Fate::Drop {
            return;
        }
        let name = self.tape.string(key);
        match name.as_ref() {
            LAST_APPLIED if self.level == 0 => return self.tape.drop_at(value),
            LAST_APPLIED => return self.hide(value),
            "name" | "key" | "header" | "headerName" | "parameterName" | "parameterKey" | "Name" | "Key" => {
                pair.name |= self.tape.kind(value) == Kind::String && self.rules.credential(&self.tape.string(value));
            }
            "value" | "values" | "parameterValue" | "stringValue" | "defaultValue" | "Value" => {
                pair.value = Some(value);
            }
            "operator" | "effect" => pair.is_selector = true,
            "kind" => *secret |= self.tape.kind(value) == Kind::String && self.tape.string(value) == "Secret",
            _ => {}
        }
        // Looked at once for both questions: names are half of an object.
        let suspicious = suspicious(&name);
        if suspicious
            && name.len() > 8
            && let Some(masked) = self.rules.shape(&name)
        {
            self.tape.edit(key, masked);
        }
        if (suspicious && is_credential(&name)) || self.rules.own_key(&name) {
            self.hide(value);
        } else if matches!(name.as_ref(), "image" | "imageID") && self.tape.kind(value) == Kind::String {
            // `auth:1.2` is an image and assigns nothing.
            if let Some(masked) = self.rules.shape(&self.tape.string(value)) {
                self.tape.edit(value, masked);
            }
        } else {
            self.value(value);
        }
    }

    fn array(&mut self, at: usize) {
        let end = self.tape.next(at);
        let mut item = at + 1;
        let mut before: Option<Cow<'_, str>> = None;
        while item < end {
            if self.tape.kind(item) == Kind::String {
                let text = self.tape.string(item);
                match before.take().map_or(Flag::None, |flag| flag_of(self.rules, &flag)) {
                    Flag::Credential => self.hide(item),
                    Flag::UserAndPassword if text.contains(':') => {
                        let (user, password) = text.split_once(':').unwrap_or((&text, ""));
                        if !password.is_empty() && !is_mask(password) {
                            let masked = format!("{user}:{}", self.rules.mask.of(password.as_bytes()));
                            self.tape.edit(item, masked);
                        }
                    }
                    _ => self.value(item),
                }
                before = text.starts_with('-').then_some(text);
            } else {
                self.value(item);
                before = None;
            }
            item = self.tape.next(item);
        }
    }

    fn number(&mut self, at: usize) {
        if self.rules.has_patterns() {
            let raw = self.tape.raw(at);
            if let Some(masked) = self.rules.own(raw) {
                self.tape.edit(at, masked);
            }
        }
    }

    /// Masks what stands under the name of a credential: text and numbers whole, of an object what it calls its value.
    pub(super) fn hide(&mut self, at: usize) {
        match self.tape.kind(at) {
            Kind::String => {
                let text = self.tape.string(at);
                if let Some(masked) = self.rules.whole(&text) {
                    self.tape.edit(at, masked);
                }
            }
            Kind::Number => {
                let masked = self.rules.mask.of(self.tape.raw(at).as_bytes());
                self.tape.edit(at, masked);
            }
            Kind::Array => {
                let end = self.tape.next(at);
                let mut item = at + 1;
                while item < end {
                    self.hide(item);
                    item = self.tape.next(item);
                }
            }
            Kind::Object => {
                self.value(at);
                let values: Vec<usize> = self
                    .tape
                    .fields(at)
                    .filter(|&(key, value)| {
                        VALUES.contains(&self.tape.raw(key))
                            && matches!(self.tape.kind(value), Kind::String | Kind::Number | Kind::Array)
                    })
                    .map(|(_, value)| value)
                    .collect();
                for value in values {
                    self.hide(value);
                }
            }
            Kind::Null | Kind::True | Kind::False => {}
        }
    }

    /// Masks every value of `data` (base64) and `stringData` of a Secret.
    pub(super) fn secret_values(&mut self, at: usize) {
        self.field_values(at, "data", true);
        self.field_values(at, "stringData", false);
    }

    /// Masks every value of the map in this field; anything else that stands there is masked whole.
    pub(super) fn field_values(&mut self, at: usize, field: &str, base64: bool) {
        let maps: Vec<usize> =
            self.tape.fields(at).filter(|&(key, _)| self.tape.string(key) == field).map(|(_, value)| value).collect();
        for map in maps {
            self.map_values(map, base64);
        }
    }

    fn map_values(&mut self, at: usize, base64: bool) {
        let values: Vec<usize> = match self.tape.kind(at) {
            Kind::Object => self.tape.fields(at).map(|(_, value)| value).collect(),
            Kind::Null => return,
            _ => vec![at],
        };
        for value in values {
            let masked = match self.tape.kind(value) {
                Kind::String if base64 => self.rules.mask.of_base64(&self.tape.string(value)),
                Kind::String if is_mask(self.tape.raw(value)) => continue,
                Kind::String => self.rules.mask.of(self.tape.string(value).as_bytes()),
                Kind::Null => continue,
                _ => self.rules.mask.of(self.tape.raw(value).as_bytes()),
            };
            self.tape.edit(value, masked);
        }
    }
}

/// Names by which an object calls the thing itself: `password: {value: x}`.
#[rustfmt::skip]
const VALUES: &[&str] = &[
    "value", "values", "plain", "plaintext", "plainText", "inline", "inlineString", "literal", "raw", "text",
    "content", "data", "string", "stringValue", "default", "current", "previous", "new", "old",
];

/// `{name: DB_PASSWORD, value: x}`, in any order.
#[derive(Default)]
struct Pair {
    name: bool,
    value: Option<usize>,
    /// `{key, operator, values}` is a selector or a toleration.
    is_selector: bool,
}

enum Flag {
    None,
    Credential,
    UserAndPassword,
}

/// What the argument after this one is.
fn flag_of(rules: &Rules, argument: &str) -> Flag {
    if argument.contains('=') || argument.contains(char::is_whitespace) {
        Flag::None
    } else if matches!(argument, "-u" | "--user" | "--proxy-user") {
        Flag::UserAndPassword
    } else if rules.credential(argument.trim_start_matches('-')) {
        Flag::Credential
    } else {
        Flag::None
    }
}

impl Rules {
    /// Whether this is the name of a credential, by the built-in words or by a pattern of the user's.
    pub(super) fn credential(&self, name: &str) -> bool {
        (suspicious(name) && is_credential(name)) || self.own_key(name)
    }

    /// Masks the whole of a text under the name of a credential.
    pub(super) fn whole(&self, text: &str) -> Option<String> {
        if says_nothing(text) { None } else { Some(self.mask.of(text.as_bytes())) }
    }
}

/// What is no secret under the name of one: nothing, a switch, a mask, or a variable that is put in its place later.
pub(super) fn says_nothing(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || is_mask(text) || matches!(text, "true" | "false" | "null") || is_variable(text)
}

/// `$(NAME)` and `${NAME}`.
pub(super) fn is_variable(text: &str) -> bool {
    let inner = text
        .strip_prefix("$(")
        .and_then(|rest| rest.strip_suffix(')'))
        .or_else(|| text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')));
    inner.is_some_and(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b)))
}
