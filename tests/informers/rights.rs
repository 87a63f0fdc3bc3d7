//! What may be read, and by whom: rights that were never given, that come, go and come back, and a token that ends.

use kubediff::cluster::{
    reflector::{Phase, Status},
    select::Namespaces,
    source::Error,
    store::Place,
};

use super::{
    hand::Hand,
    rig::{Parts, Rig, only, until},
};
use crate::harness::{self, Access, Cluster, Matching, PATIENCE, Proxy, poll};

pub const ROLE: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: ["", apps], resources: [configmaps, deployments], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader}]
"#;

async fn token(cluster: &Cluster, namespace: &str) -> String {
    cluster.kubectl(&["create", "token", "reader", "-n", namespace]).await.trim().to_owned()
}

/// The server answers this to whoever lists the ConfigMaps: rights take effect a moment after they are written.
async fn until_answered(access: &Access, namespace: &str, status: u16) {
    poll(PATIENCE, format!("a list is answered with {status}"), async || {
        let answer = access.get(&format!("/api/v1/namespaces/{namespace}/configmaps")).send().await.ok()?;
        (answer.status() == status).then_some(())
    })
    .await;
}

#[tokio::test]
async fn one_namespace_needs_no_cluster_role_and_new_namespaces_of_a_pattern_are_taken_up() {
    let cluster = harness::cluster().await;
    let (mine, other) = (cluster.namespace("role").await, cluster.namespace("role").await);
    cluster.apply(mine.name(), ROLE).await;
    let access = cluster.access().with_token(token(cluster, mine.name()).await);
    let mut settings = only(&["v1/configmaps", "Deployment", "Node"]);
    settings.namespaces = Namespaces { include: vec![mine.name().into()], exclude: vec![] };
    let rig = Rig::start(&access, &Place::Temporary, settings).await;
    rig.synced().await;
    cluster.kubectl(&["create", "configmap", "a", "-n", other.name()]).await;
    cluster.kubectl(&["create", "configmap", "a", "-n", mine.name()]).await;
    rig.notes.wait_for(&format!("configmaps {}/a", mine.name()), 1).await;
    assert_eq!(rig.notes.of(&format!("configmaps {}/a", other.name())), [""; 0]);
    let overview = rig.overview.borrow().clone();
    let node = overview.verdicts.iter().find(|(resource, _)| resource.kind == "Node").unwrap();
    assert!(node.1.to_string().contains("in no namespace"), "{}", node.1);
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;

    let pattern = format!("{}-*", mine.name());
    let mut settings = only(&["v1/configmaps"]);
    settings.namespaces = Namespaces { include: vec![pattern], exclude: vec![] };
    let rig = Rig::start(cluster.access(), &Place::Temporary, settings).await;
    rig.synced().await;
    let late = format!("{}-late", mine.name());
    cluster.kubectl(&["create", "namespace", &late]).await;
    cluster.kubectl(&["create", "configmap", "b", "-n", &late]).await;
    let seen = rig.notes.wait_for(&format!("configmaps {late}/b"), 1).await;
    assert!(seen[0].ends_with("created"), "{seen:?}");
    rig.equals_a_fresh_list(cluster.access()).await;
    cluster.kubectl(&["delete", "namespace", &late, "--wait=false"]).await;
    rig.stop().await;
}

