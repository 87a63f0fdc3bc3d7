//! Which namespaces there are, for settings that speak of them in patterns.
//!
//! Where they may not be listed, nothing waits for them: what the settings name in full is read, the log says what is
//! missing, and patterns are taken up when the permission comes. What an earlier run knew of them serves until then.

use std::{collections::BTreeSet, time::Duration};

use tracing::{info, warn};

use super::super::{
    Feed, Resource, Scope,
    informer::{Closed, Delta, Factory, Informer, Subscription},
    reflector::Phase,
    select::Settings,
};

/// What comes within this time is one change.
const TOGETHER: Duration = Duration::from_millis(300);

pub(super) struct Namespaces {
    informer: Informer,
    /// `None` until a whole list of them is stored, by this run or one before.
    deltas: Option<Subscription>,
    /// Those that the feeds are planned by.
    names: BTreeSet<String>,
    /// Those that there are, as far as the deltas were read.
    seen: BTreeSet<String>,
    /// It was said that they are not known.
    said: bool,
}

/// Whether a feed is the one that the names are read by.
pub(super) fn is_theirs(feed: &Feed) -> bool {
    feed.unasked && feed.resource.group.is_empty() && feed.resource.plural == "namespaces"
}

impl Namespaces {
    /// Begins to read them.
    pub(super) fn watch(factory: &Factory) -> Self {
        let mut feed = Feed::new(Resource::core("v1", "namespaces", "Namespace").cluster_scoped(), Scope::All);
        feed.metadata_only = true;
        feed.unasked = true;
        let informer = factory.informer(feed);
        factory.start();
        Self { informer, deltas: None, names: BTreeSet::new(), seen: BTreeSet::new(), said: false }
    }

    /// Takes these to be there until it is known which are.
    pub(super) fn presume(&mut self, names: impl Iterator<Item = String>) {
        if !self.are_known() {
            self.names.extend(names);
        }
    }

    pub(super) fn feed(&self) -> &Feed {
        self.informer.feed()
    }

    /// Whether the names are those of a whole list.
    pub(super) fn are_known(&self) -> bool {
        self.deltas.is_some()
    }

    pub(super) fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// Waits for the first whole list. Safe to drop before it is ready.
    async fn learn(&mut self, settings: &Settings) -> Result<(), Closed> {
        let trouble = tokio::select! {
            listed = self.informer.listed() => {
                listed?;
                None
            }
            trouble = trouble(&self.informer), if !self.said => Some(trouble),
        };
        if let Some(why) = trouble {
            self.said = true;
            warn!(
                patterns = settings.namespaces.patterns().join(", "),
                why,
                "which namespaces there are is not known, so none is watched for a pattern until it is; those that are \
                 named in full are. Patterns need `list` and `watch` on namespaces: `kubediff rbac` prints the role"
            );
            self.informer.listed().await?;
        }
        let mut deltas = self.informer.subscribe().await?;
        let mut names = BTreeSet::new();
        while let Some(namespace) = deltas.next_listed().await {
            names.insert(namespace.meta().name.clone());
        }
        if self.said {
            info!(namespaces = names.len(), "which namespaces there are is known now");
        }
        (self.seen, self.names, self.deltas) = (names.clone(), names, Some(deltas));
        Ok(())
    }

    /// Waits until the set is another one. Takes what came together as one change: a namespace that went and came again
    /// meanwhile is there, and what is in it must not be told to be gone. Safe to drop before it is ready.
    async fn change(&mut self) -> Result<(), Closed> {
        let Self { deltas, names, seen, .. } = self;
        let deltas = deltas.as_mut().ok_or(Closed)?;
        loop {
            let next = if seen == names {
                deltas.next().await
            } else {
                match tokio::time::timeout(TOGETHER, deltas.next()).await {
                    Ok(next) => next,
                    Err(_) => {
                        names.clone_from(seen);
                        return Ok(());
                    }
                }
            };
            let delta = next.ok_or(Closed)?;
            let name = &delta.object().meta().name;
            match delta {
                Delta::Deleted { .. } => seen.remove(name),
                Delta::Added(_) | Delta::Updated { .. } => seen.insert(name.clone()),
            };
        }
    }
}

/// Waits until an informer is in trouble; says which.
async fn trouble(informer: &Informer) -> String {
    let mut status = informer.status();
    let status = status.wait_for(|status| status.phase == Phase::Waiting).await;
    status.ok().and_then(|status| Some(status.problem.as_ref()?.error.to_string())).unwrap_or_default()
}

/// Waits until they are known, and then until they are others. For ever where nobody asks, or their informer has ended.
pub(super) async fn changed(namespaces: &mut Option<Namespaces>, settings: &Settings) {
    let Some(namespaces) = namespaces else { return std::future::pending().await };
    let changed = if namespaces.are_known() { namespaces.change().await } else { namespaces.learn(settings).await };
    if changed.is_err() {
        std::future::pending::<()>().await;
    }
}
