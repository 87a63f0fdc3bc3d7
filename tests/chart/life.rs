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
pub(super) async fn restricted(cluster: &Cluster) -> Namespace {
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
    page: String,
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
        let (whole, own) = (&pods["spec"]["template"]["spec"]["securityContext"], &container["securityContext"]);
        assert_eq!(whole["runAsUser"], 65532, "the user that it runs as here");
        assert_eq!(own["readOnlyRootFilesystem"], true, "as its files are here");
        // A runtime would see to the rest.
        assert_eq!(own["allowPrivilegeEscalation"], false);
        assert_eq!(own["capabilities"], json!({"drop": ["ALL"]}));
        assert_eq!(
            (&whole["runAsNonRoot"], &whole["seccompProfile"]["type"]),
            (&json!(true), &json!("RuntimeDefault"))
        );
        // Every pod has addresses of its own; here they share one.
        let [probes, page] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
        let served = container["ports"].as_array().unwrap().iter().any(|port| port["name"] == "page");
        let port = cluster.access().url.rsplit(':').next().unwrap().to_owned();
        let mut variables = vec![
            ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
            ("KUBERNETES_SERVICE_PORT", &port),
            ("KUBEDIFF__SERVER__PROBES", &probes),
            ("KUBEDIFF__SERVER__PAGE", if served { &page } else { "" }),
        ];
        for variable in container["env"].as_array().unwrap() {
            variables.push((variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap()));
        }
        let mut command = contained(&root, &variables);
        command.extend(container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned()));
        let program = command.remove(0);
        let daemon =
            Daemon::start(&format!("kubediff-{number:08x}"), cluster.dir(), program.as_ref(), command).unwrap();
        let mut pod = Self { daemon, probes, page };
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
    volume_of(cluster, namespace, "").await;
}

