//! What Prometheus makes of kubediff: real scrapes of a real run, judged by promtool, and every query of the dashboard
//! and every alert evaluated by Prometheus' own engine.

mod probes;
mod promql;

use std::{
    fs,
    io::Write,
    process::{Command, Output, Stdio},
    time::Duration,
};

use kubediff::metrics::ALL;
use regex::Regex;
use serde_json::Value;
use tokio::sync::OnceCell;

use self::promql::{Query, Scrape, evaluate};
use crate::{
    delivery::daemon::Kubediff,
    harness::{self, Answer, PATIENCE, Receiver, cluster::free_port, poll, tools},
    permissions,
};

const ALERTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/kubediff/alerts.yaml");
const FIRING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/alerts.test.yaml");
const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/kubediff/dashboards/kubediff.json");

async fn promtool(args: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(tools::path("promtool").await.unwrap_or_else(|why| panic!("{why}")));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Scrapes of a run that has a bit of everything: changes, noise, a sink that works, one that rejects, a route that
/// drops, one whose expression fails, and a resource that may not be read.
async fn scrapes() -> &'static Vec<Scrape> {
    static MADE: OnceCell<Vec<Scrape>> = OnceCell::const_new();
    MADE.get_or_init(make).await
}

async fn make() -> Vec<Scrape> {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("metrics").await;
    let (good, bad) = (Receiver::start(), Receiver::start());
    bad.answer(Answer::status(400));
    let reader = permissions::Reader::create(cluster, ns.name()).await;
    reader.allow(&["configmaps"]).await;
    let port = free_port();
    let config = format!(
        "[watch]\nnamespaces = [\"{ns}\"]\ninclude = [\"v1/configmaps\", \"v1/secrets\"]\nwatch_timeout_secs = 10\n\
         [server]\nprobes = \"127.0.0.1:{port}\"\npage = \"\"\n\
         [sinks.good]\ntype = \"webhook\"\nurl = \"{}\"\n[sinks.bad]\ntype = \"webhook\"\nurl = \"{}\"\n\
         [[routes]]\nname = \"halves\"\nmatch = {{ when = \"1 / (size(event.resource.name) - 6) == 9\" }}\nsinks = [\"good\"]\n\
         [[routes]]\nmatch = {{ names = [\"dull-*\"] }}\ndrop = \"dull\"\n\
         [[routes]]\nsinks = [\"good\", \"bad\"]\n",
        good.url("/hook"),
        bad.url("/hook")
    );
    let mut kubediff = Kubediff::new(&reader.kubeconfig, &config);
    kubediff.start().await;
    let (began, mut made, mut number) = (std::time::Instant::now(), Vec::new(), 0);
    let ended = |text: &str| text.contains("kubediff_watches_total{");
    // Until a watch has ended, which takes up to its 10 s, and a little longer.
    let mut after = 0;
    while after < 6 {
        assert!(began.elapsed() < PATIENCE, "no watch has ended; {}", fs::read_to_string(kubediff.log()).unwrap());
        for name in [format!("a-{number}"), format!("dull-{number}")] {
            cluster.kubectl(&["create", "configmap", &name, "-n", ns.name(), "--from-literal=a=b"]).await;
        }
        let touch = ["label", "configmap", "a-0", "-n", ns.name(), "--overwrite", &format!("n={number}")];
        cluster.kubectl(&touch).await;
        // The same resourceVersion's owner, a new generation of nothing: an update that the noise profile leaves out.
        let noise = format!("control-plane.alpha.kubernetes.io/leader={number}");
        cluster.kubectl(&["annotate", "configmap", "a-0", "-n", ns.name(), "--overwrite", &noise]).await;
        number += 1;
        let text = get(port, "/metrics").await.1;
        after += usize::from(ended(&text));
        made.push(Scrape { at: began.elapsed().as_secs_f64() + 1_800_000_000.0, text });
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    kubediff.stop().await;
    made
}

async fn get(port: u16, path: &str) -> (u16, String) {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = http.get(format!("http://127.0.0.1:{port}{path}")).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn promtool_takes_what_is_scraped_without_a_complaint() {
    let scrapes = scrapes().await;
    for scrape in [&scrapes[0], scrapes.last().unwrap()] {
        let output = promtool(&["check", "metrics"], &scrape.text).await;
        assert!(output.status.success() && said(&output).trim().is_empty(), "{}\n{}", said(&output), scrape.text);
    }
    let wrong = promtool(&["check", "metrics"], "# TYPE requests counter\nrequests 1\n").await;
    assert!(!wrong.status.success(), "it complains of what is wrong");
}

#[tokio::test]
async fn every_metric_is_served_and_no_label_names_an_object() {
    let text = &scrapes().await.last().unwrap().text;
    // These are there when something happened that does not happen here.
    let rare = ["kubediff_silenced_total"];
    for definition in ALL.iter().filter(|definition| !rare.contains(&definition.name)) {
        assert!(text.contains(&format!("# TYPE {} ", definition.name)), "{} in\n{text}", definition.name);
    }
    assert!(!text.contains("a-0") && !text.contains("dull-0"), "{text}");
    for line in [
        "resource=\"secrets\",scope=\"",
        "state=\"not_permitted\"} 1",
        "kubediff_suppressed_total{reason=\"noise\"} ",
        "kubediff_dropped_total{reason=\"dull\"} ",
        "kubediff_route_failures_total{route=\"halves\"} ",
        "kubediff_sink_deliveries_total{sink=\"bad\",outcome=\"dead\"} ",
        "kubediff_sink_attempts_total{sink=\"bad\",outcome=\"rejected\"} ",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    let value = |start: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let created = value("kubediff_changes_total{resource=\"configmaps\",type=\"created\"}");
    assert!(created >= 10.0, "{created} were created");
    let delivered = value("kubediff_sink_deliveries_total{sink=\"good\",outcome=\"delivered\"}");
    assert!(delivered >= 5.0);
    assert!(value("kubediff_sink_delivery_duration_seconds_count{sink=\"good\"}") >= 5.0);
    assert!(value("kubediff_state_commit_duration_seconds_count") >= 5.0);
    assert!(value("kubediff_state_disk_size_bytes") > 0.0 && value("kubediff_state_size_bytes") > 0.0);
}

/// The dashboard's panels, and all their queries.
fn dashboard(scrapes: &[Scrape]) -> (Vec<Value>, Vec<String>) {
    let mut dashboard: Value = serde_json::from_str(&fs::read_to_string(DASHBOARD).unwrap()).unwrap();
    let Value::Array(panels) = dashboard["panels"].take() else { panic!("no panels") };
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let queries = targets.map(|target| promql::filled(target["expr"].as_str().unwrap(), scrapes)).collect();
    (panels, queries)
}

#[tokio::test]
async fn every_query_of_the_dashboard_returns_data_from_a_scrape() {
    let scrapes = scrapes().await;
    let (panels, queries) = dashboard(scrapes);
    // What stands in for no data is none.
    let queries: Vec<Query> =
        queries.iter().map(|expr| Query::over(scrapes, &expr.replace(" or vector(0)", ""))).collect();
    assert!(queries.len() > 30, "{}", queries.len());
    for answer in evaluate(scrapes, &queries).await {
        assert!(!answer.series.is_empty(), "{} returns nothing", answer.expr);
    }
    let rows: Vec<_> =
        panels.iter().filter(|panel| panel["type"] == "row").map(|row| row["title"].as_str().unwrap()).collect();
    for stage in ["Source", "Reflector", "Redact", "Store", "Diff and event", "Route", "Ledger", "Sinks"] {
        assert!(rows.iter().any(|row| row.starts_with(stage)), "a row for {stage} in {rows:?}");
    }
}

#[tokio::test]
async fn of_two_replicas_the_dashboard_shows_what_both_see_once() {
    let scrapes = scrapes().await;
    // A standby sees all that the leader sees.
    let two = |line: &str| match line.split_once(['{', ' ']) {
        Some((name, rest)) if !line.starts_with('#') => {
            let rest = if line.contains('{') { format!(",{rest}") } else { format!("}} {rest}") };
            let of = |instance: &str| format!("{name}{{instance=\"{instance}\"{rest}\n");
            let standby = if name == "kubediff_leader" { of("b").replace(" 1\n", " 0\n") } else { of("b") };
            of("a") + &standby
        }
        _ => format!("{line}\n"),
    };
    let doubled: Vec<Scrape> =
        scrapes.iter().map(|one| Scrape { at: one.at, text: one.text.lines().map(two).collect() }).collect();
    let (_, queries) = dashboard(scrapes);
    let seen = |expr: &&String| expr.contains("kubediff_leader ==");
    let queries: Vec<Query> = queries.iter().filter(seen).map(|expr| Query::over(scrapes, expr)).collect();
    assert!(queries.len() > 15, "{}", queries.len());
    let (one, both) = (evaluate(scrapes, &queries).await, evaluate(&doubled, &queries).await);
    for (one, both) in one.iter().zip(&both) {
        assert!(!one.series.is_empty() && one.series == both.series, "{}:\n{one:?}\n{both:?}", one.expr);
    }
    let objects = [Query::last(scrapes, "sum(kubediff_informer_objects)")];
    let (one, both) = (evaluate(scrapes, &objects).await, evaluate(&doubled, &objects).await);
    assert_ne!(one[0].series, both[0].series, "without the leader they are counted twice");
}

#[tokio::test]
async fn promtool_takes_the_alerts_and_every_one_of_them_fires_on_data() {
    let checked = promtool(&["check", "rules", ALERTS], "").await;
    assert!(checked.status.success(), "{}", said(&checked));
    let tested = promtool(&["test", "rules", FIRING], "").await;
    assert!(tested.status.success(), "{}", said(&tested));
    let read = |path: &str| -> Value { serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap() };
    let tests = read(FIRING);
    let mut fired: Vec<&str> = Vec::new();
    for case in tests["tests"].as_array().unwrap().iter().flat_map(|test| test["alert_rule_test"].as_array().unwrap()) {
        if case["exp_alerts"].as_array().is_some_and(|alerts| !alerts.is_empty()) {
            fired.push(case["alertname"].as_str().unwrap());
        }
    }
    for rule in read(ALERTS)["groups"][0]["rules"].as_array().unwrap() {
        let name = rule["alert"].as_str().unwrap();
        assert!(fired.contains(&name), "no case in tests/fixtures/alerts.test.yaml lets {name} fire");
        assert!(rule["annotations"]["summary"].is_string() && rule["annotations"]["description"].is_string(), "{name}");
    }
}

#[tokio::test]
async fn no_alert_but_of_what_is_wrong_is_due_in_a_run_that_is_well() {
    let scrapes = scrapes().await;
    let rules: Value = serde_saphyr::from_str(&fs::read_to_string(ALERTS).unwrap()).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    // At the last two scrapes: one of them may catch a watch that is just beginning anew, and an alert waits for longer.
    let queries: Vec<Query> = rules
        .iter()
        .map(|rule| rule["expr"].as_str().unwrap())
        .flat_map(|expr| scrapes[scrapes.len() - 2..].iter().map(move |scrape| Query::at(scrape, expr)))
        .collect();
    let answers = evaluate(scrapes, &queries).await;
    let due: Vec<_> = rules
        .iter()
        .zip(answers.chunks(2))
        .filter(|(_, twice)| twice.iter().all(|answer| !answer.series.is_empty()))
        .map(|(rule, _)| rule["alert"].as_str().unwrap())
        // How full and how slow the disk of the machine is that runs the tests is not what this is about.
        .filter(|name| !["KubediffDiskNearlyFull", "KubediffDiskSlow"].contains(name))
        .collect();
    assert_eq!(due, ["KubediffNotPermitted", "KubediffRouteFails", "KubediffDeadLetters"]);
}

#[tokio::test]
async fn a_series_that_a_scrape_lacks_is_over_and_not_asked_for_any_more() {
    let scrape =
        |at: f64, state: &str| Scrape { at: 1_800_000_000.0 + at, text: format!("state{{is=\"{state}\"}} 1\n") };
    let scrapes = [scrape(0.0, "connecting"), scrape(1.0, "live")];
    let query = |scrape| Query::at(scrape, "state{is=\"connecting\"} == 1");
    let answers = evaluate(&scrapes, &[query(&scrapes[0]), query(&scrapes[1])]).await;
    assert_eq!((answers[0].series.len(), answers[1].series.len()), (1, 0));
}

#[test]
fn dashboard_and_alerts_name_no_metric_that_there_is_not() {
    let named = Regex::new(r"\bkubediff_[a-z_]+").unwrap();
    let known = |name: &str| {
        let plain = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        ALL.iter().any(|definition| definition.name == name || definition.name == plain)
    };
    let mut seen = 0;
    for path in [DASHBOARD, ALERTS] {
        for name in named.find_iter(&fs::read_to_string(path).unwrap()) {
            assert!(known(name.as_str()), "{path} names {}", name.as_str());
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
}

#[tokio::test]
async fn a_sink_that_is_configured_no_more_is_in_no_metric_and_what_waits_for_it_is_kept() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("removed").await;
    let (good, bad) = (Receiver::start(), Receiver::start());
    bad.answer(Answer::status(500));
    let port = free_port();
    let sink = |name: &str, receiver: &Receiver| {
        format!("[sinks.{name}]\ntype = \"webhook\"\nurl = \"{}\"\n", receiver.url("/hook"))
    };
    let one = format!(
        "[watch]\nnamespaces = [\"{ns}\"]\ninclude = [\"v1/configmaps\"]\n\
         [server]\nprobes = \"127.0.0.1:{port}\"\npage = \"\"\n{}",
        sink("good", &good)
    );
    let two = one.clone() + &sink("bad", &bad);
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &two);
    kubediff.start().await;
    cluster.kubectl(&["create", "configmap", "a", "-n", ns.name()]).await;
    let stuck = ["kubediff_sink_queue_depth{sink=\"bad\"} 1", "kubediff_sink_failing{sink=\"bad\"} 1"];
    let until_stuck = async || {
        poll(PATIENCE, "the sink fails", async || {
            let text = get(port, "/metrics").await.1;
            stuck.iter().all(|line| text.contains(line)).then_some(())
        })
        .await;
    };
    until_stuck().await;
    kubediff.reconfigure(&one).await;
    let text = get(port, "/metrics").await.1;
    assert!(text.contains("sink=\"good\"") && !text.contains("sink=\"bad\""), "{text}");
    kubediff.reconfigure(&two).await;
    until_stuck().await;
    bad.answer(Answer::ok());
    bad.wait_for_accepted(1, PATIENCE).await;
    kubediff.stop().await;
}
