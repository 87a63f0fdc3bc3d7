//! Pages of rows, and whole events.

use std::{ops::ControlFlow, sync::Arc};

use jiff::Timestamp;
use rusqlite::params;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Error, Filter, History, Name, Sight,
    narrow::Narrow,
    scan::{Ended, Limit},
    timestamp,
};
use crate::{
    event::{Event, OwnerRef},
    ledger::{self, search},
};

/// Those whose ids begin so, of the ones that are in the index: by the beginning of the beginning, and all of it.
pub(super) const BY_ID: &str = "SELECT e.seq, e.id FROM event_ids i JOIN events e ON e.seq = i.seq
     WHERE i.start >= ?1 AND i.start < ?1 || 'g' AND e.id >= ?2 AND e.id < ?2 || 'g' ORDER BY i.start, i.seq LIMIT 2";
/// The same of the few that are newer.
pub(super) const BY_ID_NEWEST: &str =
    "SELECT seq, id FROM events WHERE seq > ?1 AND id >= ?2 AND id < ?2 || 'g' ORDER BY seq LIMIT 2";

/// What a line of the timeline needs of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Grows from event to event.
    pub seq: i64,
    pub id: String,
    pub time: Timestamp,
    #[serde(rename = "type")]
    pub event_type: String,
    pub observed: String,
    /// `""` for the core group.
    pub group: String,
    pub version: String,
    pub resource: String,
    pub kind: String,
    /// `""` for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    /// The root owner; an object that nothing owns is its own.
    pub owner: OwnerRef,
    pub managers: Vec<String>,
    /// Made by a person's own tool.
    pub hand: bool,
    pub classes: Vec<String>,
    pub summary: String,
}

impl Row {
    fn new(row: &Narrow<'_>) -> Self {
        let owned = |text: &str| text.to_owned();
        Self {
            seq: row.seq,
            id: String::new(),
            time: timestamp(row.time),
            event_type: owned(row.event_type),
            observed: owned(row.observed),
            group: owned(row.group),
            version: owned(row.version),
            resource: owned(row.resource),
            kind: owned(row.kind),
            namespace: owned(row.namespace),
            name: owned(row.name),
            owner: OwnerRef {
                kind: owned(row.owner_kind),
                namespace: owned(row.owner_namespace),
                name: owned(row.owner_name),
            },
            managers: row.managers().map(owned).collect(),
            hand: row.hand(),
            classes: row.classes().map(owned).collect(),
            summary: String::new(),
        }
    }

    pub fn object(&self) -> Name {
        Name {
            group: self.group.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The newest first.
    #[default]
    Desc,
    Asc,
}

/// Some rows, and where the next ones begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub rows: Vec<Row>,
    /// The cursor for the page after this one; `None` at the end.
    pub next: Option<i64>,
}

impl History {
    /// The rows after a cursor, in an order. Fewer than `limit` with a `next` means that the search for more was cut off.
    pub fn page(
        &self,
        filter: &Filter,
        sight: &Sight,
        order: Order,
        cursor: Option<i64>,
        limit: usize,
    ) -> Result<Page, Error> {
        // Of one moment: an event may be removed between its row and its summary.
        let _moment = self.connection().unchecked_transaction()?;
        let question = self.question(filter, sight)?;
        let mut range = self.range(&question)?;
        match (order, cursor) {
            (Order::Desc, Some(cursor)) => range.to = range.to.min(cursor.saturating_sub(1)),
            (Order::Asc, Some(cursor)) => range.from = range.from.max(cursor.saturating_add(1)),
            (_, None) => {}
        }
        let mut rows: Vec<Row> = Vec::new();
        let mut more = false;
        let ended = self.scan(&question, range, order, Limit::PAGE, |row| {
            if rows.len() == limit {
                more = true;
                return ControlFlow::Break(());
            }
            rows.push(Row::new(row));
            ControlFlow::Continue(())
        })?;
        let next = match ended {
            Ended::CutOff { at } => Some(at),
            Ended::Complete => None,
            Ended::Stopped => rows.last().map(|row| row.seq).filter(|_| more),
        };
        self.finish(&mut rows)?;
        Ok(Page { rows, next })
    }

