//! Deployments really roll, and helm really installs, without a container ever running.

use std::path::Path;

use serde_json::Value;

use crate::harness::{self, PATIENCE, poll};

#[tokio::test]
async fn helm_installs_a_chart_and_its_deployment_rolls() {
    let cluster = harness::cluster().await;
    cluster.controllers().await;
    let namespace = cluster.namespace("rollout").await;
    let chart = write_chart(cluster.dir());
    let chart = chart.to_string_lossy();
    let deploy = async |command: &str, tag: &str| {
        let tag = format!("tag={tag}");
        let args = [command, "web", &chart, "-n", namespace.name(), "--set", &tag, "--wait", "--timeout", "120s"];
        cluster.helm(&args).await;
    };

    deploy("install", "1.25").await;
    assert_eq!(running_images(cluster, namespace.name()).await, ["nginx:1.25", "nginx:1.25"]);

    deploy("upgrade", "1.27").await;
    poll(PATIENCE, "the old pods to be gone", async || {
        (running_images(cluster, namespace.name()).await == ["nginx:1.27", "nginx:1.27"]).then_some(())
    })
    .await;
    let revision = cluster.kubectl(&["get", "deployment", "web", "-n", namespace.name(), "-o", "json"]).await;
    let deployment: Value = serde_json::from_str(&revision).unwrap();
    assert_eq!(deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    assert_eq!(deployment["status"]["readyReplicas"], 2);
}

/// A chart of one Deployment with two replicas, made up here.
fn write_chart(dir: &Path) -> std::path::PathBuf {
    let chart = dir.join("throw-away");
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: throw-away\nversion: 0.1.0\n").unwrap();
    std::fs::write(chart.join("values.yaml"), "tag: none\n").unwrap();
    let deployment = r"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: 2
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec:
      containers:
      - name: web
        image: nginx:{{ .Values.tag }}
";
    std::fs::write(chart.join("templates/deployment.yaml"), deployment).unwrap();
    chart
}

async fn running_images(cluster: &harness::Cluster, namespace: &str) -> Vec<String> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let pods: Value = cluster.access().get(&path).send().await.unwrap().json().await.unwrap();
    let running = pods["items"].as_array().unwrap().iter().filter(|pod| pod["status"]["phase"] == "Running");
    running.map(|pod| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()).collect()
}
