//! What a leader keeps on the Lease for the others: what is delivered, and the silences that people made.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use tokio::{sync::watch, time::Instant};

use crate::{
    cluster::store::Store,
    ledger::{self, Ledger, Mark},
};

/// Where the leader keeps its mark.
pub const MARK: &str = "kubediff.io/delivered";
/// Where the leader keeps the silences that were made while it ran.
pub const SILENCES: &str = "kubediff.io/silences";
/// All annotations of an object together may have 256 KiB.
pub(super) const MARK_BYTES: usize = 96 << 10;
pub(super) const SILENCES_BYTES: usize = 64 << 10;
/// Keeping up with the leader takes at most one part in so many of a standby's time.
const SHARE: u32 = 10;
/// However long it took: what the leader delivers must not pile up here.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// What a leader keeps on the Lease for the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// See [`Mark`]; empty for none.
    mark: String,
    /// See [`Ledger::adopt_silences`].
    silences: String,
}

impl Left {
    pub(super) fn on(lease: &Lease) -> Self {
        let annotation = |name: &str| lease.metadata.annotations.as_ref()?.get(name).cloned();
        Self { mark: annotation(MARK).unwrap_or_default(), silences: annotation(SILENCES).unwrap_or_default() }
    }

    /// Takes what is delivered off this replica's list, and its silences over. Says how many deliveries were on the list.
    pub async fn heed(&self, ledger: &Ledger, store: &Store, replica: &str) -> Result<u64, ledger::Error> {
        if let Err(error) = ledger.adopt_silences(store, replica, &self.silences).await {
            tracing::warn!(%error, "the leader's silences could not be taken over");
        }
        match Mark::from_text(&self.mark) {
            Some(mark) => ledger.heed(store, mark).await,
            None => Ok(0),
        }
    }
}

/// Goes along with what the leader leaves. With a long list each look at it takes a moment, so there is a rest after it;
/// who takes over does not wait for that.
pub(super) async fn follow(ledger: Ledger, store: Store, replica: String, mut left: watch::Receiver<Left>) {
    while left.changed().await.is_ok() {
        let left = left.borrow_and_update().clone();
        // Who leads has heeded it, and goes by its own list now.
        if ledger.lead().holds() {
            continue;
        }
        let begun = Instant::now();
        if let Err(error) = left.heed(&ledger, &store, &replica).await {
            tracing::warn!(%error, "what the leader has delivered could not be taken off the list");
        }
        tokio::time::sleep((begun.elapsed() * SHARE).min(LONGEST_REST)).await;
    }
    // The election has ended and the program with it.
    std::future::pending::<()>().await;
}