    /// The events after a number, the oldest first: for those who follow. Says how far it looked.
    pub fn after(&self, filter: &Filter, sight: &Sight, seq: i64, limit: usize) -> Result<(Vec<Row>, i64), Error> {
        let newest = self.ledger()?.last_seq;
        let page = self.page(filter, sight, Order::Asc, Some(seq), limit)?;
        // What was committed between the two questions is in the page already.
        let last = page.rows.last().map_or(seq, |row| row.seq);
        Ok((page.rows, page.next.unwrap_or_else(|| newest.max(seq).max(last))))
    }

    /// What the narrow index does not hold.
    fn finish(&self, rows: &mut [Row]) -> Result<(), Error> {
        let mut statement = self.connection().prepare_cached("SELECT id, summary FROM events WHERE seq = ?1")?;
        for row in rows {
            (row.id, row.summary) = statement.query_row([row.seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
        }
        Ok(())
    }

    /// The row of a number.
    pub fn row(&self, seq: i64) -> Result<Option<Row>, Error> {
        let _moment = self.connection().unchecked_transaction()?;
        self.row_now(seq)
    }

    /// The same within a moment that the caller holds.
    pub(super) fn row_now(&self, seq: i64) -> Result<Option<Row>, Error> {
        let question = Filter::default().question(&super::kinds::Kinds::default(), &Sight::Everything)?;
        let mut found = Vec::new();
        let range = super::scan::Range { from: seq, to: seq };
        self.scan(&question, range, Order::Asc, Limit::NONE, |row| {
            found.push(Row::new(row));
            ControlFlow::Break(())
        })?;
        self.finish(&mut found)?;
        Ok(found.pop())
    }

    /// A whole event by its number.
    pub fn event(&self, seq: i64) -> Result<Option<Arc<Event>>, Error> {
        Ok(ledger::rows::event(self.connection(), seq)?.map(|(_, event)| event))
    }

    /// The whole events of rows, as many as have so many bytes of JSON together, at least one; and the cursor to go on
    /// with when that is not all of them.
    pub fn whole(&self, rows: &[Row], most_bytes: usize) -> Result<(Vec<Arc<Event>>, Option<i64>), Error> {
        let (mut events, mut left, mut last) = (Vec::new(), most_bytes, None);
        for row in rows {
            let Some((bytes, event)) = ledger::rows::event(self.connection(), row.seq)? else { continue };
            if bytes > left && !events.is_empty() {
                return Ok((events, last));
            }
            left = left.saturating_sub(bytes);
            last = Some(row.seq);
            events.push(event);
        }
        Ok((events, None))
    }

    /// The number of an event by its id, or by the beginning of it that no other has.
    pub fn find(&self, id: &str) -> Result<Option<i64>, Error> {
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let id = id.to_ascii_lowercase();
        let start = &id[..id.len().min(search::ID_START)];
        // Before the others: what is put into the index meanwhile is then found twice, and not never.
        let searched = search::searched(self.connection())?;
        let mut found: Vec<(i64, String)> = self
            .connection()
            .prepare_cached(BY_ID)?
            .query_map([start, &id], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let newest: Vec<(i64, String)> = self
            .connection()
            .prepare_cached(BY_ID_NEWEST)?
            .query_map(params![searched, id], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        for event in newest {
            if !found.contains(&event) {
                found.push(event);
            }
        }
        found.truncate(2);
        match &found[..] {
            [(seq, whole)] if *whole == id || id.len() >= 6 => Ok(Some(*seq)),
            [(seq, whole), (_, other)] if *whole == id || (whole == other && id.len() >= 6) => Ok(Some(*seq)),
            [_, _] if id.len() >= 6 => Err(Error::Word {
                parameter: "id",
                value: id,
                expected: "several events begin so; give more of it".to_owned(),
            }),
            _ => Ok(None),
        }
    }
}
