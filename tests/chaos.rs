//! Chaos: a random workload and random faults at once, and one oracle. `make chaos` runs it for as long as one likes.
//!
//! One kubediff, or two of which a Lease says which one delivers: the seed says so, or `KUBEDIFF_CHAOS_REPLICAS`.
//!
//! | file | what it holds |
//! |---|---|
//! | [`schedule`] | what happens and when; a pure function of the seed |
//! | [`work`] | the changes that are made to the cluster |
//! | [`faults`] | what is done to the server, the wire, kubediff and the receiver |
//! | [`subject`] | the kubediff under test, its disk and its clock |
//! | [`oracle`] | what must be true at the end |
//! | [`told`] | what the received events come to |
//! | [`timeline`] | the written story of a run, and how often what struck |

mod faults;
mod oracle;
mod schedule;
mod subject;
mod timeline;
mod told;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use futures::future::join_all;

use self::{
    faults::{Config, Rights},
    oracle::{Fresh, Replay},
    schedule::{Daemon, Schedule, Server, Shape},
    subject::{Subject, metric},
    timeline::Timeline,
    work::Work,
};
use crate::{
    harness::{self, Answer, Cluster, Options, PATIENCE, Proxy, Receiver, guard::Directory, poll},
    leaks::search::{Planted, state},
};

/// In `make test`, each of two seeds.
const SHORT: Duration = Duration::from_secs(30);
/// Of these, the one for two replicas, and the one for a single one, of which more is asked: each event follows from the
/// last. The server is killed and forgets its history while that one runs.
const PAIR: u64 = 3;
const ALONE: u64 = 141;
/// What is to strike in so short a run begins by then: restarting a server takes its time.
const EARLY_MS: u64 = 14_000;
/// How long after the last fault everything may take to be told: the longest pause of a reflector is 30 s.
const SETTLE: Duration = Duration::from_secs(150);
/// What a process may take over what it took when it was first in sync, whatever is done to it and for however long: 4 MiB
/// of objects on their way to the writer, up to 2 MiB of pages for each of SQLite's connections (the writer, the sinks, who
/// looks), as much again for answers and events that are on their way, and what the allocator keeps. Nothing that waits in
/// the file or in the cluster is part of it, so it does not depend on how much is lost or late.
const MOST_GROWTH_KIB: u64 = 24 << 10;
const MOST_FILES: u64 = 256;
/// How long after the last change a standby may have something on its list that its leader has told: marks come every
/// second.
const KEPT: Duration = Duration::from_secs(15);
/// From this length on every fault has to have struck, or the run shows nothing.
const LONG: Duration = Duration::from_secs(540);

#[test]
fn the_schedule_is_a_pure_function_of_the_seed_and_holds_every_fault() {
    let of = |seed| Schedule::new(seed, Duration::from_secs(600), Some(2));
    assert_eq!(of(7), of(7));
    assert_ne!(of(7).work, of(8).work);
    // One with custom resources, and one of those that need no list.
    let custom = |schedule: &Schedule| !schedule.shape.by_namespace;
    let schedule = (7..).map(of).find(|one| custom(one) && !one.shape.resumable).expect("some seed has them");
    let resumable = (7..).map(of).find(|one| one.shape.resumable).expect("some seed is one");
    let faults = format!("{:?} {:?}", resumable.server, resumable.wire);
    for listing in ["Kill", "Compact", "code: 410", "code: 504", "CutList"] {
        assert!(!faults.contains(listing), "{listing} in {faults}");
    }
    assert!(schedule.work.len() > 5_000, "{} changes", schedule.work.len());
    let words = |texts: Vec<String>| -> BTreeSet<String> {
        let word = |text: &String| text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned();
        texts.iter().map(word).collect()
    };
    fn texts<T: std::fmt::Debug>(lane: &[schedule::At<T>]) -> Vec<String> {
        lane.iter().map(|at| format!("{:?}", at.what)).collect()
    }
    for (lane, all, found) in [
        ("work", "CreateCrd Delete DeleteCrd DeleteNamespace Put Rollout", words(texts(&schedule.work))),
        ("server", "Compact DeleteLease Forbid Kill Pause", words(texts(&schedule.server))),
        (
            "wire",
            "Answer Cut CutList End ErrorEvent Hang Partition Refuse Stall Tear",
            words(schedule.wire.iter().flat_map(|lane| texts(lane)).collect()),
        ),
        (
            "daemon",
            "Clock DiskFull Failpoint Kill Reload Stop Suspend WrongConfig",
            words(schedule.daemon.iter().flat_map(|lane| texts(lane)).collect()),
        ),
        ("receiver", "Failing Hanging Limiting Mixed Refusing", words(texts(&schedule.receiver))),
    ] {
        let found: Vec<String> = found.into_iter().collect();
        assert_eq!(found.join(" "), all, "{lane}");
    }
}

