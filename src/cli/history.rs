//! `kubediff history`: what happened to an object, a kind or a namespace.

use std::io::{self, Write};

use jiff::{Timestamp, tz::TimeZone};
use kubediff::{
    cluster::store::Selector,
    event::{Event, render},
    history::Row,
};

use super::{
    Usage, clock,
    history_source::{self, Query, Source},
    object::{Object, Target},
    terminal,
};

/// Show what happened, the newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff history deploy/web -n shop --since 2h    what happened to a Deployment
  kubediff history deploy/web -n shop --owned       and to all that belongs to it
  kubediff history cm -A --by-hand                  ConfigMaps that people changed by hand
  kubediff history -n shop -o diff                  all of a namespace, field by field
  kubediff history --search image --since 1d        what names an image
  kubediff history deploy -l app=web -o json        one event a line, for jq
A * beside the manager means a person's own tool: kubectl, k9s, ...
An id, or the beginning of one, goes to kubediff show, undo and explain.")]
pub(crate) struct Args {
    /// TYPE, TYPE/NAME or TYPE NAME: deploy, deploy/web, deployments.apps web; everything when left out
    #[arg(value_name = "TYPE/NAME")]
    what: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// At most so many; 0 for all
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
    /// table, or whole events: diff for people, json one a line, yaml
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    place: history_source::Options,
}

/// Which events, for all commands that show several.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Which {
    /// One namespace, or a pattern; give it again for several
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Vec<String>,
    /// All namespaces: the default, for the habit's sake
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Labels that the objects had
    #[arg(long, short = 'l', value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: String,
    /// Since a time or an age: 2h, 10:42, 2026-11-16, 2026-11-16T10:42:17Z
    #[arg(long, value_name = "TIME", value_parser = clock::argument)]
    since: Option<Timestamp>,
    /// Before a time or an age
    #[arg(long, value_name = "TIME", value_parser = clock::argument)]
    until: Option<Timestamp>,
    /// created, updated, deleted
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Sorts of change: image, scale, rbac, ...; !status for all but that
    #[arg(long, value_name = "CLASS", value_delimiter = ',')]
    class: Vec<String>,
    /// Field managers, or patterns: kubectl*, !argocd*
    #[arg(long, value_name = "MANAGER", value_delimiter = ',')]
    manager: Vec<String>,
    /// Only what a person's own tool changed
    #[arg(long)]
    by_hand: bool,
    /// Words of the summary or of changed fields
    #[arg(long, short = 'q', value_name = "WORDS")]
    search: Option<String>,
    /// With a TYPE/NAME: also what belongs to it, such as the pods of a Deployment
    #[arg(long)]
    owned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    Table,
    Diff,
    Json,
    Yaml,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let source = args.place.open().await?;
    let (query, selector) = args.which.query(&source, &args.what).await?;
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let out = io::stdout().lock();
    let mut printer = Printer::new(args.output, out);
    if args.output == Output::Table && selector.is_none() {
        let ask = async |at_most, cursor: Option<&str>| source.rows(&query, at_most, cursor).await;
        pages(limit, ask, |row: Row| printer.row(&row).map(|()| true)).await?;
    } else {
        let wanted = |event: &Event| selector.as_ref().is_none_or(|labels| labels.matches(&event.resource.labels));
        let ask = async |at_most, cursor: Option<&str>| {
            // Labels are looked at here: more than are wanted may have to be asked for.
            source.events(&query, if selector.is_some() { PAGE } else { at_most }, cursor).await
        };
        pages(limit, ask, |event: Event| match wanted(&event) {
            true => printer.event(&event).map(|()| true),
            false => Ok(false),
        })
        .await?;
    }
    printer.finish("nothing happened that is known of")
}

/// How many the API gives at a time.
pub(crate) const PAGE: usize = 500;

