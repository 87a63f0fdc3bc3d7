//! Filters, paging, counts: the same answers from the search as from a look at every row.

use std::time::Duration;

use super::*;
use crate::{
    diff::Change,
    event::Class,
    history::{plan::Sooner, sight::Place as Spot},
};

/// n-th event of a small, varied history, ten seconds apart.
fn event(n: i64) -> Event {
    let mut event = sample::event();
    let (kind, group, version, resource) = [
        ("Deployment", "apps", "v1", "deployments"),
        ("ConfigMap", "", "v1", "configmaps"),
        ("Node", "", "v1", "nodes"),
        ("Certificate", "cert-manager.io", "v1", "certificates"),
    ][(n % 4) as usize];
    event.id = format!("{n:032x}");
    event.time = Timestamp::from_second(1_800_000_000 + n * 10).unwrap();
    event.kind = [Kind::Updated, Kind::Updated, Kind::Created, Kind::Deleted][(n / 4 % 4) as usize];
    let r = &mut event.resource;
    (r.kind, r.group, r.version, r.resource) = (kind.into(), group.into(), version.into(), resource.into());
    r.namespace = if kind == "Node" { String::new() } else { ["shop", "prod-eu", "prod-us"][(n % 3) as usize].into() };
    r.name = format!("{}-{}", ["web", "db", "Odd Name:ä"][(n % 3) as usize], n % 5);
    event.owner = Some(OwnerRef { kind: kind.into(), namespace: r.namespace.clone(), name: r.name.clone() });
    let manager = ["kubectl-edit", "argocd-controller", "Mozilla 5"][(n / 2 % 3) as usize];
    event.actors = vec![Actor { manager: manager.into(), ..sample::event().actors[0].clone() }];
    event.classes = if n % 2 == 0 { vec![Class::Spec, Class::Image] } else { vec![Class::Metadata] };
    event.summary = format!("image of web nginx:1.{n} -> nginx:1.{}", n + 1);
    let change = Change { field: format!("spec.containers[web{n}].image"), ..event.changes[0].clone() };
    event.changes = vec![change];
    event
}

const EVENTS: i64 = 240;

async fn filled() -> Rig {
    let rig = Rig::new();
    for n in 0..EVENTS {
        rig.append(event(n)).await;
    }
    rig
}

fn filter(parameters: &[(&str, &str)]) -> Filter {
    let mut filter = Filter::default();
    for (name, text) in parameters {
        assert!(filter.set(name, text, Timestamp::UNIX_EPOCH).unwrap(), "{name}");
    }
    filter
}

/// All ids by pages of seven, in an order.
fn walk(history: &History, filter: &Filter, sight: &Sight, order: Order) -> Vec<i64> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = history.page(filter, sight, order, cursor, 7).unwrap();
        assert!(page.rows.len() <= 7);
        found.extend(page.rows.iter().map(|row| i64::from_str_radix(&row.id, 16).unwrap()));
        match page.next {
            Some(next) => cursor = Some(next),
            None => return found,
        }
    }
}

/// Row by row, as a small ledger is looked at; by words that are spelt out, at once and part by part; by words that are
/// gathered; and without beginnings.
const WAYS: [Sooner; 5] = {
    let spelt = Sooner { looked_at: 0, ..Sooner::USUAL };
    let gathered = Sooner { spelt: 0, ..spelt };
    [
        Sooner::USUAL,
        spelt,
        Sooner { at_once: Duration::ZERO, ..spelt },
        gathered,
        Sooner { gathered: 0, gathered_of_text: 0, at_once: Duration::ZERO, ..gathered },
    ]
};

