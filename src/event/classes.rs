//! What sort of change it is: a closed list that routes, filters and people can name.

#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::path::Spot;
use crate::cluster::Resource;

macro_rules! classes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// What sort of change an event tells of. An event has as many as apply, in this order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "lowercase")]
        pub enum Class { $($(#[doc = $doc])+ $name,)+ }

        impl Class {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// What the documentation says about it.
            pub fn about(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+)),+ }
            }
        }
    };
}

classes! {
    /// What somebody asked for: `spec`, and every top-level field that is neither metadata, status nor data.
    Spec = "spec",
    /// What the cluster says about it: `status`.
    Status = "status",
    /// Anything under `metadata`.
    Metadata = "metadata",
    /// The contents of a ConfigMap or Secret.
    Data = "data",
    /// Labels of the object itself.
    Labels = "labels",
    /// Annotations of the object itself.
    Annotations = "annotations",
    /// Created, deleted, asked to be deleted; finalizers and owner references.
    Lifecycle = "lifecycle",
    /// A container image, or a container more or less.
    Image = "image",
    /// How many: replicas asked for, and the bounds and decisions of an autoscaler.
    Scale = "scale",
    /// Requests and limits of containers and claims; quotas and limit ranges.
    Resources = "resources",
    /// Environment variables of a container.
    Env = "env",
    /// Commands and arguments of a container.
    Command = "command",
    /// The contents of a Secret, or an object of that kind that came or went.
    Secret = "secret",
    /// Who may do what: roles, bindings, service accounts.
    Rbac = "rbac",
    /// Who can talk to whom: services, ingresses, gateways, network policies, ports, DNS.
    Network = "network",
    /// Volumes, claims, storage classes, snapshots.
    Storage = "storage",
    /// Where pods go: nodes, affinity, taints, tolerations, priorities.
    Scheduling = "scheduling",
    /// What a container may do to its host, under which account it runs, admission of pods.
    Security = "security",
    /// Rules that others obey: webhooks, admission policies, quotas, disruption budgets.
    Policy = "policy",
    /// Which APIs the cluster serves: CRDs, API services.
    Api = "api",
    /// Whether it works: conditions, phases, restarts, probes.
    Health = "health",
    /// New pods replacing old ones: strategy, revision, progress.
    Rollout = "rollout",
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(text: &str) -> Result<Self, UnknownClass> {
        let class = Self::ALL.iter().find(|class| class.as_str() == text);
        class.copied().ok_or_else(|| UnknownClass(text.to_owned()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no class `{0}`")]
pub struct UnknownClass(pub String);

/// A set of classes; an event's is small and made on the hot path.
#[derive(Clone, Copy, Debug, Default)]
struct Set(u32);

impl Set {
    fn add(&mut self, class: Class) {
        self.0 |= 1 << class as u32;
    }

    fn list(self) -> Vec<Class> {
        Class::ALL.iter().copied().filter(|class| self.0 & 1 << *class as u32 != 0).collect()
    }
}

/// Of an object that came or went: what its kind is about.
pub fn of_kind(resource: &Resource) -> Vec<Class> {
    let mut set = Set::default();
    set.add(Class::Lifecycle);
    if matches!(resource.kind.as_str(), "ConfigMap" | "Secret") && resource.group.is_empty() {
        set.add(Class::Data);
    }
    if let Some(class) = family(resource) {
        set.add(class);
    }
    set.list()
}

/// Of an update: what its changed fields are about.
pub(super) fn of_update(resource: &Resource, spots: &[Spot<'_>]) -> Vec<Class> {
    let mut set = Set::default();
    for spot in spots {
        of_change(resource, spot, &mut set);
    }
    set.list()
}

/// The class of everything that a kind asks for.
fn family(resource: &Resource) -> Option<Class> {
    let class = match (resource.group.as_str(), resource.kind.as_str()) {
        ("rbac.authorization.k8s.io", _) | ("", "ServiceAccount") => Class::Rbac,
        ("", "Secret") => Class::Secret,
        (
            "networking.k8s.io"
            | "gateway.networking.k8s.io"
            | "discovery.k8s.io"
            | "networking.istio.io"
            | "cilium.io"
            | "crd.projectcalico.org"
            | "projectcalico.org",
            _,
        )
        | ("", "Service" | "Endpoints") => Class::Network,
        ("storage.k8s.io" | "snapshot.storage.k8s.io", _) | ("", "PersistentVolume" | "PersistentVolumeClaim") => {
            Class::Storage
        }
        ("admissionregistration.k8s.io" | "flowcontrol.apiserver.k8s.io" | "kyverno.io" | "policy", _)
        | ("", "ResourceQuota" | "LimitRange") => Class::Policy,
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => Class::Api,
        ("scheduling.k8s.io" | "node.k8s.io", _) => Class::Scheduling,
        _ => return None,
    };
    Some(class)
}

fn is_workload(resource: &Resource) -> bool {
    matches!(
        resource.kind.as_str(),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Rollout" | "ReplicationController"
    )
}

fn of_change(resource: &Resource, spot: &Spot<'_>, set: &mut Set) {
    match spot.key(0) {
        "metadata" => of_metadata(spot, set),
        "status" => of_status(resource, spot, set),
        "data" | "binaryData" | "stringData" | "immutable"
            if resource.group.is_empty() && matches!(resource.kind.as_str(), "ConfigMap" | "Secret") =>
        {
            set.add(Class::Data);
            if resource.kind == "Secret" {
                set.add(Class::Secret);
            }
        }
        _ => of_spec(resource, spot, set),
    }
}

fn of_metadata(spot: &Spot<'_>, set: &mut Set) {
    set.add(Class::Metadata);
    match spot.key(1) {
        "labels" => {
            set.add(Class::Labels);
            if spot.key(2).starts_with("pod-security.kubernetes.io/") {
                set.add(Class::Security);
            }
        }
        "annotations" => {
            set.add(Class::Annotations);
            if matches!(spot.key(2), "deployment.kubernetes.io/revision") {
                set.add(Class::Rollout);
            }
        }
        "finalizers" | "ownerReferences" | "deletionTimestamp" | "deletionGracePeriodSeconds" => {
            set.add(Class::Lifecycle);
        }
        _ => {}
    }
}

fn of_status(resource: &Resource, spot: &Spot<'_>, set: &mut Set) {
    set.add(Class::Status);
    let key = spot.key(1);
    match key {
        "conditions"
        | "phase"
        | "reason"
        | "message"
        | "containerStatuses"
        | "initContainerStatuses"
        | "ephemeralContainerStatuses"
        | "failed"
        | "succeeded"
        | "health" => set.add(Class::Health),
        "desiredReplicas" | "currentReplicas" if resource.kind == "HorizontalPodAutoscaler" => set.add(Class::Scale),
        "loadBalancer" | "podIP" | "podIPs" | "hostIP" | "hostIPs" | "addresses" => set.add(Class::Network),
        "capacity" | "allocatable" | "hard" | "used" => set.add(Class::Resources),
        _ => {}
    }
    if is_workload(resource) {
        let progress = key.ends_with("eplicas")
            || key.ends_with("Scheduled")
            || key.starts_with("number")
            || key.ends_with("Revision");
        let condition = key == "conditions" && spot.item(2)["type"] == "Progressing";
        if progress || condition {
            set.add(Class::Rollout);
        }
    }
    if matches!(resource.kind.as_str(), "PersistentVolumeClaim" | "PersistentVolume") {
        set.add(Class::Storage);
    }
}

fn of_spec(resource: &Resource, spot: &Spot<'_>, set: &mut Set) {
    set.add(Class::Spec);
    if let Some(class) = family(resource) {
        set.add(class);
    }
    match (resource.kind.as_str(), spot.key(1)) {
        (
            _,
            "replicas" | "minReplicas" | "maxReplicas" | "minReplicaCount" | "maxReplicaCount" | "parallelism"
            | "completions",
        ) => {
            set.add(Class::Scale);
        }
        ("HorizontalPodAutoscaler" | "VerticalPodAutoscaler", _) => set.add(Class::Scale),
        ("ResourceQuota" | "LimitRange", _) | ("PersistentVolumeClaim", "resources") => set.add(Class::Resources),
        ("Node", "taints" | "unschedulable") => set.add(Class::Scheduling),
        (_, "strategy" | "updateStrategy" | "paused" | "minReadySeconds" | "progressDeadlineSeconds")
            if is_workload(resource) =>
        {
            set.add(Class::Rollout);
        }
        (_, "volumeClaimTemplates") => set.add(Class::Storage),
        _ => {}
    }
    of_pod_spec(spot, set);
}

/// Fields of a pod or pod template, wherever in `spec` it is; custom resources carry them too.
fn of_pod_spec(spot: &Spot<'_>, set: &mut Set) {
    if spot.key(0) != "spec" {
        return;
    }
    for index in 1..spot.len() {
        match spot.key(index) {
            "containers" | "initContainers" | "ephemeralContainers" => return of_container(spot, index + 1, set),
            "volumes" => set.add(Class::Storage),
            "securityContext" | "serviceAccountName" | "automountServiceAccountToken" | "hostPID" | "hostIPC" => {
                set.add(Class::Security);
            }
            "hostNetwork" => {
                set.add(Class::Security);
                set.add(Class::Network);
            }
            "dnsPolicy" | "dnsConfig" | "hostAliases" => set.add(Class::Network),
            "nodeSelector"
            | "nodeName"
            | "affinity"
            | "tolerations"
            | "topologySpreadConstraints"
            | "schedulerName"
            | "priorityClassName"
            | "priority" => set.add(Class::Scheduling),
            "annotations" if spot.key(index + 1) == "kubectl.kubernetes.io/restartedAt" => set.add(Class::Rollout),
            // Inside these every word is the user's own.
            "labels" | "annotations" | "matchLabels" => return,
            _ => {}
        }
    }
}

/// `index` is where the container stands in the path.
fn of_container(spot: &Spot<'_>, index: usize, set: &mut Set) {
    if spot.moved() {
        return;
    }
    if spot.len() == index + 1 {
        set.add(Class::Image);
        return;
    }
    if spot.len() <= index {
        let value = if spot.removed() { spot.from() } else { spot.to() };
        if matches!(value, Value::Array(items) if !items.is_empty()) {
            set.add(Class::Image);
        }
        return;
    }
    match spot.key(index + 1) {
        "image" | "imagePullPolicy" => set.add(Class::Image),
        "env" | "envFrom" => set.add(Class::Env),
        "resources" | "resizePolicy" => set.add(Class::Resources),
        "command" | "args" | "workingDir" => set.add(Class::Command),
        "livenessProbe" | "readinessProbe" | "startupProbe" => set.add(Class::Health),
        "ports" => set.add(Class::Network),
        "volumeMounts" | "volumeDevices" => set.add(Class::Storage),
        "securityContext" => set.add(Class::Security),
        _ => {}
    }
}
