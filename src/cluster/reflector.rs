//! One state machine per feed: resume, list, watch, back off. What it learns it hands to a [`Target`].
//!
//! The rules are client-go's, and a few more that keep what it loses:
//!
//! - A stored cursor is resumed from. Only a version that the server no longer knows leads to a list.
//! - Every list asks for the newest state (version `""`), so that it never goes back in time; only a list that ended
//!   implies deletions.
//! - 429 waits and goes on where it was. So does every other failure that says nothing about the version.
//! - A watch that says nothing past its time is dead. One that said nothing at all in its whole life is not trusted:
//!   a server restored from a backup keeps a watch from a version of its future open in silence.
//! - A server that fails at the same version again and again, in the stream itself, will do so for ever: it cannot tell
//!   of an object that it cannot read. A list does without that change.

mod freshness;
mod reader;
mod status;
mod watching;

use std::{cmp::Ordering, future::Future, time::Duration};

use kube_runtime::watcher::DefaultBackoff;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub use self::{
    freshness::Freshness,
    reader::{Chunk, Reader, Settings, Shared, Walk},
    status::{Ended, Lists, NOT_PERMITTED, Phase, Problem, Relist, Status, Watches},
};
use self::{
    reader::ListPermit,
    watching::{Fault, Then, Watching},
};
use super::{
    Version,
    source::{self, Error},
};
use crate::redact::{Document, Said};

/// What a reflector learned, in the order in which it has to be taken.
#[derive(Clone, Debug)]
pub enum Update {
    /// A list begins: what the target holds and the list does not name is gone, once [`Update::ListEnded`] arrives. A
    /// list that does not end implies nothing; a new `ListBegan` starts over, and so does a new reflector, which may
    /// resume from the cursor of before. The cursor does not move before the end.
    ListBegan,
    /// Part of a list. Each object is true by itself, whether or not the list ends. A list may name an object twice;
    /// the later one holds.
    Listed(Vec<Document>),
    /// The list is whole, and is the state at this version.
    ListEnded(Version),
    /// Added or modified. The cursor moves to the object's version with it.
    Applied(Document),
    /// The object in its last state. Its version is that of the deletion, and the cursor moves to it. Inside a list it
    /// takes back that the list named the object.
    Deleted(Document),
    /// An object that the door refused. It is there (or gone, when `deleted`), in a state that is not known: a list
    /// names it, so that it does not pass for deleted. Outside a list the cursor moves to its version.
    Unreadable { namespace: String, name: String, version: Version, deleted: bool },
    /// Nothing happened up to this version: the cursor moves.
    Bookmark(Version),
}

/// Where a reflector puts what it learns: the store, or a map in a test.
pub trait Target: Send {
    /// The version up to which everything was put here before; `None` when nothing ever was.
    fn cursor(&self) -> Option<Version>;

    /// Takes one update; waits when the target is behind. Fails only when the target is gone for good.
    fn put(&mut self, update: Update) -> impl Future<Output = Result<(), Closed>> + Send;

