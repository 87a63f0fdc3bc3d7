//! Where history is read: from the state file, from a running kubediff, or from the one that is installed in a cluster.
//! Commands ask a [`Source`] and do not know which it is; the answers are those of the API (`docs/specs/api.md`).

mod file;
mod forward;
mod server;

use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use futures::future::LocalBoxFuture;
use jiff::{Timestamp, tz::TimeZone};
use kubediff::{
    config::{Lookup, Sources},
    event::Event,
    history::{Row, around::Surroundings, blame::Line, doubt::Doubt},
    ledger::silences::{New, Silence},
};
use serde::Deserialize;
use serde_json::Value;

#[cfg(test)]
pub(crate) use self::server::scripted;
use self::{file::File, server::Server};
use super::{
    Usage, connect,
    history::{pages, short},
    object::Object,
    terminal,
};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Where to look")]
#[group(skip)]
pub(crate) struct Options {
    /// The state file itself. With none of these: the one that the configuration names, kubediff.db; where there is none,
    /// or with --context, the kubediff that is installed in the cluster, through a port-forward
    #[arg(long, value_name = "FILE", global = true)]
    state: Option<PathBuf>,
    /// The configuration that names the state file
    #[arg(long, short, value_name = "FILE", env = "KUBEDIFF_CONFIG", global = true)]
    config: Option<PathBuf>,
    /// A running kubediff: where its page is, http://127.0.0.1:8080. The variable holds where neither --state nor --in is
    /// given [env: KUBEDIFF_SERVER]
    #[arg(long, value_name = "URL", global = true, conflicts_with = "state")]
    server: Option<String>,
    /// Where kubediff is installed in the cluster: a namespace, or a pod in it. Without it the whole cluster is looked
    /// through. If what runs there asks who you are, it is sent the token of your kubeconfig
    #[arg(long = "in", value_name = "NAMESPACE[/POD]", global = true, conflicts_with_all = ["state", "server"])]
    installed_in: Option<forward::Place>,
    /// The bearer token for it, such as "$(kubectl create token NAME)"; the kubeconfig's own is sent only with --in
    #[arg(long, value_name = "TOKEN", env = "KUBEDIFF_TOKEN", hide_env_values = true, global = true)]
    token: Option<String>,
    /// PEM certificates that are trusted for it besides the system's
    #[arg(long, value_name = "FILE", global = true)]
    certificate_authority: Option<PathBuf>,
    #[command(flatten)]
    cluster: connect::Options,
}

/// Parameters of the API, the same for a file.
pub(crate) type Query = Vec<(&'static str, String)>;

pub(crate) enum Source {
    File(Box<File>),
    Server(Server),
}

/// One event and what surrounds it.
#[derive(Debug, Deserialize)]
pub(crate) struct Detail {
    pub(crate) event: Event,
    #[serde(default)]
    pub(crate) before: Option<Value>,
    #[serde(default)]
    pub(crate) after: Option<Value>,
    #[serde(default)]
    pub(crate) previous: Option<String>,
    /// From the object after it to the one before, of updates.
    #[serde(default)]
    pub(crate) inverse: Option<json_patch::Patch>,
    #[serde(default)]
    pub(crate) undo: Option<String>,
    #[serde(default)]
    pub(crate) deliveries: Vec<Waiting>,
    /// None where one may not know it.
    #[serde(default)]
    pub(crate) around: Option<Surroundings>,
}

/// A delivery that is not done.
#[derive(Debug, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) sink: String,
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) attempts: i64,
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// An object at a time.
#[derive(Debug, Deserialize)]
pub(crate) struct AtTime {
    pub(crate) exists: bool,
    #[serde(default)]
    pub(crate) object: Option<Value>,
    #[serde(default)]
    pub(crate) event: Option<String>,
    #[serde(default)]
    pub(crate) doubt: Option<Doubt>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Blame {
    pub(crate) exists: bool,
    pub(crate) lines: Vec<Line>,
    #[serde(default)]
    pub(crate) doubt: Option<Doubt>,
}

/// Why it may have been something else, for people.
pub(crate) fn doubtful(doubt: &Doubt, zone: &TimeZone) -> String {
    let time = |time| terminal::time(time, zone);
    let next = match (doubt.until, &doubt.event) {
        (Some(until), Some(event)) => {
            format!(" The next change, {}, was seen at {} and may be older.", short(event), time(until))
        }
        _ => String::new(),
    };
    format!("not certain after {}: {}.{next}", time(doubt.since), terminal::plain(&doubt.reason))
}

impl Options {
    pub(crate) async fn open(&self) -> anyhow::Result<Source> {
        if let Some(path) = &self.state {
            return Ok(Source::File(Box::new(File::open(path)?)));
        }
        if let Some(url) = self.url(std::env::var("KUBEDIFF_SERVER").ok()) {
            return Ok(Source::Server(Server::new(&url, self.token.clone(), self.ca()?.as_deref())?));
        }
        if !self.cluster.asked() && self.installed_in.is_none() {
            let sources = Sources { lookup: Lookup::Skip, ..Sources::new(self.config.clone()) };
            let plan = sources.load().map_err(|problems| Usage(problems.into()))?;
            let path =
                plan.state.path.context("state.path is \"memory\": give --server URL of the running kubediff")?;
            if path.exists() || self.config.is_some() {
                return Ok(Source::File(Box::new(File::open(&path)?)));
            }
        }
        let forwarded = forward::open(&self.cluster, self.installed_in.as_ref(), self.token.clone()).await;
        forwarded.map(Source::Server).map_err(|error| {
            error.context("there is no state file here and no way to an installed kubediff; give --state or --server")
        })
    }

