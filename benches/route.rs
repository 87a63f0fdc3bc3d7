//! What it costs to find an event's sinks among 200 routes. It fails when the usual case, routes by team, takes more than 50
//! microseconds by the median of many runs.

use std::{
    hint::black_box,
    process::ExitCode,
    time::{Duration, Instant},
};

use criterion::Criterion;
use kubediff::{
    event::Event,
    route::{Context, Match, Route, Rules, Table},
    sink::sample,
};

const BUDGET: Duration = Duration::from_micros(50);
/// As many as are timed together, since a clock has its own grain.
const BATCH: u32 = 100;
const BATCHES: usize = 101;

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// As teams write them: a namespace or its labels each, a kind or a class here and there, now and then an expression.
fn team(index: usize) -> Match {
    let mut matching = Match { namespaces: vec![format!("team-{index}-*")], ..Match::default() };
    match index % 5 {
        0 => matching.kinds = texts(&["Deployment", "StatefulSet", "*Set"]),
        1 => matching.not_managers = texts(&["argocd*", "flux*"]),
        2 => matching.paths = texts(&["spec.**.image", "/metadata/labels/*"]),
        3 => matching.labels = format!("team={index},tier in (front, back)"),
        _ => matching.when = "event.changes.exists(c, c.field.endsWith('.image'))".into(),
    }
    matching
}

fn table(matching: impl Fn(usize) -> Match) -> Table {
    let routes = (0..200).map(|index| Route {
        name: format!("route {index}"),
        matching: matching(index),
        sinks: vec![format!("sink-{}", index % 20)],
        go_on: true,
        ..Route::default()
    });
    let sinks = (0..20).map(|index| format!("sink-{index}")).collect();
    Table::new(&Rules { sinks, routes: routes.collect(), annotations: true, ..Rules::default() }).expect("right routes")
}

/// The middle one of many runs.
fn median(mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..BATCHES)
        .map(|_| {
            let began = Instant::now();
            (0..BATCH).for_each(|_| run());
            began.elapsed() / BATCH
        })
        .collect();
    times.sort_unstable();
    times[BATCHES / 2]
}

fn main() -> ExitCode {
    let mut criterion = Criterion::default().configure_from_args();
    let mut event: Event = sample::event();
    event.resource.namespace = "team-77-prod".into();
    let context = Context::at(event.time);
    let mut group = criterion.benchmark_group("200 routes");
    let teams = table(team);
    group.bench_function("by team", |b| b.iter(|| black_box(teams.route(black_box(&event), &context))));
    // No namespace says no first: every route looks at labels, paths and managers.
    let slow = table(|index| Match { namespaces: Vec::new(), when: String::new(), ..team(index) });
    group.bench_function("no namespaces", |b| b.iter(|| black_box(slow.route(black_box(&event), &context))));
    let expressions =
        table(|index| Match { when: format!("event.resource.name == 'web-{index}'"), ..Match::default() });
    group.bench_function("200 expressions", |b| b.iter(|| black_box(expressions.route(black_box(&event), &context))));
    // Left to the general evaluation: what a field became is any value, and this asks more of it than whether it is one.
    let values = table(|index| Match {
        when: format!("event.changes.exists(c, c.field.endsWith('.replicas') && int(c.to) > {index})"),
        ..Match::default()
    });
    group.bench_function("200 general expressions", |b| {
        b.iter(|| black_box(values.route(black_box(&event), &context)));
    });
    group.bench_function("explained", |b| b.iter(|| black_box(teams.explain(black_box(&event), &context))));
    group.finish();
    criterion.final_summary();

    // `cargo test` runs it too, without optimisation, to see that it runs.
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let took = median(|| drop(black_box(teams.route(black_box(&event), &context))));
    let kept = took < BUDGET;
    println!("200 routes by team: median {took:?}, budget of {BUDGET:?}: {}", if kept { "kept" } else { "missed" });
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
