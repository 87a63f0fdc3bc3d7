//! Many events: pages of them, how long those take, and plans that use the indexes. `make micro` asks of a million and
//! judges the times; the test of every day takes fewer and judges the answers alone.

use std::time::{Duration, Instant};

use super::*;

/// How many there are when `make micro` says nothing else.
const EVENTS: i64 = 20_000;
/// What nobody notices.
const MOST: Duration = Duration::from_millis(50);
/// Rows of a page: as the API has it when nobody says, and as the page asks for at first and then.
const PAGES: [usize; 3] = [100, 200, 1_000];
/// What is not there is known after so many pages, each of which says where the next begins: as many as a second holds, on a
/// slow machine too.
const MOST_PAGES: usize = 20;
/// Set by `make micro`.
const VARIABLE: &str = "KUBEDIFF_HISTORY_EVENTS";

/// Straight into the tables and by SQL alone, as a ledger of two weeks has it: a test that is not optimised would take
/// minutes for it.
pub(super) fn fill(path: &Path, events: i64) {
    let (_, writing) = Store::open(&Place::File(path.to_owned()), None).unwrap();
    writing.join();
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -65536; BEGIN").unwrap();
    let mut event = sample::event();
    (event.summary, event.resource.name) = ("SUMMARY".into(), "NAME".into());
    (event.owner, event.patch) = (None, None);
    let event = serde_json::to_string(&event).unwrap();
    connection
        .execute(
            "WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < ?1),
             m AS (SELECT seq, (seq * 2654435761) % 4294967296 / 16 AS mix FROM n),
             k AS (SELECT seq, mix, CASE WHEN mix % 100 < 70 THEN 0 WHEN mix % 100 < 85 THEN 1 WHEN mix % 100 < 95 THEN 2
                     WHEN mix % 100 < 99 THEN 3 ELSE 4 END AS kind, 'team-' || (mix / 100 % 50) AS namespace,
                     'app-' || (mix / 5000 % 40) AS owner FROM m)
             INSERT INTO events (seq, id, time, type, api_group, resource, kind, namespace, name, uid, owner_kind,
               owner_namespace, owner_name, classes, managers, summary, event, observed, version)
             SELECT seq, printf('%016x%016x', mix, seq), 1800000000000 + seq * 1200,
               CASE mix / 7 % 5 WHEN 3 THEN 'created' WHEN 4 THEN 'deleted' ELSE 'updated' END,
               CASE kind WHEN 1 THEN 'apps' WHEN 2 THEN 'apps' WHEN 4 THEN 'cert-manager.io' ELSE '' END,
               CASE kind WHEN 0 THEN 'pods' WHEN 1 THEN 'replicasets' WHEN 2 THEN 'deployments' WHEN 3 THEN 'configmaps'
                 ELSE 'certificates' END,
               CASE kind WHEN 0 THEN 'Pod' WHEN 1 THEN 'ReplicaSet' WHEN 2 THEN 'Deployment' WHEN 3 THEN 'ConfigMap'
                 ELSE 'Certificate' END,
               namespace, printf('%s-%05x', owner, mix / 5000 % 20000), '', 'Deployment', namespace, owner,
               CASE mix / 11 % 4 WHEN 0 THEN ' status ' WHEN 1 THEN ' spec ' WHEN 2 THEN ' image ' ELSE ' scale ' END,
               CASE WHEN mix % 1000 = 3 THEN ' kubectl-edit ' ELSE ' kube-controller-manager ' END,
               printf('container %s: image nginx:1.%d -> nginx:1.%d, %s', owner, mix % 40, mix % 40 + 1,
                 iif(seq % 2, 'odd', 'even')), x'', 'live', 'v1' FROM k",
            rusqlite::params![events],
        )
        .unwrap();
    connection
        .execute(
            "UPDATE events SET event = CAST(replace(replace(?1, 'SUMMARY', summary), 'NAME', name) AS BLOB)",
            [event],
        )
        .unwrap();
    // As `search::entry` writes it.
    connection
        .execute_batch(
            "WITH e AS (SELECT *, resource || iif(api_group = '', '', '.' || api_group) AS plural FROM events)
             INSERT INTO search (rowid, words) SELECT seq, '~t=' || type || ' ~o=live ~r=' || plural || ' ~n=' || namespace
               || ' ~m=' || name || ' ~w=deployment/' || namespace || '/' || owner_name || ' ~c=' || trim(classes)
               || ' ~u=' || trim(managers) || ' ~h=' || (managers = ' kubectl-edit ') || ' ~a=' || plural || '|' || namespace
               || ' ' || replace(replace(replace(replace(replace(summary, ':', ' '), '.', ' '), '-', ' '), '>', ' '), ',', ' ')
               || ' ' || replace(name, '-', ' ') || ' spec template containers web image' FROM e;
             INSERT INTO event_ids SELECT substr(id, 1, 12), seq FROM events ORDER BY 1, 2;
             INSERT INTO meta (key, value) SELECT 'searched', max(seq) FROM events;
             COMMIT",
        )
        .unwrap();
    drop(connection);
    let mut connection = Connection::open(path).unwrap();
    let transaction = connection.transaction().unwrap();
    tally::fill_all(&transaction).unwrap();
    transaction.commit().unwrap();
}

