//! `kubediff run`: the daemon.

use std::{path::PathBuf, sync::Arc};

use kubediff::{
    app,
    cluster::store::Place,
    config::{self, Plan, Sources},
    ha,
    ledger::{self, retention::Keep},
    route::Table,
    shutdown::Shutdown,
    web::{
        self,
        judge::{ApiServer, Judge},
    },
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
    let (watcher, plan) = config::watch::Watcher::load(Sources::new(args.config));
    let plan = plan.map_err(|problems| Usage(problems.into()))?;
    say(&plan.notes);
    let connected = args.cluster.connect(&plan.redact.patterns).await?;
    let judge: Arc<dyn Judge> = Arc::new(ApiServer(connected.api.client().clone()));
    let mut settings = settings(&plan, &connected.name, &judge);
    settings.ha = plan.ha.as_ref().map(|ha| ha_settings(ha, connected.api.client()));
    let (plans, reload) = watch::channel(app::Reload::default());
    let mut tasks = JoinSet::new();
    tasks.spawn(keep_up(watcher, plan, connected.name, judge, plans));
    let result = app::run(settings, Arc::new(connected.api), shutdown, reload).await;
    tasks.shutdown().await;
    Ok(result?)
}

/// The service's settings as a plan has them. `context` names the cluster where the plan does not.
fn settings(plan: &Plan, context: &str, judge: &Arc<dyn Judge>) -> app::Settings {
    let page = plan.server.page.map(|address| web::Settings {
        address,
        auth: plan.server.auth,
        page_url: plan.server.page_url.clone(),
        judge: Some(judge.clone()),
    });
    app::Settings {
        cluster: plan.cluster.clone().unwrap_or_else(|| context.to_owned()),
        select: plan.select.clone(),
        informer: plan.informer.clone(),
        redact: plan.redact.clone(),
        redaction_key: plan.redaction_key,
        place: plan.state.path.clone().map_or(Place::Temporary, Place::File),
        keep: Keep { age: plan.state.retention, max_bytes: plan.state.max_bytes },
        probes: plan.server.probes,
        page,
        sinks: plan.sinks.clone(),
        route: Some(by_table(plan.table.clone())),
        may_fail: plan.table.may_fail(),
        asks_namespaces: plan.asks_namespaces,
        ha: None,
        explain: Some(explain(plan.table.clone())),
    }
}

/// Taken up at the start alone.
fn ha_settings(ha: &config::Ha, client: &kube::Client) -> ha::Settings {
    ha::Settings {
        client: client.clone(),
        lease: ha.lease.clone(),
        create_lease: ha.create_lease,
        namespace: ha.namespace.clone().unwrap_or_default(),
        identity: ha.identity.clone().unwrap_or_else(host_name),
        times: ha.times,
    }
}

/// In a pod that is the pod's name.
fn host_name() -> String {
    let named = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let asked = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    named.or_else(asked).map_or_else(|| "kubediff".to_owned(), |name| name.trim().to_owned())
}

fn by_table(table: Arc<Table>) -> ledger::Route {
    Arc::new(move |event, around| table.route(event, &around.context(event.time)))
}

/// As the routes are now.
fn explain(table: Arc<Table>) -> web::Explain {
    Arc::new(move |event, around| table.explain(event, &around.context(event.time)))
}

/// Takes up the configuration when its files change, and on SIGHUP. One that is wrong is told of, and the one before
/// goes on.
async fn keep_up(
    mut watcher: config::watch::Watcher,
    began: Plan,
    context: String,
    judge: Arc<dyn Judge>,
    plans: watch::Sender<app::Reload>,
) {
    let Ok(mut hangups) = signal(SignalKind::hangup()) else { return };
    let mut waiting = Vec::new();
    let mut notes = began.notes.clone();
    loop {
        let asked = async {
            if hangups.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        };
        let reloaded = watcher.next(asked).await;
        match reloaded {
            Ok(plan) => {
                tracing::info!("the configuration was read again");
                if plan.notes != notes {
                    say(&plan.notes);
                    notes.clone_from(&plan.notes);
                }
                let at_start = plan.changes(&began).at_start;
                if at_start != waiting {
                    say_what_waits(&at_start);
                    waiting = at_start;
                }
                let mut settings = settings(&plan, &context, &judge);
                // What is read of Secrets stays what the door was made for.
                settings.select.secrets = began.select.secrets;
                plans.send_modify(|reload| reload.take_up(Arc::new(settings)));
            }
            Err(problems) => {
                tracing::error!("the new configuration is wrong and the one before goes on:\n{problems}");
                plans.send_modify(app::Reload::is_wrong);
            }
        }
    }
}

/// What may surprise.
fn say(notes: &[String]) {
    notes.iter().for_each(|note| tracing::warn!("{note}"));
}

fn say_what_waits(keys: &[&str]) {
    match keys {
        [] => tracing::info!("no key of the configuration waits for a restart any more"),
        keys => tracing::warn!(
            keys = keys.join(", "),
            "these keys have changed and are taken up at the next start; until then the values before go on"
        ),
    }
}
