//! Everything that changes in a cluster, a line each: one informer per resource that the server has.
//!
//!     cargo run --example all_resources
//!     cargo run --example all_resources -- NAMESPACE
//!
//! For one namespace a Role in it is enough. What may not be read or does not answer is said, and holds up nothing else.

use std::sync::Arc;

use kubediff::{
    cluster::{
        Feed, Scope,
        informer::{Delta, Factory, Informer, Settings},
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
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let namespace = std::env::args().nth(1);
    let source = Arc::new(Api::connect(kube::Config::infer().await?, api::Settings::default())?);
    let (store, writing) = Store::open(&Place::Temporary, None)?;
    let door = Arc::new(Door::new(&redact::Settings::default(), &store.redaction_key())?);
    let found = source.discover().await?;
    let factory = Factory::new(source, door, store, Settings::default(), None);

    let feeds = found.resources.into_iter().filter_map(|resource| match &namespace {
        None => Some(Feed::new(resource, Scope::All)),
        Some(name) => resource.namespaced.then(|| Feed::new(resource, Scope::Namespace(name.clone()))),
    });
    let informers: Vec<Informer> = feeds.map(|feed| factory.informer(feed)).collect();
    factory.start();

    let mut printers = JoinSet::new();
    for informer in &informers {
        printers.spawn(print_changes(informer.clone()));
        printers.spawn(print_problems(informer.clone()));
    }
    // Not `factory.wait_for_sync()`: what may not be read is in sync only when somebody permits it.
    let mut synced = 0;
    for informer in &informers {
        let mut status = informer.status();
        tokio::select! {
            Ok(()) = informer.wait_for_sync() => synced += 1,
            Ok(_) = status.wait_for(|status| status.problem.is_some()) => {}
            else => {}
        }
    }
    println!("{synced} of {} resources in sync", informers.len());
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = async { while printers.join_next().await.is_some() {} } => {}
    }
    printers.shutdown().await;
    factory.shut_down().await;
    // The temporary file goes with its writer.
    tokio::task::spawn_blocking(move || writing.join()).await?;
    Ok(())
}

async fn print_changes(informer: Informer) {
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
}

async fn print_problems(informer: Informer) {
    let mut status = informer.status();
    let mut said = None;
    while status.changed().await.is_ok() {
        let problem = status.borrow_and_update().problem.as_ref().map(|problem| problem.error.to_string());
        if let Some(problem) = problem.filter(|problem| said.as_ref() != Some(problem)) {
            println!("waiting for {}: {problem}", informer.feed());
            said = Some(problem);
        }
    }
}
