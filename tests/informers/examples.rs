//! The examples run against any kubeconfig: this is one.

use std::{
    path::{Path, PathBuf},
    process::ExitStatus,
};

use crate::harness::{
    self, PATIENCE,
    guard::{Daemon, Directory},
    poll,
};

/// An example at work, under a guard.
struct Example {
    daemon: Daemon,
    dir: Directory,
}

impl Example {
    /// `cargo test` builds the examples beside the binary.
    fn start(name: &str, kubeconfig: &Path, args: &[&str]) -> Self {
        let path = PathBuf::from(env!("CARGO_BIN_EXE_kubediff")).with_file_name("examples").join(name);
        let dir = Directory::create().unwrap();
        // Its temporary files go with it.
        let set = [format!("KUBECONFIG={}", kubeconfig.display()), format!("TMPDIR={}", dir.path().display())];
        let args = set.iter().map(String::as_str).chain([path.to_str().unwrap()]).chain(args.iter().copied());
        let daemon = Daemon::start("example", dir.path(), Path::new("/usr/bin/env"), args).expect("it is built");
        Self { daemon, dir }
    }

    /// What it has said so far, in whole lines.
    fn said(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("example.log")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(str::to_owned).collect()
    }

    async fn says(&self, what: &str) -> String {
        poll(PATIENCE, format!("the example to say {what}"), async || {
            self.said().into_iter().find(|line| line.contains(what))
        })
        .await
    }

    async fn ends(&mut self) -> ExitStatus {
        poll(PATIENCE, "the example to end", async || self.daemon.exited()).await
    }

    /// Ends it as Ctrl-C does: nothing of it is left.
    async fn stop(mut self) {
        self.daemon.signal("INT");
        let ended = self.ends().await;
        assert!(ended.success(), "{ended}: {}", self.daemon.log_tail());
        let left: Vec<_> =
            std::fs::read_dir(self.dir.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["example.log"]);
    }
}

#[tokio::test]
async fn pods_by_ip_finds_a_pod_by_its_address() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("byip").await;
    cluster.apply(ns.name(), "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: nowhere, containers: [{name: c, image: i}]}\n").await;
    let status = r#"{"status":{"podIP":"10.9.8.7","podIPs":[{"ip":"10.9.8.7"}]}}"#;
    cluster.kubectl(&["patch", "pod", "p", "--subresource=status", "-p", status, "-n", ns.name()]).await;
    let mut example = Example::start("pods_by_ip", cluster.kubeconfig(), &["10.9.8.7"]);
    assert_eq!(example.says("10.9.8.7").await, format!("10.9.8.7 {}/p", ns.name()));
    assert!(example.ends().await.success());
}

#[tokio::test]
async fn all_resources_tells_of_what_a_role_permits_and_says_what_it_does_not() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("allrole").await;
    cluster.apply(ns.name(), super::rights::ROLE).await;
    let token = cluster.kubectl(&["create", "token", "reader", "-n", ns.name()]).await;
    let access = cluster.access().with_token(token.trim());
    poll(PATIENCE, "the role holds", async || {
        let path = format!("/apis/apps/v1/namespaces/{}/deployments", ns.name());
        access.get(&path).send().await.ok()?.status().is_success().then_some(())
    })
    .await;
    let kubeconfig = access.write_kubeconfig(cluster.dir(), &format!("example-{}", ns.name()));
    let example = Example::start("all_resources", &kubeconfig, &[ns.name()]);
    example.says(&format!("waiting for v1/secrets in {}: not permitted", ns.name())).await;
    let synced = example.says("resources in sync").await;
    assert!(synced.starts_with("2 of "), "ConfigMaps and Deployments: {synced}");
    cluster.kubectl(&["create", "configmap", "seen-by-the-example", "-n", ns.name()]).await;
    example.says(&format!("added ConfigMap {}/seen-by-the-example", ns.name())).await;
    example.stop().await;
}

#[tokio::test]
async fn all_resources_tells_of_every_change() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("allres").await;
    let example = Example::start("all_resources", cluster.kubeconfig(), &[]);
    example.says("resources in sync").await;
    cluster.kubectl(&["create", "configmap", "seen-by-the-example", "-n", ns.name()]).await;
    example.says(&format!("added ConfigMap {}/seen-by-the-example", ns.name())).await;
    example.stop().await;
}

#[tokio::test]
async fn the_controller_keeps_its_config_map_as_declared() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("ctrl").await;
    let example = Example::start("controller", cluster.kubeconfig(), &[ns.name()]);
    example.says("(absent) -> on").await;
    cluster.kubectl(&["patch", "configmap", "declared", "-p", r#"{"data":{"mode":"off"}}"#, "-n", ns.name()]).await;
    example.says("off -> on").await;
    cluster.kubectl(&["delete", "configmap", "declared", "-n", ns.name()]).await;
    poll(PATIENCE, "the deleted ConfigMap is made again", async || {
        let path = format!("/api/v1/namespaces/{}/configmaps/declared", ns.name());
        let answer = cluster.access().get(&path).send().await.ok()?.text().await.ok()?;
        answer.contains("\"mode\":\"on\"").then_some(())
    })
    .await;
    example.stop().await;
}