#[test]
fn the_seeds_of_make_test_hold_what_they_were_chosen_for() {
    let alone = |seed| {
        let Schedule { shape, server, .. } = Schedule::new(seed, SHORT, Some(1));
        let early = |wanted: fn(&Server) -> bool| server.iter().any(|at| at.ms < EARLY_MS && wanted(&at.what));
        let struck = early(|what| matches!(what, Server::Kill { .. })) && early(|what| matches!(what, Server::Compact));
        struck && !shape.resumable && !shape.by_namespace && !shape.everything && !shape.controllers
    };
    assert!(
        alone(ALONE),
        "{ALONE} does not: {:?} do",
        (1..10_000).filter(|seed| alone(*seed)).take(5).collect::<Vec<_>>()
    );
    let pair = Schedule::new(PAIR, SHORT, Some(2));
    let ends = |what: &Daemon| matches!(what, Daemon::Kill { .. } | Daemon::Stop { .. } | Daemon::Suspend { .. });
    let ended: Vec<bool> = pair.daemon.iter().map(|lane| lane.iter().any(|at| ends(&at.what))).collect();
    assert!(ended.contains(&true), "the lead never changes: {:?}", pair.daemon);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_whatever_the_fixed_seed_does_to_two_replicas() {
    run(PAIR, SHORT, Some(2)).await;
}

/// `make chaos` is this test: `KUBEDIFF_CHAOS_SEED`, `KUBEDIFF_CHAOS_SEEDS` (how many, from that one on),
/// `KUBEDIFF_CHAOS_MINUTES` and `KUBEDIFF_CHAOS_REPLICAS` say what it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_whatever_a_random_seed_does() {
    let asked = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let number = |name: &str| asked(name).map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}")));
    // In `make test` the same one each time: a failure there is one of the change that is tested.
    let pinned = ["KUBEDIFF_CHAOS_MINUTES", "KUBEDIFF_CHAOS_SEED"].iter().all(|name| asked(name).is_none());
    let random = || if pinned { ALONE } else { rand::random_range(1_000..1_000_000) };
    let first: u64 = number("KUBEDIFF_CHAOS_SEED").unwrap_or_else(random);
    let seeds = number("KUBEDIFF_CHAOS_SEEDS").unwrap_or(1);
    let replicas = number("KUBEDIFF_CHAOS_REPLICAS").or_else(|| pinned.then_some(1));
    let replicas = replicas.map(|replicas| usize::try_from(replicas).expect("one or two"));
    assert!(replicas.is_none_or(|replicas| (1..=2).contains(&replicas)), "one or two replicas");
    let length = asked("KUBEDIFF_CHAOS_MINUTES").map_or(SHORT, |text| {
        let minutes: f64 = text.parse().unwrap_or_else(|_| panic!("KUBEDIFF_CHAOS_MINUTES is {text:?}"));
        Duration::from_secs_f64(minutes * 60.0)
    });
    for seed in first..first + seeds {
        run(seed, length, replicas).await;
    }
}

/// One seed. Panics with what is wrong and how to see it again.
async fn run(seed: u64, length: Duration, replicas: Option<usize>) {
    let minutes = length.as_secs_f64() / 60.0;
    let schedule = Schedule::new(seed, length, replicas);
    let replicas = schedule.shape.replicas;
    harness::say(format_args!("chaos: seed {seed} for {minutes:.1} minutes, {replicas} replica(s)"));
    let timeline = Timeline::create(seed);
    let result = Box::pin(attempt(schedule, &timeline)).await;
    match result {
        Ok(told) => harness::say(format_args!("chaos: seed {seed}: {told}")),
        Err(wrong) => {
            wrong.iter().for_each(|line| timeline.note(format_args!("WRONG: {line}")));
            let shown: Vec<String> = wrong.iter().take(8).map(|line| line.chars().take(1_500).collect()).collect();
            panic!(
                "chaos: seed {seed} failed, {} times:\n{}\nagain: make chaos SEED={seed} MINUTES={minutes} \
                 REPLICAS={replicas}\nwhat was done, the logs and the state: {}",
                wrong.len(),
                shown.join("\n"),
                timeline.folder().display()
            );
        }
    }
}

