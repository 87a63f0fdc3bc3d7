//! `kubediff silence`: nothing is told of some objects for a while, by hand.

use std::io::{self, Write};

use anyhow::anyhow;
use jiff::{Timestamp, tz::TimeZone};
use kubediff::{
    history::when,
    ledger::silences::{New, Silence},
};

use super::{
    Usage, clock,
    history_source::{self, Source},
    object::Target,
    terminal,
};

/// Tell nobody of some changes for a while, or list and end such silences
///
/// What happens meanwhile is still recorded, and kubediff history shows it.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  kubediff silence -n shop --for 1h --reason 'moving the shop'
  kubediff silence deploy/web -n shop --for 30m --reason rollout --sink ops
  kubediff silence deploy/web --for 30m --reason rollout              in every namespace
  kubediff silence list
  kubediff silence end 4
Silences that come back every night belong into the configuration: [[silences]]. A running kubediff takes up those that
are made in its state file within seconds."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    new: Asked,
    #[command(flatten)]
    place: history_source::Options,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Those that hold now
    List {
        #[arg(long, short, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// End one before its time
    End {
        /// The number in the first column of the list
        id: i64,
    },
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

#[derive(Debug, clap::Args)]
struct Asked {
    /// TYPE, TYPE/NAME or TYPE NAME, or patterns; everything when left out
    #[arg(value_name = "TYPE/NAME")]
    object: Vec<String>,
    /// One namespace, or a pattern; all of them when an object is named without it
    #[arg(long, short, value_name = "NAMESPACE", required_unless_present_any = ["all_namespaces", "object"])]
    namespace: Option<String>,
    /// All namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// How long: 30m, 1h, 2d
    #[arg(long = "for", value_name = "TIME", required_unless_present = "until", conflicts_with = "until")]
    how_long: Option<String>,
    /// Until when: 18:00, 2026-11-16T18:00:00Z
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Why, for those who wonder
    #[arg(long, required = true)]
    reason: Option<String>,
    /// The sinks that are silent; all of them when left out
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    sink: Vec<String>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let mut out = io::stdout();
    match args.what {
        None => {
            let mut new = args.new.check(&jiff::Zoned::now()).map_err(Usage)?;
            let source = args.place.open().await?;
            if !new.kind.is_empty() && !new.kind.contains(['*', '?']) {
                // Routes know no short names.
                let known = source.kind(&new.kind).await?;
                new.kind = known.ok_or_else(|| anyhow!("nothing is known of the kind {:?}", new.kind))?;
            }
            let silence = source.silence(new).await?;
            let until = terminal::time(silence.until, &TimeZone::system());
            let place = match silence.namespace.as_str() {
                "" => "in every namespace".to_owned(),
                one => format!("in {one}"),
            };
            let place = terminal::plain(&place);
            writeln!(out, "silence {} holds {place} until {until}; end it with kubediff silence end {0}", silence.id)?;
        }
        Some(What::List { output }) => list(&args.place.open().await?, output).await?,
        Some(What::End { id }) => {
            args.place.open().await?.end_silence(id).await?;
            writeln!(out, "silence {id} has ended")?;
        }
    }
    Ok(())
}

async fn list(source: &Source, output: Output) -> anyhow::Result<()> {
    let silences = source.silences().await?;
    let mut out = io::stdout().lock();
    match output {
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&silences)?)?,
        Output::Table if silences.is_empty() => eprintln!("there are none"),
        Output::Table => table(&silences).print(&mut out)?,
    }
    Ok(())
}

fn table(silences: &[Silence]) -> terminal::Table {
    let mut table = terminal::Table::new(&["ID", "UNTIL", "NAMESPACE", "OBJECT", "SINKS", "BY", "REASON"], 0);
    let all = |text: &str| if text.is_empty() { "*".to_owned() } else { text.to_owned() };
    for silence in silences {
        let object = match (silence.kind.as_str(), silence.name.as_str()) {
            ("", name) => all(name),
            (kind, "") => kind.to_owned(),
            (kind, name) => format!("{kind}/{name}"),
        };
        table.push([
            silence.id.to_string(),
            terminal::time(silence.until, &TimeZone::system()),
            all(&silence.namespace),
            object,
            all(&silence.sinks.join(",")),
            silence.by.clone(),
            silence.reason.clone(),
        ]);
    }
    table
}

impl Asked {
    fn check(self, now: &jiff::Zoned) -> anyhow::Result<New> {
        let target = if self.object.is_empty() { Target::default() } else { Target::of(&self.object)? };
        let until = match (&self.how_long, &self.until) {
            (Some(text), _) => {
                let length = when::duration(text).ok_or_else(|| anyhow!("--for {text:?}: write 30m, 1h or 2d"))?;
                now.timestamp().checked_add(length)?
            }
            (None, Some(text)) => later(text, now)?,
            (None, None) => return Err(anyhow!("--for or --until is needed")),
        };
        Ok(New {
            namespace: self.namespace.unwrap_or_default(),
            kind: target.kind,
            name: target.name.unwrap_or_default(),
            sinks: self.sink,
            until,
            reason: self.reason.unwrap_or_default(),
            by: std::env::var("USER").unwrap_or_default(),
        })
    }
}

/// `18:00` is the next time that it is that late.
fn later(text: &str, now: &jiff::Zoned) -> anyhow::Result<Timestamp> {
    let time = clock::parse(text, now).map_err(|why| anyhow!(why))?;
    let of_the_day = text.parse::<jiff::civil::Time>().is_ok() && !text.contains('-');
    if time <= now.timestamp() && of_the_day {
        let tomorrow = time.to_zoned(now.time_zone().clone()).checked_add(jiff::Span::new().days(1))?;
        return Ok(tomorrow.timestamp());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(length: Option<&str>, until: Option<&str>) -> anyhow::Result<New> {
        let asked = Asked {
            object: vec!["deploy/web".into()],
            namespace: Some("shop".into()),
            all_namespaces: false,
            how_long: length.map(str::to_owned),
            until: until.map(str::to_owned),
            reason: Some("rollout".into()),
            sink: vec!["ops".into()],
        };
        asked.check(&"2026-11-16T11:00:00+01:00[Europe/Berlin]".parse().unwrap())
    }

    #[test]
    fn a_silence_ends_after_a_time_or_at_one() {
        let until = |length, until| asked(length, until).unwrap().until.to_string();
        assert_eq!(until(Some("1h30m"), None), "2026-11-16T11:30:00Z");
        assert_eq!(until(None, Some("18:00")), "2026-11-16T17:00:00Z");
        assert_eq!(until(None, Some("09:00")), "2026-11-17T08:00:00Z");
        assert_eq!(until(None, Some("2026-12-01T00:00:00Z")), "2026-12-01T00:00:00Z");
        assert!(asked(Some("soon"), None).is_err());
        let new = asked(Some("1h"), None).unwrap();
        assert_eq!((new.kind.as_str(), new.name.as_str(), new.namespace.as_str()), ("deploy", "web", "shop"));
    }
}
