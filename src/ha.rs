//! High availability: of several replicas one delivers, the others watch along and take over. A Lease says who.
//!
//! The leader keeps on it, as an annotation, what is delivered ([`crate::ledger::Mark`]); a standby takes that off its own
//! list, and begins with the rest when it takes over. Beside it are the silences that people made, which a standby takes
//! over as they are. `docs/decisions/0007-high-availability.md` has the reasons.
//!
//! | file | what it holds |
//! |---|---|
//! | [`elector`] | who leads: a pure state machine |
//! | `left` | what the leader keeps on the Lease, and what the others make of it |
//! | this one | what it takes to act on it: the Lease, the mark, the word to the rest of the program |

pub mod elector;
mod left;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::api::{Api, PostParams};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

pub use self::{
    elector::Times,
    left::{Left, MARK, SILENCES},
};
use self::{
    elector::{Action, Elector, Record},
    left::{MARK_BYTES, SILENCES_BYTES, follow},
};
use crate::{
    cluster::store::Store,
    ledger::{self, Ledger, absence},
};

/// Reading the mark off the ledger takes at most one part in so many of the time.
const MARK_SHARE: u32 = 20;
/// Where the chart says who is to lead first, of all that ever do.
pub const LEADS_FIRST: &str = "kubediff.io/leads-first";
/// Whoever has a history: there was a release before the one that made the Lease.
pub const HISTORY: &str = "history";
/// How long the last word of a leader that ends may take.
const RELEASE: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Settings {
    pub client: kube::Client,
    pub lease: String,
    /// Whether to make it where there is none.
    pub create_lease: bool,
    /// Empty: the client's own.
    pub namespace: String,
    /// What this replica is called; a part that belongs to its state file is added.
    pub identity: String,
    pub times: Times,
}

/// What the rest of the program has to do.
#[derive(Debug)]
pub enum Turn {
    /// Heed what the leader before has left, then deliver.
    Lead(Left),
    /// Deliver nothing more.
    StandBy,
}

/// How it stands, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub leading: bool,
    /// Who leads, when it is known.
    pub holder: String,
    /// The Lease was read or written at least once.
    pub reached: bool,
    /// Why it cannot be at the moment.
    pub problem: Option<String>,
}

impl Status {
    /// The name of who leads, when it is somebody else and known: of the pod, without what belongs to its state file.
    pub fn leads_instead(&self) -> Option<String> {
        let name = self.holder.rsplit_once('_').map_or(self.holder.as_str(), |(name, _)| name);
        (!self.leading && !name.is_empty()).then(|| name.to_owned())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.leading, self.reached, self.holder.as_str()) {
            (true, ..) => write!(f, "leader")?,
            (false, false, _) => write!(f, "the lease was not reached yet")?,
            (false, true, "") => write!(f, "standby; nobody leads")?,
            (false, true, holder) => write!(f, "standby; {holder} leads")?,
        }
        self.problem.as_ref().map_or(Ok(()), |problem| write!(f, "; {problem}"))
    }
}

/// This replica's part in the election; ends with [`Replica::release`], or when it is dropped.
pub struct Replica {
    /// None of them ends before the release.
    tasks: JoinSet<()>,
    turns: mpsc::UnboundedReceiver<Turn>,
    status: watch::Receiver<Status>,
    turned: watch::Receiver<Instant>,
    release: CancellationToken,
    lease: String,
    identity: String,
}

