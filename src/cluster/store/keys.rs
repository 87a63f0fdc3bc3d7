//! What of a feed's objects is kept in memory: which there are, at which version, in which row. About 35 bytes each.

use std::{
    collections::{HashMap, hash_map},
    hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState},
    sync::LazyLock,
};

use xxhash_rust::xxh3::xxh3_64;

use crate::cluster::Version;

/// Another one in each process, so that nobody can look for names that share a hash. Nothing that is stored depends on it.
static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// An object's key, `namespace/name`, as a 64-bit hash. Two of a million objects share one with a chance of 1 to 37
/// million; whoever comes second is kept under its [`Key::second`], and every read of a row compares the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key(u64);

impl Key {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        #[cfg(test)]
        let name = if name.starts_with(TWIN) { TWIN } else { name };
        Self::hash(0, namespace, name)
    }

    /// For when another object has the first.
    pub(super) fn second(namespace: &str, name: &str) -> Self {
        Self::hash(1, namespace, name)
    }

    fn hash(which: u8, namespace: &str, name: &str) -> Self {
        let mut hasher = SECRET.build_hasher();
        hasher.write_u8(which);
        hasher.write(namespace.as_bytes());
        hasher.write_u8(b'/');
        hasher.write(name.as_bytes());
        Self(hasher.finish())
    }
}

/// Names that begin so share a hash: no test can find two that do.
#[cfg(test)]
pub(super) const TWIN: &str = "twin-";

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

/// Adds an object that is not there yet.
pub(super) fn add(keys: &mut Keys, namespace: &str, name: &str, entry: Entry) {
    match keys.entry(Key::new(namespace, name)) {
        hash_map::Entry::Vacant(free) => drop(free.insert(entry)),
        hash_map::Entry::Occupied(_) => drop(keys.insert(Key::second(namespace, name), entry)),
    }
}

/// The keys are hashes already, by themselves or with the number of a feed.
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
        self.0 ^= hash;
    }

    /// The number of a feed.
    fn write_i64(&mut self, number: i64) {
        self.0 ^= number.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
