//! `kubediff watch`: what a person sees, and what a pipe gets.

pub mod program;

use program::Program;

use crate::harness::{self, PATIENCE, poll};

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
