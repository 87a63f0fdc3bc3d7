//! The old kubediff's YAML.

use super::*;
use crate::{
    event::{Event, Kind},
    route::Context,
};

const OLD: &str = "mode: diff
resources:
  - kind: v1/configmaps
  - kind: networking.k8s.io/v1beta1/ingresses
namespaces:
  - shop
notifier:
  slack:
    enabled: true
    token: xoxb-1
    channel: '#ops'
    title: 'kubediff event'
  webhook:
    enabled: true
    url: https://example.com/hook
";

fn load_yaml(text: &str) -> Result<Plan, Problems> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.yaml"), text).unwrap();
    Sources { path: Some(folder.path().to_owned()), ..sources(&[]) }.load()
}

fn event(kind: Kind) -> Event {
    let text = r#"{"schema":"kubediff.event/v1","id":"1","time":"2026-01-01T00:00:00Z","observed":"live","type":"updated",
        "cluster":{"name":"c","uid":"u"},"summary":"s","resource":{"group":"","version":"v1","resource":"configmaps",
        "kind":"ConfigMap","namespace":"shop","name":"web","uid":"u","resourceVersion":"2"}}"#;
    Event { kind, ..serde_json::from_str(text).unwrap() }
}

#[test]
fn the_old_file_is_taken_as_it_is() {
    let plan = load_yaml(OLD).unwrap();
    assert_eq!(plan.file.watch.include, ["v1/configmaps", "networking.k8s.io/*/ingresses"]);
    assert_eq!(plan.file.watch.namespaces, ["shop"]);
    let names: Vec<_> = plan.sinks.iter().map(|sink| sink.name.as_str()).collect();
    assert_eq!(names, ["slack", "webhook"]);
    let context = Context::at(jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(plan.table.route(&event(Kind::Updated), &context).sinks.len(), 2);
    let dropped = plan.table.route(&event(Kind::Created), &context).dropped.unwrap();
    assert_eq!(dropped.reason(), "not an update");
}

#[test]
fn the_mode_watch_is_all_types_and_nobody_to_notify_is_stdout() {
    for text in ["", "mode: watch\n", "notifier:\n  noop:\n    enabled: true\n", "resources: []\nnamespaces: [all]\n"] {
        let plan = load_yaml(text).unwrap();
        assert_eq!(plan.file.watch.namespaces, ["all"], "{text}");
        assert_eq!(plan.sinks.len(), 1, "{text}");
        let context = Context::at(jiff::Timestamp::UNIX_EPOCH);
        for kind in [Kind::Created, Kind::Updated, Kind::Deleted] {
            assert_eq!(plan.table.route(&event(kind), &context).sinks.len(), 1, "{text}");
        }
    }
}

#[test]
fn the_printed_toml_is_the_same_configuration() {
    let toml = super::super::legacy::migrate(OLD).unwrap().toml;
    assert_eq!(load(&toml).file, load_yaml(OLD).unwrap().file);
    assert!(toml.contains("format = \"legacy\""), "{toml}");
    assert!(
        super::super::legacy::migrate("namespaces: [\"a\\\"b\\n\\\\\"]").unwrap().toml.contains(r#"["a\"b\u000A\\"]"#)
    );
}

#[test]
fn what_the_old_file_cannot_say_is_an_error_with_its_line() {
    for (text, start) in [
        ("mode: diff\nresorces: []\n", "config.yaml:2: resorces: not the old kubediff's YAML: there is no such key"),
        ("mode: all\n", "config.yaml:1: mode: not the old kubediff's YAML: expected watch or diff, found `all`"),
        (
            "notifier:\n  slack:\n    enabled: maybe\n",
            "config.yaml:3: notifier.slack.enabled: not the old kubediff's YAML: expected true or false, found a text",
        ),
        ("namespaces: &a [*a]\n", "config.yaml:1: not the old kubediff's YAML: "),
    ] {
        let found = load_yaml(text).map(drop).unwrap_err().to_string();
        let found = found.rsplit_once('/').map_or(found.as_str(), |(_, rest)| rest);
        assert!(found.starts_with(start), "{found}");
    }
}

#[test]
fn everything_that_is_wrong_with_an_old_file_is_told_at_once_with_its_lines() {
    let text = "mode: dif
resources:
  - kind: v1/ConfigMap
  - knd: v1/secrets
  - kind: 5
namespaces:
  - shop
  - Shop
notifier:
  slack:
    enabled: true
    chanel: '#ops'
  webhook:
    enabled: true
    url: example.com
";
    let told = |text: &str| {
        let problems = load_yaml(text).map(drop).unwrap_err();
        let told = problems.list.iter().map(|problem| match &problem.at {
            Origin::Line(line) => format!("{line} {}: {}", problem.key, problem.message),
            other => format!("{other:?} {}: {}", problem.key, problem.message),
        });
        told.collect::<Vec<_>>()
    };
    let old = |text: &str| text.replace("not the old", "not the old kubediff's YAML");
    assert_eq!(
        told(text),
        [
            old("1 mode: not the old: expected watch or diff, found `dif`"),
            old("4 resources[1]: not the old: is without kind; expected version/resource or group/version/resource"),
            old("4 resources[1].knd: not the old: there is no such key; expected one of kind; did you mean `kind`?"),
            old("5 resources[2].kind: not the old: expected a text, found the number 5"),
            old(
                "12 notifier.slack.chanel: not the old: there is no such key; expected one of enabled, token, channel, \
                 title; did you mean `channel`?"
            ),
        ]
    );
    // What is YAML of the right form is checked as TOML is, and told where it stands.
    let text = text.replace("dif\n", "diff\n").replace("knd", "kind").replace("kind: 5", "kind: v1/pods");
    let text = text.replace("chanel", "channel");
    let told = told(&text);
    let starts = ["3 resources[0].kind: ", "8 namespaces[1]: ", "11 notifier.slack", "15 notifier.webhook.url: "];
    assert_eq!(told.len(), starts.len(), "{told:#?}");
    for (told, start) in told.iter().zip(starts) {
        assert!(told.starts_with(start), "{told} {start}");
    }
}

#[test]
fn yaml_that_is_made_to_grow_ends_in_an_error() {
    let mut bomb = String::from("a: &a [x,x,x,x,x,x,x,x,x]\n");
    for (above, below) in [("b", "a"), ("c", "b"), ("d", "c"), ("e", "d"), ("f", "e"), ("g", "f"), ("h", "g")] {
        bomb += &format!("{above}: &{above} [{}]\n", vec![format!("*{below}"); 9].join(","));
    }
    let start = Instant::now();
    assert!(load_yaml(&bomb).is_err());
    assert!(load_yaml(&"[".repeat(100_000)).is_err());
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
}

#[test]
fn yaml_is_known_by_its_name_or_by_how_it_begins() {
    let is = |path: &str, text: &str| super::super::legacy::is_legacy(Path::new(path), text);
    assert!(is("a.yaml", "") && is("a.yml", "x") && is("a", "# old\n---\nmode: diff\n"));
    assert!(!is("a.toml", "mode: diff") && !is("a", "cluster = \"x\"") && !is("a", ""));
}