/// A filter, and what it means.
type Case = (&'static [(&'static str, &'static str)], Box<dyn Fn(&Event) -> bool>);

fn cases() -> Vec<Case> {
    fn case(parameters: &'static [(&'static str, &'static str)], takes: impl Fn(&Event) -> bool + 'static) -> Case {
        (parameters, Box::new(takes))
    }
    vec![
        case(&[], |_| true),
        case(&[("kind", "Deployment")], |e| e.resource.kind == "Deployment"),
        case(&[("kind", "deploy,cm")], |e| matches!(e.resource.kind.as_str(), "Deployment" | "ConfigMap")),
        case(&[("kind", "deployments.apps")], |e| e.resource.kind == "Deployment"),
        case(&[("kind", "*.cert-manager.io")], |e| e.resource.group == "cert-manager.io"),
        case(&[("kind", "!no")], |e| e.resource.kind != "Node"),
        case(&[("kind", "nonsense")], |_| false),
        case(&[("namespace", "shop")], |e| e.resource.namespace == "shop"),
        case(&[("namespace", "")], |e| e.resource.namespace.is_empty()),
        case(&[("namespace", "prod-*")], |e| e.resource.namespace.starts_with("prod-")),
        case(&[("namespace", "*-eu")], |e| e.resource.namespace.ends_with("-eu")),
        case(&[("namespace", "!prod-*,!shop")], |e| e.resource.namespace.is_empty()),
        case(&[("name", "web-1"), ("name", "db-2")], |e| matches!(e.resource.name.as_str(), "web-1" | "db-2")),
        case(&[("name", "Odd Name:ä-3")], |e| e.resource.name == "Odd Name:ä-3"),
        case(&[("name", "w*-1")], |e| e.resource.name == "web-1"),
        case(&[("name", "*B-1")], |e| matches!(e.resource.name.as_str(), "web-1" | "db-1")),
        case(&[("name", "WEB-*")], |e| e.resource.name.starts_with("web-")),
        case(&[("name", "*_*")], |_| false),
        case(&[("name", "*%b-1")], |_| false),
        case(&[("name", "!w*")], |e| !e.resource.name.starts_with("web-")),
        case(&[("owner", "Deployment/shop/web-0")], |e| {
            e.resource.kind == "Deployment" && e.resource.namespace == "shop" && e.resource.name == "web-0"
        }),
        case(&[("owner", "Node/*")], |e| e.resource.kind == "Node"),
        case(&[("type", "deleted,created")], |e| e.kind != Kind::Updated),
        case(&[("type", "!updated"), ("class", "image")], |e| {
            e.kind != Kind::Updated && e.classes.contains(&Class::Image)
        }),
        case(&[("class", "!image")], |e| !e.classes.contains(&Class::Image)),
        case(&[("manager", "kubectl*")], |e| e.actors[0].manager == "kubectl-edit"),
        case(&[("manager", "!argocd-controller")], |e| e.actors[0].manager != "argocd-controller"),
        case(&[("hand", "true")], Event::by_hand),
        case(&[("hand", "false"), ("observed", "live")], |e| !e.by_hand()),
        case(&[("observed", "late")], |_| false),
        case(&[("q", "nginx")], |_| true),
        case(&[("q", "i")], |_| true),
        case(&[("q", "image of web12")], |e| e.changes[0].field.starts_with("spec.containers[web12")),
        case(&[("q", "web12 ")], |e| e.changes[0].field == "spec.containers[web12].image"),
        case(&[("q", "nginx:1.17 ")], |e| {
            e.summary.contains("1.17 ->") || e.summary.ends_with("1.17") || e.changes[0].field.contains("web17]")
        }),
        case(&[("q", "image nothing-like-it")], |_| false),
        case(&[("since", "2027-01-15T08:10:00Z"), ("until", "2027-01-15T08:20:00Z")], |e| {
            (1_800_000_600..1_800_001_200).contains(&e.time.as_second())
        }),
        case(&[("kind", "cm"), ("namespace", "shop"), ("type", "updated"), ("q", "im")], |e| {
            e.resource.kind == "ConfigMap" && e.resource.namespace == "shop" && e.kind == Kind::Updated
        }),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_filter_takes_the_same_events_with_and_without_the_search_and_paging_loses_none() {
    let rig = filled().await;
    let only = Sight::Only(
        [("apps", "deployments", "shop"), ("", "nodes", "")]
            .map(|(g, r, n)| Spot { group: g.into(), resource: r.into(), namespace: n.into() })
            .into(),
    );
    for round in ["unsearched", "half", "searched"] {
        match round {
            "half" => rig.index_half().await,
            "searched" => rig.index().await,
            _ => {}
        }
        let mut history = rig.history();
        for (parameters, takes) in cases() {
            for sight in [&Sight::Everything, &only] {
                let seen = |e: &Event| sight.may(&e.resource.group, &e.resource.resource, &e.resource.namespace);
                let mut want: Vec<i64> = (0..EVENTS).filter(|n| takes(&event(*n)) && seen(&event(*n))).collect();
                let filter = filter(parameters);
                for order in [Order::Asc, Order::Desc] {
                    for way in WAYS {
                        history.sooner = way;
                        let found = walk(&history, &filter, sight, order);
                        assert_eq!(found, want, "{round} {parameters:?} {sight:?} {way:?}");
                    }
                    want.reverse();
                }
            }
        }
    }
}

impl Rig {
    /// As it is while the search is behind.
    async fn index_half(&self) {
        self.index().await;
        self.store
            .write(Box::new(|transaction| {
                transaction.execute("UPDATE meta SET value = ?1 WHERE key = 'searched'", [EVENTS / 2])?;
                transaction.execute("DELETE FROM search WHERE rowid > ?1", [EVENTS / 2]).map(drop)
            }))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_of_what_may_be_seen_and_each_facet_is_without_its_own_filter() {
    let rig = filled().await;
    rig.index().await;
    let history = rig.history();
    let now = Timestamp::from_second(1_800_000_000 + EVENTS * 10).unwrap();
    let density = history.density(&filter(&[]), &Sight::Everything, 24, now).unwrap();
    assert_eq!((density.seconds, density.buckets.len()), (100, 24));
    let total: u64 = density.buckets.iter().map(|b| b.created + b.updated + b.deleted).sum();
    assert_eq!(total, EVENTS as u64);
    let expected = (10..20).filter(|n| event(*n).kind == Kind::Updated).count() as u64;
    assert_eq!(density.buckets[1].updated, expected);

    let facets = history.facets(&filter(&[("kind", "Node"), ("type", "updated")]), &Sight::Everything).unwrap();
    let of = |counts: &[counts::Count], value: &str| counts.iter().find(|c| c.value == value).map(|c| c.count);
    let count = |takes: &dyn Fn(&Event) -> bool| Some((0..EVENTS).filter(|n| takes(&event(*n))).count() as u64);
    assert_eq!(of(&facets.kind, "Deployment"), count(&|e| e.resource.kind == "Deployment" && e.kind == Kind::Updated));
    assert_eq!(of(&facets.event_type, "deleted"), count(&|e| e.resource.kind == "Node" && e.kind == Kind::Deleted));
    assert_eq!(of(&facets.namespace, ""), count(&|e| e.resource.kind == "Node" && e.kind == Kind::Updated));
    assert_eq!(of(&facets.namespace, "shop"), None, "nodes are in no namespace");
    assert!(!facets.partial);

    let spot = Spot { group: "apps".into(), resource: "deployments".into(), namespace: "shop".into() };
    let only = Sight::Only([spot].into());
    let facets = history.facets(&filter(&[]), &only).unwrap();
    let seen: &dyn Fn(&Event) -> bool = &|e| e.resource.kind == "Deployment" && e.resource.namespace == "shop";
    assert_eq!(facets.kind, [counts::Count { value: "Deployment".into(), count: count(seen).unwrap() }]);
    let density = history.density(&filter(&[]), &only, 24, now).unwrap();
    let total: u64 = density.buckets.iter().map(|b| b.created + b.updated + b.deleted).sum();
    assert_eq!(Some(total), count(seen));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_that_mean_nothing_are_errors_and_ids_are_found_by_their_beginning() {
    let rig = Rig::new();
    let mut one = event(1);
    one.id = "7f0c11aa7f0c11aa7f0c11aa7f0c11aa".into();
    rig.append(one.clone()).await;
    rig.append(Event { id: "7f0c11bb7f0c11aa7f0c11aa7f0c11aa".into(), ..event(2) }).await;
    let history = rig.history();
    // One that is as good as new has no place in the index yet.
    for indexed in [false, true] {
        if indexed {
            rig.index().await;
            rig.append(Event { id: "7f0c11aa7f0c11cc7f0c11aa7f0c11aa".into(), ..event(3) }).await;
            assert!(matches!(history.find("7f0c11aa"), Err(Error::Word { .. })), "an old one and a new one begin so");
            assert_eq!(history.find("7f0c11aa7f0c11cc").unwrap(), Some(3), "told apart beyond what is in the index");
        } else {
            assert_eq!(history.find("7f0c11aa").unwrap(), Some(1));
        }
        assert_eq!(history.find("7f0c11aa7f0c11a").unwrap(), Some(1));
        assert_eq!(history.find(&one.id.to_uppercase()).unwrap(), Some(1));
        assert_eq!(history.find("7f0c").unwrap(), None, "too short to be meant");
        assert!(matches!(history.find("7f0c11"), Err(Error::Word { .. })), "two begin so");
        assert_eq!(history.find("'; DROP TABLE events").unwrap(), None);
    }
    for wrong in [("type", "updatd"), ("class", "imge"), ("observed", "now")] {
        let answer = history.page(&filter(&[wrong]), &Sight::Everything, Order::Desc, None, 10);
        assert!(matches!(answer, Err(Error::Word { .. })), "{wrong:?}");
    }
    // Quotes and operators of the search's own language are only words.
    for text in ["\"", "a OR b", "NEAR(", "* ^", "words : x", "-", "~n=shop"] {
        history.page(&filter(&[("q", text)]), &Sight::Everything, Order::Desc, None, 10).unwrap();
    }
    rig.index().await;
    for text in ["\"", "a OR b", "NEAR(", "* ^", "words : x", "-", "~n=shop"] {
        history.page(&filter(&[("q", text)]), &Sight::Everything, Order::Desc, None, 10).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_and_kinds_are_those_of_events_and_objects() {
    let rig = filled().await;
    let mut feed = rig.feed(&config_maps()).await;
    let object = json!({"metadata": {"name": "a", "namespace": "quiet", "uid": "u"}});
    feed.put(Update::Applied(rig.document(&config_maps(), 5, &object))).await.unwrap();
    rig.settle().await;
    let history = rig.history();
    let mut want: std::collections::BTreeSet<(String, String)> =
        (0..EVENTS).map(|n| (event(n).resource.resource, event(n).resource.namespace)).collect();
    want.insert(("configmaps".into(), "quiet".into()));
    let found: std::collections::BTreeSet<(String, String)> =
        history.places().unwrap().into_iter().map(|p| (p.resource, p.namespace)).collect();
    assert_eq!(found, want);
    let kinds = history.kinds().unwrap();
    let plurals = |word: &str| kinds.find(word).iter().map(|r| r.plural.clone()).collect::<Vec<_>>();
    assert_eq!(plurals("cm"), ["configmaps"]);
    assert_eq!(plurals("certificates.v1.cert-manager.io"), ["certificates"]);
    assert_eq!(kinds.0.len(), 4, "each once");
}
