//! What namespaces say of themselves, where routes ask for it and the store does not know it yet, or no more.
//!
//! A namespace and what is in it come by two watches, in either order. So before a change in a namespace that nothing is
//! known of goes into the store, the server is asked for that namespace, or for all of them where there are many. Where
//! routes go by labels, what the store has of an earlier run is asked for too, once something changes there: it may have
//! changed hands while kubediff was away. What the answer says holds until the watch has
//! brought as much. Of one that is deleted the last words are kept, for the objects that go with it.
//!
//! A change of labels is not waited for: it holds for what is seen after it.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    cluster::{
        Feed, Resource, Scope, Version,
        informer::Gate,
        reflector::Update,
        source::{Error, List, Source},
        store::{Delta, Reader},
    },
    redact::{Document, Door, Part},
};

/// How long a change waits for its namespace, at most. It is routed by what is known then.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long no more is asked about a namespace of which there was no answer, and how long after one that there is none.
const NO_ANSWER: Duration = Duration::from_secs(30);
const NONE_THERE: Duration = Duration::from_secs(5);
/// Between tries.
const PAUSE: Duration = Duration::from_millis(200);
/// Deleted namespaces whose last words are kept.
const GONE: usize = 1024;
const PAGE: u32 = 500;
/// So many are asked for one by one; more, and all of them at once.
const FEW: usize = 16;

/// What a namespace says of itself, at a version of it.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    version: Version,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Metadata {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Said {
    /// What is no map of texts says nothing.
    pub(super) fn read(metadata: &[u8], version: Version) -> Self {
        let Metadata { labels, annotations } = serde_json::from_slice(metadata).unwrap_or_default();
        Self { labels, annotations, version }
    }

    pub(super) fn of(document: &Document) -> Self {
        Self::read(&document.section(Part::Metadata).json, document.meta().version.clone())
    }
}

/// What is asked of namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asks {
    /// No route would use the answer, or the store will never have it.
    #[default]
    Nothing,
    /// Whether they say anything about events in them: what an earlier run knew is good enough.
    Annotations,
    /// Whose they are: what an earlier run knew is not.
    Labels,
}

/// Whether the feed is one of namespaces.
pub(super) fn is_theirs(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "namespaces"
}

/// Whom to ask, and the door that every answer goes through.
#[derive(Clone)]
struct Server {
    source: Arc<dyn Source>,
    door: Arc<Door>,
}

#[derive(Default)]
pub struct Namespaces {
    /// Whether anything is asked of them.
    asked: AtomicBool,
    server: Mutex<Option<Server>>,
    /// Held by the one who asks for all of them; whether that was done.
    listed: tokio::sync::Mutex<bool>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// By the hash of their names: those of which the store or `ahead` has what they say.
    names: HashSet<u64>,
    /// What the store does not have.
    ahead: HashMap<String, Arc<Said>>,
    /// Those in `ahead` that were deleted, the oldest first.
    gone: VecDeque<String>,
    /// How often one was asked for.
    singly: usize,
    /// Of which nothing is asked until then.
    unanswered: HashMap<String, Instant>,
}