async fn attempt(schedule: Schedule, timeline: &Timeline) -> Result<String, Vec<String>> {
    let shape = schedule.shape.clone();
    timeline.note(format_args!("{shape:?}"));
    let options = Options { controllers: shape.controllers, watch_cache: shape.watch_cache, ..Options::default() };
    let mut cluster = Cluster::start(options).await;
    let access = cluster.access().clone();
    let (rights, token) = Rights::grant(&access).await;
    let dir = Directory::create().expect("a temporary folder");
    let (hook, extra) = (Receiver::start(), Receiver::start());
    let proxies: Vec<Proxy> = (0..shape.replicas).map(|_| Proxy::start(&access)).collect();
    let mut subjects: Vec<Subject> = proxies
        .iter()
        .enumerate()
        .map(|(replica, proxy)| {
            let folder = dir.path().join(format!("replica-{replica}"));
            std::fs::create_dir(&folder).expect("a writable folder");
            let kubeconfig = proxy.access().with_token(&token).write_kubeconfig(&folder, "kubeconfig");
            Subject::new(&folder, &kubeconfig)
        })
        .collect();
    let config = Config {
        shape: shape.clone(),
        probes: subjects.iter().map(Subject::probes).collect(),
        hook: hook.url("/hook"),
        extra: extra.url("/extra"),
    };
    for (replica, subject) in subjects.iter_mut().enumerate() {
        subject.write_config(&config.usual(replica));
        subject.spawn(None);
        poll(PATIENCE * 2, "kubediff to be ready", async || {
            assert!(subject.died().is_none(), "it ended: {}", subject.log_tail());
            (subject.page("/readyz").await?.0 == 200).then_some(())
        })
        .await;
        subject.usage().note_base();
    }

    let canary = format!("canary{:016x}", rand::random::<u64>());
    let timeline = &timeline.restarted();
    let work = Work::new(&access, timeline, &canary, shape.controllers);
    let usages: Vec<_> = subjects.iter().map(|subject| (subject.usage(), subject.probes())).collect();
    let sample = async || drop(join_all(usages.iter().map(|(usage, probes)| usage.sample(*probes))).await);
    let all = async {
        let wires = proxies.iter().enumerate();
        let wires = wires.map(|(replica, proxy)| faults::wire(&schedule, timeline, replica, proxy));
        let daemons = subjects.iter_mut().enumerate();
        let daemons = daemons.map(|(replica, subject)| faults::daemon(&schedule, timeline, replica, subject, &config));
        tokio::join!(
            work.run(&schedule),
            faults::server(&schedule, timeline, &mut cluster, &rights, &proxies),
            join_all(wires),
            join_all(daemons),
            faults::receiver(&schedule, timeline, &hook),
        )
    };
    let (_, _, _, wrong, _) = tokio::select! { done = all => done, () = sample() => unreachable!() };
    let mut wrong = wrong.concat();
    proxies.iter().for_each(Proxy::heal);
    timeline.note("all is healed");

    // Everything is told, in the end and in time.
    let mut replay = Replay::new(shape.by_namespace, shape.replicas > 1);
    let fresh = Fresh::new(&access, &subjects[0].state(), !shape.by_namespace);
    let settled = async {
        let until = Instant::now() + SETTLE;
        let mut last = vec!["the server did not answer".to_owned()];
        let mut kept_since = None;
        while Instant::now() < until {
            if let Some(ended) = subjects.iter_mut().find_map(Subject::died) {
                return vec![format!("kubediff ended by itself: {ended}")];
            }
            let finished = work.finish().await;
            replay.read(&hook);
            if !replay.wrong.is_empty() {
                return Vec::new();
            }
            if let Some(is) = fresh.list().await {
                last = replay.differences(&is);
                let waiting = join_all(subjects.iter().map(queued)).await;
                if finished && last.is_empty() && waiting.iter().all(|waiting| *waiting == Some(0.0)) {
                    return Vec::new();
                }
                if last.is_empty() {
                    last = vec![format!("events wait to be delivered ({waiting:?}), or a namespace does not end")];
                }
                // What one replica alone knows of it tells when it leads.
                let kept =
                    waiting.contains(&Some(0.0)) && waiting.iter().any(|waiting| waiting.is_some_and(|n| n > 0.0));
                match (kept, kept_since) {
                    (true, Some(since)) if Instant::now() > since + KEPT => {
                        timeline.note(format_args!("{waiting:?} wait: the leader hands over"));
                        hand_over(&mut subjects, timeline).await;
                        kept_since = None;
                    }
                    (true, None) => kept_since = Some(Instant::now()),
                    (true, Some(_)) => {}
                    (false, _) => kept_since = None,
                }
            }
            let first: String = last.first().map_or(String::new(), |line| line.chars().take(200).collect());
            timeline.note(format_args!("not yet: {} things, the first: {first}", last.len()));
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        last
    };
    wrong.extend(tokio::select! { last = settled => last, () = sample() => unreachable!() });
    let settled_in = timeline.began().elapsed().saturating_sub(schedule.length);
    timeline.note(format_args!("settled: {wrong:?}"));
    for subject in &mut subjects {
        subject.usage().last_scrape(subject.probes()).await;
        wrong.extend(subject.usage().losses());
        if let Err(why) = subject.stop().await {
            wrong.push(why);
        }
    }
    replay.read(&hook);
    wrong.append(&mut replay.wrong);

    let committed = std::mem::take(&mut *work.committed.lock().expect("no panic while it is held"));
    let writes = committed.values().map(|(_, versions)| versions.len()).sum::<usize>();
    if writes * 10 < schedule.work.len() {
        wrong.push(format!("only {writes} of {} operations wrote anything: that shows nothing", schedule.work.len()));
    }
    wrong.extend(replay.gaps(&committed));
    let unseen = replay.unseen(&committed);
    if shape.resumable && !shape.by_namespace && (unseen > 0 || replay.late_builtin > 0) {
        let late = replay.late_builtin;
        wrong.push(format!("{unseen} objects were never told of and {late} changes late, though no list was needed"));
    }
    wrong.extend(usages.iter().filter_map(|(usage, _)| usage.too_much(MOST_GROWTH_KIB, MOST_FILES)));
    for subject in &subjects {
        wrong.extend(leaked(&canary, &token, subject, [&hook, &extra]));
    }
    let struck = struck(timeline, &proxies, &hook, &replay, &subjects);
    timeline.note(format_args!("struck: {struck:?}"));
    if schedule.length >= LONG {
        wrong.extend(missing(&struck, &shape).map(|fault| format!("{fault} never struck: that shows nothing")));
    }

    if !wrong.is_empty() {
        keep(timeline, &subjects, &hook);
        return Err(wrong);
    }
    let kinds = committed.values().fold(BTreeMap::new(), |mut all, (kind, versions)| {
        *all.entry(format!("{kind:?}")).or_insert(0) += versions.len();
        all
    });
    let struck: Vec<String> = struck.iter().map(|(fault, times)| format!("{fault} {times}")).collect();
    Ok(format!(
        "{writes} writes {kinds:?}; {} events ({} late, {} came again, {} told again in sum), {unseen} objects came and \
         went unseen; {}; settled in {:.1} s\n  struck: {}",
        replay.events,
        replay.late,
        replay.duplicates,
        replay.summaries,
        usages.iter().map(|(usage, _)| usage.to_string()).collect::<Vec<_>>().join("; "),
        settled_in.as_secs_f64(),
        struck.join(", "),
    ))
}

/// Stops who leads, and starts it again when the other does.
async fn hand_over(subjects: &mut [Subject], timeline: &Timeline) {
    for leader in 0..subjects.len() {
        let page = subjects[leader].page("/metrics").await;
        if page.is_none_or(|(_, text)| metric(&text, "kubediff_leader", "") != 1.0) {
            continue;
        }
        if let Err(why) = subjects[leader].stop().await {
            timeline.note(format_args!("it did not stop: {why}"));
        }
        poll(PATIENCE, "the other leads", async || {
            let (_, text) = subjects[1 - leader].page("/metrics").await?;
            (metric(&text, "kubediff_leader", "") == 1.0).then_some(())
        })
        .await;
        subjects[leader].spawn(None);
        timeline.struck("handovers at the end", 1);
        return;
    }
}

/// How often each fault really struck, by those who can tell.
fn struck(
    timeline: &Timeline,
    proxies: &[Proxy],
    hook: &Receiver,
    replay: &Replay,
    subjects: &[Subject],
) -> BTreeMap<String, u64> {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    let mut add = |what: String, times: u64| *all.entry(what).or_default() += times;
    for (what, times) in timeline.all_struck() {
        // Of what is armed on the wire the proxy knows whether anybody met it.
        if !what.starts_with("wire: ") || ["wire: Refuse", "wire: Partition"].contains(&what.as_str()) {
            add(what, times);
        }
    }
    for (what, times) in proxies.iter().flat_map(Proxy::struck) {
        add(format!("wire: {what}"), times as u64);
    }
    for request in hook.received() {
        match request.answer {
            Answer::Hang => add("receiver: hang".into(), 1),
            Answer::Cut | Answer::CutInBody => add("receiver: cut".into(), 1),
            _ if !request.accepted() => add("receiver: error".into(), 1),
            _ => {}
        }
    }
    add("events with a wrong clock".into(), replay.off_clock);
    add("leads".into(), subjects.iter().map(|subject| subject.said_ever("this replica leads now")).sum());
    add("not permitted".into(), subjects.iter().map(|subject| subject.said_ever("not permitted")).sum());
    all
}

/// Those that a long run has to have seen.
fn missing(struck: &BTreeMap<String, u64>, shape: &Shape) -> impl Iterator<Item = &'static str> {
    let pair = ["leads", "server: DeleteLease"].into_iter().filter(|_| shape.replicas > 1);
    let custom = ["work: CreateCrd", "work: DeleteCrd"].into_iter().filter(|_| !shape.by_namespace);
    let all = [
        "work: DeleteNamespace",
        "work: Rollout",
        "server: Kill",
        "server: Pause",
        "server: Compact",
        "server: Forbid",
        "not permitted",
        "wire: cut",
        "wire: stalled",
        "wire: tear",
        "wire: end",
        "wire: error event",
        "wire: answer 410",
        "wire: answer 429",
        "wire: hang",
        "wire: Refuse",
        "wire: Partition",
        "kubediff: Kill",
        "kubediff: Failpoint",
        "kubediff: Stop",
        "kubediff: Suspend",
        "kubediff: DiskFull",
        "kubediff: Reload",
        "kubediff: WrongConfig",
        "kubediff: Clock",
        "events with a wrong clock",
        "receiver: hang",
        "receiver: cut",
        "receiver: error",
        "receiver: Refusing",
    ];
    let listing = ["server: Kill", "server: Compact", "wire: answer 410"];
    let never: Vec<_> = all
        .into_iter()
        .filter(|fault| !shape.resumable || !listing.contains(fault))
        .chain(pair)
        .chain(custom)
        .filter(|fault| struck.get(*fault).is_none_or(|n| *n == 0))
        .collect();
    never.into_iter()
}

