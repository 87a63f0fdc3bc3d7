//! Whether everything is read that there was when somebody asked.
//!
//! A list that was begun after the question answers it. Otherwise one item of the newest state says how far the server
//! is, and the watch has to come as far: by a change, or by a bookmark, the server's word that there was none. Bookmarks
//! come every minute and shortly before a watch ends, so a watch is opened anew and asked to be short. Where none comes,
//! a list is read.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{Closed, Status};

/// A server sends a bookmark two seconds before it ends a watch, if it is further than what it has sent.
pub(super) const BRIEF: Duration = Duration::from_secs(4);

/// Asks a reflector; clones ask the same one.
#[derive(Clone, Debug)]
pub struct Freshness {
    asked: Arc<watch::Sender<u64>>,
    status: watch::Receiver<Status>,
}

impl Freshness {
    pub(super) fn new(status: watch::Receiver<Status>) -> (Self, watch::Receiver<u64>) {
        let (asked, questions) = watch::channel(0);
        (Self { asked: Arc::new(asked), status }, questions)
    }

    /// Returns when the target was given everything that the server had when this was called. Takes as long as the
    /// server does not answer.
    pub async fn caught_up(&self) -> Result<(), Closed> {
        let mut number = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            number = *asked;
        });
        let mut status = self.status.clone();
        status.wait_for(|status| status.answered >= number).await.map(drop).map_err(|_| Closed)
    }
}
