//! Who gets what: each team its own changes and no other's, also while the configuration changes under load.

mod namespaces;

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;

use crate::{
    delivery::{
        daemon::Kubediff,
        oracle::{Load, Replay},
    },
    harness::{self, Matching, Namespace, PATIENCE, Proxy, Receiver, cluster::free_port, poll},
};

const TEAMS: [&str; 3] = ["red", "green", "blue"];

/// What a receiver was told of: `namespace/name type`.
fn told(receiver: &Receiver) -> Vec<String> {
    let text = |event: &Value, part: &str| event.pointer(part).and_then(Value::as_str).unwrap_or_default().to_owned();
    let events = receiver.accepted().into_iter().map(|request| request.json());
    events
        .map(|e| format!("{}/{} {}", text(&e, "/resource/namespace"), text(&e, "/resource/name"), text(&e, "/type")))
        .collect()
}

async fn metrics(port: u16) -> Option<String> {
    reqwest::get(format!("http://127.0.0.1:{port}/metrics")).await.ok()?.text().await.ok()
}

/// The sum of a metric's samples whose labels hold this text.
fn sum(metrics: &str, name: &str, labels: &str) -> f64 {
    let of = |line: &&str| line.starts_with(&format!("{name}{{")) || line.starts_with(&format!("{name} "));
    let samples = metrics.lines().filter(of).filter(|line| line.contains(labels));
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Ten changes of a team: four creations, four edits, two deletions; and one that nobody wants to hear of.
async fn changes(namespace: &Namespace) -> BTreeSet<String> {
    let (cluster, ns) = (harness::cluster().await, namespace.name());
    let mut expected = BTreeSet::new();
    for name in ["a", "b", "c", "d"] {
        cluster.kubectl(&["create", "configmap", name, "--from-literal=k=1", "-n", ns]).await;
        cluster.kubectl(&["patch", "configmap", name, "-n", ns, "-p", r#"{"data":{"k":"2"}}"#]).await;
        expected.extend([format!("{ns}/{name} created"), format!("{ns}/{name} updated")]);
    }
    cluster.kubectl(&["create", "configmap", "scratch", "-n", ns]).await;
    cluster.kubectl(&["delete", "configmap", "a", "b", "-n", ns]).await;
    expected.extend([format!("{ns}/a deleted"), format!("{ns}/b deleted")]);
    expected
}

#[tokio::test]
async fn thirty_changes_of_three_teams_reach_each_teams_receiver_and_no_other() {
    let cluster = harness::cluster().await;
    let receivers = TEAMS.map(|_| Receiver::start());
    let mut namespaces = Vec::new();
    for team in TEAMS {
        let namespace = cluster.namespace(&format!("team-{team}")).await;
        cluster.kubectl(&["label", "namespace", namespace.name(), &format!("team={team}")]).await;
        namespaces.push(namespace);
    }
    let probes = free_port();
    let mut config = format!(
        "[watch]\nnamespaces = [\"team-red-*\", \"team-green-*\", \"team-blue-*\"]\n\
         include = [\"v1/configmaps\", \"v1/namespaces\"]\n\
         [server]\nprobes = \"127.0.0.1:{probes}\"\npage = \"\"\n\
         [[routes]]\nname = \"only these\"\nmatch = {{ kinds = [\"!ConfigMap\"] }}\ndrop = \"not asked for\"\n\
         [[routes]]\nmatch = {{ names = [\"scratch\", \"kube-root-ca.crt\"] }}\ndrop = \"scratch\"\n"
    );
    for (team, receiver) in TEAMS.iter().zip(&receivers) {
        config += &format!(
            "[[routes]]\nname = \"{team}\"\nmatch = {{ namespace_labels = \"team={team}\" }}\nsinks = [\"{team}\"]\n\
             [sinks.{team}]\ntype = \"webhook\"\nurl = \"{}\"\n",
            receiver.url("/hook")
        );
    }
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config);
    kubediff.start().await;
    let (red, green, blue) = tokio::join!(changes(&namespaces[0]), changes(&namespaces[1]), changes(&namespaces[2]));

    let all_delivered = poll(PATIENCE, "thirty deliveries, and nothing that waits", async || {
        let metrics = metrics(probes).await?;
        let delivered = sum(&metrics, "kubediff_sink_deliveries_total", "outcome=\"delivered\"");
        (delivered >= 30.0 && sum(&metrics, "kubediff_sink_queue_depth", "") == 0.0).then_some(metrics)
    })
    .await;
    for (expected, receiver) in [red, green, blue].iter().zip(&receivers) {
        let told = told(receiver);
        assert_eq!(told.len(), 10, "each once: {told:#?}");
        assert_eq!(&told.into_iter().collect::<BTreeSet<_>>(), expected);
    }
    assert!(sum(&all_delivered, "kubediff_dropped_total", "reason=\"scratch\"") >= 3.0, "{all_delivered}");

    // What goes elsewhere by annotation, is silenced or names nobody is counted, too.
    let ns = namespaces[0].name();
    let annotation = "kubediff.io/sinks=blue,purple";
    cluster.kubectl(&["annotate", "configmap", "c", annotation, "-n", ns]).await;
    let updates = |receiver: &Receiver| told(receiver).iter().filter(|one| **one == format!("{ns}/c updated")).count();
    poll(PATIENCE, "the annotation is heeded", async || (updates(&receivers[2]) == 1).then_some(())).await;
    poll(PATIENCE, "its team is told of it", async || (told(&receivers[0]).len() == 11).then_some(())).await;
    cluster.kubectl(&["patch", "configmap", "c", "-n", ns, "-p", r#"{"data":{"k":"4"}}"#]).await;
    poll(PATIENCE, "what comes after goes there", async || (updates(&receivers[2]) == 2).then_some(())).await;
    assert_eq!(told(&receivers[0]).len(), 11, "not to its team");
    poll(PATIENCE, "the unknown sink is counted", async || {
        (sum(&metrics(probes).await?, "kubediff_unknown_sinks_total", "") >= 1.0).then_some(())
    })
    .await;
    let silence =
        "[[silences]]\nname = \"works\"\nreason = \"works\"\nsinks = [\"green\"]\nhours = [\"00:00-24:00\"]\n";
    kubediff.reconfigure(&format!("{config}{silence}")).await;
    let ns = namespaces[1].name();
    cluster.kubectl(&["patch", "configmap", "c", "-n", ns, "-p", r#"{"data":{"k":"3"}}"#]).await;
    let counted = poll(PATIENCE, "the silence is counted", async || {
        let metrics = metrics(probes).await?;
        (sum(&metrics, "kubediff_silenced_total", "sink=\"green\",") >= 1.0).then_some(metrics)
    })
    .await;
    assert!(sum(&counted, "kubediff_dropped_total", "reason=\"silenced\"") >= 1.0, "{counted}");
    assert_eq!(told(&receivers[1]).len(), 10);
    kubediff.stop().await;
}

/// Sinks come, go and change; routes move; once the file is wrong. The watch of the ConfigMaps is the same one all along.
#[tokio::test]
async fn reloads_under_load_lose_nothing_double_nothing_and_restart_no_informer_that_stays() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("reload").await;
    let proxy = Proxy::start(cluster.access());
    let dir = tempfile::tempdir().unwrap();
    let (receiver, guests) = (Receiver::start(), Receiver::start());
    let probes = free_port();
    let config = |include: &str, hook: &str, rest: &str| {
        format!(
            "[watch]\nnamespaces = [\"{}\"]\ninclude = [{include}]\n[server]\nprobes = \"127.0.0.1:{probes}\"\n\
             page = \"\"\n[sinks.hook]\ntype = \"webhook\"\nurl = \"{}\"\n{hook}{rest}",
            ns.name(),
            receiver.url("/hook"),
        )
    };
    let (one, two) = ("\"v1/configmaps\"", "\"v1/configmaps\", \"v1/serviceaccounts\"");
    let guest = format!("[sinks.guest]\ntype = \"webhook\"\nurl = \"{}\"\n", guests.url("/hook"));
    let routes = "[[routes]]\nname = \"all\"\nsinks = [\"hook\"]\n";
    let both = "[[routes]]\nname = \"all\"\nsinks = [\"hook\", \"guest\"]\n";
    let only = "[[routes]]\nmatch = { kinds = [\"ConfigMap\"] }\nsinks = [\"hook\", \"guest\"]\n";
    let mut kubediff = Kubediff::new(&proxy.kubeconfig(dir.path()), &config(one, "", ""));
    kubediff.start().await;
    let watches = Matching::watches("configmaps");
    let before =
        poll(PATIENCE, "the watch is open", async || (proxy.open(&watches) == 1).then(|| proxy.count(&watches))).await;

    let load = Load::new(cluster.access(), ns.name()).slow(Duration::from_millis(5));
    let reloading = async {
        for round in 0..3 {
            let invited = guests.accepted().len();
            kubediff.reconfigure(&config(one, "batch = 5\n", &format!("{guest}{both}"))).await;
            poll(PATIENCE, "the guest is told", async || (guests.accepted().len() > invited).then_some(())).await;
            kubediff.reconfigure(&config(two, "batch = 20\nin_flight = 2\n", &format!("{guest}{only}"))).await;
            kubediff.reconfigure(&config(one, "", routes)).await;
            if round == 1 {
                kubediff.write_config("[sinks.hook]\ntype = \"webhok\"\n");
                let ok = async || Some(sum(&metrics(probes).await?, "kubediff_config_last_reload_successful", ""));
                poll(PATIENCE, "the wrong file shows", async || (ok().await? == 0.0).then_some(())).await;
                kubediff.reconfigure(&config(one, "", "")).await;
                kubediff.hang_up().await;
                poll(PATIENCE, "it is right again", async || (ok().await? == 1.0).then_some(())).await;
            }
        }
    };
    let done = load.run_until(5, 40, reloading).await;
    assert!(done > 200, "a load of {done} changes shows little");
    let replay = Replay::wait_until_equal(&receiver, cluster.access(), ns.name(), done).await;
    replay.assert_each_once(done, &load);
    assert_eq!(replay.duplicates, 0, "and none twice");
    assert_eq!(replay.late, 0, "all of them live");
    // The guest was told of what happened while it was there, of each once, and of nothing else.
    poll(PATIENCE, "nothing waits any more", async || (kubediff.waiting() == 0).then_some(())).await;
    let ids = |receiver: &Receiver| -> Vec<String> {
        let events = receiver.accepted().into_iter().flat_map(|request| match request.json() {
            Value::Array(batch) => batch,
            one => vec![one],
        });
        let maps = events.filter(|event| event["resource"]["kind"] == "ConfigMap");
        maps.map(|event| event["id"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let (told, guested) = (ids(&receiver), ids(&guests));
    let all: BTreeSet<&String> = told.iter().collect();
    assert_eq!(guested.iter().collect::<BTreeSet<_>>().len(), guested.len(), "none twice");
    assert!(guested.iter().all(|id| all.contains(id)), "and none that the other was not told of");
    assert!(guested.len() < told.len(), "it was not there all the time: {} of {}", guested.len(), told.len());
    assert_eq!(proxy.count(&watches), before, "the watch of the ConfigMaps was opened once");
    assert_eq!(proxy.open(&watches), 1, "and is still open");
    assert!(proxy.count(&Matching::watches("serviceaccounts")) > 0, "others came and went meanwhile");
    kubediff.stop().await;
}

#[tokio::test]
async fn keys_that_need_a_restart_are_named_at_a_reload_and_keep_their_values_until_then() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("restart").await;
    let receiver = Receiver::start();
    let config = |secrets: &str, days: u32| {
        format!(
            "[watch]\nnamespaces = [\"{ns}\"]\ninclude = [\"v1/secrets\"]\nsecrets = \"{secrets}\"\n\
             [state]\nretention_days = {days}\n[server]\nprobes = \"\"\npage = \"\"\n\
             [sinks.hook]\ntype = \"webhook\"\nurl = \"{}\"\n",
            receiver.url("/hook")
        )
    };
    let mut kubediff = Kubediff::new(cluster.kubeconfig(), &config("hash", 14));
    kubediff.start().await;
    kubediff.reconfigure(&config("off", 3)).await;
    assert!(kubediff.said("watch.secrets, state.retention_days"), "{:?}", std::fs::read_to_string(kubediff.log()));
    // Secrets are read as before, and as before they are hashed.
    cluster.kubectl(&["create", "secret", "generic", "key", "--from-literal=password=hunter2", "-n", ns.name()]).await;
    let event = receiver.wait_for(1, PATIENCE).await[0].json();
    assert!(event["object"]["data"]["password"].as_str().unwrap().starts_with("hmac:"), "{event:#}");
    kubediff.reconfigure(&config("hash", 14)).await;
    assert!(kubediff.said("no key of the configuration waits for a restart any more"));
    kubediff.stop().await;
    kubediff.write_config(&config("off", 3));
    kubediff.start().await;
    assert!(!kubediff.said("taken up at the next start"), "it was");
    kubediff.stop().await;
}

#[tokio::test]
async fn a_pattern_that_fits_nothing_is_said_with_the_nearest_word() {
    let cluster = harness::cluster().await;
    let ns = cluster.namespace("typo").await;
    let config = |include: &str| {
        format!(
            "[watch]\nnamespaces = [\"{ns}\"]\ninclude = [\"v1/configmaps\", {include}]\n\
             [server]\nprobes = \"\"\npage = \"\"\n"
        )
    };
    let mut kubediff =
        Kubediff::new(cluster.kubeconfig(), &config("\"Deploymnet\", \"autoscaling/v1/horizontalpodautoscalers\""));
    kubediff.start().await;
    let said = |text: &str| kubediff.said(&text.replace('\'', "\""));
    let log = || std::fs::read_to_string(kubediff.log());
    assert!(said("'Deploymnet' fits nothing that is served; did you mean Deployment?"), "{:?}", log());
    let version = "'autoscaling/v1/horizontalpodautoscalers' fits nothing that is served; did you mean \
                   autoscaling/v2/horizontalpodautoscalers?";
    assert!(said(version), "{:?}", log());
    assert!(!said("'v1/configmaps' fits nothing"), "{:?}", log());
    kubediff.reconfigure(&config("\"secrts\"")).await;
    poll(PATIENCE, "the new one is said", async || said("'secrts' fits nothing").then_some(())).await;
    assert_eq!(log().unwrap().matches("Deploymnet").count(), 1, "and the others once");
    kubediff.stop().await;
}
