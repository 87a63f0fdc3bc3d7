//! The part of values.schema.json that is about `config`: made from the table of keys that kubediff itself checks a
//! configuration with.

use kubediff::config::{
    Sources,
    file::{File, Sink},
    keys::{Section, Shape},
};
use serde_json::{Map, Value, json};

use super::{
    CHART,
    helm::{fails, find, render},
};

/// The definitions under `$defs`: `config`, and those of lists that may hold themselves.
fn definitions() -> Map<String, Value> {
    let mut found = Map::new();
    let config = table(&File::section(), &mut found);
    found.insert("config".into(), config);
    let reference = |key: &str| {
        json!({"type": "object", "additionalProperties": false, "required": [key],
        "properties": {key: {"type": "string"}}})
    };
    found.insert("config.secret".into(), json!({"anyOf": [{"type": "string"}, reference("file"), reference("env")]}));
    found
}

fn table(section: &Section, found: &mut Map<String, Value>) -> Value {
    let mut properties = Map::new();
    for key in section.keys {
        let mut schema = shape(key.name(), key.shape, found);
        schema["description"] = key.help.trim().into();
        properties.insert(key.name().to_owned(), schema);
    }
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

fn shape(name: &str, shape: Shape, found: &mut Map<String, Value>) -> Value {
    let secret = || json!({"$ref": "#/$defs/config.secret"});
    match shape {
        Shape::Flag => json!({"type": "boolean"}),
        Shape::Number(least, u64::MAX) => json!({"type": "integer", "minimum": least}),
        Shape::Number(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Shape::Text | Shape::Checked(..) => json!({"type": "string"}),
        Shape::List(..) | Shape::Sinks => json!({"type": "array", "items": {"type": "string"}}),
        Shape::Word(words) => {
            let mut words: Vec<Value> = words().into_iter().map(Value::from).collect();
            if words.iter().any(|word| word == "off") {
                // What YAML makes of a bare off.
                words.push(false.into());
            }
            json!({"enum": words})
        }
        Shape::Words(words) => json!({"type": "array", "items": {"enum": words()}}),
        Shape::Secret => secret(),
        Shape::Secrets => json!({"anyOf": [secret(), {"type": "array", "items": secret()}]}),
        Shape::SecretMap => json!({"type": "object", "additionalProperties": secret()}),
        Shape::TextMap => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        Shape::Table(section) => table(&section(), found),
        Shape::Tables(section) => {
            let known = format!("config.{name}");
            if !found.contains_key(&known) {
                // Named first, for lists that hold themselves.
                found.insert(known.clone(), Value::Null);
                let items = table(&section(), found);
                found.insert(known.clone(), items);
            }
            json!({"type": "array", "items": {"$ref": format!("#/$defs/{known}")}})
        }
        Shape::SinkMap => {
            let by_type = Sink::TYPES.map(|sort| {
                let mut keys = table(&Sink::section(sort).expect("a known type"), found);
                keys["properties"]["type"] = json!({});
                json!({"if": {"properties": {"type": {"const": sort}}}, "then": keys})
            });
            json!({"type": "object", "additionalProperties": {
                "type": "object", "required": ["type"], "properties": {"type": {"enum": Sink::TYPES}}, "allOf": by_type}})
        }
    }
}

#[test]
fn the_schema_knows_the_keys_that_kubediff_knows() {
    let path = format!("{CHART}/values.schema.json");
    let mut written: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let before = written.clone();
    let all = written["$defs"].as_object_mut().unwrap();
    all.retain(|name, _| name != "config" && !name.starts_with("config."));
    all.extend(definitions());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(&written).unwrap() + "\n").unwrap();
        return;
    }
    assert!(
        before == written,
        "values.schema.json does not have the configuration's keys; `UPDATE=1 cargo test --test promises chart::schema` writes them"
    );
}

#[tokio::test]
async fn a_wrong_configuration_is_refused_before_it_is_installed() {
    for (config, sentence) in [
        ("wach: {}", "additional properties 'wach' not allowed"),
        ("watch: {namespace: [a]}", "additional properties 'namespace' not allowed"),
        ("watch: {page_size: many}", "want integer"),
        ("watch: {page_size: 0}", "minimum"),
        ("sinks: {ops: {type: slak}}", "value must be one of"),
        ("sinks: {ops: {type: slack, chanel: '#ops'}}", "additional properties 'chanel' not allowed"),
        ("sinks: {ops: {type: stdout, channel: '#ops'}}", "additional properties 'channel' not allowed"),
        ("sinks: {ops: {type: slack, token: {envv: A}}}", "envv"),
        ("routes: [{match: {kind: [Pod]}}]", "additional properties 'kind' not allowed"),
        ("routes: [{routes: [{sink: [log]}]}]", "additional properties 'sink' not allowed"),
    ] {
        let said = fails(&format!("config: {{{config}}}")).await;
        assert!(said.contains(sentence), "{config}\nshould say: {sentence}\nand says: {said}");
    }
}

/// The configuration that comes out of the chart, for what is in this file and in the examples, is one that runs.
#[tokio::test]
async fn what_the_chart_renders_is_a_configuration_that_kubediff_takes() {
    let example = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/config.example.toml")).unwrap();
    let mut example: toml::Table = example.parse().unwrap();
    // An address that the kubelet can reach.
    example["server"]["probes"] = "0.0.0.0:9090".into();
    let example = serde_json::to_string(&json!({"config": example})).unwrap();
    for values in [
        "",
        "rbac: {scope: namespaces, resources: no-secrets}",
        "rbac: {resources: list, rules: [{apiGroups: ['', apps, '*'], resources: ['*', pods]}]}",
        &example,
    ] {
        let text = find(&render(values).await, "ConfigMap", "/data/config.toml");
        check(text.as_str().unwrap());
    }
}

/// Fails the test when kubediff would not start with it. Secrets are not looked up.
pub fn check(text: &str) {
    let sources = Sources { path: None, variables: Vec::new(), lookup: kubediff::config::Lookup::Skip };
    if let Err(problems) = sources.build("config.toml", text) {
        panic!("{problems}\n{text}");
    }
}
