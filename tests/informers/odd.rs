//! Objects of a CRD without a schema, as odd as the server takes them: no one is too odd, and none stands in another's way.

use kubediff::cluster::store::Place;
use serde_json::{Value, json};

use super::{
    crds::establish,
    rig::{Rig, only},
};
use crate::harness;

#[tokio::test]
async fn odd_objects_are_stored_as_they_are_and_those_nested_too_deep_by_their_metadata() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("odd").await;
    let group = format!("{}.example.com", ns.name());
    establish(cluster, ns.name(), &group, "v1").await;
    let rig = Rig::start(cluster.access(), &Place::Temporary, only(&[&group])).await;
    rig.synced().await;
    let path = format!("/apis/{group}/v1/namespaces/{}/widgets", ns.name());
    let send = async |method: reqwest::Method, path: &str, kind: &str, body: String| {
        let request = cluster.access().request(method, path).header("content-type", format!("application/{kind}json"));
        let answer = request.body(body).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    };
    let create = async |name: &str, spec: &str| {
        let kind = format!(r#""apiVersion":"{group}/v1","kind":"Widget""#);
        let object = format!(r#"{{{kind},"metadata":{{"name":"{name}"}},"spec":{spec}}}"#);
        send(reqwest::Method::POST, &path, "", object).await;
        let steps = rig.notes.wait_for(&format!("widgets.{group} {}/{name}", ns.name()), 1).await;
        assert_eq!(steps, ["Live created"]);
    };
    let odd = [
        ("duplicates", json!({"list": [{"name": "a", "v": 1}, {"name": "a", "v": 2}, {"name": null}]})),
        (
            "numbers",
            json!({"large": 9_007_199_254_740_993_i64, "max": i64::MAX, "min": i64::MIN, "float": 1.5e300, "small": -1e-7}),
        ),
        ("nulls", json!({"a": null, "b": [null, {"c": null}], "empty": {}, "none": []})),
        ("unicode", json!({"\u{1F600} key/~": "z\u{0301}\u{202e}\u{0000}\"\\\n", "ключ": "\u{FEFF}", "": "no name"})),
        ("deep", (0..60).fold(json!("down here"), |inner, _| json!([inner]))),
    ];
    for (name, spec) in &odd {
        create(name, &spec.to_string()).await;
        assert_eq!(rig.stored("widgets", ns.name(), name).await["spec"], *spec, "{name}");
        let label = json!({"metadata": {"labels": {"odd": name}}}).to_string();
        send(reqwest::Method::PATCH, &format!("{path}/{name}"), "merge-patch+", label).await;
        let steps = rig.notes.wait_for(&format!("widgets.{group} {}/{name}", ns.name()), 2).await;
        assert_eq!(steps, ["Live created", "Live updated"]);
    }
    // Deeper than the door keeps, and than serde_json goes.
    let nest = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    for (name, levels) in [("deeper", 150), ("deepest", 2_000)] {
        create(name, &nest(levels)).await;
        let stored: Value = rig.stored("widgets", ns.name(), name).await;
        assert!(stored.get("spec").is_none(), "{stored}");
        assert!(stored.to_string().contains("nested too deep"), "the limit is stated in the document itself: {stored}");
    }
    create("last", "{}").await;
    let patch = format!(r#"{{"spec":{}}}"#, nest(1_999));
    send(reqwest::Method::PATCH, &format!("{path}/deepest"), "merge-patch+", patch).await;
    let deepest = format!("widgets.{group} {}/deepest", ns.name());
    assert_eq!(rig.notes.wait_for(&deepest, 2).await, ["Live created", "Live updated"], "a change of it shows");
    rig.equals_a_fresh_list(cluster.access()).await;
    let refused = rig.informer("widgets").unwrap().status().borrow().refused;
    assert_eq!(
        (refused, rig.notes.about(&group).len()),
        (0, 2 * odd.len() + 4),
        "each once: {:?}",
        rig.notes.about(&group)
    );
    rig.stop().await;

    // A list gives the same documents as the watch did.
    let rig = Rig::start(cluster.access(), &Place::Temporary, only(&[&group])).await;
    rig.synced().await;
    rig.equals_a_fresh_list(cluster.access()).await;
    rig.stop().await;
    cluster.kubectl(&["delete", "crd", &format!("widgets.{group}")]).await;
}
