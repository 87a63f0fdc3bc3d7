//! What a run does and when: the workload and the faults, as a pure function of the seed and the length of the run.

use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};

/// A moment of the run, and what happens then.
#[derive(Clone, Debug, PartialEq)]
pub struct At<T> {
    pub ms: u64,
    pub what: T,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub seed: u64,
    pub length: Duration,
    pub shape: Shape,
    pub work: Vec<At<Op>>,
    /// Faults of one lane follow one another; those of different lanes overlap. Each replica has lanes of its own.
    pub server: Vec<At<Server>>,
    pub wire: Vec<Vec<At<Wire>>>,
    pub daemon: Vec<Vec<At<Daemon>>>,
    pub receiver: Vec<At<Hook>>,
}

/// What does not change during a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Two of them have a Lease that says which one delivers.
    pub replicas: usize,
    /// Deployments roll, namespaces are emptied by their controller.
    pub controllers: bool,
    /// Without it etcd answers every list and watch, and a compaction is felt at once.
    pub watch_cache: bool,
    /// One feed a namespace, by a pattern, in place of one for all. Then CRDs and namespaces themselves are not watched.
    pub by_namespace: bool,
    /// No fault that makes a list necessary: every change has to be told by itself, and every object.
    pub resumable: bool,
    /// Everything that the server has, not only the kinds of the workload.
    pub everything: bool,
    pub batch: u32,
    pub in_flight: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    Secret,
    Deployment,
    Widget,
    Gadget,
}

/// One object of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    pub kind: Kind,
    pub namespace: u8,
    pub name: u8,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Changed if it is there, created if not, with its namespace.
    Put(Object, u64),
    Delete(Object),
    /// Another image, or another number of replicas.
    Rollout(Object, u64),
    DeleteNamespace(u8),
    CreateCrd(Kind),
    DeleteCrd(Kind),
}

/// What is done to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Server {
    Kill {
        down_ms: u64,
    },
    Pause {
        ms: u64,
    },
    Compact,
    /// The right to read one resource, or to do anything at all.
    Forbid {
        what: Option<&'static str>,
        ms: u64,
    },
    /// Of two replicas; a single one has none.
    DeleteLease,
}

/// What is done to the connections between kubediff and the API server. `""` is every resource.
#[derive(Clone, Debug, PartialEq)]
pub enum Wire {
    Cut(&'static str),
    Stall {
        what: &'static str,
        ms: u64,
    },
    /// In the middle of a line, the body ends as if it were whole.
    Tear {
        what: &'static str,
        after: usize,
    },
    End {
        what: &'static str,
        after: usize,
    },
    ErrorEvent {
        what: &'static str,
        after: usize,
        code: u16,
    },
    Answer {
        what: &'static str,
        lists: bool,
        times: usize,
        code: u16,
    },
    Hang {
        what: &'static str,
        times: usize,
    },
    CutList {
        bytes: usize,
    },
    Refuse {
        ms: u64,
    },
    /// Nothing is answered and nothing comes any more, on any connection.
    Partition {
        ms: u64,
    },
}

/// What is done to kubediff, its disk, its configuration and its clock.
#[derive(Clone, Debug, PartialEq)]
pub enum Daemon {
    Kill {
        down_ms: u64,
    },
    /// Dies by itself at this point, for the nth time that it comes there.
    Failpoint {
        name: &'static str,
        times: u64,
    },
    Stop {
        down_ms: u64,
    },
    /// It stands still, as with a machine that is suspended, and goes on as if nothing had happened.
    Suspend {
        ms: u64,
    },
    DiskFull {
        ms: u64,
    },
    Reload {
        batch: u32,
        in_flight: u32,
        extra: bool,
    },
    WrongConfig {
        ms: u64,
    },
    /// The wall clock is off by so many seconds from now on.
    Clock {
        off_secs: i64,
    },
}

/// What the receiver answers for a while.
#[derive(Clone, Debug, PartialEq)]
pub enum Hook {
    Mixed { ms: u64, seed: u64 },
    Failing { ms: u64 },
    Hanging { ms: u64 },
    Limiting { ms: u64 },
    Refusing { ms: u64 },
}

pub const NAMESPACES: u8 = 4;
const NAMES: u8 = 8;
/// Changes a second that are asked for.
const RATE: u64 = 20;

impl Schedule {
    /// `replicas`: as many, or as the seed says.
    pub fn new(seed: u64, length: Duration, replicas: Option<usize>) -> Self {
        // A stream of numbers each, so that one lane does not depend on how many the others drew.
        let stream = |n: u64| StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(n));
        let mut shape = shape(&mut stream(0));
        shape.replicas = replicas.unwrap_or(shape.replicas);
        let end = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let each = 0..shape.replicas as u64;
        // Two of them are left in peace for longer, or nobody would ever lead.
        let pause = if shape.replicas == 1 { (500, 5_000) } else { (2_000, 15_000) };
        let mut schedule = Self {
            seed,
            length,
            work: work(&mut stream(1), end, &shape),
            server: lane(&mut stream(2), end, (3_000, 12_000), server),
            wire: each.clone().map(|n| lane(&mut stream(30 + n), end, (300, 3_000), wire)).collect(),
            daemon: each.map(|n| lane(&mut stream(40 + n), end, pause, daemon)).collect(),
            receiver: lane(&mut stream(5), end, (500, 5_000), receiver),
            shape,
        };
        if schedule.shape.resumable {
            schedule.server.iter_mut().for_each(|at| at.what.make_resumable());
            schedule.wire.iter_mut().flatten().for_each(|at| at.what.make_resumable());
        }
        schedule
    }
}

