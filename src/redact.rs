//! The only door into the store: an object goes in as the API server's bytes and comes out as a [`Document`], which
//! nothing else can build. Secrets are hashed or masked on the way, noise is left outside. What is compared and told
//! afterwards is made of the [`Contents`] of documents, which nothing else gives.
//!
//! Pure: no I/O, no clock.
//!
//! # What is masked
//! A mask is `hmac:` and 12 hex digits: HMAC-SHA256 of the value under a key that is kept with the ledger. A rotation
//! shows as a change, equal values stay equal, and the value cannot be found by trying without the key.
//!
//! - Every value of a Secret's `data` and `stringData`, taken of the decoded bytes, also of Secrets and lists of them inside
//!   of texts; the names of the keys stay. Of Helm's release objects only what identifies and labels them is left.
//! - `last-applied-configuration` on every kind, which is left out; inside of other texts it is masked.
//! - What stands under the name of a credential, in any kind: fields, `name`/`value` pairs, flags and their arguments,
//!   assignments in files ([`Door`] reads `password: x`, `PASSWORD=x` and their like inside of any text), and the values
//!   in JSON and manifests inside of texts.
//! - In an object or a mapping under such a name, what it does not call by a name that only describes: `passwords:
//!   {alice: x}`, but not `password: {name: db, key: pw}`, which says where it is.
//! - What looks like a credential under any name: private keys, with PEM around them or without, JSON Web Keys, JWTs, tokens
//!   and keys of well-known services, passwords in URLs, authorization headers, password hashes, gzip in base64.
//! - What looks random under the name of a key: `OPENAI_KEY`, but not `SORT_KEY`.
//! - Passwords on the command lines of well-known programs, in scripts and as arguments, and in SQL.
//! - base64, in one line or in many, of a text in which any of that is found.
//!
//! Names of objects, namespaces and uids are never masked: the store knows objects by them.
//!
//! # Limits
//! - Depth 127, what serde_json reads: of an object that is nested deeper only the metadata is kept, the rest is one mask.
//! - [`Settings::max_bytes`]: the same for an object that is larger.
//! - A password without any sign of being one (a bare word under a name such as `foo`) is not found; that is what
//!   [`Settings::patterns`] is for.

mod assign;
mod commands;
mod contents;
mod door;
mod emit;
mod keys;
mod literals;
mod managed;
mod manifest;
mod mapping;
mod mark;
mod mask;
pub mod noise;
mod nothing;
mod packed;
pub(crate) mod pair;
mod sql;
mod tape;
#[cfg(test)]
mod tests;
mod text;
mod url;

use std::{borrow::Cow, collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use xxhash_rust::xxh3::xxh3_64;

use self::door::Rules;
pub use self::{
    contents::Contents,
    door::{Door, Refused, Said, Sentences},
};
use crate::cluster::Version;

/// How deep an object may be nested: serde_json reads no deeper.
const DEPTH: usize = 127;

/// What the door does, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub secrets: Secrets,
    /// Regular expressions. Of a field whose name matches, the value is masked; of a text that matches, the part that
    /// does, or what its first group took.
    pub patterns: Vec<String>,
    pub noise: noise::Profile,
    /// More paths to leave out; see [`noise`] for their form.
    pub ignore: Vec<String>,
    /// Of an object that is larger, only the metadata is kept.
    pub max_bytes: usize,
}

impl Default for Settings {
    /// 8 MiB is more than the API server stores: etcd takes 1.5 MiB by default.
    fn default() -> Self {
        Self {
            secrets: Secrets::default(),
            patterns: Vec::new(),
            noise: noise::Profile::default(),
            ignore: Vec::new(),
            max_bytes: 8 << 20,
        }
    }
}

/// What is kept of Secrets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Secrets {
    /// All but the values, which are hashed.
    #[default]
    Hash,
    /// The metadata alone; the server is asked for no more.
    Metadata,
    /// They are not watched. One that comes all the same is treated as by `Metadata`.
    Off,
}

/// Why a door cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the redaction pattern {pattern:?} is not a regular expression: {source}")]
    Pattern {
        pattern: String,
        #[source]
        source: Box<regex::Error>,
    },
    #[error("the redaction pattern {pattern:?} matches the empty text, it would mask everything")]
    EmptyPattern { pattern: String },
    #[error("the path to ignore {path:?} is wrong: {reason}")]
    Path { path: String, reason: String },
}

/// An object as redaction and the noise profile leave it: kind and apiVersion filled in, without managedFields,
/// resourceVersion and generation (they travel beside it, in [`Meta`] and [`Document::managed_fields`]).
///
/// It is held as three sections of JSON text, so that an update decodes only the ones that changed.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    meta: Meta,
    sections: [Section; 3],
    managed_fields: Box<[u8]>,
}

