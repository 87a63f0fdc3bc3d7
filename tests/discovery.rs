//! What a server serves is found in either way of discovery, whatever group of it fails.

use std::collections::HashMap;

use kubediff::cluster::{
    Resource,
    source::{Discovered, Source, api::Api},
};
use serde_json::{Value, json};

use crate::harness::{Access, Answer, Cluster, Options, PATIENCE, Receiver, poll};

async fn api(access: &Access) -> Api {
    Api::connect(access.config().await, Default::default()).unwrap()
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
