//! Looks for planted values in bytes, and takes a state file apart down to its last cell.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use regex::bytes::{Regex, RegexBuilder};
use rusqlite::{Connection, OpenFlags, types::ValueRef};
use serde_json::Value;

/// Values that must be nowhere, and where they were.
pub struct Planted {
    /// All that a value can be written as, and the value.
    needles: BTreeMap<String, String>,
    search: Option<Regex>,
    found: BTreeSet<String>,
    looked: usize,
}

impl Planted {
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s String>) -> Self {
        let mut planted = Self { needles: BTreeMap::new(), search: None, found: BTreeSet::new(), looked: 0 };
        secrets.into_iter().for_each(|secret| planted.add(secret));
        planted
    }

    pub fn add(&mut self, secret: &str) {
        let once = Value::from(secret).to_string().trim_matches('"').to_owned();
        let twice = Value::from(once.as_str()).to_string().trim_matches('"').to_owned();
        let mut forms = vec![secret.to_owned(), once, twice];
        // base64, also in the middle of something: without the letters that depend on what is around it.
        for before in 0..3 {
            let packed = BASE64_STANDARD.encode([&vec![0; before], secret.as_bytes()].concat());
            let whole = (before + secret.len()) / 3 * 4;
            let inside = &packed[(before * 8).div_ceil(6)..whole];
            forms.extend((inside.len() >= 8).then(|| inside.to_owned()));
        }
        self.needles.extend(forms.into_iter().map(|form| (form, secret.to_owned())));
        self.search = None;
    }

    pub fn absent(&mut self, place: &str, bytes: &[u8]) {
        let search = self.search.get_or_insert_with(|| {
            let all: Vec<String> = self.needles.keys().map(|needle| regex::escape(needle)).collect();
            RegexBuilder::new(&all.join("|")).unicode(false).size_limit(100 << 20).build().expect("a pattern")
        });
        self.looked += bytes.len();
        for hit in search.find_iter(bytes) {
            let around = &bytes[hit.start().saturating_sub(120)..(hit.end() + 60).min(bytes.len())];
            let secret = &self.needles[&String::from_utf8_lossy(hit.as_bytes()).into_owned()];
            self.found.insert(format!("{secret} in {place}: {}", String::from_utf8_lossy(around)));
        }
    }

    pub fn found(&self) -> &BTreeSet<String> {
        &self.found
    }

    /// Fails the test when anything was found, or nothing was searched.
    pub fn finish(self) {
        assert!(self.looked > 0);
        let shown: Vec<&str> = self.found.iter().map(String::as_str).take(20).collect();
        assert!(shown.is_empty(), "{} times, in {} bytes:\n{}", self.found.len(), self.looked, shown.join("\n"));
    }
}

/// The files of a state as bytes, and every cell of every table: text as it is, frames unpacked.
pub fn state(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut places = Vec::new();
    for end in ["", "-wal", "-shm"] {
        let file = format!("{}{end}", path.display());
        if let Ok(bytes) = std::fs::read(&file) {
            places.push((format!("the file kubediff.db{end}"), bytes));
        }
    }
    assert!(!places.is_empty(), "there is no {}", path.display());
    let file = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("a state file");
    let column = |sql: &str| -> Vec<String> {
        let mut statement = file.prepare(sql).expect("SQL");
        statement.query_map([], |row| row.get(0)).expect("rows").map(|name| name.expect("a name")).collect()
    };
    let mut statement = file.prepare("SELECT bytes FROM dictionaries").expect("SQL");
    let mut dictionaries: Vec<Vec<u8>> =
        statement.query_map([], |row| row.get(0)).expect("rows").map(|bytes| bytes.expect("bytes")).collect();
    // Those of objects are in the file, the one of events in the program.
    dictionaries.push(include_bytes!("../../src/ledger/event.dict").to_vec());
    let (mut objects, mut frames) = (0, 0);
    for table in column("SELECT name FROM sqlite_schema WHERE type = 'table'") {
        let mut statement = file.prepare(&format!("SELECT * FROM \"{table}\"")).expect("SQL");
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut rows = statement.query([]).expect("rows");
        while let Some(row) = rows.next().expect("a row") {
            objects += usize::from(table == "objects");
            for (index, name) in names.iter().enumerate() {
                let place = format!("{table}.{name}");
                match row.get_ref(index).expect("a cell") {
                    ValueRef::Text(text) => places.push((place, text.to_vec())),
                    ValueRef::Blob(bytes) => {
                        if let Some(unpacked) = unpack(bytes, &dictionaries) {
                            frames += 1;
                            places.push((format!("{place}, unpacked"), unpacked));
                        } else {
                            // The tables of the index of words are searched as they are, and so are numbers and JSON
                            // that was too short to be packed.
                            let json = serde_json::from_slice::<serde_json::Value>(bytes).is_ok();
                            let plain = json
                                || ["meta", "dictionaries", "tallies"].contains(&table.as_str())
                                || table.starts_with("search_");
                            assert!(bytes.is_empty() || plain, "{place} is unreadable");
                        }
                        places.push((place, bytes.to_vec()));
                    }
                    _ => {}
                }
            }
        }
    }
    assert!(frames >= objects, "{frames} frames of {objects} objects");
    places
}

/// A zstd frame's contents, by the dictionary that it needs.
fn unpack(frame: &[u8], dictionaries: &[Vec<u8>]) -> Option<Vec<u8>> {
    const LARGEST: usize = 16 << 20;
    let none = zstd::bulk::Decompressor::new().ok().into_iter();
    let by = dictionaries.iter().filter_map(|bytes| zstd::bulk::Decompressor::with_dictionary(bytes).ok());
    none.chain(by)
        .find_map(|mut decompressor| decompressor.decompress(frame, LARGEST).ok())
        .filter(|_| !frame.is_empty())
}
