//! The periodic audit: resync the honest way. A consistent list is compared with the store, and what the watch missed is
//! told; zero is what to expect.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{Informer, Inner, lock};
use crate::cluster::{
    reflector::{Closed, Phase, Reader, Update},
    store::{Audit, AuditList, Audited, FeedId},
};

/// What the audits of an informer found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audits {
    pub done: u64,
    /// Lists that failed, watches that did not come as far in time, a state file that could not be read.
    pub undecided: u64,
    /// Changes that a watch had missed. Zero is what to expect.
    pub missed: u64,
}

impl Informer {
    pub(super) async fn audit_regularly(&self, factory: &Inner, reader: &Reader, id: FeedId) -> Result<(), Closed> {
        let Some(interval) = factory.settings.audit else { return std::future::pending().await };
        loop {
            tokio::time::sleep(interval.mul_f64(rand::random_range(0.8..1.2))).await;
            if self.shared.status.borrow().phase == Phase::Live {
                self.audit(reader, id).await?;
            }
        }
    }

    /// Lists, waits for the watch to come as far, compares. What the store lacks must be in two lists to be missed:
    /// it could be deleted in between.
    async fn audit(&self, reader: &Reader, id: FeedId) -> Result<(), Closed> {
        let mut absent_before = HashSet::new();
        for _ in 0..2 {
            let Some(found) = self.compare(reader, id, std::mem::take(&mut absent_before)).await? else {
                self.shared.audits.send_modify(|audits| audits.undecided += 1);
                return Ok(());
            };
            if found.missed > 0 {
                tracing::error!(
                    missed = found.missed,
                    "the audit found changes that the watch had missed; they are reported now"
                );
            }
            self.shared.audits.send_modify(|audits| audits.missed += found.missed);
            if found.absent.is_empty() {
                break;
            }
            absent_before.extend(found.absent);
        }
        self.shared.audits.send_modify(|audits| audits.done += 1);
        Ok(())
    }

    async fn compare(
        &self,
        reader: &Reader,
        id: FeedId,
        absent_before: HashSet<String>,
    ) -> Result<Option<Audited>, Closed> {
        /// Bookmarks come every minute.
        const CATCH_UP: Duration = Duration::from_secs(150);
        // Opened with the first part of the list and closed with the last: many may be waiting to list, or for their watch.
        let stored = Mutex::new(None);
        let mut listed = AuditList::default();
        let mut unread = None;
        let version = reader
            .list(|chunk| {
                let Some(chunk) = chunk else {
                    listed = AuditList::default();
                    return;
                };
                let mut stored = lock(&stored);
                if stored.is_none() {
                    match self.shared.store.reader() {
                        Ok(reader) => *stored = Some(reader),
                        Err(error) => unread = Some(error.to_string()),
                    }
                }
                let Some(stored) = stored.as_ref() else { return };
                for document in chunk.documents {
                    let meta = document.meta();
                    match stored.version(id, &meta.namespace, &meta.name) {
                        Ok(version) => listed.note(document, version.as_ref()),
                        // Not to be taken for absent.
                        Err(error) => unread = Some(error.to_string()),
                    }
                }
                for unreadable in chunk.unreadable {
                    if let Update::Unreadable { namespace, name, .. } = unreadable {
                        listed.note_name(&namespace, &name);
                    }
                }
            })
            .await;
        drop(stored);
        let version = match version {
            Ok(version) => version,
            Err(error) => {
                tracing::warn!(%error, "the audit's list failed; the next one is due as usual");
                return Ok(None);
            }
        };
        if let Some(error) = unread {
            tracing::warn!(%error, "the audit cannot read the state file; the next one is due as usual");
            return Ok(None);
        }
        let audit = Arc::new(Audit { version, listed, absent_before });
        let deadline = tokio::time::Instant::now() + CATCH_UP;
        while tokio::time::Instant::now() < deadline {
            if let Some(found) = self.shared.store.audit(id, audit.clone()).await? {
                return Ok(Some(found));
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(None)
    }
}
