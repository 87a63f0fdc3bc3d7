//! `kubediff tail`: the newest changes, and those that come.

use std::io::{self, Write};

use futures::future::LocalBoxFuture;
use jiff::Timestamp;
use kubediff::{cluster::store::Selector, event::Event, history::Row, shutdown::Shutdown};

use super::{
    history::{Output, PAGE, Printer, Which, pages},
    history_source::{self, Query, Source, Told},
};

/// Follow what happens, as `tail -f` does
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff tail -n shop                       the last ten changes of a namespace, and those that come
  kubediff tail deploy --class image --lines 0 -o diff
  kubediff tail --by-hand --server http://127.0.0.1:8080
Unlike kubediff watch it needs no cluster: it reads what a kubediff records.")]
pub(crate) struct Args {
    /// TYPE, TYPE/NAME or TYPE NAME; everything when left out
    #[arg(value_name = "TYPE/NAME")]
    what: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// So many of the newest to begin with
    #[arg(long, default_value_t = 10, value_name = "N")]
    lines: usize,
    /// table, or whole events: diff for people, json one a line, yaml
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    place: history_source::Options,
}

pub(crate) async fn run(args: Args, shutdown: Shutdown) -> anyhow::Result<()> {
    let source = args.place.open().await?;
    let (query, selector) = args.which.query(&source, &args.what).await?;
    // The newest of everything says where later begins: what is recorded from here on is shown by what follows, and all
    // before it by what is asked for now.
    let after = source.newest(&Vec::new()).await?.map_or(0, |row| row.seq);
    let mut printing = Printing { source: &source, selector, output: args.output };
    for text in printing.newest(&query, after, args.lines).await?.iter().rev() {
        print(text)?;
    }
    tokio::select! {
        ended = source.follow(&query, after, &mut printing) => ended,
        () = shutdown.begun() => Ok(()),
    }
}

struct Printing<'a> {
    source: &'a Source,
    selector: Option<Selector>,
    output: Output,
}

impl Told for Printing<'_> {
    fn tell(&mut self, row: Row) -> LocalBoxFuture<'_, anyhow::Result<()>> {
        Box::pin(self.tell_of(row))
    }
}

impl Printing<'_> {
    async fn tell_of(&mut self, row: Row) -> anyhow::Result<()> {
        if self.is_rows() {
            return print(&line(&Line::from(&row)));
        }
        let event = self.source.detail(&row.id).await?.event;
        if self.wants(&event) { print(&whole(&event, self.output)?) } else { Ok(()) }
    }

    /// Rows say enough.
    fn is_rows(&self) -> bool {
        self.output == Output::Table && self.selector.is_none()
    }

    fn wants(&self, event: &Event) -> bool {
        self.selector.as_ref().is_none_or(|labels| labels.matches(&event.resource.labels))
    }

    /// So many of those up to a number that are wanted, the newest first, as they are printed.
    async fn newest(&self, query: &Query, up_to: i64, lines: usize) -> anyhow::Result<Vec<String>> {
        let mut texts = Vec::new();
        if lines == 0 {
            return Ok(texts);
        }
        let begin = up_to.saturating_add(1).to_string();
        if self.is_rows() {
            let ask = async |at_most, cursor: Option<&str>| {
                self.source.rows(query, at_most, Some(cursor.unwrap_or(&begin))).await
            };
            pages(lines, ask, |row: Row| {
                texts.push(line(&Line::from(&row)));
                Ok(true)
            })
            .await?;
            return Ok(texts);
        }
        let ask = async |at_most, cursor: Option<&str>| {
            // Labels are looked at here: more than are wanted may have to be asked for.
            let at_most = if self.selector.is_some() { PAGE } else { at_most };
            self.source.events(query, at_most, Some(cursor.unwrap_or(&begin))).await
        };
        pages(lines, ask, |event: Event| {
            if self.wants(&event) {
                texts.push(whole(&event, self.output)?);
                return Ok(true);
            }
            Ok(false)
        })
        .await?;
        Ok(texts)
    }
}

