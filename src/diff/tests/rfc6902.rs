//! The patch type that events carry reads, applies and refuses what RFC 6902 says.
//!
//! The cases are our own: one for each example in the RFC's appendix A, under its number, then the rules of its
//! sections 3 to 5 and of RFC 6901 that the examples leave out.

use json_patch::Patch;
use serde_json::json;

use super::*;

/// `None` when the text is no patch or does not apply.
fn apply(document: &Value, patch: &Value) -> Option<Value> {
    let patch: Patch = serde_json::from_str(&patch.to_string()).ok()?;
    let mut document = document.clone();
    json_patch::patch(&mut document, &patch).ok()?;
    Some(document)
}

fn gives(cases: &[(&str, Value, Value, Value)]) {
    for (name, document, patch, expected) in cases {
        assert_eq!(apply(document, patch).as_ref(), Some(expected), "{name}");
        // What we make of the same pair of documents leads to the same place.
        checked(document, expected, &Keys::default());
    }
}

fn refused(cases: &[(&str, Value, Value)]) {
    for (name, document, patch) in cases {
        assert_eq!(apply(document, patch), None, "{name}");
    }
}

#[test]
fn the_examples_of_the_appendix_give_what_it_says() {
    gives(&[
        ("A.1", json!({"x": 1}), json!([{"op": "add", "path": "/y", "value": 2}]), json!({"x": 1, "y": 2})),
        (
            "A.2",
            json!({"l": ["a", "c"]}),
            json!([{"op": "add", "path": "/l/1", "value": "b"}]),
            json!({"l": ["a", "b", "c"]}),
        ),
        ("A.3", json!({"x": 1, "y": 2}), json!([{"op": "remove", "path": "/x"}]), json!({"y": 2})),
        ("A.4", json!({"l": ["a", "b", "c"]}), json!([{"op": "remove", "path": "/l/1"}]), json!({"l": ["a", "c"]})),
        ("A.5", json!({"x": 1, "y": 2}), json!([{"op": "replace", "path": "/x", "value": 3}]), json!({"x": 3, "y": 2})),
        (
            "A.6",
            json!({"a": {"x": 1, "y": 2}, "b": {"z": 3}}),
            json!([{"op": "move", "from": "/a/y", "path": "/b/w"}]),
            json!({"a": {"x": 1}, "b": {"z": 3, "w": 2}}),
        ),
        (
            "A.7",
            json!({"l": ["a", "d", "b", "c"]}),
            json!([{"op": "move", "from": "/l/1", "path": "/l/3"}]),
            json!({"l": ["a", "b", "c", "d"]}),
        ),
        (
            "A.8",
            json!({"x": 1, "l": ["a", 2]}),
            json!([{"op": "test", "path": "/x", "value": 1}, {"op": "test", "path": "/l/1", "value": 2}]),
            json!({"x": 1, "l": ["a", 2]}),
        ),
        (
            "A.10",
            json!({"x": 1}),
            json!([{"op": "add", "path": "/below", "value": {"deeper": {}}}]),
            json!({"x": 1, "below": {"deeper": {}}}),
        ),
        (
            "A.11",
            json!({"x": 1}),
            json!([{"op": "add", "path": "/y", "value": 2, "unknown": 3}]),
            json!({"x": 1, "y": 2}),
        ),
        (
            "A.14",
            json!({"/": 9, "~1": 10}),
            json!([{"op": "test", "path": "/~01", "value": 10}]),
            json!({"/": 9, "~1": 10}),
        ),
        (
            "A.16",
            json!({"l": ["a"]}),
            json!([{"op": "add", "path": "/l/-", "value": ["b", "c"]}]),
            json!({"l": ["a", ["b", "c"]]}),
        ),
    ]);
    refused(&[
        ("A.9", json!({"x": "a"}), json!([{"op": "test", "path": "/x", "value": "b"}])),
        ("A.12", json!({"x": 1}), json!([{"op": "add", "path": "/y/z", "value": 2}])),
        ("A.15", json!({"/": 9, "~1": 10}), json!([{"op": "test", "path": "/~01", "value": "10"}])),
    ]);
    // A.13 has the member `op` twice.
    assert!(serde_json::from_str::<Patch>(r#"[{"op":"add","path":"/x","value":1,"op":"remove"}]"#).is_err());
}

#[test]
fn every_operation_works_on_the_root_on_members_and_on_items() {
    gives(&[
        ("no operations", json!({"x": 1}), json!([]), json!({"x": 1})),
        ("add at the root", json!({"x": 1}), json!([{"op": "add", "path": "", "value": [2]}]), json!([2])),
        ("replace the root", json!({"x": 1}), json!([{"op": "replace", "path": "", "value": null}]), json!(null)),
        ("test the root", json!([1]), json!([{"op": "test", "path": "", "value": [1]}]), json!([1])),
        ("add over a member", json!({"x": 1}), json!([{"op": "add", "path": "/x", "value": 2}]), json!({"x": 2})),
        ("add null", json!({}), json!([{"op": "add", "path": "/x", "value": null}]), json!({"x": null})),
        (
            "replace by null",
            json!({"x": 1}),
            json!([{"op": "replace", "path": "/x", "value": null}]),
            json!({"x": null}),
        ),
        ("add at the front", json!([1]), json!([{"op": "add", "path": "/0", "value": 0}]), json!([0, 1])),
        ("add at the end by index", json!([1]), json!([{"op": "add", "path": "/1", "value": 2}]), json!([1, 2])),
        ("replace an item", json!([1, 2]), json!([{"op": "replace", "path": "/1", "value": [3]}]), json!([1, [3]])),
        ("remove the only item", json!([1]), json!([{"op": "remove", "path": "/0"}]), json!([])),
        (
            "copy a member",
            json!({"x": [1]}),
            json!([{"op": "copy", "from": "/x", "path": "/y"}]),
            json!({"x": [1], "y": [1]}),
        ),
        ("copy an item", json!([1, 2]), json!([{"op": "copy", "from": "/1", "path": "/0"}]), json!([2, 1, 2])),
        ("move onto itself", json!({"x": 1}), json!([{"op": "move", "from": "/x", "path": "/x"}]), json!({"x": 1})),
        (
            "move over a member",
            json!({"x": 1, "y": 2}),
            json!([{"op": "move", "from": "/x", "path": "/y"}]),
            json!({"y": 1}),
        ),
        (
            "move an item out",
            json!({"l": [1, 2]}),
            json!([{"op": "move", "from": "/l/0", "path": "/x"}]),
            json!({"l": [2], "x": 1}),
        ),
        (
            "move to an index that begins alike",
            json!([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
            json!([{"op": "move", "from": "/1", "path": "/10"}]),
            json!([0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1]),
        ),
        (
            "one after the other",
            json!([1, 2, 3]),
            json!([{"op": "remove", "path": "/0"}, {"op": "remove", "path": "/0"}]),
            json!([3]),
        ),
        (
            "test an object in another order",
            json!({"o": {"a": 1, "b": 2}}),
            json!([{"op": "test", "path": "/o", "value": {"b": 2, "a": 1}}]),
            json!({"o": {"a": 1, "b": 2}}),
        ),
        ("test null", json!({"x": null}), json!([{"op": "test", "path": "/x", "value": null}]), json!({"x": null})),
    ]);
}

#[test]
fn pointers_reach_every_name() {
    gives(&[
        ("the empty name", json!({"": 1}), json!([{"op": "replace", "path": "/", "value": 2}]), json!({"": 2})),
        ("the empty name twice", json!({"": {"": 1}}), json!([{"op": "remove", "path": "//"}]), json!({"": {}})),
        ("a slash", json!({"a/b": 1}), json!([{"op": "remove", "path": "/a~1b"}]), json!({})),
        ("a tilde", json!({"m~n": 1}), json!([{"op": "remove", "path": "/m~0n"}]), json!({})),
        ("a tilde and a one", json!({"~1": 1, "/": 2}), json!([{"op": "remove", "path": "/~01"}]), json!({"/": 2})),
        ("digits of an object", json!({"0": 1, "01": 2}), json!([{"op": "remove", "path": "/01"}]), json!({"0": 1})),
        ("a dash of an object", json!({"-": 1}), json!([{"op": "replace", "path": "/-", "value": 2}]), json!({"-": 2})),
        ("quotes, spaces, unicode", json!({"\"é \\": 1}), json!([{"op": "remove", "path": "/\"é \\"}]), json!({})),
        (
            "percent and hash stay as they are",
            json!({"a%20#": 1}),
            json!([{"op": "remove", "path": "/a%20#"}]),
            json!({}),
        ),
    ]);
}

#[test]
fn what_is_not_there_or_not_allowed_is_refused() {
    refused(&[
        ("remove what is not there", json!({"x": 1}), json!([{"op": "remove", "path": "/y"}])),
        ("replace what is not there", json!({"x": 1}), json!([{"op": "replace", "path": "/y", "value": 1}])),
        ("replace beyond the end", json!([1]), json!([{"op": "replace", "path": "/1", "value": 1}])),
        ("remove beyond the end", json!([1]), json!([{"op": "remove", "path": "/1"}])),
        ("add beyond the end", json!([1]), json!([{"op": "add", "path": "/2", "value": 1}])),
        ("add below a number", json!({"x": 1}), json!([{"op": "add", "path": "/x/y", "value": 1}])),
        ("test what is not there", json!({}), json!([{"op": "test", "path": "/x", "value": null}])),
        ("copy what is not there", json!({}), json!([{"op": "copy", "from": "/x", "path": "/y"}])),
        ("move what is not there", json!({}), json!([{"op": "move", "from": "/x", "path": "/y"}])),
        ("move into itself", json!({"x": {"y": 1}}), json!([{"op": "move", "from": "/x", "path": "/x/y"}])),
        ("an index with a zero before it", json!([1, 2]), json!([{"op": "remove", "path": "/01"}])),
        ("an index with a sign", json!([1, 2]), json!([{"op": "remove", "path": "/+1"}])),
        ("a negative index", json!([1, 2]), json!([{"op": "remove", "path": "/-1"}])),
        ("an index in another notation", json!([1, 2]), json!([{"op": "remove", "path": "/1e0"}])),
        ("a name in a list", json!([1, 2]), json!([{"op": "add", "path": "/x", "value": 1}])),
        ("a number is not its text", json!({"x": 1}), json!([{"op": "test", "path": "/x", "value": "1"}])),
        ("no operation", json!({}), json!([{"path": "/x", "value": 1}])),
        ("an unknown operation", json!({}), json!([{"op": "spam", "path": "/x", "value": 1}])),
        ("an operation in capitals", json!({}), json!([{"op": "ADD", "path": "/x", "value": 1}])),
        ("add without a path", json!({}), json!([{"op": "add", "value": 1}])),
        ("add without a value", json!({}), json!([{"op": "add", "path": "/x"}])),
        ("replace without a value", json!({"x": 1}), json!([{"op": "replace", "path": "/x"}])),
        ("test without a value", json!({"x": null}), json!([{"op": "test", "path": "/x"}])),
        ("move without from", json!({"x": 1}), json!([{"op": "move", "path": "/y"}])),
        ("copy without from", json!({"x": 1}), json!([{"op": "copy", "path": "/y"}])),
        ("a path without a slash", json!({"x": 1}), json!([{"op": "remove", "path": "x"}])),
        ("a path that is no text", json!({"x": 1}), json!([{"op": "remove", "path": 1}])),
        ("an escape that is none", json!({"~2": 1}), json!([{"op": "remove", "path": "/~2"}])),
        ("no list of operations", json!({}), json!({"op": "add", "path": "/x", "value": 1})),
    ]);
}

#[test]
fn a_patch_that_fails_leaves_the_document_as_it_was() {
    let before = json!({"l": [1, 2], "x": 1});
    let patch: Patch = serde_json::from_value(json!([
        {"op": "remove", "path": "/l/0"},
        {"op": "replace", "path": "/x", "value": 2},
        {"op": "test", "path": "/x", "value": 3},
    ]))
    .unwrap();
    let mut document = before.clone();
    assert!(json_patch::patch(&mut document, &patch).is_err());
    assert_eq!(document, before);
}

#[test]
fn a_patch_keeps_its_text() {
    let text = r#"[{"op":"add","path":"/a~1b","value":{"x":[1.0,null]}},{"op":"move","from":"/x","path":"/y"},{"op":"remove","path":""}]"#;
    let patch: Patch = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&patch).unwrap(), text);
}
