//! Proofs of the diff as a whole: properties over arbitrary documents, a table of real edits, bounds, RFC 6902.

mod bounds;
mod edits;
mod fields;
mod properties;
mod rfc6902;
mod suite;

use serde_json::Value;

use super::{Change, Diff, Keys, diff};

/// Diffs, and checks what holds for every diff.
fn checked(old: &Value, new: &Value, keys: &Keys) -> Diff {
    let diff = diff(old, new, keys);
    let mut there = old.clone();
    json_patch::patch(&mut there, &diff.patch).unwrap_or_else(|error| panic!("{error}\n{old}\n{new}\n{}", diff.patch));
    assert_eq!(&there, new, "from {old} by {}", diff.patch);
    let mut back = new.clone();
    json_patch::patch(&mut back, &diff.inverse)
        .unwrap_or_else(|error| panic!("{error}\n{old}\n{new}\n{}", diff.inverse));
    assert_eq!(&back, old, "back from {new} by {}", diff.inverse);
    assert_eq!(diff.changes.is_empty(), diff.patch.0.is_empty(), "{old} {new}");
    assert_eq!(diff.inverse.0.is_empty(), diff.patch.0.is_empty(), "{old} {new}");
    assert_eq!(diff.patch.0.is_empty(), old == new, "{old} {new}");
    let told = serde_json::to_string(&diff.changes).unwrap();
    let read: Vec<Change> = serde_json::from_str(&told).unwrap();
    assert_eq!(read, diff.changes, "what is stored reads back as it was told");
    diff
}