impl Replica {
    /// Begins as a standby. From now on the ledger sends only what a lead allows.
    pub async fn start(settings: Settings, ledger: Ledger, store: Store) -> Result<Self, ledger::Error> {
        ledger.lead().end();
        let new = absence::watching(store.reader()?.connection())?.is_none();
        let identity = format!("{}_{}", settings.identity, ledger.replica(&store).await?);
        let namespace = match settings.namespace.as_str() {
            "" => settings.client.default_namespace().to_owned(),
            namespace => namespace.to_owned(),
        };
        let lease = format!("{namespace}/{}", settings.lease);
        tracing::info!(identity, lease, new, "one of several replicas: standby");
        let mut elector = Elector::new(&identity, settings.times, Instant::now());
        if new {
            elector.is_new(Instant::now());
        }
        let (turns, turns_taken) = mpsc::unbounded_channel();
        let (status, status_seen) = watch::channel(Status::default());
        let (left, left_seen) = watch::channel(Left::default());
        let (turned, turned_seen) = watch::channel(Instant::now());
        let release = CancellationToken::new();
        let candidate = Candidate {
            api: Api::namespaced(settings.client, &namespace),
            name: settings.lease,
            create: settings.create_lease,
            elector,
            identity: identity.clone(),
            times: settings.times,
            lease: None,
            ledger: ledger.clone(),
            store: store.clone(),
            mark: String::new(),
            next_mark: Instant::now(),
            failing: None,
            fit: true,
            turns,
            status,
            left,
            turned,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(candidate.run(release.clone()));
        tasks.spawn(note(ledger.clone(), store.clone(), status_seen.clone()));
        tasks.spawn(follow(ledger, store, identity.clone(), left_seen));
        Ok(Self { tasks, turns: turns_taken, status: status_seen, turned: turned_seen, release, lease, identity })
    }

    /// What it is called on the Lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// `namespace/name`
    pub fn lease(&self) -> &str {
        &self.lease
    }

    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// When the election last came round, which it does at least as often as it looks at the Lease.
    pub fn turned(&self) -> watch::Receiver<Instant> {
        self.turned.clone()
    }

    /// What is to be done next. An error when a part of it ended, which happens only by a bug. It may be dropped and called
    /// again.
    pub async fn turn(&mut self) -> Result<Turn, String> {
        tokio::select! {
            Some(turn) = self.turns.recv() => Ok(turn),
            Some(ended) = self.tasks.join_next() => {
                let why = ended.map_or_else(|why| why.to_string(), |()| "nobody asked it to".to_owned());
                Err(format!("a part of the election ended: {why}"))
            }
            else => Err("the election ended".to_owned()),
        }
    }

    /// Says what was delivered last and gives the Lease up, so that another takes over at once.
    pub async fn release(mut self) {
        self.release.cancel();
        let _ = tokio::time::timeout(RELEASE * 2, self.tasks.join_next()).await;
    }
}

/// Leaves word in the state file of who leads, for commands that look at the file alone.
async fn note(ledger: Ledger, store: Store, mut status: watch::Receiver<Status>) {
    let mut noted = None;
    loop {
        let instead = status.borrow_and_update().leads_instead();
        if noted.as_ref() != Some(&instead) {
            if ledger.note_leader(&store, instead.clone()).await.is_err() {
                break;
            }
            noted = Some(instead);
        }
        if status.changed().await.is_err() {
            break;
        }
    }
    std::future::pending::<()>().await;
}

struct Candidate {
    api: Api<Lease>,
    name: String,
    create: bool,
    identity: String,
    times: Times,
    elector: Elector,
    /// As it was last seen: what others keep on it stays.
    lease: Option<Lease>,
    ledger: Ledger,
    store: Store,
    /// The newest mark of this replica's own; empty before the first.
    mark: String,
    next_mark: Instant,
    /// Since when the state file cannot be written.
    failing: Option<Instant>,
    /// Whether that lets it lead.
    fit: bool,
    turns: mpsc::UnboundedSender<Turn>,
    status: watch::Sender<Status>,
    left: watch::Sender<Left>,
    turned: watch::Sender<Instant>,
}

/// What came of a request.
enum Failure {
    /// 409: it changed meanwhile, or was made by somebody else; 404: it is gone.
    Refused(u16),
    /// Anything else.
    Failed(String),
}

impl Candidate {
    async fn run(mut self, release: CancellationToken) {
        loop {
            self.turned.send_replace(Instant::now());
            self.look_at_disk();
            match self.elector.next(Instant::now()) {
                Action::Wait(until) => tokio::select! {
                    () = tokio::time::sleep_until(until) => {}
                    () = release.cancelled() => return self.give_up().await,
                },
                Action::Read => self.read().await,
                Action::Create | Action::Replace(_) => self.write().await,
                Action::StepDown => {
                    self.ledger.lead().end();
                    tracing::warn!(holder = self.elector.holder(), "this replica leads no more: standby");
                    let _ = self.turns.send(Turn::StandBy);
                    self.tell(|status| status.leading = false);
                }
            }
        }
    }

