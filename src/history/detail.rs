//! One event: what it did to the document, its neighbours, and who has not been told yet.

use std::sync::Arc;

use rusqlite::params;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Error, History,
    objects::{What, name_of},
    undo,
};
use crate::event::Event;

/// All that is known of an event.
#[derive(Clone, Debug)]
pub struct Detail {
    pub event: Arc<Event>,
    /// From the document after it to the one before, of updates.
    pub inverse: Option<json_patch::Patch>,
    /// `None` also where the history has a gap, or is too long.
    pub before: Option<Value>,
    pub after: Option<Value>,
    /// The ids of the events before and after it of the same object.
    pub previous: Option<String>,
    pub next: Option<String>,
    pub hand: bool,
    /// The command that takes it back; `None` where none can.
    pub undo: Option<String>,
    pub deliveries: Vec<Delivery>,
}

/// A delivery that is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    pub sink: String,
    /// `waiting` or `dead`
    pub state: String,
    pub attempts: i64,
    /// Why it was given up.
    pub reason: Option<String>,
}

impl History {
    pub fn detail(&mut self, seq: i64) -> Result<Option<Detail>, Error> {
        self.at_once(|history| {
            let Some(event) = history.event(seq)? else { return Ok(None) };
            let life = history.life(&name_of(&event))?;
            let Some(at) = life.steps.iter().position(|step| step.seq == seq) else { return Ok(None) };
            let whole = |document: Result<Option<Value>, Error>| match document {
                Err(Error::Gap(_) | Error::TooLong { .. }) => Ok(None),
                other => other,
            };
            let inverse = history.inverse(seq)?;
            let (before, after) = match life.steps[at].what {
                What::Created => (None, event.object.clone()),
                What::Deleted => (before(event.object.clone(), inverse.as_ref()), None),
                // Where what came right after it may be forgotten, what it led to is not known.
                What::Updated if !life.has_all_from(at) => (None, None),
                What::Updated => {
                    let after = whole(history.document(&life, at + 1))?;
                    (inverse.as_ref().and_then(|inverse| before(after.clone(), Some(inverse))), after)
                }
            };
            let id = |step: Option<&super::objects::Step>| -> Result<Option<String>, Error> {
                let Some(step) = step else { return Ok(None) };
                let mut statement = history.connection().prepare_cached("SELECT id FROM events WHERE seq = ?1")?;
                Ok(Some(statement.query_row([step.seq], |row| row.get(0))?))
            };
            let previous = id(at.checked_sub(1).and_then(|at| life.steps.get(at)))?;
            let next = id(life.steps.get(at + 1))?;
            let inverse = inverse.filter(|_| life.steps[at].what == What::Updated);
            Ok(Some(Detail {
                undo: inverse.as_ref().and_then(|inverse| undo::command(&event, inverse, after.as_ref())),
                hand: event.by_hand(),
                deliveries: history.deliveries(seq)?,
                event,
                inverse,
                before,
                after,
                previous,
                next,
            }))
        })
    }

    fn deliveries(&self, seq: i64) -> Result<Vec<Delivery>, Error> {
        let mut statement = self.connection().prepare_cached(
            "SELECT s.name, 'waiting', d.attempts, NULL FROM sinks s JOIN deliveries d ON d.sink = s.id AND d.seq = ?1
             UNION ALL
             SELECT s.name, 'dead', d.attempts, d.reason FROM sinks s JOIN dead_letters d ON d.sink = s.id AND d.seq = ?1
             ORDER BY 1",
        )?;
        let rows = statement.query_map(params![seq], |row| {
            Ok(Delivery { sink: row.get(0)?, state: row.get(1)?, attempts: row.get(2)?, reason: row.get(3)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

fn before(after: Option<Value>, inverse: Option<&json_patch::Patch>) -> Option<Value> {
    let mut document = after?;
    if let Some(inverse) = inverse {
        json_patch::patch(&mut document, inverse).ok()?;
    }
    Some(document)
}
