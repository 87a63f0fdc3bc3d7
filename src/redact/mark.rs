//! The rules for structured values: which tokens of a tape are masked. Names decide first, then what the text of a
//! string looks like ([`super::text`]).

use std::borrow::Cow;

use super::{
    Rules,
    commands::{is_given, is_program, takes_group, takes_password},
    keys::{Group, describes, is_credential, is_key, is_random},
    literals::suspicious,
    mask::is_mask,
    nothing::says_nothing,
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

/// Every value is looked at once, by [`Marker::value`] or by [`Marker::hide`]: what decides between the two is looked for
/// before either. Twice would be twice a level, which no object of a megabyte survives.
impl Marker<'_, '_, '_> {
    /// Marks a value and all that it holds. The caller has made sure that it is not nested too deep for the stack.
    pub(super) fn value(&mut self, at: usize) {
        #[cfg(test)]
        visits::count();
        match self.tape.kind(at) {
            Kind::String => {
                if let Some(masked) = self.rules.text(&self.tape.string(at), self.level) {
                    self.tape.edit(at, masked);
                }
            }
            Kind::Array => self.array(at),
            Kind::Object => self.object(at, None),
            Kind::Number => self.number(at),
            Kind::Null | Kind::True | Kind::False => {}
        }
    }

    /// `under`: what the name that the object stands under makes of its fields.
    fn object(&mut self, at: usize, under: Option<Group>) {
        let mut pair = Pair::default();
        let mut kind = Manifest::Other;
        let end = self.tape.next(at);
        let mut key = at + 1;
        while key < end {
            let value = key + 1;
            self.field(key, value, under, &mut pair, &mut kind);
            key = self.tape.next(value);
        }
        let hidden = pair.name && !pair.is_selector;
        for value in pair.value.into_iter().chain(pair.more) {
            if hidden || (pair.key && !pair.is_selector && self.is_random(value)) {
                self.hide(value, Group::One);
            } else {
                self.value(value);
            }
        }
        if pair.is_remote
            && let Some(name) = self.tape.get(at, "secretKey")
        {
            self.tape.tokens[name].fate = Fate::Keep;
        }
        match kind {
            Manifest::Secret => self.secret_values(at),
            Manifest::Secrets => self.item_values(at),
            Manifest::WebKey => self.web_key_values(at),
            Manifest::Other => {}
        }
    }

    fn field(&mut self, key: usize, value: usize, under: Option<Group>, pair: &mut Pair, kind: &mut Manifest) {
        if self.tape.tokens[value].fate == Fate::Drop {
            return;
        }
        let name = self.tape.string(key);
        let mut later = false;
        match name.as_ref() {
            LAST_APPLIED if self.level == 0 => return self.tape.drop_at(value),
            LAST_APPLIED => return self.hide(value, Group::One),
            "name" | "key" | "header" | "headerName" | "parameterName" | "parameterKey" | "variable" | "Name"
            | "Key" | "ParameterKey"
                if self.tape.kind(value) == Kind::String =>
            {
                let name = self.tape.string(value);
                pair.name |= self.rules.credential(&name);
                pair.key |= is_key(&name);
            }
            "value" | "values" | "parameterValue" | "stringValue" | "default" | "defaultValue" | "Value"
            | "ParameterValue" => later = true,
            "remoteRef" => pair.is_remote = true,
            "kty" => *kind = Manifest::WebKey,
            "operator" | "effect" => pair.is_selector = true,
            "kind" if self.tape.kind(value) == Kind::String => match self.tape.string(value).as_ref() {
                "Secret" => *kind = Manifest::Secret,
                "SecretList" => *kind = Manifest::Secrets,
                _ => {}
            },
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
            self.hide(value, Group::of(&name));
        } else if let Some(group) = under
            && self.hides(value, &name, group)
        {
            self.hide(value, group);
        } else if later {
            pair.add(value);
        } else if suspicious && is_key(&name) && self.is_random(value) {
            self.hide(value, Group::One);
        } else if matches!(name.as_ref(), "image" | "imageID") && self.tape.kind(value) == Kind::String {
            if let Some(masked) = self.rules.image(&self.tape.string(value)) {
                self.tape.edit(value, masked);
            }
        } else {
            self.value(value);
        }
    }

    /// Whether a field that is no credential by its own name is one for standing in an object that is called one.
    fn hides(&self, value: usize, name: &str, group: Group) -> bool {
        match self.tape.kind(value) {
            Kind::Null | Kind::True | Kind::False => false,
            Kind::Object => group == Group::Many && !describes(name, group),
            Kind::Array | Kind::String | Kind::Number => VALUES.contains(&name) || !describes(name, group),
        }
    }

    /// Whether it is a text that nobody has thought up.
    fn is_random(&self, at: usize) -> bool {
        self.tape.kind(at) == Kind::String && is_random(&self.tape.string(at))
    }

    fn array(&mut self, at: usize) {
        let end = self.tape.next(at);
        let mut item = at + 1;
        let is_command = item < end && self.tape.kind(item) == Kind::String && is_program(&self.tape.string(item));
        let mut grouped = item < end && self.tape.kind(item) == Kind::String && takes_group(&self.tape.string(item));
        let mut before: Option<Cow<'_, str>> = None;
        while item < end {
            if self.tape.kind(item) == Kind::String {
                let text = self.tape.string(item);
                grouped = grouped && !takes_password(&text);
                match before.take().map_or(Flag::None, |flag| flag_of(self.rules, &flag)) {
                    Flag::Credential => self.hide(item, Group::One),
                    Flag::UserAndPassword if text.contains(':') => {
                        let (user, password) = text.split_once(':').unwrap_or((&text, ""));
                        // `1000:1000` is a user and a group.
                        if is_given(password) && !grouped && !user.starts_with(|c: char| c.is_ascii_digit()) {
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
        if is_command {
            self.arguments(at);
        }
    }

    /// What the program of a list of arguments makes of those that are not masked yet.
    fn arguments(&mut self, at: usize) {
        let end = self.tape.next(at);
        let (mut items, mut item) = (Vec::new(), at + 1);
        while item < end && self.tape.kind(item) == Kind::String {
            items.push(item);
            item += 1;
        }
        let texts: Vec<Cow<'_, str>> = items.iter().map(|&item| self.tape.string(item)).collect();
        for (which, from) in self.rules.arguments(&texts) {
            if self.tape.tokens[items[which]].fate == Fate::Keep {
                let (before, value) = texts[which].split_at(from);
                let masked = format!("{before}{}", self.rules.mask.of(value.as_bytes()));
                self.tape.edit(items[which], masked);
            }
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

    /// Masks what stands under the name of a credential: text and numbers whole, of an object what it calls its value and
    /// what it does not call by a name that only describes.
    pub(super) fn hide(&mut self, at: usize, group: Group) {
        #[cfg(test)]
        visits::count();
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
                    // What a list holds is one each: `secrets: [{name: db}]`.
                    self.hide(item, Group::One);
                    item = self.tape.next(item);
                }
            }
            Kind::Object => {
                let text = |key: &str| self.tape.get_string(at, key);
                let group = group.narrowed(text);
                self.object(at, Some(group));
            }
            Kind::Null | Kind::True | Kind::False => {}
        }
    }

    /// Masks every value of `data` (base64) and `stringData` of a Secret.
    pub(super) fn secret_values(&mut self, at: usize) {
        self.field_values(at, "data", true);
        self.field_values(at, "stringData", false);
    }

    /// The same of every item of a list of Secrets, which do not say what they are.
    fn item_values(&mut self, at: usize) {
        let lists: Vec<usize> =
            self.tape.fields(at).filter(|&(key, _)| self.tape.string(key) == "items").map(|(_, value)| value).collect();
        for list in lists {
            if self.tape.kind(list) != Kind::Array {
                continue;
            }
            let end = self.tape.next(list);
            let mut item = list + 1;
            while item < end {
                if self.tape.kind(item) == Kind::Object {
                    self.secret_values(item);
                }
                item = self.tape.next(item);
            }
        }
    }

    /// Masks the private parts of a JSON Web Key.
    fn web_key_values(&mut self, at: usize) {
        for part in ["d", "p", "q", "dp", "dq", "qi", "k"] {
            if let Some(value) = self.tape.get(at, part).filter(|&value| self.tape.kind(value) == Kind::String)
                && let Some(masked) = self.rules.whole(&self.tape.string(value))
            {
                self.tape.edit(value, masked);
            }
        }
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
pub(super) const VALUES: &[&str] = &[
    "value", "values", "plain", "plaintext", "plainText", "inline", "inlineString", "literal", "raw", "text",
    "content", "data", "string", "stringValue", "default", "current", "previous", "new", "old",
];

/// `{name: DB_PASSWORD, value: x}`, in any order.
#[derive(Default)]
struct Pair {
    name: bool,
    /// The name is one of a key, which its value may tell to be a credential: see [`is_key`].
    key: bool,
    /// Not looked at yet: what it is, the name may tell.
    value: Option<usize>,
    /// Those of an object that has several.
    more: Vec<usize>,
    /// `{key, operator, values}` is a selector or a toleration.
    is_selector: bool,
    /// `{secretKey, remoteRef}` says where a value comes from, and under which key it goes into a Secret.
    is_remote: bool,
}

impl Pair {
    fn add(&mut self, value: usize) {
        match self.value {
            None => self.value = Some(value),
            Some(_) => self.more.push(value),
        }
    }
}

/// What an object says of itself by its `kind`.
enum Manifest {
    Secret,
    Secrets,
    /// By its `kty`.
    WebKey,
    Other,
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

/// How many values were looked at on this thread, for the test that it is once each.
#[cfg(test)]
pub(super) mod visits {
    use std::cell::Cell;

    thread_local!(static COUNT: Cell<usize> = const { Cell::new(0) });

    pub(super) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    /// How many, since the last time this was asked.
    pub(in super::super) fn take() -> usize {
        COUNT.replace(0)
    }
}
