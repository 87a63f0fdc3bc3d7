//! Rollouts: which changes are one row, in whatever order they are recorded, and a row that is open while it goes on.

use serde_json::json;

use super::Look;
use crate::harness;

#[tokio::test]
async fn the_same_changes_are_the_same_rows_in_whatever_order_watches_record_them_live_or_read_back() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("rollups").await;
    let look = Look::of(cluster, &namespace).await;
    look.open("").await;
    let wrong: Vec<String> = look.browser.eval(&format!("({})()", include_str!("rollups.js"))).await;
    assert_eq!(wrong, Vec::<String>::new());
}

#[tokio::test]
async fn a_rollout_that_is_open_grows_while_it_goes_on() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("grows").await;
    let ns = namespace.name();
    let look = Look::of(cluster, &namespace).await;
    let browser = &look.browser;
    look.open_live("?kind=ConfigMap&name=conf*").await;
    cluster.kubectl(&["create", "configmap", "conf", "-n", ns]).await;
    let uid = cluster.kubectl(&["get", "configmap", "conf", "-n", ns, "-o", "jsonpath={.metadata.uid}"]).await;
    // What belongs to it, as pods do to a Deployment.
    let part = async |n: u32| {
        let owner =
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "conf", "uid": uid.trim(), "controller": true}]);
        let body = json!({"metadata": {"name": format!("conf-{n}"), "ownerReferences": owner}});
        let path = format!("/api/v1/namespaces/{ns}/configmaps");
        let answer = cluster.access().request(reqwest::Method::POST, &path).json(&body).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    };
    look.open_row(&["ConfigMap", "conf", "created"]).await;
    assert!(!browser.text(".ev.open").await.contains("more change"), "nothing else has happened");
    part(1).await;
    browser.until("document.querySelector('.rollout h4')?.innerText.includes('1 more change')", "it to be said").await;
    browser.activate(".rollout .parts > li .row").await;
    browser.until("document.querySelector('.rollout .detail [role=tab]')", "the part to open").await;
    for n in 2..=10 {
        part(n).await;
    }
    browser.until("document.querySelector('.rollout h4').innerText.includes('10 more changes')", "all of them").await;
    let shown = "document.querySelectorAll('.rollout .parts > li').length";
    assert_eq!(browser.eval::<u32>(shown).await, 8, "the first of many");
    browser.activate(".rollout .more").await;
    browser.until(&format!("{shown} === 10"), "all of them").await;
    let names = browser.texts(".rollout .parts > li > .row .obj em").await;
    let wanted: Vec<String> = (1..=10).map(|n| format!("{ns}/conf-{n}")).collect();
    assert_eq!(names, wanted);
    assert!(
        browser.eval::<bool>("Boolean(document.querySelector('.rollout li:first-child .detail [role=tab]'))").await,
        "what was open in it stays open"
    );
    part(11).await;
    browser.until(&format!("{shown} === 11 && document.querySelector('.rollout .more').hidden"), "one more").await;
    look.is_well();
}
