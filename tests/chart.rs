//! The chart: what each value does, what is refused, and that what stands beside it (README, schema, manifests) fits it.

mod config;
pub mod helm;
mod image;
mod life;
mod manifests;
mod monitoring;
mod replicas;
mod schema;
mod switches;

use serde_json::{Value, json};

use self::helm::{fails, find, helm, kinds, render};

pub const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/kubediff");

#[tokio::test]
async fn helm_lints_the_chart_strictly() {
    let said = helm(&["lint", "--strict", CHART], "").await.unwrap();
    assert!(!said.contains("[WARNING]") && !said.contains("[ERROR]"), "{said}");
}

#[tokio::test]
async fn without_values_it_is_one_read_only_pod_with_a_small_volume() {
    let objects = render("").await;
    let expected = ["ClusterRole", "ClusterRoleBinding", "ConfigMap", "Service", "ServiceAccount", "StatefulSet"]
        .map(str::to_owned);
    assert_eq!(kinds(&objects), expected);
    let claim = find(&objects, "StatefulSet", "/spec/volumeClaimTemplates/0/spec/resources/requests/storage");
    assert_eq!(claim, json!("1Gi"));
    let rules = find(&objects, "ClusterRole", "/rules");
    assert_eq!(rules, json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "watch"]}]));
}

#[tokio::test]
async fn no_role_has_a_verb_besides_list_and_watch() {
    for scope in ["cluster", "namespaces"] {
        for resources in ["all", "no-secrets", "list"] {
            let rules = "[{apiGroups: [''], resources: [pods]}, {apiGroups: [apps], resources: ['*']}]";
            let values =
                format!("rbac: {{scope: {scope}, resources: {resources}, rules: {rules}, namespaces: [a, b]}}");
            let objects = render(&values).await;
            let roles: Vec<_> = objects.iter().filter(|o| o["rules"].is_array()).collect();
            assert_eq!(roles.len(), if scope == "cluster" { 1 } else { 2 }, "{values}");
            for rule in roles.iter().flat_map(|role| role["rules"].as_array().unwrap()) {
                assert_eq!(rule["verbs"], json!(["list", "watch"]), "{values}");
                if resources == "no-secrets" {
                    let core = rule["apiGroups"].as_array().unwrap().iter().any(|g| g == "" || g == "*");
                    let named = rule["resources"].as_array().unwrap().iter().any(|r| r == "secrets" || r == "*");
                    assert!(!(core && named), "{rule}");
                }
            }
        }
    }
}

#[tokio::test]
async fn several_replicas_may_write_their_own_lease_and_nothing_else() {
    for scope in ["cluster", "namespaces"] {
        let objects = render(&format!("replicas: 2\nrbac: {{scope: {scope}, namespaces: [shop]}}")).await;
        let rules = |role: &Value| role["rules"].as_array().unwrap().clone();
        let roles = objects.iter().filter(|object| object["rules"].is_array());
        let writing: Vec<_> =
            roles.filter(|role| rules(role).iter().any(|rule| rule["verbs"] != json!(["list", "watch"]))).collect();
        assert_eq!(writing.len(), 1, "{scope}");
        assert_eq!((&writing[0]["kind"], &writing[0]["metadata"]["namespace"]), (&json!("Role"), &json!("tools")));
        let own = json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["kubediff"],
            "verbs": ["get", "update"]});
        assert_eq!(rules(writing[0]), [own]);
        // So the chart makes it. What the pods write on it stands nowhere in it.
        assert_eq!(find(&objects, "Lease", "/metadata/name"), json!("kubediff"));
        assert_eq!(find(&objects, "Lease", "/spec"), Value::Null);
        let config = find(&objects, "ConfigMap", "/data/config.toml");
        let config: toml::Table = config.as_str().unwrap().parse().unwrap();
        assert_eq!(config["ha"]["enabled"].as_bool(), Some(true));
        assert_eq!(config["ha"]["lease"].as_str(), Some("kubediff"));
        assert_eq!(config["ha"]["create_lease"].as_bool(), Some(false));
        schema::check(&config.to_string());
    }
}

#[tokio::test]
async fn roles_for_namespaces_stand_in_those_alone_and_there_is_no_cluster_role() {
    let objects = render("rbac: {scope: namespaces, namespaces: [shop, pay]}").await;
    assert!(kinds(&objects).iter().all(|kind| !kind.starts_with("Cluster")), "{:?}", kinds(&objects));
    let places = |kind: &str| -> Vec<Value> {
        objects.iter().filter(|o| o["kind"] == kind).map(|o| o["metadata"]["namespace"].clone()).collect()
    };
    assert_eq!(places("Role"), ["shop", "pay"]);
    assert_eq!(places("RoleBinding"), ["shop", "pay"]);
    let subjects = find(&objects, "RoleBinding", "/subjects");
    assert_eq!(subjects, json!([{"kind": "ServiceAccount", "name": "kubediff", "namespace": "tools"}]));
}

