//! From each version of the schema to the next, a transaction each.

use std::path::Path;

use rusqlite::{Connection, Transaction, params};
use zstd::zstd_safe::{self, DCtx};

use super::file::OpenError;

/// One part of the way from a version to the next.
enum Step {
    Sql(&'static str),
    Code(fn(&Transaction<'_>) -> Result<(), rusqlite::Error>),
}

/// A file at version n still needs what stands after the n-th.
const VERSIONS: &[&[Step]] = &[
    &[Step::Sql(include_str!("schema.sql"))],
    &[
        Step::Sql(
            "ALTER TABLE events ADD COLUMN observed TEXT NOT NULL DEFAULT 'live';
             ALTER TABLE events ADD COLUMN version TEXT NOT NULL DEFAULT '';",
        ),
        Step::Code(fill_columns),
        Step::Sql(include_str!("schema-2.sql")),
    ],
    &[Step::Sql(include_str!("schema-3.sql"))],
    &[Step::Sql(include_str!("schema-4.sql"))],
    &[Step::Sql(include_str!("schema-5.sql"))],
];

/// The version that this program writes.
pub(super) const KNOWN: usize = VERSIONS.len();

pub(super) fn version(connection: &Connection) -> Result<usize, rusqlite::Error> {
    let found = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?;
    Ok(usize::try_from(found).unwrap_or(usize::MAX))
}

pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Sql { path: path.to_owned(), source };
    let found = version(connection).map_err(failed)?;
    if found > KNOWN {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: KNOWN });
    }
    for (version, steps) in VERSIONS.iter().enumerate().skip(found) {
        let transaction = connection.transaction().map_err(failed)?;
        for step in *steps {
            match step {
                Step::Sql(script) => transaction.execute_batch(script).map_err(failed)?,
                Step::Code(code) => code(&transaction).map_err(failed)?,
            }
        }
        transaction
            .pragma_update(None, "user_version", i64::try_from(version + 1).unwrap_or(i64::MAX))
            .map_err(failed)?;
        transaction.commit().map_err(failed)?;
    }
    Ok(())
}

/// `observed` and `version` of events that were written before there were columns for them.
fn fill_columns(transaction: &Transaction<'_>) -> Result<(), rusqlite::Error> {
    #[derive(serde::Deserialize)]
    struct Stored {
        observed: String,
        resource: Resource,
    }
    #[derive(serde::Deserialize)]
    struct Resource {
        version: String,
    }
    let mut after = 0;
    loop {
        let next: Option<(i64, Vec<u8>)> = transaction
            .prepare_cached("SELECT seq, event FROM events WHERE seq > ?1 ORDER BY seq LIMIT 1")?
            .query_map([after], |row| Ok((row.get(0)?, row.get(1)?)))?
            .next()
            .transpose()?;
        let Some((seq, frame)) = next else { return Ok(()) };
        after = seq;
        let json = zstd_safe::get_frame_content_size(&frame).ok().flatten().and_then(|size| {
            let mut text = Vec::with_capacity(usize::try_from(size).ok()?);
            DCtx::create().decompress(&mut text, &frame).ok().map(|_| text)
        });
        // A damaged event stays as it is: whoever reads it says so.
        let Some(stored) = json.and_then(|json| serde_json::from_slice::<Stored>(&json).ok()) else { continue };
        transaction
            .prepare_cached("UPDATE events SET observed = ?2, version = ?3 WHERE seq = ?1")?
            .execute(params![seq, stored.observed, stored.resource.version])?;
    }
}
