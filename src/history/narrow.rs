//! What the narrow index holds of an event: enough for every filter but words.

use rusqlite::types::ValueRef;

use crate::{event::by_hand, ledger::tally::Profile};

/// What the narrow index holds of an event, borrowed from it.
#[derive(Clone, Copy, Debug)]
pub struct Narrow<'a> {
    pub seq: i64,
    /// Milliseconds since 1970.
    pub time: i64,
    pub event_type: &'a str,
    pub observed: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub owner_kind: &'a str,
    pub owner_namespace: &'a str,
    pub owner_name: &'a str,
    classes: &'a str,
    managers: &'a str,
}

pub(super) const COLUMNS: &str = "e.seq, e.time, e.type, e.observed, e.api_group, e.version, e.resource, e.kind, e.namespace, \
    e.name, e.owner_kind, e.owner_namespace, e.owner_name, e.classes, e.managers";

impl<'a> Narrow<'a> {
    pub(super) fn take(row: &'a rusqlite::Row<'_>) -> Result<Self, rusqlite::Error> {
        let text = |column: usize| match row.get_ref(column)? {
            ValueRef::Text(text) => Ok(std::str::from_utf8(text).unwrap_or_default()),
            _ => Ok::<_, rusqlite::Error>(""),
        };
        Ok(Self {
            seq: row.get(0)?,
            time: row.get(1)?,
            event_type: text(2)?,
            observed: text(3)?,
            group: text(4)?,
            version: text(5)?,
            resource: text(6)?,
            kind: text(7)?,
            namespace: text(8)?,
            name: text(9)?,
            owner_kind: text(10)?,
            owner_namespace: text(11)?,
            owner_name: text(12)?,
            classes: text(13)?,
            managers: text(14)?,
        })
    }

    /// What a profile says of all its events; the rest is empty.
    pub(super) fn of_profile(profile: &'a Profile, time: i64) -> Self {
        let [event_type, observed, group, resource, kind, namespace, classes, managers] = &profile.columns;
        Self {
            seq: 0,
            time,
            event_type,
            observed,
            group,
            version: "",
            resource,
            kind,
            namespace,
            name: "",
            owner_kind: "",
            owner_namespace: "",
            owner_name: "",
            classes,
            managers,
        }
    }

    pub fn classes(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.classes.split(' ').filter(|word| !word.is_empty())
    }

    pub fn managers(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.managers.split(' ').filter(|word| !word.is_empty())
    }

    pub fn hand(&self) -> bool {
        self.managers().any(by_hand)
    }

    pub(super) fn owner(&self) -> String {
        format!("{}/{}/{}", self.owner_kind, self.owner_namespace, self.owner_name)
    }
}
