//! Whose turn it is at one sink. Pure: rows and times in, what to send out.
//!
//! It looks at a window of the deliveries, never at all of them, and holds numbers, not events. Of each object only the
//! first delivery that is not done may be on its way; the others wait behind it. An object that is being retried takes
//! up one place in the window, however much waits behind it in the file: what is passed over is looked up again when
//! its turn comes.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};

/// Deliveries in memory at a time.
pub const WINDOW: usize = 2_000;
/// Of one object, behind the one that is on its way.
const HELD: usize = 64;
/// Objects that may be waiting for another try before no new one is begun.
const RETRYING: usize = 500;

/// A row of `deliveries`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub seq: i64,
    pub object: i64,
    pub attempts: u32,
    /// Not before this time, in milliseconds.
    pub next_at: i64,
    /// When it was asked for again, and 0 if it was not.
    pub since: i64,
}

#[derive(Debug)]
pub struct Queue {
    window: usize,
    /// Everything in memory, acknowledged or not.
    rows: HashMap<i64, Row>,
    /// May be sent, the oldest first.
    ready: BTreeSet<i64>,
    /// By when their next try is due.
    retries: BTreeSet<(i64, i64)>,
    busy: HashMap<i64, Busy>,
    /// Delivered or given up, and not yet so in the file.
    done: HashSet<i64>,
    /// To be sent by themselves: a batch with them was rejected.
    alone: HashSet<i64>,
    after: i64,
    /// There may be rows after `after`.
    more: bool,
    /// How far it has looked, also when it went back since.
    seen: i64,
    /// Objects that it went back for. Up to `seen` there is nothing else to be found.
    catching_up: HashSet<i64>,
}

/// An object with a delivery on its way, or waiting for another try.
#[derive(Debug, Default)]
struct Busy {
    on_the_way: usize,
    retrying: bool,
    held: BTreeSet<i64>,
    /// The first of its rows that was passed over.
    skipped: Option<i64>,
}

impl Queue {
    pub fn new() -> Self {
        Self::with_window(WINDOW)
    }

    fn with_window(window: usize) -> Self {
        Self {
            window,
            rows: HashMap::new(),
            ready: BTreeSet::new(),
            retries: BTreeSet::new(),
            busy: HashMap::new(),
            done: HashSet::new(),
            alone: HashSet::new(),
            after: 0,
            more: true,
            seen: 0,
            catching_up: HashSet::new(),
        }
    }

    /// There may be new rows.
    pub fn wake(&mut self) {
        self.more = true;
    }

    /// Look at everything again: rows may have come before the ones that were seen.
    pub fn rewind(&mut self) {
        self.after = 0;
        self.more = true;
        self.seen = 0;
        self.catching_up.clear();
    }

    /// The page to read next: after which row, and how many.
    pub fn wants(&self) -> Option<(i64, usize)> {
        let room = self.window.saturating_sub(self.rows.len());
        (self.more && room >= self.window / 4 && self.ready.len() < self.window / 2).then_some((self.after, room))
    }

    /// Takes in the page that [`Queue::wants`] asked for. A page that was asked for before a rewind is ignored.
    pub fn load(&mut self, after: i64, asked: usize, page: &[Row], now: i64) {
        if after != self.after {
            return;
        }
        self.more = page.len() >= asked;
        for row in page {
            self.after = row.seq;
            if self.rows.contains_key(&row.seq) {
                continue;
            }
            if let Some(busy) = self.busy.get_mut(&row.object) {
                if busy.has_room() {
                    busy.held.insert(row.seq);
                    self.rows.insert(row.seq, *row);
                } else {
                    busy.skip(row.seq);
                    self.catching_up.remove(&row.object);
                    if self.catching_up.is_empty() && self.after < self.seen {
                        // What it went back for is in memory as far as it can be: a long backlog of one object is not
                        // read again and again to its end.
                        self.after = self.seen;
                        self.more = true;
                        return;
                    }
                }
                continue;
            }
            self.rows.insert(row.seq, *row);
            if row.next_at > now && !self.waits(row.object) {
                self.busy.insert(row.object, Busy { retrying: true, ..Busy::default() });
                self.retries.insert((row.next_at, row.seq));
            } else {
                self.ready.insert(row.seq);
            }
        }
        if self.after >= self.seen {
            self.seen = self.after;
            self.catching_up.clear();
        }
    }

    /// Whether a row of the object is ready already.
    fn waits(&self, object: i64) -> bool {
        self.ready.iter().any(|seq| self.rows.get(seq).is_some_and(|row| row.object == object))
    }

