//! Silences: the only thing that the API writes, into kubediff's own state file.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::{
    Server,
    api::Answer,
    judge::{Deed, Viewer},
    problem::Problem,
};
use crate::{history::when, ledger::silences};

/// What it takes to see, make or end the silences of a namespace.
pub(super) fn silencing<'a>(verb: &'a str, namespace: &'a str) -> Deed<'a> {
    // A pattern is no namespace: who silences several silences all.
    let namespace = if namespace.contains(['*', '!']) { "" } else { namespace };
    Deed { verb, group: "kubediff.io", resource: "silences", namespace }
}

pub(super) async fn list(State(server): State<Server>, headers: HeaderMap) -> Answer {
    let viewer = server.access.viewer(&headers).await?;
    let all = server.ask(|history| history.silences(Timestamp::now())).await?;
    let mut seen = Vec::new();
    for silence in all {
        if server.access.may(&viewer, silencing("get", &silence.namespace)).await? {
            seen.push(silence);
        }
    }
    Ok(Json(json!({"silences": seen})))
}

/// A silence as it is asked for.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wanted {
    namespace: String,
    kind: String,
    name: String,
    sinks: Vec<String>,
    until: Option<Timestamp>,
    #[serde(rename = "for")]
    lasting: Option<String>,
    reason: String,
}

/// A silence on one that stands by would keep nothing back.
fn leading(server: &Server) -> Result<(), Problem> {
    let stands_by = server.sources.leader.as_ref().is_some_and(|leader| !*leader.borrow());
    if !stands_by {
        return Ok(());
    }
    let other = server.sources.leads_instead.as_ref().and_then(|instead| instead());
    let remedy = match other {
        Some(name) => format!("ask {name}, which leads: kubectl port-forward pod/{name} 8080, and --server there"),
        None => "ask the replica that holds the Lease".to_owned(),
    };
    let message = "this replica stands by, and takes over the silences of the one that leads";
    Err(Problem::new(StatusCode::CONFLICT, "standby", message, remedy))
}

pub(super) async fn make(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let viewer = server.access.viewer(&headers).await?;
    leading(&server)?;
    let json = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let json = json.and_then(|value| value.split(';').next()).is_some_and(|value| value.trim() == "application/json");
    if !json {
        let remedy = "send it with `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", "a silence is sent as JSON", remedy));
    }
    let wanted: Wanted = serde_json::from_slice(&body).map_err(|error| Problem::bad(error.to_string()))?;
    if !server.access.may(&viewer, silencing("create", &wanted.namespace)).await? {
        let remedy = "it takes permission to create silences.kubediff.io in the namespace, or in all for all";
        return Err(Problem::forbidden("you may not make this silence", remedy));
    }
    let until = match (wanted.until, &wanted.lasting) {
        (Some(until), None) => until,
        (None, Some(text)) => {
            let lasting = when::duration(text).ok_or_else(|| Problem::bad(format!("for: {text:?} is no duration")))?;
            Timestamp::now().checked_add(lasting).map_err(|_| Problem::bad("for: too long"))?
        }
        _ => return Err(Problem::bad("a silence needs `until` or `for`, and not both")),
    };
    let by = match &viewer {
        Viewer::Anyone => "API".to_owned(),
        Viewer::User(user) => user.username.clone(),
    };
    let Wanted { namespace, kind, name, sinks, reason, .. } = wanted;
    let new = silences::New { namespace, kind, name, sinks, until, reason, by };
    let made = server.sources.ledger.silence(&server.sources.store, new).await?;
    tracing::info!(id = made.id, by = made.by, until = %made.until, reason = made.reason, "a silence was made");
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

pub(super) async fn end(State(server): State<Server>, headers: HeaderMap, Path(id): Path<i64>) -> Answer {
    let viewer = server.access.viewer(&headers).await?;
    leading(&server)?;
    let missing = || Problem::not_found(format!("there is no silence {id}"));
    let all = server.ask(|history| history.silences(Timestamp::now())).await?;
    let silence = all.into_iter().find(|silence| silence.id == id).ok_or_else(missing)?;
    if !server.access.may(&viewer, silencing("delete", &silence.namespace)).await? {
        return Err(missing());
    }
    if !server.sources.ledger.end_silence(&server.sources.store, id).await? {
        return Err(missing());
    }
    tracing::info!(id, "a silence was ended");
    Ok(Json(json!(silence)))
}
