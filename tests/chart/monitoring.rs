//! The values for the page, Prometheus and Grafana, and what comes of them.

use serde_json::{Value, json};

use super::{
    CHART,
    helm::{find, render, toml},
    switches::{Switch, at, main, named},
};

pub fn switches() -> Vec<Switch> {
    let reviews = json!([
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]);
    vec![
        (
            "page: {enabled: true, port: 8081, service: {type: NodePort, port: 81, labels: {c: d}, annotations: {a: b}}}",
            vec![
                main("/ports/1", json!({"name": "page", "containerPort": 8081, "protocol": "TCP"})),
                named("Service", "kubediff-page", "/spec/type", json!("NodePort")),
                named("Service", "kubediff-page", "/spec/ports/0/port", json!(81)),
                named("Service", "kubediff-page", "/spec/ports/0/targetPort", json!("page")),
                named("Service", "kubediff-page", "/metadata/annotations/a", json!("b")),
                named("Service", "kubediff-page", "/metadata/labels/c", json!("d")),
                named("Service", "kubediff-page", "/metadata/labels/app.kubernetes.io~1name", json!("kubediff")),
                named("ClusterRole", "tools-kubediff-page", "/rules", reviews),
                named("ClusterRoleBinding", "tools-kubediff-page", "/subjects/0/name", json!("kubediff")),
            ],
        ),
        (
            "page: {enabled: true}\nreplicas: 2",
            vec![named("Service", "kubediff-page", "/spec/sessionAffinity", json!("ClientIP"))],
        ),
        (
            // Reached by a port-forward alone, which finds it by its name.
            "config: {server: {page: '127.0.0.1:8082'}}",
            vec![
                main("/ports/1", json!({"name": "page", "containerPort": 8082, "protocol": "TCP"})),
                named("Service", "kubediff-page", "/spec", Value::Null),
            ],
        ),
        (
            // As the program has it without a word about it.
            "config: {server: {page: null}}",
            vec![main("/ports/1", json!({"name": "page", "containerPort": 8080, "protocol": "TCP"}))],
        ),
        (
            "page: {enabled: true, reviews: false}",
            vec![
                named("Service", "kubediff-page", "/spec/type", json!("ClusterIP")),
                named("Service", "kubediff-page", "/spec/sessionAffinity", Value::Null),
                named("ClusterRole", "tools-kubediff-page", "/rules", Value::Null),
            ],
        ),
        (
            "{page: {enabled: true}, networkPolicy: {enabled: true, pageFrom: [{podSelector: {}}]}}",
            vec![at(
                "NetworkPolicy",
                "/spec/ingress",
                json!([{"from": [{"podSelector": {}}], "ports": [{"port": 8080, "protocol": "TCP"}]}]),
            )],
        ),
        (
            "metrics: {serviceMonitor: {enabled: true, interval: 15s, labels: {release: p}, annotations: {a: b}, \
             relabelings: [{action: labeldrop, regex: x}], metricRelabelings: [{action: labeldrop, regex: other}]}}",
            vec![
                at(
                    "ServiceMonitor",
                    "/spec/endpoints",
                    json!([{"port": "probes", "path": "/metrics", "interval": "15s",
                        "relabelings": [{"action": "labeldrop", "regex": "x"}],
                        "metricRelabelings": [{"action": "labeldrop", "regex": "other"}]}]),
                ),
                at("ServiceMonitor", "/spec/namespaceSelector/matchNames", json!(["tools"])),
                at("ServiceMonitor", "/metadata/labels/release", json!("p")),
                at("ServiceMonitor", "/metadata/annotations", json!({"a": "b"})),
                at("PodMonitor", "", Value::Null),
            ],
        ),
        (
            "metrics: {podMonitor: {enabled: true, interval: 15s, labels: {release: p}, annotations: {a: b}, \
             relabelings: [{action: labeldrop, regex: x}], metricRelabelings: [{action: labeldrop, regex: other}]}}",
            vec![
                at("PodMonitor", "/spec/podMetricsEndpoints/0/port", json!("probes")),
                at("PodMonitor", "/spec/podMetricsEndpoints/0/interval", json!("15s")),
                at("PodMonitor", "/spec/podMetricsEndpoints/0/relabelings/0/regex", json!("x")),
                at("PodMonitor", "/spec/podMetricsEndpoints/0/metricRelabelings/0/regex", json!("other")),
                at("PodMonitor", "/metadata/labels/release", json!("p")),
                at("PodMonitor", "/metadata/annotations/a", json!("b")),
                at("ServiceMonitor", "", Value::Null),
            ],
        ),
        (
            "metrics: {prometheusRule: {enabled: true, labels: {release: p}, annotations: {a: b}, without: [KubediffDown]}}",
            vec![
                at("PrometheusRule", "/spec/groups/0/rules/0/alert", json!("KubediffNoLeader")),
                at("PrometheusRule", "/metadata/labels/release", json!("p")),
                at("PrometheusRule", "/metadata/annotations/a", json!("b")),
            ],
        ),
        (
            "metrics: {dashboard: {enabled: true, namespace: grafana, labels: {grafana_dashboard: x}, annotations: {a: b}}}",
            vec![
                named("ConfigMap", "kubediff-dashboard", "/metadata/namespace", json!("grafana")),
                named("ConfigMap", "kubediff-dashboard", "/metadata/labels/grafana_dashboard", json!("x")),
                named("ConfigMap", "kubediff-dashboard", "/metadata/annotations/a", json!("b")),
            ],
        ),
    ]
}

