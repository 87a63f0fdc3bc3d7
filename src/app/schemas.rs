//! The list keys of every kind, from the API server's own OpenAPI documents. Only their extract is kept, in the state file
//! too: a document is fetched when a group and version is first watched, and again when the server says that it changed.
//!
//! What the server says is its index, which has a hash of each document. It is small, and it is read when a CRD or an API
//! service changes, when other resources are watched, and now and then.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{
    cluster::{
        Resource,
        fleet::{self, Overview},
        informer::Factory,
        reflector::Closed,
        source::Source,
        store::{Reader, Store},
    },
    diff::keys::{Keys, Schema},
};

/// The pauses, in seconds, before the looks at the index after something changed: what a server publishes of a CRD lags behind it, by a
/// second mostly, by more when it is busy.
const LOOKS: [u64; 7] = [1, 1, 2, 4, 8, 16, 32];
/// How often to look without a reason; also the longest pause while something is missing.
const POLL: Duration = Duration::from_secs(300);

/// Where the extracts are kept in the store's `meta` table.
const META: &str = "openapi";

/// A handle; clones share it.
#[derive(Clone, Default)]
pub struct Schemas(Arc<RwLock<Inner>>);

#[derive(Default)]
struct Inner {
    /// By group and version.
    extracts: BTreeMap<String, Extract>,
    /// Those that were asked for, by resource.
    keys: HashMap<Resource, Arc<Keys>>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Extract {
    /// Where the document was, with its hash.
    place: String,
    schema: Schema,
}

impl Schemas {
    /// With what an earlier run has learned. What cannot be read is learned again.
    pub fn stored(reader: &Reader) -> Self {
        let bytes: Option<Vec<u8>> = reader
            .connection()
            .query_row("SELECT value FROM meta WHERE key = ?1", [META], |row| row.get(0))
            .optional()
            .unwrap_or_default();
        let extracts = bytes.and_then(|bytes| {
            let json = zstd::stream::decode_all(bytes.as_slice()).ok()?;
            serde_json::from_slice(&json).ok()
        });
        Self(Arc::new(RwLock::new(Inner { extracts: extracts.unwrap_or_default(), keys: HashMap::new() })))
    }

    /// The keys of a kind; none while its document is not there yet, and the heuristics of the diff do.
    pub fn keys(&self, resource: &Resource) -> Arc<Keys> {
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).keys.get(resource) {
            return known.clone();
        }
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(extract) = inner.extracts.get(&resource.api_version()) else { return Arc::default() };
        let keys = Arc::new(extract.schema.kind(&resource.group, &resource.version, &resource.kind));
        inner.keys.insert(resource.clone(), keys.clone());
        keys
    }

    /// Fetches what is not known of these resources or is known no more, a document after the other, and stores it. False
    /// when something could not be had that may be had later.
    pub async fn learn(&self, source: &dyn Source, store: &Store, resources: &[Arc<Resource>]) -> Result<bool, Closed> {
        let index = match source.openapi_index().await {
            // A server that has none will not have one soon.
            Ok(index) if index.is_empty() => return Ok(true),
            Ok(index) => index,
            Err(error) => {
                tracing::debug!(%error, "no OpenAPI index; lists are matched by what is known, or by likeness");
                return Ok(false);
            }
        };
        let (mut learned, mut whole) = (0, true);
        let wanted: BTreeMap<String, &Arc<Resource>> =
            resources.iter().map(|resource| (resource.api_version(), resource)).collect();
        for (api, resource) in wanted {
            let Some(place) = index.get(&api) else {
                whole = false;
                continue;
            };
            let known = |inner: &Inner| inner.extracts.get(&api).is_some_and(|extract| extract.place == *place);
            if known(&self.0.read().unwrap_or_else(PoisonError::into_inner)) {
                continue;
            }
            let Some(schema) = fetch(source, resource).await else {
                whole = false;
                continue;
            };
            let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
            inner.keys.retain(|resource, _| resource.api_version() != api);
            inner.extracts.insert(api, Extract { place: place.clone(), schema });
            learned += 1;
        }
        if whole {
            tracing::debug!(fetched = learned, "the list keys of all kinds are known");
        } else {
            tracing::debug!(fetched = learned, "the list keys of some kinds are not published yet");
        }
        if learned > 0 {
            self.store(store).await?;
        }
        Ok(whole)
    }

