//! For arbitrary objects with a secret planted in them: it is in nothing that is made of them, in no patch, change,
//! sentence or rendering.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Builder, Cluster, Observed, State, What, owner::Unknown, render};
use crate::{
    cluster::Resource,
    diff::{self, Keys},
    redact::{Contents, Document, Door, Part, Settings},
};

const NAMES: &[&str] = &["password", "DB_PASSWORD", "clientSecret", "api-key", "token", "private_key"];
const MAPS: &[&str] = &["passwords", "tokens", "API_KEYS"];
const KINDS: &[&str] = &["Thing", "ConfigMap", "Secret", "Deployment", "Pod", "Role", "Service", "Node"];

/// Once before the change and once after it.
const OLD: &str = "planted1old";
const NEW: &str = "planted2new";

fn plant(form: usize, name: &str, map: &str, secret: &str) -> Value {
    let lines = |n: std::ops::Range<usize>| -> String { n.map(|n| format!("option{n} = {n}\n")).collect() };
    match form {
        0 => json!({name: secret}),
        1 => json!({"name": name, "value": secret}),
        2 => json!([format!("--{name}"), secret]),
        3 => json!([format!("--{name}={secret}"), "--port=80"]),
        4 => json!({name: [secret, {"value": secret}]}),
        5 => json!({map: {"alice": secret, "prod": {"ci": [secret]}}}),
        6 => json!({"config.json": json!({"port": 80, map: {"alice": secret}}).to_string()}),
        7 => json!({"app.yaml": format!("a: 1\n{map}:\n  alice: {secret}\nb: 2\n")}),
        8 => json!({"app.conf": format!("{}{name} = {secret}\n{}", lines(0..30), lines(30..60))}),
        9 => json!({"url": format!("postgres://bob:{secret}@db:5432/shop")}),
        _ => json!({"note": json!({"kind": "SecretList", "items": [{"data": {"a": secret}}]}).to_string()}),
    }
}

fn around() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        "[a-z -]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// Everything that is made of a change, of the object's beginning and of its end.
fn outputs(resource: &Resource, old: &Document, new: &Document) -> Vec<String> {
    fn state<'a>(document: &'a Document, contents: &'a Contents) -> State<'a> {
        State { document, contents }
    }
    let (was, is) = (old.contents(), new.contents());
    let (marked_was, marked_is) = old.marked(new, &Part::ALL);
    let diffs =
        [Some(diff::documents(&was, &is, &Keys::default())), diff::marked(&marked_was, &marked_is, &Keys::default())];
    let builder = Builder::new(Cluster { name: "prod-eu".into(), uid: "5b0c".into() });
    let mut out = Vec::new();
    let mut whats = vec![
        What::Created { new: state(new, &is) },
        What::Deleted { old: state(old, &was), version: &new.meta().version },
    ];
    for diff in diffs.into_iter().flatten() {
        out.extend([diff.patch.to_string(), diff.inverse.to_string(), format!("{:?}", diff.changes)]);
        whats.push(What::Updated { old: state(old, &was), new: state(new, &is), diff });
    }
    for what in whats {
        let event = builder.build(resource, Observed::Live, jiff::Timestamp::UNIX_EPOCH, what, &Unknown);
        out.push(serde_json::to_string(&event).expect("JSON"));
        out.push(event.summary.clone());
        out.push(render::terminal(&event, &render::Style::plain()));
        out.push(render::terminal(&event, &render::Style { color: true, width: 60, ..render::Style::plain() }));
        out.push(render::markdown(&event));
    }
    out.push(render::unified(&was, &is, &render::Style::plain()));
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_redacted_value_occurs_in_anything_that_is_made_of_a_change(
        kind in prop::sample::select(KINDS), field in prop::sample::select(vec!["spec", "data", "status", "rules"]),
        name in prop::sample::select(NAMES), map in prop::sample::select(MAPS), form in 0..11usize,
        around in prop::collection::vec((around(), "[a-z]{1,6}", any::<bool>()), 0..4), beside in around(),
    ) {
        let resource = Resource::core("v1", "things", kind);
        let door = Door::new(&Settings::default(), &[7; 32]).expect("a door");
        let admit = |secret: &str, beside: &Value| {
            let mut tree = plant(form, name, map, secret);
            for (sibling, key, in_list) in &around {
                tree = if *in_list { json!([sibling, tree]) } else { json!({key.as_str(): tree, "z": sibling}) };
            }
            let annotation = json!({name: secret}).to_string();
            let object = json!({"metadata": {"name": "a", "uid": "u", "annotations": {"note": annotation}},
                field: tree, "other": beside});
            door.admit(&resource, object.to_string().as_bytes()).expect("admitted")
        };
        let (old, new) = (admit(OLD, &Value::Null), admit(NEW, &beside));
        prop_assert_ne!(old.to_json(), new.to_json(), "a rotation shows");
        for output in outputs(&resource, &old, &new) {
            prop_assert!(!output.contains(OLD) && !output.contains(NEW), "{}", output);
        }
    }
}
