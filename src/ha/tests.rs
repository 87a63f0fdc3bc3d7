//! The state machine of the election against a Lease in memory, under a paused clock.

use super::{
    elector::{Action, Elector, Record, Times},
    *,
};

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A Lease as a server keeps it, and replicas that step by hand.
#[derive(Default)]
struct Server {
    record: Option<Record>,
    version: u64,
    /// Replicas whose requests do not get through.
    cut_off: Vec<&'static str>,
}

impl Server {
    fn write(&mut self, holder: &str) -> Record {
        self.version += 1;
        let record =
            Record { version: self.version.to_string(), holder: holder.into(), lease: secs(15), awaits: false };
        self.record = Some(record.clone());
        record
    }
}

struct Member {
    name: &'static str,
    elector: Elector,
}

fn member(name: &'static str) -> Member {
    Member { name, elector: Elector::new(name, Times::default(), Instant::now()) }
}

impl Member {
    /// Does everything that is to be done now. Whether it stepped down.
    fn step(&mut self, server: &mut Server) -> bool {
        let mut stepped_down = false;
        loop {
            let now = Instant::now();
            let cut_off = server.cut_off.contains(&self.name);
            match self.elector.next(now) {
                Action::Wait(until) => {
                    assert!(until > now, "it would turn in circles");
                    return stepped_down;
                }
                Action::StepDown => stepped_down = true,
                _ if cut_off => self.elector.failed(now),
                Action::Read => self.elector.read(server.record.clone(), now),
                Action::Create if server.record.is_some() => self.elector.refused(now),
                Action::Replace(from) if server.record.as_ref() != Some(&from) => self.elector.refused(now),
                Action::Create | Action::Replace(_) => self.elector.wrote(server.write(self.name), now),
            }
        }
    }

    fn leads(&self) -> bool {
        self.elector.is_leading()
    }
}

/// Lets both step every 100 ms, and says when `until` held, in seconds. Never do both lead.
async fn run(server: &mut Server, a: &mut Member, b: &mut Member, until: impl Fn(&Member, &Member) -> bool) -> f64 {
    let began = Instant::now();
    while !until(a, b) {
        assert!(began.elapsed() < secs(120), "it never came");
        tokio::time::advance(Duration::from_millis(100)).await;
        a.step(server);
        b.step(server);
        assert!(!(a.leads() && b.leads()), "both lead");
    }
    began.elapsed().as_secs_f64()
}

