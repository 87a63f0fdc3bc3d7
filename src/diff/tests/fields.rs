//! What people read: fields, values, line diffs.

use serde_json::json;

use super::{
    super::{Op, keys::Schema},
    *,
};

fn changes(old: &Value, new: &Value) -> Vec<Change> {
    checked(old, new, &Keys::default()).changes
}

fn fields(old: &Value, new: &Value) -> Vec<String> {
    changes(old, new).into_iter().map(|change| change.field).collect()
}

#[test]
fn an_added_container_is_one_change_with_its_value() {
    let web = json!({"name": "web", "image": "nginx"});
    let log = json!({"name": "log", "image": "fluent", "env": [{"name": "A", "value": "1"}]});
    let all = changes(&json!({"containers": [web]}), &json!({"containers": [log, web]}));
    assert_eq!(
        all,
        [Change {
            op: Op::Add,
            path: "/containers/0".into(),
            field: "containers[log]".into(),
            from: None,
            to: Some(log),
            lines: None
        }]
    );
}

#[test]
fn paths_are_of_the_new_document_and_of_the_old_one_for_what_was_removed() {
    let old = json!({"c": [{"name": "a", "x": 1, "gone": true}, {"name": "b", "x": 1, "more": "text that stays"}]});
    let new =
        json!({"c": [{"name": "z"}, {"name": "y"}, {"name": "b", "x": 2, "more": "text that stays", "added": []}]});
    let mut all: Vec<(Op, String, String)> =
        changes(&old, &new).into_iter().map(|change| (change.op, change.path, change.field)).collect();
    all.sort_by(|a, b| a.1.cmp(&b.1));
    let expected = [
        (Op::Remove, "/c/0", "c[a]"),
        (Op::Add, "/c/0", "c[z]"),
        (Op::Add, "/c/1", "c[y]"),
        (Op::Add, "/c/2/added", "c[b].added"),
        (Op::Replace, "/c/2/x", "c[b].x"),
    ];
    assert_eq!(all.len(), expected.len(), "{all:?}");
    for (op, path, field) in expected {
        assert!(all.contains(&(op, path.into(), field.into())), "{op:?} {path} {field} in {all:?}");
    }
    let old =
        json!({"c": [{"name": "a"}, {"name": "b", "gone": 1, "stays": "a text of some length, not to be rewritten"}]});
    let new = json!({"c": [{"name": "b", "stays": "a text of some length, not to be rewritten"}]});
    let all = changes(&old, &new);
    assert_eq!((all[1].op, &*all[1].path), (Op::Remove, "/c/1/gone"));
}

