//! The chart's life in a cluster: installed, upgraded, rolled back, uninstalled; and the program of the image at work
//! with what the chart gave it: its ServiceAccount's token, its configuration, its user.
//!
//! No container runs in these tests, so what the kubelet would do is done here: the image's files become a root folder,
//! the ConfigMap and the token are written into it, and the program starts there.

use std::{fs, path::PathBuf, process::Command};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{
    CHART,
    image::{self, contained},
};
use crate::harness::{
    self, Cluster, Namespace, PATIENCE, Receiver, certs::CA, cluster::free_port, guard::Daemon, poll,
};

/// A namespace that lets in nothing that is not "restricted".
async fn restricted(cluster: &Cluster) -> Namespace {
    let namespace = cluster.namespace("chart").await;
    cluster.kubectl(&["label", "ns", namespace.name(), "pod-security.kubernetes.io/enforce=restricted"]).await;
    namespace
}

async fn token(cluster: &Cluster, namespace: &str) -> String {
    cluster.kubectl(&["create", "token", "kubediff", "-n", namespace]).await.trim().to_owned()
}

/// kubediff as its pod would run it.
struct Pod {
    daemon: Daemon,
    probes: String,
}

impl Pod {
    async fn start(cluster: &Cluster, namespace: &str) -> Self {
        let number = rand::random::<u32>();
        let root: PathBuf = cluster.dir().join(format!("pod-{number:08x}"));
        let copied = Command::new("cp").arg("-a").arg(&image::image().await.rootfs).arg(&root).status().unwrap();
        assert!(copied.success());
        let account = root.join("var/run/secrets/kubernetes.io/serviceaccount");
        for folder in [&account, &root.join("etc/kubediff"), &root.join("tmp")] {
            fs::create_dir_all(folder).unwrap();
        }
        let writable = Command::new("chmod").arg("1777").arg(root.join("tmp")).status().unwrap();
        assert!(writable.success());
        let config = cluster.kubectl(&["get", "configmap", "kubediff", "-n", namespace, "-o", "json"]).await;
        let config: Value = serde_json::from_str(&config).unwrap();
        fs::write(root.join("etc/kubediff/config.toml"), config["data"]["config.toml"].as_str().unwrap()).unwrap();
        fs::write(root.join("etc/hosts"), "127.0.0.1 receiver.test\n").unwrap();
        fs::write(account.join("ca.crt"), &CA.pem).unwrap();
        fs::write(account.join("namespace"), namespace).unwrap();
        fs::write(account.join("token"), token(cluster, namespace).await).unwrap();

        let pods = cluster.kubectl(&["get", "statefulset", "kubediff", "-n", namespace, "-o", "json"]).await;
        let pods: Value = serde_json::from_str(&pods).unwrap();
        let container = &pods["spec"]["template"]["spec"]["containers"][0];
        let user = &pods["spec"]["template"]["spec"]["securityContext"]["runAsUser"];
        assert_eq!(user, &json!(65532), "the user that it runs as here");
        // Every pod has addresses of its own; here they share one.
        let probes = format!("127.0.0.1:{}", free_port());
        let port = cluster.access().url.rsplit(':').next().unwrap().to_owned();
        let mut variables = vec![
            ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
            ("KUBERNETES_SERVICE_PORT", &port),
            ("KUBEDIFF__SERVER__PROBES", &probes),
        ];
        for variable in container["env"].as_array().unwrap() {
            variables.push((variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap()));
        }
        let mut command = contained(&root, &variables);
        command.extend(container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned()));
        let program = command.remove(0);
        let daemon =
            Daemon::start(&format!("kubediff-{number:08x}"), cluster.dir(), program.as_ref(), command).unwrap();
        let mut pod = Self { daemon, probes };
        pod.ready().await;
        pod
    }

    async fn ready(&mut self) {
        let (url, http) =
            (format!("http://{}/readyz", self.probes), reqwest::Client::builder().no_proxy().build().unwrap());
        poll(PATIENCE, "kubediff to be ready", async || {
            assert!(self.daemon.exited().is_none(), "{}", self.daemon.log_tail());
            http.get(&url).send().await.is_ok_and(|answer| answer.status() == StatusCode::OK).then_some(())
        })
        .await;
    }
}

