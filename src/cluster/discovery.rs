//! Which resources are served now, and what changed since the last look. CRDs and API services come and go.
//!
//! What is missing because its group did not answer is kept: it is unknown, not gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tracing::{debug, warn};

use super::{
    Resource,
    source::{Discovered, Error, Source, Unavailable},
};

/// Makes discovery look again soon: a CRD changed, or a resource turned out not to be served.
///
/// One takes it, discovery; others may look on.
#[derive(Clone, Debug, Default)]
pub struct Trigger {
    fired: Arc<Notify>,
    seen: watch::Sender<()>,
}

impl Trigger {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn fire(&self) {
        self.fired.notify_one();
        self.seen.send_replace(());
    }

    /// Changes with each [`Trigger::fire`] from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<()> {
        self.seen.subscribe()
    }

    /// Waits for a [`Trigger::fire`] that nobody has taken yet.
    pub(crate) async fn fired(&self) {
        self.fired.notified().await;
    }
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// How long after a trigger to look, so that three hundred CRDs at once are a few looks.
    pub debounce: Duration,
    /// The pauses before further looks after a trigger: what a server says it serves lags a little behind its CRDs.
    pub again: Vec<Duration>,
    /// How often to look without a trigger, give or take a fifth.
    pub poll: Duration,
    /// The longest pause after a look failed.
    pub retry: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let millis = Duration::from_millis;
        Self {
            debounce: millis(300),
            again: [300, 500, 900, 1500, 1500, 1500, 1500, 1500].map(millis).into(),
            poll: Duration::from_secs(300),
            retry: Duration::from_secs(30),
        }
    }
}

/// What is served, as far as is known.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// By [`Resource::group_resource`].
    pub resources: BTreeMap<String, Arc<Resource>>,
    pub unavailable: Vec<Unavailable>,
}

impl Served {
    /// The groups of which not everything is known; `*` is all but those that answered.
    pub fn silent(&self) -> BTreeSet<String> {
        self.unavailable.iter().map(|gone| gone.group.clone()).collect()
    }

    /// Whether what is not served of a group is known not to be.
    pub fn answered(&self, group: &str) -> bool {
        !self.unavailable.iter().any(|gone| gone.group == group || gone.group == "*")
    }
}

/// What to do about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub started: Vec<Arc<Resource>>,
    /// Served no more: their objects are gone with them.
    pub stopped: Vec<Arc<Resource>>,
    /// Served at another version, or described otherwise: from, to. The objects are the same.
    pub moved: Vec<(Arc<Resource>, Arc<Resource>)>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.started.is_empty() && self.stopped.is_empty() && self.moved.is_empty()
    }
}

/// What is known after a look, and how it differs from before.
pub fn changes(before: &Served, found: Discovered) -> (Served, Changes) {
    let unknown = |resource: &Resource| {
        found.unavailable.iter().any(|gone| {
            (gone.group == resource.group || (gone.group == "*" && !resource.group.is_empty()))
                && (gone.version.is_empty() || gone.version == resource.version)
        })
    };
    let mut after = BTreeMap::new();
    let mut changes = Changes::default();
    for resource in &found.resources {
        after.entry(resource.group_resource()).or_insert_with(|| Arc::new(resource.clone()));
    }
    for (key, old) in &before.resources {
        match after.get(key) {
            Some(new) if new == old => {
                after.insert(key.clone(), Arc::clone(old));
            }
            // The version that is read does not answer; another one does. Moving would be for a moment only.
            Some(new) if new.version != old.version && unknown(old) => {
                after.insert(key.clone(), Arc::clone(old));
            }
            // A resource that changed between namespaced and not was deleted and made anew.
            Some(new) if new.namespaced != old.namespaced => {
                changes.stopped.push(Arc::clone(old));
                changes.started.push(Arc::clone(new));
            }
            Some(new) => changes.moved.push((Arc::clone(old), Arc::clone(new))),
            None if unknown(old) => {
                after.insert(key.clone(), Arc::clone(old));
            }
            None => changes.stopped.push(Arc::clone(old)),
        }
    }
    changes
        .started
        .extend(after.iter().filter(|(key, _)| !before.resources.contains_key(*key)).map(|(_, new)| Arc::clone(new)));
    (Served { resources: after, unavailable: found.unavailable }, changes)
}

/// Looks when it is triggered and now and then.
pub struct Discovery {
    source: Arc<dyn Source>,
    settings: Settings,
    trigger: Trigger,
    served: Served,
    /// Whether a look ever succeeded.
    looked: bool,
    /// The next looks after a trigger.
    due: Vec<Instant>,
    next_poll: Instant,
    failures: u32,
    /// Why the last look failed.
    problem: Option<Error>,
}

impl Discovery {
    pub fn new(source: Arc<dyn Source>, settings: Settings, trigger: Trigger) -> Self {
        Self {
            source,
            settings,
            trigger,
            served: Served::default(),
            looked: false,
            due: Vec::new(),
            next_poll: Instant::now(),
            failures: 0,
            problem: None,
        }
    }

    pub fn served(&self) -> &Served {
        &self.served
    }

    /// Why the last look failed, when it did.
    pub fn problem(&self) -> Option<&Error> {
        self.problem.as_ref()
    }

    /// Waits until what is served changed; the first time until it is known at all. Safe to drop and call again.
    pub async fn next(&mut self) -> Changes {
        loop {
            let due = self.due.iter().copied().min().unwrap_or(self.next_poll).min(self.next_poll);
            tokio::select! {
                () = self.trigger.fired() => self.triggered(),
                () = tokio::time::sleep_until(due) => {
                    if let Some(changes) = self.look().await {
                        return changes;
                    }
                }
            }
        }
    }

    /// A trigger that comes while a look is due anyway moves only the looks behind it.
    fn triggered(&mut self) {
        let now = Instant::now();
        let first = self.due.iter().copied().min().filter(|due| *due <= now + self.settings.debounce);
        let mut at = first.unwrap_or(now + self.settings.debounce);
        self.due = vec![at];
        at = now + self.settings.debounce;
        for pause in &self.settings.again {
            at += *pause;
            self.due.push(at);
        }
    }

    /// One look. `None` when nothing changed or the server did not answer.
    async fn look(&mut self) -> Option<Changes> {
        let found = self.source.discover().await;
        let now = Instant::now();
        self.due.retain(|due| *due > now);
        match found {
            Ok(found) => {
                self.failures = 0;
                self.problem = None;
                self.next_poll = now + jittered(self.settings.poll);
                for gone in &found.unavailable {
                    if !self.served.unavailable.contains(gone) {
                        warn!(
                            group = gone.group,
                            version = gone.version,
                            reason = gone.reason,
                            "a group does not answer"
                        );
                    }
                }
                let (served, changes) = changes(&self.served, found);
                let told = !changes.is_empty() || served.unavailable != self.served.unavailable || !self.looked;
                self.served = served;
                self.looked = true;
                debug!(resources = self.served.resources.len(), ?changes, "discovery");
                told.then_some(changes)
            }
            Err(error) => {
                let pause = Duration::from_millis(800).saturating_mul(1 << self.failures.min(10));
                self.failures += 1;
                self.next_poll = now + jittered(pause.min(self.settings.retry));
                warn!(%error, "discovery failed");
                self.problem = Some(error);
                None
            }
        }
    }
}

fn jittered(around: Duration) -> Duration {
    around.mul_f64(rand::random_range(0.8..1.2))
}

#[cfg(test)]
mod tests;
