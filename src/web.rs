//! The page and its API, over HTTP: `docs/specs/api.md`, and `/api/v1/openapi.json` for machines.
//!
//! | file | what it holds |
//! |---|---|
//! | [`judge`] | who somebody is and what they may see: asked of the API server, remembered for a short time |
//! | `owners` | whose root owner may be named |
//! | [`api`] | the paths under `/api/v1` |
//! | `silence` | silences, the only thing that is written |
//! | [`stream`] | changes as they happen |
//! | [`status`] | how informers, sinks and the ledger are |
//! | [`openapi`] | the description for machines |
//! | [`guard`] | what every request and every answer has to keep to |
//! | [`problem`] | what went wrong, in the one form that all errors have |
//! | [`assets`] | the files of the page |
//!
//! Everything is read; silences alone are made and ended. The page's files are for everybody, what the API tells is for
//! those who may see it.

pub mod api;
pub mod assets;
pub mod guard;
pub mod judge;
pub mod openapi;
mod owners;
pub mod problem;
mod silence;
pub mod status;
pub mod stream;
#[cfg(test)]
mod tests;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::Router;
use jiff::Timestamp;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};
use tokio_util::sync::CancellationToken;

use self::{
    judge::{Access, Judge},
    problem::Problem,
};
use crate::{
    cluster::{fleet::Overview, informer::Factory, store::Store},
    event::{Cluster, Event},
    history::{self, History},
    ledger::{Around, Ledger},
    route::Explanation,
};

/// Who may look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// On a loopback address everybody who reaches it, elsewhere who has a token.
    #[default]
    Auto,
    /// Who has a token, on loopback too.
    Token,
    /// Everybody who reaches it.
    None,
}

/// Where and for whom.
#[derive(Clone)]
pub struct Settings {
    pub address: SocketAddr,
    pub auth: Auth,
    /// Where people reach the page, if that is another name.
    pub page_url: Option<String>,
    /// Who judges tokens; none where there is no API server to ask.
    pub judge: Option<Arc<dyn Judge>>,
}

impl Settings {
    /// Whether requests need a token.
    pub fn needs_token(&self) -> bool {
        match self.auth {
            Auth::Auto => !self.address.ip().is_loopback(),
            Auth::Token => true,
            Auth::None => false,
        }
    }
}

/// Why an event goes where it goes in its surroundings, as the routes are now.
pub type Explain = Arc<dyn Fn(&Event, &Around) -> Explanation + Send + Sync>;

/// What a reload may change.
#[derive(Clone, Default)]
pub struct Live {
    pub explain: Option<Explain>,
    /// Name and type of each sink.
    pub sinks: Vec<(String, &'static str)>,
}

/// The name of the replica that delivers, when it is another one and known.
pub type LeadsInstead = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// What the answers are made from.
pub struct Sources {
    pub cluster: Cluster,
    pub store: Store,
    pub ledger: Ledger,
    pub factory: Factory,
    pub overview: watch::Receiver<Overview>,
    pub live: watch::Receiver<Live>,
    /// Whether this one delivers; `None` where there is no other replica.
    pub leader: Option<watch::Receiver<bool>>,
    /// Who leads, when this is one of several and it is somebody else.
    pub leads_instead: Option<LeadsInstead>,
}

/// Shared by all requests.
struct Shared {
    sources: Sources,
    access: Access,
    hosts: guard::Hosts,
    /// Connections to the file that nobody uses at the moment.
    idle: Mutex<Vec<History>>,
    /// Questions that may be asked of the file at the same time.
    asking: Arc<Semaphore>,
    /// Streams that may be open at the same time.
    streams: Arc<Semaphore>,
    started: Timestamp,
    stop: CancellationToken,
}

type Server = Arc<Shared>;

/// Each has a connection of its own while it runs.
const QUESTIONS: usize = 4;
const STREAMS: usize = 200;
const KEEP_IDLE: usize = 2;
/// A question that waits longer for its turn is turned away.
const PATIENCE: Duration = Duration::from_secs(10);

pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "page and API");
    Ok(listener)
}

pub async fn serve(listener: TcpListener, settings: Settings, sources: Sources, stop: CancellationToken) {
    let token = settings.needs_token();
    let judge = settings.judge.clone().filter(|_| token);
    let server = Arc::new(Shared {
        sources,
        hosts: guard::Hosts::new(&settings),
        access: Access::new(token, judge),
        idle: Mutex::default(),
        asking: Arc::new(Semaphore::new(QUESTIONS)),
        streams: Arc::new(Semaphore::new(STREAMS)),
        started: Timestamp::now(),
        stop: stop.clone(),
    });
    guard::accept(listener, router(server), stop).await;
}

fn router(server: Server) -> Router {
    let router = api::routes().into_iter().fold(Router::new(), |router, (path, route)| router.route(path, route));
    router
        .fallback(assets::serve)
        .method_not_allowed_fallback(|| async { Problem::method() })
        .layer(axum::extract::DefaultBodyLimit::max(guard::MOST_BODY))
        .layer(axum::middleware::from_fn_with_state(server.clone(), guard::guard))
        .with_state(server)
}

impl Shared {
    /// Asks the file, on a thread that may wait for the disk.
    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        ask: impl FnOnce(&mut History) -> Result<T, history::Error> + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = tokio::time::timeout(PATIENCE, self.asking.clone().acquire_owned()).await;
        let turn = turn.map_err(|_| Problem::busy())?.map_err(|_| Problem::busy())?;
        let server = self.clone();
        let answer = tokio::task::spawn_blocking(move || {
            // Held until it is done, also when nobody waits for the answer any more.
            let _turn = turn;
            let idle = server.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut history = match idle {
                Some(history) => history,
                None => History::open(server.sources.store.path())?,
            };
            let answer = ask(&mut history)?;
            let mut idle = server.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < KEEP_IDLE {
                idle.push(history);
            }
            Ok::<_, history::Error>(answer)
        });
        Ok(answer.await.map_err(|error| Problem::internal(error.to_string()))??)
    }
}
