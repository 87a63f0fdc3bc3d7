//! `kubediff run`: the daemon.

use std::{path::PathBuf, sync::Arc};

use kubediff::{
    app,
    cluster::store::Place,
    config::{self, Plan, Sources},
    ledger::{self, retention::Keep},
    route::{self, Table},
    shutdown::Shutdown,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinSet,
};

use super::{Usage, connect};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff run                              everything but the noisy kinds, as JSON lines on stdout
  kubediff run --config kubediff.toml       as the file says; it is read again when it changes, and on SIGHUP
  KUBEDIFF__WATCH__SECRETS=off kubediff run --config kubediff.toml")]
pub(crate) struct Args {
    /// The configuration: TOML, or the YAML of the old kubediff
    #[arg(long, short, value_name = "FILE", env = "KUBEDIFF_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    cluster: connect::Options,
}

pub(crate) async fn run(args: Args, shutdown: Shutdown) -> anyhow::Result<()> {
    let sources = Sources::new(args.config);
    let plan = sources.load().map_err(|problems| Usage(problems.into()))?;
    let connected = args.cluster.connect().await?;
    let settings = settings(&plan, &connected.name);
    let (plans, reload) = watch::channel(app::Reload::default());
    let mut tasks = JoinSet::new();
    tasks.spawn(keep_up(sources, plan, connected.name, plans));
    let result = app::run(settings, Arc::new(connected.api), shutdown, reload).await;
    tasks.shutdown().await;
    Ok(result?)
}

/// The service's settings as a plan has them. `context` names the cluster where the plan does not.
fn settings(plan: &Plan, context: &str) -> app::Settings {
    app::Settings {
        cluster: plan.cluster.clone().unwrap_or_else(|| context.to_owned()),
        select: plan.select.clone(),
        informer: plan.informer.clone(),
        redact: plan.redact.clone(),
        place: plan.state.path.clone().map_or(Place::Temporary, Place::File),
        keep: Keep { age: plan.state.retention, max_bytes: plan.state.max_bytes },
        probes: plan.server.probes,
        sinks: plan.sinks.clone(),
        route: Some(by_table(plan.table.clone())),
    }
}

fn by_table(table: Arc<Table>) -> ledger::Route {
    Arc::new(move |event, around| {
        let context = route::Context {
            now: event.time,
            annotations: &around.annotations,
            namespace_labels: &around.namespace_labels,
            namespace_annotations: &around.namespace_annotations,
            silences: &[],
        };
        table.route(event, &context)
    })
}

/// Takes up the configuration when its files change, and on SIGHUP. One that is wrong is told of, and the one before
/// goes on.
async fn keep_up(sources: Sources, mut running: Plan, context: String, plans: watch::Sender<app::Reload>) {
    let Ok(mut hangups) = signal(SignalKind::hangup()) else { return };
    let mut watcher = config::watch::Watcher::new(sources, &running);
    loop {
        let asked = async {
            if hangups.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        };
        let reloaded = watcher.next(asked).await;
        match reloaded {
            Ok(plan) => {
                let changes = plan.changes(&running);
                for section in changes.needs_restart() {
                    tracing::warn!(section, "this part of the configuration is taken up at the next start");
                }
                tracing::info!("the configuration was read again");
                plans.send_replace(app::Reload::New(Arc::new(settings(&plan, &context))));
                running = *plan;
            }
            Err(problems) => {
                tracing::error!("the new configuration is wrong and the one before goes on:\n{problems}");
                plans.send_replace(app::Reload::Wrong);
            }
        }
    }
}
