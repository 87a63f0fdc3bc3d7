//! A cluster written down: its resources, its objects at the beginning, and what changed when. The demo plays one;
//! `kubediff record` writes one.
//!
//! The format, version 1, is one JSON object a line, whole or as one zstd stream:
//!
//! ```text
//! {"recording":1,"note":"…"}                                   the first line
//! {"resource":{"group":"apps","version":"v1","plural":"deployments",…}}   the next gets number 0, 1, 2, …
//! {"of":0,"object":{…}}                                        there at the beginning
//! {"of":0,"listed":"1042"}                                     the version of that beginning
//! {"of":0,"at_ms":1500,"type":"MODIFIED","object":{…}}         a change, so long after the beginning, in order
//! ```
//!
//! What is written is what is passed in: whoever records takes objects through the door first.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::OnceLock,
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{Discovered, Error, Frame, Frames, List, Page, Source, Watch};
use crate::cluster::{Feed, Resource, Scope, Version};

const FORMAT: u32 = 1;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the recording could not be decompressed")]
    Zstd(#[source] io::Error),
    #[error("line {line} of the recording is not understood")]
    Line { line: usize },
    #[error("this is no recording: its first line does not say so")]
    NoRecording,
    #[error("the recording has format {found}; this program reads format {FORMAT}")]
    Format { found: u32 },
}

/// One line. Fields that a line does not have are left out.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<Resource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    listed: Option<String>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    object: Option<&'a RawValue>,
}

/// Writes a recording line by line.
pub struct Writer<W> {
    out: W,
    resources: usize,
}

impl<W: Write> Writer<W> {
    pub fn new(out: W, note: &str) -> io::Result<Self> {
        let mut writer = Self { out, resources: 0 };
        writer.line(&Line { recording: Some(FORMAT), note: Some(note.to_owned()), ..Line::default() })?;
        Ok(writer)
    }

    /// Names a resource; the number stands for it in the lines that follow.
    pub fn resource(&mut self, resource: &Resource) -> io::Result<usize> {
        self.line(&Line { resource: Some(resource.clone()), ..Line::default() })?;
        self.resources += 1;
        Ok(self.resources - 1)
    }

    /// An object that is there at the beginning.
    pub fn object(&mut self, of: usize, object: &[u8]) -> io::Result<()> {
        let object = serde_json::from_slice(object)?;
        self.line(&Line { of: Some(of), object: Some(object), ..Line::default() })
    }

    /// The version of the beginning.
    pub fn listed(&mut self, of: usize, version: &Version) -> io::Result<()> {
        self.line(&Line { of: Some(of), listed: Some(version.0.clone()), ..Line::default() })
    }

    /// A change, so long after the beginning. Frames that change no object are left out.
    pub fn frame(&mut self, of: usize, at: Duration, frame: &Frame) -> io::Result<()> {
        let (kind, object) = match frame {
            Frame::Added(object) => ("ADDED", object),
            Frame::Modified(object) => ("MODIFIED", object),
            Frame::Deleted(object) => ("DELETED", object),
            Frame::Bookmark { .. } | Frame::TooLarge { .. } | Frame::Error(_) => return Ok(()),
        };
        self.line(&Line {
            of: Some(of),
            at_ms: Some(u64::try_from(at.as_millis()).unwrap_or(u64::MAX)),
            r#type: Some(kind.to_owned()),
            object: Some(serde_json::from_slice(object)?),
            ..Line::default()
        })
    }

    pub fn into_inner(self) -> W {
        self.out
    }

    /// Line breaks stand only between the tokens of JSON, never inside one: a space does as well.
    fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        text.push(b'\n');
        self.out.write_all(&text)
    }
}

/// A recording in memory.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    pub note: String,
    pub resources: Vec<Resource>,
    beginnings: Vec<Beginning>,
    changes: Vec<Change>,
}

#[derive(Clone, Debug, Default)]
struct Beginning {
    objects: BTreeMap<Key, Bytes>,
    version: Version,
}

#[derive(Clone, Debug)]
struct Change {
    of: usize,
    at: Duration,
    key: Key,
    version: Version,
    frame: Frame,
}

/// Namespace and name.
type Key = (String, String);

impl Recording {
    pub fn read(recording: impl Into<Bytes>) -> Result<Self, ReadError> {
        let mut bytes = recording.into();
        if bytes.starts_with(&ZSTD_MAGIC) {
            bytes = zstd::stream::decode_all(bytes.as_ref()).map_err(ReadError::Zstd)?.into();
        }
        let mut read = Self::default();
        let mut begun = false;
        for (number, text) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if text.trim_ascii().is_empty() {
                continue;
            }
            let wrong = ReadError::Line { line: number + 1 };
            let line: Line<'_> = match serde_json::from_slice(text) {
                Ok(line) => line,
                Err(_) if !begun => return Err(ReadError::NoRecording),
                Err(_) => return Err(wrong),
            };
            match (begun, line.recording) {
                (false, Some(FORMAT)) => {
                    begun = true;
                    read.note = line.note.unwrap_or_default();
                }
                (false, Some(found)) => return Err(ReadError::Format { found }),
                (false, None) => return Err(ReadError::NoRecording),
                (true, _) => read.line(&bytes, line).ok_or(wrong)?,
            }
        }
        if begun { Ok(read) } else { Err(ReadError::NoRecording) }
    }

    fn line(&mut self, bytes: &Bytes, line: Line<'_>) -> Option<()> {
        if let Some(resource) = line.resource {
            self.resources.push(resource);
            self.beginnings.push(Beginning::default());
            return Some(());
        }
        let of = line.of?;
        let beginning = self.beginnings.get_mut(of)?;
        if let Some(version) = line.listed {
            beginning.version = Version(version);
            return Some(());
        }
        let object = bytes.slice_ref(line.object?.get().as_bytes());
        let (key, version) = key_of(&object)?;
        let Some(at) = line.at_ms else {
            beginning.objects.insert(key, object);
            return Some(());
        };
        let frame = match line.r#type?.as_str() {
            "ADDED" => Frame::Added(object),
            "MODIFIED" => Frame::Modified(object),
            "DELETED" => Frame::Deleted(object),
            _ => return None,
        };
        self.changes.push(Change { of, at: Duration::from_millis(at), key, version, frame });
        Some(())
    }

    /// How long it lasts.
    pub fn length(&self) -> Duration {
        self.changes.iter().map(|change| change.at).max().unwrap_or_default()
    }

    pub fn changes(&self) -> usize {
        self.changes.len()
    }
}