#[tokio::test]
async fn what_is_forbidden_degrades_alone_and_is_taken_up_when_permission_comes() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("forbidden").await;
    cluster.apply(ns.name(), ROLE).await;
    let access = cluster.access().with_token(token(cluster, ns.name()).await);
    let mut settings = only(&["v1/configmaps", "v1/services"]);
    settings.namespaces = Namespaces { include: vec![ns.name().into()], exclude: vec![] };
    let rig = Rig::start(&access, &Place::Temporary, settings).await;
    poll(PATIENCE, "both informers are there", async || rig.informer("services").and(rig.informer("configmaps"))).await;
    rig.informer("configmaps").unwrap().wait_for_sync().await.unwrap();
    let services = rig.informer("services").unwrap();
    let status = until(&services, "it is not permitted", |status| status.problem.is_some()).await;
    let problem = status.problem.unwrap().error.to_string();
    assert!(problem.starts_with("not permitted"), "{problem}");
    let more = r#"[{"op":"add","path":"/rules/0/resources/-","value":"services"}]"#;
    cluster.kubectl(&["patch", "role", "reader", "-n", ns.name(), "--type=json", "-p", more]).await;
    tokio::time::timeout(PATIENCE, services.wait_for_sync()).await.expect("taken up when permission comes").unwrap();
    cluster.kubectl(&["create", "service", "clusterip", "s", "--tcp=80", "-n", ns.name()]).await;
    assert_eq!(rig.notes.wait_for(&format!("services {}/s", ns.name()), 1).await, ["Live created"]);
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_permission_taken_away_and_given_back_loses_nothing_that_happened_meanwhile() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("rbac").await;
    let ns = namespace.name();
    cluster.apply(ns, ROLE).await;
    let allow = async |verbs: &str| {
        let patch = format!(r#"[{{"op":"replace","path":"/rules/0/verbs","value":[{verbs}]}}]"#);
        cluster.kubectl(&["patch", "role", "reader", "-n", ns, "--type=json", "-p", &patch]).await;
    };
    allow(r#""get""#).await;
    let hand = Hand::new(cluster.access(), ns);
    for name in ["changed", "deleted", "kept"] {
        hand.create(name).await;
    }
    let proxy = Proxy::start(&cluster.access().with_token(token(cluster, ns).await));
    let rig = Rig::bare(proxy.access()).await;
    let informer = rig.read(hand.feed());
    let status = until(&informer, "it is not permitted", |status| status.denied).await;
    let problem = status.problem.unwrap().error.to_string();
    assert!(problem.contains("configmaps is forbidden"), "{problem}");

    allow(r#""list","watch""#).await;
    informer.wait_for_sync().await.unwrap();
    hand.rest_is_news();
    hand.create("seen").await;
    rig.agrees_with(&hand).await;

    allow(r#""get""#).await;
    until_answered(proxy.access(), ns, 403).await;
    proxy.cut(&Matching::watches("configmaps"));
    let gone = |status: &Status| status.denied && status.phase == Phase::Waiting;
    until(&informer, "it is not permitted any more", gone).await;
    hand.change("seen").await;
    hand.change("changed").await;
    hand.delete("deleted").await;
    hand.create("unseen").await;
    hand.change("unseen").await;
    allow(r#""list","watch""#).await;
    rig.agrees_with(&hand).await;
    assert_eq!(rig.relisted("configmaps"), 0, "it went on where it was");
    assert!(!informer.status().borrow().denied);
    rig.stop().await;
}

#[tokio::test]
async fn a_token_that_is_no_longer_valid_is_replaced_from_its_file() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("token-file").await;
    let ns = namespace.name();
    cluster.apply(ns, ROLE).await;
    let hand = Hand::new(cluster.access(), ns);
    for name in ["changed", "deleted"] {
        hand.create(name).await;
    }
    let file = cluster.dir().join(format!("{ns}.token"));
    let old = token(cluster, ns).await;
    std::fs::write(&file, &old).unwrap();
    let old = cluster.access().with_token(old);
    until_answered(&old, ns, 200).await;
    let proxy = Proxy::start(cluster.access());
    let mut config = proxy.access().config().await;
    config.auth_info.token = None;
    config.auth_info.token_file = Some(file.to_str().unwrap().to_owned());
    let rig = Rig::of(config, Parts::default());
    let informer = rig.read(hand.feed());
    informer.wait_for_sync().await.unwrap();
    hand.rest_is_news();

    // With its account the token goes, though not at once: the server remembers for some seconds whom it let in.
    cluster.kubectl(&["delete", "serviceaccount", "reader", "-n", ns]).await;
    cluster.kubectl(&["create", "serviceaccount", "reader", "-n", ns]).await;
    until_answered(&old, ns, 401).await;
    proxy.cut(&Matching::watches("configmaps"));
    let refused =
        |status: &Status| matches!(&status.problem, Some(problem) if matches!(problem.error, Error::Unauthorized(_)));
    until(&informer, "it is refused", refused).await;
    hand.create("meanwhile").await;
    hand.change("meanwhile").await;
    hand.change("changed").await;
    hand.delete("deleted").await;
    std::fs::write(&file, token(cluster, ns).await).unwrap();
    rig.agrees_with(&hand).await;
    rig.stop().await;
}
