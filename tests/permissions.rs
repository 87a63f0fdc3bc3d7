//! What kubediff may and may not read: the roles that it prints are enough and not too much; what is not permitted is
//! said once and taken up when it comes.

use std::{fs, path::PathBuf, process::Command};

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{
    delivery::daemon::Kubediff,
    harness::{Access, Cluster, PATIENCE, Receiver, cluster, cluster::free_port, guard, poll},
};

/// A ServiceAccount, and a kubeconfig with its token.
pub struct Reader {
    cluster: &'static Cluster,
    namespace: String,
    pub access: Access,
    pub kubeconfig: PathBuf,
}

impl Reader {
    pub async fn create(cluster: &'static Cluster, namespace: &str) -> Self {
        cluster.kubectl(&["create", "serviceaccount", "reader", "-n", namespace]).await;
        let token = cluster.kubectl(&["create", "token", "reader", "-n", namespace]).await;
        let access = cluster.access().with_token(token.trim());
        let kubeconfig = access.write_kubeconfig(cluster.dir(), &format!("reader-{namespace}"));
        Self { cluster, namespace: namespace.to_owned(), access, kubeconfig }
    }

    /// Lets it list and watch these resources of the core group in its namespace, and no others.
    pub async fn allow(&self, resources: &[&str]) {
        let (ns, all) = (&self.namespace, resources.join(", "));
        let manifest = format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: reader, namespace: {ns}}}\n\
             rules: [{{apiGroups: [''], resources: [{all}], verbs: [list, watch]}}]\n---\n\
             apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: reader, namespace: {ns}}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}}\n\
             subjects: [{{kind: ServiceAccount, name: reader, namespace: {ns}}}]\n"
        );
        self.cluster.apply(ns, &manifest).await;
        for resource in resources {
            self.until(&format!("/api/v1/namespaces/{ns}/{resource}"), StatusCode::OK).await;
        }
    }

    /// The server looks at roles through a watch of its own: what was applied holds a moment later.
    async fn until(&self, path: &str, status: StatusCode) {
        poll(PATIENCE, format!("{path} answers {status}"), async || {
            (self.access.get(path).send().await.ok()?.status() == status).then_some(())
        })
        .await;
    }
}

