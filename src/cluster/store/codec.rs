//! Sections as zstd frames, with a small dictionary per resource that is trained on the objects themselves.

use std::{
    collections::{HashMap, hash_map::Entry},
    io,
};

use rusqlite::{Connection, OptionalExtension, params};
use zstd::zstd_safe::{self, CCtx, CDict, DCtx, DDict};

/// Level 1 with a 32 KiB dictionary: little larger than level 3 for a fraction of its memory per resource.
const LEVEL: i32 = 1;
const DICTIONARY_BYTES: usize = 32 * 1024;
/// A dictionary is trained when a resource has this many objects, and again each time they are ten times as many.
const FIRST_TRAINING: u64 = 100;
/// Objects that a training looks at: thirty times the dictionary and more, if they are pods.
const SAMPLES: u64 = 200;

/// Bytes of a buffer that are kept: one giant object must not leave its room behind.
const KEPT: usize = 64 * 1024;

/// Compresses on behalf of the one writer.
pub(super) struct Encoder {
    context: CCtx<'static>,
    dictionaries: HashMap<String, CDict<'static>>,
    /// How many objects a resource had when a dictionary was last made of them, or could not be made.
    tried: HashMap<String, u64>,
    /// One for each part of an object.
    buffers: [Vec<u8>; 4],
}

impl Encoder {
    /// Takes up the newest dictionary of each resource.
    pub(super) fn load(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let (mut dictionaries, mut tried) = (HashMap::new(), HashMap::new());
        let mut statement =
            connection.prepare("SELECT resource, trained_on, bytes FROM dictionaries ORDER BY trained_on")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let resource: String = row.get(0)?;
            dictionaries.insert(resource.clone(), CDict::create(row.get_ref(2)?.as_blob()?, LEVEL));
            tried.insert(resource, row.get::<_, i64>(1)?.unsigned_abs());
        }
        Ok(Self { context: CCtx::create(), dictionaries, tried, buffers: Default::default() })
    }

    /// The frames of some JSON texts; nothing for nothing.
    pub(super) fn encode(&mut self, resource: &str, texts: [&[u8]; 4]) -> [&[u8]; 4] {
        let dictionary = self.dictionaries.get(resource);
        for (json, buffer) in texts.into_iter().zip(&mut self.buffers) {
            buffer.clear();
            buffer.shrink_to(KEPT);
            if json.is_empty() {
                continue;
            }
            buffer.reserve(zstd_safe::compress_bound(json.len()));
            let result = match dictionary {
                Some(dictionary) => self.context.compress_using_cdict(buffer, json, dictionary),
                None => self.context.compress(buffer, json, LEVEL),
            };
            // With room for the bound, zstd has no way to fail.
            if let Err(code) = result {
                unreachable!("zstd: {}", zstd_safe::get_error_name(code));
            }
        }
        self.buffers.each_ref().map(Vec::as_slice)
    }

    /// Samples for a dictionary, when the objects of a resource have become enough for one, or many more than the last
    /// one knew. To be followed by [`Encoder::take_up`].
    pub(super) fn due_samples(
        &mut self,
        connection: &Connection,
        decoder: &mut Decoder,
        resource: &str,
        objects: u64,
    ) -> Result<Option<Vec<Vec<u8>>>, rusqlite::Error> {
        let tried = self.tried.get(resource).copied();
        if objects < tried.map_or(FIRST_TRAINING, |tried| tried.saturating_mul(10)) {
            return Ok(None);
        }
        self.tried.insert(resource.to_owned(), objects);
        sample(connection, decoder, resource, objects).map(Some)
    }

    /// Uses a dictionary from now on. Frames written before stay readable: each names its dictionary.
    pub(super) fn take_up(
        &mut self,
        connection: &Connection,
        decoder: &mut Decoder,
        resource: String,
        objects: u64,
        bytes: &[u8],
    ) -> Result<(), rusqlite::Error> {
        let Some(id) = zstd_safe::get_dict_id_from_dict(bytes) else { return Ok(()) };
        connection.execute(
            "INSERT OR REPLACE INTO dictionaries (id, resource, trained_on, bytes) VALUES (?1, ?2, ?3, ?4)",
            params![id.get(), resource, i64::try_from(objects).unwrap_or(i64::MAX), bytes],
        )?;
        decoder.dictionaries.insert(id.get(), DDict::create(bytes));
        self.dictionaries.insert(resource, CDict::create(bytes, LEVEL));
        Ok(())
    }
}

/// A dictionary; `None` when the samples are too few or too equal for one. Takes a good part of a second.
pub(super) fn train(samples: &[Vec<u8>]) -> Option<Vec<u8>> {
    zstd::dict::from_samples(samples, DICTIONARY_BYTES).ok()
}

/// Texts of objects spread evenly over all of a resource's rows: the first ones alone would be worse.
fn sample(
    connection: &Connection,
    decoder: &mut Decoder,
    resource: &str,
    objects: u64,
) -> Result<Vec<Vec<u8>>, rusqlite::Error> {
    let step = i64::try_from((objects / SAMPLES).max(1)).unwrap_or(1);
    let mut statement = connection.prepare(
        "SELECT o.metadata, o.body, o.status, o.managed FROM objects o JOIN feeds f ON f.id = o.feed
         WHERE f.resource = ?1 AND o.id % ?2 = 0 LIMIT ?3",
    )?;
    let mut rows = statement.query(params![resource, step, i64::try_from(SAMPLES).unwrap_or(i64::MAX)])?;
    let mut samples = Vec::new();
    while let Some(row) = rows.next()? {
        for column in 0..4 {
            let text = decoder.decode(connection, row.get_ref(column)?.as_blob()?)?;
            // A giant object says little about the others and would crowd them out.
            if !text.is_empty() && text.len() <= DICTIONARY_BYTES {
                samples.push(text);
            }
        }
    }
    Ok(samples)
}

/// Decompresses; each connection has its own.
pub(super) struct Decoder {
    context: DCtx<'static>,
    dictionaries: HashMap<u32, DDict<'static>>,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self { context: DCtx::create(), dictionaries: HashMap::new() }
    }

    pub(super) fn decode(&mut self, connection: &Connection, frame: &[u8]) -> Result<Vec<u8>, rusqlite::Error> {
        if frame.is_empty() {
            return Ok(Vec::new());
        }
        let damaged = |what: &str| {
            let error = io::Error::new(io::ErrorKind::InvalidData, format!("a stored section is damaged: {what}"));
            rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, Box::new(error))
        };
        let size = zstd_safe::get_frame_content_size(frame).ok().flatten().ok_or_else(|| damaged("no size"))?;
        let mut text = Vec::with_capacity(usize::try_from(size).map_err(|_| damaged("size"))?);
        let result = match zstd_safe::get_dict_id_from_frame(frame) {
            None => self.context.decompress(&mut text, frame),
            Some(id) => {
                let dictionary = match self.dictionaries.entry(id.get()) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(unknown) => {
                        let bytes: Option<Vec<u8>> = connection
                            .prepare_cached("SELECT bytes FROM dictionaries WHERE id = ?1")?
                            .query_row([id.get()], |row| row.get(0))
                            .optional()?;
                        let bytes = bytes.ok_or_else(|| damaged("its dictionary is missing"))?;
                        unknown.insert(DDict::create(&bytes))
                    }
                };
                self.context.decompress_using_ddict(&mut text, frame, dictionary)
            }
        };
        result.map_err(|code| damaged(zstd_safe::get_error_name(code)))?;
        Ok(text)
    }
}
