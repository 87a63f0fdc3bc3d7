//! The paths under `/api/v1`.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State},
    http::HeaderMap,
    routing::{MethodRouter, delete, get},
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Server,
    judge::{Deed, Seen, Viewer, sight_of_events, sight_of_objects},
    openapi, owners,
    problem::Problem,
    silence::{self, silencing},
    status, stream,
};
use crate::{
    event::{Event, OwnerRef},
    history::{
        self, Filter, History, Name, Order, Page,
        chain::Link,
        objects::{State as ObjectState, When, Which},
        when,
    },
    route::Explanation,
};

/// Every path and what answers there. [`openapi`] describes the same ones, which a test compares.
pub(super) fn routes() -> Vec<(&'static str, MethodRouter<Server>)> {
    vec![
        ("/api/v1/events", get(events)),
        ("/api/v1/events/{id}", get(event)),
        ("/api/v1/density", get(density)),
        ("/api/v1/facets", get(facets)),
        ("/api/v1/objects", get(objects)),
        ("/api/v1/objects/{group}/{version}/{resource}/{namespace}/{name}", get(object)),
        ("/api/v1/objects/{group}/{version}/{resource}/{namespace}/{name}/blame", get(blame)),
        ("/api/v1/objects/{group}/{version}/{resource}/{namespace}/{name}/history", get(object_history)),
        ("/api/v1/stream", get(stream::stream)),
        ("/api/v1/status", get(status::status)),
        ("/api/v1/silences", get(silence::list).post(silence::make)),
        ("/api/v1/silences/{id}", delete(silence::end)),
        ("/api/v1/whoami", get(whoami)),
        ("/api/v1/openapi.json", get(async || Json(openapi::description()))),
    ]
}

pub(super) type Parameters = Query<Vec<(String, String)>>;
pub(super) type Answer = Result<Json<Value>, Problem>;

/// Rows of a page, when nobody says how many and at most.
const LIMIT: usize = 100;
const MOST: usize = 1_000;
/// Bytes of a page of whole events; one that is larger by itself comes alone.
const MOST_BYTES: usize = 4 << 20;

/// Parameters of a request that are no filters.
#[derive(Default)]
struct Paging {
    /// When it was asked, which ages are counted from.
    now: Timestamp,
    limit: Option<usize>,
    cursor: Option<String>,
    order: Order,
    full: bool,
    buckets: Option<usize>,
    at: Option<Timestamp>,
    /// The id of an event.
    event: Option<String>,
}

/// Takes the parameters apart. What is unknown is an error: a filter with a slip of the pen would show too much.
fn read(parameters: &[(String, String)], others: &[&str]) -> Result<(Filter, Paging), Problem> {
    let now = Timestamp::now();
    let (mut filter, mut paging) = (Filter::default(), Paging { now, ..Paging::default() });
    let filters = others.contains(&"filters");
    for (name, text) in parameters {
        if !others.contains(&name.as_str()) {
            if filters && filter.set(name, text, now)? {
                continue;
            }
            return Err(Problem::bad(format!("there is no parameter {name:?} here")));
        }
        let number = || text.parse::<usize>().map_err(|_| Problem::bad(format!("{name}: {text:?} is no number")));
        match name.as_str() {
            "limit" => paging.limit = Some(number()?.clamp(1, MOST)),
            "buckets" => paging.buckets = Some(number()?),
            "cursor" if text.is_empty() => {}
            "cursor" => paging.cursor = Some(text.clone()),
            "order" => {
                paging.order = match text.as_str() {
                    "desc" | "" => Order::Desc,
                    "asc" => Order::Asc,
                    _ => return Err(Problem::bad(format!("order: {text:?} is neither asc nor desc"))),
                }
            }
            "full" => paging.full = text == "true",
            "at" if text.is_empty() => {}
            "at" => paging.at = Some(when::parse("at", text, now)?),
            "event" => paging.event = Some(text.clone()),
            // A filter that is allowed where not all of them are.
            _ => drop(filter.set(name, text, now)?),
        }
    }
    Ok((filter, paging))
}

