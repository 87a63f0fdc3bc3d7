//! Objects as they are, and as they were at any time that is kept: from the stored objects and the patches of events,
//! backwards from the present or from a deletion, or forwards from the creation, whichever is shorter.

use std::ops::Range;

use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Error, History, MOST_LOOKED_AT, Name, Sight, Words, doubt::Doubt, group_resource, kinds::Kinds, rows::Order, sight,
    timestamp,
};
use crate::{
    event::{Event, Observed},
    ledger::{
        self,
        absence::{self, Absence},
        rows::decompress,
    },
};

/// An object of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub resource_version: String,
}

/// Which objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Which {
    pub kinds: Words,
    pub namespaces: Words,
    pub names: Words,
}

/// The resources that are asked for, as `deployments.apps`.
pub(super) struct Resources {
    any: Option<Vec<String>>,
    none: Vec<String>,
}

impl Resources {
    pub(super) fn takes(&self, group_resource: &str) -> bool {
        let is = |one: &String| one == group_resource;
        self.any.as_ref().is_none_or(|any| any.iter().any(is)) && !self.none.iter().any(is)
    }
}

impl Which {
    pub(super) fn resources(&self, kinds: &Kinds) -> Resources {
        let found = |words: &[String]| -> Vec<String> {
            let found = words.iter().flat_map(|word| kinds.find(word));
            found.map(|resource| group_resource(&resource.group, &resource.plural)).collect()
        };
        let any = (!self.kinds.any.is_empty()).then(|| found(&self.kinds.any));
        Resources { any, none: found(&self.kinds.none) }
    }
}

/// An object at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub object: Option<Value>,
    /// The number of the event that made it so.
    pub event: Option<i64>,
    /// The oldest and the newest change that are known.
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// From when on its states are known.
    pub since: Timestamp,
    /// Why it may have been something else.
    pub doubt: Option<Doubt>,
    /// How many of its changes are known.
    pub changes: usize,
}

/// Which state of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    #[default]
    Now,
    At(Timestamp),
    /// As the event of this number left it.
    After(i64),
}

/// An event of an object, as far as its history needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) seq: i64,
    pub(super) time: i64,
    pub(super) what: What,
    pub(super) observed: Observed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Created,
    Updated,
    Deleted,
}

/// All that is known of one object.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) name: Name,
    /// The oldest first.
    pub(super) steps: Vec<Step>,
    pub(super) now: Option<(Value, Vec<u8>)>,
    /// Since when it is watched without a gap; before that only events speak.
    pub(super) watched: i64,
    /// From when on its states are known.
    pub(super) since: i64,
    /// The newest of the events that were forgotten, of whatever object: between older ones that are kept, some may be
    /// missing.
    pub(super) horizon: i64,
    /// When it was not watched, the oldest first.
    pub(super) absences: Vec<Absence>,
    /// Up to when kubediff is known to have run.
    pub(super) watching: Option<i64>,
}

impl History {
    /// The objects of now in the order of their resources and names, after a cursor, and the next cursor.
    pub fn objects(
        &self,
        which: &Which,
        sight: &Sight,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Listed>, Option<String>), Error> {
        self.objects_within(which, sight, cursor, limit, MOST_LOOKED_AT)
    }

