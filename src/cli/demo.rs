//! `kubediff demo`: a recording of a real cluster, played through the whole pipeline. Needs no cluster and no network.

mod screen;

use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use jiff::Timestamp;
use kubediff::{
    app,
    cluster::{
        informer, select,
        source::recording::{Player, Recording},
        store::Place,
    },
    event::Event,
    ledger::{self, namespaces::Asks, retention::Keep},
    redact,
    route::{Decision, Explanation, Step, Verdict},
    shutdown::Shutdown,
    sink::{self, stdout},
    web::{self, Auth},
};
use tokio::{sync::watch, task::JoinSet};

use self::screen::Screen;
use super::Usage;

/// Made by `make recording` from a real control plane.
const RECORDING: &[u8] = include_bytes!("demo/recording.zst");
/// What the recorded cluster is called in the demo.
const CLUSTER: &str = "demo";
const TERMINAL: &str = "terminal";
/// How long the end of a round is shown before the next one begins.
const PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing is needed for it: no cluster, no kubeconfig, no network. What it plays was recorded by `kubediff record` on a
real control plane, and takes the same way through the program as what a real cluster says.

Examples:
  kubediff demo                             about a minute, then it stays until Ctrl-C
  kubediff demo --loop --speed 2            over and over, twice as fast
  kubediff demo --page 127.0.0.1:9000       the page at another address; --no-page for none
  kubediff demo --all                       every pod and every status, not the story alone
  kubediff demo -o json | jq .summary       one event a line
  kubediff demo kubediff.recording.zst      a recording of your own, by `kubediff record`")]
pub(crate) struct Args {
    /// Play this file; without it, the recording that is part of the program
    #[arg(value_name = "FILE")]
    recording: Option<PathBuf>,
    /// Begin again at the end, until Ctrl-C
    #[arg(long = "loop")]
    again: bool,
    /// So many times as fast as it was
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// Where the page is served; when the port is taken, at a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    page: SocketAddr,
    /// No page
    #[arg(long, conflicts_with = "page")]
    no_page: bool,
    /// Show what controllers do to the parts of workloads and to statuses, too
    #[arg(long)]
    all: bool,
    /// text for people, json for machines (all of it, always)
    #[arg(long, short, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    output: String,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && (0.01..=1000.0).contains(&speed) => Ok(speed),
        _ => Err("a number from 0.01 to 1000 is expected".to_owned()),
    }
}

pub(crate) async fn run(args: Args, shutdown: Shutdown) -> anyhow::Result<()> {
    let recording = read(&args)?;
    let json = args.output == "json";
    let screen = Screen::new(json);
    let page = if args.no_page { None } else { Some(free(args.page)?) };
    let settings = settings(&args, page, screen.is_live());
    screen.greet(&recording, page)?;
    loop {
        let recording = recording.clone().retimed(Timestamp::now(), args.speed);
        let player = Arc::new(Player::new(recording, args.speed));
        let (round, over) = (Shutdown::new(), Shutdown::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(end_with(shutdown.clone(), round.clone()));
        tasks.spawn(screen.show(player.clone(), page, args.again));
        if args.again {
            tasks.spawn(end_of_round(player.clone(), args.speed, over.clone()));
            tasks.spawn(end_with(over.clone(), round.clone()));
        }
        // A round begins with an empty history; so does its state, which is gone when it ends.
        let (_never, reload) = watch::channel(app::Reload::default());
        let ended = app::run(settings.clone(), player, round, reload).await;
        tasks.shutdown().await;
        screen.clear();
        ended?;
        if !over.has_begun() || shutdown.has_begun() {
            return Ok(());
        }
    }
}

fn read(args: &Args) -> anyhow::Result<Recording> {
    let Some(path) = &args.recording else {
        return Recording::read(RECORDING).context("the recording in this program");
    };
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display())).map_err(Usage)?;
    Ok(Recording::read(bytes).with_context(|| format!("{} cannot be played", path.display())).map_err(Usage)?)
}

/// The address, or one with a free port when that port is taken.
fn free(wanted: SocketAddr) -> anyhow::Result<SocketAddr> {
    let bound = TcpListener::bind(wanted).or_else(|error| match error.kind() {
        io::ErrorKind::AddrInUse => TcpListener::bind((wanted.ip(), 0)),
        _ => Err(error),
    });
    Ok(bound
        .and_then(|listener| listener.local_addr())
        .with_context(|| format!("no page at {wanted}"))
        .map_err(Usage)?)
}

fn settings(args: &Args, page: Option<SocketAddr>, over_progress: bool) -> app::Settings {
    let json = args.output == "json";
    // Whoever may see the program may see the recording in it. One of somebody's own stays on this machine.
    let auth = if args.recording.is_none() { Auth::None } else { Auth::Auto };
    let format = if json { stdout::Format::Json } else { stdout::Format::Text };
    let terminal = sink::Settings {
        name: TERMINAL.into(),
        target: sink::Target::Stdout(stdout::Settings { format, over_progress }),
        retry: sink::Retry::default(),
    };
    app::Settings {
        cluster: CLUSTER.to_owned(),
        select: select::Settings::default(),
        informer: informer::Settings::default(),
        redact: redact::Settings::default(),
        redaction_key: None,
        place: Place::Temporary,
        keep: Keep::default(),
        probes: None,
        page: page.map(|address| web::Settings { address, auth, page_url: None, judge: None }),
        sinks: vec![terminal],
        route: (!args.all && !json).then(|| Arc::new(route) as ledger::Route),
        asks_namespaces: Asks::Nothing,
        explain: Some(if args.all || json { Arc::new(explain_all) } else { Arc::new(explain) }),
        may_fail: Vec::new(),
        ha: None,
    }
}

/// The story goes to the terminal; the rest is recorded all the same, for the page.
fn route(event: &Event, _: &ledger::Around) -> Decision {
    let sinks = if screen::is_story(event) { vec![TERMINAL.into()] } else { Vec::new() };
    Decision { sinks, ..Decision::default() }
}

/// For the page: why a change is told in the terminal, or not.
fn explain(event: &Event, around: &ledger::Around) -> Explanation {
    let decision = route(event, around);
    let verdict = match decision.sinks.is_empty() {
        false => Verdict::Took,
        true => {
            Verdict::Dropped { reason: "it is how controllers carry something out; --all tells it, too".to_owned() }
        }
    };
    let step = Step { depth: 0, route: "the story".to_owned(), verdict };
    Explanation { decision, steps: vec![step], annotated: false }
}

fn explain_all(_: &Event, _: &ledger::Around) -> Explanation {
    let decision = Decision { sinks: vec![TERMINAL.into()], ..Decision::default() };
    Explanation { decision, steps: Vec::new(), annotated: false }
}

async fn end_with(first: Shutdown, then: Shutdown) {
    first.begun().await;
    then.begin();
}

async fn end_of_round(player: Arc<Player>, speed: f64, over: Shutdown) {
    let length = player.recording().length().div_f64(speed) + PAUSE;
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if player.position().is_some_and(|at| at.div_f64(speed) >= length) {
            return over.begin();
        }
    }
}
