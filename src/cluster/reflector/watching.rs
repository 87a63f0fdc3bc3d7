//! An open watch: reading what it has ready, and knowing when it is dead.

use std::{cmp::Ordering, time::Duration};

use futures::{FutureExt, StreamExt};
use tokio::time::Instant;
use tracing::warn;

use super::{
    Reader, Settings, Status, Update,
    reader::{Admitted, unreadable},
};
use crate::{
    cluster::{
        Version,
        source::{Error, Frame, Frames},
    },
    redact::{Document, Said},
};

/// A watch that is open, or a streaming list.
pub(super) struct Watching {
    frames: Frames,
    opened: Instant,
    /// When the server should have ended it.
    expected_end: Instant,
    last_frame: Option<Instant>,
    bookmarked: bool,
}

/// What a read gave.
pub(super) struct Batch {
    pub(super) updates: Vec<Update>,
    /// Where the cursor is once the updates are taken; `None` when it does not move.
    pub(super) at: Option<Version>,
    pub(super) then: Then,
}

/// How it goes on after a batch.
pub(super) enum Then {
    More,
    /// The streaming list is whole.
    ListEnded,
    /// The server ended the watch.
    Ended,
    /// Somebody asks whether all is read, which this watch may not say for a minute.
    Anew,
    Failed(Fault),
}

/// How a watch failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// It said nothing past its time.
    Silent,
    /// An object of a streaming list was larger than the limit: the list names not all that there is.
    TooLarge,
    /// The server says in the stream itself that it failed.
    Broken(Error),
    Source(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Source(error)
    }
}

/// What is taken from a watch at once, at most.
const BATCH: usize = 200;
const BATCH_BYTES: usize = 1 << 20;

impl Watching {
    pub(super) fn new(frames: Frames, opened: Instant, timeout: Duration) -> Self {
        Self { frames, opened, expected_end: opened + timeout, last_frame: None, bookmarked: false }
    }

    /// It ended so soon that it can never have worked.
    pub(super) fn ended_at_once(&self) -> bool {
        self.last_frame.is_none() && self.opened.elapsed() < Duration::from_secs(1)
    }

    /// It was open long enough for bookmarks, and said nothing at all.
    pub(super) fn mute(&self, settings: &Settings) -> bool {
        self.last_frame.is_none() && self.opened.elapsed() >= settings.mute
    }

    fn deadline(&self, settings: &Settings, listing: bool) -> Instant {
        let heard = self.last_frame.unwrap_or(self.opened);
        if listing {
            return heard + settings.stream_pause;
        }
        let end = self.expected_end.max(heard) + settings.grace;
        if self.bookmarked { end.min(heard + settings.silence) } else { end }
    }

    /// Waits for a frame, and takes those that came with it. `at` is the cursor so far; `listing` says that the end of
    /// the streaming list has not come yet.
    pub(super) async fn read(
        &mut self,
        reader: &Reader,
        status: &tokio::sync::watch::Sender<Status>,
        at: &Version,
        listing: bool,
    ) -> Batch {
        let deadline = self.deadline(&reader.settings, listing);
        let mut gather = Gather { listing, ..Gather::default() };
        let Ok(mut frame) = tokio::time::timeout_at(deadline, self.frames.next()).await else {
            return gather.finish(status, Then::Failed(Fault::Silent));
        };
        loop {
            let then = match frame {
                None => Some(Then::Ended),
                Some(Ok(Frame::Error(error @ Error::Server { .. }))) => Some(Then::Failed(Fault::Broken(error))),
                Some(Err(error) | Ok(Frame::Error(error))) => Some(Then::Failed(error.into())),
                Some(Ok(frame)) => {
                    self.last_frame = Some(Instant::now());
                    self.bookmarked |= matches!(frame, Frame::Bookmark { .. });
                    gather.take(frame, reader, at)
                }
            };
            if let Some(then) = then {
                return gather.finish(status, then);
            }
            if gather.count >= BATCH || gather.bytes >= BATCH_BYTES {
                return gather.finish(status, Then::More);
            }
            frame = match self.frames.next().now_or_never() {
                Some(frame) => frame,
                None => return gather.finish(status, Then::More),
            };
        }
    }
}

