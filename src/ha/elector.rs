//! Who leads, as a state machine: what the Lease was seen to say and the time go in, what to do next comes out. Pure.
//!
//! Time is measured here alone, by a clock that nobody sets: from when this replica first saw the Lease as it is now. The
//! times that the Lease carries were written by other clocks, and are for people.

use std::time::Duration;

use tokio::time::Instant;

/// How long what lasts. `lease` > `renew` > `retry`: a leader that cannot renew has stopped before another may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Nobody else takes a Lease that changed within this time.
    pub lease: Duration,
    /// A leader that could not renew for this long stops.
    pub renew: Duration,
    /// Between two looks at it, or two renewals.
    pub retry: Duration,
}

impl Default for Times {
    /// As Kubernetes' own controllers have it.
    fn default() -> Self {
        Self { lease: Duration::from_secs(15), renew: Duration::from_secs(10), retry: Duration::from_secs(2) }
    }
}

/// How long a replica that is new leaves a Lease alone that awaits one with a history. That one ran before there was a Lease,
/// still delivers, and hears of the Lease when it is restarted: the StatefulSet's controller does so when the new one is
/// ready, and it may take the 45 s that the chart gives it to end. Meanwhile nothing is lost: the new one records all.
const NEWCOMER: Duration = Duration::from_secs(90);

/// What a Lease says, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Its resourceVersion: whether it changed, and what a write goes by.
    pub version: String,
    /// Empty: nobody's.
    pub holder: String,
    /// What the holder asked for.
    pub lease: Duration,
    /// Nobody ever had it, and somebody with a history is to be the first.
    pub awaits: bool,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing, until then.
    Wait(Instant),
    /// Look at the Lease: [`Elector::read`], or [`Elector::failed`].
    Read,
    /// Make it: [`Elector::wrote`], [`Elector::refused`] when somebody else did, or [`Elector::failed`].
    Create,
    /// Write it over this one: [`Elector::wrote`], [`Elector::refused`] when it changed meanwhile or is gone, or
    /// [`Elector::failed`].
    Replace(Record),
    /// Stop to lead, now.
    StepDown,
}

#[derive(Debug)]
enum State {
    Standby,
    Leading {
        deadline: Instant,
    },
    /// Somebody else has it; the word to stop is not given yet.
    Lost,
}

#[derive(Debug)]
pub struct Elector {
    me: String,
    times: Times,
    state: State,
    /// As it was last seen; `None` when there is none.
    record: Option<Record>,
    /// The record is as new as can be: it may be acted upon.
    fresh: bool,
    /// Until then somebody else may still believe to lead.
    taken_until: Option<Instant>,
    /// When it is time to look or to write again.
    next: Instant,
    /// Since when this replica cannot write down what it delivers.
    failing: Option<Instant>,
    /// Until then it leaves a Lease alone that awaits one with a history.
    yields_until: Option<Instant>,
}

impl Elector {
    pub fn new(me: impl Into<String>, times: Times, now: Instant) -> Self {
        Self {
            me: me.into(),
            times,
            state: State::Standby,
            record: None,
            fresh: false,
            taken_until: None,
            next: now,
            failing: None,
            yields_until: None,
        }
    }

    /// This replica has no history: of what waited before it began only another can know.
    pub fn is_new(&mut self, now: Instant) {
        self.yields_until = Some(now + NEWCOMER);
    }

    /// Whether it leaves the Lease, as it was last seen, to one with a history.
    pub fn yields(&self, now: Instant) -> bool {
        self.record.as_ref().is_some_and(|record| record.awaits) && self.yields_until.is_some_and(|until| now < until)
    }

    /// Since when this replica cannot write down what it delivers; `None` when it can.
    pub fn note_failing(&mut self, since: Option<Instant>) {
        self.failing = since;
    }

    /// Who cannot write for as long as a leader may go without a renewal neither leads nor takes the lead.
    pub fn is_fit(&self, now: Instant) -> bool {
        self.failing.is_none_or(|since| now < since + self.times.renew)
    }

    pub fn is_leading(&self) -> bool {
        matches!(self.state, State::Leading { .. })
    }

    /// Until when this replica leads without another renewal.
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Leading { deadline } => Some(deadline),
            State::Standby | State::Lost => None,
        }
    }

    /// Who has it, as far as is known.
    pub fn holder(&self) -> &str {
        self.record.as_ref().map_or("", |record| &record.holder)
    }

    /// What to do now.
    pub fn next(&mut self, now: Instant) -> Action {
        match self.state {
            State::Lost => {
                self.state = State::Standby;
                Action::StepDown
            }
            State::Leading { deadline } if now >= deadline || !self.is_fit(now) => {
                self.state = State::Standby;
                self.fresh = false;
                Action::StepDown
            }
            State::Leading { deadline } if now < self.next => Action::Wait(self.next.min(deadline)),
            State::Standby if now < self.next => Action::Wait(self.next),
            _ if !self.fresh => Action::Read,
            State::Leading { .. } => self.write(),
            State::Standby if !self.is_fit(now) => {
                self.fresh = false;
                self.next = now + self.times.retry;
                Action::Wait(self.next)
            }
            State::Standby => match self.taken_until.filter(|until| now < *until) {
                None => self.write(),
                Some(until) => {
                    self.fresh = false;
                    self.next = until.min(now + self.times.retry);
                    Action::Wait(self.next)
                }
            },
        }
    }

    fn write(&self) -> Action {
        self.record.clone().map_or(Action::Create, Action::Replace)
    }

    /// This is what the Lease says now; `None` when there is none.
    pub fn read(&mut self, record: Option<Record>, now: Instant) {
        self.fresh = true;
        let others = record.as_ref().filter(|record| !record.holder.is_empty() && record.holder != self.me);
        match (others, &record) {
            (Some(held), _) => {
                let changed = self.record.as_ref().is_none_or(|before| before.version != held.version);
                if changed || self.taken_until.is_none() {
                    self.taken_until = Some(now + held.lease.max(self.times.lease));
                }
                if self.is_leading() {
                    self.state = State::Lost;
                }
            }
            // Given up, or this replica's own from before; or it awaits another.
            (None, Some(free)) => self.taken_until = self.yields_until.filter(|_| free.awaits),
            // Deleted: whoever had it does not know yet.
            (None, None) => {}
        }
        self.record = record;
    }

    /// A write went through, and this is what it left. The right to lead counts from before it was sent.
    pub fn wrote(&mut self, record: Record, begun: Instant) {
        self.state = State::Leading { deadline: begun + self.times.renew };
        self.record = Some(record);
        self.fresh = true;
        self.taken_until = None;
        self.next = begun + self.times.retry;
    }

    /// A write was refused: the Lease is not what it was taken for.
    pub fn refused(&mut self, now: Instant) {
        self.fresh = false;
        self.next = now;
    }

    /// No answer, or one that says nothing. A write may have gone through all the same.
    pub fn failed(&mut self, now: Instant) {
        self.fresh = false;
        self.next = now + self.times.retry;
    }
}
