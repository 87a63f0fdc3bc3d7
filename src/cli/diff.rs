//! `kubediff diff OLD NEW`: the engine on two files, without a cluster.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use clap::ValueEnum;
use jiff::Timestamp;
use kubediff::{
    cluster::Resource,
    diff::{self, Keys},
    event::{Builder, Cluster, Event, Observed, State, What, build, owner::Unknown, render},
    redact::{Contents, Document, Door, Settings, noise},
};
use serde_json::{Value, json};

use super::{Usage, is_closed_pipe, redaction::Redaction};

/// Differences were found.
const DIFFER: u8 = 1;

/// Show what changed between two files of Kubernetes objects, YAML or JSON
///
/// Objects are matched by kind, namespace and name; a file may hold several, or a List. Secret values are hashed and
/// credentials masked, as everywhere.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 no differences, 1 differences, 2 trouble.

Examples:
  kubediff diff old.yaml new.yaml
  kubectl get deployment web -o yaml | kubediff diff web.yaml -
  kubediff diff old.yaml new.yaml -o patch > change.json
  kubediff diff old.yaml new.yaml -o markdown   for a ticket or a pull request")]
pub(crate) struct Args {
    /// The file as it was; - for stdin
    old: PathBuf,
    /// The file as it is now; - for stdin
    new: PathBuf,
    /// What to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Show also what kubediff leaves aside in a cluster: heartbeats, counters, bookkeeping of controllers
    #[arg(long)]
    all: bool,
    /// Whether to colour
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    color: Color,
    #[command(flatten)]
    redaction: Redaction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Changed fields, old and new
    Text,
    /// Events, one a line
    Json,
    /// The documents as YAML with + and -, what is equal folded
    Yaml,
    /// For tickets, chat and mail: a line, the sentence and the change as a diff
    Markdown,
    /// RFC 6902: one patch, or an object of patches by kind and name when there are several objects
    Patch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

/// Prints the differences; the exit code says whether there are any.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match compare_and_print(args) {
        Ok(true) => Ok(ExitCode::from(DIFFER)),
        Ok(false) => Ok(ExitCode::SUCCESS),
        Err(error) if is_closed_pipe(&error) => Err(error),
        // What cannot be read or understood must not look like a difference.
        Err(error) => Err(Usage(error).into()),
    }
}

/// Whether there are differences.
fn compare_and_print(args: &Args) -> anyhow::Result<bool> {
    if args.old == Path::new("-") && args.new == Path::new("-") {
        bail!("only one of the two can be read from stdin");
    }
    let noise = if args.all { noise::Profile::All } else { noise::Profile::Quiet };
    // A key that nobody knows and that is gone with the process: equal values are equal, and that is all that shows.
    let door = Door::new(&Settings { noise, ..args.redaction.settings()? }, &rand::random())?;
    let old = read(&args.old, &door)?;
    let new = read(&args.new, &door)?;
    let single = old.len() <= 1 && new.len() <= 1;
    let pairs = compare(old, &new, Timestamp::now());
    let text = print(&pairs, args.output, single, &style(args.color))?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(!pairs.is_empty())
}

fn style(color: Color) -> render::Style {
    let terminal = io::stdout().is_terminal();
    let color = match color {
        Color::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        Color::Always => true,
        Color::Never => false,
    };
    let width = if terminal { terminal_size::terminal_size().map_or(0, |(width, _)| usize::from(width.0)) } else { 0 };
    render::Style { color, width, zone: None, status: true }
}

/// An object of a file.
struct Object {
    resource: Resource,
    document: Document,
}

/// What makes two objects the same one; the version of the API may change.
type Identity = (String, String, String, String);

impl Object {
    fn identity(&self) -> Identity {
        let meta = self.document.meta();
        (self.resource.group.clone(), self.resource.kind.clone(), meta.namespace.clone(), meta.name.clone())
    }
}

/// An object that differs, and how.
struct Pair {
    event: Event,
    old: Value,
    new: Value,
}

fn read(path: &Path, door: &Door) -> anyhow::Result<Vec<Object>> {
    let stdin = path == Path::new("-");
    let name = if stdin { "stdin".to_owned() } else { path.display().to_string() };
    let mut bytes = Vec::new();
    if stdin {
        io::stdin().lock().read_to_end(&mut bytes).context("reading stdin")?;
    } else {
        bytes = fs::read(path).with_context(|| format!("reading {name}"))?;
    }
    let text = String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("{name} is not UTF-8"))?;
    objects(&text, door).with_context(|| name)
}

fn objects(text: &str, door: &Door) -> anyhow::Result<Vec<Object>> {
    let mut found = Vec::new();
    for value in parse(text)? {
        expand(value, &mut found);
    }
    let several = found.len() > 1;
    let admit = |(index, value): (usize, Value)| {
        let object = admit(value, door);
        if several { object.with_context(|| format!("object {}", index + 1)) } else { object }
    };
    found.into_iter().enumerate().map(admit).collect()
}

/// The documents of a text. Errors tell where, and never what stands there: it may be secret.
fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    if text.trim_start().starts_with('{') {
        let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        if let Ok(values) = values {
            return Ok(values);
        }
    }
    // As the API server reads YAML: of the words for yes and no only true and false are booleans.
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false, budget: None };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| match error.location() {
        Some(at) => anyhow::anyhow!("not YAML: wrong at line {}, column {}", at.line(), at.column()),
        None => anyhow::anyhow!("not YAML"),
    })
}

/// The items of a List one by one; empty documents are none.
fn expand(value: Value, found: &mut Vec<Value>) {
    match value {
        Value::Null => {}
        Value::Object(mut fields)
            if fields.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"))
                && fields.get("items").is_some_and(Value::is_array) =>
        {
            let Some(Value::Array(items)) = fields.remove("items") else { return };
            items.into_iter().for_each(|item| expand(item, found));
        }
        other => found.push(other),
    }
}

