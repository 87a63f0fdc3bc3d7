//! `kubediff watch`: what a person sees, and what a pipe gets.

pub mod program;

use std::path::PathBuf;

use program::Program;

use crate::harness::{self, Cluster, PATIENCE, poll};

/// The lines without their times, which are checked to be times.
fn without_times(text: &str) -> String {
    let line = |line: &str| {
        let Some((time, rest)) = line.split_once(' ').filter(|(time, _)| !time.is_empty()) else {
            return line.to_owned();
        };
        let digits: Vec<&str> = time.split(':').collect();
        assert!(digits.len() == 3 && digits.iter().all(|d| d.len() == 2 && d.parse::<u8>().is_ok()), "{line}");
        rest.to_owned()
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_change_reads_in_the_terminal_as_it_was_drawn_and_is_plain_in_a_pipe() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("watch").await;
    let ns = namespace.name();
    let kubediff =
        Program::watch(cluster.kubeconfig(), &["-n", ns, "deployments", "configmaps", "secrets", "pods"]).await;
    // One after the other: between kinds there is no order.
    let kubectl = async |args: &[&str], shown: &str| {
        let args: Vec<&str> = args.iter().copied().chain(["-n", ns]).collect();
        cluster.kubectl(&args).await;
        let shown = shown.replace("NS", ns);
        poll(PATIENCE, format!("{shown:?} to be shown"), async || kubediff.stdout().contains(&shown).then_some(()))
            .await;
    };
    kubectl(&["create", "deployment", "web", "--image=nginx:1.25"], "+ Deployment NS/web").await;
    kubectl(&["set", "image", "deployment/web", "nginx=nginx:1.27"], "nginx:1.25 -> nginx:1.27").await;
    kubectl(&["create", "secret", "generic", "tls", "--from-literal=tls.key=hunter2"], "+ Secret").await;
    kubectl(&["patch", "secret", "tls", "-p", r#"{"stringData":{"tls.key":"hunter3"}}"#], "rotated").await;
    kubectl(&["create", "configmap", "conf", "--from-literal=a.conf=one\ntwo\nthree\n4\n5\n"], "+ ConfigMap").await;
    let patch = r#"{"data":{"a.conf":"one\ntwo\n3\n4\n5\n"}}"#;
    kubectl(&["patch", "configmap", "conf", "-p", patch], "+3").await;
    cluster
        .apply(ns, "{apiVersion: v1, kind: Pod, metadata: {name: p, finalizers: [a.example/b]}, spec: {nodeName: none, containers: [{name: c, image: c}]}}")
        .await;
    kubectl(&["delete", "pod", "p", "--wait=false"], "is being deleted").await;
    kubectl(&["delete", "configmap", "conf"], "- ConfigMap NS/conf").await;

    let expected = "\
+ Deployment NS/web   kubectl-create
    1 replica of nginx:1.25
~ Deployment NS/web   kubectl-set
    spec.template.spec.containers[nginx].image   nginx:1.25 -> nginx:1.27
+ Secret NS/tls   kubectl-create
    Opaque with tls.key
~ Secret NS/tls   kubectl-patch
    rotated: tls.key
+ ConfigMap NS/conf   kubectl-create
    a.conf
~ ConfigMap NS/conf   kubectl-patch
    data[\"a.conf\"]
         one
         two
        -three
        +3
         4
         5
+ Pod NS/p   kubectl-client-side-apply
    c
~ Pod NS/p
    is being deleted (within 30 s)
- ConfigMap NS/conf   (after";
    let shown = kubediff.stdout();
    assert!(!shown.contains('\u{1b}') && !shown.contains("hunter"), "{shown}");
    // Where controllers run as well, they have their say about the Deployment.
    let shown = without_times(&shown);
    let mut blocks: Vec<String> = Vec::new();
    for line in shown.lines() {
        match blocks.last_mut() {
            Some(block) if line.starts_with(' ') => block.push_str(&format!("\n{line}")),
            _ => blocks.push(line.to_owned()),
        }
    }
    blocks.retain(|block| !block.lines().next().is_some_and(|head| head.ends_with("kube-controller-manager")));
    blocks.retain(|block| !block.contains("/web-") && !block.contains("kube-root-ca.crt"));
    let shown = blocks.join("\n");
    assert!(shown.starts_with(&expected.replace("NS", ns)), "{shown}\n\nand expected\n\n{expected}");
}

/// A kubeconfig whose current context leads nowhere, beside the one that leads to the cluster.
fn two_contexts(cluster: &Cluster, name: &str) -> PathBuf {
    let mut config = cluster.access().kubeconfig();
    let nowhere = serde_json::json!({"name": "nowhere", "cluster": {"server": "https://127.0.0.1:1"}});
    config["clusters"].as_array_mut().unwrap().push(nowhere);
    let context = serde_json::json!({"name": "nowhere", "context": {"cluster": "nowhere", "user": "kubediff-test"}});
    config["contexts"].as_array_mut().unwrap().push(context);
    config["current-context"] = "nowhere".into();
    let path = cluster.dir().join(format!("contexts-{name}"));
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

#[tokio::test]
async fn labels_all_namespaces_and_a_context_are_as_kubectl_has_them() {
    let cluster = harness::cluster().await;
    let (one, two) = (cluster.namespace("watch-one").await, cluster.namespace("watch-two").await);
    let kubeconfig = two_contexts(cluster, one.name());
    let label = format!("only={one}");
    let mut kubediff =
        Program::watch(&kubeconfig, &["configmaps", "-A", "-l", &label, "--context", "kubediff-test", "-o", "json"])
            .await;
    for ns in [&one, &two] {
        cluster.kubectl(&["create", "configmap", "plain", "-n", ns.name()]).await;
        let labelled =
            format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: labelled, labels: {{only: {one}}}}}}}");
        cluster.apply(ns.name(), &labelled).await;
    }
    for ns in [&one, &two] {
        let is = |event: &serde_json::Value| event["resource"]["namespace"] == ns.name();
        let event = kubediff.event("the one with the label", is).await;
        assert_eq!((&event["type"], &event["resource"]["name"]), (&"created".into(), &"labelled".into()), "{event}");
        assert_eq!(event["cluster"]["name"], "kubediff-test", "{event}");
    }
    kubediff.stop().await;
    assert_eq!(kubediff.events().len(), 2, "{}", kubediff.stdout());
}

#[tokio::test]
async fn what_is_not_watched_though_it_was_typed_is_said_once() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("watch-slip").await;
    let mut kubediff =
        Program::watch(cluster.kubeconfig(), &["deploymnet", "configmaps", "nodes", "-n", namespace.name()]).await;
    let slip = "\"deploymnet\" fits nothing that is served; did you mean Deployment?";
    poll(PATIENCE, "the slip of the pen is named", async || kubediff.stderr().contains(slip).then_some(())).await;
    let left_out = "not watched: they are in no namespace";
    poll(PATIENCE, "what is in no namespace is named", async || kubediff.stderr().contains(left_out).then_some(()))
        .await;
    kubediff.stop().await;
    let said = kubediff.stderr();
    assert_eq!(said.matches("fits nothing that is served").count(), 1, "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(left_out)).collect();
    assert!(lines.len() == 1 && lines[0].contains("v1/nodes") && !lines[0].contains("configmaps"), "{said}");
}