    /// The running kubediff that is meant. The variable is read here and not by clap, for which it would be typed: then it
    /// could not be set where --state or --in is.
    fn url(&self, variable: Option<String>) -> Option<String> {
        let elsewhere = self.state.is_some() || self.installed_in.is_some();
        let variable = variable.filter(|url| !elsewhere && !url.trim().is_empty());
        self.server.clone().or(variable)
    }

    /// The configuration, for commands that ask it, too.
    pub(crate) fn configuration(&self) -> Option<PathBuf> {
        self.config.clone()
    }

    fn ca(&self) -> anyhow::Result<Option<String>> {
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).map_err(|error| Usage(anyhow!("{}: {error}", path.display())).into())
        };
        self.certificate_authority.as_ref().map(read).transpose()
    }
}

/// Whether an answer says that nothing is known of what was asked for, rather than that it cannot be asked.
pub(crate) fn is_unknown(error: &anyhow::Error) -> bool {
    use kubediff::history::Error::{Gap, NotKept, Unknown};
    match (error.downcast_ref(), error.downcast_ref::<server::Refusal>()) {
        (Some(Unknown(_) | NotKept { .. } | Gap(_)), _) => true,
        (_, Some(refusal)) => refusal.is_unknown(),
        _ => false,
    }
}

/// Who is told of rows as they come.
pub(crate) trait Told {
    fn tell(&mut self, row: Row) -> LocalBoxFuture<'_, anyhow::Result<()>>;
}

/// A page of the newest first, and the cursor of the next one. It may be short, or empty, and still have a next one.
type Page<T> = (Vec<T>, Option<String>);

impl Source {
    pub(crate) async fn rows(&self, query: &Query, limit: usize, cursor: Option<&str>) -> anyhow::Result<Page<Row>> {
        match self {
            Self::File(file) => file.rows(query, limit, cursor),
            Self::Server(server) => server.events(query, limit, cursor, false).await,
        }
    }

    /// The newest of all.
    pub(crate) async fn newest(&self, query: &Query) -> anyhow::Result<Option<Row>> {
        let mut newest = None;
        let ask = async |at_most, cursor: Option<&str>| self.rows(query, at_most, cursor).await;
        pages(1, ask, |row| {
            newest = Some(row);
            Ok(true)
        })
        .await?;
        Ok(newest)
    }

    /// As [`Source::rows`], whole events.
    pub(crate) async fn events(
        &self,
        query: &Query,
        limit: usize,
        cursor: Option<&str>,
    ) -> anyhow::Result<Page<Event>> {
        match self {
            Self::File(file) => file.events(query, limit, cursor),
            Self::Server(server) => server.events(query, limit, cursor, true).await,
        }
    }