fn filter(parameters: &[(&str, &str)]) -> Filter {
    filter_at(parameters, Timestamp::from_second(1_801_200_000).unwrap())
}

fn filter_at(parameters: &[(&str, &str)], now: Timestamp) -> Filter {
    let mut filter = Filter::default();
    for (name, text) in parameters {
        assert!(filter.set(name, text, now).unwrap());
    }
    filter
}

fn timed(ask: &dyn Fn() -> u64) -> (Duration, u64) {
    let began = Instant::now();
    let answer = ask();
    (began.elapsed(), answer)
}

/// Questions of the page, rare and common, alone and together.
const QUESTIONS: &[&[(&str, &str)]] = &[
    &[],
    &[("kind", "Deployment")],
    &[("kind", "certificates.cert-manager.io"), ("type", "deleted")],
    &[("namespace", "team-7")],
    &[("namespace", "team-7"), ("kind", "cm"), ("class", "scale")],
    &[("namespace", "team-1*"), ("class", "image")],
    &[("name", "app-3-00001")],
    &[("name", "app-3*")],
    &[("name", "app-3*"), ("type", "created")],
    &[("name", "app-3-0001*")],
    &[("name", "*-00001")],
    &[("name", "*nosuchname*")],
    &[("owner", "Deployment/team-3/app-3")],
    &[("owner", "Deployment/team-3/*"), ("class", "scale")],
    &[("hand", "true")],
    &[("hand", "false")],
    &[("hand", "true"), ("kind", "Certificate")],
    &[("manager", "!kube-controller-manager")],
    &[("type", "!updated"), ("namespace", "!team-1,!team-2")],
    &[("q", "nginx 39 ")],
    &[("q", "nginx 39")],
    &[("q", "app 17 templ")],
    &[("q", "39 contai")],
    &[("q", "odd eve")],
    &[("q", "odd app container even ")],
    &[("q", "odd eve"), ("since", "1h")],
    &[("q", "a")],
    &[("q", "0")],
    &[("q", "00")],
    &[("q", "000f")],
    &[("q", "nosuchword")],
    &[("observed", "late")],
    &[("since", "2027-01-20T00:00:00Z"), ("until", "2027-01-20T01:00:00Z"), ("kind", "po")],
    &[("since", "1h")],
];

