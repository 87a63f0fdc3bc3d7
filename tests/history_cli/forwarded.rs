//! The kubediff that is installed in a cluster, asked with nothing but a kubeconfig: through the API server, a kubelet's
//! port-forward (kwok plays the kubelet; the bytes go the real way), and the page of a real daemon behind it.

use serde_json::{Value, json};

use super::{events, kubediff, recorded, said};
use crate::{
    delivery::daemon::Kubediff,
    harness::{self, Cluster, Options, PATIENCE, cluster::flags, cluster::free_port, guard::Daemon, poll, tools},
};

/// The port that the pod says its page has. What listens there is decided by kwok.
const PORT: u16 = 8080;

fn pod(ports: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"name": "kubediff-0", "labels": {"app.kubernetes.io/name": "kubediff"}},
           "spec": {"nodeName": "kwok-0", "containers": [{"name": "kubediff", "image": "kubediff", "ports": ports}]}})
    .to_string()
}

/// A node whose kubelet forwards the pod's port to one of this machine.
async fn kubelet(cluster: &Cluster, to: u16) -> Daemon {
    let kwok = tools::path("kwok").await.unwrap();
    let forward = json!({"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterPortForward",
        "metadata": {"name": "page"},
        "spec": {"forwards": [{"ports": [PORT], "target": {"address": "127.0.0.1", "port": to}}]}});
    let config = cluster.dir().join("forward.yaml");
    std::fs::write(&config, forward.to_string()).unwrap();
    let port = free_port();
    let mut args = flags(&[
        ("kubeconfig", &cluster.kubeconfig().to_string_lossy()),
        ("manage-all-nodes", "true"),
        ("server-address", &format!("127.0.0.1:{port}")),
        ("node-ip", "127.0.0.1"),
        ("node-port", &port.to_string()),
        ("tls-cert-file", &cluster.file("server.pem")),
        ("tls-private-key-file", &cluster.file("server.key")),
    ]);
    let stages = kwok.with_file_name("stages");
    for stage in ["node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-delete"] {
        args.push(format!("--config={}/{stage}.yaml", stages.display()));
    }
    args.push(format!("--config={}", config.display()));
    let daemon = Daemon::start("kwok", cluster.dir(), &kwok, args).unwrap();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "kwok-0"}});
    cluster.apply("default", &node.to_string()).await;
    daemon
}

