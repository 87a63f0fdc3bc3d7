//! The image: built by `deploy/image`, taken apart, and run.
//!
//! The program in it is a static one of the dev profile: linking that takes seconds where a release build takes
//! minutes, and what is smaller than the limit unoptimised is smaller still when it is released.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::harness::guard::{self, Directory};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// What came out of the image.
pub struct Image {
    dir: Directory,
    /// The files that a container would see.
    pub rootfs: PathBuf,
    manifest: Value,
    config: Value,
}

/// Built by the first test that asks.
pub async fn image() -> &'static Image {
    static BUILT: OnceCell<Image> = OnceCell::const_new();
    BUILT.get_or_init(build).await
}

async fn build() -> Image {
    let dir = Directory::create().unwrap();
    let program = static_program().await;
    let storage = dir.path().join("storage");
    build_image(&program, &storage).await;
    take_apart(dir, &storage).await
}

/// What is in the image `kubediff:test` of a storage, laid out in `dir`.
async fn take_apart(dir: Directory, storage: &Path) -> Image {
    let layout = dir.path().join("oci");
    buildah(storage, &["push", "--quiet", "kubediff:test", &format!("oci:{}", layout.display())]).await;

    let read = |path: PathBuf| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let blob =
        |digest: &Value| layout.join("blobs/sha256").join(digest.as_str().unwrap().trim_start_matches("sha256:"));
    let manifest = read(blob(&read(layout.join("index.json"))["manifests"][0]["digest"]));
    let config = read(blob(&manifest["config"]["digest"]));
    let rootfs = dir.path().join("rootfs");
    fs::create_dir(&rootfs).unwrap();
    for layer in manifest["layers"].as_array().unwrap() {
        run("tar", &["-xzf", &text(&blob(&layer["digest"])), "--numeric-owner", "-C", &text(&rootfs)]).await;
    }
    Image { dir, rootfs, manifest, config }
}

async fn build_image(program: &Path, storage: &Path) {
    let script = format!("{ROOT}/deploy/image");
    let args = ["--engine", "buildah", "--tag", "kubediff:test", "--from", &text(program), "--storage", &text(storage)];
    run(&script, &args).await;
}

/// What stands in for the Rust image: the tools of this machine that the stage `build` asks for, and a `cargo` whose work is
/// done already.
async fn stub(folder: &Path, program: &Path) {
    let put = |from: &Path, to: &str| {
        let to = folder.join(to.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, &to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    };
    for name in ["sh", "sed", "mkdir", "cp", "find", "touch"] {
        let from = tool(name);
        put(Path::new(&from), &format!("/bin/{name}"));
        let needs = run("ldd", &[&from]).await;
        needs
            .split_whitespace()
            .filter(|word| word.starts_with('/'))
            .for_each(|library| put(library.as_ref(), library));
    }
    put(program, "/built/kubediff");
    fs::create_dir_all(folder.join("etc/ssl/certs")).unwrap();
    fs::write(folder.join("etc/ssl/certs/ca-certificates.crt"), "none\n").unwrap();
    let script = |name: &str, text: &str| {
        let path = folder.join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\nset -eu\n{text}")).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    };
    script("rustc", "[ \"$*\" = -vV ]\necho 'host: here-unknown-linux-gnu'\n");
    script(
        "cargo",
        "[ \"$*\" = 'build --release --locked --features jemalloc --bin kubediff --target here-unknown-linux-gnu' ]\n\
         [ -f Cargo.lock ] && [ -n \"$KUBEDIFF_REVISION\" ] && [ \"$SOURCE_DATE_EPOCH\" -gt 0 ]\n\
         case $RUSTFLAGS in *+crt-static*=/cargo) ;; *) exit 1 ;; esac\n\
         mkdir -p target/here-unknown-linux-gnu/release\n\
         cp /built/kubediff target/here-unknown-linux-gnu/release/kubediff\n",
    );
    fs::write(folder.join("Dockerfile"), "FROM scratch\nCOPY . /\nENV PATH=/bin CARGO_HOME=/root/.cargo\n").unwrap();
}

async fn buildah(storage: &Path, args: &[&str]) -> String {
    let (root, state) = (text(&storage.join("root")), text(&storage.join("run")));
    let store = ["--storage-driver", "vfs", "--root", &root, "--runroot", &state];
    run("buildah", &[&store, args].concat()).await
}

/// Cargo puts the hash of the unit behind the name when it is told where to put a program.
async fn static_program() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_kubediff")).ancestors().nth(2).unwrap().join("static");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let output = text(&folder.join("kubediff"));
    let manifest = format!("{ROOT}/Cargo.toml");
    let flags = ["-C", "target-feature=+crt-static", "-C", "strip=symbols", "-o", &output];
    let args = [&["rustc", "--quiet", "--locked", "--manifest-path", &manifest, "--bin", "kubediff", "--"], &flags[..]]
        .concat();
    run(env!("CARGO"), &args).await;
    let made = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    made.into_iter().find(|path| path.extension().is_none()).expect("a program")
}

/// Without what cargo sets for this test: build scripts that look at it would take the crates for changed ones.
fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let own = ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
        if own.iter().any(|prefix| name.starts_with(prefix)) || name == "CARGO" || name == "OUT_DIR" {
            command.env_remove(&*name);
        }
    }
}

