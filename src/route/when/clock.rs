//! How long an evaluation may take: the one place where routing looks at a clock, and only for events that are heavy
//! enough to take long. The bounds on steps ([`super::When`]) say what is not begun; this ends what was begun.
//!
//! What runs is on one thread, so the clock is that thread's. It counts the time that the thread has worked: one that the
//! machine keeps from working is not late.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use super::Failure;

/// Builds that are not optimised take some twenty times as long for the same.
pub(super) const TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 5_000 } else { 250 });
/// Text that one evaluation may put together.
pub(super) const MADE: usize = 64 << 20;

/// The time and the room of one evaluation.
#[derive(Debug)]
pub(super) struct Clock {
    began: Instant,
    /// The time that the thread had worked when the wall clock said that it was over.
    worked: Cell<Option<Duration>>,
    limit: Duration,
    made: Cell<usize>,
    over: Cell<Option<Over>>,
}

/// What there was too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Time,
    Text,
    /// What cannot be interrupted was not begun.
    Endless,
}

/// It is over: what is under way ends at once, and its answer does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Late;

impl Clock {
    pub(super) fn new(limit: Duration) -> Self {
        Self { began: Instant::now(), worked: Cell::new(None), limit, made: Cell::new(0), over: Cell::new(None) }
    }

    /// Whether there is time left. The wall clock is asked first, as it costs nothing.
    pub(super) fn tick(&self) -> Result<(), Late> {
        if self.over.get().is_some() {
            return Err(Late);
        }
        if self.began.elapsed() < self.limit {
            return Ok(());
        }
        let now = worked();
        match self.worked.get() {
            None => self.worked.set(Some(now)),
            Some(then) if now.saturating_sub(then) < self.limit => {}
            Some(_) => {
                self.over.set(Some(Over::Time));
                return Err(Late);
            }
        }
        Ok(())
    }

    /// Counts text that is made.
    pub(super) fn make(&self, bytes: usize) -> Result<(), Late> {
        self.made.set(self.made.get().saturating_add(bytes));
        if self.made.get() > MADE {
            self.over.set(Some(Over::Text));
        }
        self.tick()
    }

    /// For what could take any time and would not ask how much is left.
    pub(super) fn give_up(&self) -> Late {
        self.over.set(self.over.get().or(Some(Over::Endless)));
        Late
    }

    /// Why the answer does not count, when it does not.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.over.get().map(|over| match over {
            Over::Time => Failure::Late { millis: self.limit.as_millis().try_into().unwrap_or(u64::MAX) },
            Over::Text => Failure::Large,
            Over::Endless => Failure::Wrong(
                r"a pattern with `\b` is not matched with a long text that has letters beyond ASCII; write `(?-u:\b)`"
                    .into(),
            ),
        })
    }
}

fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

thread_local! {
    /// Of the evaluation that this thread is at, where it has one.
    static RUNNING: RefCell<Option<Clock>> = const { RefCell::new(None) };
}

/// Runs an evaluation whose functions ask [`running`].
pub(super) fn run<T>(limit: Duration, evaluate: impl FnOnce() -> T) -> Result<T, Failure> {
    RUNNING.with(|running| running.replace(Some(Clock::new(limit))));
    let answer = evaluate();
    let clock = RUNNING.with(RefCell::take);
    match clock.and_then(|clock| clock.failure()) {
        Some(failure) => Err(failure),
        None => Ok(answer),
    }
}

/// Asks the clock of this thread's evaluation, where it has one.
pub(super) fn running<T>(ask: impl FnOnce(Option<&Clock>) -> Result<T, Late>) -> Result<T, Late> {
    RUNNING.with(|running| ask(running.borrow().as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_get_to_work_is_not_late_and_one_that_works_is() {
        let clock = Clock::new(Duration::from_millis(30));
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(clock.tick(), Ok(()));
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!((clock.tick(), clock.failure()), (Ok(()), None), "it slept");
        let began = Instant::now();
        while clock.tick().is_ok() {
            assert!(began.elapsed() < Duration::from_secs(60), "it works and works");
        }
        assert_eq!(clock.failure(), Some(Failure::Late { millis: 30 }));
        assert_eq!(clock.tick(), Err(Late), "and stays late");
    }
}
