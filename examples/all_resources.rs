//! Everything that changes in a cluster, a line each: one informer per resource that the server has.
//!
//!     cargo run --example all_resources

use std::sync::Arc;

use kubediff::{
    cluster::{
        Feed, Scope,
        informer::{Delta, Factory, Settings},
        source::{
            Source,
            api::{self, Api},
        },
        store::{Place, Store},
    },
    redact::{self, Door},
};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let source = Arc::new(Api::connect(kube::Config::infer().await?, api::Settings::default())?);
    let (store, _writing) = Store::open(&Place::Temporary, None)?;
    let door = Arc::new(Door::new(&redact::Settings::default(), &store.redaction_key())?);
    let found = source.discover().await?;
    let factory = Factory::new(source, door, store, Settings::default(), None);

    let informers: Vec<_> =
        found.resources.into_iter().map(|resource| factory.informer(Feed::new(resource, Scope::All))).collect();
    factory.start();
    factory.wait_for_sync().await?;
    println!("{} resources in sync", informers.len());

    let mut printers = JoinSet::new();
    for informer in informers {
        printers.spawn(async move {
            let Ok(mut deltas) = informer.subscribe().await else { return };
            let kind = &informer.feed().resource.kind;
            while let Some(delta) = deltas.next().await {
                let meta = delta.object().meta();
                let what = match &delta {
                    Delta::Added(_) => "added",
                    Delta::Updated { .. } => "updated",
                    Delta::Deleted { .. } => "deleted",
                };
                println!("{what} {kind} {}/{} at {}", meta.namespace, meta.name, meta.version);
            }
        });
    }
    printers.join_all().await;
    Ok(())
}
