//! Who somebody is and what they may see. The API server is asked (TokenReview, SubjectAccessReview), and its answers
//! are remembered for a short time, one for each resource and namespace and none for single rows.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, Request, header};
use futures::{StreamExt, TryStreamExt, future::BoxFuture, stream};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Server, problem::Problem};
use crate::history::{Filter, Sight, objects::Which, sight::Place};

/// Somebody whose token the API server took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct User {
    pub username: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What may be done to what. An empty namespace means all of them, or none where there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deed<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub namespace: &'a str,
}

impl<'a> Deed<'a> {
    /// What it takes to see many of a kind without knowing their names.
    pub fn list(group: &'a str, resource: &'a str, namespace: &'a str) -> Self {
        Self { verb: "list", group, resource, namespace }
    }

    /// What it takes to see something that one knows by name.
    pub fn get(group: &'a str, resource: &'a str, namespace: &'a str) -> Self {
        Self { verb: "get", group, resource, namespace }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the API server does not judge: {0}")]
pub struct Error(pub String);

/// Decides who somebody is and what they may do.
pub trait Judge: Send + Sync {
    /// `None` when the token is no good.
    fn who<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<User>, Error>>;

    fn may<'a>(&'a self, user: &'a User, deed: Deed<'a>) -> BoxFuture<'a, Result<bool, Error>>;
}

/// The API server itself.
pub struct ApiServer(pub kube::Client);

/// An answer that takes longer is none.
const TIMEOUT: Duration = Duration::from_secs(5);

impl ApiServer {
    async fn review(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .map_err(|error| Error(error.to_string()))?;
        // As text: what cannot be parsed is logged by the client, and there is a token in it.
        let answer = tokio::time::timeout(TIMEOUT, self.0.request_text(request)).await;
        let text = answer.map_err(|_| Error("no answer".to_owned()))?.map_err(|error| Error(error.to_string()))?;
        serde_json::from_str(&text).map_err(|_| Error("an answer that is not understood".to_owned()))
    }
}

impl Judge for ApiServer {
    fn who<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<User>, Error>> {
        Box::pin(async move {
            let body =
                json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
            let answer = self.review("/apis/authentication.k8s.io/v1/tokenreviews", &body).await?;
            let status = &answer["status"];
            if status["authenticated"] != true {
                return Ok(None);
            }
            let user = serde_json::from_value(status["user"].clone());
            user.map(Some).map_err(|_| Error("a user that is not understood".to_owned()))
        })
    }

    fn may<'a>(&'a self, user: &'a User, deed: Deed<'a>) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
                "user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra,
                "resourceAttributes": {"verb": deed.verb, "group": deed.group, "resource": deed.resource,
                    "namespace": deed.namespace}}});
            let answer = self.review("/apis/authorization.k8s.io/v1/subjectaccessreviews", &body).await?;
            Ok(answer["status"]["allowed"] == true)
        })
    }
}

/// How long answers are remembered. Longer, and somebody whose permission was taken away would still see.
const REMEMBER: Duration = Duration::from_secs(30);
/// How long a no is: whoever is given a permission sees the old changes with it a little later.
const REMEMBER_NO: Duration = Duration::from_secs(300);
/// Questions that one request asks of single namespaces. Most people may list a kind everywhere or in a few namespaces
/// that they filter by; of somebody who looks at everything in a cluster of many namespaces, the newest are asked first.
const MOST_ASKED: usize = 1_000;
/// Answers that are remembered at most; beyond that all are forgotten.
const MOST_ANSWERS: usize = 50_000;
/// Questions that are asked at the same time.
const AT_ONCE: usize = 16;

type Hash = [u8; 32];
/// A user, and the deed.
type Asked = (Hash, Hash);
/// Answers, and when they were given.
type Remembered<K, V> = Mutex<HashMap<K, (Instant, V)>>;

/// Who may look at what; remembers the judge's answers.
pub struct Access {
    token: bool,
    judge: Option<Arc<dyn Judge>>,
    users: Remembered<Hash, Option<Arc<User>>>,
    answers: Remembered<Asked, bool>,
    /// Several requests of one page ask the same: one after the other, so that the later ones find the answers.
    turns: Mutex<HashMap<Hash, Arc<tokio::sync::Mutex<()>>>>,
}

/// What somebody sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub sight: Sight,
    /// Of what is older not all was asked: the sight is good from then on.
    pub since: Option<Timestamp>,
}

impl Seen {
    fn all(sight: Sight) -> Self {
        Self { sight, since: None }
    }
}

/// Somebody who asks.
#[derive(Clone, Debug)]
pub enum Viewer {
    /// No token is needed.
    Anyone,
    User(Arc<User>),
}

impl Access {
    pub fn new(token: bool, judge: Option<Arc<dyn Judge>>) -> Self {
        Self { token, judge, users: Mutex::default(), answers: Mutex::default(), turns: Mutex::default() }
    }

    pub fn needs_token(&self) -> bool {
        self.token
    }

