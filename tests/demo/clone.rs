//! A fresh clone, built and run with nothing but Rust.
//!
//! What is compiled is all of kubediff, from the clone. The crates that it depends on are taken as they were compiled for
//! this test run: they come from the registry and not from the clone, and take minutes.

use std::{
    ffi::OsString,
    fs::{File, FileTimes, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use super::{Demo, STORY, whole_story};
use crate::harness::guard::{Directory, run};

/// Several times what it takes.
const BUILD: Duration = Duration::from_secs(600);
/// The crates are compiled with the features that tests need too, which cargo turns on only beside something of tests.
const BESIDE: &str = "pods_by_ip";
/// Smaller files are cargo's notes, which it writes over; larger ones are never written to again, only replaced.
const NOTE: u64 = 64 << 10;

/// A clone in a folder of its own, and what it is built with.
struct Clone {
    dir: Directory,
    /// On the disk of the crates, which are not copied.
    target: Directory,
    /// `debug`, unless the tests were built otherwise.
    profile: String,
}

impl Clone {
    /// Of what is committed, with what is not.
    async fn make() -> Self {
        let dir = Directory::create().expect("a temporary folder");
        for name in ["home", "bin", "tmp"] {
            std::fs::create_dir(dir.path().join(name)).expect("a folder");
        }
        // Whoever runs the tests need not be who owns the folder.
        std::fs::write(dir.path().join("home/.gitconfig"), "[safe]\n\tdirectory = *\n").expect("a file");
        let git = async |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.env("HOME", dir.path().join("home")).current_dir(dir.path()).args(arguments);
            done("git", run(&mut git).await).stdout
        };
        let root = env!("CARGO_MANIFEST_DIR");
        git(&["clone", "--quiet", "--depth=1", &format!("file://{root}"), "clone"]).await;
        let changed = git(&["-C", root, "diff", "--binary", "HEAD"]).await;
        if !changed.is_empty() {
            std::fs::write(dir.path().join("changed"), changed).expect("a file");
            git(&["-C", "clone", "apply", "--whitespace=nowarn", "../changed"]).await;
        }
        std::fs::remove_file(dir.path().join("home/.gitconfig")).expect("it is there");
        let target = Directory::create_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a temporary folder");
        let own = std::env::current_exe().expect("a test has a file");
        let built = own.parent().and_then(Path::parent).expect("target/debug/deps");
        let profile = built.file_name().expect("debug").to_string_lossy().into_owned();
        for part in [".fingerprint", "build", "deps"] {
            share(&built.join(part), &target.path().join(&profile).join(part));
        }
        Self { dir, target, profile }
    }

    /// All that is on the PATH: the toolchain, and the linker that it needs.
    fn path(&self) -> PathBuf {
        let bin = self.dir.path().join("bin");
        let cargo = PathBuf::from(std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()));
        symlink(&cargo, bin.join("cargo")).expect("a link");
        symlink("/usr/bin/cc", bin.join("cc")).expect("a link");
        // Nothing is left of a compiler either whose cargo was killed.
        let rustc = cargo.with_file_name("rustc");
        let dies = format!("#!/bin/sh\nexec /usr/bin/setpriv --pdeathsig KILL {} \"$@\"\n", rustc.display());
        std::fs::write(bin.join("rustc"), dies).expect("a script");
        std::fs::set_permissions(bin.join("rustc"), Permissions::from_mode(0o755)).expect("its mode");
        bin
    }

    /// Builds the program, and says where it is.
    async fn build(&self) -> PathBuf {
        let within = |name: &str| self.dir.path().join(name);
        let mut cargo = Command::new("/usr/bin/env");
        cargo.arg("-i").current_dir(within("clone"));
        let mut set = |name: &str, value: OsString| {
            let mut pair = OsString::from(name);
            pair.push("=");
            pair.push(value);
            cargo.arg(pair);
        };
        set("PATH", self.path().into());
        set("HOME", within("home").into());
        set("TMPDIR", within("tmp").into());
        set("CARGO_TARGET_DIR", self.target.path().into());
        // It is built once.
        set("CARGO_INCREMENTAL", "0".into());
        // Where the crates are that were fetched.
        let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo").into_os_string());
        set("CARGO_HOME", std::env::var_os("CARGO_HOME").or(home).expect("a home"));
        // Whoever has these has the crates compiled so.
        for (name, value) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.ends_with("RUSTFLAGS") || name.starts_with("CARGO_PROFILE_") {
                set(&name, value);
            }
        }
        cargo.args(["cargo", "build", "--offline", "--locked", "--bin", "kubediff", "--example", BESIDE]);
        if self.profile != "debug" {
            cargo.args(["--profile", &self.profile]);
        }
        let built = tokio::time::timeout(BUILD, run(&mut cargo)).await.expect("it is built by now");
        let said = String::from_utf8_lossy(&done("cargo", built).stderr).into_owned();
        // Of what depends on the registry alone nothing is left to compile.
        let compiled: Vec<&str> = said.lines().filter_map(|line| line.trim().strip_prefix("Compiling ")).collect();
        assert!(matches!(compiled[..], [own] if own.starts_with("kubediff ")), "{said}");
        self.target.path().join(&self.profile).join("kubediff")
    }
}

/// What a command said, which must have gone well.
fn done(name: &str, output: std::io::Result<Output>) -> Output {
    let output = output.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Makes a folder of compiled crates another one's too, without those of this package: cargo takes what is as old as it
/// was, and a build beside it may go on.
fn share(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry.file_type().expect("a kind");
        let plain = name.to_string_lossy().trim_start_matches("lib").to_owned();
        if ["kubediff-", "promises-", "cluster-", "scenario-"].iter().any(|own| plain.starts_with(own)) {
            continue;
        }
        if kind.is_dir() {
            share(&path, &to.join(name));
            continue;
        }
        // What is gone by now was of a build beside this one.
        let Ok(known) = entry.metadata() else { continue };
        if known.len() > NOTE && std::fs::hard_link(&path, to.join(&name)).is_ok() {
            continue;
        }
        if std::fs::copy(&path, to.join(&name)).is_ok() {
            let times = FileTimes::new().set_modified(known.modified().expect("a time"));
            File::options().write(true).open(to.join(name)).and_then(|file| file.set_times(times)).expect("its time");
        }
    }
}

#[tokio::test]
async fn a_fresh_clone_is_built_with_nothing_but_rust_and_its_demo_tells_the_whole_story() {
    let clone = Clone::make().await;
    let program = clone.build().await;
    let mut demo = Demo::of(&program, &["-o", "json", "--speed", "30", "--page", "127.0.0.1:0"]);
    let events = whole_story(&demo).await;
    assert!(events.len() >= STORY.len());
    demo.interrupt().await;
    assert_eq!(demo.stderr(), "");
}
