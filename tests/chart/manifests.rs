//! What stands in deploy/: rendered from the chart, taken by a real API server and by the types of the oldest
//! Kubernetes that the chart is for.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;

use super::{
    CHART,
    helm::{find, helm, kinds, objects},
    schema,
};
use crate::harness::{self, Cluster, tools};

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");

/// Everything on that can be on.
const ALL: &str = r"
labels: {team: ops}
annotations: {a: b}
imagePullSecrets: [{name: registry}]
secrets: {env: {TOKEN: {name: a, key: b}}, files: {whsec: {name: a, key: c}}}
serviceAccount: {annotations: {c: d}}
persistence: {annotations: {a: b}, storageClass: fast, whenDeleted: Retain}
podLabels: {a: b}
podAnnotations: {a: b}
extraArgs: [--log-format=pretty]
extraEnv: [{name: A, value: b}]
extraEnvFrom: [{configMapRef: {name: a, optional: true}}]
extraVolumes: [{name: ca, configMap: {name: ca}}]
extraVolumeMounts: [{name: ca, mountPath: /etc/ssl/ca}]
nodeSelector: {disk: ssd}
tolerations: [{key: k, operator: Exists}]
affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
  {topologyKey: zone, labelSelector: {matchLabels: {a: b}}}]}}
topologySpreadConstraints: [
  {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a: b}}}]
priorityClassName: system-cluster-critical
runtimeClassName: gvisor
networkPolicy: {enabled: true, from: [{podSelector: {}}], restrictEgress: true, to: [{ports: [{port: 6443}]}]}
podDisruptionBudget: {enabled: true}
";

fn folders() -> Vec<PathBuf> {
    let folders: Vec<_> = fs::read_dir(DEPLOY).unwrap().map(|entry| entry.unwrap().path()).collect();
    let folders: Vec<_> = folders.into_iter().filter(|path| path.join("values.yaml").exists()).collect();
    assert!(folders.len() >= 3, "{folders:?}");
    folders
}

#[tokio::test]
async fn the_plain_manifests_are_what_the_chart_renders() {
    let helm = tools::path("helm").await.unwrap();
    for folder in folders() {
        let name = folder.file_name().unwrap();
        let made =
            Command::new(format!("{DEPLOY}/render")).arg("--print").arg(name).env("HELM", &helm).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let written = fs::read_to_string(folder.join("kubediff.yaml")).unwrap();
        assert!(
            written.as_bytes() == made.stdout,
            "{}/kubediff.yaml is out of date: `make manifests`",
            folder.display()
        );
        assert!(!written.contains("Helm"), "they are not Helm's");
        schema::check(find(&objects(&written), "ConfigMap", "/data/config.toml").as_str().unwrap());
    }
}

/// Manifests by name: the chart with several values, and deploy/ as kustomize puts it together. All in one namespace.
async fn manifests(cluster: &Cluster, namespace: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for values in [
        "",
        "rbac: {resources: no-secrets}\npersistence: {enabled: false}\nconfig: {server: {probes: ''}}",
        "rbac: {scope: namespaces, resources: list, rules: [{apiGroups: [apps], resources: [deployments]}]}\n\
         persistence: {existingClaim: mine}\npodDisruptionBudget: {enabled: true, minAvailable: 50%}\n\
         networkPolicy: {enabled: true}",
        ALL,
    ] {
        let text = helm(&["template", "kubediff", CHART, "--namespace", namespace], values).await.unwrap();
        all.push((format!("the chart with {values:?}"), text));
    }
    for folder in folders() {
        let text = cluster.kubectl(&["kustomize", &folder.to_string_lossy()]).await;
        let kustomization = fs::read_to_string(folder.join("kustomization.yaml")).unwrap();
        let kustomization: Value = serde_saphyr::from_str(&kustomization).unwrap();
        let own = format!("namespace: {}", kustomization["namespace"].as_str().unwrap());
        assert!(text.contains(&own), "{text}");
        all.push((folder.display().to_string(), text.replace(&own, &format!("namespace: {namespace}"))));
    }
    all
}

#[tokio::test]
async fn a_real_api_server_takes_every_manifest() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("manifests").await;
    for (name, text) in manifests(cluster, namespace.name()).await {
        let file = cluster.dir().join(format!("{:08x}.yaml", rand::random::<u32>()));
        fs::write(&file, &text).unwrap();
        let file = file.to_string_lossy();
        let output = cluster.try_run("kubectl", &["apply", "--dry-run=server", "--validate=strict", "-f", &file]).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("Warning"), "{name}: {said}\n{text}");
    }
}

#[tokio::test]
async fn the_types_of_kubernetes_1_30_take_every_manifest() {
    let cluster = harness::cluster().await;
    let program = tools::path("api-1.30").await.unwrap();
    let decode = |text: &str| {
        let mut child =
            Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    for (name, text) in manifests(cluster, "kubediff").await {
        let output = decode(&text);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let mut taken: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        taken.sort();
        assert_eq!(taken, kinds(&objects(&text)), "{name}");
    }
    let wrong = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {clusterIp: None}\n";
    assert!(!decode(wrong).status.success(), "it refuses what it does not know");
}

/// What they do is not run here; that they are well-formed, and speak of fields that an event has, is checked.
#[test]
fn the_snippets_for_logging_stacks_name_fields_that_events_have() {
    let read = |name: &str| fs::read_to_string(format!("{DEPLOY}/logging/{name}")).unwrap();
    for name in ["vector.yaml", "fluent-bit.yaml"] {
        let _: Value = serde_saphyr::from_str(&read(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let dashboard: Value = serde_json::from_str(&read("grafana-dashboard.json")).unwrap();
    assert_eq!(dashboard["panels"].as_array().unwrap().len(), 3);
    let events = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/events.md")).unwrap();
    let example = events.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let example: Value = serde_json::from_str(example).unwrap();
    for (name, fields) in [
        ("vector.yaml", &["schema", "time", "type", "resource.kind", "resource.namespace"][..]),
        ("fluent-bit.yaml", &["schema", "type", "resource['kind']", "resource['namespace']"]),
        ("alloy.alloy", &["schema", "time", "type", "resource.kind", "resource.namespace"]),
        (
            "grafana-dashboard.json",
            &["resource.kind", "resource.namespace", "resource.name", "summary", "actors[0].manager"],
        ),
    ] {
        let text = read(name);
        for field in fields {
            assert!(text.contains(field), "{name} has {field}");
            let pointer = field.replace("['", ".").replace("']", "").replace("[0]", ".0").replace('.', "/");
            assert!(example.pointer(&format!("/{pointer}")).is_some(), "an event has {field}");
        }
        assert!(name.starts_with("grafana") || text.contains("kubediff"), "{name}");
    }
}