#[tokio::test]
async fn what_cannot_work_is_refused_with_a_sentence() {
    let long = "a".repeat(64);
    for (values, sentence) in [
        ("rbac: {resources: list}", "rbac.resources=list needs rbac.rules"),
        (
            "rbac: {resources: no-secrets}\nconfig: {watch: {secrets: hash}}",
            "which rbac.resources=no-secrets does not allow",
        ),
        ("rbac: {resources: no-secrets, groups: ['*']}", "which holds Secrets"),
        ("rbac: {resources: no-secrets, groups: ['']}", "which holds Secrets"),
        (
            "rbac: {scope: namespaces, namespaces: [shop]}\nconfig: {watch: {namespaces: [shop, pay]}}",
            "config.watch.namespaces has \"pay\"",
        ),
        ("config: {server: {probes: '127.0.0.1:9090'}}", "which the kubelet cannot reach"),
        ("rbac: {scope: everywhere}", "value must be one of 'cluster', 'namespaces'"),
        ("rbac: {verbs: [get]}", "additional properties 'verbs' not allowed"),
        ("image: {digest: latest}", "does not match pattern"),
        ("secrets: {env: {SLACK-TOKEN: {name: a, key: b}}}", "SLACK-TOKEN"),
        ("secrets: {files: {../../etc: {name: a, key: b}}}", "../../etc"),
        ("secrets: {env: {TOKEN: {name: a, value: s3cret}}}", "additional properties 'value' not allowed"),
        (&format!("rbac: {{namespaces: [{long}]}}"), "maxLength"),
        ("persistence: {whenDeleted: Maybe}", "value must be one of 'Delete', 'Retain'"),
        ("log: {format: xml}", "value must be one of 'json', 'pretty'"),
        ("replica: 2", "additional properties 'replica' not allowed"),
        ("replicas: 0", "minimum"),
        ("replicas: 2\npersistence: {existingClaim: mine}", "replicas needs a volume for each pod"),
        ("replicas: 2\nconfig: {ha: {namespace: other}}", "config.ha.namespace is \"other\""),
        ("config: {server: {page: '0.0.0.0:8080'}}", "set page.enabled=true in its place"),
        ("page: {enabled: true}\nconfig: {server: {page: '127.0.0.1:8080'}}", "page.enabled sets it"),
        ("page: {enabled: true}\nrbac: {scope: namespaces}", "bind system:auth-delegator"),
        ("page: {port: 0}", "minimum"),
        ("metrics: {serviceMonitor: {enabled: true}, podMonitor: {enabled: true}}", "would scrape every pod twice"),
        ("metrics: {podMonitor: {enabled: true}}\nconfig: {server: {probes: ''}}", "which is off"),
        (
            "metrics: {prometheusRule: {enabled: true, without: [KubediffDwn]}}",
            "there is no such alert: there are KubediffDown",
        ),
        ("metrics: {serviceMonitor: {interval: often}}", "does not match pattern"),
        ("persistence: {size: 700Mi}", "config.state.max_bytes is 768MiB, and persistence.size 700Mi"),
        ("persistence: {size: 2G}\nconfig: {state: {max_bytes: null}}", "config.state.max_bytes is 2GiB"),
        ("persistence: {enabled: false, size: 0.5Gi}", "with room for the journal"),
    ] {
        let said = fails(values).await;
        assert!(said.contains(sentence), "{values}\nshould say: {sentence}\nand says: {said}");
    }
}

