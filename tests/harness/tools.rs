//! Where the programs of the control plane are: built by `tests/cluster/build`, once, and kept in a cache.

use std::{collections::HashMap, path::PathBuf, process::Stdio};

use tokio::sync::Mutex;

/// The path of a tool. Builds it first when it is not in the cache, which takes minutes; when another build of it is
/// under way, waits for that.
pub async fn path(name: &str) -> Result<PathBuf, String> {
    static KNOWN: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::const_new(None);
    let mut known = KNOWN.lock().await;
    let known = known.get_or_insert_default();
    if let Some(path) = known.get(name) {
        return Ok(path.clone());
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/build");
    let output = tokio::process::Command::new(script)
        .arg(name)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .await
        .map_err(|e| format!("{script}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{script} {name} failed: its message is on stderr"));
    }
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some((name, path)) = line.split_once(' ') {
            known.insert(name.to_owned(), PathBuf::from(path));
        }
    }
    known.get(name).cloned().ok_or_else(|| format!("{script} did not say where {name} is"))
}
