//! Resources that are not among what the server says it serves. That alone does not mean that they are gone: a server that
//! is only starting leaves out what it has not read yet. Their own paths are asked; only a 404 there is an end.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::task::{AbortHandle, JoinSet};
use tracing::debug;

use super::super::{
    Feed, Resource,
    discovery::{Served, Trigger},
    source::{Error, List, Source},
};

/// How long an answer is waited for, and the pauses between two questions.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// Those in doubt, by [`Resource::group_resource`].
#[derive(Default)]
pub(super) struct Doubts {
    doubted: BTreeMap<String, (Arc<Resource>, AbortHandle)>,
    /// Known to be gone, until they are served again.
    gone: BTreeSet<String>,
    asking: JoinSet<String>,
}

impl Doubts {
    /// Takes up those of these feeds whose resource is not served, and drops those that are again. Gives what is served,
    /// with those that may be.
    pub(super) fn weigh<'f>(
        &mut self,
        mut served: Served,
        feeds: impl Iterator<Item = &'f Feed>,
        source: &Arc<dyn Source>,
        trigger: &Trigger,
    ) -> Served {
        self.gone.retain(|name| !served.resources.contains_key(name));
        self.doubted.retain(|name, (_, asking)| {
            let again = served.resources.contains_key(name);
            if again {
                asking.abort();
            }
            !again
        });
        for feed in feeds {
            let name = feed.resource.group_resource();
            let known = served.resources.contains_key(&name) || self.gone.contains(&name);
            if known || self.doubted.contains_key(&name) {
                continue;
            }
            debug!(resource = %feed.resource, "no longer among what is served; asking for it");
            let ask = until_gone(source.clone(), feed.clone(), trigger.clone());
            let asking = self.asking.spawn(ask);
            self.doubted.insert(name, (feed.resource.clone(), asking));
        }
        for (name, (resource, _)) in &self.doubted {
            served.resources.insert(name.clone(), resource.clone());
        }
        served
    }

    /// Waits until one of them is known to be gone. Safe to drop before it is ready.
    pub(super) async fn resolved(&mut self) {
        loop {
            match self.asking.join_next().await {
                Some(Ok(name)) => {
                    self.doubted.remove(&name);
                    self.gone.insert(name);
                    return;
                }
                // Aborted, since it is served again.
                Some(Err(_)) => {}
                None => return std::future::pending().await,
            }
        }
    }
}

/// Asks for a feed until its resource is known not to be there. Gives its name.
async fn until_gone(source: Arc<dyn Source>, feed: Feed, trigger: Trigger) -> String {
    let one = List { limit: 1, ..List::default() };
    let mut pause = PAUSE;
    loop {
        match tokio::time::timeout(PATIENCE, source.list(&feed, &one)).await {
            Ok(Err(Error::NotFound(_))) => return feed.resource.group_resource(),
            // It is there: what is served has to be asked for again.
            Ok(Ok(_)) => trigger.fire(),
            _ => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}
