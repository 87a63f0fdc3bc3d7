//! What the received events come to, replayed in the order of their arrival, and what of it should not be.
//!
//! Of one kubediff every event follows from the last one of its object, whatever was done to it. Of two replicas a new
//! leader may tell again what the one before it had told last: with the same ids; or, where one of the two was away for
//! longer than the server keeps history and tells in sum what the other tells one by one, in other events (decision 7).
//! Those in sum say that they are late, have the id of the last version that they sum up, and come to the same document.
//! And of an object that one of them never saw, because it was away for all of its life, the other tells the end when it
//! leads again: the next object of that name may be told of before. Nothing else.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use super::{
    schedule::Kind,
    work::{Committed, GROUP},
};
use crate::harness::{Answer, Received, Receiver};

/// An object as the events tell of it.
#[derive(Clone, Debug)]
struct Known {
    uid: String,
    version: u64,
    document: Value,
}

/// How an event came, for the search for gaps.
#[derive(Clone, Copy, Debug)]
struct Told {
    version: u64,
    live: bool,
    deleted: bool,
}

/// What an id said when it came first; of what was told in sum and also as the watch told it, the latter.
#[derive(Clone, Copy, Debug)]
struct Said {
    digest: u64,
    live: bool,
}

/// What the received events come to.
#[derive(Default)]
pub struct Replay {
    /// Requests that are taken in.
    read: usize,
    objects: BTreeMap<String, Known>,
    /// By id: the same one never says two things.
    seen: HashMap<String, Said>,
    told: BTreeMap<String, Vec<Told>>,
    /// By uid, objects in whose place another of the same name was told of: their ends have to be told yet.
    succeeded: BTreeMap<String, Known>,
    /// The documents of each object by version: what is told in sum begins at an old one.
    past: HashMap<String, BTreeMap<u64, Value>>,
    pub events: u64,
    pub duplicates: u64,
    pub late: u64,
    /// Of those, the ones of kinds that the server always has.
    pub late_builtin: u64,
    /// What one replica had told and another told again in sum.
    pub summaries: u64,
    /// Events whose time is far from when they came.
    pub off_clock: u64,
    /// The configuration names namespaces: of what is in none nothing should be told.
    namespaced_only: bool,
    /// Two replicas.
    pair: bool,
    /// What should not be.
    pub wrong: Vec<String>,
}

