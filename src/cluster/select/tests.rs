//! Patterns, verdicts and feeds.

use super::*;

fn resource(group: &str, version: &str, plural: &str, kind: &str, short: &[&str], namespaced: bool) -> Arc<Resource> {
    Arc::new(Resource {
        group: group.into(),
        version: version.into(),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        kind: kind.into(),
        short_names: short.iter().map(|s| (*s).to_owned()).collect(),
        namespaced,
    })
}

fn served() -> Vec<Arc<Resource>> {
    vec![
        resource("", "v1", "pods", "Pod", &["po"], true),
        resource("", "v1", "configmaps", "ConfigMap", &["cm"], true),
        resource("", "v1", "secrets", "Secret", &[], true),
        resource("", "v1", "events", "Event", &["ev"], true),
        resource("", "v1", "nodes", "Node", &["no"], false),
        resource("apps", "v1", "deployments", "Deployment", &["deploy"], true),
        resource("apps", "v1", "statefulsets", "StatefulSet", &["sts"], true),
        resource("events.k8s.io", "v1", "events", "Event", &["ev"], true),
        resource("coordination.k8s.io", "v1", "leases", "Lease", &[], true),
        resource("cert-manager.io", "v1", "certificates", "Certificate", &["cert"], true),
        resource("cert-manager.io", "v1", "certificaterequests", "CertificateRequest", &["cr"], true),
        resource("acme.cert-manager.io", "v1", "orders", "Order", &[], true),
    ]
}

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::parse(text).unwrap()).collect()
}

fn fitting(pattern: &str) -> Vec<String> {
    let pattern = Pattern::parse(pattern).unwrap();
    served().iter().filter(|resource| pattern.fits(resource)).map(ToString::to_string).collect()
}

fn read(settings: &Settings) -> Vec<String> {
    plan(settings, &served(), &BTreeSet::new()).feeds.iter().map(ToString::to_string).collect()
}

#[test]
fn patterns_fit_what_people_mean() {
    assert_eq!(fitting("*").len(), 12);
    assert_eq!(fitting("apps/*"), ["apps/v1/deployments", "apps/v1/statefulsets"]);
    for one in [
        "Deployment",
        "deployments",
        "deployment",
        "deploy",
        "deployments.apps",
        "apps/deployments",
        "apps/v1/deployments",
        "apps/*/deployments",
        "Deploy*",
    ] {
        assert_eq!(fitting(one), ["apps/v1/deployments"], "{one}");
    }
    for one in ["v1/configmaps", "core/configmaps", "core/v1/configmaps", "cm", "ConfigMap"] {
        assert_eq!(fitting(one), ["v1/configmaps"], "{one}");
    }
    assert_eq!(fitting("v1/*").len(), 5);
    let all =
        ["cert-manager.io/v1/certificates", "cert-manager.io/v1/certificaterequests", "acme.cert-manager.io/v1/orders"];
    assert_eq!(fitting("*.cert-manager.io"), all);
    assert_eq!(fitting("*.cert-manager.io/*"), all);
    assert_eq!(fitting("cert-manager.io"), all[..2]);
    assert_eq!(fitting("acme.*/*"), all[2..]);
    assert_eq!(fitting("apps/v2/*"), Vec::<String>::new());
    assert_eq!(fitting("Event").len(), 2);
}

