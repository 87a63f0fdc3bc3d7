//! The controller pattern whole: an informer, a work queue, workers that start after sync and are drained at the end.
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
        controller::Controller,
        informer::{Factory, Settings},
        source::api,
        store::{Place, Store},
    },
    redact::{self, Door},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const NAME: &str = "declared";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // An informer that may not read says so here, and waits.
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let namespace = std::env::args().nth(1).unwrap_or_else(|| "default".into());
    let config = kube::Config::infer().await?;
    let client = Client::try_from(config.clone())?;
    let source = Arc::new(api::Api::connect(config, api::Settings::default())?);
    let (store, writing) = Store::open(&Place::Temporary, None)?;
    let door = Arc::new(Door::new(&redact::Settings::default(), &store.redaction_key())?);
    let factory = Factory::new(source, door, store, Settings::default(), None);

    let mut feed = Feed::new(Resource::core("v1", "configmaps", "ConfigMap"), Scope::Namespace(namespace.clone()));
    feed.fields = format!("metadata.name={NAME}");
    let config_maps = factory.informer(feed);
    factory.start();

    // Every change of the object, and its absence at the start, is work on the same key.
    let controller = Controller::new().watch(&config_maps, |delta| vec![delta.object().meta().namespace.clone()]);
    controller.queue().add(namespace);
    let stop = CancellationToken::new();
    let on_signal = stop.clone();
    let signals = tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        on_signal.cancel();
    });
    controller
        .run(2, stop, move |namespace| {
            let (client, config_maps) = (client.clone(), config_maps.clone());
            async move { reconcile(&client, &config_maps, &namespace).await }
        })
        .await?;
    signals.abort();
    factory.shut_down().await;
    // The temporary file goes with its writer.
    tokio::task::spawn_blocking(move || writing.join()).await?;
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
