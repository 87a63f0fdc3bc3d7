//! How the program ends: the first signal asks everyone to finish, the second one does not wait for them.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code after a second signal: 128 and the number of SIGINT, as shells have it.
const ABORTED: i32 = 130;

/// The word that it is time to finish. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    begun: CancellationToken,
}

impl Shutdown {
    /// One that begins only by [`Shutdown::begin`].
    pub fn new() -> Self {
        Self::default()
    }

    /// One that begins at the first SIGINT or SIGTERM. At the second the process exits with code 130, wherever it is.
    ///
    /// Has to be called inside a runtime; listens until that ends.
    pub fn on_signals() -> io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let shutdown = Self::new();
        let begun = shutdown.clone();
        tokio::spawn(async move {
            let mut next = async || {
                tokio::select! {
                    _ = interrupt.recv() => "SIGINT",
                    _ = terminate.recv() => "SIGTERM",
                }
            };
            let first = next().await;
            tracing::info!("{first}: finishing what is under way; once more to stop at once");
            begun.begin();
            let second = next().await;
            tracing::warn!("{second} again: stopping at once");
            std::process::exit(ABORTED);
        });
        Ok(shutdown)
    }

    /// Asks everyone to finish. Doing it twice is doing it once.
    pub fn begin(&self) {
        self.begun.cancel();
    }

    pub fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Waits until it is time to finish.
    pub async fn begun(&self) {
        self.begun.cancelled().await;
    }

    /// For a task that others may have to stop earlier: cancelled when the shutdown begins, and alone by itself.
    pub fn child(&self) -> CancellationToken {
        self.begun.child_token()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_clones_and_children_learn_that_it_began() {
        let shutdown = Shutdown::new();
        let (clone, child) = (shutdown.clone(), shutdown.child());
        assert!(!clone.has_begun() && !child.is_cancelled());
        shutdown.begin();
        clone.begun().await;
        child.cancelled().await;
    }

    #[tokio::test]
    async fn a_child_that_ends_does_not_end_the_others() {
        let shutdown = Shutdown::new();
        shutdown.child().cancel();
        assert!(!shutdown.has_begun());
    }
}