#[test]
fn a_wrong_pattern_is_named_with_the_nearest_right_form() {
    for (wrong, nearest) in [
        ("", "*"),
        ("apps//deployments", "apps/deployments"),
        ("/apis/apps/v1/deployments", "apis/apps/v1/deployments"),
        ("apis/apps/v1/deployments", "apps/v1/deployments"),
        ("apps/v1/Deployment", "apps/v1/deployments"),
        ("networking.k8s.io/NetworkPolicy", "networking.k8s.io/networkpolicies"),
        ("apps/v1", "apps/v1/*"),
        ("v1/pods/status", "v1/pods"),
        ("apps/deployments/web", "apps/*/web"),
        ("apps:deployments", "apps/deployments"),
        ("Apps/deployments", "apps/deployments"),
        ("apps/v1/deployments/scale", "apps/v1/deployments"),
    ] {
        let error = Pattern::parse(wrong).unwrap_err();
        assert_eq!(error.nearest, nearest, "{wrong}");
        assert!(error.to_string().contains(&format!("\"{wrong}\"")), "{error}");
    }
    let settings = Settings {
        include: patterns(&["Deploymnet", "apps/statefulset", "widgets.example.com"]),
        ..Settings::default()
    };
    let told: Vec<_> = unmatched(&settings, &served()).into_iter().map(|(p, words)| (p.to_string(), words)).collect();
    let is =
        |pattern: &str, hint: &str| (pattern.to_owned(), format!("\"{pattern}\" fits nothing that is served{hint}"));
    assert_eq!(
        told,
        [
            is("Deploymnet", "; did you mean Deployment?"),
            is("apps/statefulset", "; did you mean apps/statefulsets?"),
            is("widgets.example.com", ".")
        ]
    );
}

#[test]
fn the_default_list_is_left_out_unless_it_is_named() {
    let all = read(&Settings::default());
    assert_eq!(all.len(), 8, "{all:?}");
    assert!(!all.contains(&"v1/events".into()) && !all.contains(&"coordination.k8s.io/v1/leases".into()));
    assert_eq!(
        read(&Settings { include: patterns(&["coordination.k8s.io/*"]), ..Settings::default() }),
        Vec::<String>::new()
    );
    assert_eq!(
        read(&Settings { include: patterns(&["Lease"]), ..Settings::default() }),
        ["coordination.k8s.io/v1/leases"]
    );
    let named = Settings { include: patterns(&["*", "cert-manager.io/certificaterequests"]), ..Settings::default() };
    assert_eq!(read(&named).len(), 9);
    let of_group = ["cert-manager.io/v1/certificates"];
    for group in ["cert-manager.io", "cert-manager.io/*"] {
        let settings = Settings { include: patterns(&[group]), ..Settings::default() };
        assert_eq!(read(&settings), of_group, "a group's name does not name what is noise in it: {group}");
    }
    for named in ["certificaterequests.cert-manager.io", "cert-manager.io/certificaterequests", "CertificateRequest"] {
        let settings = Settings { include: patterns(&[named]), ..Settings::default() };
        assert_eq!(read(&settings), ["cert-manager.io/v1/certificaterequests"], "{named}");
    }
    let both = Settings { exclude: patterns(&["leases"]), include: patterns(&["Lease"]), ..Settings::default() };
    assert_eq!(read(&both), Vec::<String>::new(), "the user's own exclude beats it");
}