fn hash(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

impl Namespaces {
    /// Whom to ask, and the door that every answer goes through.
    pub fn connect(&self, source: Arc<dyn Source>, door: Arc<Door>) {
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(Server { source, door });
    }

    pub fn ask(&self, asks: Asks) {
        self.asked.store(asks != Asks::Nothing, Relaxed);
    }

    /// Takes those that the store has of an earlier run for known.
    pub fn trust(&self, store: &Reader) -> Result<(), rusqlite::Error> {
        for (feed, _) in store.feeds_of("namespaces", "")? {
            let mut statement = store.connection().prepare_cached("SELECT name FROM objects WHERE feed = ?1")?;
            let names = statement.query_map([feed], |row| Ok(hash(row.get_ref(0)?.as_str()?)))?;
            self.known().names.extend(names.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A namespace changed in the store. It may be told twice, when a commit fails.
    pub(super) fn changed(&self, delta: &Delta) {
        let document = delta.object();
        let name = document.meta().name.as_str();
        let mut known = self.known();
        known.unanswered.remove(name);
        if let Delta::Deleted { .. } = delta {
            known.names.remove(&hash(name));
            known.gone.retain(|other| other != name);
            known.gone.push_back(name.to_owned());
            known.ahead.insert(name.to_owned(), Arc::new(Said::of(document)));
            if known.gone.len() > GONE
                && let Some(oldest) = known.gone.pop_front()
            {
                known.ahead.remove(&oldest);
            }
        } else {
            known.names.insert(hash(name));
        }
    }

    /// What is known of a namespace beyond the store, which has this.
    pub(super) fn ahead_of(&self, name: &str, stored: Option<&Said>) -> Option<Arc<Said>> {
        let mut known = self.known();
        let ahead = known.ahead.get(name)?.clone();
        match stored.map(|stored| stored.version.cmp_within(&ahead.version)) {
            None | Some(Some(Ordering::Less)) => Some(ahead),
            Some(_) => {
                known.ahead.remove(name);
                known.gone.retain(|other| other != name);
                None
            }
        }
    }

    /// Those of the update that nothing is known of.
    fn unknown(&self, update: &Update) -> Vec<String> {
        let documents = match update {
            Update::Listed(documents) => documents.as_slice(),
            Update::Applied(document) | Update::Deleted(document) => std::slice::from_ref(document),
            Update::ListBegan | Update::ListEnded(_) | Update::Unreadable { .. } | Update::Bookmark(_) => &[],
        };
        let known = self.known();
        let mut unknown: Vec<String> = Vec::new();
        for document in documents {
            let name = &document.meta().namespace;
            if !name.is_empty()
                && !known.names.contains(&hash(name))
                && known.unanswered.get(name).is_none_or(|until| *until <= Instant::now())
                && !unknown.contains(name)
            {
                unknown.push(name.clone());
            }
        }
        unknown
    }

    async fn find_out(&self, names: Vec<String>) {
        let Some(Server { source, door }) = self.server.lock().unwrap_or_else(PoisonError::into_inner).clone() else {
            return;
        };
        let asking = async {
            if names.len() + self.known().singly > FEW {
                self.list_once(&*source, &door).await;
            }
            for name in &names {
                while !self.known().names.contains(&hash(name)) {
                    self.known().singly += 1;
                    match self.fetch(&*source, &door, &format!("metadata.name={name}")).await {
                        Ok(()) if self.known().names.contains(&hash(name)) => {}
                        Ok(()) => return self.leave(std::slice::from_ref(name), NONE_THERE),
                        // The informer of namespaces says so in the log.
                        Err(Error::Forbidden(_) | Error::Unauthorized(_)) => return self.leave(&names, NO_ANSWER),
                        Err(_) => tokio::time::sleep(PAUSE).await,
                    }
                }
            }
        };
        if tokio::time::timeout(PATIENCE, asking).await.is_err() {
            tracing::warn!(
                namespaces = names.join(", "),
                "there is no answer about these, so changes in them are routed by what was last known of their labels \
                 and annotations"
            );
            self.leave(&names, NO_ANSWER);
        }
    }

    /// Asks no more about them for a while.
    fn leave(&self, names: &[String], long: Duration) {
        let mut known = self.known();
        let now = Instant::now();
        known.unanswered.retain(|_, until| *until > now);
        known.unanswered.extend(names.iter().map(|name| (name.clone(), now + long)));
    }

    async fn list_once(&self, source: &dyn Source, door: &Door) {
        let mut listed = self.listed.lock().await;
        if !*listed {
            *listed = self.fetch(source, door, "").await.is_ok();
        }
    }

    /// Takes in what the server says now of those that fit the field selector.
    async fn fetch(&self, source: &dyn Source, door: &Door, fields: &str) -> Result<(), Error> {
        let resource = Resource::core("v1", "namespaces", "Namespace").cluster_scoped();
        let mut feed = Feed::new(resource, Scope::All);
        feed.fields = fields.to_owned();
        feed.metadata_only = true;
        let mut list = List { limit: PAGE, ..List::default() };
        loop {
            let page = source.list(&feed, &list).await?;
            for document in page.items.iter().filter_map(|item| door.admit(&feed.resource, item).ok()) {
                let mut known = self.known();
                let name = document.meta().name.clone();
                known.names.insert(hash(&name));
                known.gone.retain(|other| *other != name);
                known.ahead.insert(name, Arc::new(Said::of(&document)));
            }
            list.continue_token = page.continue_token;
            if list.continue_token.is_none() {
                return Ok(());
            }
        }
    }
}

impl Gate for Namespaces {
    fn hold<'a>(&'a self, feed: &'a Feed, update: &'a Update) -> Option<BoxFuture<'a, ()>> {
        if !feed.resource.namespaced || feed.unasked || !self.asked.load(Relaxed) {
            return None;
        }
        let unknown = self.unknown(update);
        (!unknown.is_empty()).then(|| -> BoxFuture<'a, ()> { Box::pin(self.find_out(unknown)) })
    }
}