    /// Takes updates that came in together, in their order.
    fn put_all(&mut self, updates: Vec<Update>) -> impl Future<Output = Result<(), Closed>> + Send {
        async move {
            for update in updates {
                self.put(update).await?;
            }
            Ok(())
        }
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store is closed")]
pub struct Closed;

/// Where a reflector stands. Each state but [`State::Wait`] is one request, or the reading of one answer.
enum State {
    /// Ask the target where it stopped.
    Resume,
    /// Begin a list, streaming where the server can.
    List(Relist),
    /// Read a streaming list up to its end mark. It then goes on as a watch.
    Stream { watching: Watching, reason: Relist, permit: ListPermit },
    /// Read a list page by page, one a step. Without a permit it waits for its turn first.
    Pages { walk: Walk, reason: Relist, permit: Option<ListPermit> },
    /// Open a watch at the cursor.
    Watch,
    /// Read the open watch.
    Watching(Watching),
    /// Compare the cursor with the server's newest version.
    Verify,
    /// Back off, then go on there.
    Wait { after: Duration, then: Box<State> },
}

/// Reads one feed into one target.
pub struct Reflector<T> {
    reader: Reader,
    target: T,
    status: watch::Sender<Status>,
    backoff: DefaultBackoff,
    /// The target's cursor.
    at: Version,
    last_list: Option<Instant>,
    /// Failures in a row of streaming lists.
    stream_failures: u32,
    /// The server found a streaming list invalid. Whether for being one or for its selectors, a page shows.
    stream_refused: bool,
    /// Watches in a row that the server broke off with an error of its own, at the same cursor.
    stuck: u32,
    /// How often it was asked whether all is read.
    asked: watch::Receiver<u64>,
    /// Which of those questions the present list answers.
    listed_for: u64,
    /// Up to which version all has to be read to answer which of them.
    goal: Option<(Version, u64)>,
    freshness: Freshness,
}

/// A list that is needed again so soon after one is waited for: a server may know no version for long.
const RELIST_PAUSE: Duration = Duration::from_secs(10);
/// How often a watch may break at the same cursor before a list is tried.
const STUCK: u32 = 3;
/// How long after a streaming list that stalled the group's lists are paged.
const STREAMS_AGAIN: Duration = Duration::from_secs(600);

impl<T: Target> Reflector<T> {
    pub fn new(reader: Reader, target: T) -> Self {
        Self::telling(reader, target, watch::Sender::new(Status::default()))
    }

    /// It says there how the feed is doing.
    pub fn telling(reader: Reader, target: T, status: watch::Sender<Status>) -> Self {
        let (freshness, asked) = Freshness::new(status.subscribe());
        Self {
            reader,
            target,
            status,
            backoff: DefaultBackoff::default(),
            at: Version::default(),
            last_list: None,
            stream_failures: 0,
            stream_refused: false,
            stuck: 0,
            asked,
            listed_for: 0,
            goal: None,
            freshness,
        }
    }

    /// How the feed is doing, from now on. The last status stays readable after the reflector ended.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// For those who need to know that all is read.
    pub fn freshness(&self) -> Freshness {
        self.freshness.clone()
    }

    /// Runs until it is told to stop, or the target is gone. Gives the target back when it was told to stop.
    pub async fn run(mut self, stop: CancellationToken) -> Result<T, Closed> {
        let mut state = State::Resume;
        loop {
            state = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(self.target),
                next = self.step(state) => next?,
            };
        }
    }

    async fn step(&mut self, state: State) -> Result<State, Closed> {
        match state {
            State::Resume => Ok(match self.target.cursor() {
                Some(version) if !version.as_str().is_empty() => {
                    self.at = version;
                    State::Watch
                }
                _ => self.list_again(Relist::First),
            }),
            State::List(reason) => {
                self.enter(Phase::Listing);
                self.listed_for = *self.asked.borrow_and_update();
                let permit = self.reader.shared.list_permit().await;
                if !self.reader.may_stream() {
                    return Ok(State::Pages { walk: self.reader.walk(), reason, permit: Some(permit) });
                }
                match self.open(true).await {
                    Ok(watching) => {
                        self.target.put(Update::ListBegan).await?;
                        Ok(State::Stream { watching, reason, permit })
                    }
                    Err(error) => Ok(self.stream_failed(reason, error.into())),
                }
            }
            State::Stream { mut watching, reason, permit } => match self.read(&mut watching, true).await? {
                Then::More => Ok(State::Stream { watching, reason, permit }),
                Then::ListEnded => {
                    self.list_ended();
                    Ok(State::Watching(watching))
                }
                Then::Ended => {
                    let error = Error::Malformed("the streaming list ended without its end mark".into());
                    Ok(self.stream_failed(reason, error.into()))
                }
                Then::Anew => Ok(State::List(reason)),
                Then::Failed(fault) => Ok(self.stream_failed(reason, fault)),
            },
            State::Pages { walk, reason, permit } => self.page(walk, reason, permit).await,
            State::Watch if self.has_question() => Ok(State::Verify),
            State::Watch => {
                self.enter(Phase::Connecting);
                match self.open(false).await {
                    Ok(watching) => {
                        self.live(|_| {});
                        Ok(State::Watching(watching))
                    }
                    Err(error) => Ok(self.watch_failed(error.into(), false)),
                }
            }
            State::Watching(mut watching) => match self.read(&mut watching, false).await? {
                Then::More | Then::ListEnded => Ok(State::Watching(watching)),
                Then::Ended if watching.ended_at_once() => {
                    let error = Error::Connection("the watch ended at once, without an event".into());
                    Ok(self.watch_failed(error.into(), false))
                }
                Then::Anew => Ok(State::Watch),
                Then::Ended => {
                    self.status.send_modify(|status| status.watches.ended(Ended::Timeout));
                    Ok(match watching.mute(&self.reader.settings) {
                        // It was kept short for its bookmark, and there was none.
                        _ if self.goal.is_some() => self.list_again(Relist::Asked),
                        true => State::Verify,
                        false => State::Watch,
                    })
                }
                Then::Failed(fault) => Ok(self.watch_failed(fault, watching.mute(&self.reader.settings))),
            },
            State::Verify => Ok(self.verify().await),
            State::Wait { after, then } => {
                tokio::time::sleep(after).await;
                Ok(*then)
            }
        }
    }

    /// Opens a watch at the cursor, or a streaming list of the newest state.
    async fn open(&mut self, initial_events: bool) -> Result<Watching, Error> {
        let version = if initial_events { Version::default() } else { self.at.clone() };
        let brief = !initial_events && self.goal.is_some();
        let timeout = if brief { freshness::BRIEF } else { self.reader.settings.random_watch_timeout() };
        let watch = source::Watch { version, timeout, initial_events };
        let _at_once = self.reader.shared.heard().hurry();
        let opened = Instant::now();
        let opening = self.reader.source.watch(&self.reader.feed, &watch);
        let frames = tokio::time::timeout(self.reader.settings.open_timeout, opening)
            .await
            .map_err(|_| Error::Connection("the watch did not open in time".into()))??;
        Ok(Watching::new(frames, opened, timeout))
    }

    async fn read(&mut self, watching: &mut Watching, listing: bool) -> Result<Then, Closed> {
        let batch = tokio::select! {
            biased;
            // First, since a stream may always have more. What it has not read yet comes again from the cursor.
            Ok(()) = self.asked.changed(), if self.goal.is_none() && !listing => return Ok(Then::Anew),
            batch = watching.read(&self.reader, &self.status, &self.at, listing) => batch,
        };
        if !batch.updates.is_empty() {
            self.target.put_all(batch.updates).await?;
            // A stream that always has more ready, into a target that never waits, would keep its thread for itself.
            tokio::task::yield_now().await;
        }
        if let Some(at) = batch.at {
            self.at = at;
            self.stuck = 0;
        }
        if let Some((_, number)) = self.goal.take_if(|(goal, _)| self.at.cmp_within(goal).is_some_and(Ordering::is_ge))
        {
            self.answer(number);
        }
        Ok(batch.then)
    }

    async fn page(&mut self, mut walk: Walk, reason: Relist, permit: Option<ListPermit>) -> Result<State, Closed> {
        self.enter(Phase::Listing);
        let permit = match permit {
            Some(permit) => permit,
            None => self.reader.shared.list_permit().await,
        };
        let mut page = match self.reader.next_page(&mut walk).await {
            Ok(page) => page,
            Err(error) => return Ok(self.page_failed(walk, reason, error)),
        };
        if std::mem::take(&mut self.stream_refused) {
            self.reader.shared.refuse_streams(&self.reader.feed.resource.group, None);
            info!(feed = %self.reader.feed, "no streaming lists here, reading pages instead");
        }
        if page.first {
            self.target.put(Update::ListBegan).await?;
        }
        while let Some(chunk) = self.reader.next_chunk(&mut page) {
            self.status.send_modify(|status| {
                status.objects += chunk.documents.len() as u64 + chunk.refused;
                status.refused += chunk.refused;
            });
            self.target.put_all(chunk.into_updates()).await?;
            tokio::task::yield_now().await;
        }
        let Some(version) = page.end else {
            return Ok(State::Pages { walk, reason, permit: Some(permit) });
        };
        self.target.put(Update::ListEnded(version.clone())).await?;
        self.at = version;
        self.list_ended();
        Ok(State::Watch)
    }

    /// One item of the server's newest state shows whether the server went back in time, and how far "all" goes for
    /// those who ask.
    async fn verify(&mut self) -> State {
        let asked = *self.asked.borrow_and_update();
        let newest = source::List { limit: 1, ..source::List::default() };
        match self.reader.source.list(&self.reader.feed, &newest).await {
            Ok(page) if page.version.cmp_within(&self.at) == Some(Ordering::Less) => {
                let error = Error::TooNew(Said::own(format!("it is at {}, before {}", page.version, self.at)));
                self.watch_failed(error.into(), false)
            }
            Ok(page) => {
                match page.version.cmp_within(&self.at) {
                    _ if asked <= self.status.borrow().answered => {}
                    Some(Ordering::Greater) => self.goal = Some((page.version, asked)),
                    Some(_) => self.answer(asked),
                    // Versions without an order: only a list can tell.
                    None => return self.list_again(Relist::Asked),
                }
                State::Watch
            }
            Err(error) => self.watch_failed(error.into(), false),
        }
    }

    /// Somebody asks whether all is read, and nobody has looked how far that goes.
    fn has_question(&self) -> bool {
        let seen = self.goal.as_ref().map_or(self.status.borrow().answered, |(_, number)| *number);
        *self.asked.borrow() > seen
    }

    /// Everything that the server had when this was asked is put.
    fn answer(&self, number: u64) {
        self.status.send_if_modified(|status| {
            let new = status.answered < number;
            status.answered = status.answered.max(number);
            new
        });
    }

    fn list_ended(&mut self) {
        self.last_list = Some(Instant::now());
        self.stuck = 0;
        self.goal = None;
        self.answer(self.listed_for);
        self.stream_failures = 0;
        self.live(|status| status.lists.ok += 1);
        debug!(feed = %self.reader.feed, version = %self.at, "listed");
    }

    fn list_again(&mut self, reason: Relist) -> State {
        self.status.send_modify(|status| *status.relists.entry(reason).or_default() += 1);
        State::List(reason)
    }

    /// What to do after a watch failed: the one place that decides whether to list again. `mute` says that the watch
    /// said nothing at all for a long time.
    fn watch_failed(&mut self, fault: Fault, mute: bool) -> State {
        let (ended, relist) = match &fault {
            Fault::Source(Error::Expired(_)) => (Ended::Expired, Some(Relist::Expired)),
            Fault::Source(Error::TooNew(_)) => (Ended::TooNew, Some(Relist::WentBack)),
            Fault::Source(Error::Invalid(_)) => (Ended::Failed, Some(Relist::Refused)),
            Fault::Source(Error::Busy { .. }) => (Ended::Busy, None),
            Fault::Broken(_) => {
                self.stuck += 1;
                (Ended::Failed, (self.stuck >= STUCK).then_some(Relist::Stuck))
            }
            Fault::Source(_) | Fault::TooLarge => (Ended::Failed, None),
            Fault::Silent => (Ended::Silent, None),
        };
        self.status.send_modify(|status| status.watches.ended(ended));
        let Some(reason) = relist else {
            return self.back_off(fault, if mute { State::Verify } else { State::Watch });
        };
        let then = self.list_again(reason);
        let again = self.last_list.is_some_and(|at| at.elapsed() < RELIST_PAUSE);
        if again || matches!(reason, Relist::Refused | Relist::Stuck) {
            return self.back_off(fault, then);
        }
        if let Fault::Source(error) = fault {
            info!(feed = %self.reader.feed, %error, "listing again");
        }
        then
    }

    /// A streaming list that the server refuses or never ends is paged from then on; one that fails twice, this time.
    fn stream_failed(&mut self, reason: Relist, fault: Fault) -> State {
        self.stream_failures += 1;
        self.stream_refused = matches!(fault, Fault::Source(Error::Invalid(_)));
        let stalled = matches!(fault, Fault::Silent);
        let refused = self.stream_refused || stalled;
        if stalled {
            // A server that only stalled is asked again some time.
            let until = Instant::now() + STREAMS_AGAIN;
            self.reader.shared.refuse_streams(&self.reader.feed.resource.group, Some(until));
            info!(feed = %self.reader.feed, "the streaming list stalled, reading pages instead");
        }
        if !refused {
            self.status.send_modify(|status| status.lists.failed += 1);
        }
        let paged = refused || matches!(fault, Fault::TooLarge) || self.stream_failures >= 2;
        let then =
            if paged { State::Pages { walk: self.reader.walk(), reason, permit: None } } else { State::List(reason) };
        if refused { then } else { self.back_off(fault, then) }
    }

    /// A page is asked for again as long as that may help; then the list starts over.
    fn page_failed(&mut self, mut walk: Walk, reason: Relist, error: Error) -> State {
        self.status.send_modify(|status| status.lists.failed += 1);
        let again = walk.may_retry(&error);
        let then = if again { State::Pages { walk, reason, permit: None } } else { State::List(reason) };
        self.back_off(error.into(), then)
    }

    fn back_off(&mut self, fault: Fault, then: State) -> State {
        let error = match fault {
            Fault::Source(error) | Fault::Broken(error) => error,
            Fault::Silent => Error::Connection("nothing was heard past its time".into()),
            Fault::TooLarge => Error::Malformed("an object is larger than an event may be".into()),
        };
        let mut after = self.backoff.next().unwrap_or(Duration::from_secs(30));
        if let Error::Busy { after: Some(asked) } = &error {
            after = after.max(*asked);
        }
        if matches!(error, Error::NotFound(_)) {
            self.reader.shared.not_served();
        }
        let after_ms = after.as_millis() as u64;
        match &error {
            // Once: it stays so until someone grants it, and is asked for again all the while.
            Error::Forbidden(why) if !self.status.borrow().denied => {
                warn!(
                    feed = %self.reader.feed, %why,
                    "not permitted: it is left out, and taken up when it is permitted; `kubediff rbac` prints the role"
                );
            }
            Error::Forbidden(_) => debug!(feed = %self.reader.feed, after_ms, "still not permitted"),
            // Most likely its CRD is gone, which is no trouble: discovery looks, and says so.
            Error::NotFound(_) => info!(feed = %self.reader.feed, after_ms, "not served at the moment"),
            error => warn!(feed = %self.reader.feed, %error, after_ms, "waiting before the next try"),
        }
        self.status.send_modify(|status| status.waiting(error));
        State::Wait { after, then: Box::new(then) }
    }

    fn live(&mut self, and: impl FnOnce(&mut Status)) {
        if self.status.borrow().denied {
            info!(feed = %self.reader.feed, "permitted now");
        }
        self.status.send_modify(|status| {
            and(status);
            status.live();
        });
    }

    fn enter(&mut self, phase: Phase) {
        self.status.send_modify(|status| status.enter(phase));
    }
}

#[cfg(test)]
mod tests;
