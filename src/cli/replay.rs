//! `kubediff replay`: what a configuration would have sent of what was recorded, before anyone turns it on.

mod watched;

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use jiff::{Timestamp, Unit, Zoned, tz::TimeZone};
use kubediff::{
    config::{Lookup as Secrets, Plan, Sources},
    event::Event,
    route::Decision,
    sink::Target,
};
use serde_json::json;

use self::watched::{Fate, Watched};
use super::{Usage, clock, history_source, surroundings::Lookup, terminal};

/// Show what a configuration would have sent of what was recorded, per sink and hour
///
/// Nothing is sent. What it watches, its selectors, its noise, its routes and its silences are asked about each event.
/// Labels and annotations of objects and namespaces are taken as they are now; of what is gone, as it was then. History
/// holds what was watched at the time and no more: what of the configuration it cannot answer is named.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubediff replay --since 24h --config new.toml                       from the state file that new.toml names
  kubediff replay --since 7d --config new.toml --state kubediff.db
  kubediff replay --since 24h --config new.toml --server http://127.0.0.1:8080 -o json
Chats get fewer messages than events: those of one owner are rolled up.")]
pub(crate) struct Args {
    /// Since a time or an age: 24h, 10:42, 2026-11-16
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = clock::argument)]
    since: Timestamp,
    /// Before a time or an age
    #[arg(long, value_name = "TIME", value_parser = clock::argument)]
    until: Option<Timestamp>,
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    place: history_source::Options,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Table,
    Json,
}

const PAGE: usize = 500;

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let sources = Sources { lookup: Secrets::Skip, ..Sources::new(args.place.configuration()) };
    let plan = sources.load().map_err(|problems| Usage(problems.into()))?;
    let source = args.place.open().await?;
    let mut query = vec![("since", args.since.to_string())];
    query.extend(args.until.map(|until| ("until", until.to_string())));
    let mut tally = Tally::new(&plan, TimeZone::system());
    let mut watched = Watched::new(&plan, &source).await?;
    let mut lookup = Lookup::new(&source);
    let mut cursor: Option<String> = None;
    loop {
        let (events, next) = source.events(&query, PAGE, cursor.as_deref()).await?;
        for event in &events {
            match watched.judge(event) {
                Fate::Told(event) => {
                    let around = lookup.of(&event).await?;
                    tally.add(&event, &plan.table.route(&event, &around.context(event.time)));
                }
                Fate::NotWatched => tally.keep_out(event, "not_watched"),
                Fate::Noise => tally.keep_out(event, "noise"),
            }
        }
        match next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    tally.not_replayed = watched.not_replayed();
    let mut out = io::stdout().lock();
    match args.output {
        Output::Table => tally.print(&mut out)?,
        Output::Json => writeln!(out, "{:#}", tally.json(args.since))?,
    }
    Ok(())
}

/// What would have gone where.
struct Tally {
    zone: TimeZone,
    /// By name; whether it is a chat.
    sinks: Vec<(String, bool)>,
    events: u64,
    hours: BTreeMap<Timestamp, Hour>,
    dropped: BTreeMap<String, u64>,
    silenced: BTreeMap<(String, String), u64>,
    failed: BTreeMap<String, (u64, String)>,
    unknown: BTreeMap<String, u64>,
    /// What of the configuration could not be asked about these events.
    not_replayed: Vec<String>,
}

/// Events of one hour.
#[derive(Clone, Default)]
struct Hour {
    sinks: Vec<u64>,
    nobody: u64,
}

impl Tally {
    fn new(plan: &Plan, zone: TimeZone) -> Self {
        let sinks = plan.sinks.iter().map(|sink| (sink.name.clone(), matches!(sink.target, Target::Slack(_))));
        Self {
            zone,
            sinks: sinks.collect(),
            events: 0,
            hours: BTreeMap::new(),
            dropped: BTreeMap::new(),
            silenced: BTreeMap::new(),
            failed: BTreeMap::new(),
            unknown: BTreeMap::new(),
            not_replayed: Vec::new(),
        }
    }

    fn hour(&mut self, event: &Event) -> &mut Hour {
        let time: Zoned = event.time.to_zoned(self.zone.clone());
        let begun = time.round(jiff::ZonedRound::new().smallest(Unit::Hour).mode(jiff::RoundMode::Trunc));
        let hour = self.hours.entry(begun.map_or(event.time, |hour| hour.timestamp())).or_default();
        hour.sinks.resize(self.sinks.len(), 0);
        hour
    }

    /// Counts an event that no route would have been asked about.
    fn keep_out(&mut self, event: &Event, reason: &str) {
        self.events += 1;
        self.hour(event).nobody += 1;
        *self.dropped.entry(reason.to_owned()).or_default() += 1;
    }

    fn add(&mut self, event: &Event, decision: &Decision) {
        self.events += 1;
        let to: Vec<usize> =
            decision.sinks.iter().filter_map(|name| self.sinks.iter().position(|(sink, _)| **sink == **name)).collect();
        let hour = self.hour(event);
        to.into_iter().for_each(|at| hour.sinks[at] += 1);
        hour.nobody += u64::from(decision.dropped.is_some());
        if let Some(dropped) = &decision.dropped {
            *self.dropped.entry(dropped.reason().to_owned()).or_default() += 1;
        }
        for (sink, silence) in &decision.silenced {
            *self.silenced.entry((sink.to_string(), silence.to_string())).or_default() += 1;
        }
        for (route, failure) in &decision.failures {
            self.failed.entry(route.to_string()).or_insert_with(|| (0, failure.to_string())).0 += 1;
        }
        for sink in &decision.unknown_sinks {
            *self.unknown.entry(sink.clone()).or_default() += 1;
        }
    }

