//! What can only be counted row by row: objects, and what waits for a sink. It is counted when it is asked for, but never
//! for more than a fiftieth of the time, however much there is and however often it is scraped.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use crate::cluster::store::{FeedId, Reader};

/// How many objects each feed has; by an index, so that no object is read.
pub(super) const OBJECTS: &str = "SELECT feed, count(*) FROM objects GROUP BY feed";
/// How much waits for a sink; by the table's own order, so that nothing of another sink is read.
pub(super) const WAITING: &str = "SELECT count(*) FROM deliveries WHERE sink = ?1";
/// The first that waits, if any does, and since when. This takes no time, so it is always of now.
pub(super) const OLDEST: &str =
    "SELECT (SELECT time FROM events WHERE seq = deliveries.seq) FROM deliveries WHERE sink = ?1 ORDER BY seq LIMIT 1";

/// After a count that took a second the next one is this many seconds later.
const PAUSE: u32 = 50;

/// The last count; clones share it.
#[derive(Clone, Default)]
pub struct Counted(Arc<Mutex<Last>>);

#[derive(Default)]
struct Last {
    objects: HashMap<FeedId, u64>,
    /// By the sink's id.
    waiting: HashMap<i64, u64>,
    next: Option<Instant>,
}

/// Of one scrape.
pub(super) struct Count {
    pub(super) objects: HashMap<FeedId, u64>,
    /// By name: how many wait, and the time of the oldest in ms.
    pub(super) sinks: BTreeMap<Arc<str>, (u64, Option<i64>)>,
}

impl Counted {
    pub(super) fn count(
        &self,
        reader: &Reader,
        sinks: &BTreeMap<Arc<str>, i64>,
        now: Instant,
    ) -> Result<Count, rusqlite::Error> {
        // Those who scrape at the same time wait for one count.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sinks.values().all(|id| last.waiting.contains_key(id));
        if !known || last.next.is_none_or(|next| now >= next) {
            let began = Instant::now();
            last.objects = objects(reader)?;
            let mut waiting = reader.connection().prepare(WAITING)?;
            let mut count = |id: &i64| waiting.query_row([id], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs);
            last.waiting = sinks.values().map(|id| Ok((*id, count(id)?))).collect::<Result<_, rusqlite::Error>>()?;
            last.next = Some(now + began.elapsed() * PAUSE);
        }
        let mut oldest = reader.connection().prepare(OLDEST)?;
        let mut found = BTreeMap::new();
        for (name, id) in sinks {
            let first: Option<Option<i64>> = oldest.query_map([id], |row| row.get(0))?.next().transpose()?;
            // Whether any waits is of now, too.
            let waiting = first.map_or(0, |_| last.waiting[id].max(1));
            found.insert(name.clone(), (waiting, first.flatten()));
        }
        Ok(Count { objects: last.objects.clone(), sinks: found })
    }
}

fn objects(reader: &Reader) -> Result<HashMap<FeedId, u64>, rusqlite::Error> {
    let mut statement = reader.connection().prepare(OBJECTS)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?;
    rows.collect()
}
