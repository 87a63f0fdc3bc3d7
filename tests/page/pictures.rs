//! A small incident on a cluster of its own: the rollout in it is one row, and it makes the pictures of the docs.
//!
//!     KUBEDIFF_PICTURES=$PWD/docs/images cargo test --test promises page::pictures

use std::{env, path::PathBuf, time::Duration};

use serde_json::Value;

use super::Look;
use crate::harness::{Cluster, Options, PATIENCE, poll};

/// A picture in the docs is no larger.
const LARGEST: u64 = 300_000;

const BEFORE: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: payments}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.acme.example}
spec:
  group: acme.example
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets, singular: gadget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"#;

const SHOP: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app: web, team: storefront}}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:1.25
        env: [{name: DATABASE_HOST, value: db.shop.svc}, {name: WORKERS, value: "8"}]
        ports: [{name: http, containerPort: 8080}]
        resources: {requests: {cpu: 250m, memory: 256Mi}, limits: {memory: 512Mi}}
        readinessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 10}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ledger, namespace: payments}
spec:
  replicas: 2
  selector: {matchLabels: {app: ledger}}
  template:
    metadata: {labels: {app: ledger}}
    spec: {containers: [{name: ledger, image: "ledger:4.2", resources: {limits: {memory: 512Mi}}}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web-config, namespace: shop}
data:
  app.yaml: |
    server:
      port: 8080
      timeout: 30
      retries: 3
    cache:
      size: 64
      ttl: 60
---
apiVersion: v1
kind: Secret
metadata: {name: web-tls, namespace: shop}
stringData: {tls.crt: first, tls.key: one}
---
apiVersion: acme.example/v1
kind: Gadget
metadata: {name: old, namespace: shop}
spec: {size: 3, mode: fast}
"#;

/// Names the folder for pictures that are kept, for the documentation.
const KEEP: &str = "KUBEDIFF_PICTURES";

#[tokio::test]
async fn a_rollout_is_one_row_that_opens_into_its_parts_and_pictures_show_it() {
    let cluster = Cluster::start(Options { controllers: true, ..Options::default() }).await;
    let apply = async |name: &str, manifest: &str| {
        let file = cluster.dir().join(name);
        std::fs::write(&file, manifest).unwrap();
        let file = file.to_str().unwrap();
        cluster
            .kubectl(&["apply", "--server-side", "--force-conflicts", "--field-manager=argocd-controller", "-f", file])
            .await;
    };
    apply("before.yaml", BEFORE).await;
    cluster.kubectl(&["wait", "--for=condition=Established", "crd/gadgets.acme.example"]).await;
    apply("shop.yaml", SHOP).await;
    for (ns, name) in [("shop", "web"), ("payments", "ledger")] {
        cluster.kubectl(&["rollout", "status", &format!("deployment/{name}"), "-n", ns, "--timeout=90s"]).await;
    }
    let sinks = "[sinks.log]\ntype = \"stdout\"\n[[routes]]\nname = \"by hand\"\nmatch = { managers = [\"kubectl-*\"] }\n\
                 sinks = [\"log\"]\n[[routes]]\nname = \"the rest\"\nsinks = [\"log\"]\n";
    let look = Look::with(cluster.kubeconfig(), "exclude_namespaces = [\"kube-*\", \"default\"]", sinks).await;
    let browser = &look.browser;
    look.open_live("").await;

    let kubectl = async |args: &[&str]| {
        cluster.kubectl(args).await;
        // A moment between what people do, so that the strip of a picture has more than one bar.
        if env::var_os(KEEP).is_some() {
            tokio::time::sleep(Duration::from_millis(1500)).await;
        }
    };
    kubectl(&["delete", "gadget", "old", "-n", "shop"]).await;
    apply("config.yaml", &SHOP.replace("timeout: 30", "timeout: 5")).await;
    look.row(&["web-config", "app.yaml"]).await;
    kubectl(&["create", "rolebinding", "contractors", "-n", "shop", "--clusterrole=edit", "--group=contractors"]).await;
    kubectl(&[
        "patch",
        "secret",
        "web-tls",
        "-n",
        "shop",
        "--field-manager=cert-manager-certificates-issuing",
        "-p",
        r#"{"stringData":{"tls.crt":"second","tls.key":"two"}}"#,
    ])
    .await;
    let edit = r#"{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:1.27",
        "env":[{"name":"LOG_LEVEL","value":"debug"}]}]}}}}"#;
    kubectl(&["patch", "deployment", "web", "-n", "shop", "--field-manager=kubectl-edit", "-p", edit]).await;
    cluster.kubectl(&["rollout", "status", "deployment/web", "-n", "shop", "--timeout=90s"]).await;
    kubectl(&["scale", "deployment", "ledger", "-n", "payments", "--replicas=3"]).await;

    // Its row moves the others: nothing is looked at before.
    look.row(&["Deployment", "ledger", "1 pod created"]).await;
    let row = look.row(&["Deployment", "shop/", "web", "nginx:1.25", "nginx:1.27", "6 pods replaced"]).await;
    assert!(row.contains("by hand") && row.contains("1 ReplicaSet created"), "{row}");
    let of_web: usize = browser.eval("[...document.querySelectorAll('.feed .ev .obj')].filter(e => /(Pod|ReplicaSet).*web-/.test(e.innerText)).length").await;
    assert_eq!(of_web, 0, "the pods of the rollout have no rows of their own: {:?}", look.rows().await);
    look.open_row(&["nginx:1.25", "nginx:1.27"]).await;
    browser.until("document.querySelector('.ev.open .diff .fresh b')", "the diff").await;
    browser.until("document.querySelectorAll('.rollout .parts > li').length >= 8", "the parts of the rollout").await;
    browser.activate(".rollout .parts > li .row").await;
    browser.until("document.querySelector('.rollout .detail [role=tab]')", "a part to open").await;
    let chain = browser.text(".rollout .detail .meta").await;
    assert!(chain.contains("Deployment shop/web"), "{chain}");
    browser.activate(".rollout .parts > li .row").await;
    owners_are_told_link_by_link(&look).await;

    take_pictures(&look).await;
    the_end_of_a_namespace_is_one_row(&look, &cluster).await;
    look.is_well();
}