impl Server {
    /// A server that was restarted, or has forgotten, may have to be asked for a list.
    fn make_resumable(&mut self) {
        if matches!(self, Self::Kill { .. } | Self::Compact) {
            *self = Self::Pause { ms: 1_000 };
        }
    }
}

impl Wire {
    /// An answer that means that a list is needed becomes one that means that it is to be asked again.
    fn make_resumable(&mut self) {
        match self {
            Self::ErrorEvent { code, .. } => *code = 429,
            Self::Answer { code, .. } if [410, 504].contains(code) => *code = 503,
            Self::CutList { .. } => *self = Self::Cut(""),
            _ => {}
        }
    }
}

fn shape(random: &mut StdRng) -> Shape {
    let controllers = random.random_ratio(1, 3);
    Shape {
        replicas: if random.random_ratio(1, 3) { 2 } else { 1 },
        controllers,
        watch_cache: controllers || random.random_ratio(3, 4),
        by_namespace: random.random_ratio(1, 4),
        everything: random.random_ratio(1, 3),
        batch: pick(random, &[1, 5, 50]),
        in_flight: pick(random, &[1, 4, 8]),
        resumable: random.random_ratio(1, 4),
    }
}

fn pick<T: Clone>(random: &mut impl Rng, of: &[T]) -> T {
    of[random.random_range(0..of.len())].clone()
}

fn work(random: &mut StdRng, end: u64, shape: &Shape) -> Vec<At<Op>> {
    let mut all = Vec::new();
    let custom = !shape.by_namespace;
    if custom {
        all.push(At { ms: 0, what: Op::CreateCrd(Kind::Widget) });
    }
    let mut ms = 100;
    while ms < end {
        let kind = match random.random_range(0..100) {
            0..45 => Kind::ConfigMap,
            45..65 => Kind::Secret,
            65..80 => Kind::Deployment,
            80..90 => Kind::Widget,
            _ => Kind::Gadget,
        };
        let kind = if custom || kind < Kind::Widget { kind } else { Kind::ConfigMap };
        let object =
            Object { kind, namespace: random.random_range(0..NAMESPACES), name: random.random_range(0..NAMES) };
        let value = random.random();
        let what = match random.random_range(0..1_000) {
            0..880 if kind == Kind::Deployment && value % 3 > 0 => Op::Rollout(object, value),
            0..880 => Op::Put(object, value),
            880..980 => Op::Delete(object),
            980..988 => Op::DeleteNamespace(object.namespace),
            988..994 if custom => Op::DeleteCrd(pick(random, &[Kind::Widget, Kind::Gadget])),
            _ if custom => Op::CreateCrd(pick(random, &[Kind::Widget, Kind::Gadget])),
            _ => Op::Put(object, value),
        };
        all.push(At { ms, what });
        ms += random.random_range(1..=2 * 1_000 / RATE);
    }
    all
}

