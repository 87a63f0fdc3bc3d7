//! Why an event was sent where it was, told after the fact: the answer is compared with what the sinks were sent.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::said;
use crate::{
    delivery::daemon::Kubediff,
    harness::{self, PATIENCE, Receiver, cluster::free_port, poll},
    history::Page,
};

/// The ids of the events that a receiver was sent.
fn sent(receiver: &Receiver) -> BTreeSet<String> {
    receiver.accepted().iter().filter_map(|request| Some(request.json()["id"].as_str()?.to_owned())).collect()
}

#[tokio::test]
async fn what_is_explained_is_what_was_sent_by_annotations_labels_and_silences_of_then() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("why").await;
    let ns = namespace.name();
    let (team, rest, audit) = (Receiver::start(), Receiver::start(), Receiver::start());
    let port = free_port();
    let hook = |name: &str, to: &Receiver| format!("[sinks.{name}]\ntype = \"webhook\"\nurl = \"{}\"\n", to.url("/"));
    let config = format!(
        "[watch]\nnamespaces = [\"all\"]\ninclude = [\"v1/configmaps\", \"v1/namespaces\"]\n\
         [server]\nprobes = \"\"\npage = \"127.0.0.1:{port}\"\n{}{}{}\
         [[routes]]\nname = \"other namespaces\"\nmatch = {{ namespaces = [\"!{ns}\"] }}\ndrop = \"not ours\"\n\
         [[routes]]\nname = \"of the team\"\nmatch = {{ namespace_labels = \"team=shop\" }}\nsinks = [\"team\"]\n\
         [[routes]]\nname = \"the rest\"\nsinks = [\"rest\"]\n",
        hook("team", &team),
        hook("rest", &rest),
        hook("audit", &audit),
    );
    let mut daemon = Kubediff::new(cluster.kubeconfig(), &config);
    daemon.start().await;
    let page = Page::at(port);
    let changes = async |n: usize| {
        poll(PATIENCE, format!("{n} changes"), async || {
            let found = page.json(&format!("events?namespace={ns}&kind=cm&name=flags&order=asc")).await;
            let rows = found["events"].as_array()?.clone();
            (rows.len() >= n).then_some(rows)
        })
        .await
    };
    let mut n = 0;
    let mut patch = async |more: Value| {
        n += 1;
        let mut patch = json!({"data": {"n": n.to_string()}});
        patch["metadata"] = more;
        cluster.kubectl(&["patch", "cm", "flags", "-n", ns, "-p", &patch.to_string()]).await;
        changes(n + 1).await;
    };
    let labelled = async |label: &str, words: &str| {
        cluster.kubectl(&["label", "namespace", ns, label]).await;
        poll(PATIENCE, "the label to be known", async || {
            let now = page.json(&format!("objects/core/v1/namespaces/-/{ns}")).await;
            (now["object"]["metadata"]["labels"]["team"].as_str().unwrap_or_default() == words).then_some(())
        })
        .await;
    };
    cluster.kubectl(&["create", "cm", "flags", "-n", ns]).await;
    changes(1).await;
    patch(json!({})).await;
    labelled("team=shop", "shop").await;
    patch(json!({})).await;
    // By annotation, in place of the routes from the next change on.
    patch(json!({"annotations": {"kubediff.io/sinks": "audit"}})).await;
    patch(json!({})).await;
    patch(json!({"annotations": {"kubediff.io/sinks": null}})).await;
    // Kept back, for a while.
    let silence = json!({"namespace": ns, "for": "1h", "reason": "works"});
    let url = format!("{}/api/v1/silences", page.url);
    let made: Value = page.http.post(&url).json(&silence).send().await.unwrap().json().await.unwrap();
    patch(json!({})).await;
    let end = page.http.delete(format!("{url}/{}", made["id"])).send().await.unwrap();
    assert!(end.status().is_success());
    // And all of it is over.
    labelled("team-", "").await;
    patch(json!({})).await;
    let rows = changes(8).await;
    let last = rows.last().unwrap()["id"].as_str().unwrap();
    poll(PATIENCE, "the last one to be sent", async || sent(&rest).contains(last).then_some(())).await;

    let went: BTreeMap<&str, BTreeSet<String>> =
        [("team", sent(&team)), ("rest", sent(&rest)), ("audit", sent(&audit))].into();
    let file = daemon.state().with_file_name("kubediff.toml");
    let file = file.to_str().unwrap();
    let mut routes = BTreeSet::new();
    for row in &rows {
        let id = row["id"].as_str().unwrap();
        let really: BTreeSet<&str> = went.iter().filter(|(_, ids)| ids.contains(id)).map(|(sink, _)| *sink).collect();
        let names = |list: &Value| -> Vec<String> {
            list.as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        let told = page.json(&format!("events/{id}")).await;
        let by_page: BTreeSet<String> = names(&told["routes"]["sinks"]).into_iter().collect();
        assert_eq!(by_page, really.iter().map(|name| (*name).to_owned()).collect(), "{row} {told}");
        assert_eq!(told["around"]["object"], "then", "{told}");
        assert_eq!(told["around"]["namespace"], "then", "{told}");
        let state = daemon.state();
        let explained = said(&["explain", id, "--json", "--config", file, "--state", state.to_str().unwrap()]);
        let explained: Value = serde_json::from_str(&explained).unwrap();
        assert_eq!(names(&explained["sinks"]), Vec::from_iter(by_page), "{explained:#}");
        let text = said(&["explain", id, "--config", file, "--server", &page.url]);
        assert!(text.contains("by its annotations as they were then"), "{text}");
        routes.insert(really.into_iter().collect::<Vec<_>>().join(" "));
    }
    let ways = ["", "audit", "audit team", "rest", "team"].map(str::to_owned);
    assert_eq!(routes, BTreeSet::from(ways), "each way was gone, and none at all");
    daemon.stop().await;
}
