//! One sentence that a person would write about a change.
//!
//! The kinds that everybody has get words of their own, one file per family; all others get their first few changed
//! fields. A sentence is one line, has no more than `PARTS` parts, and never shows a redacted value.

mod autoscaling;
mod config;
mod created;
mod extend;
mod generic;
mod job;
mod network;
mod node;
mod pod;
mod podspec;
mod rbac;
mod storage;
#[cfg(test)]
mod tests;
pub(super) mod words;
mod workload;

use serde_json::Value;

use super::path::Spot;
use crate::cluster::Resource;

/// More is told as "and 4 more".
const PARTS: usize = 4;

/// Parts beyond this are counted and not kept.
const KEPT: usize = 64;

/// Longer sentences are cut.
const LENGTH: usize = 300;

/// An update as the sentences see it. Sections of the documents that did not change may be missing.
pub(super) struct Update<'a> {
    pub(super) resource: &'a Resource,
    pub(super) name: &'a str,
    pub(super) old: &'a Value,
    pub(super) new: &'a Value,
    pub(super) spots: &'a [Spot<'a>],
}

impl<'a> Update<'a> {
    fn was(&self, pointer: &str) -> &'a Value {
        self.old.pointer(pointer).unwrap_or(&Value::Null)
    }

    fn is(&self, pointer: &str) -> &'a Value {
        self.new.pointer(pointer).unwrap_or(&Value::Null)
    }

    fn changed(&self, pointer: &str) -> bool {
        self.was(pointer) != self.is(pointer)
    }

    fn touches(&self, pattern: &[&str]) -> bool {
        self.spots.iter().any(|spot| spot.starts(pattern))
    }
}

/// The parts of a sentence so far, and which changes they have told.
pub(super) struct Sentence {
    parts: Vec<String>,
    /// How many parts there were beyond [`KEPT`].
    more: usize,
    told: Vec<bool>,
}

impl Sentence {
    fn say(&mut self, part: impl Into<String>) {
        let part = part.into();
        if self.parts.len() >= KEPT {
            self.more += 1;
        } else if !self.parts.contains(&part) {
            self.parts.push(part);
        }
    }

    /// The changes whose path begins like this need no other words.
    fn tell(&mut self, update: &Update<'_>, pattern: &[&str]) {
        for (told, spot) in self.told.iter_mut().zip(update.spots) {
            *told |= spot.starts(pattern);
        }
    }
}

/// The sentence of an update.
pub(super) fn of_update(update: &Update<'_>) -> String {
    let mut sentence = Sentence { parts: Vec::new(), more: 0, told: vec![false; update.spots.len()] };
    generic::deletion(update, &mut sentence);
    let group = update.resource.group.as_str();
    match (group, update.resource.kind.as_str()) {
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") => workload::tell(update, &mut sentence),
        ("", "Pod") => pod::tell(update, &mut sentence),
        ("", "Node") => node::tell(update, &mut sentence),
        ("", "ConfigMap") => config::config_map(update, &mut sentence),
        ("", "Secret") => config::secret(update, &mut sentence),
        ("", "Service") => network::service(update, &mut sentence),
        ("networking.k8s.io", "Ingress") => network::ingress(update, &mut sentence),
        ("networking.k8s.io", "NetworkPolicy") => network::policy(update, &mut sentence),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::hpa(update, &mut sentence),
        ("policy", "PodDisruptionBudget") => autoscaling::pdb(update, &mut sentence),
        ("", "ResourceQuota") => autoscaling::quota(update, &mut sentence),
        ("batch", "Job") => job::job(update, &mut sentence),
        ("batch", "CronJob") => job::cron_job(update, &mut sentence),
        ("", "PersistentVolumeClaim") => storage::claim(update, &mut sentence),
        ("", "PersistentVolume") => storage::volume(update, &mut sentence),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => rbac::role(update, &mut sentence),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => rbac::binding(update, &mut sentence),
        ("", "ServiceAccount") => rbac::account(update, &mut sentence),
        ("", "Namespace") => extend::namespace(update, &mut sentence),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => extend::crd(update, &mut sentence),
        ("apiregistration.k8s.io", "APIService") => extend::api_service(update, &mut sentence),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            extend::webhooks(update, &mut sentence);
        }
        _ => {}
    }
    generic::tell(update, &mut sentence);
    finish(update.resource, update.name, sentence)
}

/// The sentence of an object that came.
pub(super) fn of_created(resource: &Resource, name: &str, object: &Value) -> String {
    let kind = &resource.kind;
    match created::about(resource, object) {
        Some(about) => words::cut(&format!("{kind} {name} created: {about}"), LENGTH),
        None => format!("{kind} {name} created"),
    }
}

/// The sentence of an object that went; `age` in seconds, when it is known.
pub(super) fn of_deleted(resource: &Resource, name: &str, age: Option<i64>) -> String {
    let kind = &resource.kind;
    match age {
        Some(age) => format!("{kind} {name} deleted after {}", words::age(age)),
        None => format!("{kind} {name} deleted"),
    }
}

fn finish(resource: &Resource, name: &str, Sentence { mut parts, more, .. }: Sentence) -> String {
    if parts.is_empty() {
        return format!("{} {name} changed", resource.kind);
    }
    if parts.len() > PARTS {
        let more = more + parts.len() - (PARTS - 1);
        parts.truncate(PARTS - 1);
        parts.push(format!("and {more} more"));
    }
    words::cut(&parts.join("; "), LENGTH)
}
