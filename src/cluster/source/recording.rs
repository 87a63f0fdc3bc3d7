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
//! {"began":"2026-11-16T09:30:00Z"}                             when that was
//! {"of":0,"at_ms":1500,"type":"MODIFIED","object":{…}}         a change, so long after the beginning, in order
//! {"resource":{…},"at_ms":2000}                                a resource that is served from then on
//! {"of":1,"at_ms":9000,"gone":true}                            and no longer
//! {"at_ms":1500,"mark":"A rollout"}                            what a person calls the part that follows
//! ```
//!
//! What is written is what is passed in: whoever records takes objects through the door first.

mod player;
mod retime;

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    io::{self, Write},
    time::Duration,
};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use self::player::Player;
use super::{Frame, Named};
use crate::cluster::{Resource, Version};

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
    #[serde(skip_serializing_if = "Option::is_none")]
    began: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    gone: bool,
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

    /// Names a resource, with when it appeared unless it was there at the beginning; the number stands for it in the
    /// lines that follow.
    pub fn resource(&mut self, resource: &Resource, since: Option<Duration>) -> io::Result<usize> {
        self.line(&Line { resource: Some(resource.clone()), at_ms: since.map(millis), ..Line::default() })?;
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

    /// When the beginning was: times in objects are moved by this when it is played.
    pub fn began(&mut self, at: Timestamp) -> io::Result<()> {
        self.line(&Line { began: Some(at), ..Line::default() })
    }

    /// What a person calls the part that follows.
    pub fn mark(&mut self, at: Duration, text: &str) -> io::Result<()> {
        self.line(&Line { at_ms: Some(millis(at)), mark: Some(text.to_owned()), ..Line::default() })
    }

    /// The resource is served no more.
    pub fn gone(&mut self, of: usize, at: Duration) -> io::Result<()> {
        self.line(&Line { of: Some(of), at_ms: Some(millis(at)), gone: true, ..Line::default() })
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
            at_ms: Some(millis(at)),
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

fn millis(at: Duration) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}

/// A recording in memory.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    pub note: String,
    pub began: Option<Timestamp>,
    /// What a person calls its parts, each with when it begins, in order.
    pub marks: Vec<(Duration, String)>,
    served: Vec<Served>,
    changes: Vec<Change>,
}

/// A resource with its beginning.
#[derive(Clone, Debug)]
struct Served {
    resource: Resource,
    since: Duration,
    until: Option<Duration>,
    objects: BTreeMap<Key, Bytes>,
    version: Option<Version>,
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
        let at = line.at_ms.map(Duration::from_millis);
        if let Some(resource) = line.resource {
            let since = at.unwrap_or_default();
            self.served.push(Served { resource, since, until: None, objects: BTreeMap::new(), version: None });
            return Some(());
        }
        if let Some(began) = line.began {
            self.began = Some(began);
            return Some(());
        }
        if let Some(mark) = line.mark {
            self.marks.push((at?, mark));
            self.marks.sort_by_key(|(at, _)| *at);
            return Some(());
        }
        let of = line.of?;
        let served = self.served.get_mut(of)?;
        if line.gone {
            served.until = Some(at?);
            return Some(());
        }
        if let Some(version) = line.listed.map(Version) {
            // Namespaces are listed one by one: a watch has to begin at the earliest.
            let later = |known: &Version| known.cmp_within(&version) == Some(Ordering::Less);
            if !served.version.as_ref().is_some_and(later) {
                served.version = Some(version);
            }
            return Some(());
        }
        let object = bytes.slice_ref(line.object?.get().as_bytes());
        let (key, version) = key_of(&object)?;
        let Some(at) = at else {
            served.objects.insert(key, object);
            return Some(());
        };
        let frame = match line.r#type?.as_str() {
            "ADDED" => Frame::Added(object),
            "MODIFIED" => Frame::Modified(object),
            "DELETED" => Frame::Deleted(object),
            _ => return None,
        };
        self.changes.push(Change { of, at, key, version, frame });
        Some(())
    }

    /// How long it lasts.
    pub fn length(&self) -> Duration {
        self.changes.iter().map(|change| change.at).max().unwrap_or_default()
    }

    pub fn changes(&self) -> usize {
        self.changes.len()
    }

    /// Every resource that is in it, at whatever time.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.served.iter().map(|served| &served.resource)
    }

    /// The objects that are there at the beginning.
    pub fn objects(&self) -> usize {
        self.served.iter().map(|served| served.objects.len()).sum()
    }
}

fn key_of(object: &[u8]) -> Option<(Key, Version)> {
    let Named { namespace, name, version } = Named::of(object)?;
    Some(((namespace, name), version))
}

#[cfg(test)]
mod tests;
