//! A change in the store becomes an event and its deliveries, in the store's own transaction.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use serde_json::Value;

use super::{Around, Shared, rows, worker::Wake};
use crate::{
    cluster::{
        Feed, Resource,
        reflector::Closed,
        store::{Delta, Journal, Seen, Store, Within},
    },
    diff::{self, Keys},
    event::{self, Event, Found, Kind, Observed, Owners, State, What},
    redact::{Document, Owner, Part},
};

/// The journal of the ledger. It keeps nothing that a commit did not confirm.
pub struct Recorder {
    shared: Arc<Shared>,
    builder: event::Builder,
    encoder: rows::Encoder,
    staged: Staged,
}

/// What a transaction wrote, until it is known whether it holds.
#[derive(Default)]
struct Staged {
    events: Vec<(i64, usize, Arc<Event>)>,
    wake: Vec<Arc<Wake>>,
    suppressed: u64,
    /// Why events go to no sink.
    dropped: Vec<String>,
    /// Routes that could not answer, and why.
    failures: Vec<(Arc<str>, String)>,
}

impl Recorder {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let builder = event::Builder::new(shared.cluster.clone());
        Self { shared, builder, encoder: rows::Encoder::new(), staged: Staged::default() }
    }
}

impl Journal for Recorder {
    fn record(
        &mut self,
        within: &mut Within<'_>,
        feed: &Feed,
        delta: &Delta,
        seen: Seen,
    ) -> Result<(), rusqlite::Error> {
        let observed = match seen {
            Seen::Live => Observed::Live,
            Seen::Late => Observed::Late,
            Seen::Audit => Observed::Audit,
            // It was there before anyone looked: no news.
            Seen::Initial => return Ok(()),
        };
        let plan = self.shared.plan();
        let time = jiff::Timestamp::now();
        let transaction = within.transaction;
        let owners = Lookup { within: RefCell::new(within), failed: RefCell::new(None) };
        let build = |what: What<'_>| self.builder.build(&feed.resource, observed, time, what, &owners);
        let (event, inverse) = match delta {
            Delta::Added(document) => {
                let value = document.value();
                (build(What::Created { new: state(document, &value) }), None)
            }
            Delta::Deleted { last, .. } => {
                let value = last.value();
                (build(What::Deleted { old: state(last, &value), version: &last.meta().version }), None)
            }
            Delta::Updated { old, new } => {
                let (before, after) = sections(&feed.resource, old, new);
                let keys = plan.keys.as_ref().map_or_else(|| Arc::new(Keys::default()), |keys| keys(&feed.resource));
                let mut found = diff::diff(&before, &after, &keys);
                if found.patch.0.is_empty() {
                    self.staged.suppressed += 1;
                    return Ok(());
                }
                let inverse = std::mem::take(&mut found.inverse);
                let what = What::Updated { old: state(old, &before), new: state(new, &after), diff: found };
                (build(what), Some(inverse))
            }
        };
        let Lookup { within, failed } = owners;
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        let around = match plan.route {
            Some(_) => around(within.into_inner(), delta.object())?,
            None => Around::default(),
        };
        self.staged.insert(&mut self.encoder, &plan, transaction, Arc::new(event), inverse.as_ref(), &around)
    }

    fn settled(&mut self, committed: bool) {
        let Staged { events, wake, suppressed, dropped, failures } = std::mem::take(&mut self.staged);
        if !committed {
            self.shared.counts.rolled_back.fetch_add(1, Relaxed);
            return;
        }
        self.shared.counts.suppressed.fetch_add(suppressed, Relaxed);
        dropped.iter().for_each(|reason| self.shared.counts.drop_for(reason));
        for (route, why) in failures {
            if self.shared.counts.route_failed(&route) {
                tracing::warn!(%route, why, "a route could not answer for an event, and did not take it");
            }
        }
        self.shared.publish(events, &wake);
    }
}

impl Staged {
    fn insert(
        &mut self,
        encoder: &mut rows::Encoder,
        plan: &super::Plan,
        transaction: &rusqlite::Transaction<'_>,
        event: Arc<Event>,
        inverse: Option<&json_patch::Patch>,
        around: &Around,
    ) -> Result<(), rusqlite::Error> {
        let (seq, bytes) = encoder.insert(transaction, &event, inverse)?;
        let object = rows::object_key(&event);
        let mut deliver = |slot: &super::Slot| {
            if !self.wake.iter().any(|wake| Arc::ptr_eq(wake, &slot.wake)) {
                self.wake.push(slot.wake.clone());
            }
            rows::insert_delivery(transaction, slot.id, seq, object)
        };
        match &plan.route {
            None => plan.sinks.values().try_for_each(&mut deliver)?,
            Some(route) => {
                let mut decision = route(&event, around);
                decision.sinks.sort();
                decision.sinks.dedup();
                decision.sinks.iter().filter_map(|name| plan.sinks.get(name)).try_for_each(&mut deliver)?;
                self.dropped.extend(decision.dropped.map(|dropped| dropped.reason().to_owned()));
                self.failures.extend(decision.failures.into_iter().map(|(route, why)| (route, why.to_string())));
            }
        }
        self.events.push((seq, bytes, event));
        Ok(())
    }
}

