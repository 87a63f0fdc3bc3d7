//! The thread that reads the watches of a service.
//!
//! A thread that wakes for each change of a stream of them costs more than the changes do. So this one listens in turns:
//! after a turn that brought changes, right after another that did, it sleeps until a beat is over, and then finds all
//! that came meanwhile at once. What comes after a pause is read at once, and so are lists and the answers to who opens a
//! watch. What comes meanwhile waits in the buffers of the connections; the more came in a turn, the sooner is the next, so that no server finds them full.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// From one turn to the next, in a stream of changes: short beside what anybody notices.
const BEAT: Duration = Duration::from_millis(100);
/// A turn that brings more than this many KiB is followed by the next one sooner.
const TURN: usize = 256;

/// What was read in a turn, as those who read count it.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// KiB, each change counting as one at least.
    changes: AtomicUsize,
    /// Lists that are being read, and watches that are being opened.
    hurried: AtomicUsize,
}

impl Heard {
    pub(super) fn change(&self, bytes: usize) {
        self.changes.fetch_add(bytes.div_ceil(1024).max(1), Ordering::Relaxed);
    }

    /// For as long as a list is read, or a watch opened.
    pub(super) fn hurry(self: &Arc<Self>) -> Hurry {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        Hurry(self.clone())
    }
}

/// While it lives there are no pauses.
#[derive(Debug)]
pub(super) struct Hurry(Arc<Heard>);

impl Drop for Hurry {
    fn drop(&mut self) {
        self.0.hurried.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Owns the thread, which ends with it.
#[derive(Debug)]
pub(super) struct Ear {
    handle: Handle,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Ear {
    pub(super) fn start(heard: Arc<Heard>) -> io::Result<Self> {
        let turns = Mutex::new(Turns::default());
        let between = move || {
            let (changes, hurried) = (heard.changes.swap(0, Ordering::Relaxed), heard.hurried.load(Ordering::Relaxed));
            let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(pause) = turns.ended(Instant::now(), changes, hurried) {
                std::thread::park_timeout(pause);
                turns.last = Some(Instant::now());
            }
        };
        let stop = CancellationToken::new();
        let (until, (built, building)) = (stop.clone(), mpsc::channel());
        // The runtime is made where it runs: one that is dropped amid another's tasks ends them.
        let listen = move || match Builder::new_current_thread().enable_all().on_thread_park(between).build() {
            Ok(runtime) => {
                let _ = built.send(Ok(runtime.handle().clone()));
                runtime.block_on(until.cancelled());
            }
            Err(error) => drop(built.send(Err(error))),
        };
        let thread = std::thread::Builder::new().name("ear".into()).spawn(listen)?;
        let handle = building.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended")))?;
        Ok(Self { handle, stop, thread: Some(thread) })
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.stop.cancel();
        // It is over when the present turn is. Nobody waits: the last handle may be dropped on the thread itself.
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
        }
    }
}

/// When the last turn was that brought changes, its pause included.
#[derive(Debug, Default)]
struct Turns {
    last: Option<Instant>,
}

impl Turns {
    /// How long to sleep after a turn that brought so much.
    fn ended(&mut self, now: Instant, changes: usize, hurried: usize) -> Option<Duration> {
        if changes == 0 || hurried > 0 {
            return None;
        }
        let last = self.last.replace(now)?;
        let beat = BEAT.mul_f64((TURN as f64 / changes as f64).min(1.0));
        (last + beat).checked_duration_since(now).filter(|rest| !rest.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_change_after_a_pause_is_read_at_once_and_a_stream_of_them_in_beats() {
        let began = Instant::now();
        let mut turns = Turns::default();
        assert_eq!(turns.ended(began, 1, 0), None, "the first");
        assert_eq!(turns.ended(began + BEAT, 1, 0), None, "a beat later");
        assert_eq!(turns.ended(began + BEAT + 5 * MS, 1, 0), Some(BEAT - 5 * MS), "one after the other");
        assert_eq!(turns.ended(began + BEAT + 6 * MS, 0, 0), None, "nothing was heard: a timer, a bookmark");
    }

    #[test]
    fn the_more_came_in_a_turn_the_sooner_is_the_next_and_lists_wait_for_none() {
        let began = Instant::now();
        let after = |changes, hurried| {
            let mut turns = Turns { last: Some(began) };
            turns.ended(began, changes, hurried)
        };
        assert_eq!(after(TURN, 0), Some(BEAT));
        assert_eq!(after(4 * TURN, 0), Some(BEAT / 4));
        assert!(after(100 * TURN, 0).is_none_or(|pause| pause <= MS));
        assert_eq!(after(1, 1), None, "a list is being read");
    }
}