    /// The same, of which so many are looked at for one page.
    pub(super) fn objects_within(
        &self,
        which: &Which,
        sight: &Sight,
        cursor: Option<&str>,
        limit: usize,
        most: usize,
    ) -> Result<(Vec<Listed>, Option<String>), Error> {
        let kinds = self.kinds()?;
        let resources = which.resources(&kinds);
        let feeds: Vec<(i64, String)> = self
            .connection()
            .prepare_cached("SELECT id, resource FROM feeds ORDER BY resource, id")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let wrong = || Error::Word {
            parameter: "cursor",
            value: cursor.unwrap_or_default().to_owned(),
            expected: "expected the `next` of a page before".to_owned(),
        };
        let mut from: Option<(i64, String, String)> = match cursor {
            None => None,
            Some(text) => match text.splitn(3, '/').collect::<Vec<_>>()[..] {
                [feed, namespace, name] => {
                    Some((feed.parse().map_err(|_| wrong())?, namespace.to_owned(), name.to_owned()))
                }
                _ => return Err(wrong()),
            },
        };
        let mut found: Vec<Listed> = Vec::new();
        let mut left = most;
        for (feed, name) in feeds {
            let (mut namespace, mut after) = (String::new(), String::new());
            match &from {
                Some((at, ..)) if *at != feed => continue,
                Some((_, n, m)) => (namespace, after) = (n.clone(), m.clone()),
                None => {}
            }
            from = None;
            if !resources.takes(&name) {
                continue;
            }
            let (plural, group) = sight::split(&name);
            let about = kinds.get(group, plural);
            let only = match &which.namespaces.any[..] {
                [one] if !one.contains('*') => Some(one.as_str()),
                _ => None,
            };
            let mut statement = self.connection().prepare_cached(
                "SELECT namespace, name, version FROM objects INDEXED BY objects_by_key
                 WHERE feed = ?1 AND (namespace, name) > (?2, ?3) AND (?4 IS NULL OR namespace = ?4)
                 ORDER BY namespace, name",
            )?;
            // Straight to the one namespace that is asked for.
            if let Some(only) = only.filter(|only| namespace.as_str() < *only) {
                (namespace, after) = (only.to_owned(), String::new());
            }
            let mut rows = statement.query(params![feed, namespace, after, only])?;
            // The last of this feed that was looked at, by this page or by the one before.
            let mut last = (namespace, after);
            while let Some(row) = rows.next()? {
                let namespace = row.get_ref(0)?.as_str().unwrap_or_default();
                let object = row.get_ref(1)?.as_str().unwrap_or_default();
                if found.len() == limit || left == 0 {
                    return Ok((found, Some(format!("{feed}/{}/{}", last.0, last.1))));
                }
                left -= 1;
                namespace.clone_into(&mut last.0);
                object.clone_into(&mut last.1);
                if !which.namespaces.takes(namespace)
                    || !which.names.takes(object)
                    || !sight.may(group, plural, namespace)
                {
                    continue;
                }
                found.push(Listed {
                    group: group.to_owned(),
                    version: about.map_or_else(String::new, |about| about.version.clone()),
                    resource: plural.to_owned(),
                    kind: about.map_or_else(String::new, |about| about.kind.clone()),
                    namespace: namespace.to_owned(),
                    name: object.to_owned(),
                    resource_version: row.get(2)?,
                });
            }
        }
        Ok((found, None))
    }

    /// An object as it is, or as it was at a time or after an event.
    pub fn at(&mut self, name: &Name, when: When) -> Result<State, Error> {
        self.at_once(|history| {
            let life = history.life(name)?;
            let k = life.up_to(when)?;
            history.state(&life, k, when)
        })
    }

    /// The state after the first `k` events.
    pub(super) fn state(&self, life: &Life, k: usize, when: When) -> Result<State, Error> {
        let doubt = match when {
            // It was so when the event was seen.
            When::After(_) => None,
            When::Now => self.doubt(life, k, Timestamp::now())?,
            When::At(time) => self.doubt(life, k, time)?,
        };
        Ok(State {
            doubt,
            object: self.document(life, k)?,
            event: k.checked_sub(1).and_then(|last| life.steps.get(last)).map(|step| step.seq),
            first: life.steps.first().map(|step| timestamp(step.time)),
            last: life.steps.last().map(|step| timestamp(step.time)),
            since: timestamp(life.since),
            changes: life.steps.len(),
        })
    }