#[tokio::test]
async fn a_credential_that_is_written_out_is_refused_with_what_to_do_and_its_value_is_not_said() {
    for (config, key) in [
        ("sinks: {ops: {type: slack, channel: '#a', token: S3CRET}}", "sinks.ops.token"),
        (
            "sinks: {ops: {type: slack, webhook_url: 'https://hooks.slack.com/services/S3CRET'}}",
            "sinks.ops.webhook_url",
        ),
        ("sinks: {a: {type: webhook, url: 'https://h/', bearer_token: S3CRET}}", "sinks.a.bearer_token"),
        ("sinks: {a: {type: webhook, url: 'https://h/', username: u, password: S3CRET}}", "sinks.a.password"),
        ("sinks: {a: {type: webhook, url: 'https://h/', signing_secret: S3CRET}}", "sinks.a.signing_secret"),
        (
            "sinks: {a: {type: webhook, url: 'https://h/', signing_secret: [{env: NEW}, S3CRET]}}",
            "sinks.a.signing_secret",
        ),
        ("sinks: {a: {type: webhook, url: 'https://h/', client_key: S3CRET}}", "sinks.a.client_key"),
        ("sinks: {a: {type: webhook, url: 'https://me:S3CRET@h/'}}", "sinks.a.url"),
        ("sinks: {a: {type: webhook, url: 'https://h/?a=b&access_token=S3CRET'}}", "sinks.a.url"),
        ("sinks: {a: {type: webhook, url: 'https://hooks.slack.com/services/S3CRET'}}", "sinks.a.url"),
        ("sinks: {a: {type: webhook, url: 'https://h/', proxy: 'http://me:S3CRET@p/'}}", "sinks.a.proxy"),
        (
            "sinks: {a: {type: webhook, url: 'https://h/', headers: {Authorization: S3CRET}}}",
            "sinks.a.headers.Authorization",
        ),
        ("redact: {key: S3CRET}", "redact.key"),
    ] {
        let said = fails(&format!("config: {{{config}}}")).await;
        assert!(said.contains(&format!("config.{key} is written out")), "{config}\nsays: {said}");
        assert!(said.contains("secrets.env") && !said.contains("S3CRET"), "{config}\nsays: {said}");
        render(&format!("secrets: {{allowPlainText: true}}\nconfig: {{{config}}}")).await;
    }
    // What names a Secret, and what is none.
    for config in [
        "sinks: {ops: {type: slack, channel: '#a', token: {env: SLACK_TOKEN}}}\n  redact: {key: {file: /a}}",
        "sinks: {a: {type: webhook, url: 'https://example.com/@me/hook?team=shop', headers: {X-Team: shop}}}",
        "sinks: {a: {type: webhook, url: {env: HOOK}, signing_secret: [{file: /a}, {env: B}]}}",
    ] {
        render(&format!("config:\n  {config}")).await;
    }
}

#[tokio::test]
async fn an_unknown_key_is_refused_at_every_level() {
    let text = std::fs::read_to_string(format!("{CHART}/values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    let mut tables = vec![String::new()];
    for (key, value) in values.as_object().unwrap().iter().filter(|(_, value)| value.is_object()) {
        tables.push(format!("{key}."));
        if ["metrics", "page"].contains(&key.as_str()) {
            let below = value.as_object().unwrap().iter().filter(|(_, value)| value.is_object());
            tables.extend(below.map(|(below, _)| format!("{key}.{below}.")));
        }
    }
    // These are Kubernetes' own types, which the API server checks, and maps with names of the user's choice.
    let open = ["podSecurityContext.", "securityContext.", "labels.", "annotations.", "podLabels.", "podAnnotations."];
    let open = [&open[..], &["nodeSelector.", "affinity."]].concat();
    for table in tables.iter().filter(|table| !open.contains(&table.as_str())) {
        let said = helm(&["template", "x", CHART, "--set", &format!("{table}sizzle=1")], "").await.unwrap_err();
        assert!(said.contains("'sizzle' not allowed"), "{table}: {said}");
    }
    assert!(tables.len() > 17, "{tables:?}");
}

#[tokio::test]
async fn the_readme_is_made_from_the_comments() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/readme");
    let made = std::process::Command::new(script).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let written = std::fs::read_to_string(format!("{CHART}/README.md")).unwrap();
    assert!(
        written.as_bytes() == made.stdout,
        "charts/kubediff/README.md is out of date: `make chart-readme` writes it"
    );
    for key in
        leaves(&serde_saphyr::from_str(&std::fs::read_to_string(format!("{CHART}/values.yaml")).unwrap()).unwrap())
    {
        assert!(written.contains(&format!("| `{key}` |")), "{key} has a row");
    }
}

#[test]
fn the_chart_has_the_programs_version() {
    let chart: Value =
        serde_saphyr::from_str(&std::fs::read_to_string(format!("{CHART}/Chart.yaml")).unwrap()).unwrap();
    assert_eq!((&chart["version"], &chart["appVersion"]), (&json!(env!("CARGO_PKG_VERSION")), &chart["version"]));
}

/// The dotted paths of everything in a values file that is not itself a table of more.
pub fn leaves(values: &Value) -> Vec<String> {
    fn walk(path: &str, value: &Value, found: &mut Vec<String>) {
        match value.as_object().filter(|map| !map.is_empty()) {
            Some(map) => map.iter().for_each(|(key, value)| {
                walk(&if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, value, found);
            }),
            None => found.push(path.to_owned()),
        }
    }
    let mut found = Vec::new();
    walk("", values, &mut found);
    found
}
