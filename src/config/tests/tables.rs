//! The table of keys, the types, the example and the documentation say the same.

use std::collections::BTreeSet;

use serde::{Serialize, de::DeserializeOwned};

use super::{
    super::{
        file::{self, Sink},
        keys::{Key, Section, Shape},
    },
    *,
};
use crate::route::{Match, Route, Silence, Test};

fn names(section: Section) -> BTreeSet<String> {
    section.keys.iter().map(|key| key.name().to_owned()).collect()
}

fn fields<T: Serialize + Default + DeserializeOwned>() -> BTreeSet<String> {
    let value = serde_json::to_value(T::default()).unwrap();
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn the_tables_that_other_stages_own_have_the_keys_of_their_types() {
    assert_eq!(names(file::route()), fields::<Route>());
    assert_eq!(names(file::silence()), fields::<Silence>());
    assert_eq!(names(file::matching()), fields::<Match>());
    assert_eq!(names(File::section()), fields::<File>());
    let tests: BTreeSet<_> = Test::ALL.iter().map(|test| test.key().to_owned()).collect();
    let rest: BTreeSet<_> = names(file::matching()).difference(&tests).cloned().collect();
    assert_eq!(rest, BTreeSet::from(["time_zone".to_owned(), "weekdays".to_owned()]));
}

/// Every key with its path, as `watch.secrets`, `sinks.slack.token`, `routes.match.kinds`.
fn all_keys() -> Vec<(String, Key)> {
    fn walk(section: Section, path: &str, out: &mut Vec<(String, Key)>) {
        for key in section.keys {
            let path = if path.is_empty() { key.name().to_owned() } else { format!("{path}.{}", key.name()) };
            match key.shape {
                Shape::Table(section) | Shape::Tables(section)
                    if !["routes.routes", "silences.match"].contains(&path.as_str()) =>
                {
                    walk(section(), &path, out);
                }
                Shape::SinkMap => {
                    for of in Sink::TYPES {
                        walk(Sink::section(of).unwrap(), &format!("sinks.{of}"), out);
                    }
                }
                _ => {}
            }
            out.push((path, *key));
        }
    }
    let mut out = Vec::new();
    walk(File::section(), "", &mut out);
    out
}

/// A new key has to be put on one side: either a reload changes it, or it is said that none does.
#[test]
fn of_every_key_it_is_known_whether_a_reload_changes_it() {
    let at_once = ["annotations", "default_sinks", "sinks", "routes", "silences"];
    let of_watch =
        ["namespaces", "exclude_namespaces", "include", "exclude", "default_exclude", "selector", "selectors"];
    let changes = |path: &str| {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        at_once.contains(&first) || first == "watch" && of_watch.contains(&rest.split('.').next().unwrap())
    };
    let keys: Vec<String> = all_keys().into_iter().map(|(path, _)| path).collect();
    for path in &keys {
        let table = keys.iter().any(|other| other.starts_with(&format!("{path}.")));
        assert!(table || changes(path) != AT_START.contains(&path.as_str()), "{path}");
    }
    for key in AT_START {
        assert!(keys.iter().any(|path| path == key), "there is no {key}");
    }
}

#[test]
fn every_key_has_one_line_of_help() {
    for (path, key) in all_keys() {
        let help = key.help.trim();
        assert!(help.len() > 3 && help.len() < 120 && help.ends_with(['.', ')']), "{path}: {help}");
    }
}

/// The example shows every key, commented out where it is optional; what it shows as default is the default.
#[test]
fn the_example_has_every_key_with_its_default_and_nothing_else() {
    let example = include_str!("../../../config.example.toml");
    let plan = Sources { lookup: Lookup::Skip, ..sources(&[]) }.build("config.example.toml", example);
    let plan = plan.unwrap_or_else(|problems| panic!("{problems}"));
    let defaults = File::default();
    assert_eq!(plan.file.watch, defaults.watch);
    assert_eq!(plan.file.redact, defaults.redact);
    assert_eq!(plan.file.noise, defaults.noise);
    assert_eq!(plan.file.state, defaults.state);
    assert_eq!(plan.file.server, defaults.server);
    assert_eq!(plan.file.ha, defaults.ha);
    assert_eq!(plan.file.annotations, defaults.annotations);

    // With every commented key switched on it is still right, and then no key is missing.
    let on: String = example.lines().map(|line| switch_on(line).to_owned() + "\n").collect();
    let (table, wrong) = tree::parse(&on);
    assert!(wrong.is_empty(), "{wrong:?}");
    let mut shown = BTreeSet::new();
    collect(&table, "", &mut shown);
    let known: BTreeSet<_> = all_keys().into_iter().map(|(path, _)| path).collect();
    let missing: Vec<_> = known.difference(&shown).collect();
    assert!(missing.is_empty(), "not in the example: {missing:?}");
    let unknown: Vec<_> = shown.difference(&known).filter(|path| !path.ends_with(".type")).collect();
    assert!(unknown.is_empty(), "only in the example: {unknown:?}");
    let found = Sources { lookup: Lookup::Skip, ..sources(&[]) }.build("config.example.toml", &on);
    let found = found.unwrap_or_else(|problems| panic!("{problems}"));

    // What is shown of a sink is its default too, where it has one that could be taken for it.
    let mut compared = BTreeSet::new();
    for (name, sink) in &found.file.sinks {
        let sink = serde_json::to_value(sink).unwrap();
        let of = sink["type"].as_str().unwrap();
        for (key, default) in sink_defaults(of).as_object().unwrap().iter().filter(|(_, value)| !is_empty(value)) {
            // The one that has a template to show.
            if (name.as_str(), key.as_str()) != ("teams", "format") {
                assert_eq!(&sink[key], default, "sinks.{name}.{key}");
                compared.insert((of.to_owned(), key.clone()));
            }
        }
    }
    assert!(compared.contains(&("slack".into(), "group_max_secs".into())), "{compared:?}");
    assert!(compared.contains(&("webhook".into(), "in_flight".into())), "{compared:?}");
}

fn sink_defaults(of: &str) -> serde_json::Value {
    let title = format!("`[sinks.NAME]` with `type = \"{of}\"`");
    sections().into_iter().find(|(found, ..)| *found == title).map(|(.., defaults)| defaults).unwrap()
}

/// What is shown in its place can only be an example.
fn is_empty(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null => true,
        serde_json::Value::String(text) => text.is_empty(),
        serde_json::Value::Array(items) => items.is_empty(),
        serde_json::Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// A commented line that is TOML: a table's header, or a key with its value.
fn switch_on(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("# ") else { return line };
    let key = rest.split_once(" = ").is_some_and(|(key, _)| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
    if key || rest.starts_with('[') { rest } else { line }
}

fn collect(table: &tree::Table, path: &str, shown: &mut BTreeSet<String>) {
    for (key, node) in table {
        let path = match path {
            "" => key.clone(),
            // A sink's name is nobody's key: its type stands in.
            "sinks" => match &node.value {
                tree::Value::Table(sink) => match &sink["type"].value {
                    tree::Value::Text(of) => format!("sinks.{of}"),
                    _ => unreachable!(),
                },
                _ => unreachable!(),
            },
            path => format!("{path}.{key}"),
        };
        match &node.value {
            tree::Value::Table(inner) if !is_leaf(&path) => collect(inner, &path, shown),
            tree::Value::List(items) => {
                for item in items {
                    if let tree::Value::Table(inner) = &item.value {
                        collect(inner, &path, shown);
                    }
                }
            }
            _ => {}
        }
        // A route within a route has the same keys again, and a silence matches as a route does.
        let again = path.starts_with("routes.routes.") || path.starts_with("silences.match.");
        let is_sink = path.strip_prefix("sinks.").is_some_and(|rest| !rest.contains('.'));
        if !again && !is_sink {
            shown.insert(path);
        }
    }
}

/// Tables whose keys are the user's.
fn is_leaf(path: &str) -> bool {
    all_keys().iter().any(|(known, key)| {
        known == path && matches!(key.shape, Shape::Secret | Shape::Secrets | Shape::SecretMap | Shape::TextMap)
    })
}

#[test]
fn the_help_in_the_example_is_the_keys_own() {
    let example = include_str!("../../../config.example.toml");
    for (path, key) in all_keys() {
        assert!(example.contains(&format!("# {}\n", key.help.trim())), "{path}: {}", key.help.trim());
    }
}

/// The tables in `docs/configuration.md`, between two marks. With `UPDATE=1` they are written.
#[test]
fn the_documentation_has_every_key() {
    const START: &str = "<!-- keys -->\n";
    const END: &str = "<!-- end of keys -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(START).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let mut expected = String::new();
    for (title, section, defaults) in sections() {
        expected += &format!(
            "\n### {title}\n\n| key | what it does | expected | default | a change is taken up |\n|---|---|---|---|---|\n"
        );
        let table = title.trim_matches(['`', '[', ']']);
        for key in section.keys {
            let default = match &defaults[key.name()] {
                _ if matches!(key.shape, Shape::Table(_) | Shape::Tables(_) | Shape::SinkMap) => String::new(),
                serde_json::Value::Null => String::new(),
                value => format!("`{value}`"),
            };
            let form = key.shape.expected().replace('|', "\\|");
            let path = if title == "Top level" { key.name().to_owned() } else { format!("{table}.{}", key.name()) };
            let taken_up = match key.shape {
                Shape::Table(_) if path != "match" => "",
                _ if AT_START.contains(&path.as_str()) => "at the next start",
                _ => "at once",
            };
            expected += &format!("| `{}` | {} | {form} | {default} | {taken_up} |\n", key.name(), key.help.trim());
        }
    }
    expected += "\n";
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, format!("{before}{START}{expected}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(found, expected, "UPDATE=1 cargo test --lib config:: writes it");
}

fn sections() -> Vec<(&'static str, Section, serde_json::Value)> {
    fn defaults<T: Serialize + Default>() -> serde_json::Value {
        serde_json::to_value(T::default()).unwrap()
    }
    vec![
        ("Top level", File::section(), defaults::<File>()),
        ("`[watch]`", file::Watch::section(), defaults::<file::Watch>()),
        ("`[[watch.selectors]]`", file::Selector::section(), defaults::<file::Selector>()),
        ("`[redact]`", file::Redact::section(), defaults::<file::Redact>()),
        ("`[noise]`", file::Noise::section(), defaults::<file::Noise>()),
        ("`[state]`", file::State::section(), defaults::<file::State>()),
        ("`[server]`", file::Server::section(), defaults::<file::Server>()),
        ("`[ha]`", file::Ha::section(), defaults::<file::Ha>()),
        ("`[sinks.NAME]` with `type = \"stdout\"`", file::Stdout::section(), defaults::<file::Stdout>()),
        ("`[sinks.NAME]` with `type = \"webhook\"`", file::Webhook::section(), defaults::<file::Webhook>()),
        ("`[sinks.NAME]` with `type = \"slack\"`", file::Slack::section(), defaults::<file::Slack>()),
        ("`[[routes]]`", file::route(), defaults::<Route>()),
        ("`match = { ... }` in routes and silences", file::matching(), defaults::<Match>()),
        ("`[[silences]]`", file::silence(), defaults::<Silence>()),
    ]
}
