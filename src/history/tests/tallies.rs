//! What the tallies say is what there is, however much was forgotten and whoever looks.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::{
    history::counts::{Density, Way},
    ledger::retention::{Keep, remove},
};

/// A Tuesday, in the middle of an hour.
const NOON: i64 = 1_800_016_000_000;
const DAY: i64 = 86_400_000;

/// When, and which of a few kinds, namespaces, types and managers.
type Deed = (i64, u8, u8, u8, u8);

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    // Close together and far apart, also a little back in time.
    let time = prop_oneof![3 => 0..240_000i64, 2 => 0..4 * 3_600_000i64, 1 => 0..5 * DAY];
    let deed = ((time, -240_000..240_000i64), 0..3u8, 0..3u8, 0..3u8, 0..4u8);
    vec(deed, 1..60).prop_map(|mut deeds| {
        deeds.sort_by_key(|deed| deed.0.0);
        deeds.into_iter().map(|((time, set_by), a, b, c, d)| (time + set_by, a, b, c, d)).collect()
    })
}

fn event((time, kind, namespace, sort, manager): Deed, n: usize) -> Event {
    let mut event = sample::event();
    event.id = format!("{n:032x}");
    event.time = Timestamp::from_millisecond(NOON + time).unwrap();
    let (group, resource, kind) =
        [("apps", "deployments", "Deployment"), ("", "pods", "Pod"), ("", "nodes", "Node")][usize::from(kind)];
    let r = &mut event.resource;
    (r.group, r.resource, r.kind) = (group.into(), resource.into(), kind.into());
    r.namespace = if kind == "Node" { String::new() } else { format!("team-{namespace}") };
    event.kind = [Kind::Created, Kind::Updated, Kind::Deleted][usize::from(sort)];
    let names: &[&str] = [&[][..], &["kubectl-edit"], &["argocd", "kubelet"], &["kubelet"]][usize::from(manager)];
    let actor = |name: &&str| Actor { manager: (*name).to_owned(), ..event.actors[0].clone() };
    event.actors = names.iter().map(actor).collect();
    event
}

/// Parameters, and from when on for how long.
type Asked = (Vec<(&'static str, String)>, Option<(i64, i64)>);

fn questions() -> impl Strategy<Value = Asked> {
    let one = select(vec![
        ("kind", "Pod"),
        ("kind", "!deploy"),
        ("namespace", "team-1"),
        ("namespace", "!team-*,"),
        ("type", "updated,deleted"),
        ("class", "image"),
        ("manager", "kube*"),
        ("manager", "!argocd"),
        ("hand", "true"),
        ("hand", "false"),
        ("observed", "live"),
    ]);
    let filters = vec(one.prop_map(|(name, text)| (name, text.to_owned())), 0..3);
    let period = prop::option::of((-10_000..5 * DAY, 1..5 * DAY));
    (filters, period)
}

async fn check(deeds: Vec<Deed>, forget: usize, late: usize, question: Asked, buckets: usize) {
    let rig = Rig::new();
    let counted = deeds.len().saturating_sub(late);
    for (n, deed) in deeds.iter().enumerate() {
        if n == counted {
            rig.index().await;
        }
        rig.append(event(*deed, n)).await;
    }
    // The oldest by number, of which some may not be counted yet.
    let cut = deeds.iter().take(forget).map(|deed| NOON + deed.0).max().unwrap_or(NOON);
    rig.store
        .write(Box::new(move |transaction| {
            remove(transaction, Keep { age: std::time::Duration::ZERO, max_bytes: u64::MAX }, cut, 0).map(drop)
        }))
        .await
        .unwrap();
    let history = rig.history();
    let (parameters, period) = question;
    let mut filter = Filter::default();
    for (name, text) in &parameters {
        assert!(filter.set(name, text, Timestamp::now()).unwrap());
    }
    let at = |ms: i64| Timestamp::from_millisecond(NOON + ms).unwrap();
    if let Some((since, length)) = period {
        (filter.since, filter.until) = (Some(at(since)), Some(at(since + length)));
    }
    let until = filter.until.unwrap_or(at(6 * DAY));
    let places = history.places().unwrap();
    let some = places.iter().filter(|place| place.namespace != "team-2").cloned().collect();
    for sight in [Sight::Everything, Sight::Only(some), Sight::Only(Default::default())] {
        let rows = history.page(&filter, &sight, Order::Asc, None, 1_000).unwrap().rows;
        let question = history.question(&filter, &sight).unwrap();
        for way in [Way::Rows, Way::Tallies] {
            let density = history.density_by(way, &question, filter.since, until, buckets).unwrap();
            assert!(density.buckets.len() <= buckets.max(2), "{density:?}");
            assert!(density == expected(&density, &rows), "{way:?} {filter:?} {sight:?}");
        }
        let apart = filter.ask_apart(&history.kinds().unwrap(), &sight).unwrap();
        let facets = history.facets_by(Way::Tallies, &apart).unwrap();
        assert_eq!(facets, history.facets_by(Way::Rows, &apart).unwrap(), "{filter:?} {sight:?}");
    }
    let sum: i64 =
        history.connection().query_row("SELECT coalesce(sum(events), 0) FROM profiles", [], |r| r.get(0)).unwrap();
    let below: i64 = history
        .connection()
        .query_row(
            "SELECT count(*) FROM events WHERE seq <= ?1",
            [tally::counted(history.connection()).unwrap()],
            |r| r.get(0),
        )
        .unwrap();
    assert_eq!(sum, below, "nothing is left of what was forgotten");
}

/// The same buckets, filled by hand.
fn expected(density: &Density, rows: &[Row]) -> Density {
    let mut want = density.clone();
    for bucket in &mut want.buckets {
        let start = bucket.start.as_millisecond();
        let within = |row: &&Row| (start..start + density.seconds * 1000).contains(&row.time.as_millisecond());
        let of = |kind: &str| rows.iter().filter(within).filter(|row| row.event_type == kind).count() as u64;
        (bucket.created, bucket.updated, bucket.deleted) = (of("created"), of("updated"), of("deleted"));
    }
    let (first, last) = (want.buckets.first().unwrap(), want.buckets.last().unwrap());
    assert!(first.start <= density.since, "{density:?}");
    assert!(last.start.as_millisecond() + density.seconds * 1000 >= density.until.as_millisecond(), "{density:?}");
    want
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn what_is_tallied_is_what_is_there(
        deeds in deeds(), forget in 0..30usize, late in 0..10usize, question in questions(), buckets in 1..200usize
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(check(deeds, forget, late, question, buckets));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_nobody_counted_in_is_caught_up_with() {
    let rig = Rig::new();
    for n in 0..10 {
        rig.append(event((n * 1000, 1, 1, 1, 1), n as usize)).await;
    }
    let history = rig.history();
    let all = Filter::default();
    let before = history.facets_by(Way::Tallies, &history.question(&all, &Sight::Everything).unwrap()).unwrap();
    assert_eq!(before.kind, [counts::Count { value: "Pod".into(), count: 10 }], "the events themselves are counted");
    rig.store.write(Box::new(tally::fill_all)).await.unwrap();
    let after = history.facets_by(Way::Tallies, &history.question(&all, &Sight::Everything).unwrap()).unwrap();
    assert_eq!(after, before);
    assert_eq!(tally::counted(history.connection()).unwrap(), 10);
}
