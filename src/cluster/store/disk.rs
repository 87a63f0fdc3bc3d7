//! How long the disk takes, and a word about it when that is long.
//!
//! A slow disk is no failure and nothing is dropped for it: the writer waits, what the reflectors learn waits for the
//! writer up to its few MiB, and then waits in the cluster. Sinks go on with what is recorded. What is written here is that
//! it is said: how long the present wait is, how often there was a long one, and in the log when it begins and ends.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::Store;

/// Longer is slow: an SSD takes milliseconds for a commit, a network volume tens of them.
const SLOW: Duration = Duration::from_secs(1);

/// How often is looked, and after how many looks without a long wait the disk is taken for quick again.
const LOOK: Duration = Duration::from_secs(1);
const QUIET: u32 = 10;

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What the writer's thread waits for.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// Milliseconds since the process began, and one more: 0 while nothing is waited for.
    since: AtomicU64,
    slow: AtomicU64,
}

impl Disk {
    /// Does what may wait for the disk, or for another process that has the file locked.
    pub(super) fn wait<T>(&self, what: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let since = u64::try_from(began.saturating_duration_since(*BEGAN).as_millis()).unwrap_or(u64::MAX - 1);
        self.since.store(since + 1, Relaxed);
        let done = what();
        self.since.store(0, Relaxed);
        if began.elapsed() > SLOW {
            self.slow.fetch_add(1, Relaxed);
        }
        done
    }

    pub(super) fn waiting(&self) -> Option<Duration> {
        let since = self.since.load(Relaxed).checked_sub(1)?;
        Some(BEGAN.elapsed().saturating_sub(Duration::from_millis(since)))
    }

    pub(super) fn slow(&self) -> u64 {
        self.slow.load(Relaxed)
    }
}

/// Says in the log when the disk is slow and when it is not any more, for as long as it is polled.
pub async fn say_when_slow(store: Store) {
    let mut said = Said::default();
    loop {
        tokio::time::sleep(LOOK).await;
        match said.look(store.disk_wait(), store.slow_commits()) {
            Some(Word::Slow(waited)) => tracing::warn!(
                path = %store.path().display(), seconds = waited.as_secs(),
                "the disk of the state file is slow: changes are told later, and nothing is dropped"
            ),
            Some(Word::Quick) => tracing::info!("the disk of the state file is quick again: nothing was lost"),
            None => {}
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// For so long, at least.
    Slow(Duration),
    Quick,
}

/// What was said last.
#[derive(Debug, Default)]
struct Said {
    slow: bool,
    /// Looks in a row at which it was quick.
    quiet: u32,
    seen: u64,
}

impl Said {
    fn look(&mut self, waiting: Option<Duration>, slow_commits: u64) -> Option<Word> {
        let long = waiting.filter(|waited| *waited > SLOW);
        let was = (slow_commits > self.seen).then_some(SLOW);
        self.seen = slow_commits;
        match (long.or(was), self.slow) {
            (Some(waited), false) => {
                *self = Self { slow: true, quiet: 0, ..*self };
                Some(Word::Slow(waited))
            }
            (Some(_), true) => {
                self.quiet = 0;
                None
            }
            (None, true) => {
                self.quiet += 1;
                self.slow = self.quiet < QUIET;
                (!self.slow).then_some(Word::Quick)
            }
            (None, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_disk_is_said_once_and_so_is_its_end() {
        let mut said = Said::default();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(said.look(ms(30), 0), None);
        assert_eq!(said.look(ms(1_500), 0), Some(Word::Slow(Duration::from_millis(1_500))));
        assert_eq!(said.look(ms(2_500), 0), None, "it was said");
        assert_eq!(said.look(None, 1), None);
        for _ in 1..QUIET {
            assert_eq!(said.look(ms(5), 1), None);
        }
        assert_eq!(said.look(None, 1), Some(Word::Quick));
        assert_eq!(said.look(None, 2), Some(Word::Slow(SLOW)), "one that fell between two looks counts");
    }

    #[test]
    fn what_is_waited_for_is_seen_while_it_lasts() {
        let disk = Disk::default();
        assert_eq!(disk.waiting(), None);
        assert!(disk.wait(|| disk.waiting()).is_some());
        assert_eq!((disk.waiting(), disk.slow()), (None, 0));
    }
}
