//! What reflectors and audits read with: the feed, its source and door, and lists page by page.

use std::{
    collections::HashMap,
    ops::RangeInclusive,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use glob_match::glob_match;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tracing::warn;

use super::Update;
use crate::{
    cluster::{
        Feed, Version,
        discovery::Trigger,
        ear::{Heard, Hurry},
        source::{Error, List, Named, Source},
    },
    redact::{Document, Door, Refused},
};

#[derive(Clone, Debug)]
pub struct Settings {
    /// How long the server is asked to keep a watch open; each watch draws its own. client-go's numbers. Some load
    /// balancers cut at 240 s.
    pub watch_timeout: RangeInclusive<Duration>,
    /// How long past its end a watch is waited for.
    pub grace: Duration,
    /// A watch that has had a bookmark and then nothing for so long is dead: servers that send them do so every minute.
    pub silence: Duration,
    /// A watch that was open so long without a word is not trusted: a server that sends bookmarks has sent one by then.
    pub mute: Duration,
    /// How long a watch may take to open.
    pub open_timeout: Duration,
    /// Read lists as streams where the server can: least memory. Pages cost the server a little less.
    pub streaming: bool,
    /// How long a streaming list may pause. A server that knows no streaming lists never ends one.
    pub stream_pause: Duration,
    /// Objects a page at most: client-go's number.
    pub page: u32,
    /// Pages are made smaller when this many bytes hold fewer objects. The first page, of unknown objects, is small.
    pub page_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            watch_timeout: Duration::from_secs(300)..=Duration::from_secs(600),
            grace: Duration::from_secs(30),
            silence: Duration::from_secs(180),
            mute: Duration::from_secs(120),
            open_timeout: Duration::from_secs(60),
            streaming: true,
            stream_pause: Duration::from_secs(30),
            page: 500,
            page_bytes: 4 << 20,
        }
    }
}

impl Settings {
    pub(super) fn random_watch_timeout(&self) -> Duration {
        let (from, to) = (self.watch_timeout.start().as_secs(), self.watch_timeout.end().as_secs());
        Duration::from_secs(rand::random_range(from..=to.max(from)))
    }
}

/// What all reflectors of one source have in common.
pub struct Shared {
    lists: Arc<Semaphore>,
    heard: Arc<Heard>,
    /// Groups whose server refused a streaming list, and until when that is believed. An aggregated API says nothing
    /// about the others.
    no_streams: Mutex<HashMap<String, Option<Instant>>>,
    discovery: Option<Trigger>,
}

impl Shared {
    /// At most `lists` lists at once. `discovery` is told when a resource is found to be served no more.
    pub fn new(lists: usize, discovery: Option<Trigger>) -> Arc<Self> {
        let lists = Arc::new(Semaphore::new(lists.max(1)));
        Arc::new(Self { lists, heard: Arc::default(), no_streams: Mutex::default(), discovery })
    }

    pub(in crate::cluster) fn heard(&self) -> &Arc<Heard> {
        &self.heard
    }

    pub(super) async fn list_permit(&self) -> ListPermit {
        let permit = Arc::clone(&self.lists).acquire_owned().await.expect("the semaphore is never closed");
        ListPermit { _permit: permit, _at_once: self.heard.hurry() }
    }

    /// `until`: `None` for good.
    pub(super) fn refuse_streams(&self, group: &str, until: Option<Instant>) {
        self.no_streams.lock().unwrap_or_else(PoisonError::into_inner).insert(group.to_owned(), until);
    }

    fn streams(&self, group: &str) -> bool {
        match self.no_streams.lock().unwrap_or_else(PoisonError::into_inner).get(group) {
            None => true,
            Some(until) => until.is_some_and(|until| until <= Instant::now()),
        }
    }

    pub(super) fn not_served(&self) {
        if let Some(discovery) = &self.discovery {
            discovery.fire();
        }
    }
}

/// The right to read a list: there are only a few at once.
#[derive(Debug)]
pub(super) struct ListPermit {
    _permit: OwnedSemaphorePermit,
    _at_once: Hurry,
}

/// Reads one feed through the door.
#[derive(Clone)]
pub struct Reader {
    pub source: Arc<dyn Source>,
    pub feed: Arc<Feed>,
    pub door: Arc<Door>,
    pub shared: Arc<Shared>,
    pub settings: Arc<Settings>,
}

/// Objects of a list that were read together.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    pub documents: Vec<Document>,
    /// Objects that are there but could not be taken in, as [`Update::Unreadable`].
    pub unreadable: Vec<Update>,
    /// How many were refused; more than `unreadable` when some had no name.
    pub refused: u64,
}

/// What became of an object at the door.
#[allow(clippy::large_enum_variant, reason = "it is taken apart at once, and nearly always is the large one")]
pub(super) enum Admitted {
    Taken(Document),
    /// In a namespace that the feed leaves out.
    LeftOut(Version),
    Refused(Option<Named>),
    /// No JSON: what came is not what was sent.
    Torn(Refused),
}

/// A list in progress, page by page. It keeps its place over failures.
#[derive(Debug, Default)]
pub struct Walk {
    limit: u32,
    token: Option<String>,
    pages: u32,
    /// One answer with everything: the way out when a continue token expired.
    whole: bool,
    failures: u32,
}

/// A page, used up chunk by chunk.
pub(super) struct Page {
    /// Whether the list begins here: the first page, or a list that had to start over.
    pub(super) first: bool,
    items: std::vec::IntoIter<Bytes>,
    /// The list's version, on its last page.
    pub(super) end: Option<Version>,
}