/// Goes through pages until there are no more, or `each` has taken enough.
pub(crate) async fn pages<T>(
    limit: usize,
    mut ask: impl AsyncFnMut(usize, Option<&str>) -> anyhow::Result<(Vec<T>, Option<String>)>,
    mut each: impl FnMut(T) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let (mut left, mut cursor) = (limit, None::<String>);
    loop {
        let (page, next) = ask(left.min(PAGE), cursor.as_deref()).await?;
        for one in page {
            left -= usize::from(each(one)?);
            if left == 0 {
                return Ok(());
            }
        }
        match next {
            Some(next) => cursor = Some(next),
            None => return Ok(()),
        }
    }
}

impl Which {
    /// The API's parameters for it, and the labels, which the API does not look at.
    pub(crate) async fn query(&self, source: &Source, what: &[String]) -> anyhow::Result<(Query, Option<Selector>)> {
        let mut query = self.parameters();
        let selector: Selector = self.selector.parse().map_err(|error| Usage(anyhow::Error::new(error)))?;
        let selector = (!self.selector.trim().is_empty()).then_some(selector);
        if what.is_empty() {
            return Ok((query, selector));
        }
        let target = Target::of(what)?;
        if self.owned {
            let namespace = self.namespace.first().map(String::as_str);
            let object = Object::find(source, &target, namespace).await?;
            let namespace = if object.namespace.is_empty() { String::new() } else { format!("{}/", object.namespace) };
            query.retain(|(key, _)| *key != "namespace");
            query.push(("owner", format!("{}/{namespace}{}", object.kind, object.name)));
            return Ok((query, selector));
        }
        source.check_kinds(&target.kind).await?;
        // What has no namespace is found whatever namespace people are in.
        if let Some((_, namespaces)) = query.iter_mut().find(|(key, _)| *key == "namespace") {
            namespaces.push(',');
        }
        query.push(("kind", target.kind));
        query.extend(target.name.map(|name| ("name", name)));
        Ok((query, selector))
    }

    fn parameters(&self) -> Query {
        let mut query = Query::new();
        for (key, values) in
            [("namespace", &self.namespace), ("type", &self.types), ("class", &self.class), ("manager", &self.manager)]
        {
            query.extend((!values.is_empty()).then(|| (key, values.join(","))));
        }
        query.extend(self.since.map(|since| ("since", since.to_string())));
        query.extend(self.until.map(|until| ("until", until.to_string())));
        query.extend(self.by_hand.then(|| ("hand", "true".to_owned())));
        query.extend(self.search.clone().map(|words| ("q", words)));
        query
    }
}

/// Events in the form that was asked for.
pub(crate) struct Printer<W> {
    output: Output,
    out: W,
    style: render::Style,
    table: terminal::Table,
    shown: usize,
}

impl<W: Write> Printer<W> {
    pub(crate) fn new(output: Output, out: W) -> Self {
        let style = terminal::style();
        let head = ["TIME", "ID", "TYPE", "OBJECT", "BY", "SUMMARY"];
        Self { output, out, table: terminal::Table::new(&head, style.width), style, shown: 0 }
    }

    pub(crate) fn row(&mut self, row: &Row) -> anyhow::Result<()> {
        let slash = if row.namespace.is_empty() { "" } else { "/" };
        let managers: Vec<&str> = row.managers.iter().map(String::as_str).collect();
        self.cells(
            row.time,
            &row.id,
            &row.event_type,
            format!("{} {}{slash}{}", row.kind, row.namespace, row.name),
            &managers,
            row.hand,
            &row.summary,
        );
        Ok(())
    }

