//! The one thread that writes: takes commands in batches, a transaction each, and tells of what is committed.

use std::{
    collections::{HashMap, HashSet},
    hash::BuildHasherDefault,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    thread::Thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};

use super::{
    Audit, Audited, Close, Delta, FeedId, Health, Index, Journal, OpenError, RETRY_COMMIT, Reader, Subscription,
    Vitals, Write,
    apply::Work,
    codec::{self, Decoder, Encoder},
    file::{self, Hold, Opened},
    keys::{AsIs, Entry, Key, Keys},
    subscription::Queue,
};
use crate::{
    cluster::{Feed, Scope, Version, reflector::Update},
    redact::Document,
};

/// A batch ends when this much has come together, or nothing more came for a moment.
const BATCH_COMMANDS: usize = 500;
const BATCH_TIME: Duration = Duration::from_millis(50);
/// How long a batch waits for company: a commit costs ten times what a change in it does.
const LINGER: Duration = Duration::from_millis(5);
/// While changes come one after the other, commits keep this distance: long beside what a commit costs, and short
/// beside what anybody notices.
const DISTANCE: Duration = Duration::from_millis(60);
/// What goes along with changes is written after this long when there are none.
pub(super) const ALONG: Duration = Duration::from_millis(250);

/// How long a command may wait for others. The order is that of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Patience {
    /// Somebody waits for it; or it is part of a list, whose reader is held up by bytes that are not written yet.
    None,
    /// It is a change, or as good as one.
    Soon,
    /// It goes along with the next changes.
    Along,
}

impl Patience {
    /// From the last commit on.
    fn distance(self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Soon => DISTANCE,
            Self::Along => ALONG,
        }
    }
}

/// How the writer's thread is reached beside its inbox: it is woken from a nap by those who are more urgent than what it
/// waits with, and told that the program ends.
#[derive(Debug, Default)]
pub(super) struct Bell {
    thread: OnceLock<Thread>,
    /// Of what it waits with, as a number; 0 while it does not.
    patience: AtomicU8,
    /// There is no time to wait for a disk.
    ending: AtomicBool,
}

impl Bell {
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    /// To be called when the command is in the inbox: the writer looks there after it has said how patient it is.
    pub(super) fn wake_for(&self, patience: Patience) {
        if self.patience.load(Ordering::SeqCst) > patience as u8 {
            self.thread.get().map(Thread::unpark);
        }
    }
}

pub(super) enum Command {
    Open {
        feed: Feed,
        indexes: Vec<Index>,
        news: bool,
        reply: oneshot::Sender<OpenedFeed>,
    },
    Put {
        feed: FeedId,
        update: Put,
        room: OwnedSemaphorePermit,
    },
    Close {
        feed: FeedId,
        how: Close,
        reply: oneshot::Sender<()>,
    },
    ForgetAllBut {
        keep: Vec<String>,
        silent: Vec<String>,
        reply: oneshot::Sender<()>,
    },
    Subscribe {
        feed: FeedId,
        merge_beyond: usize,
        reply: oneshot::Sender<Subscription>,
    },
    Audit {
        feed: FeedId,
        audit: Arc<Audit>,
        reply: oneshot::Sender<Option<Audited>>,
    },
    Write {
        write: Write,
        patience: Patience,
        reply: oneshot::Sender<()>,
    },
    /// A dictionary is made of a resource's objects, or cannot be.
    Trained {
        resource: String,
        objects: u64,
        dictionary: Option<Vec<u8>>,
    },
    End,
}

impl Command {
    pub(super) fn patience(&self) -> Patience {
        match self {
            Self::Put { update: Put::Applied(_) | Put::Deleted(_) | Put::Bookmark(_), .. } => Patience::Soon,
            Self::Write { patience, .. } => *patience,
            _ => Patience::None,
        }
    }
}

/// [`Update`] with documents that a delta can share.
pub(super) enum Put {
    ListBegan,
    Listed(Vec<Arc<Document>>),
    ListEnded(Version),
    Applied(Arc<Document>),
    Deleted(Arc<Document>),
    Unreadable { namespace: String, name: String, version: Version, deleted: bool },
    Bookmark(Version),
}

impl From<Update> for Put {
    fn from(update: Update) -> Self {
        match update {
            Update::ListBegan => Self::ListBegan,
            Update::Listed(documents) => Self::Listed(documents.into_iter().map(Arc::new).collect()),
            Update::ListEnded(version) => Self::ListEnded(version),
            Update::Applied(document) => Self::Applied(Arc::new(document)),
            Update::Deleted(document) => Self::Deleted(Arc::new(document)),
            Update::Unreadable { namespace, name, version, deleted } => {
                Self::Unreadable { namespace, name, version, deleted }
            }
            Update::Bookmark(version) => Self::Bookmark(version),
        }
    }
}

