//! How informers, sinks and the ledger are, and what to do about what is wrong.

use std::{collections::HashMap, sync::atomic::Ordering::Relaxed};

use axum::{Json, extract::State, http::HeaderMap};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Server, Shared,
    judge::{Deed, Viewer},
    problem::Problem,
};
use crate::{
    cluster::{Scope, informer::Informer, reflector::Phase, source},
    history::{Error, History, sight::Place},
    ledger::SinkCounts,
};

pub(super) async fn status(State(server): State<Server>, headers: HeaderMap) -> Result<Json<Value>, Problem> {
    let viewer = server.access.viewer(&headers).await?;
    let sources = &server.sources;
    let stored = server.ask(History::stored).await?;
    let all = sources.factory.informers();
    let synced = sources.overview.borrow().discovered && all.iter().all(|i| i.has_synced() || waits(i));
    // The same questions as for the changes, so that they are asked once.
    let places = all.iter().map(|informer| (place(informer), 0)).collect();
    let sight = server.access.see(&viewer, places, false).await?.sight;
    let seen = all.iter().filter(|informer| {
        let Place { group, resource, namespace } = place(informer);
        sight.may(&group, &resource, &namespace)
    });
    let informers: Vec<Value> = seen.map(|informer| about(informer, &stored.objects)).collect();
    // How much there is of what, and where it goes, is not for everybody who may see some of it.
    let runs_it = server.runs_it(&viewer).await?;
    let counts = sources.ledger.counts();
    let live = sources.live.borrow().clone();
    let sinks: Vec<Value> =
        live.sinks.iter().map(|(name, kind)| sink(name, kind, &counts.sink(&name.as_str().into()), &stored)).collect();
    let failing = sources.store.health().borrow().failing.clone();
    let ledger = json!({"bytes": stored.ledger.bytes, "events": stored.ledger.events, "oldest": stored.ledger.oldest,
        "newest": stored.ledger.newest, "failing": failing});
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "cluster": {"name": sources.cluster.name, "uid": sources.cluster.uid},
        "started": server.started, "now": Timestamp::now(), "synced": synced,
        "informers": informers,
        "sinks": if runs_it { json!(sinks) } else { json!([]) },
        "ledger": if runs_it { ledger } else { Value::Null },
        "silences": stored.silences, "leader": sources.leader.as_ref().map(|leader| *leader.borrow()),
    })))
}

impl Shared {
    /// Whether somebody may see how it is run: `get` of `status.kubediff.io`.
    pub(super) async fn runs_it(&self, viewer: &Viewer) -> Result<bool, Problem> {
        match viewer {
            Viewer::Anyone => Ok(true),
            Viewer::User(_) => self.access.may(viewer, Deed::get("kubediff.io", "status", "")).await,
        }
    }
}

fn scope(informer: &Informer) -> &str {
    match &informer.feed().scope {
        Scope::All => "",
        Scope::Namespace(namespace) => namespace,
    }
}

fn place(informer: &Informer) -> Place {
    let resource = &informer.feed().resource;
    Place { group: resource.group.clone(), resource: resource.plural.clone(), namespace: scope(informer).to_owned() }
}

/// It cannot be read, and is not waited for.
fn waits(informer: &Informer) -> bool {
    let status = informer.status();
    let status = status.borrow();
    status.denied || status.phase == Phase::Waiting
}

fn about(informer: &Informer, objects: &HashMap<i64, i64>) -> Value {
    let status = informer.status().borrow().clone();
    let resource = &informer.feed().resource;
    let problem = status.problem.as_ref().filter(|_| status.denied || status.phase == Phase::Waiting);
    let state = if status.denied { "not permitted" } else { status.phase.as_str() };
    json!({
        "resource": resource.plural, "kind": resource.kind, "shortNames": resource.short_names, "group": resource.group, "version": resource.version,
        "scope": scope(informer), "state": state, "synced": informer.has_synced(),
        "objects": informer.id().map(|id| objects.get(&id).copied().unwrap_or_default()),
        "since": status.since,
        "reason": problem.map(|problem| problem.error.to_string()),
        "remedy": problem.map(|problem| remedy(&problem.error, informer)),
        "lastEvent": status.last_event, "lastBookmark": status.last_bookmark,
    })
}