    async fn store(&self, store: &Store) -> Result<(), Closed> {
        let json = serde_json::to_vec(&self.0.read().unwrap_or_else(PoisonError::into_inner).extracts);
        let Ok(bytes) = zstd::stream::encode_all(json.unwrap_or_default().as_slice(), 3) else { return Ok(()) };
        let write = move |transaction: &rusqlite::Transaction<'_>| {
            let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
            transaction.execute(sql, rusqlite::params![META, bytes]).map(drop)
        };
        store.write(Box::new(write)).await
    }
}

/// Learns what is to be learned, for as long as the store is open. The first look waits until all is listed, so that it is
/// in nobody's way.
pub(super) async fn keep(
    schemas: Schemas,
    source: Arc<dyn Source>,
    store: Store,
    factory: Factory,
    mut overview: watch::Receiver<Overview>,
    mut changes: watch::Receiver<()>,
) {
    fleet::settled(&factory, &mut overview).await;
    // What changed until now is in the first look.
    changes.mark_unchanged();
    // The next of LOOKS; behind them it is looked now and then.
    let (mut next, mut missed) = (LOOKS.len(), 0);
    loop {
        let resources = watched(&mut overview);
        let Ok(whole) = schemas.learn(&*source, &store, &resources).await else { return };
        missed = if whole { 0 } else { missed + 1 };
        let pause = pause(next, missed);
        next += 1;
        let apis = apis(&resources);
        let look = tokio::time::sleep(pause);
        tokio::pin!(look);
        loop {
            tokio::select! {
                () = &mut look => break,
                Ok(()) = changes.changed() => {}
                changed = overview.changed() => match changed {
                    Ok(()) if apis == self::apis(&watched(&mut overview)) => continue,
                    Ok(()) => {}
                    Err(_) => return,
                },
            }
            // Several come at once.
            tokio::time::sleep(Duration::from_secs(LOOKS[0])).await;
            (next, missed) = (1, 0);
            break;
        }
    }
}

/// Until the next look. `missed`: looks in a row that did not find everything.
fn pause(next: usize, missed: u32) -> Duration {
    let again = match missed {
        0 => POLL,
        _ => Duration::from_secs(1).saturating_mul(1 << missed.min(16)).min(POLL),
    };
    LOOKS.get(next).map_or(again, |look| again.min(Duration::from_secs(*look)))
}

fn watched(overview: &mut watch::Receiver<Overview>) -> Vec<Arc<Resource>> {
    overview.borrow_and_update().feeds.iter().map(|feed| feed.resource.clone()).collect()
}

fn apis(resources: &[Arc<Resource>]) -> BTreeSet<String> {
    resources.iter().map(|resource| resource.api_version()).collect()
}

async fn fetch(source: &dyn Source, of: &Resource) -> Option<Schema> {
    let document = match source.openapi(of).await {
        Ok(document) => document?,
        Err(error) => {
            tracing::debug!(api = of.api_version(), %error, "no OpenAPI document; lists are matched by likeness");
            return None;
        }
    };
    match Schema::from_openapi(&document) {
        Ok(schema) => Some(schema),
        Err(error) => {
            tracing::warn!(api = of.api_version(), %error, "its OpenAPI document was not understood; lists are matched by likeness");
            // Until the server has another.
            Some(Schema::default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_looked_for_again_and_ever_less_often() {
        let secs = |next, missed| pause(next, missed).as_secs();
        let after_a_change: Vec<u64> = (1..=LOOKS.len()).map(|next| secs(next, 0)).collect();
        assert_eq!(after_a_change, [1, 2, 4, 8, 16, 32, 300]);
        let rest = LOOKS.len();
        assert_eq!([1, 2, 3, 8, 9, 40].map(|missed| secs(rest, missed)), [2, 4, 8, 256, 300, 300]);
    }
}
