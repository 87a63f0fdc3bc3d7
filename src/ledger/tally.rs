//! How many events there are, kept so that nobody has to count them: by profile (what filters and facets ask for) in
//! all, and by profile in each minute, hour and day. Filled in batches shortly after the commit, so that a change pays
//! for none of it, and taken back when events are forgotten. Files of earlier versions are caught up with the same way.
//!
//! Events above the number `counted` are not in it yet: whoever wants to know looks at those himself.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension, Transaction, params};

/// Milliseconds.
pub(crate) const MINUTE: i64 = 60_000;
pub(crate) const HOUR: i64 = 60 * MINUTE;
pub(crate) const DAY: i64 = 24 * HOUR;
const WIDTHS: [i64; 3] = [MINUTE, HOUR, DAY];

/// Events a batch.
const BATCH: i64 = 5_000;
/// Where the number of the newest event that is counted stands, in `meta`.
const COUNTED: &str = "counted";

/// The columns of an event that make its profile, in the order of [`Profile::columns`].
const COLUMNS: &str = "type, observed, api_group, resource, kind, namespace, classes, managers";

/// What events have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Profile {
    /// As [`COLUMNS`] has them.
    pub(crate) columns: [String; 8],
}

impl Profile {
    fn read(row: &rusqlite::Row<'_>, from: usize) -> Result<Self, rusqlite::Error> {
        let mut columns: [String; 8] = Default::default();
        for (at, column) in columns.iter_mut().enumerate() {
            *column = row.get(from + at)?;
        }
        Ok(Self { columns })
    }

    /// 0 for created, 1 for updated, 2 for deleted.
    pub(crate) fn sort(&self) -> usize {
        sort(&self.columns[0])
    }
}

/// 0 for created, 1 for updated, 2 for deleted.
pub(crate) fn sort(event_type: &str) -> usize {
    match event_type {
        "created" => 0,
        "updated" => 1,
        _ => 2,
    }
}

/// The number of the newest event that is counted.
pub(crate) fn counted(connection: &Connection) -> Result<i64, rusqlite::Error> {
    let found = connection
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([COUNTED], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or(0))
}

/// Whether there are events that are not counted.
pub(super) fn is_behind(connection: &Connection) -> Result<bool, rusqlite::Error> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM events INDEXED BY events_narrow WHERE seq > ?1)")?
        .query_row([counted(connection)?], |row| row.get(0))
}

/// Counts some events that are not counted yet. `true` when there may be more.
pub(super) fn fill(transaction: &Transaction<'_>) -> Result<bool, rusqlite::Error> {
    let after = counted(transaction)?;
    let mut changes = Changes::default();
    let (mut rows_read, mut newest) = (0, after);
    {
        let mut statement = transaction.prepare_cached(&format!(
            "SELECT seq, time, {COLUMNS} FROM events INDEXED BY events_narrow WHERE seq > ?1 ORDER BY seq LIMIT ?2"
        ))?;
        let mut rows = statement.query([after, BATCH])?;
        while let Some(row) = rows.next()? {
            newest = row.get(0)?;
            rows_read += 1;
            changes.add(newest, row.get(1)?, Profile::read(row, 2)?);
        }
    }
    if rows_read == 0 {
        return Ok(false);
    }
    changes.apply(transaction, 1)?;
    transaction
        .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")?
        .execute(params![COUNTED, newest])?;
    Ok(rows_read == BATCH)
}

/// Everything at once: for files that nobody has open, and for tests.
pub fn fill_all(transaction: &Transaction<'_>) -> Result<(), rusqlite::Error> {
    while fill(transaction)? {}
    Ok(())
}

/// Takes events back that are about to be forgotten. Those that are not counted yet are passed over.
pub(super) fn take_back(transaction: &Transaction<'_>, seqs: &[i64]) -> Result<(), rusqlite::Error> {
    let counted = counted(transaction)?;
    let mut changes = Changes::default();
    {
        let mut statement = transaction
            .prepare_cached(&format!("SELECT time, {COLUMNS} FROM events INDEXED BY events_narrow WHERE seq = ?1"))?;
        for seq in seqs.iter().filter(|seq| **seq <= counted) {
            let mut rows = statement.query([seq])?;
            while let Some(row) = rows.next()? {
                changes.add(*seq, row.get(0)?, Profile::read(row, 1)?);
            }
        }
    }
    changes.apply(transaction, -1)
}

/// Events to count or to take back, gathered.
#[derive(Default)]
struct Changes {
    profiles: HashMap<Profile, usize>,
    /// By the number of the profile in the map above.
    totals: Vec<i64>,
    sorts: Vec<usize>,
    tallies: BTreeMap<(i64, i64), Change>,
}

#[derive(Default)]
struct Change {
    sorts: [i64; 3],
    first: i64,
    last: i64,
    profiles: HashMap<usize, i64>,
}

impl Changes {
    fn add(&mut self, seq: i64, time: i64, profile: Profile) {
        let sort = profile.sort();
        let at = *self.profiles.entry(profile).or_insert_with(|| {
            self.totals.push(0);
            self.sorts.push(sort);
            self.totals.len() - 1
        });
        self.totals[at] += 1;
        for width in WIDTHS {
            let start = time.div_euclid(width) * width;
            let change = self.tallies.entry((width, start)).or_insert_with(|| Change {
                first: seq,
                last: seq,
                ..Change::default()
            });
            change.first = change.first.min(seq);
            change.last = change.last.max(seq);
            change.sorts[sort] += 1;
            *change.profiles.entry(at).or_default() += 1;
        }
    }

