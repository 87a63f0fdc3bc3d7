//! The examples run against any kubeconfig: this is one.

use std::{path::PathBuf, process::Stdio};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::harness::{self, PATIENCE, poll};

/// `cargo test` builds the examples beside the binary.
fn example(name: &str) -> Command {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_kubediff")).with_file_name("examples").join(name);
    let mut command = Command::new(path);
    command.stdout(Stdio::piped()).kill_on_drop(true);
    command
}

async fn spawn(mut command: Command, kubeconfig: &std::path::Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = command.env("KUBECONFIG", kubeconfig).spawn().expect("the example is built");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

async fn line_with(lines: &mut Lines<BufReader<ChildStdout>>, what: &str) -> String {
    let search = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(what) {
                return line;
            }
        }
        panic!("the example ended before it said {what}");
    };
    tokio::time::timeout(PATIENCE, search).await.unwrap_or_else(|_| panic!("the example never said {what}"))
}

#[tokio::test]
async fn pods_by_ip_finds_a_pod_by_its_address() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("byip").await;
    cluster.apply(ns.name(), "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: nowhere, containers: [{name: c, image: i}]}\n").await;
    let status = r#"{"status":{"podIP":"10.9.8.7","podIPs":[{"ip":"10.9.8.7"}]}}"#;
    cluster.kubectl(&["patch", "pod", "p", "--subresource=status", "-p", status, "-n", ns.name()]).await;
    let mut command = example("pods_by_ip");
    command.arg("10.9.8.7");
    let (mut child, mut lines) = spawn(command, cluster.kubeconfig()).await;
    let line = line_with(&mut lines, "10.9.8.7").await;
    assert_eq!(line, format!("10.9.8.7 {}/p", ns.name()));
    assert!(child.wait().await.unwrap().success());
}

/// Waits for several, in whichever order they come.
async fn lines_with(lines: &mut Lines<BufReader<ChildStdout>>, what: &[&str]) -> Vec<String> {
    let mut found: Vec<Option<String>> = vec![None; what.len()];
    while found.iter().any(Option::is_none) {
        let line = line_with(lines, "").await;
        for (found, what) in found.iter_mut().zip(what) {
            if line.contains(what) {
                *found = Some(line.clone());
            }
        }
    }
    found.into_iter().flatten().collect()
}

#[tokio::test]
async fn all_resources_tells_of_what_a_role_permits_and_says_what_it_does_not() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("allrole").await;
    cluster.apply(ns.name(), super::ROLE).await;
    let token = cluster.kubectl(&["create", "token", "reader", "-n", ns.name()]).await;
    let access = cluster.access().with_token(token.trim());
    poll(PATIENCE, "the role holds", async || {
        let path = format!("/apis/apps/v1/namespaces/{}/deployments", ns.name());
        access.get(&path).send().await.ok()?.status().is_success().then_some(())
    })
    .await;
    let kubeconfig = access.write_kubeconfig(cluster.dir(), &format!("example-{}", ns.name()));
    let mut command = example("all_resources");
    command.arg(ns.name());
    let (mut child, mut lines) = spawn(command, &kubeconfig).await;
    let secrets = format!("waiting for v1/secrets in {}: not permitted", ns.name());
    let found = lines_with(&mut lines, &["resources in sync", &secrets]).await;
    assert!(found[0].starts_with("2 of "), "ConfigMaps and Deployments: {}", found[0]);
    cluster.kubectl(&["create", "configmap", "seen-by-the-example", "-n", ns.name()]).await;
    let line = line_with(&mut lines, "seen-by-the-example").await;
    assert!(line.starts_with(&format!("added ConfigMap {}/", ns.name())), "{line}");
    child.kill().await.unwrap();
}

#[tokio::test]
async fn all_resources_tells_of_every_change() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("allres").await;
    let (mut child, mut lines) = spawn(example("all_resources"), cluster.kubeconfig()).await;
    line_with(&mut lines, "resources in sync").await;
    cluster.kubectl(&["create", "configmap", "seen-by-the-example", "-n", ns.name()]).await;
    let line = line_with(&mut lines, "seen-by-the-example").await;
    assert!(line.starts_with(&format!("added ConfigMap {}/", ns.name())), "{line}");
    child.kill().await.unwrap();
}

#[tokio::test]
async fn the_controller_keeps_its_config_map_as_declared() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("ctrl").await;
    let mut command = example("controller");
    command.arg(ns.name());
    let (mut child, mut lines) = spawn(command, cluster.kubeconfig()).await;
    line_with(&mut lines, "(absent) -> on").await;
    cluster.kubectl(&["patch", "configmap", "declared", "-p", r#"{"data":{"mode":"off"}}"#, "-n", ns.name()]).await;
    line_with(&mut lines, "off -> on").await;
    cluster.kubectl(&["delete", "configmap", "declared", "-n", ns.name()]).await;
    poll(PATIENCE, "the deleted ConfigMap is made again", async || {
        let path = format!("/api/v1/namespaces/{}/configmaps/declared", ns.name());
        let answer = cluster.access().get(&path).send().await.ok()?.text().await.ok()?;
        answer.contains("\"mode\":\"on\"").then_some(())
    })
    .await;
    child.kill().await.unwrap();
}
