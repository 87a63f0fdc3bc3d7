//! The public cases of JSON Patch (`tests/fixtures/json-patch-tests`, not ours, under their own copyright) through the patch
//! type that events carry, and the pairs of documents in them through our diff.

use json_patch::Patch;

use super::*;

const FILES: [&str; 2] = [
    include_str!("../../../tests/fixtures/json-patch-tests/tests.json"),
    include_str!("../../../tests/fixtures/json-patch-tests/spec_tests.json"),
];

/// Cases that their authors switched off because a JSON reader cannot tell them: two members of one name.
const UNTELLABLE: [&str; 2] = ["duplicate ops", "A.13 Invalid JSON Patch Document"];

#[test]
fn the_public_cases_of_json_patch_pass() {
    let cases = FILES.iter().flat_map(|file| serde_json::from_str::<Vec<Value>>(file).expect("JSON"));
    let (mut passed, mut failed) = (0, Vec::new());
    for case in cases {
        let comment = case["comment"].as_str().unwrap_or_default();
        if case.get("doc").is_none() || UNTELLABLE.contains(&comment) {
            continue;
        }
        let apply = || -> Option<Value> {
            let patch: Patch = serde_json::from_str(&case["patch"].to_string()).ok()?;
            let mut document = case["doc"].clone();
            json_patch::patch(&mut document, &patch).ok()?;
            Some(document)
        };
        let right = match (apply(), case.get("expected")) {
            (Some(document), Some(expected)) => {
                // What we make of the same two documents leads to the same place, and back.
                checked(&case["doc"], expected, &Keys::default());
                document == *expected
            }
            (Some(_), None) => case.get("error").is_none(),
            (None, _) => case.get("error").is_some(),
        };
        if right { passed += 1 } else { failed.push(case.to_string()) }
    }
    assert!(failed.is_empty(), "{} of {} failed:\n{}", failed.len(), passed + failed.len(), failed.join("\n"));
    assert!(passed >= 93, "{passed}");
}
