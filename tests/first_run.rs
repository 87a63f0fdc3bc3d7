//! What a machine without the right Go is told: one sentence, and a failure, never a skipped test.

use std::{
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

/// Runs `tests/cluster/build` with nothing on the PATH but what a bare system has, and this `go`.
fn build_with(go: Option<&str>) -> (Option<i32>, String) {
    let bin = tempfile::tempdir().unwrap();
    for tool in ["bash", "env", "dirname", "sed", "sort", "head"] {
        symlink(find(tool), bin.path().join(tool)).unwrap();
    }
    if let Some(script) = go {
        let path = bin.path().join("go");
        std::fs::write(&path, format!("#!{}\n{script}\n", find("bash"))).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/build");
    let output = Command::new(find("bash")).arg(script).env("PATH", bin.path()).output().unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
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