    fn apply(self, transaction: &Transaction<'_>, sign: i64) -> Result<(), rusqlite::Error> {
        let mut ids = vec![0; self.totals.len()];
        let mut upsert = transaction.prepare_cached(&format!(
            "INSERT INTO profiles ({COLUMNS}, events) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT DO UPDATE SET events = max(0, events + excluded.events) RETURNING id"
        ))?;
        for (profile, at) in &self.profiles {
            let [a, b, c, d, e, f, g, h] = &profile.columns;
            ids[*at] = upsert
                .query_row(params![a, b, c, d, e, f, g, h, sign * self.totals[*at]], |row| row.get::<_, i64>(0))?;
        }
        for ((width, start), change) in &self.tallies {
            change.apply(transaction, *width, *start, sign, &ids)?;
        }
        if sign < 0 {
            let mut delete = transaction.prepare_cached("DELETE FROM profiles WHERE id = ?1 AND events <= 0")?;
            for id in ids {
                delete.execute([id])?;
            }
        }
        Ok(())
    }
}

impl Change {
    fn apply(
        &self,
        transaction: &Transaction<'_>,
        width: i64,
        start: i64,
        sign: i64,
        ids: &[i64],
    ) -> Result<(), rusqlite::Error> {
        let found: Option<([i64; 3], i64, i64, Vec<u8>)> = transaction
            .prepare_cached(
                "SELECT created, updated, deleted, first, last, profiles FROM tallies WHERE width = ?1 AND start = ?2",
            )?
            .query_row([width, start], |row| {
                Ok(([row.get(0)?, row.get(1)?, row.get(2)?], row.get(3)?, row.get(4)?, row.get(5)?))
            })
            .optional()?;
        let (mut sorts, first, last, blob) = found.unwrap_or(([0; 3], self.first, self.last, Vec::new()));
        let mut profiles = BTreeMap::new();
        read(&blob, |id, events| _ = profiles.insert(id, events));
        for (at, events) in &self.profiles {
            *profiles.entry(ids[*at]).or_default() += sign * events;
        }
        profiles.retain(|_, events| *events > 0);
        if profiles.is_empty() {
            transaction
                .prepare_cached("DELETE FROM tallies WHERE width = ?1 AND start = ?2")?
                .execute([width, start])?;
            return Ok(());
        }
        for (sum, change) in sorts.iter_mut().zip(self.sorts) {
            *sum = (*sum + sign * change).max(0);
        }
        transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO tallies (width, start, created, updated, deleted, first, last, profiles)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                width,
                start,
                sorts[0],
                sorts[1],
                sorts[2],
                first.min(self.first),
                last.max(self.last),
                write(&profiles)
            ])?;
        Ok(())
    }
}

/// Profiles in rising order, each as its distance from the one before and how many events it has, seven bits a byte.
fn write(profiles: &BTreeMap<i64, i64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(profiles.len() * 3);
    let mut before = 0;
    for (id, events) in profiles {
        for mut number in [(id - before).unsigned_abs(), events.unsigned_abs()] {
            while number >= 0x80 {
                bytes.push((number & 0x7f) as u8 | 0x80);
                number >>= 7;
            }
            bytes.push(number as u8);
        }
        before = *id;
    }
    bytes
}

/// Calls `each` with the profiles of a tally and their events. What is damaged ends it.
pub(crate) fn read(bytes: &[u8], mut each: impl FnMut(i64, i64)) {
    // One loop for all: a filtered strip reads hundreds of thousands of them.
    let (mut id, mut number, mut shift, mut second) = (0u64, 0u64, 0u32, false);
    for &byte in bytes {
        number |= u64::from(byte & 0x7f) << shift;
        if byte >= 0x80 {
            shift += 7;
            if shift > 56 {
                return;
            }
            continue;
        }
        if second {
            each(id as i64, number as i64);
        } else {
            id = id.wrapping_add(number);
        }
        (number, shift, second) = (0, 0, !second);
    }
}

/// Every profile, by its id, with its events.
pub(crate) fn profiles(
    connection: &Connection,
    mut each: impl FnMut(i64, &Profile, i64),
) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare_cached(&format!("SELECT id, events, {COLUMNS} FROM profiles"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(row.get(0)?, &Profile::read(row, 2)?, row.get(1)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_as_they_were_written_and_damage_ends_them() {
        let profiles = BTreeMap::from([(1, 1), (2, 127), (3, 128), (500, 1), (100_000, 5_000_000_000)]);
        let bytes = write(&profiles);
        let read = |bytes: &[u8]| {
            let mut found = BTreeMap::new();
            super::read(bytes, |id, events| _ = found.insert(id, events));
            found
        };
        assert_eq!(read(&bytes), profiles);
        assert_eq!(read(&bytes[..bytes.len() - 1]).len(), profiles.len() - 1);
        assert_eq!(read(&[0xff; 40]).len(), 0);
        assert_eq!(read(&[]).len(), 0);
    }
}
