//! Whether this replica may send, and until when. A replica that cannot say that it still leads stops by itself: no word
//! from anybody is needed, and none can come too late.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension};
use tokio::time::Instant;

use super::Ledger;
use crate::cluster::{reflector::Closed, store::Store};

/// How often a worker that may not send looks again.
pub(super) const LOOK: Duration = Duration::from_millis(200);

const FOR_EVER: u64 = u64::MAX;

/// What all deadlines are counted from.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The right to send; clones share it. It is checked before every attempt.
#[derive(Clone, Debug)]
pub struct Lead(Arc<AtomicU64>);

impl Default for Lead {
    /// For ever: there is no other replica.
    fn default() -> Self {
        LazyLock::force(&BEGAN);
        Self(Arc::new(AtomicU64::new(FOR_EVER)))
    }
}

impl Lead {
    /// It ends by itself at this time, by the clock that nobody sets.
    pub fn until(&self, deadline: Instant) {
        let millis = deadline.saturating_duration_since(*BEGAN).as_millis();
        self.0.store(u64::try_from(millis).unwrap_or(FOR_EVER - 1), Ordering::Release);
    }

    pub fn end(&self) {
        self.0.store(0, Ordering::Release);
    }

    pub fn holds(&self) -> bool {
        match self.0.load(Ordering::Acquire) {
            FOR_EVER => true,
            until => BEGAN.elapsed().as_millis() < u128::from(until),
        }
    }
}

/// Where the file says who leads in its place.
const LEADER: &str = "leader";

/// Who leads while the replica of this file stands by, as it last knew; `None` when it leads, or there is no other.
pub fn leader_instead(connection: &Connection) -> Result<Option<String>, rusqlite::Error> {
    connection.query_row("SELECT value FROM meta WHERE key = ?1", [LEADER], |row| row.get(0)).optional()
}

impl Ledger {
    /// Leaves word in the file of who leads in place of this replica, for those who look at the file alone.
    pub async fn note_leader(&self, store: &Store, other: Option<String>) -> Result<(), Closed> {
        let write = store.write(Box::new(move |transaction| match &other {
            Some(name) => transaction
                .execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", [LEADER, name])
                .map(drop),
            None => transaction.execute("DELETE FROM meta WHERE key = ?1", [LEADER]).map(drop),
        }));
        write.await
    }
}
