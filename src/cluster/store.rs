//! The last version of every object, on disk; in memory only which objects there are and at which version.
//!
//! One thread writes. It takes what the reflectors learn, finds out what each update did to the stored object, lets the
//! [`Journal`] write what follows from it, and commits objects, cursors and the journal's rows together or not at all.
//! Readers have connections of their own: they never block the writer and see only what is committed.
//!
//! When the disk is full or fails, nothing is dropped: the writer tries the same batch again until it can be written,
//! the reflectors wait, and when the server has cut their watches meanwhile they go on from their cursors.

mod apply;
mod codec;
mod delta;
mod disk;
pub mod ended;
mod file;
mod keys;
mod migrate;
mod reader;
mod row;
mod selector;
mod subscription;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

pub(crate) use self::writer::Patience;
pub use self::{
    delta::{Delta, Index, Journal, Seen, Sighted, Span, Values, Within},
    disk::say_when_slow,
    file::{OpenError, Place, peek},
    reader::Reader,
    selector::{Selector, SelectorError},
    subscription::Subscription,
};
use super::{
    Feed, Version,
    reflector::{Closed, Target, Update},
};
use crate::{histogram::Histogram, redact::Document};

/// Seconds: an SSD commits in milliseconds, a network volume in tens of them.
const COMMIT: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Bytes of objects that may be on their way to the writer; reflectors wait beyond that.
const IN_FLIGHT_BYTES: usize = 4 << 20;

/// Names an open feed.
pub type FeedId = i64;

/// What is known of the writer from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why the last commit failed, while it does: disk full, read-only, I/O.
    pub failing: Option<String>,
    pub commits: u64,
}

/// A handle on the store; clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    commands: mpsc::UnboundedSender<writer::Command>,
    in_flight: Arc<Semaphore>,
    path: Arc<PathBuf>,
    redaction_key: [u8; 32],
    health: watch::Receiver<Health>,
    vitals: Arc<Vitals>,
    bell: Arc<writer::Bell>,
}

/// What the writer's thread leaves behind as it goes.
#[derive(Debug)]
pub(crate) struct Vitals {
    /// How often the thread came round, also while it cannot write.
    rounds: AtomicU64,
    commits: Histogram,
    disk: disk::Disk,
}

/// What happens to a feed's objects when it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// It will be opened again and goes on from its cursor.
    Keep,
    /// It is no longer wanted: its objects are forgotten without a word.
    Forget,
    /// Its resource or namespace is gone from the cluster: its objects are reported as deleted.
    Gone,
}

