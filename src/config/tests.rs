use std::{fs, path::Path, time::Instant};

use super::*;

mod environment;
mod legacy;
mod tables;

fn sources(variables: &[(&str, &str)]) -> Sources {
    let variables = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    Sources { path: None, variables, lookup: Lookup::Now }
}

fn load(text: &str) -> Plan {
    sources(&[]).build("c.toml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn problems(text: &str) -> String {
    sources(&[]).build("c.toml", text).map(drop).unwrap_err().to_string()
}

/// Each `NAME.toml` has its exact message in `NAME.txt`. With `UPDATE=1` the messages are written, to be read and
/// committed.
#[test]
fn every_wrong_configuration_is_told_what_is_wrong_with_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/config");
    let mut seen = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        seen += 1;
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let found = sources(&[("PATH", "/bin")]).build(name, &text).map(drop);
        let found = found.expect_err(name).to_string() + "\n";
        let expected = path.with_extension("txt");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&expected, &found).unwrap();
        }
        assert_eq!(found, fs::read_to_string(&expected).unwrap_or_default(), "{name}");
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn no_configuration_at_all_watches_everything_but_the_noisy_kinds_and_writes_to_stdout() {
    let plan = sources(&[]).load().unwrap();
    assert_eq!(plan.sinks.len(), 1);
    assert_eq!(plan.sinks[0].name, "stdout");
    assert_eq!(plan.select.include, [crate::cluster::select::Pattern::all()]);
    assert!(plan.select.default_exclude.iter().any(|pattern| pattern.to_string() == "v1/events"));
    assert_eq!(plan.state.path.as_deref(), Some(Path::new("kubediff.db")));
    assert_eq!(plan.file, File::default());
}

#[test]
fn a_configuration_of_ten_megabytes_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubediff.toml");
    fs::write(&path, "cluster = \"x\"\n".repeat(750_000)).unwrap();
    let start = Instant::now();
    let problems = Sources { path: Some(path.clone()), ..sources(&[]) }.load().unwrap_err();
    assert_eq!(problems.to_string(), format!("{}: is larger than 1 MiB, which no ConfigMap can be", path.display()));
    // Generous, for a debug build on a busy machine: it is refused by its size, before it is read.
    assert!(start.elapsed().as_secs() < 30, "{:?}", start.elapsed());
}

#[test]
fn the_largest_configuration_that_is_read_is_checked_in_bounded_time() {
    let route = "[[routes]]\nmatch = { names = [\"a*b*c\"], when = \"event.x\" }\n";
    let start = Instant::now();
    let text = route.repeat((MAX_BYTES as usize) / route.len());
    let problems = sources(&[]).build("c.toml", &text).map(drop).unwrap_err();
    let (many, each): (Vec<_>, Vec<_>) = problems.list.iter().partition(|problem| problem.key == "routes[2000]");
    assert_eq!(many.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>(), ["more than 2000 routes"]);
    assert_eq!(each.len(), 2000, "each of the others has its own: {:?}", each.first());
    assert!(each.iter().all(|problem| problem.key.ends_with(".match.when")), "{:?}", each.last());
    assert!(problems.to_string().ends_with("\nand 1951 more"));
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn a_file_that_leads_to_itself_and_one_that_is_not_there_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubediff.toml");
    std::os::unix::fs::symlink("kubediff.toml", &path).unwrap();
    let of = |path: &Path| Sources { path: Some(path.to_owned()), ..sources(&[]) }.load().unwrap_err().to_string();
    assert!(of(&path).contains("kubediff.toml: cannot be read: Too many levels of symbolic links"), "{}", of(&path));
    assert!(of(Path::new("/nonexistent.toml")).starts_with("/nonexistent.toml: cannot be read: No such file"));
    fs::remove_file(&path).unwrap();
    assert!(of(folder.path()).contains("is a folder without config.toml"), "{}", of(folder.path()));
    fs::write(folder.path().join("config.toml"), b"cluster = \"ok\"\n\xff\n").unwrap();
    assert!(of(folder.path()).ends_with("config.toml: line 2 is not UTF-8 text"));
}

#[test]
fn a_value_that_may_be_a_secret_is_in_no_message() {
    let text =
        "[sinks.a]\ntype = \"webhook\"\nurl = \"hunter2\"\nsigning_secret = [\"hunter2\", 5]\nbatch = \"hunter2\"\n";
    let message = problems(text);
    assert!(!message.contains("hunter2"), "{message}");
    let plan = load("[sinks.a]\ntype = \"webhook\"\nurl = \"https://example.com/hunter2\"\n");
    assert!(!format!("{plan:?}").contains("hunter2"));
}

#[test]
fn a_batch_for_a_template_that_reads_one_event_is_refused_with_what_to_do() {
    let sink = "[sinks.chat]\ntype = \"webhook\"\nurl = \"https://example.com/\"\nformat = \"template\"\n";
    let message = problems(&format!("{sink}template = \"teams\"\nbatch = 5\n"));
    assert!(message.contains("sinks.chat") && message.contains("batch is 5"), "{message}");
    assert!(message.contains("leave batch out") && message.contains("`events`"), "{message}");
    load(&format!("{sink}template = \"teams\"\n"));
    load(&format!("{sink}template = \"{{{{ events | tojson }}}}\"\nbatch = 5\n"));
}

