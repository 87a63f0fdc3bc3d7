//! `kubediff explain`: which routes take an event, which matcher says no, and what each sink would get.

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use kubediff::{
    config::{Lookup, Plan, Sources},
    event::{Event, render},
    history::around::{Known, Surroundings, texts},
    route::{self, Explanation},
    sink::{Target, format, slack, stdout, webhook},
};

use super::{Usage, check, history_source};

/// Explain where an event goes, and why
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff explain event.json --config kubediff.toml      a line of stdout, in a file
  kubediff explain 7f0c1a2b3c --config kubediff.toml      an event of the state file that the configuration names
  kubediff explain 7f0c1a2b3c --config new.toml --server http://127.0.0.1:8080
What a sink would get is shown as if nothing else happened: batches and roll-ups depend on the rest. Secrets are not
read; where a template needs one it is empty.")]
pub(crate) struct Args {
    /// A file with an event as JSON, such as a line of stdout; - for stdin; or an id of history
    #[arg(value_name = "EVENT.json|ID")]
    event: PathBuf,
    /// The moment that counts for hours and silences; the event's own time if left out
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    /// Labels of the event's namespace
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair, value_delimiter = ',')]
    namespace_labels: Vec<(String, String)>,
    /// Annotations of the event's namespace
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    namespace_annotation: Vec<(String, String)>,
    /// Annotations of the object; those in the event's object if left out
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    annotation: Vec<(String, String)>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: history_source::Options,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let sources = Sources { lookup: Lookup::Skip, ..Sources::new(args.place.configuration()) };
    let plan = match sources.load() {
        Ok(plan) => plan,
        Err(problems) => {
            writeln!(io::stderr(), "{problems}")?;
            return Ok(ExitCode::from(2));
        }
    };
    let (event, mut around) = match id(&args.event) {
        Some(id) => of_history(&args.place, id).await?,
        None => {
            let event = read(&args.event)?;
            let annotations = texts(event.object.as_ref(), "/metadata/annotations");
            let object = if event.object.is_some() { Known::Then } else { Known::Unknown };
            (event, Surroundings { object, annotations, ..Surroundings::default() })
        }
    };
    // What was typed is meant.
    for (known, given) in [
        (&mut around.annotations, args.annotation),
        (&mut around.namespace_labels, args.namespace_labels),
        (&mut around.namespace_annotations, args.namespace_annotation),
    ] {
        if !given.is_empty() {
            *known = given.into_iter().collect();
        }
    }
    let explanation = plan.table.explain(&event, &around.around().context(args.at.unwrap_or(event.time)));
    let text = match args.json {
        true => as_json(&plan, &event, &explanation, &around),
        false => format!("{}{}", as_text(&plan, &event, &explanation), told(&around)),
    };
    write!(io::stdout(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}

/// What is typed is an id when it looks like one and is no file.
fn id(typed: &Path) -> Option<&str> {
    let text = typed.to_str()?;
    (text.len() >= 6 && text.bytes().all(|b| b.is_ascii_hexdigit()) && !typed.exists()).then_some(text)
}

/// The event, with what routes went by when it was recorded, as far as that is known.
async fn of_history(place: &history_source::Options, id: &str) -> anyhow::Result<(Event, Surroundings)> {
    let detail = place.open().await?.detail(id).await?;
    let annotations = texts(detail.after.as_ref().or(detail.before.as_ref()), "/metadata/annotations");
    // A daemon tells the rest to those who may see how it is run.
    let own = || Surroundings { object: Known::Then, annotations, ..Surroundings::default() };
    let around = detail.around.unwrap_or_else(own);
    Ok((detail.event, around))
}

/// Of when what it was decided by is known.
fn told(around: &Surroundings) -> String {
    let mut out = format!("\nby its annotations {}", around.object.words());
    out += &format!(", labels and annotations of its namespace {}", around.namespace.words());
    match around.silences.len() {
        0 => {}
        1 => out += ", a silence that held then",
        n => out += &format!(", {n} silences that held then"),
    }
    out + "; the routes are those of the configuration that was given\n"
}

fn read(path: &Path) -> anyhow::Result<Event> {
    let mut text = String::new();
    match path.as_os_str() == "-" {
        true => io::stdin().read_to_string(&mut text).context("cannot read stdin")?,
        false => std::fs::File::open(path)
            .and_then(|mut file| file.read_to_string(&mut text))
            .map_err(|error| Usage(anyhow!("{}: cannot be read: {error}", path.display())))?,
    };
    serde_json::from_str(&text).map_err(|error| Usage(anyhow!("{}: not an event: {error}", path.display())).into())
}

fn as_text(plan: &Plan, event: &Event, explanation: &Explanation) -> String {
    let mut out = format!("{}\n", render::terminal(event, &render::Style::plain()).lines().next().unwrap_or_default());
    let decision = &explanation.decision;
    if explanation.annotated {
        out += "no route was asked: the annotation kubediff.io/sinks names the sinks\n";
    }
    for step in &explanation.steps {
        out += &format!("{step}\n");
    }
    for name in &decision.unknown_sinks {
        out += &format!("the annotation kubediff.io/sinks names `{name}`, which is no sink\n");
    }
    for (sink, silence) in &decision.silenced {
        out += &format!("{sink} is silent: {silence}\n");
    }
    if let Some(dropped) = &decision.dropped {
        out += &format!("goes nowhere: {}\n", dropped.reason());
    }
    for sink in plan.sinks.iter().filter(|sink| decision.sinks.iter().any(|name| **name == *sink.name)) {
        out += &format!("\n-> {} ({})\n{}\n", sink.name, check::kind(&sink.target), content(&sink.target, event));
    }
    out
}

/// What a sink would get, by itself: batches and roll-ups depend on what else happens.
fn content(target: &Target, event: &Event) -> String {
    match target {
        Target::Stdout(settings) => match settings.format {
            stdout::Format::Json => format::json(event).to_string(),
            stdout::Format::Ecs => format::ecs(event).to_string(),
            stdout::Format::Legacy => format::legacy(event).to_string(),
            stdout::Format::Text => render::terminal(event, &render::Style::plain()).trim_end().to_owned(),
        },
        Target::Webhook(settings) => match webhook::preview(settings, event) {
            Ok(body) => body.trim_end().to_owned(),
            Err(why) => format!("nothing: {why}"),
        },
        Target::Slack(settings) => format!("{:#}", slack::preview(settings, event)),
    }
}

fn as_json(plan: &Plan, event: &Event, explanation: &Explanation, around: &Surroundings) -> String {
    let decision = &explanation.decision;
    let names = |pairs: &[(std::sync::Arc<str>, std::sync::Arc<str>)]| {
        pairs.iter().map(|(sink, by)| serde_json::json!({"sink": &**sink, "silence": &**by})).collect::<Vec<_>>()
    };
    let gets = plan.sinks.iter().filter(|sink| decision.sinks.iter().any(|name| **name == *sink.name));
    let gets: serde_json::Map<_, _> =
        gets.map(|sink| (sink.name.clone(), content(&sink.target, event).into())).collect();
    let failures = decision.failures.iter();
    let failures = failures.map(|(route, why)| serde_json::json!({"route": &**route, "reason": why.to_string()}));
    let value = serde_json::json!({
        "steps": explanation.steps,
        "annotated": explanation.annotated,
        "sinks": decision.sinks.iter().map(|sink| &**sink).collect::<Vec<_>>(),
        "dropped": decision.dropped.as_ref().map(route::Dropped::reason),
        "silenced": names(&decision.silenced),
        "failures": failures.collect::<Vec<_>>(),
        "unknown_sinks": decision.unknown_sinks,
        "content": gets,
        "around": around,
    });
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use kubediff::route::Context;

    use super::*;

    #[test]
    fn an_explanation_shows_the_routes_and_what_each_sink_gets() {
        let sources = Sources { path: None, variables: Vec::new(), lookup: Lookup::Skip };
        let text = "[sinks.log]\ntype = 'stdout'\nformat = 'text'\n\
                    [sinks.page]\ntype = 'webhook'\nurl = { env = 'NOWHERE' }\nformat = 'template'\n\
                    template = 'pagerduty'\n\
                    [sinks.chat]\ntype = 'slack'\nwebhook_url = { env = 'NOWHERE' }\n\
                    [sinks.hook]\ntype = 'webhook'\nurl = { env = 'NOWHERE' }\nformat = 'cloudevents'\n\
                    [[routes]]\nname = 'pods'\nmatch = { kinds = ['Pod'] }\nsinks = ['log']\n\
                    [[routes]]\nname = 'rest'\nsinks = ['log', 'hook', 'page', 'chat']\n";
        let plan = sources.build("", text).unwrap_or_else(|problems| panic!("{problems}"));
        let event = kubediff::sink::sample::event();
        let explanation = plan.table.explain(&event, &Context::at(event.time));
        let text = as_text(&plan, &event, &explanation);
        assert!(text.contains("no     pods: kinds wants Pod, the event has "), "{text}");
        assert!(text.contains("yes    rest\n"), "{text}");
        assert!(text.contains("-> log (stdout)\n") && text.contains("-> hook (webhook)\n{"), "{text}");
        assert!(text.contains("\"specversion\":\"1.0\""), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(&as_json(&plan, &event, &explanation, &Surroundings::default())).unwrap();
        assert_eq!(json["sinks"], serde_json::json!(["chat", "hook", "log", "page"]));
        let content = |sink: &str| -> serde_json::Value {
            serde_json::from_str(json["content"][sink].as_str().unwrap()).unwrap_or_else(|e| panic!("{e}: {json:#}"))
        };
        assert_eq!(content("page")["payload"]["custom_details"]["id"], event.id, "the template is filled in");
        assert!(content("chat").to_string().contains(&event.resource.name), "{json:#}");
        assert_eq!(json["steps"][0]["verdict"]["refused"]["test"], "kinds");
    }
}