/// Tries of one page before its list starts over.
const PAGE_TRIES: u32 = 5;
/// Objects of the first page at most.
const FIRST_PAGE: u32 = 100;
/// What is decoded at once.
const CHUNK: usize = 100;
const CHUNK_BYTES: usize = 1 << 20;

impl Walk {
    /// Whether to ask for the same page again. One that could not be read, for its size perhaps, is halved.
    pub(super) fn may_retry(&mut self, error: &Error) -> bool {
        self.failures += 1;
        if matches!(error, Error::Malformed(_)) && self.limit > 1 {
            self.limit /= 2;
        }
        self.failures < PAGE_TRIES
            && matches!(error, Error::Busy { .. } | Error::Server { .. } | Error::Connection(_) | Error::Malformed(_))
    }
}

impl Reader {
    pub(super) fn may_stream(&self) -> bool {
        self.settings.streaming && self.shared.streams(&self.feed.resource.group)
    }

    /// A new list.
    pub fn walk(&self) -> Walk {
        Walk { limit: self.settings.page.clamp(1, FIRST_PAGE), ..Walk::default() }
    }

    /// The next page of the newest state. Every page shows the state that the first one showed.
    pub(super) async fn next_page(&self, walk: &mut Walk) -> Result<Page, Error> {
        loop {
            let list = List { limit: walk.limit, continue_token: walk.token.clone(), version: Version::default() };
            match self.source.list(&self.feed, &list).await {
                Ok(page) => {
                    let first = walk.pages == 0;
                    walk.pages += 1;
                    walk.failures = 0;
                    let bytes = page.items.iter().map(Bytes::len).sum::<usize>();
                    let fit = self.settings.page_bytes / (bytes / page.items.len().max(1)).max(1);
                    walk.limit = u32::try_from(fit).unwrap_or(u32::MAX).clamp(1, self.settings.page.max(1));
                    walk.token = page.continue_token;
                    let end = walk.token.is_none().then_some(page.version);
                    return Ok(Page { first, items: page.items.into_iter(), end });
                }
                Err(Error::Expired(_)) if walk.pages > 0 && !walk.whole => {
                    *walk = Walk { whole: true, ..Walk::default() };
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The next objects of a page, `None` when it is used up. Their bytes are let go as they are decoded.
    pub(super) fn next_chunk(&self, page: &mut Page) -> Option<Chunk> {
        let mut chunk = Chunk::default();
        let (mut count, mut bytes) = (0, 0);
        while count < CHUNK && bytes < CHUNK_BYTES {
            let Some(item) = page.items.next() else { break };
            count += 1;
            bytes += item.len();
            match self.admit(&item) {
                Admitted::Taken(document) => chunk.documents.push(document),
                Admitted::LeftOut(_) => {}
                Admitted::Refused(named) => {
                    chunk.refused += 1;
                    chunk.unreadable.extend(named.map(|named| unreadable(named, false)));
                }
                // The list was JSON as a whole.
                Admitted::Torn(_) => chunk.refused += 1,
            }
        }
        (count > 0).then_some(chunk)
    }

    /// Reads the newest state whole and hands it over in chunks; gives its version. `each` gets `None` when the list
    /// begins, and again when it has to start over. A page that fails is tried a few times.
    pub async fn list(&self, mut each: impl FnMut(Option<Chunk>)) -> Result<Version, Error> {
        let _permit = self.shared.list_permit().await;
        let mut walk = self.walk();
        let mut pause = Duration::from_millis(800);
        loop {
            let mut page = match self.next_page(&mut walk).await {
                Ok(page) => page,
                Err(error) if walk.may_retry(&error) => {
                    let asked = if let Error::Busy { after } = error { after } else { None };
                    tokio::time::sleep(asked.unwrap_or_default().max(pause)).await;
                    pause *= 2;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if page.first {
                each(None);
            }
            while let Some(chunk) = self.next_chunk(&mut page) {
                each(Some(chunk));
                tokio::task::yield_now().await;
            }
            if let Some(version) = page.end {
                return Ok(version);
            }
        }
    }

    /// Takes an object through the door. What is refused is told in the log, without a word of its content.
    pub(super) fn admit(&self, object: &[u8]) -> Admitted {
        self.shared.heard.change(object.len());
        let refused = match self.door.admit(&self.feed.resource, object) {
            Ok(document) => {
                let namespace = &document.meta().namespace;
                let out = self.feed.not_namespaces.iter().any(|pattern| glob_match(pattern, namespace));
                return if out && !namespace.is_empty() {
                    Admitted::LeftOut(document.meta().version.clone())
                } else {
                    Admitted::Taken(document)
                };
            }
            Err(torn @ (Refused::NotJson { .. } | Refused::NotText { .. })) => return Admitted::Torn(torn),
            Err(refused) => refused,
        };
        let named = Named::of(object);
        let name = named.as_ref().map(|named| format!("{}/{}", named.namespace, named.name)).unwrap_or_default();
        warn!(feed = %self.feed, object = name, reason = %refused, "an object could not be taken in");
        Admitted::Refused(named)
    }
}

pub(super) fn unreadable(named: Named, deleted: bool) -> Update {
    Update::Unreadable { namespace: named.namespace, name: named.name, version: named.version, deleted }
}

impl Chunk {
    pub(super) fn into_updates(self) -> Vec<Update> {
        let mut updates = self.unreadable;
        if !self.documents.is_empty() {
            updates.push(Update::Listed(self.documents));
        }
        updates
    }
}