#[test]
fn names_that_are_not_plain_are_quoted() {
    let named = |name: &str| fields(&json!({"m": {name: 1}}), &json!({"m": {name: 2}})).remove(0);
    assert_eq!(named("plain-name_2$"), "m.plain-name_2$");
    assert_eq!(named("example.com/x"), r#"m["example.com/x"]"#);
    assert_eq!(named(""), r#"m[""]"#);
    assert_eq!(named("a b\"]"), r#"m["a b\"]"]"#);
    assert_eq!(fields(&json!({"x.y": {"z": 1}}), &json!({"x.y": {"z": 2}})), [r#"["x.y"].z"#]);
}

#[test]
fn items_are_named_by_their_keys() {
    let item = |key: Value| {
        let with = |value: u8| {
            let mut item = key.clone();
            item["v"] = json!([value, "a text that is longer than the rest of it"]);
            json!({"list": [item, {"other": 1}]})
        };
        fields(&with(1), &with(2)).remove(0)
    };
    // Both items have to have it.
    assert_eq!(item(json!({"name": "web"})), "list[0].v[0]");
    let labelled = |key: Value, value: Value| {
        let with = |v: u8| json!({"list": [{key.as_str().unwrap(): value, "v": v}]});
        fields(&with(1), &with(2)).remove(0)
    };
    assert_eq!(labelled(json!("name"), json!("web")), "list[web].v");
    assert_eq!(labelled(json!("mountPath"), json!("/etc/web")), "list[/etc/web].v");
    assert_eq!(labelled(json!("id"), json!(7)), "list[id=7].v");
    assert_eq!(labelled(json!("name"), json!("7")), "list[name=7].v");
    assert_eq!(labelled(json!("name"), json!("")), r#"list[name=""].v"#);
    assert_eq!(labelled(json!("name"), json!("a b]")), r#"list[name="a b]"].v"#);
    assert_eq!(labelled(json!("name"), json!(["no scalar"])), "list[0].v");
    let ports = |v: u8| json!({"ports": [{"containerPort": 80, "protocol": "TCP", "v": v}]});
    assert_eq!(fields(&ports(1), &ports(2)), ["ports[80/TCP].v"]);
    // As they are written, before the server has filled in the protocol.
    for key in ["containerPort", "port"] {
        let ports = |v: u8| json!({"ports": [{key: 80, "v": v}, {key: 81}]});
        assert_eq!(fields(&ports(1), &ports(2)), [format!("ports[{key}=80].v")]);
    }
}

#[test]
fn a_key_of_the_schema_that_repeats_gives_way_to_the_next() {
    let document = json!({"components": {"schemas": {"K": {
        "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "K"}],
        "properties": {"ports": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["zone"],
            "x-kubernetes-patch-merge-key": "port",
        }},
    }}}});
    let keys = Schema::from_openapi(document.to_string().as_bytes()).unwrap().kind("", "v1", "K");
    let port = |zone: &str, port: u8, v: u8| json!({"zone": zone, "port": port, "v": v});
    let field =
        |old: Value, new: Value| checked(&json!({"ports": old}), &json!({"ports": new}), &keys).changes.remove(0).field;
    assert_eq!(
        field(json!([port("a", 1, 0), port("b", 1, 0)]), json!([port("a", 1, 1), port("b", 1, 0)])),
        "ports[a].v"
    );
    assert_eq!(
        field(json!([port("a", 1, 0), port("a", 2, 0)]), json!([port("a", 1, 1), port("a", 2, 0)])),
        "ports[port=1].v"
    );
    assert_eq!(
        field(json!([port("a", 1, 0), port("a", 1, 0)]), json!([port("a", 1, 1), port("a", 1, 0)])),
        "ports[0].v"
    );
}

#[test]
fn a_moved_item_tells_where_it_was_and_is() {
    let item = |name: &str| json!({"name": name, "text": "x".repeat(100)});
    let all =
        changes(&json!({"c": [item("a"), item("b"), item("c")]}), &json!({"c": [item("c"), item("a"), item("b")]}));
    assert_eq!(
        all,
        [Change {
            op: Op::Move,
            path: "/c/0".into(),
            field: "c[c]".into(),
            from: Some(json!(2)),
            to: Some(json!(0)),
            lines: None
        }]
    );
}

#[test]
fn an_item_in_the_place_of_another_one_is_told_as_one_that_went_and_one_that_came() {
    let item = |name: &str| json!({"name": name, "image": "the same image for both of them"});
    let diff = checked(&json!({"c": [item("a")]}), &json!({"c": [item("b")]}), &Keys::default());
    let told: Vec<(Op, &str)> = diff.changes.iter().map(|change| (change.op, change.field.as_str())).collect();
    assert_eq!(told, [(Op::Remove, "c[a]"), (Op::Add, "c[b]")]);
    assert_eq!(
        serde_json::to_value(&diff.patch).unwrap(),
        json!([{"op": "replace", "path": "/c/0/name", "value": "b"}])
    );
}

#[test]
fn long_texts_have_a_line_diff_and_short_ones_their_values() {
    let old: String = (0..50).map(|n| format!("key{n} = {n}\n")).collect();
    let new = old.replace("key20 = 20\n", "key20 = twenty\n");
    let all = changes(&json!({"data": {"f": old, "s": "a\nb"}}), &json!({"data": {"f": new, "s": "a\nc"}}));
    assert_eq!((all[0].from.as_ref(), all[0].to.as_ref()), (None, None));
    assert_eq!(
        all[0].lines.as_deref(),
        Some("@@ -19,5 +19,5 @@\n key18 = 18\n key19 = 19\n-key20 = 20\n+key20 = twenty\n key21 = 21\n key22 = 22\n")
    );
    assert_eq!((all[1].from.clone(), all[1].to.clone()), (Some(json!("a\nb")), Some(json!("a\nc"))));
}

#[test]
fn numbers_are_the_same_when_their_json_is() {
    assert_eq!(fields(&json!({"n": 1}), &json!({"n": 1.0})), ["n"]);
    assert!(changes(&json!({"n": 1.5}), &json!({"n": 1.5})).is_empty());
    assert_eq!(fields(&json!({"n": null}), &json!({})), ["n"]);
}

#[test]
fn the_root_of_two_objects_is_never_replaced() {
    let diff = checked(&json!({"a": 1, "b": 2, "c": 3}), &json!({}), &Keys::default());
    assert_eq!(diff.patch.0.len(), 3);
    let diff = checked(&json!([1]), &json!({}), &Keys::default());
    assert_eq!(serde_json::to_value(&diff.patch).unwrap(), json!([{"op": "replace", "path": "", "value": {}}]));
}