pub(super) struct OpenedFeed {
    pub(super) id: FeedId,
    pub(super) cursor: Option<Version>,
    pub(super) synced: watch::Receiver<bool>,
}

/// The open feeds.
#[derive(Default)]
pub(super) struct Feeds(pub(super) HashMap<FeedId, FeedState, BuildHasherDefault<AsIs>>);

pub(super) struct FeedState {
    pub(super) feed: Feed,
    pub(super) resource: String,
    pub(super) keys: Keys,
    pub(super) cursor: Option<Version>,
    /// Counts the lists begun; an entry that the last one did not name is gone when it ends.
    pub(super) list: u32,
    /// Between the begin and the end of a list the cursor stands still.
    pub(super) listing: bool,
    pub(super) indexes: Vec<Index>,
    pub(super) subscribers: Vec<Arc<Queue>>,
    pub(super) synced: watch::Sender<bool>,
    /// The objects of its first list are news.
    pub(super) news: bool,
}

impl Feeds {
    /// The feeds that may hold an object of a kind in a namespace.
    pub(super) fn of_kind(&self, group: &str, kind: &str, namespace: &str) -> impl Iterator<Item = FeedId> {
        self.0.iter().filter_map(move |(id, state)| {
            let resource = &state.feed.resource;
            let there = match &state.feed.scope {
                Scope::All => true,
                Scope::Namespace(scope) => scope == namespace,
            };
            (there && resource.kind == kind && resource.group == group).then_some(*id)
        })
    }
}

/// What a batch changed, taken over when it is committed.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) keys: HashMap<(FeedId, Key), Option<Entry>, BuildHasherDefault<AsIs>>,
    pub(super) answers: Vec<Answer>,
    pub(super) cursors: HashMap<FeedId, Version>,
    /// Feeds that know everything only after this version from now on.
    pub(super) begins: HashMap<FeedId, i64>,
    /// Which list each feed is at, and whether it is still going on.
    pub(super) lists: HashMap<FeedId, (u32, bool)>,
    pub(super) deltas: Vec<(FeedId, Delta)>,
    pub(super) opened: HashMap<FeedId, FeedState>,
    /// One that is opened again in the same batch is among the opened too.
    pub(super) closed: HashSet<FeedId>,
    pub(super) grown: HashSet<FeedId>,
}

impl Batch {
    /// What is known of a key, as the batch leaves it.
    pub(super) fn entry(&self, feeds: &Feeds, feed: FeedId, key: Key) -> Option<Entry> {
        match self.keys.get(&(feed, key)) {
            Some(staged) => *staged,
            None => feeds.0.get(&feed)?.keys.get(&key).copied(),
        }
    }
}

/// What a command is answered, when the batch is committed.
pub(super) enum Answer {
    Done,
    Feed(FeedId),
    Audited(Option<Audited>),
}

pub(super) struct Writer {
    connection: Connection,
    path: std::path::PathBuf,
    encoder: Encoder,
    decoder: Decoder,
    feeds: Feeds,
    journal: Option<Box<dyn Journal>>,
    inbox: mpsc::UnboundedReceiver<Command>,
    /// Makes dictionaries beside the writing; one at a time.
    training: Option<std::thread::JoinHandle<()>>,
    trained: mpsc::WeakUnboundedSender<Command>,
    /// Resources with more objects than before, which may be due for one.
    grown: HashSet<String>,
    health: watch::Sender<Health>,
    last_commit: Option<Instant>,
    vitals: Arc<Vitals>,
    bell: Arc<Bell>,
    _hold: Hold,
}

impl Writer {
    pub(super) fn new(
        opened: Opened,
        journal: Option<Box<dyn Journal>>,
        inbox: mpsc::UnboundedReceiver<Command>,
        trained: mpsc::WeakUnboundedSender<Command>,
        health: watch::Sender<Health>,
        vitals: Arc<Vitals>,
        bell: Arc<Bell>,
    ) -> Result<Self, OpenError> {
        let Opened { connection, path, hold, .. } = opened;
        let encoder = Encoder::load(&connection).map_err(|source| OpenError::Sql { path: path.clone(), source })?;
        Ok(Self {
            connection,
            path,
            encoder,
            decoder: Decoder::new(),
            feeds: Feeds::default(),
            journal,
            inbox,
            training: None,
            trained,
            grown: HashSet::new(),
            health,
            last_commit: None,
            vitals,
            bell,
            _hold: hold,
        })
    }

