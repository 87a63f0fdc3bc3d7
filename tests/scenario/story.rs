//! What happens in the demo, in order. Whoever acts does so with the program and the field manager that it has in life.

use std::sync::atomic::Ordering;

use reqwest::Method;
use serde_json::json;

use crate::{
    harness::{PATIENCE, poll},
    kubelet::{Kubelet, NODES, TROUBLED, condition},
    stage::Stage,
};

const NGINX: &str = "worker_processes auto;\nevents { worker_connections 1024; }\nhttp {\n  keepalive_timeout 65;\n  \
    client_max_body_size 1m;\n  upstream cart { server cart.shop:8080; }\n  server {\n    listen 8080;\n    \
    location /cart/ { proxy_pass http://cart; }\n  }\n}\n";

fn shop(image: &str, more: &str) -> String {
    let image = format!("registry.example.com/shop/web:{image}");
    include_str!("shop.yaml").replace("IMAGE", &image).replace("MORE_ENV\n", more)
}

const FLAG: &str = "        - {name: CHECKOUT_V2, value: \"on\"}\n";

fn stripe(key: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "stripe", "namespace": "payments"},
        "type": "Opaque", "stringData": {"api-key": key, "webhook-secret": format!("whsec-{key}")}})
    .to_string()
}

fn tls(serial: &str) -> String {
    let (cert, key) = (format!("demo certificate {serial}"), format!("demo key {serial}"));
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shop-tls", "namespace": "shop"},
        "type": "kubernetes.io/tls", "stringData": {"tls.crt": cert, "tls.key": key}})
    .to_string()
}

/// What is there before the recording begins.
pub async fn set_up(stage: &Stage) {
    poll(PATIENCE, "the nodes to take pods", async || {
        for node in NODES {
            let node = stage.get(&format!("/api/v1/nodes/{node}")).await;
            if condition(&node, "Ready") != "True" || node["spec"]["taints"].is_array() {
                return None;
            }
        }
        Some(())
    })
    .await;
    stage.apply("kubectl", include_str!("metrics.yaml")).await;
    for namespace in ["shop", "payments"] {
        let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {"team": namespace}}});
        stage.apply("argocd-controller", &manifest.to_string()).await;
    }
    stage.apply("cert-manager-certificates-issuing", &tls("one")).await;
    stage.apply("external-secrets", &stripe("demo-value-one")).await;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web-config", "namespace": "shop"},
        "data": {"nginx.conf": NGINX, "theme": "winter"}});
    stage.apply("argocd-controller", &config.to_string()).await;
    stage.apply("argocd-controller", &shop("2.14.0", "")).await;
    stage.apply("helm", include_str!("payments.yaml")).await;
    stage.apply("preview-bot", include_str!("preview.yaml")).await;
    for (namespace, name) in [("shop", "web"), ("shop", "cart"), ("payments", "api"), ("preview-482", "web")] {
        stage.rolled(namespace, name).await;
    }
    poll(PATIENCE, "the autoscaler to see the load", async || {
        let hpa = stage.get("/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/cart").await;
        (condition(&hpa, "ScalingActive") == "True" && hpa["status"]["desiredReplicas"] == 2).then_some(())
    })
    .await;
    stage.rolled("shop", "cart").await;
    stage.pause(2000).await;
}