/// Events that wait, for the sink that stays.
async fn queued(subject: &Subject) -> Option<f64> {
    let (_, text) = subject.page("/metrics").await.filter(|(code, _)| *code == 200)?;
    Some(metric(&text, "kubediff_sink_queue_depth", "sink=\"hook\""))
}

/// Where the canary was found: in what was received, in the state, in the logs.
fn leaked(canary: &str, token: &str, subject: &Subject, receivers: [&Receiver; 2]) -> Vec<String> {
    let mut planted = Planted::new([&canary.to_owned(), &token.to_owned()]);
    for request in receivers.iter().flat_map(|receiver| receiver.received()) {
        planted.absent("a request", &request.body);
        planted.absent("headers", format!("{:?}", request.headers).as_bytes());
    }
    for (place, bytes) in state(&subject.state()) {
        planted.absent(&place, &bytes);
    }
    for log in subject.logs() {
        planted.absent("the log", &std::fs::read(log).unwrap_or_default());
    }
    planted.found().iter().cloned().collect()
}

/// Keeps what a person needs to find out why.
fn keep(timeline: &Timeline, subjects: &[Subject], hook: &Receiver) {
    for (replica, subject) in subjects.iter().enumerate() {
        let to = timeline.folder().join(format!("replica-{replica}"));
        let _ = std::fs::create_dir_all(&to);
        for from in subject.logs().into_iter().chain([subject.state()]) {
            if let Some(name) = from.file_name() {
                let _ = std::fs::copy(&from, to.join(name));
            }
        }
    }
    let lines: Vec<String> = hook
        .received()
        .iter()
        .map(|request| format!("{:?} {}\n", request.answer, String::from_utf8_lossy(&request.body)))
        .collect();
    let _ = std::fs::write(timeline.folder().join("received.log"), lines.concat());
}
