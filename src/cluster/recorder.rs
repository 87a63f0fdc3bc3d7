//! Writes a cluster down as a [`super::source::recording`]: its objects at the beginning, then every change, as the door leaves them.
//!
//! The reflectors are the same that fill the store; what they learn goes to a pen instead. Only what is secret is left
//! out: noise is for whoever plays the recording to judge.

mod pen;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info};

use self::pen::{Entry, Pen};
use super::{
    Resource,
    discovery::{self, Discovery, Trigger},
    reflector::{self, Closed, Phase, Reader, Reflector, Status},
    select,
    source::{Source, recording::Writer},
};
use crate::redact::{self, Door, noise};

#[derive(Clone, Debug)]
pub struct Settings {
    pub select: select::Settings,
    /// For the first line, for people.
    /// Masked beyond what always is: see [`redact::Settings::patterns`].
    pub patterns: Vec<String>,
    pub note: String,
    /// Lists at once.
    pub lists: usize,
    /// How long, once the objects of the beginning are read; `None` for as long as nobody stops it.
    pub length: Option<Duration>,
}

/// What a recording holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub resources: usize,
    /// At the beginning.
    pub objects: u64,
    pub changes: u64,
    pub length: Duration,
    /// Objects that the door refused. They are not in it.
    pub refused: u64,
    /// Resources that could not be read, each with the last reason.
    pub unread: Vec<(String, String)>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("redaction: {0}")]
    Redact(#[from] redact::Error),
    #[error("the recording could not be written")]
    Write(#[source] io::Error),
}

/// Entries that may wait to be written: a disk that is slower than the cluster holds the reading up.
const WAITING: usize = 1024;

/// Resources whose changes say that others may have come or gone.
const TELLING: [&str; 2] = ["customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io"];

/// Records until it is told to stop. What was written to is given back, whole but for what its owner does to close it.
pub async fn record<W: Write + Send + 'static>(
    source: Arc<dyn Source>,
    settings: Settings,
    out: W,
    stop: CancellationToken,
) -> Result<(W, Written), Error> {
    let profile = redact::Settings {
        noise: noise::Profile::All,
        secrets: settings.select.secrets,
        patterns: settings.patterns.clone(),
        ..Default::default()
    };
    // The key is thrown away with this process: nobody can try values against the masks.
    let door = Arc::new(Door::new(&profile, &rand::random())?);
    let (entries, inbox) = mpsc::channel(WAITING);
    let note = settings.note.clone();
    let writing = std::thread::Builder::new()
        .name("recording".into())
        .spawn(move || Writer::new(out, &note).and_then(|out| pen::write(out, inbox)))
        .map_err(Error::Write)?;

    let mut session = Session::new(source, settings, door, entries);
    let _ = session.run(&stop).await;
    let (refused, length, unread) = session.finish().await;
    let written = tokio::task::spawn_blocking(move || writing.join()).await;
    let (out, written) = match written {
        Ok(Ok(written)) => written.map_err(Error::Write)?,
        _ => return Err(Error::Write(io::Error::other("the thread that writes it ended"))),
    };
    Ok((out, Written { length, refused, unread, ..written }))
}

/// One feed that is read.
struct Running {
    stop: CancellationToken,
    status: watch::Receiver<Status>,
    of: usize,
}

struct Session {
    source: Arc<dyn Source>,
    settings: Settings,
    door: Arc<Door>,
    entries: mpsc::Sender<Entry>,
    trigger: Trigger,
    discovery: Discovery,
    shared: Arc<reflector::Shared>,
    refused: Arc<AtomicU64>,
    began: Arc<OnceLock<Instant>>,
    /// The number of each resource that is in the recording and served now, by its name.
    numbers: BTreeMap<String, usize>,
    resources: usize,
    running: BTreeMap<String, Running>,
    tasks: JoinSet<Result<(), Closed>>,
}

