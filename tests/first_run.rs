//! The set-up of a first run: what a machine without the right Go is told (one sentence and a failure, never a skipped
//! test), and how the builds are stopped.

use std::{
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
    process::{Command, Stdio},
};

use crate::harness::{
    PATIENCE,
    guard::{alive, send_to_group},
    poll,
};

/// Runs `tests/cluster/build` with nothing on the PATH but what a bare system has, and this `go`.
fn build_with(go: Option<&str>) -> (Option<i32>, String) {
    let bin = tempfile::tempdir().unwrap();
    for tool in ["bash", "env", "dirname", "sed", "sort", "head"] {
        symlink(find(tool), bin.path().join(tool)).unwrap();
    }
    if let Some(script) = go {
        program(bin.path(), "go", script);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/build");
    let output = Command::new(find("bash")).arg(script).env("PATH", bin.path()).output().unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn program(dir: &Path, name: &str, script: &str) {
    let path = dir.join(name);
    std::fs::write(&path, format!("#!{}\n{script}\n", find("bash"))).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn find(tool: &str) -> String {
    let path = std::env::var("PATH").unwrap();
    let found = path.split(':').map(|dir| format!("{dir}/{tool}")).find(|file| Path::new(file).exists());
    found.unwrap_or_else(|| panic!("there is no {tool}"))
}

#[test]
fn without_go_the_build_says_so_in_one_sentence() {
    let (code, said) = build_with(None);
    assert_eq!(code, Some(1));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("Go 1.26 or newer is needed") && said.contains("no 'go' is on the PATH"), "{said}");
}

#[test]
fn with_an_old_go_the_build_names_the_version_that_it_found() {
    let (code, said) = build_with(Some("echo go1.21.5"));
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("Go 1.26 or newer is needed") && said.contains("is 1.21.5"), "{said}");
}

#[test]
fn with_a_broken_go_the_build_fails_with_a_sentence_too() {
    let (code, said) = build_with(Some("exit 3"));
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("of no known version"), "{said}");
}

#[tokio::test]
async fn ctrl_c_while_everything_is_being_built_ends_both_builds() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    // Builds that never end, and say who they are.
    program(
        dir.path(),
        "go",
        &format!("[ $1 = env ] && {{ echo go1.26.0; exit; }}; echo $$ >{}; exec sleep 600", file("go.pid")),
    );
    program(dir.path(), "cargo", &format!("echo $$ >{}; exec sleep 600", file("cargo.pid")));
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run");
    // Whoever started this test in the background may have had SIGINT ignored for it and its children.
    let mut run = Command::new("env");
    run.arg("--default-signal=INT").arg(script);
    run.env("PATH", path).env("KUBEDIFF_CACHE", file("cache")).env("TMPDIR", dir.path()).process_group(0);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();

    let pid = async |name: &str| {
        let file = file(name);
        let read = async || std::fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok();
        poll(PATIENCE, format!("{name} to be written"), read).await
    };
    let builds = [pid("go.pid").await, pid("cargo.pid").await];
    assert!(builds.iter().all(|&pid| alive(pid)));
    send_to_group("INT", run.id());
    let status = poll(PATIENCE, "tests/run to end", async || run.try_wait().unwrap()).await;
    assert_eq!(status.code(), Some(130));
    poll(PATIENCE, "both builds to end", async || builds.iter().all(|&pid| !alive(pid)).then_some(())).await;
}
