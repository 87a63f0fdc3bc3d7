//! The kubediff that is installed in a cluster, through a port-forward of its own: a local port whose connections go
//! to the pod by way of the API server, as `kubectl port-forward` makes one. Whoever may make a pod may give it kubediff's
//! label, so what is found by that alone is sent no token; what a person names is trusted with theirs.

use std::{collections::BTreeSet, str::FromStr};

use anyhow::{Context, anyhow, bail};
use http::{Request, Response, header::AUTHORIZATION};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    client::{Body, ConfigExt},
};
use tokio::{io, net::TcpListener, task::JoinSet};
use tower::{BoxError, Layer, ServiceExt, service_fn};

use super::Server;
use crate::cli::connect;

/// As the chart labels its pods.
const LABELS: &str = "app.kubernetes.io/name=kubediff";
/// As the chart names the page's port.
const PORT: &str = "page";

/// Where kubediff is installed: `tools`, or `tools/kubediff-0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    namespace: String,
    pod: Option<String>,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, pod) = text.split_once('/').map_or((text, None), |(namespace, pod)| (namespace, Some(pod)));
        if namespace.is_empty() || pod.is_some_and(|pod| pod.is_empty() || pod.contains('/')) {
            return Err("write NAMESPACE or NAMESPACE/POD".to_owned());
        }
        Ok(Self { namespace: namespace.to_owned(), pod: pod.map(str::to_owned) })
    }
}

pub(super) async fn open(
    cluster: &connect::Options,
    place: Option<&Place>,
    token: Option<String>,
) -> anyhow::Result<Server> {
    let (config, _) = cluster.config().await?;
    let client = Client::try_from(config.clone()).context("cannot make a client for the API server")?;
    let pod = find(&client, place).await?;
    let server = forward(client, &pod, token).await?;
    if server.has_token() || !server.wants_token().await? {
        return Ok(server);
    }
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    if place.is_none() {
        bail!(
            "the kubediff in the pod {namespace}/{name} wants to know who asks: give --in {namespace}, which sends it \
             the token of your kubeconfig, if you trust what runs there; or give --token"
        );
    }
    let own = bearer(&config).await?.with_context(|| {
        format!(
            "the kubediff in the pod {namespace}/{name} wants to know who asks, and your kubeconfig has no token but \
             another credential: give --token \"$(kubectl create token NAME)\""
        )
    })?;
    Ok(server.with_token(own))
}

/// The token that the API server would be sent: of the kubeconfig itself, of a file, or of the program that makes one.
async fn bearer(config: &kube::Config) -> anyhow::Result<Option<String>> {
    let Some(layer) = config.auth_layer().context("the kubeconfig's user has no credential")? else { return Ok(None) };
    // What knows how to sign a request is given one that goes nowhere, and comes back as the answer.
    let echo = service_fn(|request: Request<Body>| async move {
        let mut response = Response::new(());
        *response.headers_mut() = request.headers().clone();
        Ok::<_, BoxError>(response)
    });
    let signed = layer.layer(echo).oneshot(Request::new(Body::empty())).await;
    let signed = signed.map_err(|error| anyhow!(error)).context("the kubeconfig's user has no token")?;
    let value = signed.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    Ok(value.and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned))
}

async fn forward(client: Client, pod: &Pod, token: Option<String>) -> anyhow::Result<Server> {
    let (namespace, pod, port) = (pod.namespace().unwrap_or_default(), pod.name_any(), port(pod)?);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("no local port")?;
    let address = listener.local_addr()?;
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    // A refusal is told at once, and not by the first request through a dead port.
    pods.portforward(&pod, &[port]).await.with_context(|| format!("cannot reach the pod {namespace}/{pod}"))?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut local, _)) = listener.accept().await {
            let (pods, pod) = (pods.clone(), pod.clone());
            connections.spawn(async move {
                let forwarded = pods.portforward(&pod, &[port]).await;
                match forwarded.map(|mut forwarder| forwarder.take_stream(port)) {
                    Ok(Some(mut remote)) => drop(io::copy_bidirectional(&mut local, &mut remote).await),
                    Ok(None) => {}
                    Err(error) => tracing::warn!(%error, "the port-forward broke off"),
                }
            });
            while connections.try_join_next().is_some() {}
        }
    });
    Ok(Server::new(&format!("http://{address}"), token, None)?.through(tasks))
}

/// The pod to ask.
async fn find(client: &Client, place: Option<&Place>) -> anyhow::Result<Pod> {
    let all: Api<Pod> = match place {
        Some(place) => Api::namespaced(client.clone(), &place.namespace),
        None => Api::all(client.clone()),
    };
    if let Some(Place { namespace, pod: Some(name) }) = place {
        return all.get(name).await.with_context(|| format!("there is no pod {namespace}/{name} for you"));
    }
    let pods = all.list(&ListParams::default().labels(LABELS)).await;
    let pods = pods.with_context(|| match place {
        Some(place) => format!("cannot look for pods with the label {LABELS} in {}", place.namespace),
        None => format!("cannot look for pods with the label {LABELS}; say where kubediff is: --in NAMESPACE"),
    })?;
    let ready = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
    };
    let namespaces: BTreeSet<String> = pods.items.iter().filter_map(ResourceExt::namespace).collect();
    if namespaces.len() > 1 {
        let all: Vec<String> = namespaces.into_iter().collect();
        bail!(
            "pods with the label {LABELS} are in several namespaces ({}); name the one that you trust: --in NAMESPACE",
            all.join(", ")
        );
    }
    let pod = pods.items.iter().find(|pod| ready(pod)).or(pods.items.first()).cloned();
    let within = place.map_or("the cluster", |place| &place.namespace);
    pod.with_context(|| format!("no pod in {within} has the label {LABELS}"))
}

/// The port of its page.
fn port(pod: &Pod) -> anyhow::Result<u16> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let ports =
        pod.spec.iter().flat_map(|spec| &spec.containers).flat_map(|container| container.ports.iter().flatten());
    let port = ports.into_iter().find(|port| port.name.as_deref() == Some(PORT));
    let port = port.and_then(|port| u16::try_from(port.container_port).ok());
    port.with_context(|| {
        format!(
            "the pod {namespace}/{name} serves no page: set config.server.page to 127.0.0.1:8080 in the chart, or page.enabled"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_namespace_or_a_pod_in_it() {
        let place =
            |namespace: &str, pod: Option<&str>| Ok(Place { namespace: namespace.into(), pod: pod.map(str::to_owned) });
        assert_eq!("tools".parse(), place("tools", None));
        assert_eq!("tools/kubediff-0".parse(), place("tools", Some("kubediff-0")));
        for wrong in ["", "/", "/kubediff-0", "tools/", "tools/pod/kubediff-0"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn the_token_is_the_one_of_the_file_or_of_the_program_that_makes_one() {
        let config = async |user: &str| {
            let text = format!(
                "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
                 clusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:1'}}}}], users: [{{name: a, user: {user}}}]}}"
            );
            let file = kube::config::Kubeconfig::from_yaml(&text).unwrap();
            kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default()).await.unwrap()
        };
        let made =
            r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"made"}}"#;
        let program = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: echo, args: ['{made}'], interactiveMode: Never}}}}"
        );
        for (user, token) in [("{token: written}", Some("written")), (program.as_str(), Some("made")), ("{}", None)] {
            assert_eq!(bearer(&config(user).await).await.unwrap().as_deref(), token, "{user}");
        }
    }
}
