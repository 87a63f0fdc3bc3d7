//! Runs helm on the chart, without a cluster, and looks into what it renders.

use std::{fs, process::Command};

use serde_json::Value;

use super::CHART;
use crate::harness::{guard, tools};

/// What helm printed, or what it complained of. `values` is a values file, "" for none.
pub async fn helm(args: &[&str], values: &str) -> Result<String, String> {
    let program = tools::path("helm").await.unwrap_or_else(|why| panic!("{why}"));
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.args(args).env("HOME", home.path());
    for key in ["KUBECONFIG", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        command.env_remove(key);
    }
    if !values.is_empty() {
        let file = home.path().join("values.yaml");
        fs::write(&file, values).unwrap();
        command.arg("--values").arg(file);
    }
    let output = guard::run(&mut command).await.unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The objects of release "kubediff" in namespace "tools" with these values.
pub async fn render(values: &str) -> Vec<Value> {
    let text = helm(&["template", "kubediff", CHART, "--namespace", "tools"], values).await;
    objects(&text.unwrap_or_else(|said| panic!("{values}\n{said}")))
}

/// Why helm does not render the chart with these values.
pub async fn fails(values: &str) -> String {
    match helm(&["template", "kubediff", CHART, "--namespace", "tools"], values).await {
        Ok(text) => panic!("{values}\nis not refused but rendered:\n{text}"),
        Err(said) => said,
    }
}

pub fn objects(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    documents.into_iter().filter(Value::is_object).collect()
}

/// The kinds that there are, sorted.
pub fn kinds(objects: &[Value]) -> Vec<String> {
    let mut kinds: Vec<_> = objects.iter().map(|o| o["kind"].as_str().unwrap().to_owned()).collect();
    kinds.sort();
    kinds
}

/// The value at a JSON pointer of the first object of a kind; null when there is no such object or value.
pub fn find(objects: &[Value], kind: &str, pointer: &str) -> Value {
    let object = objects.iter().find(|object| object["kind"] == kind);
    object.and_then(|object| object.pointer(pointer)).cloned().unwrap_or_default()
}

/// The configuration as the pod gets it.
pub fn toml(objects: &[Value]) -> toml::Table {
    let text = find(objects, "ConfigMap", "/data/config.toml");
    let text = text.as_str().expect("a configuration");
    text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"))
}