#[tokio::test]
async fn with_nothing_but_a_kubeconfig_history_comes_through_a_port_forward() {
    // The name of a fake node leads nowhere.
    let args = vec!["--kubelet-preferred-address-types=InternalIP".to_owned()];
    let cluster = Cluster::start(Options { apiserver_args: args, ..Options::default() }).await;
    let (installed, shop) = (cluster.namespace("installed").await, cluster.namespace("shop").await);
    let page = free_port();
    let config = format!(
        "[watch]\nnamespaces = [\"{shop}\"]\ninclude = [\"v1/configmaps\"]\n\
         [server]\nprobes = \"\"\npage = \"127.0.0.1:{page}\"\nauth = \"token\"\n[sinks.log]\ntype = \"stdout\"\n"
    );
    let mut daemon = Kubediff::new(cluster.kubeconfig(), &config);
    daemon.start().await;
    let kubeconfig = cluster.kubeconfig().to_str().unwrap().to_owned();
    let look = || {
        let output = kubediff(&["history", "--kubeconfig", &kubeconfig]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, none) = look();
    assert!(code == Some(1) && none.contains("no pod in the cluster has the label"), "{none}");
    cluster.apply(installed.name(), &pod(&json!([]))).await;
    let (code, closed) = look();
    assert!(code == Some(1) && closed.contains("serves no page"), "{closed}");
    cluster.kubectl(&["delete", "pod", "kubediff-0", "--force", "--grace-period=0", "-n", installed.name()]).await;
    cluster.apply(installed.name(), &pod(&json!([{"name": "page", "containerPort": PORT}]))).await;
    let (code, refused) = look();
    assert!(code == Some(1) && refused.contains("cannot reach the pod"), "no kubelet is there yet: {refused}");

    let _kubelet = kubelet(&cluster, page).await;
    // The port is open from here on; the page behind it wants to know who asks.
    let (code, who) = poll(PATIENCE, "the kubelet to forward", async || {
        let (code, said) = look();
        (!said.contains("cannot reach the pod")).then_some((code, said))
    })
    .await;
    let advice = format!("give --in {installed}, which sends it the token of your kubeconfig");
    assert!(code == Some(1) && who.contains(&advice), "to what has a label the token is not sent: {who}");

    let with = ["--kubeconfig", kubeconfig.as_str(), "--in", installed.name(), "-n", shop.name()];
    let of = |args: &[&'static str]| -> Vec<String> { args.iter().chain(&with).map(|&text| text.to_owned()).collect() };
    cluster.kubectl(&["create", "cm", "flags", "--from-literal=a=1", "-n", shop.name()]).await;
    let flags_of = of(&["cm/flags"]);
    let flags_of: Vec<&str> = flags_of.iter().map(String::as_str).collect();
    recorded(&flags_of, 1).await;
    cluster.kubectl(&["patch", "cm", "flags", "-n", shop.name(), "-p", r#"{"data":{"a":"2"}}"#]).await;
    let told = recorded(&flags_of, 2).await;
    assert_eq!(told[0]["changes"][0]["to"], "2");
    assert_eq!(events(&flags_of).len(), 2);
    let said_of = |args: &[&'static str]| {
        let args = of(args);
        said(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(said_of(&["at", "cm/flags", "now"]).contains("a: \"2\""));
    assert!(said_of(&["blame", "cm/flags"]).contains("kubectl-patch*"));

    // A stream stays open through it.
    let dir = tempfile::tempdir().unwrap();
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_kubediff"));
    let tail = Daemon::start("tail", dir.path(), binary, of(&["tail", "cm", "--lines", "0", "-o", "json"])).unwrap();
    let mut n = 2;
    let line = poll(PATIENCE, "tail to tell of a change", async || {
        n += 1;
        let patch = json!({"data": {"a": n.to_string()}}).to_string();
        cluster.kubectl(&["patch", "cm", "flags", "-n", shop.name(), "-p", &patch]).await;
        let log = std::fs::read_to_string(dir.path().join("tail.log")).ok()?;
        log.lines().next().map(str::to_owned)
    })
    .await;
    assert!(serde_json::from_str::<Value>(&line).is_ok_and(|event| event["resource"]["name"] == "flags"), "{line}");
    drop(tail);
    let (code, wrong) = {
        let output = kubediff(&["history", "--kubeconfig", &kubeconfig, "--in", installed.name(), "--token", "wrong"]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(code == Some(1) && wrong.contains("does not take this token"), "one that is given is used: {wrong}");
    daemon.stop().await;

    // On loopback without tokens, as the chart has it: for whoever may forward a port, and for nobody else.
    let open = config.replace("auth = \"token\"\n", "");
    assert_ne!(open, config);
    let mut daemon = Kubediff::new(cluster.kubeconfig(), &open);
    daemon.start().await;
    cluster.kubectl(&["create", "cm", "later", "-n", shop.name()]).await;
    recorded(&["cm/later", "--kubeconfig", &kubeconfig], 1).await;
    let limited = limited(&cluster, installed.name()).await;
    let ask = |more: &[&str]| kubediff(&[&["history", "cm/later", "--kubeconfig", &limited], more].concat());
    let refused = ask(&[]);
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && why.contains("say where kubediff is: --in NAMESPACE"), "{why}");
    let pod = format!("{installed}/kubediff-0");
    for place in [installed.name(), &pod] {
        let found = ask(&["--in", place]);
        let text = String::from_utf8(found.stdout).unwrap();
        assert!(text.contains("later"), "{place}: {text} {}", String::from_utf8_lossy(&found.stderr));
    }
    daemon.stop().await;
    harness::say("history came through a port-forward");
}

/// The kubeconfig of somebody who may see and reach pods of one namespace.
async fn limited(cluster: &Cluster, namespace: &str) -> String {
    cluster.kubectl(&["create", "serviceaccount", "jane", "-n", namespace]).await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "look"}, "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create", "get"]}]});
    cluster.apply(namespace, &role.to_string()).await;
    let account = format!("--serviceaccount={namespace}:jane");
    cluster.kubectl(&["create", "rolebinding", "jane", "-n", namespace, "--role=look", &account]).await;
    let token = cluster.kubectl(&["create", "token", "jane", "-n", namespace]).await;
    let all = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let one = all.replace(cluster.access().token.as_str(), token.trim());
    assert_ne!(all, one);
    let path = cluster.dir().join("limited.kubeconfig");
    std::fs::write(&path, one).unwrap();
    path.to_str().unwrap().to_owned()
}
