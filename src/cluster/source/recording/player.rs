//! Plays a recording as a source.

use std::{
    cmp::Ordering,
    collections::HashSet,
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use tokio::time::Instant;

use super::{Change, Key, Recording, Served};
use crate::cluster::{
    Feed, Scope, Version,
    source::{Discovered, Error, Frame, Frames, List, Page, Source, Watch},
};

/// Plays a recording, `speed` times as fast as it was. Its time begins with the first watch.
///
/// A feed that was never watched is listed as it was at the beginning, however late that is, and its first watch brings
/// what is overdue at once: so nothing of a recording is skipped.
pub struct Player {
    recording: Recording,
    speed: f64,
    began: OnceLock<Instant>,
    /// The feeds that were watched already, by their keys.
    watched: Mutex<HashSet<String>>,
}

impl Player {
    pub fn new(recording: Recording, speed: f64) -> Self {
        Self { recording, speed: speed.max(0.001), began: OnceLock::new(), watched: Mutex::default() }
    }

    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// How far it is, in the time of the recording; `None` before it began. It goes on behind the end.
    pub fn position(&self) -> Option<Duration> {
        self.began.get().map(|began| began.elapsed().mul_f64(self.speed))
    }

    fn due(&self, change: &Change, began: Instant) -> Instant {
        began + change.at.div_f64(self.speed)
    }

    /// The number of the feed's resource. Who asks for one that was not recorded learns nothing of it.
    fn number(&self, feed: &Feed) -> Result<usize, Error> {
        let wanted = feed.resource.group_resource();
        let found = self.recording.served.iter().position(|served| served.resource.group_resource() == wanted);
        let of = found.ok_or_else(|| Error::Forbidden("it is not in the recording".into()))?;
        if is_served(&self.recording.served[of], self.position().unwrap_or_default()) {
            Ok(of)
        } else {
            Err(Error::NotFound("it is not served at this time of the recording".into()))
        }
    }

    /// The objects that the feed has now, and the version of it.
    fn now(&self, feed: &Feed) -> Result<(Vec<Bytes>, Version), Error> {
        let of = self.number(feed)?;
        let Served { mut objects, version, .. } = self.recording.served[of].clone();
        let mut version = version.unwrap_or_default();
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner).contains(&feed.key());
        if let Some(began) = self.began.get().filter(|_| watched) {
            let now = Instant::now();
            for change in self.recording.changes.iter().filter(|change| change.of == of) {
                if self.due(change, *began) > now {
                    break;
                }
                if change.version.cmp_within(&version) != Some(Ordering::Less) {
                    version = change.version.clone();
                }
                match &change.frame {
                    Frame::Added(object) | Frame::Modified(object) => {
                        objects.insert(change.key.clone(), object.clone());
                    }
                    _ => {
                        objects.remove(&change.key);
                    }
                }
            }
        }
        objects.retain(|key, _| fits(feed, key));
        Ok((objects.into_values().collect(), version))
    }

    fn frames(&self, feed: &Feed, watch: &Watch, began: Instant) -> Result<Frames, Error> {
        if watch.initial_events {
            return Err(Error::Invalid("a recording has no streaming lists".into()));
        }
        let of = self.number(feed)?;
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).insert(feed.key());
        let end = Instant::now() + watch.timeout;
        let later = |change: &&Change| {
            change.of == of
                && fits(feed, &change.key)
                && change.version.cmp_within(&watch.version) != Some(Ordering::Less)
                && change.version != watch.version
        };
        let changes: Vec<_> =
            self.recording.changes.iter().filter(later).map(|c| (self.due(c, began), c.frame.clone())).collect();
        let played = stream::iter(changes).take_while(move |(due, _)| {
            let in_time = *due < end;
            async move { in_time }
        });
        let played = played.then(|(due, frame)| async move {
            tokio::time::sleep_until(due).await;
            Ok(frame)
        });
        let rest = stream::once(tokio::time::sleep_until(end)).filter_map(|()| async { None });
        Ok(played.chain(rest).boxed())
    }
}

fn is_served(served: &Served, at: Duration) -> bool {
    served.since <= at && served.until.is_none_or(|until| at < until)
}

/// Whether an object is in a feed by its name: scope, and those field selectors that every resource knows.
fn fits(feed: &Feed, (namespace, name): &Key) -> bool {
    let scope = match &feed.scope {
        Scope::All => true,
        Scope::Namespace(wanted) => wanted == namespace,
    };
    let selected = feed.fields.split(',').filter(|term| !term.is_empty()).all(|term| {
        let (field, wanted, equal) = match term.split_once("!=") {
            Some((field, wanted)) => (field, wanted, false),
            None => match term.split_once('=') {
                Some((field, wanted)) => (field, wanted.trim_start_matches('='), true),
                None => return true,
            },
        };
        match field {
            "metadata.name" => (name == wanted) == equal,
            "metadata.namespace" => (namespace == wanted) == equal,
            _ => true,
        }
    });
    scope && selected
}

impl Source for Player {
    fn discover(&self) -> BoxFuture<'_, Result<Discovered, Error>> {
        let at = self.position().unwrap_or_default();
        let served = self.recording.served.iter().filter(|served| is_served(served, at));
        let resources = served.map(|served| served.resource.clone()).collect();
        async move { Ok(Discovered { resources, unavailable: Vec::new() }) }.boxed()
    }

    /// Always whole: a recording is in memory anyway.
    fn list<'a>(&'a self, feed: &'a Feed, _list: &'a List) -> BoxFuture<'a, Result<Page, Error>> {
        let page = self.now(feed).map(|(items, version)| Page { items, version, continue_token: None });
        async move { page }.boxed()
    }

    fn watch<'a>(&'a self, feed: &'a Feed, watch: &'a Watch) -> BoxFuture<'a, Result<Frames, Error>> {
        let began = *self.began.get_or_init(Instant::now);
        let frames = self.frames(feed, watch, began);
        async move { frames }.boxed()
    }
}
