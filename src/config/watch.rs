//! A new plan when the configuration changes: the file, the files that secrets are in, or a signal.
//!
//! Files are looked at, not listened to: that sees an editor's rename, the symlink swap of a mounted ConfigMap and a
//! file on a network disk alike. A plan is read, checked and built in full before anyone hears of it.

use std::{
    io::Read,
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};

use xxhash_rust::xxh3::Xxh3;

use super::{Plan, Problems, Sources, resolve};

/// How often to look.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// What became of a changed configuration. `Err`: the one before goes on.
pub type Reloaded = Result<Box<Plan>, Problems>;

/// Looks at the files of a configuration for as long as it is polled.
#[derive(Debug)]
pub struct Watcher {
    sources: Sources,
    files: Vec<PathBuf>,
    seen: u64,
    /// What the last look found instead. A file that is being written looks like a shorter one, and nothing at all is a
    /// configuration too: a change is taken up when a second look finds the same.
    pending: Option<u64>,
    interval: Duration,
    /// What was wrong at the last look.
    wrong: Option<Problems>,
    looks: u32,
}

/// The second look at a change comes after this part of the interval.
const SETTLES: u32 = 4;

/// After so many looks a wrong configuration is read again: a secret that it names may have come since.
const AGAIN: u32 = 5;

impl Watcher {
    /// Reads the configuration for the first time, and sees every change from then on.
    pub fn load(sources: Sources) -> (Self, Result<Plan, Problems>) {
        let (seen, files, loaded) = load(&sources, Vec::new());
        (Self { sources, files, seen, pending: None, interval: INTERVAL, wrong: None, looks: 0 }, loaded)
    }

    pub fn every(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }

    /// Waits for the next change, or for `asked` (a SIGHUP), and says what became of it. It may be dropped and called
    /// again.
    ///
    /// Files that are as they were are answered for only when that was asked for.
    pub async fn next(&mut self, asked: impl Future<Output = ()>) -> Reloaded {
        let mut asked = pin!(asked);
        loop {
            let wait = if self.pending.is_some() { self.interval / SETTLES } else { self.interval };
            let at_once = tokio::select! {
                () = &mut asked => true,
                () = tokio::time::sleep(wait) => false,
            };
            if let Some(reloaded) = self.look(at_once).await {
                return reloaded;
            }
            // What was asked for has been answered, so this is reached by the interval alone.
        }
    }

    /// Looks once. What was asked for is read as it is.
    async fn look(&mut self, asked: bool) -> Option<Reloaded> {
        self.looks = self.looks.wrapping_add(1);
        let again = self.wrong.is_some() && self.looks.is_multiple_of(AGAIN);
        let (sources, files, seen) = (self.sources.clone(), self.files.clone(), self.seen);
        let pending = self.pending.take();
        // Disks and expressions take their time; the runtime has others to serve.
        let work = tokio::task::spawn_blocking(move || {
            let now = digest(&sources, &files);
            let changed = now != seen;
            if !asked && changed && pending != Some(now) {
                return (Some(now), None);
            }
            if !(asked || again || changed) {
                return (None, None);
            }
            let loaded = load(&sources, files.clone());
            // Written while it was read.
            let then = if asked { now } else { digest(&sources, &files) };
            if then == now { (None, Some(loaded)) } else { (Some(then), None) }
        });
        let (found, files, loaded) = match work.await {
            Ok((pending, loaded)) => {
                self.pending = pending;
                loaded?
            }
            Err(error) => return Some(Err(Problems::one("", format!("the configuration cannot be read: {error}")))),
        };
        let news = asked || found != self.seen;
        self.seen = found;
        self.files = files;
        match loaded {
            Ok(plan) => {
                self.wrong = None;
                Some(Ok(Box::new(plan)))
            }
            Err(problems) => {
                let same = self.wrong.as_ref() == Some(&problems);
                self.wrong = Some(problems.clone());
                (news || !same).then_some(Err(problems))
            }
        }
    }
}

