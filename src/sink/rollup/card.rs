//! What a message shows: plain text in named places, cut to sizes that every chat can take. The sink escapes it.

use std::collections::{BTreeMap, HashSet};

use super::{Story, Tally};
use crate::{
    event::{Kind, Redacted},
    sink::describe::{cut, plural},
};

/// Characters; far below what any chat takes, for the sake of whoever reads it.
const TITLE: usize = 250;
const LINE: usize = 400;
const DIFF: usize = 1_500;

/// A message in plain text, made of events that are redacted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Card {
    /// Makes sense alone, on a phone's lock screen.
    pub title: String,
    /// Sentences below it.
    pub lines: Vec<String>,
    /// Lines that begin with `-`, `+` or `~`; empty for none.
    pub diff: String,
    /// Small, at the end.
    pub footer: String,
    /// `#rrggbb`
    pub colour: String,
    /// The event that a link should lead to.
    pub event: Option<String>,
}

impl Story {
    /// The message about everything so far.
    pub(crate) fn card(&self) -> Card {
        let flapping = self.flaps.text();
        let mut lines = Vec::new();
        let (title, diff, colour, event) = match self.heads.first() {
            Some(head) => {
                lines.push(head.summary.clone());
                (head.title.clone(), head.diff.clone(), head.colour.clone(), Some(head.id.clone()))
            }
            None => (format!("~ {}", self.about), String::new(), self.colour_of_children().to_owned(), None),
        };
        if flapping.is_some() {
            lines.clear();
        }
        let title = match &flapping {
            Some(_) => format!("~ {} is flapping", self.about),
            None => title,
        };
        lines.extend(flapping);
        lines.extend(self.heads.iter().skip(1).map(|head| format!("also: {}", head.summary)));
        if self.more_heads > 0 {
            lines.push(format!("and {} more {}", self.more_heads, plural(self.more_heads, "change", "changes")));
        }
        lines.extend(self.progress());
        lines.extend(self.children.iter().filter(|(kind, _)| *kind != "Pod").map(|(kind, tally)| tally.text(kind)));
        let footer = match self.changes {
            1 => String::new(),
            n => format!("{n} changes in {}", self.duration()),
        };
        let lines = lines.iter().map(|line| cut(line, LINE)).collect();
        Card { title: cut(&title, TITLE), lines, diff: cut(&diff, DIFF), footer, colour, event }
    }

    fn colour_of_children(&self) -> &'static str {
        if self.problems.is_empty() { "#9aa0a6" } else { "#b4540a" }
    }

    /// `Stuck: 3 pods in trouble (…)`, `Rolled out in 48 s, 20 pods replaced`, `Rolling out: 12 of 20 pods replaced`
    fn progress(&self) -> Option<String> {
        let pods = self.children.get("Pod");
        let replaced = pods.map_or(0, |pods| pods.created.min(pods.deleted));
        if let Some((key, why)) = self.problems.iter().next() {
            let name = key.split_once('/').map_or(key.as_str(), |(_, name)| name);
            let n = self.problems.len();
            return Some(format!("In trouble: {n} {}, {name}: {why}", plural(n, "object", "objects")));
        }
        let pods = pods?;
        let counted = if replaced > 0 && pods.created == pods.deleted {
            format!("{replaced} {} replaced", plural(replaced, "pod", "pods"))
        } else {
            pods.text("Pod")
        };
        let rolling = self.heads.iter().any(|head| head.kind == Kind::Updated && head.diff.contains("image"));
        match (self.rolled_out, self.first, self.wanted) {
            (Some(done), Some(first), _) => {
                let seconds = done.duration_since(first).as_secs().max(0);
                Some(format!("Rolled out in {}: {counted}", span(seconds)))
            }
            (None, _, Some(wanted)) if rolling && (replaced as u64) < wanted => {
                Some(format!("Rolling out: {replaced} of {wanted} pods replaced"))
            }
            _ => Some(counted),
        }
    }

    fn duration(&self) -> String {
        let (Some(first), Some(last)) = (self.first, self.last) else { return span(0) };
        span(last.duration_since(first).as_secs().max(0))
    }
}

impl Tally {
    pub(super) fn add(&mut self, kind: Kind) {
        match kind {
            Kind::Created => self.created += 1,
            Kind::Updated => self.updated += 1,
            Kind::Deleted => self.deleted += 1,
        }
    }

    /// `ReplicaSet: 1 created, 2 updated (web-6d4cf56db6)`
    fn text(&self, kind: &str) -> String {
        let parts: Vec<String> = [(self.created, "created"), (self.updated, "updated"), (self.deleted, "deleted")]
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}"))
            .collect();
        if kind == "Pod" {
            return format!("Pods: {}", parts.join(", "));
        }
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        format!("{kind}: {} ({})", parts.join(", "), names.join(", "))
    }
}

fn span(seconds: i64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

/// More than anyone could read, or the chat would take, as one message with counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Digest {
    kinds: BTreeMap<String, Tally>,
    owners: HashSet<u64>,
    changes: usize,
    first: Option<jiff::Timestamp>,
    last: Option<jiff::Timestamp>,
    cluster: String,
    event: Option<String>,
}

/// Kinds that a digest names.
const KINDS: usize = 10;

impl Digest {
    pub(crate) fn add(&mut self, event: &Redacted) {
        self.changes += 1;
        self.owners.insert(xxhash_rust::xxh3::xxh3_64(super::key(event).as_bytes()));
        self.first = Some(self.first.map_or(event.time, |first| first.min(event.time)));
        self.last = Some(self.last.map_or(event.time, |last| last.max(event.time)));
        self.cluster.clone_from(&event.cluster.name);
        self.event = Some(event.id.clone());
        let tally = self.kinds.entry(event.resource.kind.clone()).or_default();
        tally.add(event.kind);
        if tally.names.len() < super::NAMES {
            tally.names.insert(cut(&super::object_name(event), 60));
        }
    }

    pub(crate) fn card(&self) -> Card {
        let mut kinds: Vec<(&String, &Tally)> = self.kinds.iter().collect();
        kinds.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.created + tally.updated + tally.deleted));
        let hidden = kinds.len().saturating_sub(KINDS);
        let mut lines: Vec<String> =
            kinds.iter().take(KINDS).map(|(kind, tally)| cut(&tally.text(kind), LINE)).collect();
        if hidden > 0 {
            lines.push(format!("and {hidden} more {}", plural(hidden, "kind", "kinds")));
        }
        let seconds = self.first.zip(self.last).map_or(0, |(first, last)| last.duration_since(first).as_secs().max(0));
        let mut title = format!(
            "~ {} changes of {} {} in {}",
            self.changes,
            self.owners.len(),
            plural(self.owners.len(), "object", "objects"),
            span(seconds),
        );
        if !self.cluster.is_empty() {
            title = format!("{title}, {}", self.cluster);
        }
        Card {
            title: cut(&title, TITLE),
            lines,
            diff: String::new(),
            footer: "Too many to tell one by one".into(),
            colour: "#d99a1c".into(),
            event: self.event.clone(),
        }
    }
}