    /// By an id, or the beginning of one that no other event has.
    pub(crate) async fn detail(&self, id: &str) -> anyhow::Result<Detail> {
        match self {
            Self::File(file) => file.detail(id),
            Self::Server(server) => server.detail(id).await,
        }
    }

    /// Objects that are there now.
    pub(crate) async fn objects(&self, query: &Query) -> anyhow::Result<Vec<Object>> {
        match self {
            Self::File(file) => file.objects(query),
            Self::Server(server) => server.objects(query).await,
        }
    }

    /// The kind that a word means: `Deployment` for `deploy`. `None` where nothing of it is known.
    pub(crate) async fn kind(&self, word: &str) -> anyhow::Result<Option<String>> {
        match self {
            Self::File(file) => file.kind(word),
            Self::Server(_) => {
                let query = vec![("kind", word.to_owned())];
                // One that nothing ever happened to has objects alone.
                match self.newest(&query).await? {
                    Some(row) => Ok(Some(row.kind)),
                    None => Ok(self.objects(&query).await?.into_iter().next().map(|object| object.kind)),
                }
            }
        }
    }

    /// Fails where a word that a kind is asked for with means none that is known, neither now nor from events.
    pub(crate) async fn check_kinds(&self, words: &str) -> anyhow::Result<()> {
        let words = words.split(',').map(|word| word.trim().trim_start_matches('!'));
        let words: Vec<&str> = words.filter(|word| !word.is_empty() && !word.contains('*')).collect();
        if words.is_empty() {
            return Ok(());
        }
        let kinds = match self {
            Self::File(file) => file.kinds()?,
            Self::Server(server) => server.kinds().await?,
        };
        for word in words {
            if !kinds.knows(word) && self.kind(word).await?.is_none() {
                bail!("no kind {word:?} is known here{}", kinds.did_you_mean(word));
            }
        }
        Ok(())
    }

    pub(crate) async fn object(&self, object: &Object, at: Option<Timestamp>) -> anyhow::Result<AtTime> {
        match self {
            Self::File(file) => file.object(object, at),
            Self::Server(server) => server.object(object, at).await,
        }
    }

    pub(crate) async fn blame(&self, object: &Object, at: Option<Timestamp>) -> anyhow::Result<Blame> {
        match self {
            Self::File(file) => file.blame(object, at),
            Self::Server(server) => server.blame(object, at).await,
        }
    }

    /// Gives each new row after number `after` to `told`, until that fails.
    pub(crate) async fn follow(&self, query: &Query, after: i64, told: &mut dyn Told) -> anyhow::Result<()> {
        match self {
            Self::File(file) => file.follow(query, after, told).await,
            Self::Server(server) => server.follow(query, after, told).await,
        }
    }

    pub(crate) async fn silences(&self) -> anyhow::Result<Vec<Silence>> {
        match self {
            Self::File(file) => file.silences(),
            Self::Server(server) => server.silences().await,
        }
    }

    pub(crate) async fn silence(&self, new: New) -> anyhow::Result<Silence> {
        match self {
            Self::File(file) => file.silence(&new),
            Self::Server(server) => server.silence(&new).await,
        }
    }

    pub(crate) async fn end_silence(&self, id: i64) -> anyhow::Result<()> {
        match self {
            Self::File(file) => file.end_silence(id),
            Self::Server(server) => server.end_silence(id).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        place: Options,
    }

    #[test]
    fn the_variable_names_a_server_only_where_nothing_else_is_named_on_the_line() {
        let url = |typed: &[&str], variable: &str| {
            let typed =
                Typed::try_parse_from([&["kubediff"], typed].concat()).unwrap_or_else(|error| panic!("{error}"));
            typed.place.url(Some(variable.to_owned()))
        };
        let set = "http://set:1";
        assert_eq!(url(&[], set).as_deref(), Some(set));
        assert_eq!(url(&["--server", "http://typed:1"], set).as_deref(), Some("http://typed:1"));
        assert_eq!(url(&["--state", "f.db"], set), None);
        assert_eq!(url(&["--in", "tools"], set), None);
        assert_eq!(url(&[], ""), None, "one that is empty is not set");
        assert!(Typed::try_parse_from(["kubediff", "--state", "f.db", "--server", "http://typed:1"]).is_err());
    }
}
