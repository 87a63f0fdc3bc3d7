//! Namespaces by patterns: taken up live, and without the right to know which there are nothing else stands still.

use std::collections::BTreeSet;

use kubediff::cluster::{
    select::{Namespaces, Settings},
    store::Place,
};

use super::rig::{Rig, only};
use crate::harness::{self, Cluster, PATIENCE, poll};

const READERS: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NS-read}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NS-read}
subjects: [{kind: ServiceAccount, name: reader, namespace: NS}]
"#;

const ALL: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NS-all}
rules: [{apiGroups: [""], resources: [configmaps, namespaces], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NS-all}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NS-all}
subjects: [{kind: ServiceAccount, name: reader, namespace: NS}]
"#;

async fn apply(cluster: &Cluster, manifest: &str, ns: &str) {
    cluster.apply(ns, &manifest.replace("NS", ns)).await;
}

fn config_maps_of(namespaces: &[&str]) -> Settings {
    let include = namespaces.iter().map(|name| (*name).to_owned()).collect();
    Settings { namespaces: Namespaces { include, exclude: Vec::new() }, ..only(&["v1/configmaps"]) }
}

#[tokio::test]
async fn a_pattern_without_the_right_to_list_namespaces_degrades_alone_takes_reloads_and_heals() {
    let cluster = harness::cluster().await;
    let (named, other) = (cluster.namespace("named").await, cluster.namespace("patterned").await);
    let (ns, pattern) = (named.name(), format!("{}*", other.name()));
    apply(cluster, READERS, ns).await;
    let token = cluster.kubectl(&["create", "token", "reader", "-n", ns]).await;
    let access = cluster.access().with_token(token.trim());

    let rig = Rig::start(&access, &Place::Temporary, config_maps_of(&[ns, &pattern])).await;
    // It settles though the namespaces are not known.
    rig.synced().await;
    let (mine, spaces) = (format!("v1/configmaps in {ns}"), "v1/namespaces".to_owned());
    assert_eq!(rig.watched(), BTreeSet::from([mine.clone(), spaces.clone()]));
    cluster.kubectl(&["create", "configmap", "seen", "-n", ns]).await;
    assert_eq!(rig.notes.wait_for(&format!("configmaps {ns}/seen"), 1).await, ["Live created"]);
    let theirs = rig.factory.informers().into_iter().find(|i| i.feed().resource.plural == "namespaces").unwrap();
    let problem = theirs.status().borrow().problem.clone().unwrap().error.to_string();
    assert!(problem.contains("namespaces is forbidden"), "it says what is missing: {problem}");

    rig.reload(config_maps_of(&[&pattern]));
    poll(PATIENCE, "what is not asked for any more is left", async || {
        (rig.watched() == BTreeSet::from([spaces.clone()])).then_some(())
    })
    .await;
    rig.reload(config_maps_of(&[ns, &pattern]));
    poll(PATIENCE, "what is asked for again is taken up", async || rig.watched().contains(&mine).then_some(())).await;

    apply(cluster, ALL, ns).await;
    let theirs = format!("v1/configmaps in {}", other.name());
    poll(PATIENCE * 2, "the pattern is taken up", async || rig.watched().contains(&theirs).then_some(())).await;
    rig.synced().await;
    cluster.kubectl(&["create", "configmap", "seen", "-n", other.name()]).await;
    assert_eq!(rig.notes.wait_for(&format!("configmaps {}/seen", other.name()), 1).await, ["Live created"]);
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;
    for kind in ["clusterrole", "clusterrolebinding"] {
        cluster.kubectl(&["delete", kind, &format!("{ns}-all")]).await;
    }
    cluster.kubectl(&["delete", "clusterrole", &format!("{ns}-read")]).await;
}
