//! What a namespace says of itself counts for all that is in it, in whichever order the two become known.

use serde_json::json;

use super::*;
use crate::harness::{Cluster, proxy::Fault};

/// A namespace with a team's label, and a ConfigMap in it, in one manifest.
async fn apply_both(cluster: &Cluster, name: &str, team: &str) {
    let items = json!([
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": name}, "data": {"k": "1"}},
    ]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let file = cluster.dir().join(format!("both-{name}.json"));
    std::fs::write(&file, list.to_string()).unwrap();
    cluster.kubectl(&["apply", "-f", &file.to_string_lossy()]).await;
}

/// The ConfigMaps that a receiver was told of, each as often as that was.
fn maps(receiver: &Receiver, prefix: &str) -> Vec<String> {
    let mut told = told(receiver);
    told.retain(|one| one.starts_with(prefix) && one.contains("/settings "));
    told.sort();
    told
}

#[tokio::test]
async fn what_is_applied_together_with_its_namespace_goes_by_the_namespaces_labels() {
    let cluster = harness::cluster().await;
    let word = format!("both{:08x}", rand::random::<u32>());
    let proxy = Proxy::start(cluster.access());
    let dir = tempfile::tempdir().unwrap();
    let (red, rest) = (Receiver::start(), Receiver::start());
    let config = format!(
        "[watch]\ninclude = [\"v1/configmaps\", \"v1/namespaces\"]\n[server]\nprobes = \"\"\npage = \"\"\n\
         [sinks.red]\ntype = \"webhook\"\nurl = \"{}\"\n[sinks.rest]\ntype = \"webhook\"\nurl = \"{}\"\n\
         [[routes]]\nmatch = {{ namespace_labels = \"team={word}\" }}\nsinks = [\"red\"]\n\
         [[routes]]\nmatch = {{ namespaces = [\"{word}-*\"], namespace_labels = \"team!={word}\" }}\nsinks = [\"rest\"]\n",
        red.url("/hook"),
        rest.url("/hook")
    );
    let mut kubediff = Kubediff::new(&proxy.kubeconfig(dir.path()), &config);
    kubediff.start().await;
    let watches = Matching::watches("namespaces");
    poll(PATIENCE, "the watches are open", async || {
        (proxy.open(&watches) > 0 && proxy.open(&Matching::watches("configmaps")) > 0).then_some(())
    })
    .await;

    // The worst case of the race: nothing comes by the watch of the namespaces.
    proxy.stall(&watches);
    let mut expected = Vec::new();
    for round in 0..5 {
        let name = format!("{word}-stalled-{round}");
        apply_both(cluster, &name, &word).await;
        expected.push(format!("{name}/settings created"));
    }
    poll(PATIENCE, "the team is told", async || (maps(&red, &word).len() >= 5).then_some(())).await;
    assert_eq!(maps(&red, &word), expected);
    assert!(!told(&red).iter().any(|one| one.starts_with('/')), "no Namespace came: {:?}", told(&red));
    // As it is every day.
    proxy.resume(&watches);
    for round in 0..10 {
        let name = format!("{word}-together-{round}");
        apply_both(cluster, &name, &word).await;
        expected.push(format!("{name}/settings created"));
    }
    poll(PATIENCE, "the team is told", async || (maps(&red, &word).len() >= 15).then_some(())).await;
    assert_eq!(maps(&red, &word), expected);
    let own = |name: &str| format!("/{name} created");
    poll(PATIENCE, "a Namespace goes by its own labels", async || {
        told(&red).contains(&own(&format!("{word}-together-9"))).then_some(())
    })
    .await;

    // While it is away namespaces come, and one changes hands; it reads ConfigMaps again before it reads namespaces.
    kubediff.stop().await;
    for round in 0..5 {
        let name = format!("{word}-away-{round}");
        apply_both(cluster, &name, &word).await;
        expected.push(format!("{name}/settings created"));
    }
    expected.sort();
    let handed = format!("{word}-together-0");
    cluster.kubectl(&["label", "namespace", &handed, "team=other", "--overwrite"]).await;
    cluster.kubectl(&["patch", "configmap", "settings", "-n", &handed, "-p", r#"{"data":{"k":"2"}}"#]).await;
    proxy.fault_next(1, watches.clone(), Fault::Delay(Duration::from_secs(4)));
    kubediff.spawn();
    poll(PATIENCE, "the team is told of what came", async || (maps(&red, &word).len() >= 20).then_some(())).await;
    poll(PATIENCE, "the other team is told", async || (!maps(&rest, &word).is_empty()).then_some(())).await;
    assert_eq!(maps(&red, &word), expected);
    assert_eq!(maps(&rest, &word), [format!("{handed}/settings updated")], "and nobody else's");
    kubediff.stop().await;
    for name in expected.iter().filter_map(|one| one.split('/').next()) {
        cluster.kubectl(&["delete", "namespace", name, "--wait=false"]).await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_say_what_a_namespace_is_holds_up_no_change_for_long() {
    let cluster = harness::cluster().await;
    let word = format!("mute{:08x}", rand::random::<u32>());
    let proxy = Proxy::start(cluster.access());
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start();
    let config = format!(
        "[watch]\ninclude = [\"v1/configmaps\", \"v1/namespaces\"]\n[server]\nprobes = \"\"\npage = \"\"\n\
         [sinks.all]\ntype = \"webhook\"\nurl = \"{}\"\n[[routes]]\nmatch = {{ namespaces = [\"{word}-*\"] }}\nsinks = [\"all\"]\n",
        receiver.url("/hook"),
    );
    let mut kubediff = Kubediff::new(&proxy.kubeconfig(dir.path()), &config);
    kubediff.start().await;
    proxy.fault(Matching::lists("namespaces"), Fault::Hang);
    proxy.stall(&Matching::watches("namespaces"));
    let name = format!("{word}-a");
    apply_both(cluster, &name, "x").await;
    poll(PATIENCE, "it is told all the same", async || (maps(&receiver, &word).len() == 1).then_some(())).await;
    assert!(kubediff.said("there is no answer about these"), "{:?}", std::fs::read_to_string(kubediff.log()));
    proxy.heal();
    kubediff.stop().await;
    cluster.kubectl(&["delete", "namespace", &name, "--wait=false"]).await;
}

#[tokio::test]
async fn annotations_of_objects_and_of_namespaces_keep_and_lead_events() {
    let cluster = harness::cluster().await;
    let (one, two) = (cluster.namespace("annotated").await, cluster.namespace("annotated").await);
    let (all, team) = (Receiver::start(), Receiver::start());
    let config = |watch: &str| {
        format!(
            "[watch]\n{watch}\n[server]\nprobes = \"\"\npage = \"\"\n\
             [sinks.all]\ntype = \"webhook\"\nurl = \"{}\"\n[sinks.team]\ntype = \"webhook\"\nurl = \"{}\"\n\
             [[routes]]\nmatch = {{ names = [\"x\", \"y\", \"end*\"] }}\nsinks = [\"all\"]\n",
            all.url("/hook"),
            team.url("/hook")
        )
    };
    let everywhere = "include = [\"v1/configmaps\", \"v1/namespaces\"]";
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config(everywhere));
    kubediff.start().await;
    assert!(!kubediff.said("not on namespaces"), "they are watched");
    let create = async |ns: &Namespace, name: &str| {
        cluster.kubectl(&["create", "configmap", name, "-n", ns.name(), "--from-literal=k=1"]).await;
    };
    let patch = async |ns: &Namespace, name: &str, value: &str| {
        let patch = json!({"data": {"k": value}}).to_string();
        cluster.kubectl(&["patch", "configmap", name, "-n", ns.name(), "-p", &patch]).await;
    };
    // Whatever is in `told` came in the order of the changes of one object; the last one shows that all before it came.
    let wait = async |receiver: &Receiver, last: String| {
        poll(PATIENCE, &last, async || told(receiver).contains(&last).then_some(())).await;
    };
    let (a, b) = (one.name(), two.name());
    create(&one, "x").await;
    create(&one, "y").await;
    // On an object.
    cluster.kubectl(&["annotate", "configmap", "x", "-n", a, "kubediff.io/ignore=true"]).await;
    patch(&one, "x", "2").await;
    cluster.kubectl(&["annotate", "configmap", "y", "-n", a, "kubediff.io/sinks=team"]).await;
    patch(&one, "y", "2").await;
    create(&one, "end").await;
    wait(&all, format!("{a}/end created")).await;
    poll(PATIENCE, "y's two changes for the team", async || (told(&team).len() == 2).then_some(())).await;
    let of = |receiver: &Receiver, object: &str| told(receiver).iter().filter(|one| one.starts_with(object)).count();
    assert_eq!(of(&all, &format!("{a}/x ")), 2, "created, and the annotation put on: {:?}", told(&all));
    assert_eq!(of(&all, &format!("{a}/y ")), 2, "created, and the annotation put on: {:?}", told(&all));
    assert_eq!(told(&team), [format!("{a}/y updated"), format!("{a}/y updated")]);

    // On a namespace.
    create(&two, "x").await;
    wait(&all, format!("{b}/x created")).await;
    cluster.kubectl(&["annotate", "namespace", b, "kubediff.io/sinks=team"]).await;
    wait(&team, format!("/{b} updated")).await;
    patch(&two, "x", "2").await;
    wait(&team, format!("{b}/x updated")).await;
    assert_eq!(of(&all, &format!("{b}/x ")), 1, "the sinks of its namespace alone: {:?}", told(&all));
    cluster.kubectl(&["annotate", "namespace", b, "kubediff.io/sinks-", "kubediff.io/ignore=true"]).await;
    // The store knows it when another namespace's later change of the same feed is told.
    cluster.kubectl(&["annotate", "namespace", a, "kubediff.io/sinks=team"]).await;
    wait(&team, format!("/{a} updated")).await;
    patch(&two, "x", "3").await;
    create(&two, "y").await;
    create(&one, "end-2").await;
    wait(&team, format!("{a}/end-2 created")).await;
    assert_eq!(of(&all, &format!("{b}/")) + of(&team, &format!("{b}/")), 2, "{:?} {:?}", told(&all), told(&team));
    kubediff.stop().await;

    // Where namespaces are not watched, what they say is not heeded, and that is said.
    kubediff.write_config(&config(&format!("include = [\"v1/configmaps\"]\nnamespaces = [\"{b}\"]")));
    kubediff.start().await;
    assert!(kubediff.said("not on namespaces"), "{:?}", std::fs::read_to_string(kubediff.log()));
    patch(&two, "x", "4").await;
    poll(PATIENCE, "it is told", async || (of(&all, &format!("{b}/x updated")) == 1).then_some(())).await;
    kubediff.stop().await;
}
