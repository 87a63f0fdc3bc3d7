//! `kubediff record`: what happens in a cluster, redacted, as a file that `kubediff demo FILE` plays.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use jiff::SignedDuration;
use kubediff::{
    cluster::{
        recorder::{self, Written},
        select::{self, Namespaces, Pattern},
        store,
    },
    shutdown::Shutdown,
};
use zstd::stream::write::Encoder;

use super::{Usage, connect, redaction::Redaction};

/// Fast enough for the lists of a large cluster.
const LEVEL: i32 = 6;
/// The window in which repetitions are found: versions of an object are alike, and far from each other.
const WINDOW_LOG: u32 = 25;
/// Lists at once: as many as the daemon's.
const LISTS: usize = 6;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
What is secret is replaced by a keyed hash before anything is written, and the key is thrown away. Names, images,
addresses and whatever else is no secret by itself stay readable: look at it before you send it to anyone.

Examples:
  kubediff record                           everything but the noisy kinds, for five minutes or until Ctrl-C
  kubediff record --for 30s -n shop -o shop.recording.zst
  kubediff record deploy rs pods -A         some kinds, in all namespaces
  kubediff demo kubediff.recording.zst      play it
  zstdcat kubediff.recording.zst | less     read it: one JSON object a line")]
pub(crate) struct Args {
    /// Kinds, resources, short names or patterns: deploy, configmaps, apps/*, *.cert-manager.io
    resources: Vec<String>,
    /// Where to write it; a file that is there already is left alone
    #[arg(long, short, value_name = "FILE", default_value = "kubediff.recording.zst")]
    output: PathBuf,
    /// How long: 30s, 5m, 1h 30m. Ctrl-C ends it earlier
    #[arg(long = "for", value_name = "TIME", default_value = "5m")]
    length: String,
    /// One namespace; give it again for several
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Vec<String>,
    /// All namespaces: the default, for the habit's sake
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Labels that objects must have
    #[arg(long, short = 'l', value_name = "SELECTOR", default_value = "")]
    selector: String,
    /// Leave these out; as many as you like, in the same form
    #[arg(long, value_name = "RESOURCE")]
    exclude: Vec<String>,
    #[command(flatten)]
    redaction: Redaction,
    #[command(flatten)]
    cluster: connect::Options,
}

pub(crate) async fn run(args: Args, shutdown: Shutdown) -> anyhow::Result<()> {
    let select = select(&args).map_err(Usage)?;
    let length = length(&args.length).map_err(Usage)?;
    if args.output.exists() {
        let there = anyhow::anyhow!("{} is there already; give another name with -o", args.output.display());
        return Err(Usage(there).into());
    }
    let redact = args.redaction.settings().map_err(Usage)?;
    let connected = args.cluster.connect(&redact.patterns).await?;
    let part = Part::create(&args.output)?;
    let note = format!("by kubediff {}", env!("CARGO_PKG_VERSION"));
    let settings = recorder::Settings { select, patterns: redact.patterns, note, lists: LISTS, length: Some(length) };
    let out = encoder(part.file.try_clone()?)?;
    let (out, written) = recorder::record(Arc::new(connected.api), settings, out, shutdown.child()).await?;
    let file = out.finish().with_context(|| format!("cannot write {}", args.output.display()))?;
    file.sync_all()?;
    let bytes = file.metadata()?.len();
    part.keep(&args.output)?;
    say(&args.output, &written, bytes)?;
    Ok(())
}

fn encoder(file: File) -> io::Result<Encoder<'static, File>> {
    let mut encoder = Encoder::new(file, LEVEL)?;
    encoder.long_distance_matching(true)?;
    encoder.window_log(WINDOW_LOG)?;
    encoder.include_checksum(true)?;
    Ok(encoder)
}

/// A file beside the one that is wanted, so that what has the wanted name is whole.
struct Part {
    path: PathBuf,
    file: File,
}

impl Part {
    fn create(wanted: &Path) -> anyhow::Result<Self> {
        let mut name = wanted.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let path = wanted.with_file_name(name);
        let file = File::create_new(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path, file })
    }

    fn keep(self, wanted: &Path) -> anyhow::Result<()> {
        fs::rename(&self.path, wanted).with_context(|| format!("cannot name the recording {}", wanted.display()))
    }
}

impl Drop for Part {
    /// After [`Part::keep`] there is nothing left to remove.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn say(path: &Path, written: &Written, bytes: u64) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{}: {} objects of {} resources, {} changes in {} s, {} KiB",
        path.display(),
        written.objects,
        written.resources,
        written.changes,
        written.length.as_secs(),
        bytes.div_ceil(1024)
    )?;
    for (resource, why) in &written.unread {
        writeln!(out, "not in it: {resource}: {why}")?;
    }
    if written.refused > 0 {
        writeln!(out, "not in it: {} objects that could not be read", written.refused)?;
    }
    writeln!(out, "Play it with: kubediff demo {}", path.display())
}

fn length(text: &str) -> anyhow::Result<Duration> {
    let length: SignedDuration = text.parse().with_context(|| format!("--for {text:?} is no time; 30s, 5m, 1h are"))?;
    Duration::try_from(length).with_context(|| format!("--for {text:?} is less than nothing"))
}

fn select(args: &Args) -> anyhow::Result<select::Settings> {
    let parse = |texts: &[String]| texts.iter().map(|text| Pattern::parse(text)).collect::<Result<Vec<_>, _>>();
    let mut settings = select::Settings::default();
    if !args.resources.is_empty() {
        settings.include = parse(&args.resources)?;
    }
    settings.exclude = parse(&args.exclude)?;
    settings.namespaces = Namespaces { include: args.namespace.clone(), exclude: Vec::new() };
    settings.namespaces.check()?;
    anyhow::ensure!(!settings.namespaces.needs_live(), "-n takes names here, no patterns; give it again for several");
    args.selector.parse::<store::Selector>()?;
    settings.labels.clone_from(&args.selector);
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, secs) in [("30s", 30), ("5m", 300), ("1h 30m", 5400), ("90 seconds", 90)] {
            assert_eq!(length(text).unwrap(), Duration::from_secs(secs), "{text}");
        }
        for wrong in ["", "5", "soon", "-5m"] {
            assert!(length(wrong).unwrap_err().to_string().contains("--for"), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_finished_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = dir.path().join("a.zst");
        drop(Part::create(&wanted).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        Part::create(&wanted).unwrap().keep(&wanted).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
