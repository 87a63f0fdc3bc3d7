//! The written story of a run: what was done and when, for whoever has to find out why it failed.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Instant,
};

/// A handle; clones write to the same file.
#[derive(Clone)]
pub struct Timeline {
    began: Instant,
    file: Arc<Mutex<File>>,
    folder: PathBuf,
    /// How often what struck.
    struck: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Timeline {
    /// `target/chaos/seed-42/timeline.log`; what an earlier run of the seed left is removed.
    pub fn create(seed: u64) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("target/chaos/seed-{seed}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("target/ is writable");
        let file = File::create(folder.join("timeline.log")).expect("target/ is writable");
        Self { began: Instant::now(), file: Arc::new(Mutex::new(file)), folder, struck: Arc::default() }
    }

    /// Where what is left of a failed run is kept.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The same file, with its clock at zero again.
    pub fn restarted(&self) -> Self {
        Self { began: Instant::now(), ..self.clone() }
    }

    /// Counts what really happened.
    pub fn struck(&self, what: impl Into<String>, times: u64) {
        let mut struck = self.struck.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *struck.entry(what.into()).or_default() += times;
    }

    /// What happened how often.
    pub fn all_struck(&self) -> BTreeMap<String, u64> {
        self.struck.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub fn began(&self) -> Instant {
        self.began
    }

    pub fn note(&self, line: impl std::fmt::Display) {
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = writeln!(file, "{:9.3} {line}", self.began.elapsed().as_secs_f64());
    }

    /// Waits for a moment of the run; one that has passed is not waited for.
    pub async fn until(&self, ms: u64) {
        tokio::time::sleep_until((self.began + std::time::Duration::from_millis(ms)).into()).await;
    }
}