async fn owners_are_told_link_by_link(look: &Look) {
    let browser = &look.browser;
    let open = look.url().await;
    look.open("?kind=Pod&name=web-*&type=created&flat=true").await;
    look.open_row(&["Pod", "web-"]).await;
    let meta = browser.text(".ev.open .meta").await;
    let chain = meta.split("belongs to").nth(1).unwrap().split("version").next().unwrap().replace('\n', " ");
    assert!(chain.contains(" in ReplicaSet web-") && chain.contains(" of Deployment shop/web"), "{chain}");
    browser.activate(".ev.open .meta a").await;
    browser.until("/object=apps.v1.replicasets.shop.web-/.test(location.search)", "the ReplicaSet's page").await;
    look.open(&open).await;
    browser.until("document.querySelectorAll('.rollout .parts > li').length >= 8", "the rollout again").await;
}

async fn the_end_of_a_namespace_is_one_row(look: &Look, cluster: &Cluster) {
    let browser = &look.browser;
    browser.size(1440, 1000).await;
    cluster.kubectl(&["create", "namespace", "preview"]).await;
    for name in ["a", "b", "c"] {
        cluster.kubectl(&["create", "configmap", name, "-n", "preview"]).await;
    }
    cluster.kubectl(&["create", "deployment", "web", "--image=nginx", "-n", "preview"]).await;
    cluster.kubectl(&["rollout", "status", "deployment/web", "-n", "preview", "--timeout=90s"]).await;
    look.open_live("").await;
    cluster.kubectl(&["delete", "namespace", "preview", "--timeout=120s"]).await;
    // As it happens, and as it is read later.
    for again in [false, true] {
        if again {
            look.open_live("").await;
        }
        look.row(&["Namespace", "preview", "objects deleted with it", "ConfigMaps"]).await;
        let others: Vec<String> = browser
            .eval(
                "[...document.querySelectorAll('.feed .ev .row')].map(e => e.innerText.replaceAll('\\n', ' '))
                 .filter(text => text.includes('preview/') && text.includes('deleted'))",
            )
            .await;
        assert_eq!(others, Vec::<String>::new(), "what went with it has no rows of its own");
    }
    look.open_row(&["Namespace", "preview", "objects deleted with it"]).await;
    browser.until("document.querySelectorAll('.ev.open .rollout .parts > li').length > 4", "what went with it").await;
    let parts = browser.text(".ev.open .rollout").await;
    assert!(parts.contains("With it: ") && parts.contains("preview/"), "{parts}");
}

async fn take_pictures(look: &Look) {
    let scratch = tempfile::tempdir().unwrap();
    let dir = env::var_os(KEEP).map_or_else(|| scratch.path().to_owned(), PathBuf::from);
    let browser = &look.browser;
    let take = async |name: &str| {
        browser.until("!document.querySelector('[aria-busy=true]')", "the page to rest").await;
        // On those that are kept the mark of what is new has faded.
        if env::var_os(KEEP).is_some() {
            tokio::time::sleep(Duration::from_millis(2500)).await;
        }
        let file = dir.join(name);
        browser.screenshot(&file).await;
        let size = std::fs::metadata(&file).unwrap().len();
        assert!(size > 20_000 && size < LARGEST, "{name}: {size} bytes");
    };
    let event: String = browser.eval("new URLSearchParams(location.search).get('event')").await;
    browser.size(1440, 1000).await;
    for (name, dark, tab) in [("page-light.png", false, "diff"), ("page-dark.png", true, "split")] {
        browser.dark(dark).await;
        look.open(&format!("?event={event}&tab={tab}")).await;
        browser.until("document.querySelector('.ev.open .diff')", "the diff").await;
        browser.eval::<Value>("scrollTo(0, 0), document.activeElement.blur(), null").await;
        take(name).await;
    }
    browser.dark(false).await;
    look.open("?object=apps/v1/deployments/shop/web").await;
    browser.until("document.querySelector('.blame .l')", "the blame").await;
    let rollout =
        "[...document.querySelectorAll('.object-history .row')].find(e => e.innerText.includes('nginx:1.27'))";
    browser.until(rollout, "its history").await;
    browser.eval::<Value>(&format!("{rollout}.click(), {rollout}.click(), document.activeElement.blur(), null")).await;
    browser.until("document.querySelector('.blame .by-hand')", "the lines that were edited").await;
    take("object.png").await;
    browser.size(380, 780).await;
    look.open(&format!("?event={event}")).await;
    browser.until("document.querySelector('.ev.open .diff')", "the diff").await;
    poll(PATIENCE, "the row in sight", async || {
        let top: f64 = browser.eval("document.querySelector('.ev.open').getBoundingClientRect().top").await;
        (top < 700.0).then_some(())
    })
    .await;
    browser.eval::<Value>("document.activeElement.blur(), null").await;
    take("phone.png").await;
}
