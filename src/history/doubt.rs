//! Whether an object was at a time what its history says. A change is dated when it was seen: one that was made while
//! nobody watched is dated too late, and at a time in between the object may already have been changed.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Error, History, objects::Life, timestamp};
use crate::{
    event::Observed,
    ledger::absence::{Absence, STAMP},
};

/// Why it is not certain what an object was at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Doubt {
    /// Up to then it was what is shown.
    pub since: Timestamp,
    /// When the next change was seen, which may have been made at any time since; none where none was.
    pub until: Option<Timestamp>,
    /// The id of that change.
    pub event: Option<String>,
    /// In words.
    pub reason: String,
}

/// The API server's clock and ours may differ by so much.
const CLOCKS_DIFFER_MS: i64 = 60_000;
/// What was missed is caught up with so soon. It is asked only of changes that do not say when they were made.
const CAUGHT_UP_MS: i64 = 60_000;
const MOMENT_MS: i64 = 5_000;
/// A kubediff that has said nothing for so long does not run.
const STALE_MS: i64 = 2 * STAMP.as_millis() as i64;

impl History {
    /// What speaks against the state after the first `k` events at a time.
    pub(super) fn doubt(&self, life: &Life, k: usize, at: Timestamp) -> Result<Option<Doubt>, Error> {
        let at = at.as_millisecond();
        // The last that is known for sure.
        let before = k.checked_sub(1).and_then(|last| life.steps.get(last)).map_or(life.since, |step| step.time);
        let Some(next) = life.steps.get(k) else { return Ok(not_watched(life, before, at)) };
        let earlier = life.absences.iter().rev().find(|absence| absence.since <= next.time);
        let (since, reason) = match next.observed {
            Observed::Late => {
                let left = earlier.map_or(before, |absence| absence.since);
                (left, "the next change was found when kubediff had been away; several may be in one")
            }
            Observed::Audit => (before, "the next change was missed by the watch and found by the periodic check"),
            Observed::Live => {
                // What was missed may be seen a moment before the watch is known to be well again.
                let over = |absence: &&Absence| {
                    absence.since <= next.time
                        && absence.until.is_some_and(|until| until <= next.time.saturating_add(MOMENT_MS))
                };
                let Some(absence) = life.absences.iter().rev().find(over) else { return Ok(None) };
                if !self.made_by(next.seq, next.time, absence.until.unwrap_or_default())? {
                    return Ok(None);
                }
                (absence.since, "kubediff was away then, and saw the next change when it was back")
            }
        };
        let since = since.max(before);
        if at < since {
            return Ok(None);
        }
        let mut id = self.connection().prepare_cached("SELECT id FROM events WHERE seq = ?1")?;
        Ok(Some(Doubt {
            since: timestamp(since),
            until: Some(timestamp(next.time)),
            event: Some(id.query_row([next.seq], |row| row.get(0))?),
            reason: reason.to_owned(),
        }))
    }

    /// Whether a change may have been made by a time, though it was seen later.
    fn made_by(&self, seq: i64, seen: i64, by: i64) -> Result<bool, Error> {
        let made = self.event(seq)?.and_then(|event| event.actors.iter().filter_map(|actor| actor.time).max());
        Ok(match made {
            Some(made) => made.as_millisecond() <= by.saturating_add(CLOCKS_DIFFER_MS),
            None => seen <= by.saturating_add(CAUGHT_UP_MS),
        })
    }
}

/// Nothing is known to have happened since, for as long as somebody looks.
fn not_watched(life: &Life, before: i64, at: i64) -> Option<Doubt> {
    let lasting = life.absences.iter().find(|absence| absence.until.is_none()).map(|absence| absence.since);
    let stopped = life.watching.filter(|watching| at > watching.saturating_add(STALE_MS));
    let (since, reason) = match (lasting, stopped) {
        (Some(since), _) => (since, "it cannot be watched at the moment"),
        (None, Some(since)) => (since, "kubediff has not run since"),
        (None, None) => return None,
    };
    let since = since.max(before);
    (at >= since).then(|| Doubt { since: timestamp(since), until: None, event: None, reason: reason.to_owned() })
}
