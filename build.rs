//! Stamps the git revision into `kubediff --version`.
//!
//! `KUBEDIFF_REVISION` in the environment wins: an image is built without the repository. Without either, "unknown".

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=KUBEDIFF_REVISION");
    let given = env::var("KUBEDIFF_REVISION").ok().filter(|revision| !revision.is_empty());
    let revision = given.or_else(from_git).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=KUBEDIFF_REVISION={revision}");
}

fn from_git() -> Option<String> {
    // A source archive inside some other repository is not of that repository.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != Path::new(&env::var("CARGO_MANIFEST_DIR").ok()?).canonicalize().ok()? {
        return None;
    }
    // git knows where these are, also in a linked worktree. A path that does not exist would rebuild every time.
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    for name in ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