async fn volume_of(cluster: &Cluster, namespace: &str, class: &str) {
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("pv-{namespace}")},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/nowhere"},
            "persistentVolumeReclaimPolicy": "Retain", "storageClassName": class,
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
pub(super) async fn contents(cluster: &Cluster, namespace: &str) -> Vec<String> {
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
async fn it_is_installed_without_a_single_value_and_says_where_the_image_comes_from() {
    let cluster = harness::cluster().await;
    cluster.controllers().await;
    let namespace = restricted(cluster).await;
    let name = namespace.name();
    volume(cluster, name).await;
    let notes = cluster.helm(&["install", "kubediff", CHART, "-n", name, "--wait", "--timeout", "120s"]).await;
    assert!(notes.contains("STATUS: deployed"), "{notes}");
    let image = concat!("kubediff:", env!("CARGO_PKG_VERSION"));
    assert!(notes.contains("make image") && notes.contains(&format!("kind load docker-image {image}")), "{notes}");
    let pod = cluster.kubectl(&["get", "pod", "kubediff-0", "-n", name, "-o", "json"]).await;
    let pod: Value = serde_json::from_str(&pod).unwrap();
    assert_eq!(pod["spec"]["containers"][0]["image"], image);
    let ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    assert!(pod["status"]["conditions"].as_array().unwrap().iter().any(ready), "{pod}");
    let claim =
        cluster.kubectl(&["get", "pvc", "state-kubediff-0", "-n", name, "-o", "jsonpath={.status.phase}"]).await;
    assert_eq!(claim, "Bound");
    let set = ["--set", "image.repository=registry.example.com/kubediff"];
    let notes = cluster.helm(&[&["upgrade", "kubediff", CHART, "-n", name], &set[..]].concat()).await;
    assert!(!notes.contains("make image"), "{notes}");
    cluster.helm(&["uninstall", "kubediff", "-n", name, "--wait"]).await;
    cluster.kubectl(&["delete", "pv", &format!("pv-{name}")]).await;
}

#[tokio::test]
async fn a_volume_grows_in_the_steps_of_the_documentation() {
    let cluster = harness::cluster().await;
    cluster.controllers().await;
    let namespace = restricted(cluster).await;
    let name = namespace.name();
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "example.com/none", "allowVolumeExpansion": true});
    cluster.apply(name, &class.to_string()).await;
    volume_of(cluster, name, name).await;
    let class = format!("persistence.storageClass={name}");
    let helm = async |verb: &str, more: &[&str]| {
        let args = [verb, "kubediff", CHART, "-n", name, "--wait", "--timeout", "120s", "--set", &class];
        cluster.try_run("helm", &[&args[..], more].concat()).await
    };
    assert!(helm("install", &[]).await.status.success());
    let uid = async |what: &str| cluster.kubectl(&["get", what, "-n", name, "-o", "jsonpath={.metadata.uid}"]).await;
    let (claim, pod) = (uid("pvc/state-kubediff-0").await, uid("pod/kubediff-0").await);
    let larger = ["--set", "persistence.size=5Gi", "--set", "config.state.max_bytes=4GiB"];
    let refused = helm("upgrade", &larger).await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("updates to statefulset spec"), "{said}");

    let size = r#"{"spec":{"resources":{"requests":{"storage":"5Gi"}}}}"#;
    cluster.kubectl(&["patch", "pvc", "state-kubediff-0", "-n", name, "-p", size]).await;
    cluster.kubectl(&["delete", "statefulset", "kubediff", "-n", name, "--cascade=orphan"]).await;
    assert_eq!(uid("pod/kubediff-0").await, pod, "it runs on");
    let upgraded = helm("upgrade", &larger).await;
    assert!(upgraded.status.success(), "{}", String::from_utf8_lossy(&upgraded.stderr));
    let asked = "jsonpath={.spec.volumeClaimTemplates[0].spec.resources.requests.storage}";
    assert_eq!(cluster.kubectl(&["get", "statefulset", "kubediff", "-n", name, "-o", asked]).await, "5Gi");
    assert_eq!(uid("pvc/state-kubediff-0").await, claim, "what is on it is kept");
    let config = cluster.kubectl(&["get", "configmap", "kubediff", "-n", name, "-o", "yaml"]).await;
    assert!(config.contains("4GiB"), "{config}");
    cluster.helm(&["uninstall", "kubediff", "-n", name, "--wait"]).await;
    cluster.kubectl(&["delete", "pv", &format!("pv-{name}")]).await;
    cluster.kubectl(&["delete", "storageclass", name]).await;
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
    // Loopback, where everybody may look, is all that there is in a test: hence the token.
    let values = ["config.sinks.hook.type=webhook", &url, "page.enabled=true", "config.server.auth=token"];
    let values: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();

    let notes = helm("install", &values).await;
    assert!(notes.contains("it can change nothing") && notes.contains("Events go to: hook"), "{notes}");
    let pod: Value =
        serde_json::from_str(&cluster.kubectl(&["get", "pod", "kubediff-0", "-n", name, "-o", "json"]).await).unwrap();
    assert_eq!(pod["status"]["phase"], "Running");

    let mut running = Pod::start(cluster, name).await;
    cluster.kubectl(&["create", "configmap", "first", "-n", name, "--from-literal=a=b"]).await;
    let event = arrives(&receiver, name, "first", &running).await;
    assert_eq!(event["actors"][0]["manager"], "kubectl-create", "{event}");
    the_page_asks_who_it_is(cluster, name, &running).await;
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

/// With the permission that the chart gives it for that, and no more than the reader's own.
async fn the_page_asks_who_it_is(cluster: &Cluster, namespace: &str, pod: &Pod) {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}/api/v1/events?namespace={namespace}&name=first", pod.page);
    let seen = async |token: &str| {
        let answer = http.get(&url).bearer_auth(token).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        let events = serde_json::from_str::<Value>(&text).unwrap()["events"].as_array().map(Vec::len);
        (status, events)
    };
    assert_eq!(http.get(&url).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    assert_eq!(seen("made-up").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(seen(&cluster.access().token).await, (StatusCode::OK, Some(1)));
    // What it may list by itself is shown to its own account, and nothing to one that may list nothing.
    assert_eq!(seen(&token(cluster, namespace).await).await, (StatusCode::OK, Some(1)));
    cluster.kubectl(&["create", "serviceaccount", "stranger", "-n", namespace]).await;
    let stranger = cluster.kubectl(&["create", "token", "stranger", "-n", namespace]).await;
    assert_eq!(seen(stranger.trim()).await, (StatusCode::OK, Some(0)));
    cluster.kubectl(&["delete", "serviceaccount", "stranger", "-n", namespace]).await;
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
