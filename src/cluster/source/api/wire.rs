//! The bytes of the API server's protocol: queries, pages of lists, lines and events of watches.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Status;
use crate::{
    cluster::{
        Feed, Version,
        source::{Error, Frame, Page},
    },
    redact::Sentences,
};

/// A request's path and query.
pub(super) struct Query {
    path: String,
    separator: char,
}

impl Query {
    /// The feed's collection, with its selectors.
    pub(super) fn of(feed: &Feed) -> Self {
        let mut query = Self { path: feed.resource.path(&feed.scope), separator: '?' };
        if !feed.labels.is_empty() {
            query.add("labelSelector", &feed.labels);
        }
        if !feed.fields.is_empty() {
            query.add("fieldSelector", &feed.fields);
        }
        query
    }

    pub(super) fn add(&mut self, key: &str, value: &str) {
        self.path.push(self.separator);
        self.separator = '&';
        self.path.push_str(key);
        self.path.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.path.push(char::from(byte));
            } else {
                self.path.push_str(&format!("%{byte:02X}"));
            }
        }
    }

    pub(super) fn into_path(self) -> String {
        self.path
    }
}

/// Parses JSON from outside. The parser's own words may quote what it read, so only the place is told.
pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8], what: &str) -> Result<T, Error> {
    serde_json::from_slice(json).map_err(|error| {
        let category = match error.classify() {
            serde_json::error::Category::Data => "unexpected data",
            serde_json::error::Category::Eof => "it ends early",
            _ => "no JSON",
        };
        Error::Malformed(format!("{what}: {category} at line {} column {}", error.line(), error.column()))
    })
}

/// Cuts a list into its items, which share the body's memory.
pub(super) fn page(body: &Bytes) -> Result<Page, Error> {
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow)]
        items: Option<Vec<&'a RawValue>>,
        #[serde(default)]
        metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Metadata {
        resource_version: Option<String>,
        r#continue: Option<String>,
    }
    let raw: Raw<'_> = parse(body, "a list")?;
    Ok(Page {
        items: raw.items.into_iter().flatten().map(|item| body.slice_ref(item.get().as_bytes())).collect(),
        version: Version(raw.metadata.resource_version.unwrap_or_default()),
        continue_token: raw.metadata.r#continue.filter(|token| !token.is_empty()),
    })
}

/// How a frame is made of its object.
type Make = fn(Bytes) -> Frame;

/// How API servers begin the lines of a watch, the most frequent first.
const COMMON: [(&[u8], Make); 3] = [
    (b"{\"type\":\"MODIFIED\",\"object\":{", Frame::Modified),
    (b"{\"type\":\"ADDED\",\"object\":{", Frame::Added),
    (b"{\"type\":\"DELETED\",\"object\":{", Frame::Deleted),
];

/// One line of a watch. The object shares the line's memory.
///
/// Lines as API servers write them are cut by their ends: whether the object is JSON at all is seen when it is read.
pub(super) fn frame(line: &Bytes, sentences: &Sentences) -> Result<Frame, Error> {
    for (beginning, frame) in COMMON {
        if line.starts_with(beginning) && line.ends_with(b"}}") {
            return Ok(frame(line.slice(beginning.len() - 1..line.len() - 1)));
        }
    }
    #[derive(Deserialize)]
    struct Raw<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let raw: Raw<'_> = parse(line, "a watch event")?;
    let object = line.slice_ref(raw.object.get().as_bytes());
    match raw.r#type.as_ref() {
        "ADDED" => Ok(Frame::Added(object)),
        "MODIFIED" => Ok(Frame::Modified(object)),
        "DELETED" => Ok(Frame::Deleted(object)),
        "BOOKMARK" => bookmark(&object),
        "ERROR" => Ok(Frame::Error(parse::<Status>(&object, "an ERROR event")?.into_error(0, None, sentences))),
        _ => Err(Error::Malformed("a watch event of an unknown type".into())),
    }
}

fn bookmark(object: &[u8]) -> Result<Frame, Error> {
    #[derive(Deserialize)]
    struct Raw {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
        annotations: Option<Annotations>,
    }
    #[derive(Deserialize)]
    struct Annotations {
        #[serde(rename = "k8s.io/initial-events-end")]
        end: Option<String>,
    }
    let raw: Raw = parse(object, "a bookmark")?;
    let end = raw.metadata.annotations.and_then(|annotations| annotations.end);
    Ok(Frame::Bookmark {
        version: Version(raw.metadata.resource_version),
        initial_events_end: end.as_deref() == Some("true"),
    })
}

/// Cuts a stream of chunks into lines. A line that lies whole inside a chunk is not copied.
pub(super) struct Lines {
    max: usize,
    chunk: Bytes,
    /// The beginning of a line whose end has not come yet.
    begun: BytesMut,
    /// The length so far of a line that is too long to keep.
    skipped: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Bytes),
    TooLong(u64),
}

impl Lines {
    pub(super) fn new(max: usize) -> Self {
        Self { max, chunk: Bytes::new(), begun: BytesMut::new(), skipped: None }
    }

    /// Adds a chunk; the ones before it have to be used up ([`Lines::next`] gave `None`).
    pub(super) fn feed(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty());
        self.chunk = chunk;
    }

    pub(super) fn next(&mut self) -> Option<Line> {
        if self.chunk.is_empty() {
            return None;
        }
        let Some(end) = memchr::memchr(b'\n', &self.chunk) else {
            let rest = std::mem::take(&mut self.chunk);
            if let Some(skipped) = &mut self.skipped {
                *skipped += rest.len() as u64;
            } else if self.begun.len() + rest.len() > self.max {
                self.skipped = Some((self.begun.len() + rest.len()) as u64);
                self.begun = BytesMut::new();
            } else {
                self.begun.extend_from_slice(&rest);
            }
            return None;
        };
        let tail = self.chunk.split_to(end);
        bytes::Buf::advance(&mut self.chunk, 1);
        if let Some(skipped) = self.skipped.take() {
            return Some(Line::TooLong(skipped + tail.len() as u64));
        }
        let length = self.begun.len() + tail.len();
        if length > self.max {
            self.begun = BytesMut::new();
            return Some(Line::TooLong(length as u64));
        }
        if self.begun.is_empty() {
            return Some(Line::Whole(tail));
        }
        // Taken, not split off: one large event must not leave a large buffer behind in an idle watch.
        let mut line = std::mem::take(&mut self.begun);
        line.extend_from_slice(&tail);
        Some(Line::Whole(line.freeze()))
    }

    /// Whether the stream, if it ended here, ended inside a line.
    pub(super) fn torn(&self) -> bool {
        !self.begun.is_empty() || self.skipped.is_some()
    }
}
