use super::*;
use crate::event::{Actor, Class, Kind, Observed, OwnerRef};

mod decisions;

pub(super) fn event() -> Event {
    let text = r#"{"schema":"kubediff.event/v1","id":"1","time":"2026-11-16T07:30:00Z","observed":"live","type":"updated",
        "cluster":{"name":"prod-eu","uid":"u"},"resource":{"group":"apps","version":"v1","resource":"deployments",
        "kind":"Deployment","namespace":"prod-shop","name":"web-1","uid":"u","resourceVersion":"2",
        "labels":{"app":"web","tier":"front"}},"owner":{"kind":"Deployment","namespace":"prod-shop","name":"web-1"},
        "actors":[{"manager":"kubectl-edit","operation":"Update","subresource":""}],"classes":["spec","image"],
        "summary":"image a -> b","changes":[{"op":"replace","path":"/spec/template/spec/containers/0/image",
        "field":"spec.template.spec.containers[web].image","from":"a","to":"b"}]}"#;
    serde_json::from_str(text).unwrap()
}

/// A Monday.
pub(super) fn now() -> Timestamp {
    "2026-11-16T07:30:00Z".parse().unwrap()
}

fn matching(toml: &str) -> Match {
    toml::from_str(toml).unwrap_or_else(|error| panic!("{toml}: {error}"))
}

fn asks(toml: &str, event: &Event) -> Option<Test> {
    let labels = BTreeMap::from([("team".to_owned(), "shop".to_owned())]);
    let context = Context { namespace_labels: &labels, ..Context::at(now()) };
    let matcher = Matcher::new(&matching(toml)).unwrap_or_else(|error| panic!("{toml}: {error}"));
    let needs = matcher.needs();
    matcher.refusal(&Facts::new(event, &context, needs)).map(|(test, _)| test)
}

#[test]
fn every_matcher_takes_what_it_should_and_names_itself_when_it_does_not() {
    let event = event();
    for (yes, no, test) in [
        ("types = ['updated', 'deleted']", "types = ['created']", Test::Types),
        ("kinds = ['deployment']", "kinds = ['Pod']", Test::Kinds),
        ("kinds = ['deployments']", "kinds = ['!Deploy*']", Test::Kinds),
        ("groups = ['apps', 'batch']", "groups = ['core']", Test::Groups),
        ("groups = ['a*']", "groups = ['*.k8s.io']", Test::Groups),
        ("namespaces = ['prod-*']", "namespaces = ['prod']", Test::Namespaces),
        ("namespaces = ['!kube-*']", "namespaces = ['prod-*', '!prod-shop']", Test::Namespaces),
        ("names = ['web-?']", "names = ['db*']", Test::Names),
        ("labels = 'app=web'", "labels = 'app=db'", Test::Labels),
        ("labels = 'tier in (front, back), !old'", "labels = 'old'", Test::Labels),
        ("namespace_labels = 'team=shop'", "namespace_labels = 'team!=shop'", Test::NamespaceLabels),
        ("classes = ['image', 'scale']", "classes = ['status']", Test::Classes),
        ("paths = ['spec.**.image']", "paths = ['status']", Test::Paths),
        ("paths = ['/spec/template']", "paths = ['/spec/replicas']", Test::Paths),
        ("managers = ['kubectl*']", "managers = ['helm']", Test::Managers),
        ("not_managers = ['argocd*', 'flux*']", "not_managers = ['kubectl*']", Test::NotManagers),
        ("by_hand = true", "by_hand = false", Test::ByHand),
        ("owner = ['Deployment/web-*']", "owner = ['StatefulSet/*']", Test::Owner),
        ("observed = ['live']", "observed = ['late', 'audit']", Test::Observed),
        ("hours = ['07:00-08:00']", "hours = ['08:00-09:00']", Test::Hours),
        ("weekdays = ['mon-fri']", "weekdays = ['sat', 'sun']", Test::Hours),
        (
            "hours = ['08:00-09:00']\ntime_zone = 'Europe/Berlin'",
            "hours = ['07:00-08:00']\ntime_zone = 'Europe/Berlin'",
            Test::Hours,
        ),
        (
            "when = \"event.changes.exists(c, c.field.endsWith('.image'))\"",
            "when = \"event.type == 'created'\"",
            Test::When,
        ),
        ("", "types = ['created']\nwhen = \"event.type == 'created'\"", Test::Types),
        (
            "kinds = ['Deployment']\nnamespaces = ['prod-*']\nnot_managers = ['argocd*']",
            "kinds = ['Deployment']\nnamespaces = ['prod-*']\nnot_managers = ['kube*']",
            Test::NotManagers,
        ),
    ] {
        assert_eq!(asks(yes, &event), None, "{yes}");
        assert_eq!(asks(no, &event), Some(test), "{no}");
    }
}