/// `kubediff rbac` with a configuration, as this user.
async fn rbac(kubeconfig: &PathBuf, config: &str, bind: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubediff.toml");
    fs::write(&file, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubediff"));
    let name = bind.replace('/', "-");
    command.arg("rbac").arg("--config").arg(&file).arg("--kubeconfig").arg(kubeconfig);
    let output = guard::run(command.args(["--name", &name, "--bind", bind])).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn documents(yaml: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    all.into_iter().filter(Value::is_object).collect()
}

async fn apply(cluster: &Cluster, objects: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let file = cluster.dir().join(format!("{:08x}.json", rand::random::<u32>()));
    fs::write(&file, list.to_string()).unwrap();
    cluster.kubectl(&["apply", "-f", &file.to_string_lossy()]).await;
}

async fn metrics(port: u16) -> Option<String> {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    http.get(format!("http://127.0.0.1:{port}/metrics")).send().await.ok()?.text().await.ok()
}

fn denied(metrics: &str) -> Vec<&str> {
    metrics.lines().filter(|line| line.contains("state=\"not_permitted\"")).collect()
}

#[tokio::test]
async fn with_the_role_that_it_prints_nothing_is_forbidden() {
    let cluster = cluster().await;
    let ns = cluster.namespace("rbac").await;
    let reader = Reader::create(cluster, ns.name()).await;
    // Everything that is always served; the CRDs of other tests come and go.
    let groups = r#"include = ["v1/*", "apps/*", "batch/*", "autoscaling/*", "policy/*", "*.k8s.io"]"#;
    for namespaces in ["all", ns.name()] {
        let port = free_port();
        let config = format!(
            "[watch]\n{groups}\nnamespaces = [\"{namespaces}\"]\n[server]\nprobes = \"127.0.0.1:{port}\"\npage = \"\"\n"
        );
        // Whoever asks need not be allowed anything.
        let objects = documents(&rbac(&reader.kubeconfig, &config, &format!("{ns}/reader")).await);
        let kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        let expected =
            if namespaces == "all" { ["ClusterRole", "ClusterRoleBinding"] } else { ["Role", "RoleBinding"] };
        assert_eq!(kinds, expected);
        apply(cluster, &objects).await;
        let home = format!("/api/v1/namespaces/{ns}/configmaps");
        reader.until(&home, StatusCode::OK).await;
        let mut kubediff = Kubediff::new(&reader.kubeconfig, &config);
        kubediff.start().await;
        let text = poll(PATIENCE, "everything is live", async || {
            let text = metrics(port).await?;
            let states: Vec<_> = text.lines().filter(|line| line.starts_with("kubediff_informer_state{")).collect();
            (states.len() > 15 && states.iter().all(|line| line.contains("state=\"live\""))).then_some(text)
        })
        .await;
        assert!(denied(&text).is_empty(), "{:?}", denied(&text));
        let log = fs::read_to_string(kubediff.log()).unwrap();
        assert!(!log.contains("not permitted"), "{log}");
        assert_eq!(log.contains("may not be read"), namespaces != "all", "{log}");
        kubediff.stop().await;
        cluster.kubectl(&["delete", &kinds[1].to_lowercase(), &format!("{ns}-reader"), "-n", ns.name()]).await;
        cluster.kubectl(&["delete", &kinds[0].to_lowercase(), &format!("{ns}-reader"), "-n", ns.name()]).await;
        reader.until(&home, StatusCode::FORBIDDEN).await;
    }
}

/// Whether the reader may do this in its namespace, by the server's own word.
async fn may(reader: &Reader, verb: &str, group: &str, resource: &str, name: &str) -> bool {
    let asked =
        json!({"namespace": reader.namespace, "verb": verb, "group": group, "resource": resource, "name": name});
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = reader.access.request(reqwest::Method::POST, path).json(&review).send().await.unwrap();
    answer.json::<Value>().await.unwrap()["status"]["allowed"].as_bool().unwrap()
}

#[tokio::test]
async fn the_role_that_it_prints_for_replicas_and_a_page_for_others_is_enough_and_no_more() {
    let cluster = cluster().await;
    let ns = cluster.namespace("rbac-ha").await;
    let reader = Reader::create(cluster, ns.name()).await;
    let (name, lease) = (format!("{ns}-reader"), format!("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"));
    for create in [true, false] {
        let page = free_port();
        let config = format!(
            "[watch]\nnamespaces = [\"{ns}\"]\ninclude = [\"v1/configmaps\"]\n\
             [server]\nprobes = \"\"\npage = \"127.0.0.1:{page}\"\nauth = \"token\"\n\
             [ha]\nenabled = true\nnamespace = \"{ns}\"\ncreate_lease = {create}\n"
        );
        let objects = documents(&rbac(&reader.kubeconfig, &config, &format!("{ns}/reader")).await);
        apply(cluster, &objects).await;
        poll(PATIENCE, "the roles hold", async || {
            let page = may(&reader, "create", "authorization.k8s.io", "subjectaccessreviews", "").await;
            let lease = may(&reader, "update", "coordination.k8s.io", "leases", "kubediff").await;
            let creates = may(&reader, "create", "coordination.k8s.io", "leases", "").await;
            (page && lease && creates == create && may(&reader, "watch", "", "configmaps", "").await).then_some(())
        })
        .await;
        for (verb, group, resource, name) in [
            ("update", "coordination.k8s.io", "leases", "another"),
            ("delete", "coordination.k8s.io", "leases", "kubediff"),
            ("get", "", "configmaps", "a"),
            ("list", "", "secrets", ""),
            ("create", "rbac.authorization.k8s.io", "roles", ""),
        ] {
            assert!(!may(&reader, verb, group, resource, name).await, "{verb} {resource} {name}");
        }
        // The first makes the Lease, and the second finds it.
        let mut kubediff = Kubediff::new(&reader.kubeconfig, &config);
        kubediff.start().await;
        poll(PATIENCE, "it leads", async || kubediff.said("this replica leads now").then_some(())).await;
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let asked = async |token: &str| {
            let url = format!("http://127.0.0.1:{page}/api/v1/status");
            http.get(url).bearer_auth(token).send().await.unwrap()
        };
        let status = asked(&reader.access.token).await;
        assert_eq!(status.status(), StatusCode::OK);
        let status: Value = status.json().await.unwrap();
        assert_eq!(status["informers"][0]["resource"], "configmaps", "it may see what it may list: {status}");
        assert_eq!(asked("nonsense").await.status(), StatusCode::UNAUTHORIZED);
        let log = fs::read_to_string(kubediff.log()).unwrap();
        assert!(!log.contains("forbidden") && !log.contains("not permitted"), "{log}");
        kubediff.stop().await;
        assert!(cluster.access().get(&format!("{lease}/kubediff")).send().await.unwrap().status().is_success());
    }
    cluster.kubectl(&["delete", "clusterrole,clusterrolebinding", &name]).await;
}

#[tokio::test]
async fn of_the_role_that_it_prints_every_rule_is_needed() {
    let cluster = cluster().await;
    let ns = cluster.namespace("rules").await;
    let reader = Reader::create(cluster, ns.name()).await;
    let port = free_port();
    let config = format!(
        "[watch]\ninclude = [\"v1/configmaps\", \"apps/deployments\", \"batch/cronjobs\"]\n\
         [server]\nprobes = \"127.0.0.1:{port}\"\npage = \"\"\n"
    );
    let objects = documents(&rbac(&reader.kubeconfig, &config, &format!("{ns}/reader")).await);
    let rules = objects[0]["rules"].as_array().unwrap().clone();
    assert_eq!(rules.len(), 4, "{rules:?}");
    let paths = [
        "/api/v1/configmaps",
        "/apis/apps/v1/deployments",
        "/apis/batch/v1/cronjobs",
        "/api/v1/namespaces?fieldSelector=metadata.name%3Dkube-system",
    ];
    for (left_out, rule) in rules.iter().enumerate() {
        let mut fewer = objects.clone();
        fewer[0]["rules"].as_array_mut().unwrap().remove(left_out);
        apply(cluster, &fewer).await;
        for path in paths {
            let resource = path.split('?').next().unwrap().rsplit('/').next().unwrap();
            let without = rule["resources"].as_array().unwrap().iter().any(|name| name == resource);
            reader.until(path, if without { StatusCode::FORBIDDEN } else { StatusCode::OK }).await;
        }
        let mut kubediff = Kubediff::new(&reader.kubeconfig, &config);
        kubediff.start().await;
        let log = fs::read_to_string(kubediff.log()).unwrap();
        if rule["resourceNames"].is_array() {
            assert!(log.contains("the kube-system namespace may not be read"), "{log}");
        } else {
            let resource = rule["resources"][0].as_str().unwrap();
            let text = poll(PATIENCE, format!("{resource} is not permitted"), async || {
                metrics(port).await.filter(|text| !denied(text).is_empty())
            })
            .await;
            assert_eq!(denied(&text).len(), 1, "{:?}", denied(&text));
            assert!(denied(&text)[0].contains(&format!("resource=\"{resource}")), "{:?}", denied(&text));
        }
        kubediff.stop().await;
    }
    cluster.kubectl(&["delete", "clusterrole,clusterrolebinding", &format!("{ns}-reader")]).await;
}

#[tokio::test]
async fn what_is_not_permitted_is_said_once_and_taken_up_when_it_is() {
    let cluster = cluster().await;
    let ns = cluster.namespace("denied").await;
    let reader = Reader::create(cluster, ns.name()).await;
    reader.allow(&["configmaps"]).await;
    let receiver = Receiver::start();
    let (port, page) = (free_port(), free_port());
    let config = format!(
        "[watch]\nnamespaces = [\"{ns}\"]\ninclude = [\"v1/configmaps\", \"v1/secrets\"]\n\
         [server]\nprobes = \"127.0.0.1:{port}\"\npage = \"127.0.0.1:{page}\"\n[sinks.hook]\ntype = \"webhook\"\nurl = \"{}\"\n",
        receiver.url("/hook")
    );
    let mut kubediff = Kubediff::new(&reader.kubeconfig, &config);
    kubediff.start().await;
    // It asks again and again, and says nothing more.
    let failed = format!("kubediff_lists_total{{resource=\"secrets\",scope=\"{ns}\",result=\"failed\"}} ");
    let text = poll(PATIENCE, "it has asked three times", async || {
        let text = metrics(port).await?;
        let asked: u32 = text.lines().find_map(|line| line.strip_prefix(&failed))?.parse().ok()?;
        (asked >= 3).then_some(text)
    })
    .await;
    assert_eq!(denied(&text).len(), 1, "{:?}", denied(&text));
    let said = || fs::read_to_string(kubediff.log()).unwrap();
    let lines = |words: &str| said().lines().filter(|line| line.contains(words)).count();
    assert_eq!(lines("not permitted"), 1, "{}", said());
    assert!(said().lines().any(|line| line.contains("not permitted") && line.contains("v1/secrets")), "{}", said());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let ready = http.get(format!("http://127.0.0.1:{port}/readyz")).send().await.unwrap();
    assert_eq!(ready.status(), StatusCode::OK, "one bad resource is one bad resource");
    let ready = ready.text().await.unwrap();
    assert!(ready.contains("v1/secrets") && ready.contains("not permitted"), "{ready}");

    let secrets = async || -> Value {
        let status = http.get(format!("http://127.0.0.1:{page}/api/v1/status")).send().await.unwrap();
        let status: Value = status.json().await.unwrap();
        let all = status["informers"].as_array().unwrap();
        all.iter().find(|one| one["resource"] == "secrets").unwrap_or_else(|| panic!("{status}")).clone()
    };
    let shown = secrets().await;
    assert_eq!(shown["state"], "not permitted", "{shown}");
    assert!(shown["reason"].as_str().unwrap().contains("forbidden"), "{shown}");
    assert!(shown["remedy"].as_str().unwrap().contains("kubediff rbac"), "{shown}");

    reader.allow(&["configmaps", "secrets"]).await;
    poll(PATIENCE, "it is taken up", async || metrics(port).await.filter(|text| denied(text).is_empty())).await;
    poll(PATIENCE, "the page says so", async || (secrets().await["state"] == "live").then_some(())).await;
    poll(PATIENCE, "the log says so", async || (lines("permitted now") == 1).then_some(())).await;
    cluster.kubectl(&["create", "secret", "generic", "s", "-n", ns.name(), "--from-literal=a=b"]).await;
    poll(PATIENCE, "the change of a Secret arrives", async || {
        let arrived = |event: &Value| event["resource"]["kind"] == "Secret" && event["resource"]["name"] == "s";
        receiver.received().iter().any(|one| arrived(&one.json())).then_some(())
    })
    .await;
    assert_eq!(lines("not permitted"), 1, "{}", said());
    kubediff.stop().await;
}