#[tokio::test]
async fn the_page_listens_by_the_protocol_of_the_probes() {
    for (probes, page) in [("0.0.0.0:9090", "0.0.0.0:8081"), ("[::]:9090", "[::]:8081"), ("", "0.0.0.0:8081")] {
        let values = format!("page: {{enabled: true, port: 8081}}\nconfig: {{server: {{probes: '{probes}'}}}}");
        let config = toml(&render(&values).await);
        assert_eq!(config["server"]["page"].as_str(), Some(page), "{values}");
    }
}

/// It is drawn by hand: `docs/images/dashboard-to-svg.py`.
#[test]
fn the_picture_of_the_dashboard_has_every_panel() {
    let read = |path: &str| std::fs::read_to_string(format!("{CHART}/{path}")).unwrap();
    let picture = read("../../docs/images/dashboard.svg");
    let dashboard: Value = serde_json::from_str(&read("dashboards/kubediff.json")).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        let escaped = title.replace('&', "&amp;").replace('\'', "&#x27;").replace('<', "&lt;").replace('>', "&gt;");
        assert!(
            picture.contains(&format!(">{escaped}</text>")),
            "docs/images/dashboard.svg lacks {title}: draw it again"
        );
    }
}

/// The rules and the dashboard pass through Helm's templates, in which their braces could mean something.
#[tokio::test]
async fn alerts_and_dashboard_come_out_as_they_went_in() {
    let objects = render("metrics: {prometheusRule: {enabled: true}, dashboard: {enabled: true}}").await;
    let read = |name: &str| std::fs::read_to_string(format!("{CHART}/{name}")).unwrap();
    let alerts: Value = serde_saphyr::from_str(&read("alerts.yaml")).unwrap();
    assert_eq!(find(&objects, "PrometheusRule", "/spec"), alerts);
    let config = objects.iter().find(|object| object["metadata"]["name"] == "kubediff-dashboard").unwrap();
    let rendered: Value = serde_json::from_str(config["data"]["kubediff.json"].as_str().unwrap()).unwrap();
    assert_eq!(rendered, serde_json::from_str::<Value>(&read("dashboards/kubediff.json")).unwrap());
    assert_eq!(config["metadata"]["labels"]["grafana_dashboard"], "1");
}