async fn run(program: &str, args: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(args);
    clean(&mut command);
    let output = guard::run(&mut command).await.unwrap_or_else(|e| panic!("{program}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {} failed: {said}", args.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A program of the administrator's, which need not be on the PATH.
fn tool(name: &str) -> String {
    let places = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(|folder| format!("{folder}/{name}"));
    places.into_iter().find(|path| Path::new(path).exists()).unwrap_or_else(|| panic!("{name} is needed"))
}

/// `$1` becomes the root folder: read-only but for the state and /tmp, and with the machine's devices, as a container has
/// them. The mounts are seen by this process alone.
const CONTAINED: &str = r#"
set -e
mkdir -p "$1/dev" "$1/tmp"
mount --bind "$1" "$1"
mount --rbind /dev "$1/dev"
mount --bind "$1/var/lib/kubediff" "$1/var/lib/kubediff"
mount --bind "$1/tmp" "$1/tmp"
mount -o remount,bind,ro "$1"
shift
exec "$@"
"#;

/// The start of a command that sees `root` as its only files, with no variable but those given, as the user of the
/// image. Who is not root here is one in a user namespace of their own.
pub fn contained(root: &Path, variables: &[(&str, &str)]) -> Vec<String> {
    let root = text(root);
    let mut command = vec![tool("unshare"), "--mount".to_owned()];
    if !is_root() {
        command.push("--map-root-user".to_owned());
    }
    command.extend(["sh", "-c", CONTAINED, "contained", &root, "env", "-i"].map(str::to_owned));
    command.extend(variables.iter().map(|(key, value)| format!("{key}={value}")));
    command.push(tool("chroot"));
    if is_root() {
        command.extend(["--userspec=65532:65532", "--groups=65532"].map(str::to_owned));
    }
    command.extend([root, "/kubediff".to_owned()]);
    command
}

pub fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}

/// What is in it, with its permissions, sorted. Folders are not: a container gets some of its own.
async fn files(image: &Image) -> Vec<String> {
    let listed = run("find", &[&text(&image.rootfs), "-type", "f", "-printf", "%P %m\n"]).await;
    let mut files: Vec<_> = listed.lines().map(str::to_owned).collect();
    files.sort_unstable();
    files
}

#[tokio::test]
async fn the_program_that_comes_out_of_the_image_runs() {
    let image = image().await;
    let command = contained(&image.rootfs, &[]);
    let args: Vec<&str> = command.iter().map(String::as_str).chain(["--version"]).collect();
    let said = run(args[0], &args[1..]).await;
    assert!(said.starts_with(&format!("kubediff {} (", env!("CARGO_PKG_VERSION"))), "{said}");
}

#[tokio::test]
async fn the_image_is_small_and_has_nothing_but_the_program_and_certificates() {
    let image = image().await;
    let layers = image.manifest["layers"].as_array().unwrap();
    let bytes: u64 = layers.iter().map(|layer| layer["size"].as_u64().unwrap()).sum();
    assert!(bytes < 25_000_000, "{bytes} bytes are pulled");
    assert_eq!(files(image).await, ["etc/ssl/certs/ca-certificates.crt 644", "kubediff 755"]);
}

#[tokio::test]
async fn the_image_says_what_it_is_and_does_not_run_as_root() {
    let config = &image().await.config["config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!((&config["Entrypoint"], &config["Cmd"]), (&json!(["/kubediff"]), &json!(["run"])));
    assert_eq!(config["WorkingDir"], "/var/lib/kubediff");
    let variables = config["Env"].as_array().unwrap();
    assert!(variables.contains(&json!("MALLOC_ARENA_MAX=2")), "{variables:?}");
    let labels = &config["Labels"];
    assert_eq!(labels["org.opencontainers.image.version"], env!("CARGO_PKG_VERSION"));
    for label in ["title", "description", "licenses", "revision"] {
        assert!(labels[format!("org.opencontainers.image.{label}")].is_string(), "{label} in {labels}");
    }
}

/// The stages that compile, but for the compiler: a registry would have that.
#[tokio::test]
async fn the_image_that_is_compiled_inside_has_what_the_packed_one_has_and_runs() {
    let packed = image().await;
    let dir = Directory::create().unwrap();
    let (folder, storage) = (dir.path().join("stub"), dir.path().join("storage"));
    stub(&folder, &packed.rootfs.join("kubediff")).await;
    let isolated = ["bud", "--isolation", "chroot", "--quiet", "--tag", "localhost/rust:stub"];
    buildah(&storage, &[&isolated[..], &[&text(&folder)]].concat()).await;
    let script = format!("{ROOT}/deploy/image");
    let args = ["--engine", "buildah", "--tag", "kubediff:test", "--rust", "localhost/rust:stub"];
    run("env", &[&["SOURCE_DATE_EPOCH=1700000000", &script], &args[..], &["--storage", &text(&storage)]].concat())
        .await;
    let compiled = take_apart(dir, &storage).await;

    assert_eq!(compiled.config["config"], packed.config["config"]);
    assert_eq!(files(&compiled).await, files(packed).await);
    let owner = fs::metadata(compiled.rootfs.join("var/lib/kubediff")).unwrap().uid();
    assert!(owner == 65532 || !is_root(), "the state is {owner}'s");
    let times = run("find", &[&text(&compiled.rootfs), "-type", "f", "-printf", "%Ts\n"]).await;
    assert!(times.lines().all(|time| time == "1700000000"), "{times}");
    let command = contained(&compiled.rootfs, &[]);
    let args: Vec<&str> = command.iter().map(String::as_str).chain(["--version"]).collect();
    assert!(run(args[0], &args[1..]).await.starts_with("kubediff "));
}

/// There is no docker's daemon here: what it would be asked is looked at.
#[tokio::test]
async fn docker_is_asked_for_buildkit_where_a_stage_has_to_be_left_out() {
    let dir = Directory::create().unwrap();
    let (docker, asked) = (dir.path().join("docker"), dir.path().join("asked"));
    let path = format!("{}:{}", text(dir.path()), std::env::var("PATH").unwrap());
    for (buildx, from, expected) in [(0, false, "1"), (1, false, "1"), (0, true, "1"), (1, true, "0")] {
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = buildx ] && exit {buildx}\necho \"$DOCKER_BUILDKIT $*\" >{}\n",
            asked.display()
        );
        fs::write(&docker, script).unwrap();
        run("chmod", &["+x", &text(&docker)]).await;
        let program = text(&docker);
        let more: &[&str] = if from { &["--from", &program] } else { &[] };
        let path = format!("PATH={path}");
        let script = format!("{ROOT}/deploy/image");
        run("env", &[&[path.as_str(), script.as_str(), "--engine", "docker"], more].concat()).await;
        let asked = fs::read_to_string(&asked).unwrap();
        let target = if from { "--target prebuilt" } else { "--target image" };
        assert!(asked.starts_with(&format!("{expected} build ")) && asked.contains(target), "{asked}");
        assert!(asked.contains("--build-arg SOURCE_DATE_EPOCH="), "{asked}");
    }
}

#[tokio::test]
async fn the_same_program_gives_the_same_image() {
    let image = image().await;
    let again = image.dir.path().join("again");
    build_image(&image.rootfs.join("kubediff"), &again).await;
    let id = buildah(&again, &["images", "--no-trunc", "--quiet", "kubediff:test"]).await;
    assert_eq!(id.trim(), image.manifest["config"]["digest"].as_str().unwrap());
}
