//! The door itself: one object's bytes in, one [`Document`] or the reason why not out.

use std::{borrow::Cow, collections::BTreeMap, fmt, ops::Deref};

use regex::Regex;

use super::{
    DEPTH, Document, Error, Meta, Owner, Secrets, Section, Settings,
    emit::Emitter,
    managed,
    mark::Marker,
    mask::Mask,
    noise::Paths,
    tape::{Fate, Kind, Malformed, Tape},
    text::Span,
};
use crate::cluster::{Resource, Version};

/// Builds [`Document`]s, and is the only one that does.
#[derive(Debug)]
pub struct Door {
    secrets: Secrets,
    rules: Rules,
    noise: Paths,
    max_bytes: usize,
}

/// What decides on masking.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) mask: Mask,
    patterns: Vec<Regex>,
}

/// Masks what looks like a secret in sentences of a server, which may quote an object: for errors, which end up in logs.
#[derive(Debug)]
pub struct Sentences(Rules);

impl Sentences {
    /// `patterns` as in [`Settings::patterns`]. The masks are of this value alone, so they cannot be compared with those of
    /// documents.
    pub fn new(patterns: &[String]) -> Result<Self, Error> {
        Ok(Self(Rules { mask: Mask::new(&rand::random()), patterns: compiled(patterns)? }))
    }

    pub fn masked(&self, text: &str) -> Said {
        Said(self.0.text(text, 0).unwrap_or_else(|| text.to_owned()).into())
    }
}

impl Default for Sentences {
    /// Without any pattern of the user's.
    fn default() -> Self {
        Self(Rules { mask: Mask::new(&rand::random()), patterns: Vec::new() })
    }
}

/// What a server said, with what looks like a secret masked: what errors hold of it, and so what logs can show.
///
/// ```compile_fail,E0308
/// let quoted: String = std::env::args().collect();
/// kubediff::cluster::source::Error::Forbidden(quoted);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said(Cow<'static, str>);

impl Said {
    /// Words of our own that quote nobody.
    pub(crate) fn own(text: String) -> Self {
        Self(text.into())
    }

    /// The first so many characters of it.
    pub(crate) fn cut(&mut self, chars: usize) {
        if let Some((end, _)) = self.0.char_indices().nth(chars) {
            self.0.to_mut().truncate(end);
        }
    }
}

/// What stands in the program itself is nobody's secret.
impl From<&'static str> for Said {
    fn from(text: &'static str) -> Self {
        Self(text.into())
    }
}

impl Deref for Said {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn compiled(patterns: &[String]) -> Result<Vec<Regex>, Error> {
    let compile = |pattern: &String| {
        let regex = Regex::new(pattern)
            .map_err(|source| Error::Pattern { pattern: pattern.clone(), source: Box::new(source) })?;
        if regex.is_match("") { Err(Error::EmptyPattern { pattern: pattern.clone() }) } else { Ok(regex) }
    };
    patterns.iter().map(compile).collect()
}

/// Why an object did not pass. Texts never hold any of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("not JSON: wrong at byte {at} of {len}")]
    NotJson { at: usize, len: usize },
    #[error("not UTF-8: wrong at byte {at} of {len}")]
    NotText { at: usize, len: usize },
    #[error("not an object with metadata")]
    NoMetadata,
    #[error("no metadata.name")]
    NoName,
}

impl Door {
    /// `key`: of the masks, kept with the ledger. With another key every masked value would seem to have changed.
    pub fn new(settings: &Settings, key: &[u8; 32]) -> Result<Self, Error> {
        Ok(Self {
            secrets: settings.secrets,
            rules: Rules { mask: Mask::new(key), patterns: compiled(&settings.patterns)? },
            noise: Paths::new(settings.noise, &settings.ignore)?,
            max_bytes: settings.max_bytes,
        })
    }

