//! Which pod has this IP address? An informer with an index of its own.
//!
//!     cargo run --example pods_by_ip -- 10.0.0.7 10.0.0.8
//!
//! Without addresses it prints every pod's address as pods come and go.

use std::sync::Arc;

use kubediff::{
    cluster::{
        Feed, Resource, Scope,
        informer::{Delta, Factory, Index, Settings},
        source::api::{self, Api},
        store::{Place, Store},
    },
    redact::{self, Door},
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // An informer that may not read says so here, and waits.
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let source = Arc::new(Api::connect(kube::Config::infer().await?, api::Settings::default())?);
    let (store, writing) = Store::open(&Place::Temporary, None)?;
    let door = Arc::new(Door::new(&redact::Settings::default(), &store.redaction_key())?);
    let factory = Factory::new(source, door, store, Settings::default(), None);

    let pods = factory.informer(Feed::new(Resource::core("v1", "pods", "Pod"), Scope::All));
    pods.add_index(Index::by_ip())?;
    factory.start();
    pods.wait_for_sync().await?;

    let addresses: Vec<String> = std::env::args().skip(1).collect();
    let mut lister = pods.lister().await?;
    for address in &addresses {
        for pod in lister.by_index("ip", address)? {
            println!("{address} {}/{}", pod.meta().namespace, pod.meta().name);
        }
    }
    if addresses.is_empty() {
        let mut deltas = pods.subscribe().await?;
        while let Some(delta) = tokio::select! { delta = deltas.next() => delta, _ = tokio::signal::ctrl_c() => None } {
            let pod = delta.object();
            let address = pod.value().pointer("/status/podIP").and_then(|ip| ip.as_str()).unwrap_or("-").to_owned();
            let sign = if matches!(delta, Delta::Deleted { .. }) { "-" } else { "+" };
            println!("{sign} {address} {}/{}", pod.meta().namespace, pod.meta().name);
        }
    }
    factory.shut_down().await;
    // The temporary file goes with its writer.
    tokio::task::spawn_blocking(move || writing.join()).await?;
    Ok(())
}