/// Faults with pauses in between; what a fault takes is part of it, so the pauses are counted from begin to begin.
fn lane<T>(random: &mut StdRng, end: u64, pause: (u64, u64), draw: fn(&mut StdRng) -> T) -> Vec<At<T>> {
    let mut all = Vec::new();
    let mut ms = random.random_range(pause.0..pause.1);
    while ms < end {
        all.push(At { ms, what: draw(random) });
        ms += random.random_range(pause.0..pause.1);
    }
    all
}

fn server(random: &mut StdRng) -> Server {
    match random.random_range(0..20) {
        0..6 => Server::Kill { down_ms: random.random_range(0..3_000) },
        6..12 => Server::Pause { ms: random.random_range(500..5_000) },
        12..15 => Server::Compact,
        15 => Server::DeleteLease,
        _ => {
            let what = pick(random, &[None, Some("configmaps"), Some("secrets"), Some("widgets")]);
            Server::Forbid { what, ms: random.random_range(500..5_000) }
        }
    }
}

fn wire(random: &mut StdRng) -> Wire {
    let what = pick(random, &["", "", "configmaps", "secrets", "deployments", "widgets"]);
    let after = random.random_range(0..6);
    match random.random_range(0..21) {
        0..5 => Wire::Cut(what),
        5..8 => Wire::Stall { what, ms: random.random_range(200..4_000) },
        8..10 => Wire::Tear { what, after },
        10..12 => Wire::End { what, after },
        12..14 => Wire::ErrorEvent { what, after, code: pick(random, &[410, 410, 500, 429]) },
        14..17 => {
            let code = pick(random, &[429, 503, 500, 410, 403, 401, 504]);
            Wire::Answer { what, lists: random.random(), times: random.random_range(1..8), code }
        }
        17 => Wire::Hang { what, times: random.random_range(1..3) },
        18 => Wire::CutList { bytes: random.random_range(0..20_000) },
        19 => Wire::Partition { ms: random.random_range(1_000..15_000) },
        _ => Wire::Refuse { ms: random.random_range(100..2_000) },
    }
}

fn daemon(random: &mut StdRng) -> Daemon {
    let down_ms = if random.random() { 0 } else { random.random_range(0..6_000) };
    match random.random_range(0..22) {
        0..6 => Daemon::Kill { down_ms },
        20..22 => Daemon::Suspend { ms: random.random_range(500..12_000) },
        6..9 => Daemon::Failpoint { name: pick(random, kubediff::failpoint::ALL), times: random.random_range(1..20) },
        9..11 => Daemon::Stop { down_ms },
        11..14 => Daemon::DiskFull { ms: random.random_range(500..5_000) },
        14..17 => Daemon::Reload {
            batch: pick(random, &[1, 2, 20, 100]),
            in_flight: pick(random, &[1, 2, 8]),
            extra: random.random(),
        },
        17 => Daemon::WrongConfig { ms: random.random_range(1_000..3_000) },
        _ => Daemon::Clock { off_secs: random.random_range(-7_200..=7_200) },
    }
}

fn receiver(random: &mut StdRng) -> Hook {
    let ms = random.random_range(300..4_000);
    match random.random_range(0..10) {
        0..4 => Hook::Mixed { ms, seed: random.random() },
        4..6 => Hook::Failing { ms },
        6 => Hook::Hanging { ms },
        7 => Hook::Limiting { ms },
        _ => Hook::Refusing { ms },
    }
}
