//! Puts an event together from what is known of a change. Pure: the time comes in.

#[cfg(test)]
mod tests;

use std::fmt::Write;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::{
    Cluster, Event, Kind, Observed, OwnerRef, Owners, Redacted, ResourceRef, SCHEMA, actors, classes, owner,
    path::Spot, summary,
};
use crate::{
    cluster::{Resource, Version},
    diff,
    redact::{Contents, Document, Meta},
};

/// One state of an object.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    pub document: &'a Document,
    /// What the document holds. In updates, sections that did not change may be left out of both states; the sentence is
    /// then made from the ones that did.
    pub contents: &'a Contents,
}

/// What happened to an object.
#[derive(Debug)]
pub enum What<'a> {
    Created {
        new: State<'a>,
    },
    /// `diff.changes` and `diff.patch` go into the event.
    Updated {
        old: State<'a>,
        new: State<'a>,
        diff: diff::Redacted,
    },
    /// `version` is that of the deletion.
    Deleted {
        old: State<'a>,
        version: &'a Version,
    },
}

/// Makes the events of one cluster.
#[derive(Clone, Debug)]
pub struct Builder {
    pub cluster: Cluster,
}

impl Builder {
    pub fn new(cluster: Cluster) -> Self {
        Self { cluster }
    }

    /// The event of one change. The same arguments give the same event, id included.
    pub fn build(
        &self,
        resource: &Resource,
        observed: Observed,
        time: Timestamp,
        what: What<'_>,
        owners: &dyn Owners,
    ) -> Redacted {
        let (kind, meta, version, previous) = match &what {
            What::Created { new } => (Kind::Created, new.meta(), &new.meta().version, None),
            What::Updated { old, new, .. } => {
                (Kind::Updated, new.meta(), &new.meta().version, Some(&old.meta().version))
            }
            What::Deleted { old, version } => (Kind::Deleted, old.meta(), *version, Some(&old.meta().version)),
        };
        let mut event = Event {
            schema: SCHEMA.to_owned(),
            id: id(&self.cluster.uid, &meta.uid, version, kind),
            time,
            observed,
            kind,
            cluster: self.cluster.clone(),
            resource: reference(resource, meta, version, previous),
            owner: Some(owner::root(meta, owners).unwrap_or_else(|| itself(resource, meta))),
            actors: Vec::new(),
            classes: Vec::new(),
            summary: String::new(),
            changes: Vec::new(),
            patch: None,
            object: None,
        };
        match what {
            What::Created { new } => {
                event.actors = actors::of_created(new.managed_fields());
                event.classes = classes::of_kind(resource);
                event.summary = summary::of_created(resource, &meta.name, new.contents);
                event.object = Some(new.contents.clone().into_value());
            }
            What::Updated { old, new, diff } => {
                let diff = diff.into_inner();
                let spots = Spot::locate_all(&diff.changes, old.contents, new.contents);
                event.actors = actors::of_update(old.managed_fields(), new.managed_fields(), &spots);
                actors::share(&mut event.actors, old.managed_fields(), new.managed_fields(), &spots);
                event.classes = classes::of_update(resource, &spots);
                event.summary = summary::of_update(&summary::Update {
                    resource,
                    name: &meta.name,
                    old: old.contents,
                    new: new.contents,
                    spots: &spots,
                });
                drop(spots);
                event.changes = diff.changes;
                event.patch = Some(diff.patch);
            }
            What::Deleted { old, .. } => {
                event.classes = classes::of_kind(resource);
                let age = meta.created.map(|created| time.duration_since(created).as_secs());
                event.summary = summary::of_deleted(resource, &meta.name, age);
                event.object = Some(old.contents.clone().into_value());
            }
        }
        Redacted::built(event)
    }
}

impl<'a> State<'a> {
    fn meta(&self) -> &'a Meta {
        self.document.meta()
    }

    fn managed_fields(&self) -> &'a [u8] {
        self.document.managed_fields()
    }
}

/// The first 128 bits, in hex, of the SHA-256 of cluster uid, object uid and what became of it, with a zero byte between
/// them: its resourceVersion, or the word `deleted`. The same change has the same id whenever and however often it is seen,
/// also by a replica that was away meanwhile: one that finds the object by a list takes its last update for its creation,
/// and of one that is gone it knows no version.
pub fn id(cluster: &str, uid: &str, version: &Version, kind: Kind) -> String {
    let mut hash = Sha256::new();
    // An object without a uid may be deleted more than once.
    let (deleted, named) = (kind == Kind::Deleted, !uid.is_empty());
    let version = if deleted && named { "" } else { version.as_str() };
    let word = if deleted { "deleted" } else { "" };
    for part in [cluster, "\0", uid, "\0", version, word] {
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().take(16).fold(String::with_capacity(32), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn reference(resource: &Resource, meta: &Meta, version: &Version, previous: Option<&Version>) -> ResourceRef {
    ResourceRef {
        group: resource.group.clone(),
        version: resource.version.clone(),
        resource: resource.plural.clone(),
        kind: resource.kind.clone(),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: version.0.clone(),
        previous_resource_version: previous.map(|version| version.0.clone()),
        generation: meta.generation,
        labels: meta.labels.clone(),
    }
}

fn itself(resource: &Resource, meta: &Meta) -> OwnerRef {
    OwnerRef { kind: resource.kind.clone(), namespace: meta.namespace.clone(), name: meta.name.clone() }
}