/// Waits for the event of the creation of a ConfigMap.
async fn arrives(receiver: &Receiver, namespace: &str, name: &str, pod: &Pod) -> Value {
    let wanted = |event: &Value| {
        let resource = &event["resource"];
        event["type"] == "created" && resource["namespace"] == namespace && resource["name"] == name
    };
    poll(PATIENCE, format!("the event of {namespace}/{name}; {}", pod.daemon.log_tail()), async || {
        receiver.received().iter().map(harness::Received::json).find(wanted)
    })
    .await
}

/// A volume for the claim of the release's pod, as a provisioner would make it.
async fn volume(cluster: &Cluster, namespace: &str) {
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("pv-{namespace}")},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/nowhere"},
            "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "",
            "claimRef": {"namespace": namespace, "name": "state-kubediff-0"}}});
    let made = cluster.access().request(Method::POST, "/api/v1/persistentvolumes").json(&volume).send().await.unwrap();
    assert!(made.status().is_success(), "{}", made.text().await.unwrap());
}

/// What kubectl says, once it can: kinds that other tests make come and go between two of its requests.
async fn kubectl(cluster: &Cluster, args: &[&str]) -> String {
    poll(PATIENCE, format!("kubectl {}", args.join(" ")), async || {
        let output = cluster.try_run("kubectl", args).await;
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    })
    .await
}

/// Everything in a namespace that someone put there, and the cluster's roles that name it.
async fn contents(cluster: &Cluster, namespace: &str) -> Vec<String> {
    // Only groups that are always served.
    let kinds = kubectl(cluster, &["api-resources", "--namespaced", "--verbs=list", "-o", "name"]).await;
    let built_in = |kind: &&str| !kind.contains('.') || kind.ends_with(".k8s.io") || kind.matches('.').count() == 1;
    let kinds: Vec<_> = kinds.lines().filter(|kind| !kind.starts_with("events")).filter(built_in).collect();
    let found = kubectl(cluster, &["get", &kinds.join(","), "-n", namespace, "-o", "name"]).await;
    let roles = cluster.kubectl(&["get", "clusterroles,clusterrolebindings", "-o", "name"]).await;
    let roles = roles.lines().filter(|name| name.contains(namespace));
    let mut all: Vec<_> = found.lines().chain(roles).map(str::to_owned).collect();
    all.sort();
    all
}