    /// `raw`: the object as the server sent it, in a list or in a watch event; both give the same document.
    pub fn admit(&self, resource: &Resource, raw: &[u8]) -> Result<Document, Refused> {
        let text =
            std::str::from_utf8(raw).map_err(|error| Refused::NotText { at: error.valid_up_to(), len: raw.len() })?;
        let mut tape = Tape::parse(text).map_err(|Malformed(at)| Refused::NotJson { at, len: raw.len() })?;
        let metadata = tape.get(0, "metadata").filter(|&at| tape.kind(at) == Kind::Object);
        let metadata = metadata.ok_or(Refused::NoMetadata)?;
        let name = tape.get_string(metadata, "name").filter(|name| !name.is_empty()).ok_or(Refused::NoName)?;
        let mut meta = meta(&tape, metadata, name.into_owned());

        let managed_fields = tape.get(metadata, "managedFields");
        drop_fields(&mut tape, metadata, |name| {
            matches!(name, "managedFields" | "resourceVersion" | "generation" | "selfLink")
        });
        let unreadable = self.unreadable(&tape, metadata)?;
        if unreadable.is_some() {
            drop_fields(&mut tape, 0, |name| name != "metadata");
        }
        self.drop_payload(&mut tape, resource, metadata);
        self.noise.drop_from(&mut tape, resource, metadata);
        let mut marker = Marker { rules: &self.rules, tape: &mut tape, level: 0 };
        marker.value(0);
        match resource.kind.as_str() {
            "Secret" => marker.secret_values(0),
            "ConfigMap" => marker.field_values(0, "binaryData", true),
            _ => {}
        }
        for field in ["name", "namespace", "uid"] {
            if let Some(at) = tape.get(metadata, field) {
                tape.tokens[at].fate = Fate::Keep;
            }
        }
        meta.labels = labels(&tape, metadata);

        let sections = sections(&tape, resource, metadata, unreadable.as_deref());
        let managed_fields = managed::fields(&self.rules, &tape, managed_fields);
        Ok(Document { meta, sections, managed_fields })
    }

    /// Why nothing but the metadata of an object can be kept, with a mask of the rest, so that its changes show.
    fn unreadable(&self, tape: &Tape<'_>, metadata: usize) -> Result<Option<String>, Refused> {
        let reason = if tape.text.len() > self.max_bytes {
            format!("larger than {} bytes", self.max_bytes)
        } else if tape.depth > DEPTH {
            let kept = |&(_, value): &(usize, usize)| tape.tokens[value].fate != Fate::Drop;
            if tape.fields(metadata).filter(kept).any(|(_, value)| tape.depth_of(value) + 2 > DEPTH) {
                return Err(Refused::NoMetadata);
            }
            if !tape.fields(0).any(|(_, value)| value != metadata && tape.depth_of(value) + 1 > DEPTH) {
                return Ok(None);
            }
            "nested too deep".to_owned()
        } else {
            return Ok(None);
        };
        let mut rest = Vec::new();
        for (key, value) in tape.fields(0) {
            if !matches!(tape.string(key).as_ref(), "metadata" | "apiVersion" | "kind") {
                rest.extend_from_slice(tape.raw(key).as_bytes());
                rest.extend_from_slice(tape.raw(value).as_bytes());
            }
        }
        Ok(Some(format!("masked: {reason} ({})", self.rules.mask.of(&rest))))
    }

    /// Leaves out what is not kept of Secrets at all, and what Helm stores of its releases.
    fn drop_payload(&self, tape: &mut Tape<'_>, resource: &Resource, metadata: usize) {
        let secret = resource.kind == "Secret" && resource.group.is_empty();
        if secret && self.secrets != Secrets::Hash {
            return drop_fields(tape, 0, |name| name != "metadata");
        }
        let stores_releases = secret || (resource.kind == "ConfigMap" && resource.group.is_empty());
        if stores_releases && is_helm_release(tape, metadata) {
            drop_fields(tape, 0, |name| !matches!(name, "metadata" | "type"));
            drop_fields(tape, metadata, |name| name == "annotations");
        }
    }
}

impl Rules {
    pub(super) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    pub(super) fn own_key(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.is_match(name))
    }

    /// A text with what the user's patterns match masked; `None` when none does.
    pub(super) fn own(&self, text: &str) -> Option<String> {
        if self.patterns.is_empty() {
            return None;
        }
        let mut spans = Vec::new();
        self.own_spans(text, &mut spans);
        self.splice(text, spans)
    }

    pub(super) fn own_spans(&self, text: &str, spans: &mut Vec<Span>) {
        for pattern in &self.patterns {
            for found in pattern.captures_iter(text) {
                let part = found.iter().skip(1).flatten().next().or_else(|| found.get(0));
                spans.extend(part.map(|part| (part.start(), part.end(), None)));
            }
        }
    }
}