/// Reads the configuration, and the digest of what it was read from: taken before, so that a change meanwhile shows at the
/// next look. `files` are those beside it, as far as they are known; which they are is known for certain by reading.
fn load(sources: &Sources, mut files: Vec<PathBuf>) -> (u64, Vec<PathBuf>, Result<Plan, Problems>) {
    // One that names other files at each reading is being written: the next look will see that.
    for _ in 0..3 {
        let seen = digest(sources, &files);
        match sources.load() {
            Ok(plan) if plan.files != files => files = plan.files,
            loaded => return (seen, files, loaded),
        }
    }
    (0, files, sources.load())
}

/// Changes with the content of any of the files. A file that cannot be read has a digest too.
fn digest(sources: &Sources, files: &[PathBuf]) -> u64 {
    let mut hash = Xxh3::new();
    let config = sources.path.as_deref().map(resolve);
    for path in config.iter().chain(files) {
        hash.update(path.as_os_str().as_encoded_bytes());
        match content(path) {
            Ok(bytes) => {
                hash.update(&bytes.len().to_le_bytes());
                hash.update(&bytes);
            }
            Err(error) => hash.update(format!("{:?}", error.kind()).as_bytes()),
        }
    }
    hash.digest()
}

fn content(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(super::MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::config::Lookup;

    const QUICK: Duration = Duration::from_millis(5);

    fn sources(path: PathBuf) -> Sources {
        Sources { path: Some(path), variables: Vec::new(), lookup: Lookup::Now }
    }

    async fn next(watcher: &mut Watcher) -> Reloaded {
        let change = watcher.next(std::future::pending());
        tokio::time::timeout(Duration::from_secs(10), change).await.expect("a change is seen")
    }

    #[tokio::test]
    async fn a_changed_file_is_a_new_plan_and_a_wrong_one_an_error_that_does_not_end_the_watch() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.toml");
        fs::write(&path, "cluster = 'a'").unwrap();
        let sources = sources(path.clone());
        let mut watcher = Watcher::load(sources).0.every(QUICK);
        fs::write(&path, "cluster = 'b'").unwrap();
        assert_eq!(next(&mut watcher).await.unwrap().cluster.as_deref(), Some("b"));
        fs::write(&path, "clutser = 'c'").unwrap();
        let problems = next(&mut watcher).await.unwrap_err().to_string();
        assert!(problems.contains("did you mean `cluster`?"), "{problems}");
        fs::remove_file(&path).unwrap();
        assert!(next(&mut watcher).await.unwrap_err().to_string().contains("cannot be read"));
        fs::write(&path, "cluster = 'd'").unwrap();
        assert_eq!(next(&mut watcher).await.unwrap().cluster.as_deref(), Some("d"));
    }

    /// As the kubelet does it: `c.toml -> ..data/c.toml`, `..data -> ..2026_1`, and `..data` is renamed over.
    #[tokio::test]
    async fn the_symlink_swap_of_a_mounted_config_map_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (version, name) in [("..2026_1", "a"), ("..2026_2", "b")] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("c.toml"), format!("cluster = '{name}'")).unwrap();
        }
        symlink("..2026_1", at("..data")).unwrap();
        symlink("..data/c.toml", at("c.toml")).unwrap();
        let mut watcher = Watcher::load(sources(at("c.toml"))).0.every(QUICK);
        symlink("..2026_2", at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        assert_eq!(next(&mut watcher).await.unwrap().cluster.as_deref(), Some("b"));
    }

    /// `cp` empties a file and then writes it, and an empty configuration is a right one: everything to stdout.
    #[tokio::test]
    async fn a_file_that_is_being_written_is_not_taken_up_before_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.toml");
        fs::write(&path, "cluster = 'a'").unwrap();
        let mut watcher = Watcher::load(sources(path.clone())).0;
        for part in ["", "cluster = 'b", "cluster = 'b'\n"] {
            fs::write(&path, part).unwrap();
            assert!(watcher.look(false).await.is_none(), "{part:?} was seen once");
        }
        assert_eq!(watcher.look(false).await.unwrap().unwrap().cluster.as_deref(), Some("b"));
        assert!(watcher.look(false).await.is_none(), "and is taken up once");
        fs::write(&path, "").unwrap();
        assert!(watcher.look(false).await.is_none());
        fs::write(&path, "cluster = 'b'\n").unwrap();
        assert!(watcher.look(false).await.is_none(), "it is as it was");
        fs::write(&path, "cluster = 'c'").unwrap();
        assert_eq!(watcher.look(true).await.unwrap().unwrap().cluster.as_deref(), Some("c"), "asked for");
        fs::write(&path, "").unwrap();
        assert!(watcher.look(false).await.is_none());
        assert_eq!(watcher.look(false).await.unwrap().unwrap().cluster, None, "it stays empty, so it is meant");
    }

    /// Whatever is read last is seen, also what is written between reading and looking.
    #[tokio::test]
    async fn what_is_written_while_it_is_read_is_seen_at_the_next_look() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.toml");
        let rounds = 40;
        for round in 0..rounds {
            fs::write(&path, "cluster = 'old'").unwrap();
            let writing = std::thread::spawn({
                let (path, new) = (path.clone(), folder.path().join("new"));
                move || {
                    // Some come before the reading, some while it lasts, some after it.
                    std::thread::sleep(Duration::from_micros(50 * round));
                    fs::write(&new, "cluster = 'new'").unwrap();
                    fs::rename(new, path).unwrap();
                }
            });
            let (watcher, loaded) = Watcher::load(sources(path.clone()));
            writing.join().unwrap();
            if loaded.unwrap().cluster.as_deref() == Some("old") {
                assert_eq!(next(&mut watcher.every(QUICK)).await.unwrap().cluster.as_deref(), Some("new"));
            }
        }
    }

    #[tokio::test]
    async fn a_rotated_secret_is_a_change_of_its_sink_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, token) = (folder.path().join("c.toml"), folder.path().join("token"));
        fs::write(&token, "xoxb-1").unwrap();
        let text = format!("[sinks.ops]\ntype = 'slack'\nchannel = '#ops'\ntoken = {{ file = {token:?} }}\n");
        fs::write(&path, text).unwrap();
        let sources = sources(path);
        let (watcher, running) = Watcher::load(sources);
        let (mut watcher, running) = (watcher.every(QUICK), running.unwrap());
        fs::write(&token, "xoxb-2").unwrap();
        let changes = next(&mut watcher).await.unwrap().changes(&running);
        assert_eq!(changes.sinks_changed, ["ops"]);
        assert!(!changes.routes && !changes.watch && changes.at_start.is_empty());
    }

    #[tokio::test]
    async fn a_request_reads_again_even_if_nothing_changed_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.toml");
        fs::write(&path, "cluster = 'a'").unwrap();
        let sources = sources(path);
        let (watcher, running) = Watcher::load(sources);
        let (mut watcher, running) = (watcher.every(QUICK), running.unwrap());
        let quiet = tokio::time::timeout(Duration::from_millis(100), watcher.next(std::future::pending())).await;
        assert!(quiet.is_err(), "nothing changed");
        let asked = tokio::time::timeout(Duration::from_secs(10), watcher.next(std::future::ready(()))).await;
        assert!(asked.expect("an answer").unwrap().changes(&running).is_empty());
    }

    #[tokio::test]
    async fn a_wrong_configuration_is_told_once_and_taken_up_when_what_it_lacks_has_come() {
        let folder = tempfile::tempdir().unwrap();
        let (path, token) = (folder.path().join("c.toml"), folder.path().join("token"));
        fs::write(&path, "cluster = 'a'").unwrap();
        let sources = sources(path.clone());
        let mut watcher = Watcher::load(sources).0.every(QUICK);
        let text = format!("[sinks.ops]\ntype = 'slack'\nchannel = '#ops'\ntoken = {{ file = {token:?} }}\n");
        fs::write(&path, text).unwrap();
        assert!(next(&mut watcher).await.unwrap_err().to_string().contains("sinks.ops.token: cannot read"));
        let quiet = tokio::time::timeout(QUICK * 40, watcher.next(std::future::pending())).await;
        assert!(quiet.is_err(), "it was told already");
        fs::write(&token, "xoxb-1").unwrap();
        assert_eq!(next(&mut watcher).await.unwrap().sinks[0].name, "ops");
    }
}
