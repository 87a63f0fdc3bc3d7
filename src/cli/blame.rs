//! `kubediff blame`: each line of an object, with who set it last and when.

use std::io::{self, Write};

use jiff::{Timestamp, tz::TimeZone};
use kubediff::{event::render, history::blame::Line};
use serde_json::json;

use super::{
    clock,
    history::short,
    history_source::{self, Blame},
    object::{Object, Target},
    terminal,
};

/// Show who set each line of an object last
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff blame deploy/web -n shop               each line, the event, the time and the field manager
  kubediff blame deploy/web -n shop --at 10:42    as it was then
  kubediff blame cm/flags -o json | jq '.lines[] | select(.hand)'
A * beside the manager means a person's own tool. Lines without an event are older than what is kept. What is gone has
no lines: exit code 1; --at shows those that it had.")]
pub(crate) struct Args {
    /// TYPE/NAME or TYPE NAME
    #[arg(required = true, value_name = "TYPE/NAME")]
    what: Vec<String>,
    /// The namespace of the object
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// As it was at a time: 10:42, 2h, 2026-11-16T10:42:17Z
    #[arg(long, value_name = "TIME", value_parser = clock::argument)]
    at: Option<Timestamp>,
    /// table for people, json or yaml: the lines with who, when and the path of each
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    place: history_source::Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Table,
    Json,
    Yaml,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let target = Target::of(&args.what)?;
    let source = args.place.open().await?;
    let object = Object::find(&source, &target, args.namespace.as_deref()).await?;
    let blame = source.blame(&object, args.at).await?;
    if let Some(doubt) = &blame.doubt {
        eprintln!("{}", history_source::doubtful(doubt, &TimeZone::system()));
    }
    if !blame.exists {
        anyhow::bail!("{}", gone(&object, args.at, &TimeZone::system()));
    }
    let text = text(&blame, args.output, &TimeZone::system());
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

/// That there is nothing to blame anybody for, and what to ask instead.
fn gone(object: &Object, at: Option<Timestamp>, zone: &TimeZone) -> String {
    match at {
        Some(at) => format!("{} was not there at {}; give another --at TIME", object.title(), terminal::time(at, zone)),
        None => format!("{} is gone; give --at TIME, when it was there", object.title()),
    }
}

fn text(blame: &Blame, output: Output, zone: &TimeZone) -> String {
    match output {
        Output::Table => table(blame, zone),
        Output::Json => format!("{:#}\n", json!({"lines": blame.lines})),
        Output::Yaml => render::yaml::yaml(&json!({"lines": blame.lines})),
    }
}

/// As `git blame` has it: who on the left, the line on the right. Not cut: it is the object.
fn table(blame: &Blame, zone: &TimeZone) -> String {
    let who = |line: &Line| {
        let star = if line.hand { "*" } else { "" };
        line.manager.as_ref().map_or_else(|| "-".to_owned(), |manager| format!("{}{star}", terminal::plain(manager)))
    };
    let width = blame.lines.iter().map(|line| who(line).chars().count()).max().unwrap_or_default();
    let mut out = String::new();
    for line in &blame.lines {
        let id = line.event.as_deref().map_or("-", short);
        let time = line.time.map_or_else(|| "-".to_owned(), |time| terminal::time(time, zone));
        out += &format!("{id:<10}  {time:<19}  {:<width$}  │ {}\n", who(line), terminal::plain(&line.text));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_is_gone_it_says_so_and_how_to_look_at_what_it_was() {
        let object = Object {
            group: "apps".into(),
            version: "v1".into(),
            resource: "deployments".into(),
            kind: "Deployment".into(),
            namespace: "shop".into(),
            name: "web".into(),
        };
        assert_eq!(
            gone(&object, None, &TimeZone::UTC),
            "Deployment shop/web is gone; give --at TIME, when it was there"
        );
        let at = Some("2026-11-16T10:42:17Z".parse().unwrap());
        assert_eq!(
            gone(&object, at, &TimeZone::UTC),
            "Deployment shop/web was not there at 2026-11-16 10:42:17; give another --at TIME"
        );
    }

    #[test]
    fn who_stands_on_the_left_and_the_line_on_the_right() {
        let blame: Blame = serde_json::from_value(json!({"exists": true, "lines": [
            {"text": "spec:", "path": "/spec", "event": null, "time": null, "manager": null, "hand": false},
            {"text": "  replicas: 3", "path": "/spec/replicas", "event": "7f0c1a2b3c4d5e6f",
             "time": "2026-11-16T10:42:17Z", "manager": "kubectl-edit", "hand": true}]}))
        .unwrap();
        let json: serde_json::Value = serde_json::from_str(&text(&blame, Output::Json, &TimeZone::UTC)).unwrap();
        assert_eq!(json["lines"][1]["path"], "/spec/replicas");
        let yaml: serde_json::Value = serde_saphyr::from_str(&text(&blame, Output::Yaml, &TimeZone::UTC)).unwrap();
        assert_eq!(yaml, json);
        assert_eq!(
            text(&blame, Output::Table, &TimeZone::UTC),
            "-           -                    -              │ spec:\n\
             7f0c1a2b3c  2026-11-16 10:42:17  kubectl-edit*  │   replicas: 3\n"
        );
    }
}