impl Paging {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(LIMIT)
    }

    fn seq(&self) -> Result<Option<i64>, Problem> {
        let wrong = |_| Problem::bad("cursor: expected the `next` of a page before");
        self.cursor.as_deref().map(|text| text.parse().map_err(wrong)).transpose()
    }

    /// Which state of an object is asked for.
    fn when(&self, history: &History) -> Result<When, history::Error> {
        match (&self.event, self.at) {
            (Some(id), _) => {
                let seq = history.find(id)?.ok_or_else(|| history::Error::Unknown(format!("the event {id}")))?;
                Ok(When::After(seq))
            }
            (None, Some(at)) => Ok(When::At(at)),
            (None, None) => Ok(When::Now),
        }
    }
}

/// The filters of a request that takes nothing else but a few named parameters.
pub(super) fn filter(parameters: &[(String, String)], others: &[&str]) -> Result<Filter, Problem> {
    let rest: Vec<_> = parameters.iter().filter(|(name, _)| !others.contains(&name.as_str())).cloned().collect();
    Ok(read(&rest, &["filters"])?.0)
}

async fn events(State(server): State<Server>, headers: HeaderMap, Query(parameters): Parameters) -> Answer {
    let viewer = server.access.viewer(&headers).await?;
    let (filter, paging) = read(&parameters, &["filters", "limit", "cursor", "order", "full"])?;
    let mut filter = owners::allowed(&server, &viewer, &filter).await?;
    let (cursor, limit) = (paging.seq()?, paging.limit());
    let newest_first = paging.order == Order::Desc;
    let below = cursor.filter(|_| newest_first);
    let Seen { sight, since } = sight_of_events(&server, &viewer, &filter, false, below, newest_first).await?;
    filter.since = filter.since.max(since);
    let found = server
        .ask(move |history| {
            let mut page = history.page(&filter, &sight, paging.order, cursor, limit)?;
            // What is older is asked for the next time, and nothing from above the cursor again: its hour goes on up
            // there, and so do older ones when a clock was set back.
            if let (Some(since), None) = (since, page.next) {
                let before = history.before(since.as_millisecond())?;
                page.next = before.map(|before| before.min(below.unwrap_or(i64::MAX)));
            }
            Found::new(history, page, paging.full)
        })
        .await?;
    found.answer(&server, &viewer).await
}

/// A page, as it was asked for.
enum Found {
    Rows(Page),
    Whole(Vec<Arc<Event>>, Option<i64>),
}

impl Found {
    fn new(history: &History, page: Page, full: bool) -> Result<Self, history::Error> {
        if !full {
            return Ok(Self::Rows(page));
        }
        let (events, cut) = history.whole(&page.rows, MOST_BYTES)?;
        Ok(Self::Whole(events, cut.or(page.next)))
    }

    async fn answer(self, server: &Server, viewer: &Viewer) -> Answer {
        let (events, next) = match self {
            Self::Rows(Page { mut rows, next }) => {
                owners::hide(server, viewer, &mut rows).await?;
                (json!(rows), next)
            }
            Self::Whole(mut events, next) => {
                owners::hide_whole(server, viewer, &mut events).await?;
                (json!(events), next)
            }
        };
        let mut answer = json!({"events": events});
        if let Some(next) = next {
            answer["next"] = json!(next.to_string());
        }
        Ok(Json(answer))
    }
}