#[tokio::test]
async fn installed_it_tells_of_changes_and_uninstalled_it_leaves_nothing() {
    let cluster = harness::cluster().await;
    cluster.controllers().await;
    let namespace = restricted(cluster).await;
    let name = namespace.name();
    volume(cluster, name).await;
    let before = poll(PATIENCE, "what every namespace has", async || {
        let all = contents(cluster, name).await;
        all.iter().any(|object| object == "configmap/kube-root-ca.crt").then_some(all)
    })
    .await;
    let receiver = Receiver::start();
    // By name: what resolves names in a static program is another thing than in a dynamic one.
    let url = format!("config.sinks.hook.url={}", receiver.url("/hook").replace("127.0.0.1", "receiver.test"));
    let helm = async |verb: &str, more: &[&str]| {
        let args = [&[verb, "kubediff", CHART, "-n", name, "--wait", "--timeout", "120s"], more].concat();
        cluster.helm(&args).await
    };
    let values = ["--set", "config.sinks.hook.type=webhook", "--set", &url];

    let notes = helm("install", &values).await;
    assert!(notes.contains("it can change nothing") && notes.contains("Events go to: hook"), "{notes}");
    let pod: Value =
        serde_json::from_str(&cluster.kubectl(&["get", "pod", "kubediff-0", "-n", name, "-o", "json"]).await).unwrap();
    assert_eq!(pod["status"]["phase"], "Running");

    let mut running = Pod::start(cluster, name).await;
    cluster.kubectl(&["create", "configmap", "first", "-n", name, "--from-literal=a=b"]).await;
    let event = arrives(&receiver, name, "first", &running).await;
    assert_eq!(event["actors"][0]["manager"], "kubectl-create", "{event}");
    running.daemon.signal("TERM");
    poll(PATIENCE, "kubediff to end", async || running.daemon.exited()).await;

    let stamp = async || {
        let path = "jsonpath={.metadata.annotations.kubediff\\.io/config}";
        cluster.kubectl(&["get", "pod", "kubediff-0", "-n", name, "-o", path]).await
    };
    let first = stamp().await;
    helm("upgrade", &[&values[..], &["--set", "config.cluster=other"]].concat()).await;
    assert_ne!(stamp().await, first, "the pod has the new configuration");
    cluster.helm(&["rollback", "kubediff", "1", "-n", name, "--wait", "--timeout", "120s"]).await;
    assert_eq!(stamp().await, first, "the pod has the old configuration");

    cluster.helm(&["uninstall", "kubediff", "-n", name, "--wait"]).await;
    cluster.kubectl(&["delete", "configmap", "first", "-n", name]).await;
    let mut left = Vec::new();
    let began = std::time::Instant::now();
    while began.elapsed() < PATIENCE {
        left = contents(cluster, name).await;
        if left == before {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
    }
    assert_eq!(left, before, "what uninstalling left");
    cluster.kubectl(&["delete", "pv", &format!("pv-{name}")]).await;
}

/// The release without pods that run: only what it may do is asked.
async fn install(cluster: &Cluster, namespace: &str, values: &[&str]) {
    let plain = ["install", "kubediff", CHART, "-n", namespace, "--set", "persistence.enabled=false"];
    cluster.helm(&[&plain[..], values].concat()).await;
}

#[tokio::test]
async fn with_no_secrets_the_server_refuses_secrets_and_nothing_else() {
    let cluster = harness::cluster().await;
    let namespace = restricted(cluster).await;
    install(cluster, namespace.name(), &["--set", "rbac.resources=no-secrets"]).await;
    let access = cluster.access().with_token(token(cluster, namespace.name()).await);
    cluster.kubectl(&["create", "secret", "generic", "s", "-n", namespace.name(), "--from-literal=a=b"]).await;

    let served = kubectl(cluster, &["api-resources", "--verbs=list,watch", "--no-headers", "-o", "wide"]).await;
    let mut asked = 0;
    for line in served.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let at = words.iter().position(|word| matches!(*word, "true" | "false")).unwrap();
        let (resource, version) = (words[0], words[at - 1]);
        let path = if version.contains('/') {
            format!("/apis/{version}/{resource}")
        } else {
            format!("/api/{version}/{resource}")
        };
        // CRDs that other tests make are no one's to read here; see rbac.groups.
        if version.contains('/') && version.contains('.') && !version.split('/').next().unwrap().ends_with(".k8s.io") {
            continue;
        }
        let status = access.get(&format!("{path}?limit=1")).send().await.unwrap().status();
        let expected = if path == "/api/v1/secrets" { StatusCode::FORBIDDEN } else { StatusCode::OK };
        assert_eq!(status, expected, "{path}");
        asked += 1;
    }
    assert!(asked > 40, "{asked} resources were asked for");
    for path in [format!("/api/v1/namespaces/{namespace}/secrets"), format!("/api/v1/namespaces/{namespace}/secrets/s")]
    {
        assert_eq!(access.get(&path).send().await.unwrap().status(), StatusCode::FORBIDDEN, "{path}");
    }
    cluster.helm(&["uninstall", "kubediff", "-n", namespace.name()]).await;
}

