//! One namespace per test, cleaned up when the test ends, however it ends.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Access, PATIENCE, poll};

/// A namespace with the `default` service account that pods need. Dropping it deletes all that is in it.
pub struct Namespace {
    name: String,
    access: Access,
}

impl Namespace {
    pub async fn create(access: Access, prefix: &str) -> Self {
        let name = format!("{prefix}-{:06x}", rand::random::<u32>() >> 8);
        let namespace = Self { name, access };
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace.name}});
        namespace.post("/api/v1/namespaces", &body).await;
        // The controller that makes it elsewhere may not run.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        namespace.post(&format!("/api/v1/namespaces/{}/serviceaccounts", namespace.name), &account).await;
        namespace
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    async fn post(&self, path: &str, body: &Value) {
        poll(PATIENCE, format!("POST {path}"), async || {
            let answer = self.access.request(Method::POST, path).json(body).send().await.ok()?;
            (answer.status().is_success() || answer.status() == StatusCode::CONFLICT).then_some(())
        })
        .await;
    }
}

impl std::fmt::Display for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl Drop for Namespace {
    /// Best effort: a control plane that is down takes its namespaces with it.
    fn drop(&mut self) {
        let (access, name) = (self.access.clone(), self.name.clone());
        let cleaner = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), clean(&access, &name)).await.ok()? })
        });
        let _ = cleaner.join();
    }
}

/// Deletes the namespace, its contents, and then the mark that holds it until its contents are gone: what the
/// namespace controller does, which runs only where controllers were asked for.
async fn clean(access: &Access, name: &str) -> Option<()> {
    let path = format!("/api/v1/namespaces/{name}");
    let http = access.http();
    let send = async |method: Method, path: &str, body: Option<&Value>| {
        let mut request = http.request(method, format!("{}{path}", access.url)).bearer_auth(&access.token);
        request = request.timeout(Duration::from_secs(5));
        if let Some(body) = body {
            request = request.json(body);
        }
        request.send().await.ok()?.json::<Value>().await.ok()
    };
    send(Method::DELETE, &path, None).await?;
    for (api, plural) in deletable(access, &http).await? {
        send(Method::DELETE, &format!("{api}/namespaces/{name}/{plural}"), Some(&json!({"gracePeriodSeconds": 0})))
            .await?;
    }
    let mut namespace = send(Method::GET, &path, None).await?;
    namespace["spec"]["finalizers"] = json!([]);
    send(Method::PUT, &format!("{path}/finalize"), Some(&namespace)).await?;
    Some(())
}

/// The namespaced resources that can be deleted as a collection: `("/apis/apps/v1", "deployments")`.
async fn deletable(access: &Access, http: &reqwest::Client) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    for root in ["/api", "/apis"] {
        let request = http.get(format!("{}{root}", access.url)).bearer_auth(&access.token);
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let groups: Value = request.header("Accept", accept).send().await.ok()?.json().await.ok()?;
        for group in groups["items"].as_array()? {
            let group_name = group["metadata"]["name"].as_str().unwrap_or_default();
            // The first version is the preferred one; one is enough to delete by.
            let Some(version) = group["versions"].get(0) else { continue };
            let version_name = version["version"].as_str()?;
            let api = if group_name.is_empty() {
                format!("{root}/{version_name}")
            } else {
                format!("{root}/{group_name}/{version_name}")
            };
            for resource in version["resources"].as_array().into_iter().flatten() {
                let verbs = resource["verbs"].as_array().into_iter().flatten();
                if resource["scope"] == "Namespaced" && verbs.into_iter().any(|v| v == "deletecollection") {
                    found.push((api.clone(), resource["resource"].as_str()?.to_owned()));
                }
            }
        }
    }
    Some(found)
}