    /// Who asks. Without a good token nobody does.
    pub async fn viewer(&self, headers: &HeaderMap) -> Result<Viewer, Problem> {
        if !self.token {
            return Ok(Viewer::Anyone);
        }
        let token = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty())
            .map(|(_, token)| token.trim());
        let Some(token) = token else { return Err(Problem::unauthorized("a bearer token is needed")) };
        let key = hash(&[token]);
        let known = lock(&self.users).get(&key).filter(|(at, _)| at.elapsed() < REMEMBER).map(|(_, user)| user.clone());
        let user = match known {
            Some(user) => user,
            None => {
                let user = self.judge()?.who(token).await?.map(Arc::new);
                remember(&self.users, key, user.clone());
                user
            }
        };
        user.map(Viewer::User).ok_or_else(|| Problem::unauthorized("the API server does not take this token"))
    }

    /// Whether somebody may do something.
    pub async fn may(&self, viewer: &Viewer, deed: Deed<'_>) -> Result<bool, Problem> {
        let Viewer::User(user) = viewer else { return Ok(true) };
        let key = (user.hash(), deed.hash());
        if let Some(may) = self.remembered(&key) {
            return Ok(may);
        }
        let may = self.judge()?.may(user, deed).await?;
        remember(&self.answers, key, may);
        Ok(may)
    }

    fn remembered(&self, key: &Asked) -> Option<bool> {
        let lasts = |may: bool| if may { REMEMBER } else { REMEMBER_NO };
        lock(&self.answers).get(key).filter(|(at, may)| at.elapsed() < lasts(*may)).map(|(_, may)| *may)
    }

    /// Which of some places somebody may see, the newest first. A resource in all namespaces is one question; only where
    /// the answer is no, each namespace is. No more than `MOST_ASKED` of those are asked at a time, when `bounded`.
    pub async fn see(&self, viewer: &Viewer, places: Vec<(Place, i64)>, bounded: bool) -> Result<Seen, Problem> {
        let Viewer::User(user) = viewer else { return Ok(Seen::all(Sight::Everything)) };
        let turn = {
            let mut turns = lock(&self.turns);
            if turns.len() >= MOST_ANSWERS {
                turns.clear();
            }
            turns.entry(user.hash()).or_default().clone()
        };
        let _turn = turn.lock().await;
        if self.may(viewer, Deed::list("*", "*", "")).await? {
            return Ok(Seen::all(Sight::Everything));
        }
        let resources: BTreeSet<(String, String)> =
            places.iter().map(|(place, _)| (place.group.clone(), place.resource.clone())).collect();
        let everywhere: BTreeSet<(String, String)> = stream::iter(resources)
            .map(|(group, resource)| async move {
                let may = self.may(viewer, Deed::list(&group, &resource, "")).await?;
                Ok::<_, Problem>(may.then_some((group, resource)))
            })
            .buffer_unordered(AT_ONCE)
            .try_filter_map(async |found| Ok(found))
            .try_collect()
            .await?;
        let (mut seen, mut doubtful) = (BTreeSet::new(), Vec::new());
        let (mut left, mut since) = (if bounded { MOST_ASKED } else { usize::MAX }, None);
        for (place, newest) in places {
            if everywhere.contains(&(place.group.clone(), place.resource.clone())) {
                seen.insert(place);
                continue;
            }
            if place.namespace.is_empty() {
                continue;
            }
            let deed = Deed::list(&place.group, &place.resource, &place.namespace);
            match self.remembered(&(user.hash(), deed.hash())) {
                Some(true) => drop(seen.insert(place)),
                Some(false) => {}
                // What is newer was asked, and this is the next time. What is not counted yet is little, and is asked at once.
                None if left == 0 && newest < i64::MAX => {
                    since = Some(newest);
                    break;
                }
                None => {
                    left = left.saturating_sub(1);
                    doubtful.push(place);
                }
            }
        }
        let mut asked = stream::iter(doubtful)
            .map(|place| async move {
                let may = self.may(viewer, Deed::list(&place.group, &place.resource, &place.namespace)).await?;
                Ok::<_, Problem>((may, place))
            })
            .buffer_unordered(AT_ONCE);
        while let Some((may, place)) = asked.try_next().await? {
            if may {
                seen.insert(place);
            }
        }
        let since = since.map(|since| Timestamp::from_millisecond(since).unwrap_or(Timestamp::MAX));
        Ok(Seen { sight: Sight::Only(seen), since })
    }

    fn judge(&self) -> Result<&Arc<dyn Judge>, Problem> {
        self.judge.as_ref().ok_or_else(|| Problem::internal("there is no API server that could check a token"))
    }
}

/// What somebody may see of the events that a filter may take, below a cursor.
pub(super) async fn sight_of_events(
    server: &Server,
    viewer: &Viewer,
    filter: &Filter,
    apart: bool,
    cursor: Option<i64>,
    bounded: bool,
) -> Result<Seen, Problem> {
    if matches!(viewer, Viewer::Anyone) {
        return Ok(Seen::all(Sight::Everything));
    }
    let filter = filter.clone();
    let places = server.ask(move |history| history.places_of_events(&filter, apart, cursor)).await?;
    server.access.see(viewer, places, bounded).await
}

/// What somebody may see of the objects that there are.
pub(super) async fn sight_of_objects(server: &Server, viewer: &Viewer, which: &Which) -> Result<Sight, Problem> {
    if matches!(viewer, Viewer::Anyone) {
        return Ok(Sight::Everything);
    }
    let which = which.clone();
    let places = server.ask(move |history| history.places_of_objects(&which)).await?;
    let places = places.into_iter().map(|place| (place, 0)).collect();
    Ok(server.access.see(viewer, places, false).await?.sight)
}

impl User {
    fn hash(&self) -> Hash {
        hash(&[&serde_json::to_string(self).unwrap_or_default()])
    }
}

impl Deed<'_> {
    fn hash(&self) -> Hash {
        hash(&[self.verb, self.group, self.resource, self.namespace])
    }
}

fn hash(parts: &[&str]) -> Hash {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().into()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remember<K: Eq + std::hash::Hash, V>(answers: &Remembered<K, V>, key: K, value: V) {
    let mut answers = lock(answers);
    if answers.len() >= MOST_ANSWERS {
        answers.clear();
    }
    answers.insert(key, (Instant::now(), value));
}