    pub(super) fn run(mut self) {
        let _ = self.bell.thread.set(std::thread::current());
        while let Some(first) = self.inbox.blocking_recv() {
            let mut commands = self.gather(first);
            let last = commands.iter().position(|command| matches!(command, Command::End));
            commands.truncate(last.unwrap_or(commands.len()));
            let Some(batch) = self.commit_until_it_holds(&mut commands) else { return };
            self.tell(commands, batch);
            if last.is_some() {
                break;
            }
        }
        self.training.take().map(std::thread::JoinHandle::join);
        let _ = self.connection.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE);");
    }

    /// Waits for company in few, long naps: a thread that wakes for each command costs more than the commands do.
    fn gather(&mut self, first: Command) -> Vec<Command> {
        let mut patience = first.patience();
        // Since when it waits with one that is so urgent.
        let mut began = Instant::now();
        let mut commands = vec![first];
        loop {
            let before = commands.len();
            while commands.len() < BATCH_COMMANDS
                && let Ok(command) = self.inbox.try_recv()
            {
                if command.patience() < patience {
                    (patience, began) = (command.patience(), Instant::now());
                }
                commands.push(command);
            }
            if commands.len() >= BATCH_COMMANDS || matches!(commands.last(), Some(Command::End)) {
                return commands;
            }
            let now = Instant::now();
            let due = self.last_commit.map_or(began, |last| last + patience.distance());
            let rest = if due > began {
                due.saturating_duration_since(now)
            } else {
                let alone = commands.len() == before && now - began >= LINGER;
                if alone || now - began >= BATCH_TIME { Duration::ZERO } else { LINGER }
            };
            if rest.is_zero() {
                return commands;
            }
            self.nap(patience, rest);
        }
    }

    fn nap(&self, patience: Patience, rest: Duration) {
        self.bell.patience.store(patience as u8, Ordering::SeqCst);
        // What came before that was said has woken nobody.
        if self.inbox.is_empty() || patience == Patience::None {
            std::thread::park_timeout(rest);
        }
        self.bell.patience.store(0, Ordering::SeqCst);
    }

    /// `None` when it never will: the file is damaged, or the program ends before there is room. What is not committed is
    /// read from the cluster again after the next start.
    fn commit_until_it_holds(&mut self, commands: &mut [Command]) -> Option<Batch> {
        loop {
            let began = Instant::now();
            let result = self.commit(commands);
            self.vitals.rounds.fetch_add(1, Ordering::Relaxed);
            if let Some(journal) = &mut self.journal {
                journal.settled(result.is_ok());
            }
            match result {
                Ok(batch) => {
                    self.last_commit = Some(Instant::now());
                    self.vitals.commits.observe(began.elapsed());
                    self.health.send_modify(|health| {
                        if health.failing.take().is_some() {
                            tracing::info!("the state file can be written again: nothing was lost");
                        }
                        health.commits += 1;
                    });
                    return Some(batch);
                }
                Err(error) if !file::may_heal(&error) => {
                    file::mark_damaged(&self.path, &error);
                    return None;
                }
                Err(error) => {
                    if self.bell.ending.load(Ordering::SeqCst) {
                        tracing::warn!(%error, "the last changes could not be stored; they are read again after the next start");
                        return None;
                    }
                    let why = error.to_string();
                    self.health.send_if_modified(|health| {
                        let new = health.failing.as_ref() != Some(&why);
                        if new {
                            tracing::error!(
                                error = %why, path = %self.path.display(),
                                "cannot write the state file: changes wait in the cluster and nothing is dropped; make room or mend the disk"
                            );
                            health.failing = Some(why.clone());
                        }
                        new
                    });
                    std::thread::sleep(RETRY_COMMIT);
                }
            }
        }
    }

    fn commit(&mut self, commands: &mut [Command]) -> Result<Batch, rusqlite::Error> {
        let Self { connection, encoder, decoder, feeds, journal, vitals, .. } = self;
        let transaction = vitals.disk.wait(|| connection.transaction_with_behavior(TransactionBehavior::Immediate))?;
        let mut work = Work { transaction: &transaction, encoder, decoder, feeds, journal, batch: Batch::default() };
        for command in commands {
            let answer = match command {
                Command::Open { feed, indexes, news, .. } => Answer::Feed(work.open(feed, indexes, *news)?),
                Command::Audit { feed, audit, .. } => Answer::Audited(work.audit(*feed, audit)?),
                Command::Put { feed, update, .. } => work.put(*feed, update).map(|()| Answer::Done)?,
                Command::Close { feed, how, .. } => work.close(*feed, *how).map(|()| Answer::Done)?,
                Command::ForgetAllBut { keep, silent, .. } => {
                    work.forget_all_but(keep, silent).map(|()| Answer::Done)?
                }
                Command::Write { write, .. } => write(&transaction).map(|()| Answer::Done)?,
                Command::Subscribe { .. } | Command::Trained { .. } | Command::End => Answer::Done,
            };
            work.batch.answers.push(answer);
        }
        work.write_cursors()?;
        let batch = work.batch;
        crate::failpoint::hit("before-commit");
        vitals.disk.wait(|| transaction.commit())?;
        crate::failpoint::hit("after-commit");
        Ok(batch)
    }

    /// Takes over what is committed and answers everyone.
    fn tell(&mut self, commands: Vec<Command>, batch: Batch) {
        let Batch { keys, answers, cursors, lists, deltas, opened, closed, grown, begins: _ } = batch;
        for ((feed, key), entry) in keys {
            let Some(state) = self.feeds.0.get_mut(&feed) else { continue };
            match entry {
                Some(entry) => state.keys.insert(key, entry),
                None => state.keys.remove(&key),
            };
        }
        for (feed, delta) in deltas {
            let Some(state) = self.feeds.0.get_mut(&feed) else { continue };
            state.subscribers.retain(|queue| !queue.is_closed());
            for queue in &state.subscribers {
                queue.push(delta.clone());
            }
        }
        for (feed, (list, listing)) in lists {
            if let Some(state) = self.feeds.0.get_mut(&feed) {
                (state.list, state.listing) = (list, listing);
            }
        }
        for (feed, cursor) in cursors {
            let Some(state) = self.feeds.0.get_mut(&feed) else { continue };
            state.cursor = Some(cursor);
            state.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
        for feed in closed {
            if let Some(state) = self.feeds.0.remove(&feed) {
                state.subscribers.iter().for_each(|queue| queue.close());
            }
        }
        self.feeds.0.extend(opened);
        self.grown.extend(grown.iter().filter_map(|feed| Some(self.feeds.0.get(feed)?.resource.clone())));
        self.train();
        for (command, answer) in commands.into_iter().zip(answers) {
            match (command, answer) {
                (Command::Open { reply, .. }, Answer::Feed(id)) => {
                    if let Some(state) = self.feeds.0.get(&id) {
                        let _ = reply.send(OpenedFeed {
                            id,
                            cursor: state.cursor.clone(),
                            synced: state.synced.subscribe(),
                        });
                    }
                }
                (Command::Audit { reply, .. }, Answer::Audited(found)) => drop(reply.send(found)),
                (
                    Command::Close { reply, .. } | Command::ForgetAllBut { reply, .. } | Command::Write { reply, .. },
                    _,
                ) => {
                    let _ = reply.send(());
                }
                (Command::Subscribe { feed, merge_beyond, reply }, _) => self.subscribe(feed, merge_beyond, reply),
                (Command::Put { room, .. }, _) => drop(room),
                (Command::Trained { resource, objects, dictionary }, _) => {
                    self.training.take().map(std::thread::JoinHandle::join);
                    self.take_up(resource, objects, dictionary);
                    self.train();
                }
                (Command::Open { .. } | Command::Audit { .. } | Command::End, _) => {}
            }
        }
    }

    /// Begins to make a dictionary where one is due, one at a time.
    fn train(&mut self) {
        while self.training.is_none()
            && let Some(resource) = self.grown.iter().next().cloned()
        {
            self.grown.remove(&resource);
            // Of all its feeds together: in a feed a namespace each may be small.
            let feeds = self.feeds.0.values().filter(|state| state.resource == resource);
            let objects = feeds.map(|state| state.keys.len() as u64).sum();
            let samples = match self.encoder.due_samples(&self.connection, &mut self.decoder, &resource, objects) {
                Ok(Some(samples)) => samples,
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(%error, resource, "cannot read samples for a dictionary");
                    continue;
                }
            };
            let trained = self.trained.clone();
            let work = move || {
                let dictionary = codec::train(&samples);
                if let Some(trained) = trained.upgrade() {
                    let _ = trained.send(Command::Trained { resource, objects, dictionary });
                }
            };
            self.training = std::thread::Builder::new().name("dictionary".into()).spawn(work).ok();
        }
    }

    /// After a commit and by itself, so that no frame ever names a dictionary that was rolled back.
    fn take_up(&mut self, resource: String, objects: u64, dictionary: Option<Vec<u8>>) {
        let Some(bytes) = dictionary else { return };
        if let Err(error) = self.encoder.take_up(&self.connection, &mut self.decoder, resource, objects, &bytes) {
            tracing::warn!(%error, "cannot store a dictionary; objects are stored without it");
        }
    }

    /// Between two transactions, so that the reader's moment is exactly where the queue begins.
    fn subscribe(&mut self, feed: FeedId, merge_beyond: usize, reply: oneshot::Sender<Subscription>) {
        let Some(state) = self.feeds.0.get_mut(&feed) else { return };
        let reader = Reader::open(&self.path).and_then(|reader| reader.hold_moment().map(|()| reader));
        match reader {
            Ok(reader) => {
                let queue = Arc::new(Queue::new(merge_beyond));
                state.subscribers.push(queue.clone());
                let _ = reply.send(Subscription::new(queue, reader, feed));
            }
            Err(error) => tracing::error!(%error, "cannot open the state file for a subscriber"),
        }
    }
}