#[tokio::test]
async fn the_widest_role_can_still_change_nothing_and_enter_nothing() {
    let cluster = harness::cluster().await;
    let namespace = restricted(cluster).await;
    install(cluster, namespace.name(), &[]).await;
    let access = cluster.access().with_token(token(cluster, namespace.name()).await);
    let may = async |verb: &str, resource: &str, subresource: &str| {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {
            "resourceAttributes": {"namespace": namespace.name(), "verb": verb, "resource": resource,
                "subresource": subresource, "name": "x"}}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer: Value =
            access.request(Method::POST, path).json(&review).send().await.unwrap().json().await.unwrap();
        answer["status"]["allowed"].as_bool().unwrap()
    };
    assert!(may("list", "pods", "").await && may("watch", "secrets", "").await);
    for verb in ["create", "update", "patch", "delete", "deletecollection", "impersonate", "bind", "escalate", "get"] {
        assert!(!may(verb, "pods", "").await, "{verb}");
    }
    // These answer to HTTP GET, so that "get" on "*" would open them.
    for (resource, subresource) in [
        ("pods", "exec"),
        ("pods", "attach"),
        ("pods", "portforward"),
        ("pods", "proxy"),
        ("nodes", "proxy"),
        ("services", "proxy"),
        ("pods", "log"),
        ("serviceaccounts", "token"),
    ] {
        for verb in ["get", "create"] {
            assert!(!may(verb, resource, subresource).await, "{verb} {resource}/{subresource}");
        }
    }
    for path in ["exec?command=id&stdout=1", "log", "proxy/"] {
        let path = format!("/api/v1/namespaces/{namespace}/pods/kubediff-0/{path}");
        assert_eq!(access.get(&path).send().await.unwrap().status(), StatusCode::FORBIDDEN, "{path}");
    }
    cluster.helm(&["uninstall", "kubediff", "-n", namespace.name()]).await;
}

#[tokio::test]
async fn in_its_namespaces_alone_it_works_without_a_cluster_role() {
    let cluster = harness::cluster().await;
    let home = restricted(cluster).await;
    let (shop, other) = (cluster.namespace("shop").await, cluster.namespace("other").await);
    let receiver = Receiver::start();
    let values = json!({
        "rbac": {"scope": "namespaces", "namespaces": [shop.name()]},
        "config": {"sinks": {"hook": {"type": "webhook", "url": receiver.url("/hook")}}},
    });
    let file = cluster.dir().join(format!("values-{home}.json"));
    fs::write(&file, values.to_string()).unwrap();
    install(cluster, home.name(), &["--values", &file.to_string_lossy()]).await;
    let all = contents(cluster, home.name()).await;
    assert!(!all.iter().any(|object| object.starts_with("cluster")), "{all:?}");

    let access = cluster.access().with_token(token(cluster, home.name()).await);
    let status = async |path: String| access.get(&path).send().await.unwrap().status();
    assert_eq!(status(format!("/api/v1/namespaces/{shop}/configmaps")).await, StatusCode::OK);
    assert_eq!(status(format!("/api/v1/namespaces/{other}/configmaps")).await, StatusCode::FORBIDDEN);
    assert_eq!(status("/api/v1/configmaps".into()).await, StatusCode::FORBIDDEN);
    assert_eq!(status("/api/v1/namespaces".into()).await, StatusCode::FORBIDDEN);

    let running = Pod::start(cluster, home.name()).await;
    for namespace in [&other, &shop] {
        cluster.kubectl(&["create", "configmap", "a", "-n", namespace.name()]).await;
    }
    arrives(&receiver, shop.name(), "a", &running).await;
    let told = receiver.received().iter().map(|one| one.json()["resource"]["namespace"].clone()).collect::<Vec<_>>();
    assert!(told.iter().all(|namespace| namespace == shop.name()), "{told:?}");
    drop(running);
    cluster.helm(&["uninstall", "kubediff", "-n", home.name()]).await;
    let left = contents(cluster, shop.name()).await;
    assert!(!left.iter().any(|object| object.contains("role")), "{left:?}");
}
