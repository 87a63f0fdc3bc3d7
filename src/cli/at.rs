//! `kubediff at`: an object as it was at a time.

use std::io::{self, Write};

use anyhow::anyhow;
use jiff::{Zoned, tz::TimeZone};
use kubediff::event::render;
use serde_json::Value;

use super::{
    Usage, clock, history_source,
    object::{Object, Target},
    terminal,
};

/// Show an object as it was at a time
///
/// Secret values are hashed and bookkeeping is left out, as everywhere. Where nobody watched at that time and it is not
/// certain what the object was, that is said.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff at deploy/web 10:42 -n shop               as it was at 10:42, the last time it was that late
  kubediff at deploy web 2h -n shop                  two hours ago
  kubediff at cm/flags '2026-11-16 10:42' -o diff    what changed between then and now
  kubediff at ns/shop 2026-11-16T10:42:17Z -o json")]
pub(crate) struct Args {
    /// TYPE/NAME or TYPE NAME, then a time or an age
    #[arg(required = true, value_name = "TYPE/NAME TIME")]
    what: Vec<String>,
    /// The namespace of the object
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// yaml or json: the object; diff: what has changed since then
    #[arg(long, short, value_enum, default_value_t = Output::Yaml)]
    output: Output,
    #[command(flatten)]
    place: history_source::Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Yaml,
    Json,
    Diff,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let now = Zoned::now();
    let (target, rest) = Target::take(&args.what).map_err(Usage)?;
    if rest.is_empty() {
        return Err(Usage(anyhow!("at what time? Write kubediff at {target} 10:42")).into());
    }
    let at = clock::parse(&rest.join(" "), &now).map_err(|why| Usage(anyhow!(why)))?;
    if at > now.timestamp() {
        return Err(Usage(anyhow!("{at} has not come yet")).into());
    }
    let source = args.place.open().await?;
    let object = Object::find(&source, &target, args.namespace.as_deref()).await?;
    let then = source.object(&object, Some(at)).await?;
    let when = terminal::time(at, &TimeZone::system());
    let style = terminal::style();
    let doubt = then.doubt.as_ref().map(|doubt| history_source::doubtful(doubt, &TimeZone::system()));
    if let Some(doubt) = doubt.as_ref().filter(|_| args.output != Output::Yaml || !then.exists) {
        eprintln!("{doubt}");
    }
    let text = match args.output {
        Output::Diff => {
            let today = source.object(&object, None).await?;
            let none = Value::Null;
            let (before, after) = (then.object.as_ref().unwrap_or(&none), today.object.as_ref().unwrap_or(&none));
            let diff = render::unified(before, after, &style);
            if diff.is_empty() {
                eprintln!("{} is as it was at {when}", object.title());
            }
            diff
        }
        _ if !then.exists => anyhow::bail!("{} was not there at {when}", object.title()),
        Output::Yaml => {
            let document = then.object.unwrap_or_default();
            let by = then.event.map_or(String::new(), |id| format!(", made so by {}", super::history::short(&id)));
            let doubt = doubt.map_or(String::new(), |doubt| format!("# {doubt}\n"));
            format!("# {} at {when}{by}\n{doubt}{}", terminal::plain(&object.title()), render::yaml::yaml(&document))
        }
        Output::Json => format!("{:#}\n", then.object.unwrap_or_default()),
    };
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}