#[test]
fn someone_else_than_the_managers_is_anyone_who_took_part_and_is_not_named() {
    let actor = |manager: &str| Actor { manager: manager.into(), ..event().actors[0].clone() };
    let of = |managers: &[&str]| Event { actors: managers.iter().map(|m| actor(m)).collect(), ..event() };
    let by_hand = "not_managers = ['argocd*', 'flux*']";
    assert_eq!(asks(by_hand, &of(&["argocd-controller"])), Some(Test::NotManagers));
    assert_eq!(asks(by_hand, &of(&["argocd-controller", "flux"])), Some(Test::NotManagers));
    assert_eq!(asks(by_hand, &of(&["argocd-controller", "kubectl-edit"])), None);
    assert_eq!(asks(by_hand, &of(&[])), None);
    assert_eq!(asks("managers = ['*']", &of(&[])), Some(Test::Managers));
}

#[test]
fn an_object_without_namespace_group_owner_or_changes_is_matched_by_what_it_has() {
    let mut event = Event { owner: None, kind: Kind::Created, changes: Vec::new(), ..event() };
    event.resource.group = String::new();
    event.resource.namespace = String::new();
    event.resource.kind = "Node".into();
    event.resource.resource = "nodes".into();
    assert_eq!(asks("groups = ['core']", &event), None);
    assert_eq!(asks("namespaces = ['*']", &event), None);
    assert_eq!(asks("namespaces = ['prod-*']", &event), Some(Test::Namespaces));
    assert_eq!(asks("owner = ['*/*']", &event), Some(Test::Owner));
    assert_eq!(asks("paths = ['**']", &event), Some(Test::Paths));
    event.resource.kind = "Namespace".into();
    event.resource.name = "prod-shop".into();
    assert_eq!(asks("namespaces = ['prod-*']", &event), None);
}

#[test]
fn every_class_type_and_way_of_knowing_can_be_matched() {
    for class in Class::ALL {
        let event = Event { classes: vec![*class], ..event() };
        assert_eq!(asks(&format!("classes = ['{class}']"), &event), None);
        let other = if *class == Class::Spec { "status" } else { "spec" };
        assert_eq!(asks(&format!("classes = ['{other}']"), &event), Some(Test::Classes));
    }
    for (kind, word) in [(Kind::Created, "created"), (Kind::Updated, "updated"), (Kind::Deleted, "deleted")] {
        assert_eq!(asks(&format!("types = ['{word}']"), &Event { kind, ..event() }), None);
    }
    for (observed, word) in [(Observed::Live, "live"), (Observed::Late, "late"), (Observed::Audit, "audit")] {
        assert_eq!(asks(&format!("observed = ['{word}']"), &Event { observed, ..event() }), None);
    }
    let owner = Some(OwnerRef { kind: "Job".into(), namespace: "a".into(), name: "b".into() });
    assert_eq!(asks("owner = ['job/b']", &Event { owner, ..event() }), None);
}
