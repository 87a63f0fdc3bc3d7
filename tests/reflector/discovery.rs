//! CRDs come, move and go while kubediff runs.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use kubediff::cluster::{
    Feed, Resource, Scope,
    discovery::{Changes, Discovery, Settings, Trigger},
    source::{Discovered, Source, api::Api},
};
use serde_json::{Value, json};

use super::mirror::{Mirror, Reading, api};
use crate::harness::{Access, Answer, Cluster, Matching, Options, PATIENCE, Proxy, Receiver, poll};

/// A CRD without a schema; versions from the most preferred, each served or not.
pub fn crd(group: &str, plural: &str, versions: &[(&str, bool)]) -> Value {
    let kind = format!("{}{}", plural[..1].to_uppercase(), plural[1..].trim_end_matches('s'));
    let versions: Vec<_> = versions
        .iter()
        .enumerate()
        .map(|(number, (name, served))| {
            json!({"name": name, "served": served, "storage": number == 0, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
        })
        .collect();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "versions": versions,
            "names": {"plural": plural, "singular": plural.trim_end_matches('s'), "kind": kind}}})
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub async fn create(access: &Access, crd: &Value) {
    let answer = access.request(reqwest::Method::POST, CRDS).json(crd).send().await.unwrap();
    assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
}

async fn delete(access: &Access, name: &str) {
    let answer = access.request(reqwest::Method::DELETE, &format!("{CRDS}/{name}")).send().await.unwrap();
    assert!(answer.status().is_success());
}

struct Looking {
    discovery: Discovery,
    trigger: Trigger,
}

impl Looking {
    async fn at(access: &Access) -> Self {
        let trigger = Trigger::new();
        let discovery = Discovery::new(Arc::new(api(access).await), Settings::default(), trigger.clone());
        Self { discovery, trigger }
    }

