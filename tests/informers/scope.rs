//! What an informer is about: selectors for all resources and for some, namespaces that are left out, metadata alone.

use kubediff::{
    cluster::{
        select::{Namespaces, Pattern, Selector, Settings},
        store::Place,
    },
    redact::Secrets,
};

use super::rig::{Rig, only};
use crate::harness::{self, Fault, Matching, Proxy};

#[tokio::test]
async fn selectors_are_applied_by_the_server_for_all_resources_and_for_one() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("selectors").await;
    let selector = Selector {
        resource: Pattern::parse("ConfigMap").unwrap(),
        labels: "tier in (front, back)".into(),
        fields: "metadata.name!=left-out".into(),
    };
    let settings = Settings {
        labels: "app=web".into(),
        selectors: vec![selector],
        namespaces: Namespaces { include: vec![ns.name().into()], exclude: vec![] },
        ..only(&["v1/configmaps", "v1/serviceaccounts"])
    };
    let make = async |kind: &str, name: &str, labels: &str| {
        let object = format!("{{apiVersion: v1, kind: {kind}, metadata: {{name: {name}, labels: {labels}}}}}");
        cluster.apply(ns.name(), &object).await;
    };
    make("ConfigMap", "before", "{app: web, tier: front}").await;
    make("ConfigMap", "before-other", "{app: other, tier: front}").await;
    let rig = Rig::start(cluster.access(), &Place::Temporary, settings).await;
    rig.synced().await;
    make("ConfigMap", "other-app", "{app: other, tier: front}").await;
    make("ConfigMap", "no-tier", "{app: web}").await;
    make("ConfigMap", "left-out", "{app: web, tier: front}").await;
    make("ServiceAccount", "other-app", "{app: other}").await;
    make("ConfigMap", "in", "{app: web, tier: back}").await;
    make("ServiceAccount", "left-out", "{app: web}").await;
    let config_map = format!("configmaps {}/in", ns.name());
    let account = format!("serviceaccounts {}/left-out", ns.name());
    for path in [&config_map, &account] {
        assert_eq!(rig.notes.wait_for(path, 1).await, ["Live created"], "{path}");
    }
    // It is there, and none of those that are asked for any more.
    cluster.kubectl(&["label", "configmap", "in", "tier-", "-n", ns.name()]).await;
    assert_eq!(rig.notes.wait_for(&config_map, 2).await, ["Live created", "Live deleted"]);
    let told = rig.notes.about(ns.name());
    assert_eq!(told.len(), 3, "and of no other: {told:?}");
    for (plural, names) in [("configmaps", "before"), ("serviceaccounts", "left-out")] {
        let informer = rig.factory.informers().into_iter().find(|i| i.feed().resource.plural == plural).unwrap();
        let stored = informer.lister().await.unwrap().list(&"".parse().unwrap()).unwrap();
        assert_eq!(stored.iter().map(|object| object.meta().name.as_str()).collect::<Vec<_>>(), [names]);
    }
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;
}

#[tokio::test]
async fn namespaces_are_left_out_by_name_and_by_pattern() {
    let cluster = harness::cluster().await;
    let [here, named, patterned] =
        [cluster.namespace("here").await, cluster.namespace("named").await, cluster.namespace("patterned").await];
    let exclude = vec![named.name().to_owned(), format!("{}*", &patterned.name()[..patterned.name().len() - 1])];
    let settings = Settings {
        namespaces: Namespaces { include: vec!["all".into()], exclude },
        ..only(&["v1/configmaps", "v1/namespaces"])
    };
    for ns in [&here, &named, &patterned] {
        cluster.kubectl(&["create", "configmap", "before", "-n", ns.name()]).await;
    }
    let rig = Rig::start(cluster.access(), &Place::Temporary, settings).await;
    rig.synced().await;
    for ns in [&named, &patterned, &here] {
        cluster.kubectl(&["create", "configmap", "after", "-n", ns.name()]).await;
        cluster.kubectl(&["delete", "configmap", "before", "-n", ns.name()]).await;
    }
    let told = |ns: &str| ["after", "before"].map(|name| rig.notes.of(&format!("configmaps {ns}/{name}")));
    rig.notes.wait_for(&format!("configmaps {}/before", here.name()), 1).await;
    assert_eq!(told(here.name()), [["Live created"], ["Live deleted"]]);
    for out in [&named, &patterned] {
        assert_eq!(told(out.name()), [[""; 0]; 2], "{out}");
    }
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;
}

#[tokio::test]
async fn of_secrets_the_metadata_alone_can_be_read() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("secrets").await;
    let value = "--from-literal=password=hunter2";
    cluster.kubectl(&["create", "secret", "generic", "before", "-n", ns.name(), value]).await;
    for streaming in [true, false] {
        let proxy = Proxy::start(cluster.access());
        if !streaming {
            proxy.fault(Matching::watches("secrets").query("sendInitialEvents=true"), Fault::answer(422));
        }
        let namespaces = Namespaces { include: vec![ns.name().into()], exclude: vec![] };
        let settings = Settings { namespaces, secrets: Secrets::Metadata, ..only(&["v1/secrets"]) };
        let rig = Rig::start(proxy.access(), &Place::Temporary, settings).await;
        rig.synced().await;
        let live = format!("live-{streaming}");
        cluster.kubectl(&["create", "secret", "generic", &live, "-n", ns.name(), value]).await;
        assert_eq!(rig.notes.wait_for(&format!("secrets {}/{live}", ns.name()), 1).await, ["Live created"]);
        for name in ["before", &live] {
            let document = rig.stored("secrets", ns.name(), name).await;
            assert_eq!((document["kind"].as_str(), document["apiVersion"].as_str()), (Some("Secret"), Some("v1")));
            assert!(document.get("data").is_none(), "{document}");
        }
        rig.equals_a_fresh_list(cluster.access()).await;
        rig.stop().await;
    }
}
