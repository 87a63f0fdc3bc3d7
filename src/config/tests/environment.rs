//! Keys by environment.

use super::*;

fn with(variables: &[(&str, &str)], text: &str) -> Plan {
    sources(variables).build("c.toml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn wrong(variables: &[(&str, &str)], text: &str) -> String {
    sources(variables).build("c.toml", text).map(drop).unwrap_err().to_string()
}

#[test]
fn the_environment_lies_over_the_file() {
    let plan = with(
        &[
            ("KUBEDIFF__WATCH__SECRETS", "off"),
            ("KUBEDIFF__STATE__RETENTION_DAYS", "3"),
            ("KUBEDIFF__ANNOTATIONS", "false"),
            ("KUBEDIFF__CLUSTER", "prod"),
            ("KUBEDIFF__WATCH__NAMESPACES", "shop, bank"),
            ("KUBEDIFF__WATCH__INCLUDE", "[\"apps/*\", \"v1/pods\"]"),
            ("KUBEDIFF__STATE__MAX_BYTES", "1GiB"),
            ("KUBEDIFF_LOG", "debug"),
            ("OTHER", "x"),
        ],
        "cluster = \"test\"\n[watch]\nsecrets = \"hash\"\nexclude = [\"v1/nodes\"]\n[state]\npath = \"x.db\"\n",
    );
    let file = plan.file;
    assert_eq!(file.cluster, "prod");
    assert_eq!(file.watch.secrets, crate::redact::Secrets::Off);
    assert_eq!(file.watch.namespaces, ["shop", "bank"]);
    assert_eq!(file.watch.include, ["apps/*", "v1/pods"]);
    assert_eq!(file.watch.exclude, ["v1/nodes"]);
    assert_eq!((file.state.retention_days, file.state.path.as_str(), file.state.max_bytes.0), (3, "x.db", 1 << 30));
    assert!(!file.annotations);
}

#[test]
fn keys_of_sinks_are_found_by_the_sinks_name() {
    let text = "[sinks.team-a]\ntype = \"slack\"\nchannel = \"#a\"\ntoken = { file = \"/nonexistent\" }\n";
    let plan = with(&[("KUBEDIFF__SINKS__TEAM_A__TOKEN", "xoxb-1")], text);
    let file::Sink::Slack(slack) = &plan.file.sinks["team-a"] else { panic!("{:?}", plan.file.sinks) };
    assert_eq!(slack.token, Some(secret::Source::Plain(Secret::new("xoxb-1"))));
    let plan = with(
        &[("KUBEDIFF__SINKS__TEAM_A__TOKEN__ENV", "T"), ("T", "xoxb-2")],
        text.replace("/nonexistent", "/").as_str(),
    );
    assert_eq!(plan.sinks[0].name, "team-a");
}

#[test]
fn a_sink_and_routes_can_be_made_by_environment_alone() {
    let plan = with(
        &[
            ("KUBEDIFF__SINKS__HOOK__URL", "https://example.com/a,b"),
            ("KUBEDIFF__SINKS__HOOK__TYPE", "webhook"),
            ("KUBEDIFF__SINKS__HOOK__BATCH", "10"),
            ("KUBEDIFF__SINKS__HOOK__HEADERS__X_KEY", "k"),
            ("KUBEDIFF__ROUTES", r#"[{"name":"r","match":{"kinds":["Pod"]},"sinks":["hook"]}]"#),
        ],
        "",
    );
    let file::Sink::Webhook(webhook) = &plan.file.sinks["hook"] else { panic!() };
    assert_eq!((webhook.batch, webhook.headers.len()), (10, 1));
    assert_eq!(plan.file.routes[0].sinks, ["hook"]);
}

#[test]
fn mistakes_in_the_environment_name_the_variable() {
    for (variable, value, message) in [
        (
            "KUBEDIFF__WATCH__SECRET",
            "off",
            "environment KUBEDIFF__WATCH__SECRET: there is no key `secret`; expected one of namespaces, \
             exclude_namespaces, include, exclude, default_exclude, selector, selectors, secrets, audit_interval_secs, \
             concurrent_lists, page_size, watch_timeout_secs; did you mean `secrets`?",
        ),
        (
            "KUBEDIFF__WATCH__SECRETS",
            "of",
            "environment KUBEDIFF__WATCH__SECRETS: watch.secrets: expected one of hash, metadata, off, found `of`; did \
             you mean `off`?",
        ),
        (
            "KUBEDIFF__STATE__RETENTION_DAYS",
            "many",
            "environment KUBEDIFF__STATE__RETENTION_DAYS: expected a whole number from 1 to 3650, found `many`",
        ),
        (
            "KUBEDIFF__SINKS__OPS__TOKEN",
            "xoxb-1",
            "environment KUBEDIFF__SINKS__OPS__TOKEN: there is no sink `ops`; set KUBEDIFF__SINKS__OPS__TYPE to one of \
             stdout, webhook, slack to make one",
        ),
        (
            "KUBEDIFF__ROUTES",
            "[{",
            "environment KUBEDIFF__ROUTES: expected a list of tables as JSON: EOF while parsing",
        ),
        (
            "KUBEDIFF__CLUSTER__NAME",
            "x",
            "environment KUBEDIFF__CLUSTER__NAME: there is nothing below `name`'s place; expected a text in quotes",
        ),
    ] {
        let found = wrong(&[(variable, value)], "");
        assert!(found.starts_with(message), "{found}\n{message}");
        assert!(!found.contains("xoxb"), "{found}");
    }
}

#[test]
fn headers_are_named_with_underscores_for_dashes() {
    let hook = "[sinks.hook]\ntype = 'webhook'\nurl = 'https://example.com'\nformat = 'template'\ntemplate = '{}'\n\
                headers = { X-Key = 'old', Other_Key = 'old' }\n";
    let plan = with(
        &[
            ("KUBEDIFF__SINKS__HOOK__HEADERS__X_KEY", "new"),
            ("KUBEDIFF__SINKS__HOOK__HEADERS__OTHER_KEY", "new"),
            ("KUBEDIFF__SINKS__HOOK__HEADERS__X_MORE", "new"),
            ("KUBEDIFF__SINKS__HOOK__TEMPLATE_HEADERS__X_TITLE", "new"),
            ("KUBEDIFF__SINKS__HOOK__VARS__ROUTING_KEY", "new"),
        ],
        hook,
    );
    let crate::sink::Target::Webhook(hook) = &plan.sinks[0].target else { panic!("a webhook") };
    let headers: Vec<_> = hook.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(headers, [("Other_Key", "new"), ("X-Key", "new"), ("x-more", "new")]);
    let crate::sink::webhook::Format::Template(template) = &hook.format else { panic!("a template") };
    assert_eq!(template.headers.keys().collect::<Vec<_>>(), ["x-title"]);
    assert_eq!(template.vars.keys().collect::<Vec<_>>(), ["routing_key"], "templates know no dashes");
}