impl Shared {
    /// Tells of events that are committed.
    fn publish(&self, events: Vec<(i64, usize, Arc<Event>)>, wake: &[Arc<Wake>]) {
        for (_, _, event) in &events {
            let count = match event.kind {
                Kind::Created => &self.counts.created,
                Kind::Updated => &self.counts.updated,
                Kind::Deleted => &self.counts.deleted,
            };
            count.fetch_add(1, Relaxed);
        }
        let newest = events.iter().map(|(seq, ..)| *seq).max();
        self.recent.push(events);
        if let Some(newest) = newest {
            self.newest.send_if_modified(|seq| std::mem::replace(seq, newest.max(*seq)) < newest);
        }
        wake.iter().for_each(|wake| wake.up());
    }
}

/// Records an event that did not come from the store.
pub(super) async fn append(shared: &Arc<Shared>, store: &Store, event: Arc<Event>) -> Result<(), Closed> {
    let plan = shared.plan();
    let (done, result) = std::sync::mpsc::channel();
    store
        .write(Box::new(move |transaction| {
            let mut staged = Staged::default();
            let around = Around::default();
            staged.insert(&mut rows::Encoder::new(), &plan, transaction, event.clone(), None, &around)?;
            let _ = done.send(staged);
            Ok(())
        }))
        .await?;
    // The last one is the one that was committed. It is told of out of turn, so it is not kept among the recent ones.
    if let Some(staged) = result.into_iter().last() {
        let newest = staged.events.first().map_or(0, |(seq, ..)| *seq);
        shared.newest.send_if_modified(|seq| std::mem::replace(seq, newest.max(*seq)) < newest);
        staged.wake.iter().for_each(|wake| wake.up());
    }
    Ok(())
}

fn state<'a>(document: &'a Document, value: &'a Value) -> State<'a> {
    State { meta: document.meta(), document: value, managed_fields: document.managed_fields() }
}

/// What the object and its namespace say of themselves.
fn around(within: &mut Within<'_>, object: &Document) -> Result<Around, rusqlite::Error> {
    let own = Said::read(&object.section(Part::Metadata).json);
    let namespace = match object.meta().namespace.as_str() {
        "" => None,
        namespace => within.find_metadata("", "Namespace", "", namespace)?,
    };
    let namespace = namespace.map_or_else(Said::default, |json| Said::read(&json));
    Ok(Around {
        annotations: own.annotations,
        namespace_labels: namespace.labels,
        namespace_annotations: namespace.annotations,
    })
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Said {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Said {
    /// What is no map of texts says nothing.
    fn read(metadata: &[u8]) -> Self {
        serde_json::from_slice(metadata).unwrap_or_default()
    }
}

/// Both documents with only the sections that differ. How a rollout goes can be told only by what was asked for.
fn sections(resource: &Resource, old: &Document, new: &Document) -> (Value, Value) {
    let differ = |part: &Part| old.section(*part).hash != new.section(*part).hash;
    let mut parts: Vec<Part> = Part::ALL.into_iter().filter(differ).collect();
    if parts.contains(&Part::Status) && !parts.contains(&Part::Body) && resource.group == "apps" {
        parts.push(Part::Body);
    }
    (old.partial(&parts), new.partial(&parts))
}

/// Owners, from the objects that the store holds within this transaction.
struct Lookup<'a, 'b> {
    within: RefCell<&'a mut Within<'b>>,
    failed: RefCell<Option<rusqlite::Error>>,
}

impl Owners for Lookup<'_, '_> {
    fn find(&self, namespace: &str, owner: &Owner) -> Option<Found> {
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let mut within = self.within.borrow_mut();
        let mut find = |namespace: &str| within.find(group, &owner.kind, namespace, &owner.name);
        let found = find(namespace).and_then(|found| match found {
            // An owner without a namespace may own objects in one.
            None if !namespace.is_empty() => find(""),
            found => Ok(found),
        });
        match found {
            Ok(found) => found.filter(|meta| meta.uid == owner.uid || owner.uid.is_empty()).map(|meta| (&meta).into()),
            Err(error) => {
                *self.failed.borrow_mut() = Some(error);
                None
            }
        }
    }
}