#[test]
fn secrets_are_read_from_files_and_the_environment_and_skipped_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "xoxb-1\n").unwrap();
    let text = format!("[sinks.ops]\ntype = \"slack\"\nchannel = \"#ops\"\ntoken = {{ file = {file:?} }}\n");
    let plan = load(&text);
    assert_eq!(plan.files, [file]);
    let text = "[sinks.ops]\ntype = \"slack\"\nchannel = \"#ops\"\ntoken = { env = \"TOKEN\" }\n";
    assert!(sources(&[("TOKEN", "xoxb-2")]).build("", text).is_ok());
    assert!(sources(&[]).build("", text).is_err());
    assert!(Sources { lookup: Lookup::Skip, ..sources(&[]) }.build("", text).is_ok());
}

#[test]
fn without_the_secrets_all_that_needs_none_is_tried_all_the_same() {
    let skip = Sources { lookup: Lookup::Skip, ..sources(&[]) };
    let hook = "[sinks.a]\ntype = 'webhook'\nurl = { env = 'URL' }\nsigning_secret = { env = 'KEY' }\n\
                ca = { file = '/nonexistent' }\nheaders = { X-Key = { env = 'X' } }\nformat = 'template'\n\
                vars = { key = { env = 'X' } }\n";
    let told = |more: &str| skip.build("c.toml", &format!("{hook}{more}")).map(drop).map_err(|p| p.to_string());
    for right in [
        "template = '{\"a\": {{ vars.key }}}'",
        "template = '{\"a\": {{ vars.key | tojson }}}'",
        "template = { file = '/nonexistent' }",
        "template = 'teams'",
    ] {
        assert_eq!(told(right), Ok(()), "{right}");
    }
    for (wrong, message) in [
        ("template = '{{ event.summary '", "c.toml:9: sinks.a.template: the template does not compile"),
        ("template = '{'", "c.toml:9: sinks.a.template: "),
        ("template = '{}'\ntemplate_headers = { 'a b' = 'x' }", "c.toml:10: sinks.a.template_headers.\"a b\": "),
        ("template = '{}'\nclient_key = 'x'\nclient_certificate = 'y'", "c.toml:11: sinks.a.client_certificate: "),
    ] {
        let told = told(wrong).unwrap_err();
        assert!(told.starts_with(message) && !told.contains('\n'), "{wrong}: {told}");
    }
}

#[test]
fn changes_say_what_differs_and_nothing_else() {
    let base = "[sinks.a]\ntype = \"stdout\"\n[sinks.b]\ntype = \"stdout\"\n";
    let old = load(base);
    assert!(load(base).changes(&old).is_empty());
    let changes = load(&format!("{base}[[routes]]\nsinks = [\"a\"]\n")).changes(&old);
    assert_eq!(changes, Changes { routes: true, ..Changes::default() });
    let changes = load(&format!("[watch]\nsecrets = \"off\"\n{base}")).changes(&old);
    assert!(changes.watch && changes.at_start == ["watch.secrets"] && !changes.routes);
    let text = "[sinks.a]\ntype = \"stdout\"\nformat = \"ecs\"\n[sinks.c]\ntype = \"stdout\"\n[state]\npath = \"x\"\n";
    let changes = load(text).changes(&old);
    assert_eq!(changes.sinks_changed, ["a"]);
    assert_eq!(changes.sinks_added, ["c"]);
    assert_eq!(changes.sinks_removed, ["b"]);
    assert_eq!(changes.at_start, ["state.path"]);
}

#[test]
fn a_key_that_is_taken_up_at_the_start_alone_is_named_when_it_changes() {
    let changed = |old: &str, new: &str| load(new).changes(&load(old)).at_start;
    for (key, old, new) in [
        ("cluster", "cluster = 'a'", "cluster = 'b'"),
        ("watch.page_size", "", "[watch]\npage_size = 7"),
        ("redact.patterns", "", "[redact]\npatterns = ['x']"),
        ("noise.profile", "", "[noise]\nprofile = 'all'"),
        ("server.auth", "", "[server]\nauth = 'token'"),
        ("ha.lease", "", "[ha]\nlease = 'other'"),
        ("redact.key", "", "[redact]\nkey = '0123456789abcdef0123456789abcdef'"),
        (
            "redact.key",
            "[redact]\nkey = 'fedcba9876543210fedcba9876543210'",
            "[redact]\nkey = '0123456789abcdef0123456789abcdef'",
        ),
    ] {
        assert_eq!(changed(old, new), [key]);
    }
    for new in ["[watch]\nnamespaces = ['a']", "annotations = false", "[sinks.a]\ntype = 'stdout'"] {
        assert!(changed("", new).is_empty(), "{new}");
    }
}

#[test]
fn replicas_with_the_same_key_derive_the_same_and_no_short_one_is_taken() {
    let key = |text: &str| load(&format!("[redact]\nkey = '{text}'")).redaction_key.unwrap();
    let (a, b) = ("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdeg");
    assert_eq!(key(a), key(a));
    assert_ne!(key(a), key(b));
    assert_eq!(load("").redaction_key, None);
    let message = problems("[redact]\nkey = 'hunter2'");
    assert_eq!(message, "c.toml:2: redact.key: a key of less than 32 characters can be guessed");
}
