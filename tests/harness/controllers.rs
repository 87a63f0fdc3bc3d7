//! What makes Deployments roll: controller-manager, scheduler, and kwok, which plays a node on which pods run.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{Cluster, PATIENCE, cluster::flags, guard::Daemon, say, tools};

/// Starts them with one fake node, `kwok-0`, and returns when it takes pods.
pub async fn start(cluster: &Cluster) -> Result<[Daemon; 3], String> {
    let kubeconfig = cluster.kubeconfig().to_string_lossy();
    let manager = tools::path("kube-controller-manager").await?;
    let scheduler = tools::path("kube-scheduler").await?;
    let kwok = tools::path("kwok").await?;
    let stages = kwok.with_file_name("stages");
    let began = Instant::now();
    let mut kwok_args =
        flags(&[("kubeconfig", &kubeconfig), ("manage-all-nodes", "true"), ("node-lease-duration-seconds", "40")]);
    for stage in [
        "node/fast/node-initialize",
        "node/heartbeat-with-lease/node-heartbeat-with-lease",
        "pod/fast/pod-ready",
        "pod/fast/pod-complete",
        "pod/fast/pod-delete",
    ] {
        kwok_args.push(format!("--config={}/{stage}.yaml", stages.display()));
    }
    let start = |name, program: &Path, args: Vec<String>| {
        Daemon::start(name, cluster.dir(), program, args).map_err(|e| format!("{name}: {e}"))
    };
    let common = [
        ("kubeconfig", &*kubeconfig),
        ("leader-elect", "false"),
        ("secure-port", "0"),
        ("kube-api-qps", "200"),
        ("kube-api-burst", "400"),
    ];
    let mut manager_args = flags(&common);
    manager_args.extend(flags(&[
        ("service-account-private-key-file", &cluster.file("service-accounts.key")),
        ("root-ca-file", &cluster.file("ca.pem")),
    ]));
    let mut daemons = [
        start("kube-controller-manager", &manager, manager_args)?,
        start("kube-scheduler", &scheduler, flags(&common))?,
        start("kwok", &kwok, kwok_args)?,
    ];
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": "kwok-0", "labels": {"kubernetes.io/hostname": "kwok-0", "kubernetes.io/os": "linux"}}});
    let created = cluster.access().request(reqwest::Method::POST, "/api/v1/nodes").json(&node).send().await;
    created.and_then(reqwest::Response::error_for_status).map_err(|e| format!("the fake node: {e}"))?;
    let deadline = Instant::now() + 2 * PATIENCE;
    loop {
        let node = cluster.get_json("/api/v1/nodes/kwok-0").await?;
        let ready = node["status"]["conditions"].as_array().into_iter().flatten();
        let ready = ready.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
        let tainted = node["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
        if ready && !tainted {
            break;
        }
        if let Some(dead) = daemons.iter_mut().find_map(|d| d.exited().map(|_| d.log_tail())) {
            return Err(dead);
        }
        if Instant::now() > deadline {
            return Err(format!("the fake node is not ready: {node}\n{}", daemons[2].log_tail()));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    say(format_args!("controllers and kwok ready in {:.1} s", began.elapsed().as_secs_f32()));
    Ok(daemons)
}