    /// Takes changes until one fits.
    async fn until(&mut self, what: &str, fits: impl Fn(&Changes) -> bool) -> Changes {
        let looking = async {
            loop {
                let changes = self.discovery.next().await;
                if fits(&changes) {
                    return changes;
                }
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("never came: {what}"))
    }
}

fn has(resources: &[Arc<Resource>], name: &str) -> bool {
    resources.iter().any(|resource| resource.to_string() == name)
}

#[tokio::test]
async fn a_crd_is_found_moves_without_a_stir_and_ends_with_its_objects() {
    let cluster = Cluster::start(Options::default()).await;
    let access = cluster.access();
    let mut looking = Looking::at(access).await;
    looking.until("the first look", |changes| has(&changes.started, "v1/pods")).await;

    create(access, &crd("moves.example", "widgets", &[("v1beta1", true)])).await;
    looking.trigger.fire();
    let changes = looking.until("the CRD", |changes| has(&changes.started, "moves.example/v1beta1/widgets")).await;
    let mirror = Mirror::default();
    let reading = Reading::of(access, Feed::new(Arc::clone(&changes.started[0]), Scope::All), &mirror).await;
    reading.until_live().await;
    for name in ["one", "two"] {
        let widget = json!({"apiVersion": "moves.example/v1beta1", "kind": "Widget", "metadata": {"name": name}});
        let path = "/apis/moves.example/v1beta1/namespaces/default/widgets";
        assert_eq!(access.request(reqwest::Method::POST, path).json(&widget).send().await.unwrap().status(), 201);
    }
    poll(PATIENCE, "both widgets", async || (mirror.reported() == ["one@", "two@"]).then_some(())).await;
    let objects = mirror.objects();
    reading.stop().await;

    let both = crd("moves.example", "widgets", &[("v1", true), ("v1beta1", true)]);
    let patch = json!({"spec": {"versions": both["spec"]["versions"]}});
    let answer = access.request(reqwest::Method::PATCH, &format!("{CRDS}/widgets.moves.example"));
    let answer = answer.header("content-type", "application/merge-patch+json").body(patch.to_string()).send().await;
    assert_eq!(answer.unwrap().status(), 200);
    looking.trigger.fire();
    let changes = looking.until("the move", |changes| !changes.is_empty()).await;
    assert_eq!((changes.started.len(), changes.stopped.len(), changes.moved.len()), (0, 0, 1), "{changes:?}");
    assert_eq!(changes.moved[0].1.version, "v1");
    let feed = Feed::new(Arc::clone(&changes.moved[0].1), Scope::All);
    let reading = Reading::of(access, feed, &mirror).await;
    reading.until_live().await;
    assert_eq!(mirror.objects(), objects, "the same objects at the same versions");
    assert_eq!(mirror.reported().len(), 2, "and nothing reported");

    delete(access, "widgets.moves.example").await;
    looking.trigger.fire();
    let changes = looking.until("the end", |changes| !changes.is_empty()).await;
    assert!(has(&changes.stopped, "moves.example/v1/widgets"), "{changes:?}");
    let deleted = ["-one".to_owned(), "-two".to_owned()].into();
    poll(PATIENCE, "both deletions", async || {
        (mirror.reported()[2..].iter().cloned().collect::<BTreeSet<_>>() == deleted).then_some(())
    })
    .await;
    assert_eq!(mirror.reported().len(), 4, "each once: {:?}", mirror.reported());
    reading.stop().await;
}

#[tokio::test]
async fn three_hundred_crds_at_once_are_all_found() {
    let cluster = Cluster::start(Options::default()).await;
    let access = cluster.access();
    let proxy = Proxy::start(access);
    let mut looking = Looking::at(proxy.access()).await;
    looking.until("the first look", |changes| has(&changes.started, "v1/pods")).await;
    let before = looking.discovery.served().resources.len();
    let (trigger, creating) = (looking.trigger.clone(), access.clone());
    let creating = tokio::spawn(async move {
        for number in 0..300 {
            create(&creating, &crd("many.example", &format!("kind{number:03}s"), &[("v1", true)])).await;
            trigger.fire();
        }
    });
    while looking.discovery.served().resources.len() < before + 300 {
        looking.until("more of them", |changes| !changes.started.is_empty()).await;
    }
    creating.await.unwrap();
    let looks = proxy.count(&Matching::all().path("/apis"));
    assert!(looks < 300, "{looks} looks for 300 CRDs");
}

#[tokio::test]
async fn a_group_that_fails_degrades_alone_in_either_way_of_discovery() {
    let cluster = Cluster::start(Options::default()).await;
    let access = cluster.access();
    let aggregated = api(access).await.discover().await.unwrap();
    assert!(aggregated.unavailable.is_empty(), "{:?}", aggregated.unavailable);
    let names = |resources: &[Resource]| {
        let mut names: Vec<_> = resources.iter().map(ToString::to_string).collect();
        names.sort();
        names
    };
    let all = names(&aggregated.resources);
    for expected in ["v1/pods", "apps/v1/deployments", "apiextensions.k8s.io/v1/customresourcedefinitions"] {
        assert!(all.contains(&expected.to_owned()), "{all:?}");
    }
    for unexpected in ["v1/componentstatuses", "v1/bindings", "authorization.k8s.io/v1/subjectaccessreviews"] {
        assert!(!all.contains(&unexpected.to_owned()), "{unexpected}");
    }
    assert!(!all.iter().any(|name| name.matches('/').count() > 2), "no subresources");

    let whole = OldServer::of(access, &[]).await;
    assert_eq!(names(&whole.discover().await.resources), all, "the old way finds the same");
    let failing = OldServer::of(access, &[("/apis/apps/v1", 503), ("/apis/batch/v1", 403)]).await.discover().await;
    let unavailable: Vec<_> =
        failing.unavailable.iter().map(|gone| format!("{}/{}", gone.group, gone.version)).collect();
    assert_eq!(unavailable, ["apps/v1", "batch/v1"]);
    let failed = |name: &&String| name.starts_with("apps/") || name.starts_with("batch/");
    assert_eq!(names(&failing.resources), all.iter().filter(|name| !failed(name)).cloned().collect::<Vec<_>>());

    // An API service whose server is not there.
    let service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.absent.example"}, "spec": {"group": "absent.example", "version": "v1",
        "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true,
        "service": {"name": "absent", "namespace": "default"}}});
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    assert_eq!(access.request(reqwest::Method::POST, path).json(&service).send().await.unwrap().status(), 201);
    let source = api(access).await;
    poll(PATIENCE, "the absent group to be named", async || {
        let found = source.discover().await.unwrap();
        assert_eq!(names(&found.resources), all);
        found.unavailable.iter().any(|gone| gone.group == "absent.example").then_some(())
    })
    .await;
}

/// A server that knows only the old way of discovery: what the real one answers to it, group by group.
struct OldServer(Receiver);

impl OldServer {
    /// `failing`: paths with the code that they fail with.
    async fn of(access: &Access, failing: &[(&str, u16)]) -> Self {
        let fetch = async |path: String| -> (String, Value) {
            let answer = access.get(&path).header("accept", "application/json").send().await.unwrap();
            (path, answer.json().await.unwrap())
        };
        let mut answers: HashMap<_, _> = [fetch("/api".into()).await, fetch("/apis".into()).await].into();
        let mut paths = vec!["/api/v1".to_owned()];
        for group in answers["/apis"]["groups"].as_array().unwrap() {
            let versions = group["versions"].as_array().unwrap();
            paths.extend(versions.iter().map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap())));
        }
        for path in paths {
            let (path, answer) = fetch(path).await;
            answers.insert(path, answer);
        }
        let failing: HashMap<_, _> = failing.iter().map(|(path, code)| ((*path).to_owned(), *code)).collect();
        Self(Receiver::with(None, move |received| match (failing.get(&received.path), answers.get(&received.path)) {
            (Some(code), _) => Answer::status(*code),
            (None, Some(answer)) => Answer::json(200, answer),
            (None, None) => Answer::status(404),
        }))
    }

    async fn discover(&self) -> Discovered {
        let config = kube::Config::new(self.0.url("/").parse().unwrap());
        let api = Api::connect(config, kubediff::cluster::source::api::Settings::default()).unwrap();
        api.discover().await.unwrap()
    }
}