#[tokio::test(start_paused = true)]
async fn the_first_one_leads_and_the_second_stands_by() {
    let (mut server, mut a, mut b) = (Server::default(), member("a"), member("b"));
    a.step(&mut server);
    b.step(&mut server);
    assert!(a.leads() && !b.leads());
    let began = Instant::now();
    run(&mut server, &mut a, &mut b, |_, _| began.elapsed() > secs(60)).await;
    assert!(a.leads() && b.elector.holder() == "a");
    assert!((25..=32).contains(&server.version), "renewed every 2 s: {}", server.version);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_after_10_s_and_the_other_begins_after_15() {
    let (mut server, mut a, mut b) = (Server::default(), member("a"), member("b"));
    a.step(&mut server);
    server.cut_off = vec!["a"];
    let stopped = run(&mut server, &mut a, &mut b, |a, _| !a.leads()).await;
    assert!((9.9..10.2).contains(&stopped), "{stopped}");
    let begun = stopped + run(&mut server, &mut a, &mut b, |_, b| b.leads()).await;
    assert!((15.0..15.3).contains(&begun), "{begun}");
    server.cut_off.clear();
    let began = Instant::now();
    run(&mut server, &mut a, &mut b, |_, _| began.elapsed() > secs(30)).await;
    assert!(b.leads() && a.elector.holder() == "b", "who comes back stands by");
}

#[tokio::test(start_paused = true)]
async fn a_lead_that_is_given_up_is_taken_at_the_next_look() {
    let (mut server, mut a, mut b) = (Server::default(), member("a"), member("b"));
    a.step(&mut server);
    b.step(&mut server);
    server.write("");
    server.cut_off = vec!["gone"];
    let mut gone = member("gone");
    assert!(run(&mut server, &mut gone, &mut b, |_, b| b.leads()).await <= 2.1);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_comes_back_with_its_own_state_takes_its_own_lease_at_once() {
    let mut server = Server::default();
    member("a").step(&mut server);
    let mut again = member("a");
    again.step(&mut server);
    assert!(again.leads());
}

#[tokio::test(start_paused = true)]
async fn somebody_who_starts_waits_a_whole_lease_whatever_the_clocks_say() {
    // The times on the Lease are not even read: a minute's or a year's difference between clocks changes nothing.
    let mut server = Server::default();
    server.write("gone");
    let (mut b, mut nobody) = (member("b"), member("nobody"));
    server.cut_off = vec!["nobody"];
    let begun = run(&mut server, &mut nobody, &mut b, |_, b| b.leads()).await;
    assert!((15.0..15.3).contains(&begun), "{begun}");
}

#[tokio::test(start_paused = true)]
async fn the_holders_own_longer_lease_is_respected() {
    let mut server = Server::default();
    server.write("gone");
    server.record.as_mut().unwrap().lease = secs(40);
    let (mut b, mut nobody) = (member("b"), member("nobody"));
    server.cut_off = vec!["nobody"];
    assert!(run(&mut server, &mut nobody, &mut b, |_, b| b.leads()).await >= 40.0);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_slept_stops_before_it_does_anything_else() {
    let (mut server, mut a, mut b) = (Server::default(), member("a"), member("b"));
    a.step(&mut server);
    b.step(&mut server);
    for _ in 0..200 {
        tokio::time::advance(Duration::from_millis(100)).await;
        b.step(&mut server);
    }
    assert!(b.leads());
    assert_eq!(a.elector.next(Instant::now()), Action::StepDown);
    a.step(&mut server);
    assert!(!a.leads() && b.leads());
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_looked_at_before_anything_is_written() {
    let (mut server, mut a) = (Server::default(), member("a"));
    a.step(&mut server);
    // Somebody put a label on it: still a's.
    server.write("a");
    tokio::time::advance(secs(2)).await;
    assert!(!a.step(&mut server) && a.leads(), "it goes on");
    // Somebody took it by force.
    server.write("b");
    tokio::time::advance(secs(2)).await;
    assert!(a.step(&mut server), "it steps down at once");
    assert!(!a.leads());
}

#[tokio::test(start_paused = true)]
async fn of_two_who_take_it_at_the_same_moment_one_does() {
    let mut server = Server::default();
    server.write("");
    let (mut a, mut b) = (member("a"), member("b"));
    for one in [&mut a, &mut b] {
        assert_eq!(one.elector.next(Instant::now()), Action::Read);
        one.elector.read(server.record.clone(), Instant::now());
    }
    let (Action::Replace(one), Action::Replace(other)) =
        (a.elector.next(Instant::now()), b.elector.next(Instant::now()))
    else {
        panic!("both try")
    };
    assert_eq!(one, other);
    a.elector.wrote(server.write("a"), Instant::now());
    b.elector.refused(Instant::now());
    b.step(&mut server);
    assert!(a.leads() && !b.leads());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_is_made_again_by_the_leader_and_not_by_the_standby() {
    let (mut server, mut a, mut b) = (Server::default(), member("a"), member("b"));
    a.step(&mut server);
    b.step(&mut server);
    tokio::time::advance(secs(1)).await;
    server.record = None;
    let began = Instant::now();
    run(&mut server, &mut a, &mut b, |_, _| began.elapsed() > secs(20)).await;
    assert!(a.leads() && server.record.as_ref().unwrap().holder == "a");
    // With the leader gone, the standby makes it when the old one has run out.
    server.record = None;
    server.cut_off = vec!["a"];
    let begun = run(&mut server, &mut a, &mut b, |_, b| b.leads()).await;
    assert!((12.0..=15.3).contains(&begun), "{begun}");
}

#[tokio::test(start_paused = true)]
async fn one_renewal_that_fails_is_tried_again_in_time() {
    let (mut server, mut a, mut b) = (Server::default(), member("a"), member("b"));
    a.step(&mut server);
    b.step(&mut server);
    server.cut_off = vec!["a"];
    let began = Instant::now();
    run(&mut server, &mut a, &mut b, |_, _| began.elapsed() > secs(7)).await;
    server.cut_off.clear();
    run(&mut server, &mut a, &mut b, |_, _| began.elapsed() > secs(60)).await;
    assert!(a.leads(), "7 s without the server are no reason to stop");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_write_leaves_the_lead_to_another_and_takes_none() {
    let (mut server, mut a, mut b) = (Server::default(), member("a"), member("b"));
    a.step(&mut server);
    b.step(&mut server);
    a.elector.note_failing(Some(Instant::now()));
    let stopped = run(&mut server, &mut a, &mut b, |a, _| !a.leads()).await;
    assert!((9.9..10.2).contains(&stopped), "a short trouble is no reason: {stopped}");
    let begun = run(&mut server, &mut a, &mut b, |_, b| b.leads()).await;
    assert!((12.0..=15.3).contains(&begun), "as soon as its Lease has run out: {begun}");
    // Nor does it take one that is nobody's.
    server.write("");
    server.cut_off = vec!["b"];
    let began = Instant::now();
    run(&mut server, &mut a, &mut b, |_, _| began.elapsed() > secs(60)).await;
    assert!(!a.leads());
    a.elector.note_failing(None);
    assert!(run(&mut server, &mut a, &mut b, |a, _| a.leads()).await <= 2.1, "and does when it can write again");
}

/// A Lease as the chart makes it when it makes two of one.
fn after_one() -> Server {
    let mut server = Server::default();
    server.write("");
    server.record.as_mut().unwrap().awaits = true;
    server
}

fn newcomer(name: &'static str) -> Member {
    let mut new = member(name);
    new.elector.is_new(Instant::now());
    new
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_new_leaves_the_first_lead_to_the_one_that_ran_before() {
    let (mut server, mut new, mut nobody) = (after_one(), newcomer("new"), member("nobody"));
    server.cut_off = vec!["nobody"];
    let began = Instant::now();
    run(&mut server, &mut nobody, &mut new, |_, _| began.elapsed() > secs(60)).await;
    assert!(!new.leads() && new.elector.yields(Instant::now()));
    // The old one is restarted, and hears of the Lease.
    let mut old = member("old");
    old.step(&mut server);
    assert!(old.leads());
    run(&mut server, &mut old, &mut new, |_, _| began.elapsed() > secs(150)).await;
    assert!(old.leads() && new.elector.holder() == "old");
    // Later it is as good as any other.
    server.write("");
    server.cut_off.push("old");
    assert!(run(&mut server, &mut nobody, &mut new, |_, new| new.leads()).await <= 2.1);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_new_leads_when_the_one_before_does_not_come() {
    let (mut server, mut new, mut nobody) = (after_one(), newcomer("new"), member("nobody"));
    server.cut_off = vec!["nobody"];
    let begun = run(&mut server, &mut nobody, &mut new, |_, new| new.leads()).await;
    assert!((90.0..90.3).contains(&begun), "{begun}");
}

#[tokio::test(start_paused = true)]
async fn where_nobody_ran_before_a_replica_that_is_new_leads_at_once() {
    let mut server = Server::default();
    server.write("");
    let mut new = newcomer("new");
    new.step(&mut server);
    assert!(new.leads());
    let (mut server, mut new) = (Server::default(), newcomer("new"));
    new.step(&mut server);
    assert!(new.leads(), "it makes the Lease itself");
}

#[test]
fn a_lease_awaits_a_history_when_the_chart_says_so_and_nobody_ever_had_it() {
    let lease = |first: &str, spec: Option<LeaseSpec>| {
        let annotations = Some(BTreeMap::from([(LEADS_FIRST.to_owned(), first.to_owned())]));
        record(&Lease { metadata: ObjectMeta { annotations, ..ObjectMeta::default() }, spec }).awaits
    };
    let given_up =
        LeaseSpec { holder_identity: Some(String::new()), lease_transitions: Some(1), ..LeaseSpec::default() };
    assert!(lease(HISTORY, None) && lease(HISTORY, Some(LeaseSpec::default())));
    assert!(!lease("", None) && !lease(HISTORY, Some(given_up)));
    assert!(!record(&Lease::default()).awaits);
}

#[tokio::test]
async fn a_part_of_the_election_that_panics_is_the_end_of_it_and_says_why() {
    let mut tasks = JoinSet::new();
    tasks.spawn(std::future::pending());
    tasks.spawn(async { panic!("no paper") });
    let (turns, turns_taken) = mpsc::unbounded_channel();
    let mut replica = Replica {
        tasks,
        turns: turns_taken,
        status: watch::channel(Status::default()).1,
        turned: watch::channel(Instant::now()).1,
        release: CancellationToken::new(),
        lease: String::new(),
        identity: String::new(),
    };
    let said = replica.turn().await.unwrap_err();
    assert!(said.starts_with("a part of the election ended: ") && said.contains("no paper"), "{said}");
    turns.send(Turn::StandBy).unwrap();
    assert!(matches!(replica.turn().await, Ok(Turn::StandBy)), "the others go on until the release");
}

#[test]
fn a_status_is_a_sentence() {
    let status = |leading, reached, holder: &str, problem: Option<&str>| {
        Status { leading, reached, holder: holder.into(), problem: problem.map(str::to_owned) }.to_string()
    };
    assert_eq!(status(true, true, "a", None), "leader");
    assert_eq!(status(false, true, "a", None), "standby; a leads");
    assert_eq!(status(false, true, "", None), "standby; nobody leads");
    assert_eq!(status(false, false, "", Some("forbidden (403)")), "the lease was not reached yet; forbidden (403)");
}