/// What a line says, of a row or of a whole event.
struct Line<'a> {
    time: Timestamp,
    id: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    event_type: &'a str,
    summary: &'a str,
    manager: Option<&'a str>,
    hand: bool,
}

impl<'a> From<&'a Row> for Line<'a> {
    fn from(row: &'a Row) -> Self {
        Self {
            time: row.time,
            id: &row.id,
            kind: &row.kind,
            namespace: &row.namespace,
            name: &row.name,
            event_type: &row.event_type,
            summary: &row.summary,
            manager: row.managers.first().map(String::as_str),
            hand: row.hand,
        }
    }
}

impl<'a> From<&'a Event> for Line<'a> {
    fn from(event: &'a Event) -> Self {
        let r = &event.resource;
        Self {
            time: event.time,
            id: &event.id,
            kind: &r.kind,
            namespace: &r.namespace,
            name: &r.name,
            event_type: event.kind.as_str(),
            summary: &event.summary,
            manager: event.actors.first().map(|actor| actor.manager.as_str()),
            hand: event.by_hand(),
        }
    }
}

/// One line by itself: columns cannot know what comes.
fn line(of: &Line<'_>) -> String {
    let slash = if of.namespace.is_empty() { "" } else { "/" };
    let style = super::terminal::style();
    let zone = style.zone.unwrap_or(jiff::tz::TimeZone::UTC);
    let star = if of.hand { "*" } else { "" };
    let by = of.manager.map_or(String::new(), |manager| format!(" ({manager}{star})"));
    let text = format!(
        "{} {} {} {}{slash}{} {}: {}{by}",
        super::terminal::time(of.time, &zone),
        super::history::short(of.id),
        of.kind,
        of.namespace,
        of.name,
        of.event_type,
        of.summary
    );
    format!("{}\n", super::terminal::plain(&text))
}

fn whole(event: &Event, output: Output) -> anyhow::Result<String> {
    if output == Output::Table {
        return Ok(line(&Line::from(event)));
    }
    let mut out = Vec::new();
    if output == Output::Yaml {
        out.extend_from_slice(b"---\n");
    }
    let mut printer = Printer::new(output, &mut out);
    printer.event(event)?;
    printer.finish("")?;
    Ok(String::from_utf8(out)?)
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

#[cfg(test)]
mod tests {
    use kubediff::sink::sample;
    use serde_json::json;

    use super::*;
    use crate::cli::history_source::scripted;

    /// Two events with the label and one without, the newest first, over pages of which one is empty.
    #[tokio::test]
    async fn labels_are_looked_at_before_lines_are_counted_and_pages_are_read_to_the_end() {
        let event = |name: &str, app: &str| {
            let mut event = sample::event();
            event.resource.name = name.into();
            event.resource.labels = [("app".to_owned(), app.to_owned())].into();
            event
        };
        let server = scripted::server(move |path| match path {
            path if path.contains("cursor=43") => json!({"events": [], "next": "40"}),
            path if path.contains("cursor=40") => json!({"events": [event("new", "db")], "next": "30"}),
            path if path.contains("cursor=30") => json!({"events": [event("mid", "web"), event("old", "web")]}),
            path => panic!("{path}"),
        })
        .await;
        let source = Source::Server(server);
        let newest = async |selector: &str, lines: usize| {
            let selector = Some(selector.parse().unwrap());
            let printing = Printing { source: &source, selector, output: Output::Table };
            let texts = printing.newest(&Vec::new(), 42, lines).await.unwrap();
            texts.iter().map(|text| text.split(' ').nth(4).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(newest("app=web", 1).await, ["shop/mid"]);
        assert_eq!(newest("app=web", 10).await, ["shop/mid", "shop/old"]);
        assert_eq!(newest("app", 2).await, ["shop/new", "shop/mid"]);
        assert_eq!(newest("app=web", 0).await, Vec::<String>::new());
    }
}