    /// Whoever cannot write down what it delivers leaves that to another: its Lease runs out.
    fn look_at_disk(&mut self) {
        let now = Instant::now();
        let failing = self.store.health().borrow().failing.is_some();
        self.failing = failing.then(|| self.failing.unwrap_or(now));
        let waiting = self.store.disk_wait().and_then(|waited| now.checked_sub(waited));
        self.elector.note_failing(self.failing.into_iter().chain(waiting).min());
        match (self.fit, self.elector.is_fit(now)) {
            (true, false) => {
                tracing::warn!("the state file cannot be written: this replica does not lead until it can");
            }
            (false, true) => tracing::info!("the state file can be written again: this replica may lead"),
            _ => {}
        }
        self.fit = self.elector.is_fit(now);
    }

    /// How long a request may take: there must be time for another one before the lead ends.
    fn patience(&self) -> Duration {
        let whole = self.times.renew / 2;
        let left = self.elector.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(whole, |left| left.min(whole)).max(Duration::from_millis(1))
    }

    async fn read(&mut self) {
        let api = self.api.clone();
        let lease = within(self.patience(), api.get_opt(&self.name)).await;
        match lease {
            Ok(lease) => {
                self.elector.read(lease.as_ref().map(record), Instant::now());
                if let Some(new) = lease.as_ref().map(Left::on).filter(|_| !self.elector.is_leading()) {
                    self.left.send_if_modified(|before| std::mem::replace(before, new.clone()) != new);
                }
                if self.lease.is_none() && self.elector.yields(Instant::now()) {
                    tracing::info!("this replica is new: for a while it leaves the lead to the one that ran before it");
                }
                self.lease = lease;
                self.well();
            }
            Err(Failure::Refused(_)) => self.elector.refused(Instant::now()),
            Err(Failure::Failed(why)) => self.ill(&why),
        }
    }

    async fn write(&mut self) {
        let was_leading = self.elector.is_leading();
        if was_leading {
            self.renew_mark(self.patience().min(self.times.retry)).await;
        }
        let begun = Instant::now();
        let lease = self.next_lease(&self.identity, was_leading);
        let (api, post) = (self.api.clone(), PostParams::default());
        let patience = self.patience();
        let written = match self.lease {
            Some(_) => within(patience, api.replace(&self.name, &post, &lease)).await,
            None if !self.create => Err(Failure::Failed(format!("there is no Lease {}", self.name))),
            None => match within(patience, api.create(&post, &lease)).await {
                // The namespace itself is not there: no reason to try again at once.
                Err(Failure::Refused(404)) => Err(Failure::Failed("there is no such namespace".to_owned())),
                other => other,
            },
        };
        match written {
            Ok(lease) => {
                self.elector.wrote(record(&lease), begun);
                if let Some(deadline) = self.elector.deadline() {
                    self.ledger.lead().until(deadline);
                }
                if !was_leading {
                    tracing::info!(identity = self.identity, "this replica leads now and delivers");
                    let _ = self.turns.send(Turn::Lead(Left::on(&lease)));
                }
                self.lease = Some(lease);
                self.well();
            }
            Err(Failure::Refused(_)) => self.elector.refused(Instant::now()),
            Err(Failure::Failed(why)) => self.ill(&why),
        }
    }