/// Which part of a document a [`Section`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The `metadata` object.
    Metadata = 0,
    /// An object of every top-level field but `metadata` and `status`: apiVersion, kind, spec, data, rules, ...
    Body = 1,
    /// The `status` value; empty when there is none.
    Status = 2,
}

impl Part {
    pub const ALL: [Self; 3] = [Self::Metadata, Self::Body, Self::Status];
}

/// JSON text, and a hash of it that changes when it does. Keys are sorted and there are no spaces, so that equal values
/// are equal bytes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Section {
    pub json: Box<[u8]>,
    /// xxh3 of `json`; 0 when that is empty.
    pub hash: u64,
}

impl Section {
    pub(crate) fn new(json: impl Into<Box<[u8]>>) -> Self {
        let json = json.into();
        let hash = if json.is_empty() { 0 } else { xxh3_64(&json) };
        Self { json, hash }
    }
}

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x} {}", self.hash, String::from_utf8_lossy(&self.json))
    }
}

/// What the pipeline needs to know of an object without decoding it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    pub uid: String,
    /// `""` for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    pub version: Version,
    pub generation: Option<i64>,
    /// As the document has them: masked where they have to be, without those that are left out as noise.
    pub labels: BTreeMap<String, String>,
    pub owners: Vec<Owner>,
    pub created: Option<Timestamp>,
    pub deleting: Option<Timestamp>,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
}

impl Document {
    /// Brings back what has passed the door once: for the store, and for nothing else.
    pub(crate) fn restore(meta: Meta, sections: [Section; 3], managed_fields: impl Into<Box<[u8]>>) -> Self {
        Self { meta, sections, managed_fields: managed_fields.into() }
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    pub fn section(&self, part: Part) -> &Section {
        &self.sections[part as usize]
    }

    /// `metadata.managedFields` as JSON text, `[]` when there are none.
    pub fn managed_fields(&self) -> &[u8] {
        &self.managed_fields
    }

    /// The whole document as one value, for whoever reads it. What goes on along the way of the data is
    /// [`Document::contents`].
    pub fn value(&self) -> Value {
        self.contents().into_value()
    }

    /// The whole document, for [`crate::diff`] and [`crate::event`].
    pub fn contents(&self) -> Contents {
        self.partial(&Part::ALL)
    }

    /// The top-level fields of these sections alone.
    pub fn partial(&self, parts: &[Part]) -> Contents {
        let mut fields = serde_json::Map::new();
        for &part in parts {
            self.add_fields(part, &mut fields);
        }
        Contents(Value::Object(fields))
    }

    fn add_fields(&self, part: Part, fields: &mut serde_json::Map<String, Value>) {
        let json = &self.section(part).json;
        if json.is_empty() {
            return;
        }
        // The store gives back what the door wrote.
        match (part, pair::value(json).unwrap_or_default()) {
            (Part::Body, Value::Object(body)) => fields.extend(body),
            (Part::Body, _) => {}
            (Part::Metadata, value) => drop(fields.insert("metadata".to_owned(), value)),
            (Part::Status, value) => drop(fields.insert("status".to_owned(), value)),
        }
    }

    /// Both documents with only these sections, for [`crate::diff::marked`]: what is equal in both may be left out, with
    /// a mark in its place.
    pub fn marked(&self, new: &Self, parts: &[Part]) -> (Contents, Contents) {
        let (before, after) = pair::pair(self, new, parts);
        (Contents(before), Contents(after))
    }

    /// The whole document as JSON text with sorted keys.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("meta", &self.meta)
            .field("sections", &self.sections)
            .field("managed_fields", &String::from_utf8_lossy(&self.managed_fields))
            .finish()
    }
}

/// As the whole document, with sorted keys.
impl Serialize for Document {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error;
        let body = &self.section(Part::Body).json;
        let mut fields: BTreeMap<Cow<'_, str>, Cow<'_, RawValue>> = BTreeMap::new();
        let body: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(body).map_err(S::Error::custom)?;
        fields.extend(body.into_iter().map(|(key, value)| (Cow::Owned(key), Cow::Owned(value))));
        for (name, part) in [("metadata", Part::Metadata), ("status", Part::Status)] {
            let json = &self.section(part).json;
            if !json.is_empty() {
                let value: &RawValue = serde_json::from_slice(json).map_err(S::Error::custom)?;
                fields.insert(Cow::Borrowed(name), Cow::Borrowed(value));
            }
        }
        serializer.collect_map(fields)
    }
}

/// Whether a text holds a hash in place of something secret.
pub fn has_mask(text: &str) -> bool {
    text.match_indices(mask::PREFIX).any(|(at, _)| mask::covers(text, at, at + 1))
}
