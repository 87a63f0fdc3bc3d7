//! What a new object is, in a few words.

use serde_json::Value;

use super::{rbac, words};
use crate::cluster::Resource;

/// `None` when the name says it all.
pub(super) fn about(resource: &Resource, object: &Value) -> Option<String> {
    let spec = &object["spec"];
    let keys =
        |map: &Value| -> Vec<String> { map.as_object().map(|m| m.keys().cloned().collect()).unwrap_or_default() };
    let about = match (resource.group.as_str(), resource.kind.as_str()) {
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") => {
            let replicas = spec["replicas"].as_i64().unwrap_or(1);
            format!("{} of {}", words::count(replicas, "replica"), images(&spec["template"]["spec"])?)
        }
        ("apps", "DaemonSet") | ("batch", "Job") => images(&spec["template"]["spec"])?,
        ("", "Pod") => images(spec)?,
        ("batch", "CronJob") => {
            format!(
                "{}, {}",
                words::value(&spec["schedule"]),
                images(&spec["jobTemplate"]["spec"]["template"]["spec"])?
            )
        }
        ("", "ConfigMap") => words::list(&[keys(&object["data"]), keys(&object["binaryData"])].concat(), 5),
        ("", "Secret") => {
            let kind = object["type"].as_str().unwrap_or("Opaque");
            match words::list(&[keys(&object["data"]), keys(&object["stringData"])].concat(), 5).as_str() {
                "" => words::one_line(kind),
                keys => format!("{} with {keys}", words::one_line(kind)),
            }
        }
        ("", "Service") => {
            let ports = words::items(&spec["ports"]).iter();
            let ports: Vec<String> = ports.map(|port| words::value(&port["port"])).collect();
            let kind = spec["type"].as_str().unwrap_or("ClusterIP");
            if ports.is_empty() { kind.to_owned() } else { format!("{kind}, port {}", words::list(&ports, 5)) }
        }
        ("networking.k8s.io", "Ingress") => {
            let hosts = words::items(&spec["rules"]).iter().filter_map(|rule| rule["host"].as_str());
            words::list(&hosts.collect::<Vec<_>>(), 4)
        }
        ("autoscaling", "HorizontalPodAutoscaler") => {
            let target = &spec["scaleTargetRef"];
            format!(
                "{} to {} replicas of {} {}",
                spec["minReplicas"].as_i64().unwrap_or(1),
                words::value(&spec["maxReplicas"]),
                words::text(&target["kind"]),
                words::text(&target["name"])
            )
        }
        ("", "PersistentVolumeClaim") => {
            let class = spec["storageClassName"].as_str().map_or(String::new(), |class| format!(" of {class}"));
            format!("{}{class}", words::value(&spec["resources"]["requests"]["storage"]))
        }
        ("", "PersistentVolume") => words::value(&spec["capacity"]["storage"]),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            let role = &object["roleRef"];
            let subjects: Vec<String> = words::items(&object["subjects"]).iter().map(rbac::subject).collect();
            let who = if subjects.is_empty() { "nobody".to_owned() } else { words::list(&subjects, 4) };
            format!("binds {who} to {} {}", words::text(&role["kind"]), words::text(&role["name"]))
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let versions = words::items(&spec["versions"]).iter().filter_map(|version| version["name"].as_str());
            let versions = words::list(&versions.collect::<Vec<_>>(), 4);
            format!("{} {versions}", words::text(&spec["names"]["kind"]))
        }
        _ => return None,
    };
    (!about.trim().is_empty() && about != "null").then(|| words::one_line(&about))
}

/// `nginx:1.25, envoy:1.30`.
fn images(pod: &Value) -> Option<String> {
    let images = words::items(&pod["containers"]).iter().filter_map(|container| container["image"].as_str());
    let images: Vec<&str> = images.collect();
    (!images.is_empty()).then(|| words::list(&images, 3))
}