async fn event(State(server): State<Server>, headers: HeaderMap, Path(id): Path<String>) -> Answer {
    let viewer = server.access.viewer(&headers).await?;
    let missing = || Problem::not_found(format!("there is no event {id}"));
    let wanted = id.clone();
    let found = server
        .ask(move |history| {
            let Some(seq) = history.find(&wanted)? else { return Ok(None) };
            let Some(detail) = history.detail(seq)? else { return Ok(None) };
            let around = history.surroundings(&detail)?;
            let owners = history.owners(&detail)?;
            Ok(Some((detail, around, owners)))
        })
        .await?;
    let (detail, around, mut owners) = found.ok_or_else(missing)?;
    let r = &detail.event.resource;
    let deed = Deed { verb: "get", group: &r.group, resource: &r.resource, namespace: &r.namespace };
    // Whether there is one that may not be seen is not told either.
    if !server.access.may(&viewer, deed).await? {
        return Err(missing());
    }
    // The first owner stands in the object itself; whose that is, in another one.
    for at in 0..owners.len().saturating_sub(1) {
        let Link { group, resource, namespace, .. } = &owners[at];
        if !server.access.may(&viewer, Deed { verb: "get", group, resource, namespace }).await? {
            owners.truncate(at + 1);
            break;
        }
    }
    let mut event = detail.event;
    let named =
        |link: &Link| OwnerRef { kind: link.kind.clone(), namespace: link.namespace.clone(), name: link.name.clone() };
    if !event.owner.as_ref().is_some_and(|root| owners.iter().any(|link| named(link) == *root)) {
        owners::hide_whole(&server, &viewer, std::slice::from_mut(&mut event)).await?;
    }
    let explain = server.sources.live.borrow().explain.clone();
    // Where things go is for those who run it, as in the status.
    let runs_it = server.runs_it(&viewer).await?;
    let routes = explain.filter(|_| runs_it).map(|explain| explanation(&explain(&event, &around.around())));
    let around = runs_it.then_some(around);
    let deliveries = if runs_it { detail.deliveries } else { Vec::new() };
    Ok(Json(json!({
        "event": *event, "inverse": detail.inverse, "before": detail.before, "after": detail.after,
        "previous": detail.previous, "next": detail.next, "hand": detail.hand, "undo": detail.undo,
        "owners": owners, "routes": routes, "around": around, "deliveries": deliveries,
    })))
}

fn explanation(explanation: &Explanation) -> Value {
    let decision = &explanation.decision;
    let silenced: Vec<Value> =
        decision.silenced.iter().map(|(sink, silence)| json!({"sink": **sink, "silence": **silence})).collect();
    json!({
        "sinks": decision.sinks.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "dropped": decision.dropped.as_ref().map(|dropped| dropped.reason().to_owned()),
        "silenced": silenced,
        "annotated": explanation.annotated,
        "steps": explanation.steps,
    })
}

async fn density(State(server): State<Server>, headers: HeaderMap, Query(parameters): Parameters) -> Answer {
    let viewer = server.access.viewer(&headers).await?;
    let (filter, paging) = read(&parameters, &["filters", "buckets"])?;
    let mut filter = owners::allowed(&server, &viewer, &filter).await?;
    let buckets = paging.buckets.unwrap_or(120);
    let Seen { sight, since } = sight_of_events(&server, &viewer, &filter, false, None, true).await?;
    filter.since = filter.since.max(since);
    server
        .ask(move |history| {
            let mut density = history.density(&filter, &sight, buckets, paging.now)?;
            density.partial |= since.is_some();
            Ok(json!(density))
        })
        .await
        .map(Json)
}

async fn facets(State(server): State<Server>, headers: HeaderMap, Query(parameters): Parameters) -> Answer {
    let viewer = server.access.viewer(&headers).await?;
    let (filter, _) = read(&parameters, &["filters"])?;
    let mut filter = owners::allowed(&server, &viewer, &filter).await?;
    let Seen { sight, since } = sight_of_events(&server, &viewer, &filter, true, None, true).await?;
    filter.since = filter.since.max(since);
    server
        .ask(move |history| {
            let mut facets = history.facets(&filter, &sight)?;
            facets.partial |= since.is_some();
            Ok(json!(facets))
        })
        .await
        .map(Json)
}

async fn objects(State(server): State<Server>, headers: HeaderMap, Query(parameters): Parameters) -> Answer {
    let viewer = server.access.viewer(&headers).await?;
    let (filter, paging) = read(&parameters, &["kind", "namespace", "name", "limit", "cursor"])?;
    let which = Which { kinds: filter.kinds, namespaces: filter.namespaces, names: filter.names };
    let sight = sight_of_objects(&server, &viewer, &which).await?;
    let (objects, next) =
        server.ask(move |history| history.objects(&which, &sight, paging.cursor.as_deref(), paging.limit())).await?;
    let mut answer = json!({"objects": objects});
    if let Some(next) = next {
        answer["next"] = json!(next);
    }
    Ok(Json(answer))
}

/// Group, version, resource, namespace and name, as they stand in a path.
type ObjectPath = Path<(String, String, String, String, String)>;