    /// The next batch, and nothing when nobody's turn has come. Several of one object go in one batch, in order.
    pub fn take(&mut self, now: i64, limit: usize) -> Vec<Row> {
        let mut batch: Vec<Row> = Vec::new();
        while batch.len() < limit {
            let Some((_, seq)) = self.retries.first().copied().filter(|(at, _)| *at <= now) else { break };
            if self.alone.contains(&seq) && !batch.is_empty() {
                return batch;
            }
            self.retries.pop_first();
            let Some(row) = self.rows.get(&seq).copied() else { continue };
            let busy = self.busy.entry(row.object).or_default();
            busy.retrying = false;
            busy.on_the_way += 1;
            batch.push(row);
            if self.alone.contains(&seq) {
                return batch;
            }
        }
        if self.retries.len() >= RETRYING {
            return batch;
        }
        let mut taken: HashSet<i64> = HashSet::new();
        while batch.len() < limit {
            let Some(seq) = self.ready.first().copied() else { break };
            if self.alone.contains(&seq) && !batch.is_empty() {
                break;
            }
            self.ready.pop_first();
            let Some(row) = self.rows.get(&seq).copied() else { continue };
            if self.busy.contains_key(&row.object) && !taken.contains(&row.object) {
                self.hold(row);
                continue;
            }
            self.busy.entry(row.object).or_default().on_the_way += 1;
            taken.insert(row.object);
            batch.push(row);
            if self.alone.contains(&seq) {
                break;
            }
        }
        batch
    }

    /// Puts a row that is in memory behind the one of its object that is on its way, or out of memory again.
    fn hold(&mut self, row: Row) {
        let Some(busy) = self.busy.get_mut(&row.object) else { return };
        if busy.has_room() {
            busy.held.insert(row.seq);
        } else {
            busy.skip(row.seq);
            self.rows.remove(&row.seq);
        }
    }

    /// Delivered, or given up: the next one of the object may go.
    pub fn finish(&mut self, seq: i64) {
        let Some(row) = self.rows.get(&seq).copied() else { return };
        self.done.insert(seq);
        self.alone.remove(&seq);
        self.release(row.object);
    }

    /// Not delivered: again at `at`. Rows of the same object that went along come after it.
    pub fn retry(&mut self, seqs: &[i64], at: i64) {
        let mut heads: HashSet<i64> = HashSet::new();
        for seq in seqs {
            let Some(row) = self.rows.get_mut(seq) else { continue };
            let object = row.object;
            let busy = self.busy.entry(object).or_default();
            busy.on_the_way = busy.on_the_way.saturating_sub(1);
            if heads.insert(object) {
                row.attempts += 1;
                row.next_at = at;
                busy.retrying = true;
                self.retries.insert((at, *seq));
                for behind in std::mem::take(&mut busy.held) {
                    busy.skip(behind);
                    self.rows.remove(&behind);
                }
            } else {
                busy.skip(*seq);
                self.rows.remove(seq);
                self.alone.remove(seq);
            }
        }
    }

    /// A batch was rejected as a whole: each of it is sent by itself, at once and in order.
    pub fn one_by_one(&mut self, seqs: &[i64]) {
        self.alone.extend(seqs);
        self.put_back(seqs);
    }

    /// They were taken and not sent: their turn is still theirs.
    pub fn put_back(&mut self, seqs: &[i64]) {
        for seq in seqs {
            let Some(row) = self.rows.get(seq).copied() else { continue };
            self.ready.insert(*seq);
            self.release(row.object);
        }
    }

    /// One less on its way. An object that has none any more is free, and so is what it held.
    fn release(&mut self, object: i64) {
        let Some(busy) = self.busy.get_mut(&object) else { return };
        busy.on_the_way = busy.on_the_way.saturating_sub(1);
        if busy.on_the_way > 0 || busy.retrying {
            return;
        }
        let Some(mut busy) = self.busy.remove(&object) else { return };
        self.ready.append(&mut busy.held);
        let Some(first) = busy.skipped else { return };
        // What comes after the first that was passed over must not come before it.
        let rows = &mut self.rows;
        self.ready.retain(|seq| {
            let after = *seq > first && rows.get(seq).is_some_and(|row| row.object == object);
            if after {
                rows.remove(seq);
            }
            !after
        });
        self.after = self.after.min(first - 1);
        self.more = true;
        self.catching_up.insert(object);
    }

    /// The file no longer holds it.
    pub fn forget(&mut self, seq: i64) {
        if self.done.remove(&seq) {
            self.rows.remove(&seq);
        }
    }

    /// When the next retry is due.
    pub fn next_at(&self) -> Option<i64> {
        self.retries.first().map(|(at, _)| *at)
    }

    /// Whether something could be taken now.
    pub fn has_ready(&self, now: i64) -> bool {
        let due = self.next_at().is_some_and(|at| at <= now);
        due || (!self.ready.is_empty() && self.retries.len() < RETRYING)
    }

    /// Rows in memory.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn since(&self, seq: i64) -> i64 {
        self.rows.get(&seq).map_or(0, |row| row.since)
    }

    pub fn attempts(&self, seq: i64) -> u32 {
        self.rows.get(&seq).map_or(0, |row| row.attempts)
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

impl Busy {
    fn has_room(&self) -> bool {
        !self.retrying && self.skipped.is_none() && self.held.len() < HELD
    }

    fn skip(&mut self, seq: i64) {
        self.skipped = Some(self.skipped.map_or(seq, |first| first.min(seq)));
    }
}