#[test]
fn every_resource_gets_a_verdict_in_words() {
    let settings = Settings {
        include: patterns(&["v1/*", "apps/*", "Event"]),
        exclude: patterns(&["sts"]),
        secrets: Secrets::Off,
        namespaces: Namespaces { include: vec!["shop".into()], exclude: vec![] },
        ..Settings::default()
    };
    let plan = plan(&settings, &served(), &BTreeSet::new());
    let words = |name: &str| plan.verdicts.iter().find(|(r, _)| r.to_string() == name).unwrap().1.to_string();
    assert_eq!(words("v1/pods"), r#"included by "v1/*""#);
    assert_eq!(words("apps/v1/statefulsets"), r#"excluded by "sts""#);
    assert_eq!(words("v1/secrets"), r#"secrets = "off""#);
    assert_eq!(words("v1/events"), r#"included by "Event""#);
    assert_eq!(words("events.k8s.io/v1/events"), "the same objects are read as v1/events");
    assert_eq!(words("coordination.k8s.io/v1/leases"), "no include pattern fits");
    assert_eq!(words("v1/nodes"), "it is in no namespace, and the configuration names namespaces");
    assert_eq!(plan.skipped().count(), plan.verdicts.len() - plan.feeds.len());
    let all = super::plan(&Settings::default(), &served(), &BTreeSet::new());
    let lease = all.verdicts.iter().find(|(r, _)| r.plural == "leases").unwrap().1.to_string();
    assert!(lease.contains("excluded by default") && lease.contains("name it under include"), "{lease}");
}

#[test]
fn a_twin_that_is_named_alone_is_read() {
    let settings = Settings { include: patterns(&["events.k8s.io/events"]), ..Settings::default() };
    assert_eq!(read(&settings), ["events.k8s.io/v1/events"]);
}

#[test]
fn named_namespaces_get_a_feed_each_and_patterns_those_that_exist() {
    let settings = Settings {
        include: patterns(&["Pod", "Node"]),
        namespaces: Namespaces { include: vec!["shop".into(), "team-*".into()], exclude: vec!["team-b".into()] },
        ..Settings::default()
    };
    let live = ["team-a", "team-b", "team-c", "other"].map(String::from).into();
    let plan = plan(&settings, &served(), &live);
    let feeds: Vec<_> = plan.feeds.iter().map(ToString::to_string).collect();
    assert_eq!(feeds, ["v1/pods in shop", "v1/pods in team-a", "v1/pods in team-c"]);
    assert!(settings.namespaces.needs_live());
    assert!(!Namespaces::default().needs_live());
}

#[test]
fn excluded_namespaces_go_to_the_server_and_patterns_to_the_reflector() {
    let exclude = ["kube-system", "kube-public", "ci-*"].map(String::from).to_vec();
    let settings = Settings {
        include: patterns(&["Pod", "Node"]),
        namespaces: Namespaces { include: vec!["all".into()], exclude },
        ..Settings::default()
    };
    let plan = plan(&settings, &served(), &BTreeSet::new());
    assert_eq!(plan.feeds[0].fields, "metadata.namespace!=kube-system,metadata.namespace!=kube-public");
    assert_eq!(plan.feeds[0].not_namespaces, ["ci-*"]);
    assert_eq!(plan.feeds[1].fields, "", "nodes are in no namespace");
    assert!(settings.namespaces.contains("shop") && !settings.namespaces.contains("ci-7"));
}

#[test]
fn selectors_add_up() {
    let selector =
        Selector { resource: Pattern::parse("Pod").unwrap(), labels: "app".into(), fields: "spec.nodeName!=x".into() };
    let settings = Settings {
        include: patterns(&["Pod", "ConfigMap", "Secret"]),
        labels: "team=a".into(),
        selectors: vec![selector],
        secrets: Secrets::Metadata,
        ..Settings::default()
    };
    let feeds = plan(&settings, &served(), &BTreeSet::new()).feeds;
    assert_eq!((feeds[0].labels.as_str(), feeds[0].fields.as_str()), ("team=a,app", "spec.nodeName!=x"));
    assert_eq!((feeds[1].labels.as_str(), feeds[1].fields.as_str()), ("team=a", ""));
    assert_eq!(feeds.iter().map(|feed| feed.metadata_only).collect::<Vec<_>>(), [false, false, true]);
    assert_ne!(feeds[2].key(), Feed::new(Arc::clone(&feeds[2].resource), Scope::All).key());
}

#[test]
fn a_wrong_namespace_is_named() {
    let namespaces = Namespaces { include: vec!["team-*".into(), "My_Team".into()], exclude: vec![] };
    let error = namespaces.check().unwrap_err();
    assert_eq!(error.nearest, "my-team");
    assert!(error.to_string().contains("\"My_Team\""));
    assert_eq!(Namespaces { include: vec!["all".into()], exclude: vec!["kube-*".into()] }.check(), Ok(()));
}
