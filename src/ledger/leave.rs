//! How sinks come to their end when the configuration changes, while everything else goes on: what they have in hand is
//! settled first, and nobody takes a sink's place, and its rows, before its worker is gone.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{Delivery, Ended, Running, Slot, Worker};
use crate::sink::{self, Built, Retry};

/// How long a sink that is no longer configured may go on with what waits for it.
const DRAIN_REMOVED: Duration = Duration::from_secs(10);
/// Beyond the time that a request has: for writing down what became of it.
const SETTLE: Duration = Duration::from_secs(5);

/// A worker that was asked to end.
pub(super) struct Leaving {
    worker: Worker,
    slot: Slot,
    retry: Retry,
    /// What it is asked for now, and until when that is waited for.
    step: Step,
    until: Instant,
    /// Who takes its place.
    pub(super) next: Option<(sink::Settings, Built)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// To send what it can.
    Drain,
    /// To settle what is on its way: as long as a request may take.
    Settle,
    /// Nothing more; it is gone in a moment.
    Abort,
}

impl Leaving {
    fn ask(&mut self, step: Step) {
        self.step = step;
        self.until = Instant::now()
            + match step {
                Step::Drain => DRAIN_REMOVED,
                Step::Settle | Step::Abort => self.retry.timeout + SETTLE,
            };
        match step {
            Step::Drain => self.worker.stop.drained.cancel(),
            Step::Settle => self.worker.stop.at_once.cancel(),
            Step::Abort => self.worker.abort.abort(),
        }
    }
}

/// What happened next.
pub(super) enum Advance {
    /// One that was asked to end has ended, or is asked for less.
    Moved,
    /// One ended that nobody had asked.
    Ended(Arc<str>, Ended),
    /// There is none.
    Nobody,
}

impl Delivery {
    /// Asks a sink to end, for `next` or for good.
    pub(super) fn leave(&mut self, name: &Arc<str>, next: Option<(sink::Settings, Built)>) {
        let Some(Running { settings, slot, worker, .. }) = self.running.remove(name) else { return };
        let Some(worker) = worker else { return self.follow(name, slot, next) };
        // Another worker takes what waits. More of it may come all the time.
        let step = if next.is_some() { Step::Settle } else { Step::Drain };
        let mut leaving = Leaving { worker, slot, retry: settings.retry, step, until: Instant::now(), next };
        leaving.ask(step);
        self.leaving.insert(name.clone(), leaving);
    }

    /// A sink that is ending is wanted again.
    pub(super) fn take_place_of(&mut self, name: &Arc<str>, settings: sink::Settings, built: Built) {
        let Some(leaving) = self.leaving.get_mut(name) else { return };
        leaving.next = Some((settings, built));
        if leaving.step == Step::Drain {
            leaving.ask(Step::Settle);
        }
        let slot = leaving.slot.clone();
        self.ledger.replace_plan(|plan| {
            plan.sinks.insert(name.clone(), slot);
        });
    }

    /// Ends all of them at once. Who was to take their places stands by.
    pub(super) fn dismiss(&mut self) -> Vec<(Arc<str>, Worker)> {
        let leaving: Vec<_> = self.leaving.drain().collect();
        let dismissed = leaving.into_iter().map(|(name, leaving)| {
            self.follow(&name, leaving.slot, leaving.next);
            (name, leaving.worker)
        });
        dismissed.collect()
    }

    fn follow(&mut self, name: &Arc<str>, slot: Slot, next: Option<(sink::Settings, Built)>) {
        if let Some((settings, built)) = next {
            self.running.insert(name.clone(), Running { settings, built, slot, worker: None });
        }
    }

    /// Waits for the next end, or for the time of one that does not come to it. It may be dropped and called again.
    pub(super) async fn advance(&mut self) -> Advance {
        let waited_for = self.leaving.values().filter(|leaving| leaving.step != Step::Abort);
        let due = waited_for.map(|leaving| leaving.until).min();
        let late = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            ended = self.join_one() => ended,
            () = late => {
                self.press();
                return Advance::Moved;
            }
        };
        let Some((name, ended)) = ended else { return Advance::Nobody };
        let Some(leaving) = self.leaving.remove(&name) else { return Advance::Ended(name, ended) };
        self.follow(&name, leaving.slot, leaving.next);
        match self.leading.then(|| self.send_to(&name)) {
            Some(Err(error)) => Advance::Ended(name, Ended::Failed(error.to_string())),
            _ => Advance::Moved,
        }
    }

    /// Asks for less where the time is over.
    fn press(&mut self) {
        let now = Instant::now();
        let late = |leaving: &Leaving| leaving.until <= now && leaving.step != Step::Abort;
        for (name, leaving) in self.leaving.iter_mut().filter(|(_, leaving)| late(leaving)) {
            if leaving.step == Step::Drain {
                leaving.ask(Step::Settle);
            } else {
                tracing::warn!(sink = %name, "the sink did not finish in time; what it had in hand is sent again later");
                leaving.ask(Step::Abort);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_answered_within_its_own_time_is_never_cut_off() {
        let retry = Retry { timeout: Duration::from_secs(300), ..Retry::default() };
        let task = tokio::spawn(std::future::pending::<()>());
        let worker = Worker { stop: super::super::seat::Stop::default(), abort: task.abort_handle() };
        let slot = Slot { id: 1, wake: Arc::default() };
        let mut leaving = Leaving { worker, slot, retry, step: Step::Drain, until: Instant::now(), next: None };
        leaving.ask(Step::Drain);
        assert!(leaving.worker.stop.drained.is_cancelled() && !leaving.worker.stop.at_once.is_cancelled());
        leaving.ask(Step::Settle);
        assert!(leaving.worker.stop.at_once.is_cancelled());
        assert!(leaving.until > Instant::now() + retry.timeout);
        assert!(!task.is_finished());
        leaving.ask(Step::Abort);
        assert!(task.await.unwrap_err().is_cancelled());
    }
}
