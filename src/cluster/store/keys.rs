//! What of a feed's objects is kept in memory: which there are, at which version, in which row. About 35 bytes each.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use xxhash_rust::xxh3::xxh3_64;

use crate::cluster::Version;

/// An object's key, `namespace/name`, as a 64-bit hash. Two of a million objects share one with a chance of 1 to 37
/// million; every read of a row compares the names, and falls back to looking the object up by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key(u64);

impl Key {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        let mut text = Vec::with_capacity(namespace.len() + name.len() + 1);
        text.extend_from_slice(namespace.as_bytes());
        text.push(b'/');
        text.extend_from_slice(name.as_bytes());
        Self(xxh3_64(&text))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Equal when the versions are.
    pub(super) version: u64,
    pub(super) row: i64,
    /// The list that named it last.
    pub(super) list: u32,
}

/// A version for comparing with [`Entry::version`]: the number itself, or a hash of what is none.
pub(super) fn stamp(version: &Version) -> u64 {
    version.as_str().parse().unwrap_or_else(|_| xxh3_64(version.as_str().as_bytes()))
}

pub(super) type Keys = HashMap<Key, Entry, BuildHasherDefault<AsIs>>;

/// The keys are hashes already.
#[derive(Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
