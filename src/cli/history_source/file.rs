//! The state file, whether or not a kubediff has it open.

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, anyhow};
use jiff::Timestamp;
use kubediff::{
    event::Event,
    history::{
        self, Filter, History, Name, Order, Row, Sight,
        kinds::Kinds,
        objects::{When, Which},
    },
    ledger::{
        lead,
        silences::{self, New, Silence},
    },
};
use rusqlite::{Connection, OpenFlags};

use super::{AtTime, Blame, Detail, Page, Query, Waiting};
use crate::cli::{Usage, object::Object};

/// How often a file that is followed is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Rows a look.
const PAGE: usize = 500;
/// Bytes of events in memory at a time.
const MOST_BYTES: usize = 16 << 20;

pub(crate) struct File {
    path: PathBuf,
    history: RefCell<History>,
}

impl File {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        if !path.exists() {
            return Err(Usage(anyhow!("{} does not exist; give --state or --server", path.display())).into());
        }
        Ok(Self { path: path.to_owned(), history: RefCell::new(History::open(path)?) })
    }

    fn page(&self, query: &Query, limit: usize, cursor: Option<&str>) -> anyhow::Result<history::Page> {
        let cursor = cursor.map(str::parse).transpose().context("a cursor that is none")?;
        Ok(self.history.borrow().page(&filter(query)?, &Sight::Everything, Order::Desc, cursor, limit)?)
    }

    pub(super) fn rows(&self, query: &Query, limit: usize, cursor: Option<&str>) -> anyhow::Result<Page<Row>> {
        let page = self.page(query, limit, cursor)?;
        Ok((page.rows, page.next.map(|next| next.to_string())))
    }

    pub(super) fn events(&self, query: &Query, limit: usize, cursor: Option<&str>) -> anyhow::Result<Page<Event>> {
        let page = self.page(query, limit, cursor)?;
        let (events, cut) = self.history.borrow().whole(&page.rows, MOST_BYTES)?;
        let events = events.iter().map(|event| (**event).clone()).collect();
        Ok((events, cut.or(page.next).map(|next| next.to_string())))
    }

    pub(super) fn detail(&self, id: &str) -> anyhow::Result<Detail> {
        let mut history = self.history.borrow_mut();
        let unknown = || anyhow!("there is no event {id}; kubediff history lists them, at least six digits name one");
        let seq = history.find(id)?.ok_or_else(unknown)?;
        let found = history.detail(seq)?.ok_or_else(unknown)?;
        let around = Some(history.surroundings(&found)?);
        let waiting = found.deliveries.into_iter().map(|delivery| Waiting {
            sink: delivery.sink,
            state: delivery.state,
            attempts: delivery.attempts,
            reason: delivery.reason,
        });
        Ok(Detail {
            event: (*found.event).clone(),
            before: found.before,
            after: found.after,
            previous: found.previous,
            inverse: found.inverse,
            undo: found.undo,
            deliveries: waiting.collect(),
            around,
        })
    }

    pub(super) fn objects(&self, query: &Query) -> anyhow::Result<Vec<Object>> {
        let Filter { kinds, namespaces, names, .. } = filter(query)?;
        let which = Which { kinds, namespaces, names };
        let (mut found, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let (listed, next) = self.history.borrow().objects(&which, &Sight::Everything, cursor.as_deref(), PAGE)?;
            found.extend(listed.into_iter().map(|object| Object {
                group: object.group,
                version: object.version,
                resource: object.resource,
                kind: object.kind,
                namespace: object.namespace,
                name: object.name,
            }));
            match next {
                Some(next) => cursor = Some(next),
                None => return Ok(found),
            }
        }
    }

    pub(super) fn kinds(&self) -> anyhow::Result<Kinds> {
        Ok(self.history.borrow().kinds()?)
    }

    pub(super) fn kind(&self, word: &str) -> anyhow::Result<Option<String>> {
        Ok(self.kinds()?.find(word).first().map(|resource| resource.kind.clone()))
    }

    pub(super) fn object(&self, object: &Object, at: Option<Timestamp>) -> anyhow::Result<AtTime> {
        let mut history = self.history.borrow_mut();
        let state = history.at(&name(object), when(at))?;
        let row = state.event.map(|seq| history.row(seq)).transpose()?.flatten();
        let exists = state.object.is_some();
        Ok(AtTime { exists, object: state.object, event: row.map(|row| row.id), doubt: state.doubt })
    }

    pub(super) fn blame(&self, object: &Object, at: Option<Timestamp>) -> anyhow::Result<Blame> {
        let (lines, state) = self.history.borrow_mut().blame(&name(object), when(at))?;
        Ok(Blame { exists: state.object.is_some(), lines, doubt: state.doubt })
    }

    pub(super) async fn follow(&self, query: &Query, mut after: i64, told: &mut dyn super::Told) -> anyhow::Result<()> {
        let filter = filter(query)?;
        loop {
            let (rows, at) = self.history.borrow().after(&filter, &Sight::Everything, after, PAGE)?;
            let full = rows.len() == PAGE;
            for row in rows {
                told.tell(row).await?;
            }
            after = at;
            if !full {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// For writing: what another process does in it waits for this one and this one for it, within bounds.
    fn writable(&self) -> anyhow::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)
            .with_context(|| format!("cannot open {} for writing", self.path.display()))?;
        connection.busy_timeout(Duration::from_secs(10))?;
        Ok(connection)
    }

    pub(super) fn silences(&self) -> anyhow::Result<Vec<Silence>> {
        Ok(silences::list(&self.writable()?, Timestamp::now())?)
    }

    pub(super) fn silence(&self, new: &New) -> anyhow::Result<Silence> {
        let file = self.writable()?;
        leads(&file)?;
        Ok(silences::make(&file, new, Timestamp::now())?)
    }

    pub(super) fn end_silence(&self, id: i64) -> anyhow::Result<()> {
        let file = self.writable()?;
        leads(&file)?;
        let ended = silences::end(&file, id, Timestamp::now())?;
        anyhow::ensure!(ended, "there is no silence {id}; kubediff silence list shows them");
        Ok(())
    }
}

/// On a replica that stands by a silence would be gone within seconds.
fn leads(file: &Connection) -> anyhow::Result<()> {
    match lead::leader_instead(file)? {
        None => Ok(()),
        Some(name) => anyhow::bail!(
            "this replica stands by, and takes over the silences of {name}, which leads: ask there (kubectl exec {name} -- \
             kubediff silence ...)"
        ),
    }
}

fn filter(query: &Query) -> anyhow::Result<Filter> {
    let mut filter = Filter::default();
    for (key, value) in query {
        filter.set(key, value, Timestamp::now()).map_err(|error| Usage(error.into()))?;
    }
    Ok(filter)
}

fn when(at: Option<Timestamp>) -> When {
    at.map_or(When::Now, When::At)
}

fn name(object: &Object) -> Name {
    Name {
        group: object.group.clone(),
        resource: object.resource.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    }
}