impl Session {
    fn new(source: Arc<dyn Source>, settings: Settings, door: Arc<Door>, entries: mpsc::Sender<Entry>) -> Self {
        let trigger = Trigger::new();
        Self {
            discovery: Discovery::new(source.clone(), discovery::Settings::default(), trigger.clone()),
            shared: reflector::Shared::new(settings.lists, Some(trigger.clone())),
            source,
            settings,
            door,
            entries,
            trigger,
            refused: Arc::default(),
            began: Arc::default(),
            numbers: BTreeMap::new(),
            resources: 0,
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Runs until it is told to stop, or nothing can be written any more.
    async fn run(&mut self, stop: &CancellationToken) -> Result<(), Closed> {
        loop {
            let over = async {
                match self.settings.length.zip(self.began.get()) {
                    Some((length, began)) => tokio::time::sleep_until(*began + length).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = over => return Ok(()),
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(Ok(())) => {}
                    _ => return Err(Closed),
                },
                _ = self.discovery.next() => {
                    self.reconcile().await?;
                    if self.began.get().is_none() {
                        tokio::select! {
                            () = stop.cancelled() => return Ok(()),
                            () = settled(&self.running) => self.begin().await?,
                        }
                    }
                }
            }
        }
    }

    async fn begin(&mut self) -> Result<(), Closed> {
        let _ = self.began.set(Instant::now());
        let objects: u64 = self.running.values().map(|running| running.status.borrow().objects).sum();
        info!(resources = self.resources, objects, "recording");
        self.enter(Entry::Began(Timestamp::now())).await
    }

    async fn enter(&self, entry: Entry) -> Result<(), Closed> {
        self.entries.send(entry).await.map_err(|_| Closed)
    }

    fn elapsed(&self) -> Option<Duration> {
        self.began.get().map(Instant::elapsed)
    }

    /// Brings what is read in line with what is served.
    async fn reconcile(&mut self) -> Result<(), Closed> {
        let resources: Vec<Arc<Resource>> = self.discovery.served().resources.values().cloned().collect();
        let plan = select::plan(&self.settings.select, &resources, &BTreeSet::new());
        let wanted: BTreeSet<String> = plan.feeds.iter().map(|feed| feed.resource.group_resource()).collect();
        let gone: Vec<(String, usize)> = self
            .numbers
            .iter()
            .filter(|(name, _)| !wanted.contains(*name))
            .map(|(name, number)| (name.clone(), *number))
            .collect();
        for (name, of) in gone {
            self.numbers.remove(&name);
            for running in self.running.values().filter(|running| running.of == of) {
                running.stop.cancel();
            }
            self.running.retain(|_, running| running.of != of);
            self.enter(Entry::Gone { of, at: self.elapsed().unwrap_or_default() }).await?;
        }
        for feed in plan.feeds {
            if self.running.contains_key(&feed.key()) {
                continue;
            }
            let name = feed.resource.group_resource();
            let of = match self.numbers.get(&name) {
                Some(of) => *of,
                None => {
                    let of = self.resources;
                    self.enter(Entry::Resource { resource: feed.resource.clone(), since: self.elapsed() }).await?;
                    self.numbers.insert(name.clone(), of);
                    self.resources += 1;
                    of
                }
            };
            let trigger = TELLING.contains(&name.as_str()).then(|| self.trigger.clone());
            let pen = Pen::new(of, self.entries.clone(), self.began.clone(), trigger, self.refused.clone());
            let key = feed.key();
            let span = tracing::info_span!("feed", %feed);
            let reader = Reader {
                source: self.source.clone(),
                feed: Arc::new(feed),
                door: self.door.clone(),
                shared: self.shared.clone(),
                settings: Arc::default(),
            };
            let reflector = Reflector::new(reader, pen);
            let running = Running { stop: CancellationToken::new(), status: reflector.status(), of };
            let stop = running.stop.clone();
            self.tasks.spawn(async move { reflector.run(stop).await.map(drop) }.instrument(span));
            self.running.insert(key, running);
        }
        Ok(())
    }

    /// Stops all. Gives how many objects were refused, how long it took, and what could not be read.
    async fn finish(mut self) -> (u64, Duration, Vec<(String, String)>) {
        let mut unread = Vec::new();
        for (feed, running) in &self.running {
            running.stop.cancel();
            let status = running.status.borrow();
            if !status.synced {
                let why = status.problem.as_ref().map_or("there was no answer".to_owned(), |p| p.error.to_string());
                unread.push((feed.split('?').next().unwrap_or_default().trim_end_matches("@*").to_owned(), why));
            }
        }
        while self.tasks.join_next().await.is_some() {}
        (self.refused.load(Ordering::Relaxed), self.elapsed().unwrap_or_default(), unread)
    }
}

/// Waits until each feed is read or has failed once.
async fn settled(running: &BTreeMap<String, Running>) {
    for running in running.values() {
        let mut status = running.status.clone();
        let _ = status.wait_for(|status| status.synced || status.phase == Phase::Waiting).await;
    }
}

#[cfg(test)]
mod tests;