/// Does something with the file within the writer's next commit. It runs again when that commit fails.
pub type Write = Box<dyn FnMut(&rusqlite::Transaction<'_>) -> Result<(), rusqlite::Error> + Send>;

impl Store {
    /// Opens the file and starts the writer.
    pub fn open(place: &Place, journal: Option<Box<dyn Journal>>) -> Result<(Self, Writing), OpenError> {
        Self::open_with(place, journal, None)
    }

    /// As [`Store::open`]; a file that is new takes this key for the hashes that stand for secret values. One that has a
    /// key keeps it: with another, every one of them would seem to have changed.
    pub fn open_with(
        place: &Place,
        journal: Option<Box<dyn Journal>>,
        redaction_key: Option<[u8; 32]>,
    ) -> Result<(Self, Writing), OpenError> {
        let opened = file::open(place, redaction_key)?;
        let path = Arc::new(opened.path.clone());
        let redaction_key = opened.redaction_key;
        let (commands, inbox) = mpsc::unbounded_channel();
        let (health, health_seen) = watch::channel(Health::default());
        let vitals = Arc::new(Vitals {
            rounds: AtomicU64::new(0),
            commits: Histogram::new(COMMIT),
            disk: disk::Disk::default(),
        });
        let bell = Arc::new(writer::Bell::default());
        let trained = commands.downgrade();
        let writer = writer::Writer::new(opened, journal, inbox, trained, health, vitals.clone(), bell.clone())?;
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(move || writer.run())
            .map_err(|source| OpenError::Io { path: path.to_path_buf(), source })?;
        let in_flight = Arc::new(Semaphore::new(IN_FLIGHT_BYTES));
        let store = Self { commands, in_flight, path, redaction_key, health: health_seen, vitals, bell };
        let writing = Writing { store: store.clone(), thread: Some(thread) };
        Ok((store, writing))
    }

    /// Takes up a feed: where a reflector puts what it learns. Objects and cursor of an earlier run are there already.
    /// The objects of a feed's very first list are [`Seen::Initial`], or `news` when the resource itself is new.
    pub async fn feed(&self, feed: Feed, indexes: Vec<Index>, news: bool) -> Result<FeedTarget, Closed> {
        let (reply, answer) = oneshot::channel();
        self.command(writer::Command::Open { feed, indexes, news, reply })?;
        let opened = answer.await.map_err(|_| Closed)?;
        Ok(FeedTarget {
            store: self.clone(),
            id: opened.id,
            cursor: opened.cursor,
            listing: false,
            synced: opened.synced,
        })
    }

    /// Ends a feed and says when that is committed.
    pub async fn close(&self, feed: FeedId, how: Close) -> Result<(), Closed> {
        let (reply, done) = oneshot::channel();
        self.command(writer::Command::Close { feed, how, reply })?;
        done.await.map_err(|_| Closed)
    }

    /// Forgets the feeds of earlier runs that are no longer wanted: those that are not open, whose key is not among
    /// these, and whose group is not among the `silent` ones, of which nobody knows (`*`: of none).
    pub async fn forget_all_but(&self, keep: Vec<String>, silent: Vec<String>) -> Result<(), Closed> {
        let (reply, done) = oneshot::channel();
        self.command(writer::Command::ForgetAllBut { keep, silent, reply })?;
        done.await.map_err(|_| Closed)
    }

    /// The present objects of a feed as `Added`, then every later change.
    pub async fn subscribe(&self, feed: FeedId, merge_beyond: usize) -> Result<Subscription, Closed> {
        let (reply, answer) = oneshot::channel();
        self.command(writer::Command::Subscribe { feed, merge_beyond, reply })?;
        answer.await.map_err(|_| Closed)
    }

    /// Compares a finished list with what the watch brought, once the watch is past the list's version.
    /// `None` when the watch is not that far yet.
    pub async fn audit(&self, feed: FeedId, audit: Arc<Audit>) -> Result<Option<Audited>, Closed> {
        let (reply, answer) = oneshot::channel();
        self.command(writer::Command::Audit { feed, audit, reply })?;
        answer.await.map_err(|_| Closed)
    }

    /// Runs `write` in the next commit and says when that is done.
    pub async fn write(&self, write: Write) -> Result<(), Closed> {
        self.write_in_time(write, Patience::None).await
    }

    /// The same for what may be in less of a hurry.
    pub(crate) async fn write_in_time(&self, write: Write, patience: Patience) -> Result<(), Closed> {
        let (reply, done) = oneshot::channel();
        self.command(writer::Command::Write { write, patience, reply })?;
        done.await.map_err(|_| Closed)
    }

    /// A connection for reading.
    pub fn reader(&self) -> Result<Reader, rusqlite::Error> {
        Reader::open(&self.path)
    }

    /// Whether what a reader could not do may succeed later. If not, the file is damaged: that is noted beside it, and the
    /// next start sets it aside.
    pub(crate) fn may_heal(&self, error: &rusqlite::Error) -> bool {
        let may = file::may_heal(error);
        if !may {
            file::mark_damaged(&self.path, error);
        }
        may
    }

    /// The key of the hashes that stand for secret values. It stays with the file, so that equal values stay equal.
    pub fn redaction_key(&self) -> [u8; 32] {
        self.redaction_key
    }

    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// How long commits took, those that failed left out.
    pub fn commit_times(&self) -> &Histogram {
        &self.vitals.commits
    }

    /// How long the writer has been waiting for the disk; `None` while it does not.
    pub fn disk_wait(&self) -> Option<Duration> {
        self.vitals.disk.waiting()
    }

    /// How often it waited for longer than a second.
    pub fn slow_commits(&self) -> u64 {
        self.vitals.disk.slow()
    }

    /// Whether the writer's thread comes round within this time. A disk that is full does not keep it from that.
    pub async fn turns(&self, within: Duration) -> bool {
        let before = self.vitals.rounds.load(Ordering::Relaxed);
        let (reply, _) = oneshot::channel();
        let nothing: Write = Box::new(|_| Ok(()));
        if self.command(writer::Command::Write { write: nothing, patience: Patience::None, reply }).is_err() {
            return false;
        }
        let turned = async {
            while self.vitals.rounds.load(Ordering::Relaxed) == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(within, turned).await.is_ok()
    }

    fn command(&self, command: writer::Command) -> Result<(), Closed> {
        let patience = command.patience();
        self.commands.send(command).map_err(|_| Closed)?;
        self.bell.wake_for(patience);
        Ok(())
    }
}

/// The writer's thread; owned by whoever opened the store.
#[derive(Debug)]
pub struct Writing {
    store: Store,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Writing {
    /// Ends the writer once everything that was put before is committed, or cannot be. Handles that live on find the
    /// store closed.
    pub fn join(mut self) {
        self.store.bell.end();
        let _ = self.store.command(writer::Command::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// `true` when the writer has ended by itself, which only a bug can make it do while handles live.
    pub fn ended(&self) -> bool {
        self.thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }
}

/// A complete list to be compared with the store.
#[derive(Debug)]
pub struct Audit {
    /// The version of which the list is the state.
    pub version: Version,
    pub listed: AuditList,
    /// [`Audited::absent`] of the audit before this one.
    pub absent_before: std::collections::HashSet<String>,
}

/// What an audit found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Audited {
    /// Changes that the watch had missed; they are told of now.
    pub missed: u64,
    /// Uids of objects in the list that the store does not hold. Either the watch is past their deletion already or it
    /// missed their creation: one that is in a later list too was missed.
    pub absent: Vec<String>,
}

/// Collects a list page by page in little memory: every key as a hash, and only the documents that differ from what
/// the store held when the page came in.
#[derive(Debug, Default)]
pub struct AuditList {
    seen: std::collections::HashSet<keys::Key>,
    suspects: Vec<Arc<Document>>,
}

impl AuditList {
    /// Notes an object of the list; `stored` is the version that the store has of it now.
    pub fn note(&mut self, document: Document, stored: Option<&Version>) {
        let meta = document.meta();
        self.note_name(&meta.namespace, &meta.name);
        if stored != Some(&meta.version) {
            self.suspects.push(Arc::new(document));
        }
    }

    /// Notes an object that is there but could not be read.
    pub fn note_name(&mut self, namespace: &str, name: &str) {
        self.seen.insert(keys::Key::new(namespace, name));
    }
}

/// Where one reflector puts what it learns.
#[derive(Debug)]
pub struct FeedTarget {
    store: Store,
    id: FeedId,
    cursor: Option<Version>,
    listing: bool,
    synced: watch::Receiver<bool>,
}

impl FeedTarget {
    pub fn id(&self) -> FeedId {
        self.id
    }

    /// Turns true when the store holds a whole list of the feed, from this run or one before.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.synced.clone()
    }

    async fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Closed> {
        let bytes = u32::try_from(bytes.clamp(1, IN_FLIGHT_BYTES)).unwrap_or(u32::MAX);
        self.store.in_flight.clone().acquire_many_owned(bytes).await.map_err(|_| Closed)
    }
}

impl Target for FeedTarget {
    fn cursor(&self) -> Option<Version> {
        self.cursor.clone()
    }

    async fn put(&mut self, update: Update) -> Result<(), Closed> {
        let room = self.room(size(&update)).await?;
        match &update {
            Update::ListBegan => self.listing = true,
            Update::ListEnded(_) => self.listing = false,
            _ => {}
        }
        if let Some(version) = moves_cursor_to(&update).filter(|_| !self.listing) {
            self.cursor = Some(version.clone());
        }
        self.store.command(writer::Command::Put { feed: self.id, update: writer::Put::from(update), room })
    }
}

/// Outside of a list.
fn moves_cursor_to(update: &Update) -> Option<&Version> {
    match update {
        Update::ListEnded(version) | Update::Bookmark(version) | Update::Unreadable { version, .. } => Some(version),
        Update::Applied(document) | Update::Deleted(document) => Some(&document.meta().version),
        Update::ListBegan | Update::Listed(_) => None,
    }
}

fn size(update: &Update) -> usize {
    /// Besides the text: labels, owners, the allocations themselves.
    const OVERHEAD: usize = 1024;
    let one = |document: &Document| {
        use crate::redact::Part;
        [Part::Metadata, Part::Body, Part::Status].iter().map(|part| document.section(*part).json.len()).sum::<usize>()
            + document.managed_fields().len()
            + OVERHEAD
    };
    match update {
        Update::Listed(documents) => documents.iter().map(one).sum(),
        Update::Applied(document) | Update::Deleted(document) => one(document),
        Update::ListBegan | Update::ListEnded(_) | Update::Unreadable { .. } | Update::Bookmark(_) => 1,
    }
}

/// How long the writer waits before it tries a failed commit again.
pub(crate) const RETRY_COMMIT: Duration = Duration::from_millis(500);