    fn totals(&self) -> Hour {
        let mut all = Hour { sinks: vec![0; self.sinks.len()], nobody: 0 };
        for hour in self.hours.values() {
            all.nobody += hour.nobody;
            all.sinks.iter_mut().zip(&hour.sinks).for_each(|(all, one)| *all += one);
        }
        all
    }

    fn print(&self, mut out: impl Write) -> io::Result<()> {
        let mut head = vec!["HOUR".to_owned()];
        head.extend(self.sinks.iter().map(|(name, chat)| if *chat { format!("{name} (chat)") } else { name.clone() }));
        head.push("nobody".to_owned());
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let mut table = terminal::Table::new(&head, 0);
        let mut push = |name: String, hour: &Hour| {
            let counts = hour.sinks.iter().chain([&hour.nobody]).map(u64::to_string);
            table.push(std::iter::once(name).chain(counts));
        };
        for (time, hour) in &self.hours {
            push(time.to_zoned(self.zone.clone()).strftime("%F %H:%M").to_string(), hour);
        }
        push("all".to_owned(), &self.totals());
        table.print(&mut out)?;
        writeln!(out, "\n{} events", self.events)?;
        for (reason, n) in &self.dropped {
            writeln!(out, "{n} to nobody: {}", terminal::plain(reason))?;
        }
        for ((sink, silence), n) in &self.silenced {
            writeln!(out, "{n} kept from {sink} by the silence {}", terminal::plain(silence))?;
        }
        for (route, (n, why)) in &self.failed {
            writeln!(out, "{n} for which the route {} could not answer: {why}", terminal::plain(route))?;
        }
        for (sink, n) in &self.unknown {
            writeln!(out, "{n} that an annotation wants to go to `{}`, which is no sink", terminal::plain(sink))?;
        }
        for what in &self.not_replayed {
            writeln!(out, "not replayed: {}", terminal::plain(what))?;
        }
        Ok(())
    }

    fn json(&self, since: Timestamp) -> serde_json::Value {
        let named = |hour: &Hour| -> serde_json::Map<String, serde_json::Value> {
            self.sinks.iter().zip(&hour.sinks).map(|((name, _), n)| (name.clone(), json!(n))).collect()
        };
        let hours = self.hours.iter();
        let hours = hours.map(|(time, hour)| json!({"hour": time, "sinks": named(hour), "nobody": hour.nobody}));
        let silenced = self.silenced.iter();
        let silenced = silenced.map(|((sink, silence), n)| json!({"sink": sink, "silence": silence, "events": n}));
        let failed = self.failed.iter().map(|(route, (n, why))| json!({"route": route, "events": n, "reason": why}));
        json!({
            "since": since,
            "events": self.events,
            "sinks": named(&self.totals()),
            "hours": hours.collect::<Vec<_>>(),
            "dropped": self.dropped,
            "silenced": silenced.collect::<Vec<_>>(),
            "route_failures": failed.collect::<Vec<_>>(),
            "unknown_sinks": self.unknown,
            "not_replayed": self.not_replayed,
        })
    }
}

#[cfg(test)]
mod tests {
    use kubediff::{route::Context, sink::sample};

    use super::*;

    #[test]
    fn events_are_counted_per_sink_and_hour_with_the_reasons_of_the_rest() {
        let sources = Sources { path: None, variables: Vec::new(), lookup: Secrets::Skip };
        let text = "[sinks.log]\ntype = 'stdout'\n[sinks.ops]\ntype = 'slack'\nwebhook_url = { env = 'X' }\n\
                    [[routes]]\nmatch = { names = ['noisy'] }\ndrop = 'noise'\n\
                    [[routes]]\nmatch = { names = ['web'] }\nsinks = ['ops', 'log']\n\
                    [[silences]]\nname = 'works'\nreason = 'r'\nmatch = { namespaces = ['shop'] }\nsinks = ['ops']\n\
                    hours = ['11:00-12:00']\n";
        let plan = sources.build("", text).unwrap_or_else(|problems| panic!("{problems}"));
        let mut tally = Tally::new(&plan, TimeZone::UTC);
        for (time, name) in [
            ("2026-11-16T10:10:00Z", "web"),
            ("2026-11-16T10:59:59Z", "web"),
            ("2026-11-16T11:00:00Z", "web"),
            ("2026-11-16T11:00:01Z", "noisy"),
            ("2026-11-16T11:00:02Z", "other"),
        ] {
            let mut event = sample::event();
            event.time = time.parse().unwrap();
            event.resource.name = name.into();
            event.resource.namespace = "shop".into();
            tally.add(&event, &plan.table.route(&event, &Context::at(event.time)));
        }
        let mut out = Vec::new();
        tally.print(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HOUR              log  ops (chat)  nobody\n\
             2026-11-16 10:00  2    2           0\n\
             2026-11-16 11:00  1    0           2\n\
             all               3    2           2\n\n\
             5 events\n1 to nobody: no_route\n1 to nobody: noise\n1 kept from ops by the silence works\n"
        );
        let json = tally.json("2026-11-16T00:00:00Z".parse().unwrap());
        assert_eq!(json["sinks"], json!({"log": 3, "ops": 2}));
        assert_eq!(json["hours"][1]["nobody"], 2);
    }
}
