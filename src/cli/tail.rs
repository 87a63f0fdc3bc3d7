//! `kubediff tail`: the newest changes, and those that come.

use std::io::{self, Write};

use futures::future::LocalBoxFuture;
use kubediff::{cluster::store::Selector, event::Event, history::Row, shutdown::Shutdown};

use super::{
    history::{Output, Printer, Which},
    history_source::{self, Source, Told},
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
    // Where nothing fits yet, all that comes later is new; of everything the newest says where later begins. It is asked
    // first: what comes between the two questions is then shown by one of them.
    let newest = source.rows(&Vec::new(), 1, None).await?.0.first().map_or(0, |row| row.seq);
    let (mut rows, _) = source.rows(&query, args.lines.max(1), None).await?;
    let after = rows.first().map_or(0, |row| row.seq).max(newest);
    rows.truncate(args.lines);
    rows.reverse();
    let mut printing = Printing { source: &source, selector, output: args.output };
    for row in rows {
        printing.tell(row).await?;
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
        Box::pin(self.print(row))
    }
}

impl Printing<'_> {
    async fn print(&mut self, row: Row) -> anyhow::Result<()> {
        if self.output == Output::Table && self.selector.is_none() {
            return line(&row);
        }
        let event = self.source.detail(&row.id).await?.event;
        if self.selector.as_ref().is_none_or(|labels| labels.matches(&event.resource.labels)) {
            whole(&row, &event, self.output)?;
        }
        Ok(())
    }
}

/// One line by itself: columns cannot know what comes.
fn line(row: &Row) -> anyhow::Result<()> {
    let slash = if row.namespace.is_empty() { "" } else { "/" };
    let style = super::terminal::style();
    let zone = style.zone.unwrap_or(jiff::tz::TimeZone::UTC);
    let star = if row.hand { "*" } else { "" };
    let by = row.managers.first().map_or(String::new(), |manager| format!(" ({manager}{star})"));
    let text = format!(
        "{} {} {} {}{slash}{} {}: {}{by}",
        super::terminal::time(row.time, &zone),
        super::history::short(&row.id),
        row.kind,
        row.namespace,
        row.name,
        row.event_type,
        row.summary
    );
    Ok(writeln!(io::stdout(), "{}", super::terminal::plain(&text))?)
}

fn whole(row: &Row, event: &Event, output: Output) -> anyhow::Result<()> {
    if output == Output::Table {
        return line(row);
    }
    let mut out = Vec::new();
    if output == Output::Yaml {
        out.extend_from_slice(b"---\n");
    }
    let mut printer = Printer::new(output, &mut out);
    printer.event(event)?;
    printer.finish("")?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(&out)?;
    Ok(stdout.flush()?)
}
