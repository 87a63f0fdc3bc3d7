//! What stands in deploy/: rendered from the chart, taken by a real API server and by the types of the oldest
//! Kubernetes that the chart is for.

use std::{
    collections::BTreeSet,
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
use crate::{
    delivery::daemon::Kubediff,
    harness::{self, Cluster, PATIENCE, poll, tools},
};

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
page: {enabled: true, service: {annotations: {a: b}}}
metrics: {dashboard: {enabled: true}}
";

/// What the Prometheus operator reads.
const MONITORING: [&str; 2] = [
    "metrics: {serviceMonitor: {enabled: true, labels: {a: b}, relabelings: [{action: labeldrop, regex: x}], \
     metricRelabelings: [{action: labeldrop, regex: other}]}, prometheusRule: {enabled: true}}",
    "metrics: {podMonitor: {enabled: true, relabelings: [{action: labeldrop, regex: x}]}, \
     prometheusRule: {enabled: true, without: [KubediffDown], annotations: {a: b}}}",
];

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
        "replicas: 2",
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
async fn the_prometheus_operators_own_definitions_take_what_is_for_it() {
    // A control plane of its own: these kinds are not to be met by other tests.
    let cluster = Cluster::start(harness::Options::default()).await;
    let namespace = cluster.namespace("monitoring").await;
    let definitions = tools::path("monitoring-crds").await.unwrap();
    cluster.kubectl(&["apply", "--server-side", "-f", &definitions.to_string_lossy()]).await;
    cluster.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]).await;
    let dry_run = async |text: &str| {
        let file = cluster.dir().join(format!("{:08x}.yaml", rand::random::<u32>()));
        fs::write(&file, text).unwrap();
        let file = file.to_string_lossy();
        cluster.try_run("kubectl", &["apply", "--dry-run=server", "--validate=strict", "-f", &file]).await
    };
    for values in MONITORING {
        let text = helm(&["template", "kubediff", CHART, "--namespace", namespace.name()], values).await.unwrap();
        let output = dry_run(&text).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("Warning"), "{values}: {said}\n{text}");
        let wrong = dry_run(&text.replace("- port: probes", "- prot: probes")).await;
        assert!(!wrong.status.success(), "it refuses what it does not know");
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

/// What a pod's log is: kubediff's events and its own log, a line each, as they came.
async fn pod_log() -> Vec<Value> {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("lines").await;
    let config = format!(
        "[watch]\nnamespaces = [\"{namespace}\"]\ninclude = [\"v1/configmaps\"]\n[server]\nprobes = \"\"\npage = \"\"\n\
         [sinks.log]\ntype = \"stdout\"\n"
    );
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config);
    kubediff.spawn_with("KUBEDIFF_LOG_FORMAT=json");
    let log = kubediff.log();
    let said = async |words: &str| {
        let read = async || fs::read_to_string(&log).ok().filter(|text| text.contains(words));
        poll(PATIENCE, format!("{words} in the log"), read).await
    };
    said("watching").await;
    cluster.kubectl(&["create", "configmap", "settings", "-n", namespace.name(), "--from-literal=a=b"]).await;
    said("kubediff.event/v1").await;
    kubediff.stop().await;
    let text = fs::read_to_string(&log).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Neither collector is in a registry that the tests reach, so what they do is not run here. That the snippets are
/// well-formed, that every line of a pod's log is what they take it for, and that a real event has every field that they
/// name, is checked.
#[tokio::test]
async fn the_snippets_for_logging_stacks_fit_the_lines_of_a_real_log() {
    let read = |name: &str| fs::read_to_string(format!("{DEPLOY}/logging/{name}")).unwrap();
    for name in ["vector.yaml", "fluent-bit.yaml"] {
        let _: Value = serde_saphyr::from_str(&read(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let dashboard: Value = serde_json::from_str(&read("grafana-dashboard.json")).unwrap();
    assert_eq!(dashboard["panels"].as_array().unwrap().len(), 3);
    let lines = pod_log().await;
    let (events, own): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line["schema"] == "kubediff.event/v1");
    // How the snippets tell them apart.
    assert!(own.len() > 1 && own.iter().all(|line| line["schema"].is_null() && line["level"].is_string()), "{own:?}");
    let example = events.first().expect("an event");
    let time = example["time"].as_str().unwrap();
    assert!(time.parse::<jiff::Timestamp>().is_ok() && time.ends_with('Z'), "RFC 3339: {time}");
    for (name, least) in [("vector.yaml", 4), ("fluent-bit.yaml", 4), ("alloy.alloy", 5), ("grafana-dashboard.json", 5)]
    {
        let fields = named_fields(name, &read(name));
        assert!(fields.len() >= least, "{name}: {fields:?}");
        for field in fields {
            let pointer = field.replace("['", ".").replace("']", "").replace("[0]", ".0").replace('.', "/");
            assert!(example.pointer(&format!("/{pointer}")).is_some(), "{name} names {field}, and no event has it");
        }
    }
}

/// The fields of an event that a snippet takes, by the forms in which its program names them.
fn named_fields(name: &str, text: &str) -> BTreeSet<String> {
    let forms: &[&str] = match name {
        // {{ resource.kind }}, exists(.time), .schema ==
        "vector.yaml" => &[r"\{\{ ([a-z.]+) \}\}", r"exists\(\.(time)\)", r"\.(schema) =="],
        // $resource['kind'], regex: schema ...
        "fluent-bit.yaml" => &[r"\$([a-z]+(?:\['[a-z]+'\])*)", r"regex: ([a-z]+) "],
        // kind = "resource.kind",
        "alloy.alloy" => &[r#"(?m)^ +[a-z]+ += "([a-z]+(?:\.[a-z]+)?)",$"#],
        // json kind="resource.kind"
        _ => &[r#"[a-z]+=\\"([a-z]+(?:\.[a-z]+|\[0\]\.[a-z]+)?)\\""#],
    };
    let forms: Vec<_> = forms.iter().map(|form| regex::Regex::new(form).unwrap()).collect();
    let found = forms.iter().flat_map(|form| form.captures_iter(text)).map(|found| found[1].to_owned());
    // The stream's own label.
    found.filter(|field| field != "kubediff").collect()
}

/// Any of the pods may be the one that delivers.
#[tokio::test]
async fn fluent_bit_reads_the_logs_of_every_pod_of_the_release() {
    let args = ["template", "kubediff", CHART, "--namespace", "kubediff"];
    let objects = objects(&helm(&args, "replicas: 3").await.unwrap());
    let name = find(&objects, "StatefulSet", "/metadata/name");
    let container = find(&objects, "StatefulSet", "/spec/template/spec/containers/0/name");
    let snippet: Value =
        serde_saphyr::from_str(&fs::read_to_string(format!("{DEPLOY}/logging/fluent-bit.yaml")).unwrap()).unwrap();
    let path = snippet["pipeline"]["inputs"][0]["path"].as_str().unwrap();
    let path = regex::Regex::new(&format!("^{}$", regex::escape(path).replace(r"\*", "[^/]*"))).unwrap();
    for pod in 0..3 {
        let (name, container) = (name.as_str().unwrap(), container.as_str().unwrap());
        let log = format!("/var/log/containers/{name}-{pod}_kubediff_{container}-{}.log", "0a".repeat(32));
        assert!(path.is_match(&log), "{path} misses {log}");
    }
    assert!(!path.is_match(&format!("/var/log/containers/web-0_shop_web-{}.log", "0a".repeat(32))));
}
