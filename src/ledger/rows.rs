//! Events in their table and out of it again.

use std::{
    io,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use rusqlite::{Connection, OptionalExtension, params};
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;
use zstd::zstd_safe::{self, CCtx, CDict, DCtx, DDict};

use super::mark::Place;
use crate::{
    diff::RedactedPatch,
    event::{Event, Redacted},
};

const LEVEL: i32 = 1;
/// Shorter texts are stored as they are: a frame would hardly be smaller, and takes as long to make as the text itself.
const WORTH_A_FRAME: usize = 400;
const FRAME_MAGIC: [u8; 4] = zstd_safe::MAGICNUMBER.to_le_bytes();

/// What events have in common, so that a frame holds what is of one alone; `make dictionary` makes it. Frames name the
/// dictionary that they need: another one comes beside this one, and not in its place.
const DICTIONARY: &[u8] = include_bytes!("event.dict");
static INTO_FRAMES: LazyLock<CDict<'static>> = LazyLock::new(|| CDict::create(DICTIONARY, LEVEL));
static OUT_OF_FRAMES: LazyLock<DDict<'static>> = LazyLock::new(|| DDict::create(DICTIONARY));

/// Writes events; keeps its buffers.
pub(super) struct Encoder {
    context: CCtx<'static>,
    text: Vec<u8>,
    event: Vec<u8>,
    inverse: Vec<u8>,
}

impl Encoder {
    pub(super) fn new() -> Self {
        Self { context: CCtx::create(), text: Vec::new(), event: Vec::new(), inverse: Vec::new() }
    }

    /// The new row's number, and how many bytes of JSON the event has.
    pub(super) fn insert(
        &mut self,
        connection: &Connection,
        event: &Redacted,
        inverse: Option<&RedactedPatch>,
    ) -> Result<(i64, usize), rusqlite::Error> {
        let unwritable = |error: serde_json::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
        let json = event.json().map_err(unwritable)?;
        frame(&mut self.context, json, &mut self.event)?;
        if let Some(inverse) = inverse {
            self.text.clear();
            serde_json::to_writer(&mut self.text, inverse).map_err(unwritable)?;
            frame(&mut self.context, &self.text, &mut self.inverse)?;
        }
        let r = &event.resource;
        let owner = event.owner.as_ref();
        let seq = connection
            .prepare_cached(
                "INSERT INTO events (id, time, type, api_group, resource, kind, namespace, name, uid, owner_kind,
                 owner_namespace, owner_name, classes, managers, summary, event, inverse, observed, version)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
            )?
            .insert(params![
                event.id,
                event.time.as_millisecond(),
                event.kind.as_str(),
                r.group,
                r.resource,
                r.kind,
                r.namespace,
                r.name,
                r.uid,
                owner.map_or("", |owner| &owner.kind),
                owner.map_or("", |owner| &owner.namespace),
                owner.map_or("", |owner| &owner.name),
                words(event.classes.iter().map(|class| class.as_str())),
                words(event.actors.iter().map(|actor| actor.manager.as_str())),
                event.summary,
                self.event,
                inverse.map(|_| &self.inverse),
                event.observed.as_str(),
                r.version,
            ])?;
        Ok((seq, json.len()))
    }
}

/// What is stored of a JSON text.
fn frame(context: &mut CCtx<'_>, json: &[u8], frame: &mut Vec<u8>) -> Result<(), rusqlite::Error> {
    frame.clear();
    if json.len() < WORTH_A_FRAME {
        frame.extend_from_slice(json);
        return Ok(());
    }
    frame.reserve(zstd_safe::compress_bound(json.len()));
    let done = context.compress_using_cdict(frame, json, &INTO_FRAMES);
    done.map(drop).map_err(|code| damaged(zstd_safe::get_error_name(code)))
}

/// ` spec image `: a word is found by ` word `.
fn words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::from(" ");
    for one in words {
        text.push_str(&word(one));
        text.push(' ');
    }
    text
}

/// A manager's name may hold spaces; the word for it does not.
pub(crate) fn word(name: &str) -> String {
    name.chars().map(|c| if c.is_whitespace() { '_' } else { c }).collect()
}

pub(super) fn insert_delivery(
    connection: &Connection,
    sink: i64,
    seq: i64,
    object: i64,
    place: Option<Place>,
) -> Result<(), rusqlite::Error> {
    connection
        .prepare_cached(
            "INSERT INTO deliveries (sink, seq, object, feed, after, version) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            sink,
            seq,
            object,
            place.map(|place| place.feed),
            place.map(|place| place.span.after),
            place.map(|place| place.span.by),
        ])?;
    Ok(())
}

/// What a sink keeps in order: the object by its name, so that one that is deleted and made again is the same.
pub(super) fn object_key(event: &Event) -> i64 {
    let r = &event.resource;
    xxh3_64(format!("{}\0{}\0{}\0{}", r.group, r.resource, r.namespace, r.name).as_bytes()).cast_signed()
}

/// Reads an event back, with the bytes of its JSON. `None` when there is no such row.
pub fn event(connection: &Connection, seq: i64) -> Result<Option<(usize, Arc<Event>)>, rusqlite::Error> {
    Ok(read(connection, seq)?.map(|(bytes, event)| (bytes, Arc::new(event))))
}

/// The same, to be sent again.
pub(super) fn recorded(connection: &Connection, seq: i64) -> Result<Option<(usize, Arc<Redacted>)>, rusqlite::Error> {
    Ok(read(connection, seq)?.map(|(bytes, event)| (bytes, Arc::new(Redacted::restored(event)))))
}

/// As [`event`], or as much of one as a type takes.
pub fn read<T: DeserializeOwned>(connection: &Connection, seq: i64) -> Result<Option<(usize, T)>, rusqlite::Error> {
    let frame: Option<Vec<u8>> = connection
        .prepare_cached("SELECT event FROM events WHERE seq = ?1")?
        .query_row([seq], |row| row.get(0))
        .optional()?;
    let Some(frame) = frame else { return Ok(None) };
    let json = decompress(&frame)?;
    let event = serde_json::from_slice(&json).map_err(|error| damaged(&error.to_string()))?;
    Ok(Some((json.len(), event)))
}

/// The JSON text of a stored frame, or of a text that was too short for one.
pub fn decompress(frame: &[u8]) -> Result<Vec<u8>, rusqlite::Error> {
    if !frame.starts_with(&FRAME_MAGIC) {
        return Ok(frame.to_vec());
    }
    /// One for all readers: making one takes longer than most events do.
    static CONTEXT: LazyLock<Mutex<DCtx<'static>>> = LazyLock::new(|| Mutex::new(DCtx::create()));
    let size = zstd_safe::get_frame_content_size(frame).ok().flatten().ok_or_else(|| damaged("no size"))?;
    let mut text = Vec::with_capacity(usize::try_from(size).map_err(|_| damaged("size"))?);
    let mut context = CONTEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let done = match zstd_safe::get_dict_id_from_frame(frame) {
        None => context.decompress(&mut text, frame),
        Some(_) => context.decompress_using_ddict(&mut text, frame, &OUT_OF_FRAMES),
    };
    done.map_err(|code| damaged(zstd_safe::get_error_name(code)))?;
    Ok(text)
}

fn damaged(what: &str) -> rusqlite::Error {
    let error = io::Error::new(io::ErrorKind::InvalidData, format!("a stored event is damaged: {what}"));
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, Box::new(error))
}
