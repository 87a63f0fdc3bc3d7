//! Watches the names of CRDs and API services, so that what they bring is found at once also where nobody asked to see
//! them. It stores nothing and lists nothing.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::StreamExt;
use tokio::{sync::watch, time::Instant};
use tracing::debug;

use super::Overview;
use crate::cluster::{
    Feed, Resource, Scope, Version,
    discovery::Trigger,
    source::{Error, Frame, Frames, Named, Source, Watch},
};

/// How long the server is asked to keep a watch open, and how long after that it is waited for.
const OPEN: Duration = Duration::from_secs(300);
const GRACE: Duration = Duration::from_secs(30);
/// Between tries, when the server fails; twice as long each time that it says no, until it is as often as discovery
/// polls.
const RETRY: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(300);

/// What tells of new resources.
pub(super) fn watched() -> [Resource; 2] {
    let of = |group: &str, plural: &str, kind: &str| {
        let core = Resource::core("v1", plural, kind).cluster_scoped();
        Resource { group: group.to_owned(), ..core }
    };
    [
        of("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition"),
        of("apiregistration.k8s.io", "apiservices", "APIService"),
    ]
}

/// Fires the trigger for each that comes, changes or goes, for as long as it runs.
pub(super) async fn listen(
    source: Arc<dyn Source>,
    resource: Resource,
    overview: watch::Receiver<Overview>,
    trigger: Trigger,
) {
    let mut feed = Feed::new(resource, Scope::All);
    feed.metadata_only = true;
    let mut known = HashMap::new();
    // From no version: the present state comes first, as if it were new.
    let watch = Watch { version: Version::default(), timeout: OPEN, initial_events: false };
    let (mut refused, mut away) = (RETRY, false);
    loop {
        let pause = match source.watch(&feed, &watch).await {
            Ok(frames) => {
                refused = RETRY;
                // What went meanwhile is not told.
                if std::mem::replace(&mut away, true) {
                    trigger.fire();
                }
                let opened = Instant::now();
                let reading = read(frames, &mut known, &overview, &trigger);
                let _ = tokio::time::timeout(OPEN + GRACE, reading).await;
                // What comes while none is open is found late: only one that ended at once is waited for.
                RETRY.saturating_sub(opened.elapsed())
            }
            Err(error @ (Error::Forbidden(_) | Error::NotFound(_) | Error::Invalid(_))) => {
                debug!(%feed, %error, "new resources are found by polling alone");
                refused = (refused * 2).min(LONGEST);
                refused
            }
            Err(_) => RETRY,
        };
        tokio::time::sleep(pause).await;
    }
}

/// A CRD has the name of its resource, an API service those of a version and a group.
fn brings(name: &str, served: &Resource) -> bool {
    name == served.group_resource() || name.split_once('.') == Some((&served.version, &served.group))
}

async fn read(
    mut frames: Frames,
    known: &mut HashMap<String, Version>,
    overview: &watch::Receiver<Overview>,
    trigger: &Trigger,
) {
    while let Some(Ok(frame)) = frames.next().await {
        let news = match frame {
            Frame::Added(object) | Frame::Modified(object) => match Named::of(&object) {
                Some(Named { name, version, .. }) => match known.insert(name.clone(), version.clone()) {
                    Some(before) => before != version,
                    None => !overview.borrow().verdicts.iter().any(|(served, _)| brings(&name, served)),
                },
                None => true,
            },
            Frame::Deleted(object) => {
                Named::of(&object).map(|named| known.remove(&named.name));
                true
            }
            Frame::TooLarge { .. } => true,
            Frame::Bookmark { .. } => false,
            Frame::Error(_) => return,
        };
        if news {
            trigger.fire();
        }
    }
}
