//! The newest events in memory, so that a sink that keeps up reads nothing back from the file.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::event::Redacted;

/// Bytes of JSON, which are kept too; the values themselves take about three times that.
const BYTES: usize = 3 << 18;

#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Rising sequence numbers.
    events: VecDeque<(i64, usize, Arc<Redacted>)>,
    bytes: usize,
}

impl Recent {
    /// Takes over what was committed; the numbers are higher than all before.
    pub(super) fn push(&self, events: impl IntoIterator<Item = (i64, usize, Arc<Redacted>)>) {
        let mut inner = self.lock();
        for (seq, bytes, event) in events {
            inner.bytes += bytes;
            inner.events.push_back((seq, bytes, event));
        }
        while inner.bytes > BYTES {
            let Some((_, bytes, _)) = inner.events.pop_front() else { break };
            inner.bytes -= bytes;
        }
    }

    pub(super) fn get(&self, seq: i64) -> Option<(usize, Arc<Redacted>)> {
        let inner = self.lock();
        let at = inner.events.binary_search_by_key(&seq, |(seq, ..)| *seq).ok()?;
        inner.events.get(at).map(|(_, bytes, event)| (*bytes, event.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
