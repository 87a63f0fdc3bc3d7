//! A change in the store becomes an event and its deliveries, in the store's own transaction.

use std::{
    cell::RefCell,
    collections::HashMap,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use super::{
    Around, Shared,
    count::{Changes, Counts},
    mark,
    namespaces::{self, Said},
    rows,
    seat::Wake,
};
use crate::{
    cluster::{
        Feed, Resource, Version,
        reflector::Closed,
        store::{Delta, Journal, Seen, Sighted, Store, Within},
    },
    diff::{self, Keys},
    event::{self, Found, Observed, Owners, Redacted, State, What},
    redact::{Contents, Document, Owner, Part},
    route,
};

/// The journal of the ledger. It keeps nothing that a commit did not confirm, but for what it read of other objects in
/// states that are named with it.
pub struct Recorder {
    shared: Arc<Shared>,
    builder: event::Builder,
    encoder: rows::Encoder,
    owners: KnownOwners,
    namespaces: Cache<Arc<Said>>,
    counters: Counters,
    staged: Staged,
}

/// The counters of resources by the address of what discovery found, so that no text is compared for an event. It holds
/// what it knows the address of: another resource cannot come to lie there.
#[derive(Default)]
struct Counters(HashMap<usize, (Arc<Resource>, Arc<Changes>)>);

impl Counters {
    /// Beyond that the resources of earlier discoveries are forgotten.
    const MOST: usize = 4096;

    fn of(&mut self, resource: &Arc<Resource>, counts: &Counts) -> Arc<Changes> {
        if self.0.len() > Self::MOST {
            self.0.clear();
        }
        let (_, changes) = self
            .0
            .entry(Arc::as_ptr(resource) as usize)
            .or_insert_with(|| (resource.clone(), counts.changes_of(resource.group_resource())));
        changes.clone()
    }
}

/// What a transaction wrote, until it is known whether it holds.
#[derive(Default)]
struct Staged {
    events: Vec<(i64, usize, Arc<Redacted>)>,
    /// Where each of them is counted.
    changes: Vec<Arc<Changes>>,
    wake: Vec<Arc<Wake>>,
    suppressed: u64,
    /// Why events go to no sink.
    dropped: Vec<String>,
    /// Sinks that did not get one, and the silence that kept it from them.
    silenced: Vec<(Arc<str>, Arc<str>)>,
    /// Routes that could not answer, and why.
    failures: Vec<(Arc<str>, String)>,
    /// Names in annotations that no sink has.
    unknown_sinks: Vec<String>,
}

/// What metrics call silences that people made: there is no end to those.
const AT_RUN_TIME: &str = "api";

/// What becomes a row.
struct Recorded {
    event: Arc<Redacted>,
    inverse: Option<diff::RedactedPatch>,
    place: Option<mark::Place>,
}

impl Recorder {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let builder = event::Builder::new(shared.cluster.clone());
        Self {
            shared,
            builder,
            encoder: rows::Encoder::new(),
            owners: Cache::default(),
            namespaces: Cache::default(),
            counters: Counters::default(),
            staged: Staged::default(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

/// With their uids.
type KnownOwners = Cache<Option<(String, Found)>>;

/// What was read of objects, each in one state of it. Emptied when it is full: what is asked for again is read again.
struct Cache<T>(HashMap<Sighted, T>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Clone> Cache<T> {
    const FULL: usize = 512;

    fn get(
        &mut self,
        sighted: Sighted,
        read: impl FnOnce() -> Result<T, rusqlite::Error>,
    ) -> Result<T, rusqlite::Error> {
        if let Some(known) = self.0.get(&sighted) {
            return Ok(known.clone());
        }
        let value = read()?;
        if self.0.len() >= Self::FULL {
            self.0.clear();
        }
        self.0.insert(sighted, value.clone());
        Ok(value)
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
        if namespaces::is_theirs(&feed.resource) {
            self.shared.namespaces.changed(delta);
        }
        if feed.unasked {
            return Ok(());
        }
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
        let place = within.span.map(|span| mark::Place::new(&feed.key(), span));
        let owners = Lookup { within: RefCell::new((within, &mut self.owners)), failed: RefCell::new(None) };
        let build = |what: What<'_>| self.builder.build(&feed.resource, observed, time, what, &owners);
        let keys = || plan.keys.as_ref().map_or_else(|| Arc::new(Keys::default()), |keys| keys(&feed.resource));
        let (event, inverse) = match delta {
            Delta::Added(document) => {
                (build(What::Created { new: State { document, contents: &document.contents() } }), None)
            }
            Delta::Deleted { last, stored, .. } => {
                let contents = last.contents();
                let inverse = stored.as_ref().map(|stored| diff::documents(&contents, &stored.contents(), &keys()));
                let old = State { document: last, contents: &contents };
                let event = build(What::Deleted { old, version: &last.meta().version });
                (event, inverse.map(diff::Redacted::into_patch))
            }
            Delta::Updated { old, new } => {
                let (before, after, mut found) = compare(&feed.resource, old, new, &keys());
                if found.patch.0.is_empty() {
                    self.staged.suppressed += 1;
                    return Ok(());
                }
                let inverse = found.take_inverse();
                let old = State { document: old, contents: &before };
                let new = State { document: new, contents: &after };
                (build(What::Updated { old, new, diff: found }), Some(inverse))
            }
        };
        let Lookup { within, failed } = owners;
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        let silences = self.shared.silences();
        let around = match plan.route.is_some() || !silences.is_empty() {
            true => {
                let mut place = Place { shared: &self.shared, cache: &mut self.namespaces };
                Around { silences, ..place.around(within.into_inner().0, &feed.resource, delta.object())? }
            }
            false => Around::default(),
        };
        self.staged.changes.push(self.counters.of(&feed.resource, &self.shared.counts));
        let event = Recorded { event: Arc::new(event), inverse, place };
        self.staged.insert(&mut self.encoder, &plan, transaction, event, &around)
    }

    fn overlooked(&mut self, feed: &Feed, cursor: &Version) -> bool {
        let told = self.shared.plan().told.as_ref().and_then(|mark| mark.up_to(&feed.key()));
        match (told, cursor.as_str().parse::<i64>()) {
            (Some(up_to), Ok(cursor)) => up_to > cursor,
            // Nobody was heard of: a standby does not know what its leader has told.
            _ => !self.shared.lead.holds(),
        }
    }

    fn settled(&mut self, committed: bool) {
        let staged = std::mem::take(&mut self.staged);
        if !committed {
            self.shared.counts.rolled_back.fetch_add(1, Relaxed);
            return;
        }
        staged.count(&self.shared.counts);
        for ((_, _, event), changes) in staged.events.iter().zip(&staged.changes) {
            changes.add(event.kind);
        }
        self.shared.publish(staged.events, &staged.wake);
    }
}

impl Staged {
    /// What is not sent is counted, with its reason.
    fn count(&self, counts: &Counts) {
        counts.suppressed.fetch_add(self.suppressed, Relaxed);
        self.dropped.iter().for_each(|reason| counts.drop_for(reason));
        self.silenced.iter().for_each(|(sink, silence)| counts.silence(sink.clone(), silence.clone()));
        for (route, why) in &self.failures {
            if counts.route_failed(route) {
                tracing::warn!(%route, why, "a route could not answer for an event, and did not take it");
            }
        }
        for name in &self.unknown_sinks {
            if counts.unknown_sinks.fetch_add(1, Relaxed) == 0 {
                tracing::warn!(sink = name, "an annotation {} names a sink that there is none of", crate::route::SINKS);
            }
        }
    }
}

impl Staged {
    fn insert(
        &mut self,
        encoder: &mut rows::Encoder,
        plan: &super::Plan,
        transaction: &rusqlite::Transaction<'_>,
        recorded: Recorded,
        around: &Around,
    ) -> Result<(), rusqlite::Error> {
        let Recorded { event, inverse, place } = recorded;
        let (seq, bytes) = encoder.insert(transaction, &event, inverse.as_ref())?;
        let object = rows::object_key(&event);
        let told = |name: &str| {
            let (Some(mark), Some(place)) = (&plan.told, place) else { return false };
            mark.covers(name, object, place)
        };
        let mut deliver = |(name, slot): (&Arc<str>, &super::Slot)| {
            if told(name) {
                return Ok(());
            }
            if !self.wake.iter().any(|wake| Arc::ptr_eq(wake, &slot.wake)) {
                self.wake.push(slot.wake.clone());
            }
            rows::insert_delivery(transaction, slot.id, seq, object, place)
        };
        match &plan.route {
            None => {
                let context = around.context(event.time);
                for (name, slot) in &plan.sinks {
                    match route::silenced(&event, &context, name) {
                        Some(_) => self.silenced.push((name.clone(), AT_RUN_TIME.into())),
                        None => deliver((name, slot))?,
                    }
                }
            }
            Some(route) => {
                let mut decision = route(&event, around);
                decision.sinks.sort();
                decision.sinks.dedup();
                decision.sinks.iter().filter_map(|name| plan.sinks.get_key_value(name)).try_for_each(&mut deliver)?;
                self.dropped.extend(decision.dropped.map(|dropped| dropped.reason().to_owned()));
                let made = |name: &Arc<str>| around.silences.iter().any(|silence| silence.name() == name);
                let named = |(sink, silence)| (sink, if made(&silence) { AT_RUN_TIME.into() } else { silence });
                self.silenced.extend(decision.silenced.into_iter().map(named));
                self.failures.extend(decision.failures.into_iter().map(|(route, why)| (route, why.to_string())));
                self.unknown_sinks.extend(decision.unknown_sinks);
            }
        }
        self.events.push((seq, bytes, event));
        Ok(())
    }
}

impl Shared {
    /// Tells of events that are committed.
    fn publish(&self, events: Vec<(i64, usize, Arc<Redacted>)>, wake: &[Arc<Wake>]) {
        let newest = events.iter().map(|(seq, ..)| *seq).max();
        self.recent.push(events);
        if let Some(newest) = newest {
            self.newest.send_if_modified(|seq| std::mem::replace(seq, newest.max(*seq)) < newest);
        }
        wake.iter().for_each(|wake| wake.up());
    }
}

/// Records an event that did not come from the store.
pub(super) async fn append(shared: &Arc<Shared>, store: &Store, event: Arc<Redacted>) -> Result<(), Closed> {
    let of = shared.clone();
    let (done, result) = std::sync::mpsc::channel();
    store
        .write(Box::new(move |transaction| {
            let plan = of.plan();
            let mut staged = Staged::default();
            let around = Around { silences: of.silences(), ..Around::default() };
            let event = Recorded { event: event.clone(), inverse: None, place: None };
            staged.insert(&mut rows::Encoder::new(), &plan, transaction, event, &around)?;
            let _ = done.send(staged);
            Ok(())
        }))
        .await?;
    // The last one is the one that was committed. It is told of out of turn, so it is not kept among the recent ones.
    if let Some(staged) = result.into_iter().last() {
        let newest = staged.events.first().map_or(0, |(seq, ..)| *seq);
        shared.newest.send_if_modified(|seq| std::mem::replace(seq, newest.max(*seq)) < newest);
        staged.count(&shared.counts);
        staged.wake.iter().for_each(|wake| wake.up());
    }
    Ok(())
}

/// What is known of namespaces.
struct Place<'a> {
    shared: &'a Shared,
    cache: &'a mut Cache<Arc<Said>>,
}

impl Place<'_> {
    /// What the object and its namespace say of themselves. A Namespace is in itself.
    fn around(
        &mut self,
        within: &mut Within<'_>,
        resource: &Resource,
        object: &Document,
    ) -> Result<Around, rusqlite::Error> {
        let own = Said::of(object);
        let (labels, annotations) = if namespaces::is_theirs(resource) {
            (own.labels, own.annotations.clone())
        } else {
            let namespace = self.namespace(within, &object.meta().namespace)?;
            (namespace.labels.clone(), namespace.annotations.clone())
        };
        Ok(Around {
            annotations: own.annotations,
            namespace_labels: labels,
            namespace_annotations: annotations,
            silences: Arc::default(),
        })
    }

    fn namespace(&mut self, within: &mut Within<'_>, name: &str) -> Result<Arc<Said>, rusqlite::Error> {
        if name.is_empty() {
            return Ok(Arc::default());
        }
        let stored = match within.sight("", "Namespace", "", name) {
            None => None,
            Some(sighted) => Some(self.cache.get(sighted, || {
                let Some(meta) = within.meta(sighted, "", name)? else { return Ok(Arc::default()) };
                let json = within.metadata(sighted, "", name)?;
                Ok(Arc::new(Said::read(&json.unwrap_or_default(), meta.version)))
            })?),
        };
        let ahead = self.shared.namespaces.ahead_of(name, stored.as_deref());
        Ok(ahead.or(stored).unwrap_or_default())
    }
}

/// Both documents with only the sections that differ, and their diff. How a rollout goes can be told only by what was
/// asked for.
fn compare(resource: &Resource, old: &Document, new: &Document, keys: &Keys) -> (Contents, Contents, diff::Redacted) {
    let differ = |part: &Part| old.section(*part).hash != new.section(*part).hash;
    let mut parts: Vec<Part> = Part::ALL.into_iter().filter(differ).collect();
    if parts.contains(&Part::Status) && !parts.contains(&Part::Body) && resource.group == "apps" {
        parts.push(Part::Body);
    }
    let (before, after) = old.marked(new, &parts);
    if let Some(found) = diff::marked(&before, &after, keys) {
        return (before, after, found);
    }
    let (before, after) = (old.partial(&parts), new.partial(&parts));
    let found = diff::documents(&before, &after, keys);
    (before, after, found)
}

/// Owners, from the objects that the store holds within this transaction.
struct Lookup<'a, 'b> {
    within: RefCell<(&'a mut Within<'b>, &'a mut KnownOwners)>,
    failed: RefCell<Option<rusqlite::Error>>,
}

impl Owners for Lookup<'_, '_> {
    fn find(&self, namespace: &str, owner: &Owner) -> Option<Found> {
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let (within, cache) = &mut *self.within.borrow_mut();
        // An owner without a namespace may own objects in one.
        let (namespace, sighted) = [namespace, ""]
            .into_iter()
            .find_map(|namespace| Some((namespace, within.sight(group, &owner.kind, namespace, &owner.name)?)))?;
        let found = cache.get(sighted, || {
            let meta = within.meta(sighted, namespace, &owner.name)?;
            Ok(meta.map(|meta| (meta.uid.clone(), (&meta).into())))
        });
        match found {
            Ok(found) => found.filter(|(uid, _)| *uid == owner.uid || owner.uid.is_empty()).map(|(_, found)| found),
            Err(error) => {
                *self.failed.borrow_mut() = Some(error);
                None
            }
        }
    }
}
