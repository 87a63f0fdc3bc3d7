//! The root owner of an object through owner references: Pod -> ReplicaSet -> Deployment, Pod -> Job -> CronJob.

use super::OwnerRef;
use crate::redact::{Meta, Owner};

/// Deeper chains end here; real ones have three or four links.
const DEPTH: usize = 10;

/// Looks owners up; the informers' index implements it.
pub trait Owners {
    /// The object that a reference of an object in `namespace` (`""` for cluster-scoped) points to. `None` when it is not
    /// known: not watched, not permitted, already gone.
    fn find(&self, namespace: &str, owner: &Owner) -> Option<Found>;
}

/// What is needed to go one link up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// `""` for cluster-scoped owners.
    pub namespace: String,
    pub owners: Vec<Owner>,
}

impl From<&Meta> for Found {
    fn from(meta: &Meta) -> Self {
        Self { namespace: meta.namespace.clone(), owners: meta.owners.clone() }
    }
}

/// Knows no owners: a chain ends at the object's own reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unknown;

impl Owners for Unknown {
    fn find(&self, _: &str, _: &Owner) -> Option<Found> {
        None
    }
}

/// The controller among the references, else the first one. A second reference that controls nothing (a ConfigMap owned
/// by two Releases) does not change whose part the object is.
fn primary(owners: &[Owner]) -> Option<&Owner> {
    owners.iter().find(|owner| owner.controller).or_else(|| owners.first())
}

/// Kinds whose objects have no namespace and that own objects which have one, where the owner cannot be looked up.
fn is_cluster_scoped(owner: &Owner) -> bool {
    matches!((owner.api_version.as_str(), owner.kind.as_str()), ("v1", "Node" | "Namespace" | "PersistentVolume"))
}

/// Follows the references up. An owner that is not found ends the chain at the reference to it; a cycle ends it where it
/// would begin again. `None` when the object has no owner.
pub fn root(meta: &Meta, owners: &dyn Owners) -> Option<OwnerRef> {
    let mut link = primary(&meta.owners)?.clone();
    let mut namespace = meta.namespace.clone();
    let mut seen = vec![meta.uid.clone()];
    loop {
        let found = owners.find(&namespace, &link);
        match &found {
            Some(found) => namespace.clone_from(&found.namespace),
            None if is_cluster_scoped(&link) => namespace.clear(),
            None => {}
        }
        seen.push(link.uid.clone());
        let next = found.as_ref().and_then(|found| primary(&found.owners));
        match next {
            Some(next) if seen.len() <= DEPTH && !seen.contains(&next.uid) => link = next.clone(),
            _ => return Some(OwnerRef { kind: link.kind, namespace, name: link.name }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    struct Index(HashMap<&'static str, Found>);

    impl Owners for Index {
        fn find(&self, _: &str, owner: &Owner) -> Option<Found> {
            self.0.get(owner.uid.as_str()).cloned()
        }
    }

    fn reference(kind: &str, name: &str, controller: bool) -> Owner {
        Owner { kind: kind.into(), name: name.into(), uid: name.into(), controller, ..Owner::default() }
    }

    fn index(links: &[(&'static str, &[Owner])]) -> Index {
        let found = |owners: &[Owner]| Found { namespace: "shop".into(), owners: owners.to_vec() };
        Index(links.iter().map(|(uid, owners)| (*uid, found(owners))).collect())
    }

    fn child(owner: Owner) -> Meta {
        Meta { uid: "child".into(), namespace: "shop".into(), owners: vec![owner], ..Meta::default() }
    }

    fn text(owner: Option<OwnerRef>) -> String {
        owner.map_or_else(|| "none".into(), |o| format!("{} {}/{}", o.kind, o.namespace, o.name))
    }

    #[test]
    fn a_pod_belongs_to_the_deployment_behind_its_replica_set() {
        let index = index(&[("web-5d", &[reference("Deployment", "web", true)]), ("web", &[])]);
        assert_eq!(text(root(&child(reference("ReplicaSet", "web-5d", true)), &index)), "Deployment shop/web");
    }

    #[test]
    fn a_pod_belongs_to_the_cron_job_behind_its_job() {
        let index = index(&[("backup-28", &[reference("CronJob", "backup", true)]), ("backup", &[])]);
        assert_eq!(text(root(&child(reference("Job", "backup-28", true)), &index)), "CronJob shop/backup");
    }

    #[test]
    fn an_owner_that_is_not_found_ends_the_chain_at_the_reference() {
        let index = index(&[("web-5d", &[reference("Deployment", "web", true)])]);
        assert_eq!(text(root(&child(reference("ReplicaSet", "web-5d", true)), &index)), "Deployment shop/web");
        assert_eq!(text(root(&child(reference("ReplicaSet", "gone", true)), &index)), "ReplicaSet shop/gone");
    }

    #[test]
    fn a_cycle_and_an_endless_chain_end() {
        let cycle = index(&[("a", &[reference("A", "b", true)]), ("b", &[reference("A", "a", true)])]);
        assert_eq!(text(root(&child(reference("A", "a", true)), &cycle)), "A shop/b");

        struct Endless;
        impl Owners for Endless {
            fn find(&self, _: &str, owner: &Owner) -> Option<Found> {
                let next = reference("A", &format!("{}x", owner.name), true);
                Some(Found { namespace: String::new(), owners: vec![next] })
            }
        }
        assert!(root(&child(reference("A", "a", true)), &Endless).is_some());
    }

    #[test]
    fn the_controller_wins_over_other_owners_and_no_owner_is_none() {
        let mut meta = child(reference("Release", "helm", false));
        meta.owners.push(reference("ReplicaSet", "web-5d", true));
        assert_eq!(text(root(&meta, &Unknown)), "ReplicaSet shop/web-5d");
        assert_eq!(root(&Meta::default(), &Unknown), None);
    }

    #[test]
    fn a_static_pod_belongs_to_its_node_which_has_no_namespace() {
        let node = Owner { api_version: "v1".into(), ..reference("Node", "node-1", true) };
        assert_eq!(text(root(&child(node), &Unknown)), "Node /node-1");
    }
}
