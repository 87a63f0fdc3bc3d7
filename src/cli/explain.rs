//! `kubediff explain`: which routes take an event, which matcher says no, and what each sink would get.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use kubediff::{
    config::{Lookup, Plan, Sources},
    event::{Event, render},
    route::{self, Context, Explanation},
    sink::{Target, format, rollup, stdout, webhook},
};

use super::{Usage, check};

/// Explain where an event goes, and why
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file with an event as JSON, such as a line of stdout; `-` for stdin
    #[arg(value_name = "EVENT.json")]
    event: PathBuf,
    /// The configuration: TOML, or the old kubediff's YAML
    #[arg(long, short, value_name = "FILE", env = "KUBEDIFF_CONFIG")]
    config: Option<PathBuf>,
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
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut sources = Sources::new(args.config);
    sources.lookup = Lookup::Skip;
    let plan = match sources.load() {
        Ok(plan) => plan,
        Err(problems) => {
            writeln!(io::stderr(), "{problems}")?;
            return Ok(ExitCode::from(2));
        }
    };
    let event = read(&args.event)?;
    let map = |pairs: Vec<(String, String)>| pairs.into_iter().collect::<BTreeMap<_, _>>();
    let annotations = if args.annotation.is_empty() { of_object(&event) } else { map(args.annotation) };
    let (namespace_labels, namespace_annotations) = (map(args.namespace_labels), map(args.namespace_annotation));
    let context = Context {
        annotations: &annotations,
        namespace_labels: &namespace_labels,
        namespace_annotations: &namespace_annotations,
        ..Context::at(args.at.unwrap_or(event.time))
    };
    let explanation = plan.table.explain(&event, &context);
    let text = if args.json { as_json(&explanation) } else { as_text(&plan, &event, &explanation) };
    write!(io::stdout(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: &PathBuf) -> anyhow::Result<Event> {
    let mut text = String::new();
    match path.as_os_str() == "-" {
        true => io::stdin().read_to_string(&mut text).context("cannot read stdin")?,
        false => std::fs::File::open(path)
            .and_then(|mut file| file.read_to_string(&mut text))
            .map_err(|error| Usage(anyhow!("{}: cannot be read: {error}", path.display())))?,
    };
    serde_json::from_str(&text).map_err(|error| Usage(anyhow!("{}: not an event: {error}", path.display())).into())
}

fn of_object(event: &Event) -> BTreeMap<String, String> {
    let annotations = event.object.as_ref().and_then(|object| object.pointer("/metadata/annotations")?.as_object());
    let texts = annotations.into_iter().flatten();
    texts.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
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
        Target::Webhook(settings) => match &settings.format {
            webhook::Format::Json => format::json(event).to_string(),
            webhook::Format::CloudEvents => format::cloud_event(event).to_string(),
            webhook::Format::Legacy => format::legacy(event).to_string(),
            webhook::Format::Template(_) => "by its template; kubediff test-sink sends a sample".to_owned(),
        },
        Target::Slack(_) => rollup::line(event),
    }
}

fn as_json(explanation: &Explanation) -> String {
    let decision = &explanation.decision;
    let names = |pairs: &[(std::sync::Arc<str>, std::sync::Arc<str>)]| {
        pairs.iter().map(|(sink, by)| serde_json::json!({"sink": &**sink, "silence": &**by})).collect::<Vec<_>>()
    };
    let value = serde_json::json!({
        "steps": explanation.steps,
        "annotated": explanation.annotated,
        "sinks": decision.sinks.iter().map(|sink| &**sink).collect::<Vec<_>>(),
        "dropped": decision.dropped.as_ref().map(route::Dropped::reason),
        "silenced": names(&decision.silenced),
        "unknown_sinks": decision.unknown_sinks,
    });
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_shows_the_routes_and_what_each_sink_gets() {
        let sources = Sources { path: None, variables: Vec::new(), lookup: Lookup::Skip };
        let text = "[sinks.log]\ntype = 'stdout'\nformat = 'text'\n\
                    [sinks.hook]\ntype = 'webhook'\nurl = { env = 'NOWHERE' }\nformat = 'cloudevents'\n\
                    [[routes]]\nname = 'pods'\nmatch = { kinds = ['Pod'] }\nsinks = ['log']\n\
                    [[routes]]\nname = 'rest'\nsinks = ['log', 'hook']\n";
        let plan = sources.build("", text).unwrap_or_else(|problems| panic!("{problems}"));
        let event = kubediff::sink::sample::event();
        let explanation = plan.table.explain(&event, &Context::at(event.time));
        let text = as_text(&plan, &event, &explanation);
        assert!(text.contains("no     pods: kinds wants Pod, the event has "), "{text}");
        assert!(text.contains("yes    rest\n"), "{text}");
        assert!(text.contains("-> log (stdout)\n") && text.contains("-> hook (webhook)\n{"), "{text}");
        assert!(text.contains("\"specversion\":\"1.0\""), "{text}");
        let json: serde_json::Value = serde_json::from_str(&as_json(&explanation)).unwrap();
        assert_eq!(json["sinks"], serde_json::json!(["hook", "log"]));
        assert_eq!(json["steps"][0]["verdict"]["refused"]["test"], "kinds");
    }
}