/// A batch being filled.
#[derive(Default)]
struct Gather {
    listing: bool,
    updates: Vec<Update>,
    listed: Vec<Document>,
    at: Option<Version>,
    count: usize,
    bytes: usize,
    events: u64,
    objects: u64,
    refused: u64,
    bookmarks: bool,
}

impl Gather {
    fn take(&mut self, frame: Frame, reader: &Reader, at: &Version) -> Option<Then> {
        self.count += 1;
        match frame {
            Frame::Added(object) | Frame::Modified(object) => return self.object(&object, reader, false),
            Frame::Deleted(object) => return self.object(&object, reader, true),
            Frame::Bookmark { version, initial_events_end } => {
                self.bookmarks = true;
                if self.listing {
                    if initial_events_end {
                        self.flush();
                        self.updates.push(Update::ListEnded(version.clone()));
                        self.at = Some(version);
                        return Some(Then::ListEnded);
                    }
                    return None;
                }
                let before = self.at.as_ref().unwrap_or(at);
                if version.cmp_within(before) == Some(Ordering::Less) {
                    let text = Said::own(format!("it is at {version}, before {before}"));
                    return Some(Then::Failed(Error::TooNew(text).into()));
                }
                self.pass(version);
            }
            Frame::TooLarge { bytes } => {
                self.refused += 1;
                warn!(feed = %reader.feed, bytes, "an event was skipped: it is larger than the limit");
                if self.listing {
                    return Some(Then::Failed(Fault::TooLarge));
                }
            }
            Frame::Error(_) => unreachable!("an ERROR event is a failure before it is taken"),
        }
        None
    }

    fn object(&mut self, object: &[u8], reader: &Reader, deleted: bool) -> Option<Then> {
        self.bytes += object.len();
        if self.listing {
            self.objects += 1;
        } else {
            self.events += 1;
        }
        match reader.admit(object) {
            Admitted::Taken(document) => {
                if self.listing && !deleted {
                    self.listed.push(document);
                    return None;
                }
                self.flush();
                self.moved(&document.meta().version);
                self.updates.push(if deleted { Update::Deleted(document) } else { Update::Applied(document) });
            }
            Admitted::LeftOut(version) => {
                if !self.listing {
                    self.pass(version);
                }
            }
            Admitted::Refused(named) => {
                self.refused += 1;
                if let Some(named) = named {
                    self.flush();
                    self.moved(&named.version);
                    self.updates.push(unreadable(named, deleted));
                }
            }
            Admitted::Torn(why) => return Some(Then::Failed(Error::Malformed(format!("a watch event: {why}")).into())),
        }
        None
    }

    /// Nothing to tell up to this version. Bookmarks in a row are one.
    fn pass(&mut self, version: Version) {
        self.moved(&version);
        if let Some(Update::Bookmark(last)) = self.updates.last_mut() {
            *last = version;
        } else {
            self.updates.push(Update::Bookmark(version));
        }
    }

    fn moved(&mut self, version: &Version) {
        if !self.listing && !version.as_str().is_empty() {
            self.at = Some(version.clone());
        }
    }

    fn flush(&mut self) {
        if !self.listed.is_empty() {
            self.updates.push(Update::Listed(std::mem::take(&mut self.listed)));
        }
    }

    fn finish(mut self, status: &tokio::sync::watch::Sender<Status>, then: Then) -> Batch {
        self.flush();
        if self.count > 0 {
            let now = jiff::Timestamp::now();
            status.send_modify(|status| {
                status.objects += self.objects;
                status.events += self.events;
                status.refused += self.refused;
                if self.events > 0 {
                    status.last_event = Some(now);
                }
                if self.bookmarks {
                    status.last_bookmark = Some(now);
                }
            });
        }
        Batch { updates: self.updates, at: self.at, then }
    }
}
