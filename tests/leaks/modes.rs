//! What the configuration says of Secrets, and of more that is to be masked: the real program on the real server.

use serde_json::{Value, json};

use super::search::{Planted, state};
use crate::{
    harness::{self, Cluster, Matching, PATIENCE, Proxy, Verb, poll},
    watch::program::Program,
};

const SECRET: &str = "s3cr-mode-hunter2";

async fn start(cluster: &Cluster, proxy: &Proxy, namespace: &str, more: &str) -> Program {
    let config = format!(
        "[server]\nprobes = \"\"\npage = \"\"\n[state]\npath = \"kubediff.db\"\n\
         [watch]\nnamespaces = [\"{namespace}\"]\n{more}"
    );
    let (files, args) = ([("kubediff.toml", config.as_str())], ["run", "--config", "kubediff.toml"]);
    Program::start(&proxy.kubeconfig(cluster.dir()), &["KUBEDIFF_LOG=trace"], &files, &args).await
}

/// Ends it, and looks for the secret in all that it left.
async fn finish(mut kubediff: Program) {
    let before = state(&kubediff.file("kubediff.db"));
    kubediff.stop().await;
    let mut planted = Planted::new([&SECRET.to_owned()]);
    planted.absent("stdout", kubediff.stdout().as_bytes());
    planted.absent("the log", kubediff.stderr().as_bytes());
    for (place, bytes) in before.into_iter().chain(state(&kubediff.file("kubediff.db"))) {
        planted.absent(&place, &bytes);
    }
    planted.finish();
}

#[tokio::test]
async fn no_more_of_secrets_is_read_than_the_configuration_says() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("modes").await;
    let n = namespace.name();
    for mode in ["hash", "metadata", "off"] {
        let proxy = Proxy::start(cluster.access());
        let kubediff = start(cluster, &proxy, n, &format!("secrets = \"{mode}\"\n")).await;
        let (name, after) = (format!("of-{mode}"), format!("after-{mode}"));
        let rotated = json!({"stringData": {"foo": format!("{SECRET}-rotated")}}).to_string();
        cluster
            .kubectl(&["create", "secret", "generic", &name, "-n", n, &format!("--from-literal=foo={SECRET}")])
            .await;
        cluster.kubectl(&["patch", "secret", &name, "-n", n, "-p", &rotated]).await;
        cluster.kubectl(&["label", "secret", &name, "-n", n, "tier=back"]).await;
        cluster.kubectl(&["create", "configmap", &after, "-n", n]).await;
        kubediff.event("what came after", |event| event["resource"]["name"] == after).await;
        let told = || -> Vec<Value> {
            kubediff.events().into_iter().filter(|event| event["resource"]["name"] == name).collect()
        };
        let wanted: &[&str] = match mode {
            "hash" => &["created", "updated", "updated"],
            // A rotation changes nothing of what is read.
            "metadata" => &["created", "updated"],
            _ => &[],
        };
        poll(PATIENCE, format!("{mode}: {wanted:?}"), async || (told().len() >= wanted.len()).then_some(())).await;
        let types: Vec<Value> = told().into_iter().map(|event| event["type"].clone()).collect();
        assert_eq!(types, wanted, "{mode}");
        let said = json!(told()).to_string();
        assert_eq!(said.contains("Secret rotated: foo"), mode == "hash", "{said}");
        assert_eq!(said.contains("\"foo\""), mode == "hash", "not even the names of the keys: {said}");
        let asked = proxy.count(&Matching::all().resource("secrets"));
        assert_eq!(asked == 0, mode == "off", "{mode}: they were asked for {asked} times");
        // Not left out here: not even sent.
        let seen = proxy.seen();
        let asks =
            seen.iter().filter(|seen| seen.resource == "secrets" && [Verb::List, Verb::Watch].contains(&seen.verb));
        for ask in asks.clone() {
            assert_eq!(ask.accept.contains("as=PartialObjectMetadata"), mode == "metadata", "{mode}: {ask:?}");
        }
        assert_eq!(asks.filter(|ask| ask.verb == Verb::Watch).count() > 0, mode != "off", "{mode}: {seen:?}");
        finish(kubediff).await;
    }
}

#[tokio::test]
async fn what_the_patterns_of_the_configuration_match_is_masked_too() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("own-patterns").await;
    let (n, proxy) = (namespace.name(), Proxy::start(cluster.access()));
    let patterns = "[redact]\npatterns = [\"ACME-([a-z0-9-]+)\", \"(?i)^x-internal\"]\n";
    let kubediff = start(cluster, &proxy, n, patterns).await;
    let note = format!("--from-literal=note=see ACME-{SECRET} there");
    let field = format!("--from-literal=X-Internal-Id={SECRET}");
    cluster.kubectl(&["create", "configmap", "own", "-n", n, &note, &field]).await;
    let event = kubediff.event("the ConfigMap", |event| event["resource"]["name"] == "own").await;
    let data = &event["object"]["data"];
    let text = |key: &str| data[key].as_str().unwrap_or_default();
    assert!(text("note").starts_with("see ACME-hmac:") && text("note").ends_with(" there"), "{data}");
    assert!(text("X-Internal-Id").starts_with("hmac:"), "{data}");
    finish(kubediff).await;
}