    pub(crate) fn event(&mut self, event: &Event) -> anyhow::Result<()> {
        self.shown += 1;
        match self.output {
            Output::Table => {
                self.shown -= 1;
                let mut managers: Vec<&str> = event.actors.iter().map(|actor| actor.manager.as_str()).collect();
                managers.dedup();
                let object = format!("{} {}", event.resource.kind, event.resource.ns_name());
                let (hand, summary) = (event.by_hand(), &event.summary);
                self.cells(event.time, &event.id, event.kind.as_str(), object, &managers, hand, summary);
            }
            Output::Diff => self.out.write_all(render::terminal(event, &self.style).as_bytes())?,
            Output::Json => writeln!(self.out, "{}", serde_json::to_string(event)?)?,
            Output::Yaml => {
                if self.shown > 1 {
                    writeln!(self.out, "---")?;
                }
                self.out.write_all(render::yaml::yaml(&serde_json::to_value(event)?).as_bytes())?;
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "one a column")]
    fn cells(
        &mut self,
        time: Timestamp,
        id: &str,
        kind: &str,
        object: String,
        managers: &[&str],
        hand: bool,
        summary: &str,
    ) {
        self.shown += 1;
        let by = match managers {
            [] => "-".to_owned(),
            [one] => (*one).to_owned(),
            [one, rest @ ..] => format!("{one} +{}", rest.len()),
        };
        let star = if hand { "*" } else { "" };
        let zone = self.style.zone.clone().unwrap_or(TimeZone::UTC);
        self.table.push([
            terminal::time(time, &zone),
            short(id).to_owned(),
            kind.to_owned(),
            object,
            format!("{by}{star}"),
            summary.to_owned(),
        ]);
    }

    /// Prints what waits for its columns; says so when there was nothing, to people alone.
    pub(crate) fn finish(mut self, nothing: &str) -> anyhow::Result<()> {
        if self.output == Output::Table && self.shown > 0 {
            self.table.print(&mut self.out)?;
        }
        self.out.flush()?;
        if self.shown == 0 && matches!(self.output, Output::Table | Output::Diff) {
            eprintln!("{nothing}");
        }
        Ok(())
    }
}

/// As much of an id as people need to type.
pub(crate) fn short(id: &str) -> &str {
    id.get(..10).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use kubediff::sink::sample;

    use super::*;

    fn printed(output: Output) -> String {
        let mut out = Vec::new();
        let mut printer = Printer::new(output, &mut out);
        printer.style.zone = Some(TimeZone::UTC);
        let event = sample::event();
        printer.event(&event).unwrap();
        printer.event(&event).unwrap();
        printer.finish("").unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_form_shows_the_same_events() {
        let event = sample::event();
        let table = printed(Output::Table);
        assert!(table.starts_with("TIME"), "{table}");
        assert!(table.contains(short(&event.id)) && table.contains(&event.summary), "{table}");
        assert_eq!(table.lines().count(), 3, "{table}");
        let json = printed(Output::Json);
        let again: Event = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert_eq!(again, event);
        assert_eq!(printed(Output::Yaml).matches("\n---\n").count(), 1);
        assert!(printed(Output::Diff).contains("nginx"), "{}", printed(Output::Diff));
    }

    #[test]
    fn what_is_typed_becomes_the_parameters_of_the_api() {
        let which = Which {
            namespace: vec!["shop".into(), "bank-*".into()],
            types: vec!["deleted".into()],
            since: Some("2026-11-16T10:00:00Z".parse().unwrap()),
            by_hand: true,
            ..Which::default()
        };
        assert_eq!(
            which.parameters(),
            [
                ("namespace", "shop,bank-*".to_owned()),
                ("type", "deleted".to_owned()),
                ("since", "2026-11-16T10:00:00Z".to_owned()),
                ("hand", "true".to_owned()),
            ]
        );
    }

    #[tokio::test]
    async fn pages_are_asked_for_until_there_are_enough() {
        let mut asked = Vec::new();
        let mut seen = Vec::new();
        let ask = async |left: usize, cursor: Option<&str>| {
            asked.push((left, cursor.map(str::to_owned)));
            let from: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
            let page: Vec<usize> = (from..from + left.min(400)).collect();
            Ok((page, Some((from + left.min(400)).to_string())))
        };
        let each = |n| {
            seen.push(n);
            Ok(n != 7)
        };
        pages(1000, ask, each).await.unwrap();
        assert_eq!(seen, (0..1001).collect::<Vec<_>>(), "one was not taken");
        assert_eq!(asked.len(), 3, "{asked:?}");
    }
}