pub async fn play(stage: &Stage, kubelet: &Kubelet) {
    stage.pause(1500).await;
    stage.mark("A rollout: Argo CD takes shop/web to 2.15.0");
    stage.apply("argocd-controller", &shop("2.15.0", FLAG)).await;
    stage.rolled("shop", "web").await;

    stage.pause(1500).await;
    stage.mark("A bad image, set by hand, and its rollback");
    stage.kubectl("-n payments set image deploy/api api=registry.example.com/payments/api:3.9.0-rc1").await;
    poll(PATIENCE, "the image not to be found", async || {
        let pods = stage.get("/api/v1/namespaces/payments/pods").await;
        pods.to_string().contains("ImagePullBackOff").then_some(())
    })
    .await;
    stage.pause(1500).await;
    stage.kubectl("-n payments rollout undo deploy/api").await;
    stage.rolled("payments", "api").await;

    stage.pause(1500).await;
    stage.mark("ConfigMaps are edited");
    let sed = "sed -i -e s/keepalive_timeout.65/keepalive_timeout\\ 15/ -e s/body_size.1m/body_size\\ 8m/";
    stage.kubectl_with(sed, &["-n", "shop", "edit", "configmap", "web-config"]).await;
    stage.pause(1500).await;
    let patch = r#"{"data":{"max-amount":"7500","retries":null}}"#;
    stage.kubectl_with("false", &["-n", "payments", "patch", "configmap", "limits", "-p", patch]).await;

    stage.pause(2000).await;
    stage.mark("Secrets are rotated: that shows, their values do not");
    stage.apply("external-secrets", &stripe("demo-value-two")).await;
    stage.pause(1500).await;
    stage.apply("cert-manager-certificates-issuing", &tls("two")).await;

    stage.pause(2000).await;
    stage.mark("Somebody may do more than before");
    let rule =
        r#"[{"op":"add","path":"/rules/-","value":{"apiGroups":[""],"resources":["secrets"],"verbs":["get","list"]}}]"#;
    stage.kubectl_with("false", &["-n", "shop", "patch", "role", "deployer", "--type=json", "-p", rule]).await;
    stage.pause(1500).await;
    stage.kubectl("create clusterrolebinding on-call-admin --clusterrole=cluster-admin --user=jo@example.com").await;

    stage.pause(2000).await;
    stage.mark("A CRD, and objects of it");
    stage.apply("helm", include_str!("flags.yaml")).await;
    let served = "/apis/shop.example.com/v1/namespaces/shop/featureflags";
    poll(PATIENCE, "the CRD to be served", async || {
        (stage.get(served).await["kind"] == "FeatureFlagList").then_some(())
    })
    .await;
    // A moment for those that watch to find it.
    stage.pause(1500).await;
    let flag = |percent: u32, audience: &[&str]| {
        json!({"apiVersion": "shop.example.com/v1", "kind": "FeatureFlag", "metadata": {"name": "checkout-v2", "namespace": "shop"},
            "spec": {"enabled": true, "percent": percent, "audience": audience}})
        .to_string()
    };
    stage.apply("flagctl", &flag(5, &["staff"])).await;
    stage.pause(1000).await;
    let status = json!({"status": {"phase": "Serving", "served": 1}});
    let path = format!("{served}/checkout-v2/status?fieldManager=flag-operator");
    assert!(stage.send(Method::PATCH, &path, "application/merge-patch+json", &status).await);
    stage.pause(1000).await;
    stage.apply("flagctl", &flag(50, &["staff", "beta"])).await;

    stage.pause(2000).await;
    stage.mark("Load: the autoscaler scales shop/cart");
    let cart = async |what: &str, is: fn(i64) -> bool| {
        poll(PATIENCE, what.to_owned(), async || {
            let cart = stage.get("/apis/apps/v1/namespaces/shop/deployments/cart").await;
            cart["spec"]["replicas"].as_i64().filter(|replicas| is(*replicas))
        })
        .await;
    };
    kubelet.load.store(210, Ordering::Relaxed);
    cart("the autoscaler to add pods", |replicas| replicas >= 4).await;
    kubelet.load.store(120, Ordering::Relaxed);
    stage.rolled("shop", "cart").await;

    stage.pause(1500).await;
    stage.mark("Node trouble: worker-2 loses its runtime");
    kubelet.report(stage, false).await;
    poll(PATIENCE, "the node to be tainted", async || {
        stage.get(&format!("/api/v1/nodes/{TROUBLED}")).await["spec"]["taints"].is_array().then_some(())
    })
    .await;
    stage.pause(1500).await;
    stage.kubectl(&format!("cordon {TROUBLED}")).await;
    stage.pause(2500).await;
    kubelet.report(stage, true).await;
    stage.pause(1000).await;
    stage.kubectl(&format!("uncordon {TROUBLED}")).await;

    stage.pause(2000).await;
    stage.mark("By hand against GitOps: somebody edits shop/web, Argo CD puts it back");
    stage
        .kubectl_with(
            "sed -i -e s/value:.info/value:\\ debug/ -e s/replicas:.3/replicas:\\ 1/",
            &["-n", "shop", "edit", "deploy", "web"],
        )
        .await;
    stage.pause(3000).await;
    stage.apply("argocd-controller", &shop("2.15.0", FLAG)).await;
    stage.rolled("shop", "web").await;

    stage.pause(1500).await;
    stage.mark("A namespace goes, and all that is in it");
    stage.kubectl("delete namespace preview-482").await;
    stage.pause(1500).await;
}
