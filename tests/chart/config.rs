//! The configuration: values are YAML, kubediff reads TOML, and nothing may be lost or changed between them.

use serde_json::Value;

use super::helm::{find, render, toml};

#[tokio::test]
async fn values_become_toml_with_whole_numbers_and_all_that_was_said() {
    let values = r##"
config:
  cluster: prod-eu
  annotations: false
  default_sinks: [audit]
  watch:
    namespaces: ["all"]
    exclude: ["v1/events", "*.example.com"]
    audit_interval_secs: 21600
    page_size: 10000
    secrets: metadata
  noise: {ignore: ["/metadata/annotations/example.com~1*"]}
  state: {retention_days: 30}
  sinks:
    ops: {type: slack, token: {env: SLACK_TOKEN}, channel: "#ops", group_wait_secs: 10}
    audit:
      type: webhook
      url: "https://example.com/hook?a=\"b\"&c=\\d"
      headers: {X-Team: "platform"}
      signing_secret: [{file: /run/secrets/kubediff/new}, {file: /run/secrets/kubediff/old}]
      batch: 100
  routes:
    - name: "by hand: \"prod\""
      match: {namespaces: ["prod-*", "!prod-test"], types: [updated], by_hand: true}
      sinks: [ops]
      continue: true
      routes: [{match: {kinds: [Pod]}, drop: pods}]
    - name: all
      match: {when: "event.changes.exists(c,\n  c.field == 'x')"}
      sinks: [audit]
"##;
    let mut said: Value = serde_saphyr::from_str::<Value>(values).unwrap()["config"].take();
    // The chart's own defaults, which stay where the user says nothing.
    for (table, key, value) in [
        ("state", "path", "/var/lib/kubediff/kubediff.db"),
        ("state", "max_bytes", "768MiB"),
        ("server", "probes", "0.0.0.0:9090"),
        ("server", "page", ""),
    ] {
        said[table][key] = value.into();
    }
    let rendered = toml(&render(values).await);
    assert_eq!(serde_json::to_value(&rendered).unwrap(), said);
    assert_eq!(rendered["watch"]["page_size"], ::toml::Value::Integer(10_000));
    assert_eq!(rendered["sinks"]["audit"]["batch"], ::toml::Value::Integer(100));
}

#[tokio::test]
async fn null_takes_a_default_out() {
    let rendered = toml(&render("config: {state: {max_bytes: null}, server: null}\npersistence: {size: 3Gi}").await);
    assert!(!rendered["state"].as_table().unwrap().contains_key("max_bytes"), "{rendered}");
    assert!(!rendered.contains_key("server"), "{rendered}");
}

#[tokio::test]
async fn what_may_be_read_decides_what_is_watched() {
    for (values, key, expected) in [
        ("", "secrets", None),
        ("rbac: {resources: no-secrets}", "secrets", Some(r#""off""#)),
        // YAML's own word for false.
        ("config: {watch: {secrets: off}}", "secrets", Some(r#""off""#)),
        ("rbac: {resources: no-secrets}\nconfig: {watch: {secrets: off}}", "secrets", Some(r#""off""#)),
        ("rbac: {scope: namespaces}", "namespaces", Some(r#"["tools"]"#)),
        ("rbac: {scope: namespaces, namespaces: [shop, pay]}", "namespaces", Some(r#"["shop", "pay"]"#)),
        (
            "rbac: {scope: namespaces, namespaces: [shop, pay]}\nconfig: {watch: {namespaces: [pay]}}",
            "namespaces",
            Some(r#"["pay"]"#),
        ),
        (
            "rbac: {resources: list, rules: [{apiGroups: ['', apps], resources: [pods, deployments]}, \
             {apiGroups: ['*'], resources: [widgets]}]}",
            "include",
            Some(r#"["v1/pods", "v1/deployments", "apps/pods", "apps/deployments", "widgets"]"#),
        ),
        (
            "rbac: {resources: list, rules: [{apiGroups: [apps], resources: [deployments]}]}\n\
             config: {watch: {include: [Deployment]}}",
            "include",
            Some(r#"["Deployment"]"#),
        ),
    ] {
        let rendered = toml(&render(values).await);
        let found = rendered.get("watch").and_then(|watch| watch.get(key)).map(ToString::to_string);
        assert_eq!(found.as_deref(), expected, "{values}");
    }
}

#[tokio::test]
async fn a_change_of_the_configuration_restarts_the_pod_and_nothing_else_does() {
    let stamp = async |values: &str| {
        find(&render(values).await, "StatefulSet", "/spec/template/metadata/annotations/kubediff.io~1config")
    };
    let plain = stamp("").await;
    assert_ne!(plain, stamp("config: {cluster: a}").await);
    assert_ne!(plain, stamp("rbac: {resources: no-secrets}").await);
    assert_eq!(plain, stamp("labels: {a: b}").await);
}
