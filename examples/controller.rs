//! The controller pattern whole: an informer, a work queue, workers that start after sync.
//!
//! It keeps the ConfigMap `declared` of a namespace as it should be: `data.mode` is `on`, whoever changes or deletes it.
//!
//!     cargo run --example controller -- NAMESPACE

use std::sync::Arc;

use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use kubediff::{
    cluster::{
        Feed, Resource, Scope,
        informer::{Factory, Settings},
        queue::Queue,
        source::api,
        store::{Place, Store},
    },
    redact::{self, Door},
};
use serde_json::json;
use tokio::task::JoinSet;

const NAME: &str = "declared";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let namespace = std::env::args().nth(1).unwrap_or_else(|| "default".into());
    let config = kube::Config::infer().await?;
    let client = Client::try_from(config.clone())?;
    let source = Arc::new(api::Api::connect(config, api::Settings::default())?);
    let (store, _writing) = Store::open(&Place::Temporary, None)?;
    let door = Arc::new(Door::new(&redact::Settings::default(), &store.redaction_key())?);
    let factory = Factory::new(source, door, store, Settings::default(), None);

    let mut feed = Feed::new(Resource::core("v1", "configmaps", "ConfigMap"), Scope::Namespace(namespace.clone()));
    feed.fields = format!("metadata.name={NAME}");
    let config_maps = factory.informer(feed);
    factory.start();
    config_maps.wait_for_sync().await?;

    // Every change of the object, and its absence at the start, is work on the same key.
    let queue = Queue::new();
    queue.add(namespace.clone());
    let mut tasks = JoinSet::new();
    for _ in 0..2 {
        let (queue, client, config_maps) = (queue.clone(), client.clone(), config_maps.clone());
        tasks.spawn(async move {
            while let Some(work) = queue.next().await {
                match reconcile(&client, &config_maps, work.key()).await {
                    Ok(()) => queue.forget(work.key()),
                    Err(error) => {
                        eprintln!("{error:#}; trying again");
                        queue.retry(work.key().clone());
                    }
                }
            }
        });
    }
    let mut deltas = config_maps.subscribe().await?;
    loop {
        tokio::select! {
            delta = deltas.next() => match delta {
                Some(delta) => queue.add(delta.object().meta().namespace.clone()),
                None => break,
            },
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    queue.shut_down();
    tasks.join_all().await;
    factory.shut_down().await;
    Ok(())
}

async fn reconcile(
    client: &Client,
    config_maps: &kubediff::cluster::informer::Informer,
    namespace: &str,
) -> anyhow::Result<()> {
    let present = config_maps.lister().await?.get(namespace, NAME)?;
    let mode = present.and_then(|object| Some(object.value().pointer("/data/mode")?.as_str()?.to_owned()));
    if mode.as_deref() == Some("on") {
        return Ok(());
    }
    let api: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(client.clone(), namespace);
    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"mode": "on"}});
    api.patch(NAME, &PatchParams::apply("kubediff-example").force(), &Patch::Apply(wanted)).await?;
    println!("{namespace}/{NAME}: mode {} -> on", mode.as_deref().unwrap_or("(absent)"));
    Ok(())
}