fn admit(mut value: Value, door: &Door) -> anyhow::Result<Object> {
    let Some(kind) = value["kind"].as_str().filter(|kind| !kind.is_empty()) else {
        bail!("no Kubernetes object: it has no kind");
    };
    let Some(api) = value["apiVersion"].as_str().filter(|api| !api.is_empty()) else {
        bail!("no Kubernetes object: it has no apiVersion");
    };
    let (group, version) = api.split_once('/').unwrap_or(("", api));
    let plural = plural(kind);
    let resource = Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        singular: kind.to_lowercase(),
        plural,
        kind: kind.to_owned(),
        short_names: Vec::new(),
        namespaced: value["metadata"]["namespace"].is_string(),
    };
    // What is to be created under a name that the server makes up has none yet.
    if let Some(name) = value["metadata"]["generateName"].as_str().map(|name| format!("{name}*"))
        && value["metadata"]["name"].is_null()
    {
        value["metadata"]["name"] = name.into();
    }
    let document = door.admit(&resource, &serde_json::to_vec(&value)?)?;
    Ok(Object { resource, document })
}

/// As Kubernetes forms most of them; a file does not say it.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ if kind.ends_with("endpoints") => kind,
        _ if kind.ends_with(['s', 'x']) || kind.ends_with("ch") || kind.ends_with("sh") => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

/// The objects that differ: in the order of the new file, then what is gone in the order of the old one.
fn compare(old: Vec<Object>, new: &[Object], time: Timestamp) -> Vec<Pair> {
    let mut before: BTreeMap<Identity, Vec<Object>> = BTreeMap::new();
    // Two files with one object of a kind each are about the same object, whatever it is called.
    let renamed = old.len() == 1 && new.len() == 1 && old[0].resource.kind == new[0].resource.kind;
    let order: Vec<Identity> = old.iter().map(Object::identity).collect();
    for object in old {
        let identity = if renamed { new[0].identity() } else { object.identity() };
        before.entry(identity).or_default().push(object);
    }
    let mut pairs = Vec::new();
    for object in new {
        // The first of several with one name goes with the first.
        let was = before.get_mut(&object.identity()).filter(|same| !same.is_empty()).map(|same| same.remove(0));
        pairs.extend(pair(was.as_ref(), Some(object), time));
    }
    for identity in order {
        for object in before.remove(&identity).unwrap_or_default() {
            pairs.extend(pair(Some(&object), None, time));
        }
    }
    pairs
}

fn pair(old: Option<&Object>, new: Option<&Object>, time: Timestamp) -> Option<Pair> {
    fn state<'a>(object: &'a Object, contents: &'a Contents) -> State<'a> {
        State { document: &object.document, contents }
    }
    let contents = |object: &Object| object.document.contents();
    let (was, is) = (old.map(contents), new.map(contents));
    let what = match (old.zip(was.as_ref()), new.zip(is.as_ref())) {
        (None, None) => return None,
        (None, Some((new, is))) => What::Created { new: state(new, is) },
        (Some((old, was)), None) => What::Deleted { old: state(old, was), version: &old.document.meta().version },
        (Some((old, was)), Some((new, is))) => {
            let diff = diff::documents(was, is, &Keys::default());
            if diff.changes.is_empty() {
                return None;
            }
            What::Updated { old: state(old, was), new: state(new, is), diff }
        }
    };
    let resource = &new.or(old)?.resource;
    let builder = Builder::new(Cluster { name: String::new(), uid: String::new() });
    let mut event = builder.build(resource, Observed::Live, time, what, &Unknown).into_inner();
    if event.resource.uid.is_empty() {
        // Files seldom have uids: the name stands for it, so that ids differ.
        let uid = format!("{} {}", resource.group_resource(), event.resource.ns_name());
        event.id = build::id("", &uid, &event.resource.resource_version.as_str().into(), event.kind);
    }
    let value = |contents: Option<Contents>| contents.map_or(Value::Null, Contents::into_value);
    Some(Pair { event, old: value(was), new: value(is) })
}

fn print(pairs: &[Pair], output: Output, single: bool, style: &render::Style) -> anyhow::Result<String> {
    let mut out = String::new();
    match output {
        Output::Text => pairs.iter().for_each(|pair| out.push_str(&render::terminal(&pair.event, style))),
        Output::Markdown => {
            let texts: Vec<String> = pairs.iter().map(|pair| render::markdown(&pair.event)).collect();
            out = texts.join("\n");
        }
        Output::Yaml => {
            for pair in pairs {
                out.push_str(&render::terminal::title(&pair.event, style));
                out.push_str(&render::unified(&pair.old, &pair.new, style));
            }
        }
        Output::Json => {
            for pair in pairs {
                out.push_str(&serde_json::to_string(&pair.event)?);
                out.push('\n');
            }
        }
        Output::Patch => {
            let patch = if single && pairs.len() <= 1 {
                pairs.first().map_or(json!([]), patch)
            } else {
                let name = |pair: &Pair| format!("{} {}", render::kind(&pair.event), pair.event.resource.ns_name());
                pairs.iter().map(|pair| (name(pair), patch(pair))).collect::<serde_json::Map<_, _>>().into()
            };
            out = format!("{patch:#}\n");
        }
    }
    Ok(out)
}

/// Of an object that came or went: the whole document.
fn patch(pair: &Pair) -> Value {
    match &pair.event.patch {
        Some(patch) => json!(patch),
        None if pair.new.is_null() => json!([{"op": "remove", "path": ""}]),
        None => json!([{"op": "add", "path": "", "value": pair.new}]),
    }
}