    /// What is known of an object. To be called within one moment.
    pub(super) fn life(&mut self, name: &Name) -> Result<Life, Error> {
        let steps: Vec<Step> = self
            .connection()
            .prepare_cached(
                "SELECT n.seq, n.time, n.type, n.observed FROM events e INDEXED BY events_by_object
                 CROSS JOIN events n INDEXED BY events_narrow ON n.seq = e.seq
                 WHERE e.api_group = ?1 AND e.resource = ?2 AND e.namespace = ?3 AND e.name = ?4 ORDER BY e.seq",
            )?
            .query_map(params![name.group, name.resource, name.namespace, name.name], |row| {
                let what = match row.get_ref(2)?.as_str().unwrap_or_default() {
                    "created" => What::Created,
                    "deleted" => What::Deleted,
                    _ => What::Updated,
                };
                let observed = match row.get_ref(3)?.as_str().unwrap_or_default() {
                    "late" => Observed::Late,
                    "audit" => Observed::Audit,
                    _ => Observed::Live,
                };
                Ok(Step { seq: row.get(0)?, time: row.get(1)?, what, observed })
            })?
            .collect::<Result<_, _>>()?;
        let feeds: Vec<(i64, String, Option<i64>)> = self
            .connection()
            .prepare_cached("SELECT id, key, since FROM feeds WHERE resource = ?1 ORDER BY id")?
            .query_map([group_resource(&name.group, &name.resource)], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?
            .collect::<Result<_, _>>()?;
        let mut now = None;
        let mut watched: Option<i64> = None;
        let mut of_it = Vec::new();
        for (feed, key, since) in &feeds {
            let scope = key.split_once('@').and_then(|(_, rest)| rest.split_once('?')).map(|(scope, _)| scope);
            if scope.is_some_and(|scope| scope != "*" && scope != name.namespace) {
                continue;
            }
            of_it.push(*feed);
            watched = match (watched, *since) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            if let Some(document) = self.reader.get(*feed, &name.namespace, &name.name)? {
                now = Some((document.value(), document.managed_fields().to_vec()));
                watched = since.or(watched);
                of_it = vec![*feed];
                break;
            }
        }
        if steps.is_empty() && now.is_none() {
            return Err(Error::Unknown(name.to_string()));
        }
        let watched = watched.or_else(|| steps.first().map(|step| step.time)).unwrap_or(i64::MIN);
        let horizon = self.horizon()?;
        let since = watched.max(horizon);
        let absences = absence::of(self.connection(), &of_it)?;
        let watching = absence::watching(self.connection())?;
        Ok(Life { name: name.clone(), steps, now, watched, since, horizon, absences, watching })
    }

    /// The document after the first `k` events; `None` when there was none.
    pub(super) fn document(&self, life: &Life, k: usize) -> Result<Option<Value>, Error> {
        let steps = &life.steps;
        if k == steps.len() {
            return match (&life.now, steps.last()) {
                (Some((value, _)), _) => Ok(Some(value.clone())),
                (None, None | Some(Step { what: What::Deleted, .. })) => Ok(None),
                // It is not watched any more, which is not to say that it is gone.
                (None, Some(_)) => Err(Error::Gap(life.name.to_string())),
            };
        }
        // A creation that came right after a deletion may be forgotten.
        let deleted = |last: &usize| steps[*last].what == What::Deleted && life.has_all_from(*last);
        if k.checked_sub(1).as_ref().is_some_and(deleted) || steps[k].what == What::Created {
            return Ok(None);
        }
        let end = (k..steps.len()).find(|i| steps[*i].what == What::Deleted);
        let begin = (0..k).rev().find(|i| steps[*i].what != What::Updated);
        let begin = begin.filter(|i| steps[*i].what == What::Created);
        let back = end.map_or(steps.len() - k, |end| end - k);
        // What happened before it was watched without a gap does not chain with what came after, nor do events between
        // which one was forgotten.
        let whole = steps.get(k).is_some_and(|next| next.time >= life.watched && life.has_all_from(k))
            || end.is_some_and(|end| steps[end].time < life.watched && life.has_all_from(k));
        let begin = begin.filter(|begin| life.has_all_from(*begin));
        match begin {
            Some(begin) if !whole || k - begin <= back => self.forwards(life, begin, k).map(Some),
            _ if whole => self.backwards(life, k, end).map(Some),
            _ => Err(Error::Gap(life.name.to_string())),
        }
    }

    fn forwards(&self, life: &Life, begin: usize, k: usize) -> Result<Value, Error> {
        let gap = || Error::Gap(life.name.to_string());
        self.bounded(life, &(begin + 1..k))?;
        let created = self.event(life.steps[begin].seq)?.ok_or_else(gap)?;
        let mut document = created.object.clone().ok_or_else(gap)?;
        for step in &life.steps[begin + 1..k] {
            let patch = self.patch(step.seq)?.ok_or_else(gap)?;
            json_patch::patch(&mut document, &patch).map_err(|_| gap())?;
        }
        Ok(document)
    }

    fn backwards(&self, life: &Life, k: usize, end: Option<usize>) -> Result<Value, Error> {
        let gap = || Error::Gap(life.name.to_string());
        let (mut document, from) = match end {
            Some(end) => {
                let deleted = self.event(life.steps[end].seq)?.ok_or_else(gap)?;
                let mut document = deleted.object.clone().ok_or_else(gap)?;
                if let Some(inverse) = self.inverse(life.steps[end].seq)? {
                    json_patch::patch(&mut document, &inverse).map_err(|_| gap())?;
                }
                (document, end)
            }
            None => (life.now.as_ref().ok_or_else(gap)?.0.clone(), life.steps.len()),
        };
        self.bounded(life, &(k..from))?;
        for step in life.steps[k..from].iter().rev() {
            let inverse = self.inverse(step.seq)?.ok_or_else(gap)?;
            json_patch::patch(&mut document, &inverse).map_err(|_| gap())?;
        }
        Ok(document)
    }

    /// Nobody waits for what takes minutes.
    fn bounded(&self, life: &Life, steps: &Range<usize>) -> Result<(), Error> {
        match (steps.len(), self.most_played) {
            (changes, most) if changes > most => Err(Error::TooLong { name: life.name.to_string(), changes, most }),
            _ => Ok(()),
        }
    }

    /// The patch from the document before an event to the one after it, where there is one.
    fn patch(&self, seq: i64) -> Result<Option<json_patch::Patch>, Error> {
        #[derive(Deserialize)]
        struct Patched {
            patch: Option<json_patch::Patch>,
        }
        let event: Option<(usize, Patched)> = ledger::rows::read(self.connection(), seq)?;
        Ok(event.and_then(|(_, event)| event.patch))
    }

    /// The patch from the document after an event to the one before it, where there is one.
    pub fn inverse(&self, seq: i64) -> Result<Option<json_patch::Patch>, Error> {
        let frame: Option<Option<Vec<u8>>> = self
            .connection()
            .prepare_cached("SELECT inverse FROM events WHERE seq = ?1")?
            .query_row([seq], |row| row.get(0))
            .optional()?;
        let Some(frame) = frame.flatten() else { return Ok(None) };
        let json = decompress(&frame)?;
        Ok(serde_json::from_slice(&json).ok())
    }

    /// The cursor from which a page of an object's events begins with the one that made it what it was: with the newest
    /// first, that one and older ones; with the oldest first, those after it.
    pub fn cursor_at(&mut self, name: &Name, when: When, order: Order) -> Result<Option<i64>, Error> {
        let life = self.at_once(|history| history.life(name))?;
        let at = match when {
            When::Now => return Ok(None),
            // Also of times of which it is not known what it was: that it changed then is.
            When::At(at) => life.steps.iter().rposition(|step| step.time <= at.as_millisecond()),
            When::After(seq) => {
                let at = life.steps.iter().position(|step| step.seq == seq);
                Some(at.ok_or_else(|| Error::Unknown(format!("this event of {name}")))?)
            }
        };
        let seq = at.map_or(i64::MIN, |at| life.steps[at].seq);
        Ok(Some(if order == Order::Desc { seq.saturating_add(1) } else { seq }))
    }

    /// The numbers of an object's events after a cursor, and the next cursor.
    pub fn of_object(
        &mut self,
        name: &Name,
        order: Order,
        cursor: Option<i64>,
        limit: usize,
    ) -> Result<super::Page, Error> {
        let (sign, direction, cursor) = match order {
            Order::Desc => ("<", "DESC", cursor.unwrap_or(i64::MAX)),
            Order::Asc => (">", "ASC", cursor.unwrap_or(i64::MIN)),
        };
        let wanted = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let _moment = self.connection().unchecked_transaction()?;
        let mut seqs: Vec<i64> = self
            .connection()
            .prepare_cached(&format!(
                "SELECT seq FROM events INDEXED BY events_by_object
                 WHERE api_group = ?1 AND resource = ?2 AND namespace = ?3 AND name = ?4 AND seq {sign} ?5
                 ORDER BY seq {direction} LIMIT ?6"
            ))?
            .query_map(params![name.group, name.resource, name.namespace, name.name, cursor, wanted], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let more = seqs.len() > limit;
        seqs.truncate(limit);
        let next = seqs.last().copied().filter(|_| more);
        let rows = seqs.into_iter().filter_map(|seq| self.row_now(seq).transpose()).collect::<Result<_, _>>()?;
        Ok(super::Page { rows, next })
    }
}

impl Life {
    /// How many of its events had happened; all of them by now.
    pub(super) fn up_to(&self, when: When) -> Result<usize, Error> {
        match when {
            When::Now => Ok(self.steps.len()),
            When::At(at) if at.as_millisecond() < self.since => Err(Error::NotKept { since: timestamp(self.since) }),
            When::At(at) => {
                let at = at.as_millisecond();
                Ok(self.steps.iter().rposition(|step| step.time <= at).map_or(0, |last| last + 1))
            }
            When::After(seq) => {
                let at = self.steps.iter().position(|step| step.seq == seq);
                let at = at.ok_or_else(|| Error::Unknown(format!("this event of {}", self.name)))?;
                // What came right after it may be forgotten.
                if self.has_all_from(at) { Ok(at + 1) } else { Err(Error::Gap(self.name.to_string())) }
            }
        }
    }

    /// Whether no event is missing from one of them on.
    pub(super) fn has_all_from(&self, at: usize) -> bool {
        self.steps.get(at).is_none_or(|step| step.time > self.horizon)
    }
}

/// The name of the object of an event.
pub fn name_of(event: &Event) -> Name {
    let r = &event.resource;
    Name { group: r.group.clone(), resource: r.resource.clone(), namespace: r.namespace.clone(), name: r.name.clone() }
}
