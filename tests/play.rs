//! `make cluster`: the control plane of the tests for a person to play with, until Ctrl-C.
#![allow(unreachable_pub, reason = "nothing of a program is reachable from outside")]

#[allow(dead_code, reason = "playing needs the control plane alone")]
mod harness;

use harness::{Cluster, Options, say, tools};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let cluster = tokio::select! {
        cluster = Cluster::try_start(Options { controllers: true, ..Options::default() }) => cluster?,
        _ = tokio::signal::ctrl_c() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    let (kubectl, helm) = (tools::path("kubectl").await?, tools::path("helm").await?);
    println!("{}", cluster.kubeconfig().display());
    say(format_args!(
        "\n  export KUBECONFIG={}\n  {} get pods -A\n  {} list -A\n\nCtrl-C ends it and removes all of it.",
        cluster.kubeconfig().display(),
        kubectl.display(),
        helm.display()
    ));
    tokio::select! { _ = tokio::signal::ctrl_c() => (), _ = terminate.recv() => () }
    Ok(())
}