fn remedy(error: &source::Error, informer: &Informer) -> String {
    use source::Error::{
        Busy, Connection, Expired, Forbidden, Invalid, Malformed, NotFound, Server, TooNew, Unauthorized,
    };
    let resource = informer.feed().resource.group_resource();
    match error {
        Forbidden(_) => {
            format!(
                "allow kubediff to list and watch {resource} (`kubediff rbac` prints the role), or leave it out with watch.exclude"
            )
        }
        Unauthorized(_) => "give kubediff a token or certificate that the API server takes".to_owned(),
        NotFound(_) => {
            format!("nothing to do if {resource} is not served any more; else look at its API service or CRD")
        }
        Invalid(_) => format!("look at the selectors of {resource} in the configuration"),
        Server { .. } | Malformed(_) => format!("look at the log of whoever serves {resource}"),
        Connection(_) => "look whether the API server runs and can be reached".to_owned(),
        Busy { .. } | Expired(_) | TooNew(_) => "nothing: it is tried again by itself".to_owned(),
    }
}

fn sink(name: &str, kind: &str, counts: &SinkCounts, stored: &Stored) -> Value {
    let health = counts.health();
    let queue = stored.queues.get(name).cloned().unwrap_or_default();
    let state = match () {
        () if health.disabled => "disabled",
        () if health.failing.is_some() => "failing",
        () => "ok",
    };
    let remedy = match state {
        "disabled" => Some("the other side wants no more; mend it and start kubediff again"),
        "failing" => {
            Some("it is tried again by itself and nothing is lost meanwhile; `kubediff test-sink` tries it now")
        }
        _ if queue.dead > 0 => Some("see `kubediff dead-letters list`; `retry` sends them again"),
        _ => None,
    };
    json!({
        "name": name, "type": kind, "state": state, "waiting": queue.waiting, "oldest": queue.oldest,
        "delivered": counts.delivered.load(Relaxed), "dead": queue.dead,
        "reason": health.failing, "remedy": remedy, "since": health.failing_since,
        "lastDelivered": health.last_delivered,
    })
}

/// What the status needs of the file.
pub(super) struct Stored {
    objects: HashMap<i64, i64>,
    queues: HashMap<String, Queue>,
    ledger: crate::history::Stats,
    silences: usize,
}

#[derive(Clone, Default)]
struct Queue {
    waiting: i64,
    oldest: Option<Timestamp>,
    dead: i64,
}

impl History {
    fn stored(&mut self) -> Result<Stored, Error> {
        let connection = self.sql();
        let objects = connection
            .prepare_cached("SELECT feed, count(*) FROM objects GROUP BY feed")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let queues = connection
            .prepare_cached(
                "SELECT s.name, coalesce(w.waiting, 0), (SELECT time FROM events WHERE seq = w.oldest),
                        (SELECT count(*) FROM dead_letters d WHERE d.sink = s.id)
                 FROM sinks s LEFT JOIN
                 (SELECT sink, count(*) AS waiting, min(seq) AS oldest FROM deliveries GROUP BY sink) w ON w.sink = s.id",
            )?
            .query_map([], |row| {
                let oldest: Option<i64> = row.get(2)?;
                let oldest = oldest.and_then(|ms| Timestamp::from_millisecond(ms).ok());
                Ok((row.get(0)?, Queue { waiting: row.get(1)?, oldest, dead: row.get(3)? }))
            })?
            .collect::<Result<_, _>>()?;
        Ok(Stored { objects, queues, ledger: self.ledger()?, silences: self.silences(Timestamp::now())?.len() })
    }
}