#[test]
fn pages_are_in_order_and_what_the_page_asks_of_a_million_events_takes_less_than_50_ms() {
    let asked: Option<i64> = std::env::var(VARIABLE).ok().map(|text| text.parse().unwrap());
    let events = asked.unwrap_or(EVENTS);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.db");
    let began = Instant::now();
    fill(&path, events);
    println!("filled in {:.1} s, {} MB", began.elapsed().as_secs_f32(), std::fs::metadata(&path).unwrap().len() >> 20);
    let history = History::open(&path).unwrap();
    let sights = [
        Sight::Everything,
        Sight::Only(history.places().unwrap().into_iter().filter(|place| place.namespace == "team-9").collect()),
    ];
    let (mut slowest, mut slowest_count, mut slow) = (Duration::ZERO, Duration::ZERO, Vec::new());
    for question in QUESTIONS {
        let filter = filter(question);
        for (sight, who) in sights.iter().zip(["everything", "one namespace"]) {
            let places = [
                (Order::Desc, None),
                (Order::Desc, Some(events / 2)),
                (Order::Desc, Some(1_000)),
                (Order::Asc, Some(events / 3)),
            ];
            for (size, (order, cursor)) in PAGES.into_iter().flat_map(|size| places.map(|place| (size, place))) {
                // Each page, until there are enough: the best of three, other tests run beside this one.
                let (mut rows, mut at, mut took) = (Vec::new(), cursor, Duration::ZERO);
                let mut pages = 0;
                loop {
                    let ask = |_| {
                        let began = Instant::now();
                        let page = history.page(&filter, sight, order, at, size - rows.len()).unwrap();
                        (began.elapsed(), page)
                    };
                    let (one, page) = (0..3).map(ask).min_by_key(|(took, _)| *took).unwrap();
                    took = took.max(one);
                    pages += 1;
                    rows.extend(page.rows);
                    assert!(page.next.is_none() || page.next != at, "{question:?} does not go on");
                    at = page.next;
                    if rows.len() >= size || at.is_none() {
                        break;
                    }
                }
                let (newer, older) = if order == Order::Desc { (0, 1) } else { (1, 0) };
                assert!(rows.windows(2).all(|pair| pair[newer].seq > pair[older].seq), "{question:?}");
                let beyond = |seq: i64| cursor.is_none_or(|at| (order == Order::Desc) == (seq < at));
                assert!(rows.iter().all(|row| beyond(row.seq) && Some(row.seq) != cursor), "{question:?}");
                slowest = slowest.max(took);
                let rows = rows.len();
                println!(
                    "{took:>10.1?} {rows:>4} of {size} rows, {pages} pages  {question:?} {who} {order:?} {cursor:?}"
                );
                if asked.is_some() && (took >= MOST || pages > MOST_PAGES) {
                    slow.push(format!(
                        "{size} rows of {question:?} {who} {order:?} {cursor:?}: {took:?}, {pages} pages"
                    ));
                }
            }
        }
    }
    let now = Timestamp::from_millisecond(1_800_000_000_000 + events * 1200).unwrap();
    let counted: &[&[(&str, &str)]] = &[
        &[],
        &[("since", "1d")],
        &[("since", "2h")],
        &[("since", "1h"), ("until", "30m")],
        &[("hand", "true")],
        &[("kind", "Pod"), ("type", "updated")],
        &[("kind", "deploy"), ("namespace", "team-1*"), ("since", "3d")],
        &[("manager", "!kube-controller-manager"), ("class", "image")],
        &[("owner", "Deployment/team-3/app-3")],
        &[("name", "app-3-00001")],
        &[("q", "nginx")],
        &[("q", "nginx 39 ")],
        &[("q", "39 contai")],
        &[("q", "odd eve")],
        &[("q", "odd app container even ")],
        &[("q", "a")],
        &[("q", "0")],
        &[("q", "000f")],
        &[("q", "nosuchword")],
        &[("q", "app 17 templ"), ("namespace", "team-7")],
        &[("name", "app-3*")],
        &[("name", "*-00001")],
    ];
    for question in counted {
        let filter = filter_at(question, now);
        for (sight, who) in sights.iter().zip(["everything", "one namespace"]) {
            let mut of = |what: &str, ask: &dyn Fn() -> u64| {
                let (took, counted) = (0..3).map(|_| timed(ask)).min().unwrap();
                slowest_count = slowest_count.max(took);
                println!("{took:>10.1?} {counted:>8} in {what}  {question:?} {who}");
                if asked.is_some() && took >= MOST {
                    slow.push(format!("{what} {question:?} {who} took {took:?}"));
                }
            };
            of("density", &|| {
                let density = history.density(&filter, sight, 150, now).unwrap();
                density.buckets.iter().map(|bucket| bucket.created + bucket.updated + bucket.deleted).sum()
            });
            of("facets", &|| {
                let facets = history.facets(&filter, sight).unwrap();
                assert!(!facets.partial || filter.names != Words::default() || !filter.text.is_empty());
                facets.kind.iter().map(|kind| kind.count).sum()
            });
        }
    }
    for (what, ask) in [
        ("places", &(|| history.places().unwrap().len() as u64) as &dyn Fn() -> u64),
        ("kinds", &|| history.kinds().unwrap().0.len() as u64),
    ] {
        println!("{:>10.1?} {what}", timed(ask).0);
    }
    println!("of {events} events the slowest page took {slowest:.1?}, the slowest count {slowest_count:.1?}");
    assert!(slow.is_empty(), "{slow:#?}");
}

#[test]
fn no_question_scans_the_wide_rows_or_sorts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.db");
    fill(&path, 200);
    let mut history = History::open(&path).unwrap();
    for question in QUESTIONS {
        let question = filter(question).question(&history.kinds().unwrap(), &Sight::Everything).unwrap();
        for order in [Order::Asc, Order::Desc] {
            check(&history, &scan::sql(&history.plan(&question).unwrap(), order));
            check(&history, &scan::sql(&plan::Plan::ROWS, order));
        }
    }
    // What is asked by name of an object or an event.
    assert!(history.life(&name("pods", "team-1", "app-1")).is_err());
    for sql in [
        rows::BY_ID,
        rows::BY_ID_NEWEST,
        "SELECT seq FROM events INDEXED BY events_by_object WHERE api_group = ?1 AND resource = ?2 AND namespace = ?3
         AND name = ?4 AND seq < ?5 ORDER BY seq DESC LIMIT 10",
        "SELECT id, summary FROM events WHERE seq = ?1",
    ] {
        check(&history, sql);
    }
}

fn check(history: &History, sql: &str) {
    let mut statement = history.connection().prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let count = statement.parameter_count();
    let plan: Vec<String> = statement
        .query_map(rusqlite::params_from_iter(vec!["a"; count]), |row| row.get(3))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    for line in &plan {
        assert!(!line.contains("TEMP B-TREE"), "{sql}: {plan:#?}");
        assert!(!line.starts_with("SCAN") || line.contains("VIRTUAL TABLE"), "{sql}: {plan:#?}");
    }
}
