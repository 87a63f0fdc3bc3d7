//! Changes as they happen, as server-sent events. A client is read for only as fast as it takes what it gets: what it
//! has not taken stays in the ledger, and one that is too far behind is told so and goes on near the end.

use std::{collections::HashMap, convert::Infallible, time::Duration};

use axum::{
    extract::{Query, State},
    http::{HeaderMap, HeaderValue, header},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use futures::{Stream, StreamExt, stream};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    Server,
    api::{Parameters, filter},
    judge::{Deed, Viewer},
    owners,
    problem::Problem,
};
use crate::history::{Filter, Row, Sight, sight::Place};

/// Rows read at a time for a client.
const PAGE: usize = 100;
/// A client further behind than this misses what is between.
const MOST_BEHIND: i64 = 10_000;
/// A client that gets no row for so many events is told how far it has come: with a narrow filter it would else be too far
/// behind after every interruption. Much less than [`MOST_BEHIND`].
const SAY_EVERY: i64 = 1_000;
/// So that nobody in between takes the connection for dead.
const COMMENT_EVERY: Duration = Duration::from_secs(15);
/// How often the token of an open stream is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

struct Client {
    server: Server,
    headers: HeaderMap,
    viewer: Viewer,
    looked: tokio::time::Instant,
    filter: Filter,
    newest: tokio::sync::watch::Receiver<i64>,
    after: i64,
    /// The number that the client was told last.
    said: i64,
    /// The newest event when the stream was opened: the ledger tells only of later ones.
    opened_at: i64,
    ready: std::collections::VecDeque<Event>,
    _place: OwnedSemaphorePermit,
}

pub(super) async fn stream(
    State(server): State<Server>,
    headers: HeaderMap,
    Query(parameters): Parameters,
) -> Result<Response, Problem> {
    let viewer = server.access.viewer(&headers).await?;
    let filter = filter(&parameters, &["after"])?;
    // What is wrong with it is said now and not in the middle of the stream.
    let asked = filter.clone();
    server.ask(move |history| asked.question(&history.kinds()?, &Sight::Everything).map(drop)).await?;
    let given = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let given = given.or_else(|| parameters.iter().find(|(name, _)| name == "after").map(|(_, text)| text.as_str()));
    let after: Option<i64> = match given.filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => {
            Some(text.parse().map_err(|_| Problem::bad(format!("after: {text:?} is no number of an event")))?)
        }
    };
    let place = server.streams.clone().try_acquire_owned().map_err(|_| Problem::busy())?;
    let newest = server.sources.ledger.newest();
    let stats = server.ask(|history| history.ledger()).await?;
    let mut client = Client {
        headers,
        viewer,
        looked: tokio::time::Instant::now(),
        filter,
        newest,
        after: after.unwrap_or(stats.last_seq),
        said: 0,
        opened_at: stats.last_seq,
        ready: std::collections::VecDeque::new(),
        _place: place,
        server: server.clone(),
    };
    // One whose ledger was begun anew has numbers that are not there yet.
    if client.after > stats.last_seq || client.after < 0 {
        client.behind(stats.last_seq);
    } else if client.after + 1 < stats.first_seq {
        client.behind(stats.first_seq - 1);
    }
    // Says that the stream is open, and where it begins, before anything happens.
    client.said = client.after;
    client.ready.push_front(Event::default().comment("open").id(client.after.to_string()));
    let stop = server.stop.clone();
    let events = client.events().take_until(stop.cancelled_owned());
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(COMMENT_EVERY)).into_response();
    // Proxies are asked not to gather it.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

impl Client {
    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, |mut client| async move {
            loop {
                if let Some(event) = client.ready.pop_front() {
                    return Some((Ok(event), client));
                }
                if let Err(problem) = client.fill().await {
                    tracing::debug!(?problem, "a stream ends");
                    return None;
                }
            }
        })
    }

    /// Waits until there is something, and makes events of it.
    async fn fill(&mut self) -> Result<(), Problem> {
        while self.opened_at.max(*self.newest.borrow_and_update()) <= self.after {
            let changed = tokio::time::timeout(LOOK_AGAIN, self.newest.changed()).await;
            self.look_again().await?;
            if let Ok(Err(_)) = changed {
                return Err(Problem::internal("the ledger has ended"));
            }
        }
        self.look_again().await?;
        let newest = self.opened_at.max(*self.newest.borrow());
        if newest - self.after > MOST_BEHIND {
            self.behind(newest - MOST_BEHIND / 10);
        }
        let (filter, after) = (owners::allowed(&self.server, &self.viewer, &self.filter).await?, self.after);
        let (rows, reached) =
            self.server.ask(move |history| history.after(&filter, &Sight::Everything, after, PAGE)).await?;
        self.after = reached;
        let (mut may, mut shown) = (HashMap::new(), Vec::new());
        for row in rows {
            let place =
                Place { group: row.group.clone(), resource: row.resource.clone(), namespace: row.namespace.clone() };
            let seen = match may.get(&place) {
                Some(seen) => *seen,
                None => {
                    let seen = self.may(&place).await?;
                    may.insert(place, seen);
                    seen
                }
            };
            if seen {
                shown.push(row);
            }
        }
        owners::hide(&self.server, &self.viewer, &mut shown).await?;
        self.ready.extend(shown.iter().map(change));
        self.said = shown.last().map_or(self.said, |row| row.seq);
        if self.after - self.said >= SAY_EVERY {
            self.said = self.after;
            self.ready.push_back(Event::default().id(self.after.to_string()));
        }
        Ok(())
    }

    async fn may(&self, place: &Place) -> Result<bool, Problem> {
        let deed = Deed { verb: "list", group: &place.group, resource: &place.resource, namespace: &place.namespace };
        self.server.access.may(&self.viewer, deed).await
    }

    /// A token may end before its stream does.
    async fn look_again(&mut self) -> Result<(), Problem> {
        if self.looked.elapsed() >= LOOK_AGAIN {
            self.viewer = self.server.access.viewer(&self.headers).await?;
            self.looked = tokio::time::Instant::now();
        }
        Ok(())
    }

    /// Goes on at another number and says so.
    fn behind(&mut self, after: i64) {
        let event = Event::default().event("behind").id(after.to_string());
        let data = json!({"after": self.after, "next": after + 1});
        self.ready.push_back(event.data(data.to_string()));
        (self.after, self.said) = (after, after);
    }
}

fn change(row: &Row) -> Event {
    let data = serde_json::to_string(row).unwrap_or_default();
    Event::default().event("change").id(row.seq.to_string()).data(data)
}
