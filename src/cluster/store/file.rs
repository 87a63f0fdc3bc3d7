//! Opening the file: pragmas, the schema's version, one process at a time, a corrupt file set aside.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::migrate;

/// Where the state is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    File(PathBuf),
    /// A file that is gone with the process: to try things out.
    Temporary,
}

/// Why the state could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot open {path}: {source}; make its folder exist and writable for this user, or set state.path")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("cannot open {path}: {source}; make its folder exist and writable for this user, or set state.path")]
    Sql { path: PathBuf, source: rusqlite::Error },
    #[error("{path} is in use by another kubediff; give each its own state.path")]
    InUse { path: PathBuf },
    #[error(
        "{path} was written by a newer kubediff (schema {found}, this one knows {known}); run that version or set another state.path"
    )]
    Newer { path: PathBuf, found: usize, known: usize },
}

/// The open file. Holds the lock that keeps a second writer out, and removes a temporary file at the end.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) redaction_key: [u8; 32],
    pub(super) hold: Hold,
}

/// Keeps the file ours for as long as it lives.
#[derive(Debug)]
pub(super) struct Hold {
    _lock: File,
    temporary: Option<PathBuf>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(folder) = &self.temporary {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

pub(super) fn open(place: &Place, preferred_key: Option<[u8; 32]>) -> Result<Opened, OpenError> {
    let (path, hold) = match place {
        Place::File(path) => (path.clone(), Hold { _lock: lock(path)?, temporary: None }),
        Place::Temporary => temporary(&std::env::temp_dir())?,
    };
    let marker = beside(&path, DAMAGED);
    if let Ok(why) = std::fs::read_to_string(&marker) {
        set_aside(&path, &why)?;
        std::fs::remove_file(&marker).map_err(|source| OpenError::Io { path: marker, source })?;
    }
    let connection = match connect(&path, place) {
        Err(OpenError::Sql { source, .. }) if is_corrupt(&source) => {
            set_aside(&path, &source.to_string())?;
            connect(&path, place)?
        }
        other => other?,
    };
    let redaction_key =
        redaction_key(&connection, preferred_key).map_err(|source| OpenError::Sql { path: path.clone(), source })?;
    Ok(Opened { connection, path, redaction_key, hold })
}

fn temporary(all: &Path) -> Result<(PathBuf, Hold), OpenError> {
    let folder = all.join(format!("kubediff-{}-{:08x}", std::process::id(), rand::random::<u32>()));
    let failed = |source| OpenError::Io { path: folder.clone(), source };
    // Under another name until its file is locked, lest it be taken for one that was left behind.
    let begun = folder.with_extension("new");
    DirBuilder::new().mode(0o700).create(&begun).map_err(failed)?;
    let lock = lock(&begun.join(TEMPORARY))?;
    std::fs::rename(&begun, &folder).map_err(failed)?;
    sweep(&folder);
    Ok((folder.join(TEMPORARY), Hold { _lock: lock, temporary: Some(folder) }))
}

/// Removes what processes of this user that were killed left beside `own`: nobody holds the lock.
fn sweep(own: &Path) {
    let owner = |path: &Path| path.symlink_metadata().ok().filter(std::fs::Metadata::is_dir).map(|folder| folder.uid());
    let ours = |folder: &PathBuf| {
        let name = folder.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("kubediff-"));
        let named = name.and_then(|name| name.split_once('-')).is_some_and(|(pid, random)| {
            pid.bytes().all(|byte| byte.is_ascii_digit()) && random.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        named && owner(folder) == owner(own)
    };
    let all = own.parent().and_then(|all| all.read_dir().ok()).into_iter().flatten().flatten();
    for folder in all.map(|entry| entry.path()).filter(ours) {
        let lock = File::open(beside(&folder.join(TEMPORARY), LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
}

fn redaction_key(connection: &Connection, preferred: Option<[u8; 32]>) -> Result<[u8; 32], rusqlite::Error> {
    let fresh: [u8; 32] = preferred.unwrap_or_else(rand::random);
    connection.execute("INSERT OR IGNORE INTO meta (key, value) VALUES ('redaction_key', ?1)", [&fresh[..]])?;
    connection.query_row("SELECT value FROM meta WHERE key = 'redaction_key'", [], |row| row.get(0))
}

/// A connection that can only read. It never waits for the writer, and the writer never for it.
pub(super) fn open_reader(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    // Readers are few and short: 1 MiB each.
    connection.execute_batch("PRAGMA cache_size = -1024; PRAGMA query_only = 1;")?;
    Ok(connection)
}

/// A text of the `meta` table, before the store is opened. `None` when there is no file, or it cannot be read.
pub fn peek(place: &Place, key: &str) -> Option<String> {
    let Place::File(path) = place else { return None };
    let connection = path.exists().then(|| open_reader(path).ok())??;
    connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0)).ok()
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let lock = beside(path, LOCK);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock)
        .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(OpenError::Io { path: path.to_owned(), source }),
    }
}

fn connect(path: &Path, place: &Place) -> Result<Connection, OpenError> {
    let failed = |source| OpenError::Sql { path: path.to_owned(), source };
    let mut connection = Connection::open(path).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(64);
    // FULL survives a power cut, NORMAL does not. The larger WAL lets one checkpoint cover many rewrites of a page.
    let synchronous = if *place == Place::Temporary { "OFF" } else { "FULL" };
    connection
        .execute_batch(&format!(
            "PRAGMA auto_vacuum = INCREMENTAL;
             PRAGMA journal_mode = WAL;
             PRAGMA synchronous = {synchronous};
             PRAGMA wal_autocheckpoint = 8000;
             PRAGMA journal_size_limit = 33554432;
             PRAGMA cache_size = -4096;
             PRAGMA temp_store = MEMORY;
             PRAGMA busy_timeout = 5000;"
        ))
        .map_err(failed)?;
    migrate::migrate(&mut connection, path)?;
    Ok(connection)
}

/// The suffix of the file that is locked while the one beside it is in use.
const LOCK: &str = "lock";
/// The name of a temporary file in its folder.
const TEMPORARY: &str = "kubediff.db";
/// The suffix of the file that says that the one beside it was found damaged while it was in use.
const DAMAGED: &str = "damaged";

/// Says for the next start that the file has to be set aside.
pub(super) fn mark_damaged(path: &Path, why: &rusqlite::Error) {
    tracing::error!(error = %why, path = %path.display(), "the state file is damaged; it is set aside at the next start");
    if let Err(error) = std::fs::write(beside(path, DAMAGED), why.to_string()) {
        tracing::error!(%error, "cannot leave a note about it; move the state file away by hand");
    }
}

/// Whether the same write may succeed later: the disk has no room, is read-only, fails or is slow.
pub(super) fn may_heal(error: &rusqlite::Error) -> bool {
    use ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, FileLockingProtocolFailed, OperationInterrupted,
        OutOfMemory, PermissionDenied, ReadOnly, SystemIoFailure,
    };
    matches!(
        error.sqlite_error_code(),
        Some(
            CannotOpen
                | DatabaseBusy
                | DatabaseLocked
                | DiskFull
                | FileLockingProtocolFailed
                | OperationInterrupted
                | OutOfMemory
                | PermissionDenied
                | ReadOnly
                | SystemIoFailure
        )
    )
}

fn is_corrupt(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn set_aside(path: &Path, why: &str) -> Result<(), OpenError> {
    let aside = beside(path, &format!("corrupt-{}", jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ")));
    let companion = |path: &Path, suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let rename = |from: &Path, to: &Path| match std::fs::rename(from, to) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(OpenError::Io { path: from.to_owned(), source })
        }
        _ => Ok(()),
    };
    // The newest of what is kept stands in the log beside the file and belongs to it: it goes first, lest a fresh file
    // ever stand beside an old log.
    rename(&companion(path, "-wal"), &companion(&aside, "-wal"))?;
    rename(path, &aside)?;
    let _ = std::fs::remove_file(companion(path, "-shm"));
    tracing::error!(
        path = %path.display(), aside = %aside.display(), error = why,
        "the state file is corrupt: it was set aside and a fresh one begun; history and undelivered events are in the old file"
    );
    Ok(())
}

/// `kubediff.db` -> `kubediff.db.lock`
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_processes_left_is_removed_and_what_is_in_use_is_not() {
        let all = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let folder = all.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            (lock(&folder.join(TEMPORARY)).unwrap(), folder)
        };
        let (lock, left) = make("kubediff-1-0000abcd");
        drop(lock);
        let (_lock, in_use) = make("kubediff-2-0000abcd");
        let others = [make("kubediff-test-x1").1, make("kubediff-3-notes").1, make("other-3-0000abcd").1];
        let (path, hold) = temporary(all.path()).unwrap();
        assert!(!left.exists());
        assert!(in_use.exists() && others.iter().all(|folder| folder.exists()));
        let own = path.parent().unwrap().to_owned();
        sweep(&in_use);
        assert!(own.exists(), "it is locked");
        drop(hold);
        assert!(!own.exists(), "it removes its own");
    }
}