fn key_of(object: &[u8]) -> Option<(Key, Version)> {
    #[derive(Deserialize)]
    struct Raw {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        #[serde(default)]
        namespace: String,
        name: String,
        resource_version: String,
    }
    let Raw { metadata } = serde_json::from_slice(object).ok()?;
    Some(((metadata.namespace, metadata.name), Version(metadata.resource_version)))
}

/// Plays a recording as a source. Its time begins with the first watch, and goes `speed` times as fast as it did.
pub struct Player {
    recording: Recording,
    speed: f64,
    began: OnceLock<Instant>,
}

impl Player {
    pub fn new(recording: Recording, speed: f64) -> Self {
        Self { recording, speed: speed.max(0.001), began: OnceLock::new() }
    }

    fn due(&self, change: &Change, began: Instant) -> Instant {
        began + change.at.div_f64(self.speed)
    }

    /// The number of the feed's resource.
    fn number(&self, feed: &Feed) -> Result<usize, Error> {
        let wanted = feed.resource.group_resource();
        let found = self.recording.resources.iter().position(|resource| resource.group_resource() == wanted);
        found.ok_or_else(|| Error::NotFound("it is not in the recording".into()))
    }

    /// The objects that are there now, and the version of it.
    fn now(&self, feed: &Feed) -> Result<(Vec<Bytes>, Version), Error> {
        let of = self.number(feed)?;
        let Beginning { mut objects, mut version } = self.recording.beginnings[of].clone();
        if let Some(began) = self.began.get() {
            let now = Instant::now();
            for change in self.recording.changes.iter().filter(|change| change.of == of) {
                if self.due(change, *began) > now {
                    break;
                }
                version = change.version.clone();
                match &change.frame {
                    Frame::Added(object) | Frame::Modified(object) => {
                        objects.insert(change.key.clone(), object.clone());
                    }
                    _ => {
                        objects.remove(&change.key);
                    }
                }
            }
        }
        objects.retain(|key, _| in_scope(&feed.scope, key));
        Ok((objects.into_values().collect(), version))
    }
}

fn in_scope(scope: &Scope, key: &Key) -> bool {
    matches!(scope, Scope::All) || matches!(scope, Scope::Namespace(namespace) if *namespace == key.0)
}

impl Source for Player {
    fn discover(&self) -> BoxFuture<'_, Result<Discovered, Error>> {
        let discovered = Discovered { resources: self.recording.resources.clone(), unavailable: Vec::new() };
        async move { Ok(discovered) }.boxed()
    }

    /// Always whole: a recording is in memory anyway.
    fn list<'a>(&'a self, feed: &'a Feed, _list: &'a List) -> BoxFuture<'a, Result<Page, Error>> {
        let page = self.now(feed).map(|(items, version)| Page { items, version, continue_token: None });
        async move { page }.boxed()
    }

    fn watch<'a>(&'a self, feed: &'a Feed, watch: &'a Watch) -> BoxFuture<'a, Result<Frames, Error>> {
        let began = *self.began.get_or_init(Instant::now);
        let frames = self.frames(feed, watch, began);
        async move { frames }.boxed()
    }
}

impl Player {
    fn frames(&self, feed: &Feed, watch: &Watch, began: Instant) -> Result<Frames, Error> {
        if watch.initial_events {
            return Err(Error::Invalid("a recording has no streaming lists".into()));
        }
        let of = self.number(feed)?;
        let end = Instant::now() + watch.timeout;
        let later = |change: &&Change| {
            change.of == of
                && in_scope(&feed.scope, &change.key)
                && change.version.cmp_within(&watch.version) != Some(std::cmp::Ordering::Less)
                && change.version != watch.version
        };
        let changes: Vec<_> =
            self.recording.changes.iter().filter(later).map(|c| (self.due(c, began), c.frame.clone())).collect();
        let played = stream::iter(changes).take_while(move |(due, _)| {
            let in_time = *due < end;
            async move { in_time }
        });
        let played = played.then(|(due, frame)| async move {
            tokio::time::sleep_until(due).await;
            Ok(frame)
        });
        let rest = stream::once(tokio::time::sleep_until(end)).filter_map(|()| async { None });
        Ok(played.chain(rest).boxed())
    }
}

#[cfg(test)]
mod tests;
