//! Stops a question that takes longer than it may.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode};

/// Steps of SQLite between two looks at the clock. The search takes few for each of its pages, of which it reads about ten a
/// millisecond.
const STEPS: i32 = 15;
/// Nothing is to be stopped.
const NEVER: u64 = u64::MAX;

/// Watches over one connection.
#[derive(Debug)]
pub(super) struct Stop {
    began: Instant,
    /// In nanoseconds since then.
    at: Arc<AtomicU64>,
}

impl Stop {
    pub(super) fn new(connection: &mut Connection) -> Result<Self, rusqlite::Error> {
        let (began, at) = (Instant::now(), Arc::new(AtomicU64::new(NEVER)));
        let watched = at.clone();
        let is_over = move || match watched.load(Ordering::Relaxed) {
            NEVER => false,
            at => nanoseconds(began.elapsed()) >= at,
        };
        connection.progress_handler(STEPS, Some(is_over))?;
        Ok(Self { began, at })
    }

    /// What is asked meanwhile fails when the time is over ([`is_stopped`]).
    pub(super) fn after<T>(&self, time: Duration, ask: impl FnOnce() -> T) -> T {
        self.at.store(self.then(time), Ordering::Relaxed);
        let answer = ask();
        self.at.store(NEVER, Ordering::Relaxed);
        answer
    }

    /// Gives what is asked more time, from now on; where it has all the time, nothing changes.
    pub(super) fn again(&self, time: impl FnOnce() -> Duration) {
        if self.at.load(Ordering::Relaxed) != NEVER {
            self.at.store(self.then(time()), Ordering::Relaxed);
        }
    }

    fn then(&self, time: Duration) -> u64 {
        nanoseconds(self.began.elapsed() + time)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER)
}

pub(super) fn is_stopped(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}