    /// The Lease as this replica writes it. Whoever takes over leaves what the one before left where it is, until it has
    /// heeded that.
    fn next_lease(&self, holder: &str, own_mark: bool) -> Lease {
        let mut lease = self.lease.clone().unwrap_or_else(|| Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: None,
        });
        let now = MicroTime(Timestamp::now());
        let before = lease.spec.take().unwrap_or_default();
        let changes = before.holder_identity.as_deref() != Some(holder);
        let transitions = before.lease_transitions.unwrap_or(0);
        let seconds = i32::try_from(self.times.lease.as_secs()).unwrap_or(i32::MAX).max(1);
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(seconds),
            acquire_time: if changes { Some(now.clone()) } else { before.acquire_time.clone() },
            renew_time: Some(now),
            lease_transitions: Some(transitions + i32::from(changes && !holder.is_empty())),
            ..before
        });
        if own_mark && !self.mark.is_empty() {
            let annotations = lease.metadata.annotations.get_or_insert_with(BTreeMap::new);
            annotations.insert(MARK.to_owned(), self.mark.clone());
            let silences = self.ledger.silences_to_text(&self.identity, SILENCES_BYTES);
            annotations.insert(SILENCES.to_owned(), silences);
        }
        lease
    }

    /// Reads off the ledger what is delivered by now. With a long list that takes a moment, so not every time.
    async fn renew_mark(&mut self, patience: Duration) {
        let begun = Instant::now();
        if begun < self.next_mark {
            return;
        }
        // Beyond the time that a sink's list may take comes what the disk takes.
        match tokio::time::timeout(patience, self.ledger.mark(&self.store, patience / 2)).await {
            Ok(Ok(mark)) => self.mark = mark.to_text(MARK_BYTES),
            Ok(Err(error)) => tracing::warn!(%error, "what is delivered cannot be read for the other replicas"),
            Err(_) => tracing::warn!("what is delivered cannot be read in time for the other replicas"),
        }
        self.next_mark = begun + begun.elapsed() * MARK_SHARE;
    }

    /// The last word: what is delivered, and that nobody leads.
    async fn give_up(&mut self) {
        self.ledger.lead().end();
        if !self.elector.is_leading() {
            return;
        }
        self.next_mark = Instant::now();
        self.renew_mark(RELEASE).await;
        let lease = self.next_lease("", true);
        let (api, post) = (self.api.clone(), PostParams::default());
        match within(RELEASE, api.replace(&self.name, &post, &lease)).await {
            Ok(_) => tracing::info!("the lead is given up"),
            Err(_) => tracing::warn!("the lead could not be given up; another replica takes over when it has run out"),
        }
    }

    fn well(&self) {
        let (leading, holder) = (self.elector.is_leading(), self.elector.holder());
        self.tell(|status| {
            if let Some(problem) = status.problem.take() {
                tracing::info!(problem, "the lease can be reached again");
            }
            *status = Status { leading, holder: holder.to_owned(), reached: true, problem: None };
        });
    }

    fn ill(&mut self, why: &str) {
        self.elector.failed(Instant::now());
        self.tell(|status| {
            if status.problem.as_deref() != Some(why) {
                tracing::warn!(why, lease = self.name, "the lease cannot be read or written; trying again");
                status.problem = Some(why.to_owned());
            }
        });
    }

    fn tell(&self, change: impl FnOnce(&mut Status)) {
        self.status.send_if_modified(|status| {
            let before = status.clone();
            change(status);
            *status != before
        });
    }
}

async fn within<T>(patience: Duration, request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match tokio::time::timeout(patience, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if [404, 409].contains(&status.code) => Err(Failure::Refused(status.code)),
        Ok(Err(kube::Error::Api(status))) => Err(Failure::Failed(format!("{} ({})", status.message, status.code))),
        Ok(Err(error)) => Err(Failure::Failed(error.to_string())),
        Err(_) => Err(Failure::Failed("no answer in time".to_owned())),
    }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
    let never_held = spec.is_none_or(|spec| spec.holder_identity.is_none() && spec.lease_transitions.is_none());
    let annotation = lease.metadata.annotations.as_ref().and_then(|all| all.get(LEADS_FIRST));
    Record {
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        holder: spec.and_then(|spec| spec.holder_identity.clone()).unwrap_or_default(),
        lease: Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
        awaits: never_held && annotation.is_some_and(|first| first == HISTORY),
    }
}