/// The object that a path means, for somebody who may see it.
async fn named(server: &Server, headers: &HeaderMap, Path(path): ObjectPath) -> Result<(Name, String), Problem> {
    let (group, version, resource, namespace, name) = path;
    let name = Name {
        group: if group == "core" { String::new() } else { group },
        resource,
        namespace: if namespace == "-" { String::new() } else { namespace },
        name,
    };
    let viewer = server.access.viewer(headers).await?;
    // `deployments.apps` of no group would be asked for as one thing and looked up as another.
    if name.resource.contains('.') {
        return Err(Problem::not_found(format!("{name} is not known")));
    }
    let deed = Deed { verb: "get", group: &name.group, resource: &name.resource, namespace: &name.namespace };
    if !server.access.may(&viewer, deed).await? {
        return Err(Problem::not_found(format!("{name} is not known")));
    }
    Ok((name, version))
}

fn resource(name: &Name, version: &str, kind: &str) -> Value {
    json!({"group": name.group, "version": version, "resource": name.resource, "kind": kind,
        "namespace": name.namespace, "name": name.name})
}

/// What is said of an object at a time besides the object.
fn about(
    history: &History,
    name: &Name,
    version: &str,
    when: When,
    state: &ObjectState,
) -> Result<Value, history::Error> {
    let kinds = history.kinds()?;
    let known = kinds.get(&name.group, &name.resource);
    let kind = known.map_or("", |known| &known.kind);
    let event = state.event.map(|seq| history.row(seq)).transpose()?.flatten();
    let at = match (when, &event) {
        (When::At(at), _) => at,
        (When::After(_), Some(row)) => row.time,
        _ => Timestamp::now(),
    };
    Ok(json!({
        "resource": resource(name, known.map_or(version, |known| &known.version), kind),
        "at": at, "exists": state.object.is_some(),
        "event": event.map(|row| row.id), "first": state.first, "last": state.last, "since": state.since, "changes": state.changes,
        "certain": state.doubt.is_none(), "doubt": state.doubt,
    }))
}

async fn object(
    State(server): State<Server>,
    headers: HeaderMap,
    path: ObjectPath,
    Query(parameters): Parameters,
) -> Answer {
    let (name, version) = named(&server, &headers, path).await?;
    let (_, paging) = read(&parameters, &["at", "event"])?;
    server
        .ask(move |history| {
            let when = paging.when(history)?;
            let state = history.at(&name, when)?;
            let mut answer = about(history, &name, &version, when, &state)?;
            answer["object"] = state.object.unwrap_or_default();
            Ok(answer)
        })
        .await
        .map(Json)
}

async fn blame(
    State(server): State<Server>,
    headers: HeaderMap,
    path: ObjectPath,
    Query(parameters): Parameters,
) -> Answer {
    let (name, version) = named(&server, &headers, path).await?;
    let (_, paging) = read(&parameters, &["at", "event"])?;
    server
        .ask(move |history| {
            let when = paging.when(history)?;
            let (lines, state) = history.blame(&name, when)?;
            let mut answer = about(history, &name, &version, when, &state)?;
            answer["lines"] = json!(lines);
            Ok(answer)
        })
        .await
        .map(Json)
}

async fn object_history(
    State(server): State<Server>,
    headers: HeaderMap,
    path: ObjectPath,
    Query(parameters): Parameters,
) -> Answer {
    let viewer = server.access.viewer(&headers).await?;
    let (name, _) = named(&server, &headers, path).await?;
    let (_, paging) = read(&parameters, &["limit", "cursor", "order", "full", "at", "event"])?;
    let (cursor, limit) = (paging.seq()?, paging.limit());
    let found = server
        .ask(move |history| {
            let cursor = match cursor {
                None => {
                    let when = paging.when(history)?;
                    history.cursor_at(&name, when, paging.order)?
                }
                given => given,
            };
            let page = history.of_object(&name, paging.order, cursor, limit)?;
            Found::new(history, page, paging.full)
        })
        .await?;
    found.answer(&server, &viewer).await
}

async fn whoami(State(server): State<Server>, headers: HeaderMap) -> Answer {
    let viewer = server.access.viewer(&headers).await?;
    let user = match &viewer {
        Viewer::Anyone => None,
        Viewer::User(user) => Some(user.username.clone()),
    };
    let may_silence = server.access.may(&viewer, silencing("create", "")).await?;
    let auth = if server.access.needs_token() { "token" } else { "none" };
    Ok(Json(json!({"auth": auth, "user": user, "may_silence": may_silence})))
}