fn drop_fields(tape: &mut Tape<'_>, at: usize, which: impl Fn(&str) -> bool) {
    let (mut key, end) = (at + 1, tape.next(at));
    while key < end {
        if which(&tape.string(key)) {
            tape.drop_at(key + 1);
        }
        key = tape.next(key + 1);
    }
}

/// Secrets of type helm.sh/release.v1, and the ConfigMaps that Helm can be told to use instead, which it knows by their
/// name and a label. The label alone is anybody's: what has it and is no release keeps its data.
fn is_helm_release(tape: &Tape<'_>, metadata: usize) -> bool {
    let helm_type = tape.get_string(0, "type").is_some_and(|kind| kind.starts_with("helm.sh/release"));
    let named = tape.get_string(metadata, "name").is_some_and(|name| name.starts_with("sh.helm.release.v1."));
    let label = |name| tape.get(metadata, "labels").and_then(|labels| tape.get_string(labels, name));
    helm_type
        || (named && label("owner").is_some_and(|owner| owner == "helm"))
        || label("OWNER").is_some_and(|owner| owner == "TILLER")
}

fn meta(tape: &Tape<'_>, metadata: usize, name: String) -> Meta {
    let text = |field| tape.get_string(metadata, field).unwrap_or_default();
    let time = |field| tape.get_string(metadata, field).and_then(|time| time.parse().ok());
    let generation = tape.get(metadata, "generation").and_then(|at| tape.raw(at).parse().ok());
    let mut owners = Vec::new();
    if let Some(list) = tape.get(metadata, "ownerReferences").filter(|&at| tape.kind(at) == Kind::Array) {
        let (mut at, end) = (list + 1, tape.next(list));
        while at < end {
            let text = |field| tape.get_string(at, field).unwrap_or_default().into_owned();
            owners.push(Owner {
                api_version: text("apiVersion"),
                kind: text("kind"),
                name: text("name"),
                uid: text("uid"),
                controller: tape.get(at, "controller").is_some_and(|at| tape.kind(at) == Kind::True),
            });
            at = tape.next(at);
        }
    }
    Meta {
        uid: text("uid").into_owned(),
        namespace: text("namespace").into_owned(),
        name,
        version: Version(text("resourceVersion").into_owned()),
        generation,
        labels: BTreeMap::new(),
        owners,
        created: time("creationTimestamp"),
        deleting: time("deletionTimestamp"),
    }
}

/// The labels as they are printed.
fn labels(tape: &Tape<'_>, metadata: usize) -> BTreeMap<String, String> {
    let Some(labels) = tape.get(metadata, "labels").filter(|&at| tape.tokens[at].fate == Fate::Keep) else {
        return BTreeMap::new();
    };
    let printed = |at: usize| match tape.tokens[at].fate {
        Fate::Drop => None,
        Fate::Edit(edit) => Some(tape.edits[edit as usize].clone()),
        Fate::Keep => (tape.kind(at) == Kind::String).then(|| tape.string(at).into_owned()),
    };
    tape.fields(labels).filter_map(|(key, value)| Some((printed(key)?, printed(value)?))).collect()
}

fn sections(tape: &Tape<'_>, resource: &Resource, metadata: usize, unreadable: Option<&str>) -> [Section; 3] {
    let mut emitter = Emitter::new(tape, tape.text.len());
    let take = |emitter: &mut Emitter<'_, '_>| {
        let section = Section::new(emitter.out.as_slice());
        emitter.out.clear();
        section
    };
    emitter.value(metadata);
    let metadata = take(&mut emitter);
    let api_version = resource.api_version();
    let known = [("apiVersion", api_version.as_str()), ("kind", &resource.kind)];
    let keys = tape.fields(0).map(|(key, _)| key);
    let body = |&key: &usize| !matches!(tape.string(key).as_ref(), "metadata" | "status" | "apiVersion" | "kind");
    match unreadable {
        None => emitter.object(&known, keys.filter(body)),
        Some(marker) => emitter.object(&[known[0], known[1], ("kubediff", marker)], std::iter::empty()),
    };
    let body = take(&mut emitter);
    if let Some(status) = tape.get(0, "status") {
        emitter.value(status);
    }
    [metadata, body, take(&mut emitter)]
}
