//! Who is asked before what an informer has read goes into the store.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::cluster::{
    Feed, Version,
    reflector::{Closed, Target, Update},
    store::FeedTarget,
};

/// Asked before each update, in the update's own feed: the others go on meanwhile.
pub trait Gate: Send + Sync + 'static {
    /// `None`: it may pass. Else what it has to wait for, which ends within bounds of its own; nothing is lost when it is
    /// dropped before.
    fn hold<'a>(&'a self, feed: &'a Feed, update: &'a Update) -> Option<BoxFuture<'a, ()>>;
}

/// The store, behind a gate.
pub(super) struct Gated {
    pub(super) target: FeedTarget,
    pub(super) feed: Arc<Feed>,
    pub(super) gate: Option<Arc<dyn Gate>>,
}

impl Target for Gated {
    fn cursor(&self) -> Option<Version> {
        self.target.cursor()
    }

    async fn put(&mut self, update: Update) -> Result<(), Closed> {
        if let Some(wait) = self.gate.as_ref().and_then(|gate| gate.hold(&self.feed, &update)) {
            wait.await;
        }
        self.target.put(update).await
    }
}
