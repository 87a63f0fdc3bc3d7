//! For arbitrary documents and arbitrary edits: the patch gives the new one, the inverse the old one.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::{super::keys::Schema, *};
use crate::{
    cluster::Resource,
    redact::{self, Door, Part},
};

fn names() -> impl Strategy<Value = String> {
    select(vec![
        "",
        "a",
        "b",
        "name",
        "key",
        "type",
        "port",
        "list",
        "set",
        "~",
        "/",
        "a~1",
        "~0/",
        "-",
        "0",
        "é\u{1F600}",
        "x.y",
    ])
    .prop_map(str::to_owned)
}

fn scalars() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..4).prop_map(Value::from),
        select(vec![0.0, -0.0, 1.0, 0.5, 1e300]).prop_map(Value::from),
        Just(json!(u64::MAX)),
        select(vec!["", "a", "b", "c", "d", "1", "ä\n", "one\ntwo\nthree\n"]).prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        vec(select(vec!["x\n", "y\n", "a longer line of text\n", "z"]), 0..30).prop_map(|lines| lines.concat().into()),
    ]
}

/// Items with a key of few values, so that keys match, repeat and lack.
fn keyed_items() -> impl Strategy<Value = Value> {
    let item = (select(vec!["name", "key", "port"]), 0..12u8, any::<bool>(), scalars(), names()).prop_map(
        |(key, id, as_text, value, name)| {
            let mut item = Map::new();
            item.insert(name, value);
            item.insert(key.to_owned(), if as_text { id.to_string().into() } else { id.into() });
            Value::Object(item)
        },
    );
    let named = (0..12u8, scalars()).prop_map(|(id, value)| json!({"name": format!("n{id}"), "value": value}));
    prop_oneof![vec(item, 0..8), vec(named, 0..16)].prop_map(Value::Array)
}

fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![4 => scalars(), 2 => keyed_items(), 1 => vec(scalars(), 0..14).prop_map(Value::Array)];
    leaf.prop_recursive(4, 60, 8, |inner| {
        prop_oneof![
            1 => vec(inner.clone(), 0..8).prop_map(Value::Array),
            2 => vec((names(), inner), 0..8).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

#[derive(Clone, Debug)]
enum Edit {
    Set(Value),
    Insert(String, Value),
    Remove,
    Duplicate,
    Swap,
    Rotate,
    Reverse,
}

/// An edit, and the way to the place where it happens: at each container one number chooses the child.
fn edits() -> impl Strategy<Value = Vec<(Vec<usize>, Edit)>> {
    let edit = prop_oneof![
        3 => scalars().prop_map(Edit::Set),
        1 => documents().prop_map(Edit::Set),
        3 => (names(), documents()).prop_map(|(name, value)| Edit::Insert(name, value)),
        2 => Just(Edit::Remove),
        1 => Just(Edit::Duplicate),
        2 => Just(Edit::Swap),
        2 => Just(Edit::Rotate),
        1 => Just(Edit::Reverse),
    ];
    vec((vec(0usize..64, 0..5), edit), 0..6)
}

fn apply(value: &mut Value, way: &[usize], edit: &Edit) {
    if let Some((&step, rest)) = way.split_first() {
        let child = match value {
            Value::Array(items) if !items.is_empty() => {
                let at = step % items.len();
                items.get_mut(at)
            }
            Value::Object(members) if !members.is_empty() => {
                let at = step % members.len();
                members.values_mut().nth(at)
            }
            _ => None,
        };
        if let Some(child) = child {
            return apply(child, rest, edit);
        }
    }
    let step = way.first().copied().unwrap_or(1);
    match (edit, value) {
        (Edit::Set(new), value) => *value = new.clone(),
        (Edit::Insert(_, new), Value::Array(items)) => items.insert(step % (items.len() + 1), new.clone()),
        (Edit::Insert(name, new), Value::Object(members)) => {
            members.insert(name.clone(), new.clone());
        }
        (Edit::Remove, Value::Array(items)) if !items.is_empty() => {
            items.remove(step % items.len());
        }
        (Edit::Remove, Value::Object(members)) => {
            if let Some(name) = members.keys().next().cloned() {
                members.remove(&name);
            }
        }
        (Edit::Duplicate, Value::Array(items)) if !items.is_empty() => {
            let at = step % items.len();
            items.insert(at / 2, items[at].clone());
        }
        (Edit::Swap, Value::Array(items)) if !items.is_empty() => {
            let len = items.len();
            items.swap(step % len, (step / 3) % len);
        }
        (Edit::Rotate, Value::Array(items)) if !items.is_empty() => {
            let len = items.len();
            items.rotate_left(step % len);
        }
        (Edit::Reverse, Value::Array(items)) => items.reverse(),
        _ => {}
    }
}

/// Keys for lists that the documents above may have.
fn keys() -> Keys {
    let any = json!({"$ref": "#/components/schemas/any"});
    let list = |extra: Value| {
        let mut list = json!({"type": "array", "items": any});
        list.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        list
    };
    let document = json!({"components": {"schemas": {"any": {
        "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Any"}],
        "properties": {
            "a": any,
            "list": list(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"]})),
            "b": list(json!({"x-kubernetes-patch-merge-key": "key"})),
            "set": list(json!({"x-kubernetes-list-type": "set"})),
        },
        "additionalProperties": any,
    }}}});
    Schema::from_openapi(document.to_string().as_bytes()).unwrap().kind("", "v1", "Any")
}

proptest! {
    #[test]
    fn an_edited_document_is_reached_and_left_again(old in documents(), edits in edits()) {
        let mut new = old.clone();
        for (way, edit) in &edits {
            apply(&mut new, way, edit);
        }
        checked(&old, &new, &Keys::default());
        checked(&old, &new, &keys());
    }

    #[test]
    fn any_two_documents_can_be_compared(old in documents(), new in documents()) {
        checked(&old, &new, &Keys::default());
        checked(&old, &new, &keys());
    }

    #[test]
    fn lists_of_keyed_items_are_reached_and_left_again(old in keyed_items(), new in keyed_items()) {
        checked(&json!({"list": old}), &json!({"list": new}), &keys());
    }

    #[test]
    fn long_lists_with_repeats_are_reached_and_left_again(
        old in vec(0..30u8, 0..80), new in vec(0..30u8, 0..80)
    ) {
        let diff = checked(&json!({"x": old}), &json!({"x": new}), &Keys::default());
        let whole = json!([{"op": "replace", "path": "/x", "value": new}]).to_string();
        prop_assert!(diff.patch.to_string().len() <= whole.len());
    }

    #[test]
    fn shuffled_items_are_only_moved(items in Just((0..12).collect::<Vec<u8>>()).prop_shuffle()) {
        let long = |id: &u8| json!({"name": format!("n{id}"), "text": "x".repeat(400)});
        let sorted: Vec<Value> = (0..12).map(|id| long(&id)).collect();
        let new: Vec<Value> = items.iter().map(long).collect();
        let diff = checked(&json!({"x": sorted}), &json!({"x": new}), &Keys::default());
        prop_assert!(diff.patch.0.iter().all(|op| matches!(op, json_patch::PatchOperation::Move(_))), "{}", diff.patch);
        prop_assert!(diff.changes.iter().all(|change| change.op == super::super::Op::Move));
    }

    /// Marks are short of what they stand for only here: the padding makes most containers worth one.
    #[test]
    fn documents_with_marks_have_the_diff_of_the_whole_ones(
        items in vec((0..5u8, documents()), 0..5), edits in edits()
    ) {
        let item = |(id, inner): &(u8, Value)| {
            json!({"name": format!("n{id}"), "inner": inner, "same": ["x".repeat(60)], "list": [inner, "y".repeat(50)]})
        };
        let old = json!({"containers": items.iter().map(item).collect::<Vec<Value>>(), "replicas": 1});
        let mut new = old.clone();
        for (way, edit) in &edits {
            apply(&mut new, way, edit);
        }
        let door = Door::new(&redact::Settings::default(), &[7; 32]).unwrap();
        let resource = Resource::core("v1", "pods", "Pod");
        let admit = |spec: &Value| {
            let pod = json!({"metadata": {"name": "web"}, "spec": spec});
            door.admit(&resource, pod.to_string().as_bytes()).unwrap()
        };
        let (old, new) = (admit(&old), admit(&new));
        let (before, after) = old.marked(&new, &Part::ALL);
        for keys in [Keys::default(), keys()] {
            let whole = checked(&old.value(), &new.value(), &keys);
            if let Some(marked) = super::super::marked(&before, &after, &keys) {
                prop_assert_eq!(marked.into_inner(), whole);
            }
        }
    }

    #[test]
    fn sections_make_a_patch_for_the_whole(old in documents(), new in documents(), rest in documents()) {
        let diff = super::super::diff(&json!({"spec": old}), &json!({"spec": new}), &keys());
        let mut whole = json!({"spec": old, "status": rest});
        json_patch::patch(&mut whole, &diff.patch).unwrap();
        prop_assert_eq!(whole, json!({"spec": new, "status": rest}));
    }
}
