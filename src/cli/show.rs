//! `kubediff show`: one event, with the documents before and after it.

use std::io::{self, Write};

use kubediff::event::render;
use serde_json::{Value, json};

use super::{
    history::short,
    history_source::{self, Detail},
    terminal,
};

/// Show one change: who made it, and every field of it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff show 7f0c1a2b3c             by the beginning of an id, which kubediff history prints
  kubediff show 7f0c1a2b3c -o diff     the whole object as YAML with + and -, what is equal folded
  kubediff show 7f0c1a2b3c -o patch    RFC 6902, from the object before to the object after
  kubediff show 7f0c1a2b3c -o json     the event, for machines")]
pub(crate) struct Args {
    /// An event's id, or as much of its beginning as no other has
    id: String,
    /// text: changed fields, old and new; diff: the object as YAML with + and -; json or yaml: the event; patch: RFC 6902
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    place: history_source::Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    #[value(alias = "table")]
    Text,
    Diff,
    Json,
    Yaml,
    Patch,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let detail = args.place.open().await?.detail(&args.id).await?;
    let text = text(&detail, args.output, &terminal::style())?;
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

fn text(detail: &Detail, output: Output, style: &render::Style) -> anyhow::Result<String> {
    let event = &detail.event;
    Ok(match output {
        Output::Json => format!("{}\n", serde_json::to_string_pretty(event)?),
        Output::Yaml => render::yaml::yaml(&serde_json::to_value(event)?),
        Output::Patch => format!("{:#}\n", event.patch.as_ref().map_or_else(|| json!([]), |patch| json!(patch))),
        Output::Diff => {
            let none = Value::Null;
            let (before, after) = (detail.before.as_ref().unwrap_or(&none), detail.after.as_ref().unwrap_or(&none));
            anyhow::ensure!(
                !(before.is_null() && after.is_null()),
                "the object before and after is no longer known; -o text shows what changed"
            );
            render::unified(before, after, style)
        }
        Output::Text => {
            let mut out = format!("event    {}\n", event.id);
            let zone = style.zone.clone().unwrap_or(jiff::tz::TimeZone::UTC);
            out += &format!("time     {} ({:?})\n", terminal::time(event.time, &zone), event.observed).to_lowercase();
            for actor in &event.actors {
                let way = [actor.operation.as_str(), actor.subresource.as_str()].join(" ").trim_end().to_lowercase();
                out += &format!("by       {} ({way})\n", terminal::plain(&actor.manager));
            }
            if let Some(previous) = &detail.previous {
                out += &format!("before   {}\n", short(previous));
            }
            for waiting in &detail.deliveries {
                let why = waiting.reason.as_ref().map_or(String::new(), |why| format!(": {}", terminal::plain(why)));
                let (sink, state) = (&waiting.sink, &waiting.state);
                out += &format!("sink     {sink} {state} after {} attempts{why}\n", waiting.attempts);
            }
            out.push('\n');
            out + &render::terminal(event, style)
        }
    })
}

#[cfg(test)]
mod tests {
    use kubediff::sink::sample;

    use super::*;

    #[test]
    fn an_event_is_shown_in_every_form() {
        let detail = Detail {
            event: sample::event(),
            before: Some(json!({"spec": {"replicas": 1}})),
            after: Some(json!({"spec": {"replicas": 2}})),
            previous: Some("0123456789abcdef".into()),
            inverse: None,
            undo: None,
            deliveries: Vec::new(),
            around: None,
        };
        let shown = |output| text(&detail, output, &render::Style::plain()).unwrap();
        assert!(shown(Output::Text).contains("before   0123456789\n"), "{}", shown(Output::Text));
        assert!(shown(Output::Diff).contains("-   replicas: 1\n+   replicas: 2"), "{}", shown(Output::Diff));
        assert!(serde_json::from_str::<Value>(&shown(Output::Patch)).unwrap().is_array());
        assert_eq!(serde_json::from_str::<Value>(&shown(Output::Json)).unwrap()["id"], detail.event.id);
        let gone = Detail { before: None, after: None, ..detail };
        assert!(text(&gone, Output::Diff, &render::Style::plain()).is_err());
    }
}