fn number(version: &Value) -> u64 {
    version.as_str().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Whether the workload made it: what others make was there before kubediff, or is none of our business.
pub fn ours(resource: &str, group: &str, namespace: &str, name: &str) -> bool {
    match (group, resource) {
        ("", "namespaces") => name.starts_with("chaos-"),
        ("apiextensions.k8s.io", "customresourcedefinitions") => name.ends_with(GROUP),
        _ => namespace.starts_with("chaos-"),
    }
}

impl Replay {
    pub fn new(namespaced_only: bool, pair: bool) -> Self {
        Self { namespaced_only, pair, ..Self::default() }
    }

    /// Takes in what came since the last call.
    pub fn read(&mut self, receiver: &Receiver) {
        let received = receiver.received();
        let from = std::mem::replace(&mut self.read, received.len());
        for request in &received[from..] {
            // A 200 whose body was cut may have been taken for an answer: then it is not sent again.
            if !request.accepted() && !matches!(request.answer, Answer::CutInBody) {
                continue;
            }
            let body = request.json();
            let events = body.as_array().cloned().unwrap_or_else(|| vec![body]);
            for event in events {
                self.off_clock += u64::from(is_off(&event, request));
                self.take(&event);
            }
        }
    }

    /// What has to be the same whenever an id comes again. Replicas see the same change at different times, and may
    /// know different things of what is around it; one of them may tell it in sum.
    fn digest(&self, event: &Value) -> u64 {
        let text = if self.pair {
            let resource = &event["resource"];
            if event["type"] == "deleted" {
                // One may have seen the last version of it, and the other that its resource is gone.
                json!([event["type"], resource["uid"]]).to_string()
            } else {
                let change = if event["observed"] == "live" { &event["patch"] } else { &Value::Null };
                json!([event["type"], resource["uid"], resource["resourceVersion"], change]).to_string()
            }
        } else {
            event.to_string()
        };
        xxhash_rust::xxh3::xxh3_64(text.as_bytes())
    }

    fn take(&mut self, event: &Value) {
        let id = event["id"].as_str().unwrap_or_default().to_owned();
        let said = Said { digest: self.digest(event), live: event["observed"] == "live" };
        match self.seen.get(&id).copied() {
            Some(before) if before.digest == said.digest => {
                self.duplicates += 1;
                return;
            }
            // The same version as the watch told it and in sum, whichever came first.
            Some(before) if self.pair && !(before.live && said.live) => {
                self.duplicates += 1;
                if said.live {
                    self.seen.insert(id, said);
                }
                self.compare(event);
                return;
            }
            Some(_) if self.is_back(event) => {}
            Some(_) => self.wrong.push(format!("an id came again with another content: {event}")),
            None => drop(self.seen.insert(id, said)),
        }
        let resource = &event["resource"];
        let text = |field: &str| resource[field].as_str().unwrap_or_default().to_owned();
        let (group, plural, namespace, name) = (text("group"), text("resource"), text("namespace"), text("name"));
        if !ours(&plural, &group, &namespace, &name) {
            return;
        }
        if self.namespaced_only && namespace.is_empty() {
            self.wrong.push(format!("nobody asked for it: {event}"));
            return;
        }
        self.events += 1;
        let live = event["observed"] == "live";
        self.late += u64::from(!live);
        self.late_builtin += u64::from(!live && group != GROUP);
        let version = number(&resource["resourceVersion"]);
        let deleted = event["type"] == "deleted";
        let (key, uid) = (key(&group, &plural, &namespace, &name), text("uid"));
        // Of what is gone one of them may have seen more than the other, which found the end with that of its resource.
        let gone = self.told.get(&uid).is_some_and(|told| told.iter().any(|event| event.deleted));
        if self.pair && gone && !deleted {
            if live && group != GROUP && !self.told_otherwise(&uid, false) {
                self.wrong.push(format!("{key}: told after its end: {event}"));
            }
            self.tell_again(&key, &uid, version, event);
            self.told.entry(uid).or_default().push(Told { version, live, deleted });
            return;
        }
        match self.apply(&key, &uid, version, event) {
            Ok(()) => {}
            // What it sums up was told before by the other replica, or is part of what that had told in sum.
            Err(_) if self.pair && (!live || self.told_otherwise(&uid, deleted)) && self.told.contains_key(&uid) => {
                self.tell_again(&key, &uid, version, event);
            }
            Err(why) => self.wrong.push(format!("{key}: {why}: {event}")),
        }
        self.told.entry(uid).or_default().push(Told { version, live, deleted });
    }

    /// A custom resource that is made while its CRD goes can outlive it in the API server's own store, and is there again, as it
    /// was, when the CRD is made anew: its creation is told a second time, and found by a list.
    fn is_back(&self, event: &Value) -> bool {
        let resource = &event["resource"];
        let told = self.told.get(resource["uid"].as_str().unwrap_or_default());
        let ended = told.and_then(|told| told.last()).is_some_and(|last| last.deleted);
        ended && resource["group"] == GROUP && event["type"] == "created" && event["observed"] == "late"
    }

    fn apply(&mut self, key: &str, uid: &str, version: u64, event: &Value) -> Result<(), String> {
        let known = self.objects.get_mut(key);
        match (event["type"].as_str().unwrap_or_default(), known) {
            ("created", None) => {
                self.put(key, uid, version, event["object"].clone());
                Ok(())
            }
            ("created", Some(known)) if self.pair && known.uid != uid && !self.told.contains_key(uid) => {
                self.succeeded.insert(known.uid.clone(), known.clone());
                self.put(key, uid, version, event["object"].clone());
                Ok(())
            }
            ("created", Some(known)) => Err(format!("created though {} at {} is there", known.uid, known.version)),
            ("deleted", _) if self.succeeded.remove(uid).is_some() => Ok(()),
            (kind, None) => Err(format!("{kind} though it is not there")),
            (kind, Some(known)) if known.uid != uid => Err(format!("{kind}, and {} is there", known.uid)),
            ("updated", Some(known)) => {
                let before = number(&event["resource"]["previousResourceVersion"]);
                // Kinds with noise have versions of which nothing is told.
                let quiet = ["/configmaps/", "/secrets/", GROUP].iter().any(|part| key.contains(part));
                if version <= known.version || before < known.version || (quiet && before != known.version) {
                    return Err(format!("out of order or with a gap: {} was told last", known.version));
                }
                let document = patched(&known.document, event)?;
                self.put(key, uid, version, document);
                Ok(())
            }
            ("deleted", Some(_)) => {
                self.objects.remove(key);
                Ok(())
            }
            (other, _) => Err(format!("an event of type {other:?}")),
        }
    }

    /// In sum, or that it was deleted.
    fn told_otherwise(&self, uid: &str, deleted: bool) -> bool {
        self.told.get(uid).is_some_and(|told| told.iter().any(|event| !event.live || (deleted && event.deleted)))
    }

    /// What one replica tells in sum and the other one by one, once more.
    fn tell_again(&mut self, key: &str, uid: &str, version: u64, event: &Value) {
        self.summaries += 1;
        let newer = self.objects.get(key).is_some_and(|known| known.uid == uid && known.version < version);
        let document = match event["type"].as_str().unwrap_or_default() {
            "created" => Ok(event["object"].clone()),
            "updated" => {
                let before = number(&event["resource"]["previousResourceVersion"]);
                let past = self.past.get(uid).and_then(|past| past.range(..=before).next_back());
                past.ok_or_else(|| format!("nothing is known of {before}")).and_then(|(_, past)| patched(past, event))
            }
            _ => return,
        };
        match document {
            Ok(document) if newer => self.put(key, uid, version, document),
            // Older than what was told, or gone: what is told next may begin there.
            Ok(document) => drop(self.past.entry(uid.to_owned()).or_default().entry(version).or_insert(document)),
            Err(why) if newer => self.wrong.push(format!("{key}: {why}: {event}")),
            Err(_) => {}
        }
    }

    /// The same version told in another way comes to the same document, where its beginning is known.
    fn compare(&mut self, event: &Value) {
        let (resource, kind) = (&event["resource"], event["type"].as_str().unwrap_or_default());
        let Some(past) = self.past.get(resource["uid"].as_str().unwrap_or_default()) else { return };
        let Some(told) = past.get(&number(&resource["resourceVersion"])).filter(|_| kind != "deleted") else { return };
        let other = match kind {
            "created" => Some(Ok(event["object"].clone())),
            _ => past.get(&number(&resource["previousResourceVersion"])).map(|before| patched(before, event)),
        };
        match other {
            Some(Ok(other)) if other != *told => {
                self.wrong.push(format!("the same version came to another document: {told}, and by {event}"));
            }
            Some(Err(why)) => self.wrong.push(format!("{why}: {event}")),
            _ => {}
        }
    }

    fn put(&mut self, key: &str, uid: &str, version: u64, document: Value) {
        if self.pair {
            self.past.entry(uid.to_owned()).or_default().insert(version, document.clone());
        }
        self.objects.insert(key.to_owned(), Known { uid: uid.to_owned(), version, document });
    }

    /// How the replayed state differs from that of a fresh list.
    pub fn differences(&self, fresh: &BTreeMap<String, Value>) -> Vec<String> {
        let names: BTreeSet<&String> = self.objects.keys().chain(fresh.keys()).collect();
        let mut differ: Vec<String> =
            self.succeeded.values().map(|known| format!("it is gone, and no event said so: {known:?}")).collect();
        for name in names {
            match (self.objects.get(name).map(|known| &known.document), fresh.get(name)) {
                (Some(told), Some(is)) if told == is => {}
                (Some(told), Some(is)) => differ.push(format!("{name} is told to be {told} and is {is}")),
                (Some(told), None) => differ.push(format!("{name} is gone, and no event said so: {told}")),
                (None, Some(is)) => differ.push(format!("{name} is there, and no event said so: {is}")),
                (None, None) => {}
            }
        }
        differ
    }

    /// Writes of which nothing was told, though nothing kept them from being seen one by one. After an absence a list
    /// shows only what became of an object: that event is marked as late.
    pub fn gaps(&self, committed: &Committed) -> Vec<String> {
        let mut gaps = Vec::new();
        for (uid, (kind, versions)) in committed {
            let Some(told) = self.told.get(uid) else { continue };
            for version in versions {
                if told.iter().any(|event| event.version == *version) {
                    continue;
                }
                let covered = match told.iter().filter(|event| event.version > *version).min_by_key(|e| e.version) {
                    Some(next) => !next.live,
                    // It vanished with its resource or namespace, or a list did not name it any more.
                    None => told.last().is_some_and(|event| event.deleted),
                };
                if !covered {
                    gaps.push(format!("{kind:?} {uid}: its version {version} was never told; told: {told:?}"));
                }
            }
        }
        gaps
    }

    /// Objects that the server made and of which nothing was ever told: those that came and went in an absence.
    pub fn unseen(&self, committed: &Committed) -> usize {
        let custom = |kind: Kind| kind >= Kind::Widget;
        committed.iter().filter(|(uid, (kind, _))| !custom(*kind) && !self.told.contains_key(*uid)).count()
    }
}

fn patched(document: &Value, event: &Value) -> Result<Value, String> {
    let patch: json_patch::Patch =
        serde_json::from_value(event["patch"].clone()).map_err(|e| format!("no patch: {e}"))?;
    let mut document = document.clone();
    json_patch::patch(&mut document, &patch).map_err(|e| format!("it does not apply: {e}"))?;
    Ok(document)
}

/// Whether the clock of whoever sent it was minutes off when it saw the change. What waits for long is off by itself.
fn is_off(event: &Value, request: &Received) -> bool {
    let seen = event["time"].as_str().and_then(|time| time.parse::<jiff::Timestamp>().ok());
    let came = jiff::Timestamp::try_from(request.time).ok();
    seen.zip(came).is_some_and(|(seen, came)| seen.duration_since(came).abs() > jiff::SignedDuration::from_mins(10))
}

pub fn key(group: &str, plural: &str, namespace: &str, name: &str) -> String {
    format!("{group}/{plural}/{namespace}/{name}")
}
