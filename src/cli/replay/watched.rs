//! What a configuration would have seen of an event that is recorded: its selection, its selectors, its noise.

use std::{borrow::Cow, collections::HashMap};

use kubediff::{
    cluster::{
        Resource,
        select::{self, Pattern, Verdict},
        store::Selector,
    },
    config::Plan,
    event::{Event, Kind},
    redact::{Secrets, noise},
};

use crate::cli::history_source::Source;

/// What becomes of an event before any route is asked.
#[derive(Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(super) enum Fate<'e> {
    /// It is told, without the changes that would not have been seen.
    Told(Cow<'e, Event>),
    NotWatched,
    Noise,
}

pub(super) struct Watched<'p> {
    select: &'p select::Settings,
    noise: noise::Recorded,
    /// For all resources or for some.
    selectors: Vec<(Option<&'p Pattern>, Selector, Vec<Term>)>,
    /// By kind, the other words by which patterns call it: events know no short names.
    words: HashMap<String, Vec<String>>,
    /// Of each include pattern, whether anything that was recorded fits it.
    met: Vec<bool>,
    doubts: Vec<String>,
}

/// `metadata.name!=web`: what can be told of a field selector from an event.
struct Term {
    of_name: bool,
    equal: bool,
    value: String,
}

impl<'p> Watched<'p> {
    pub(super) async fn new(plan: &'p Plan, source: &Source) -> anyhow::Result<Self> {
        let select = &plan.select;
        let selectors = select.selectors.iter().map(|selector| &selector.resource);
        let patterns = [&select.include, &select.exclude, &select.default_exclude].into_iter().flatten();
        let mut words: HashMap<String, Vec<String>> = HashMap::new();
        for pattern in patterns.chain(selectors).map(Pattern::to_string) {
            if pattern.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
                && let Some(kind) = source.kind(&pattern).await?
            {
                words.entry(kind).or_default().push(pattern);
            }
        }
        Self::with_words(plan, words)
    }

    fn with_words(plan: &'p Plan, words: HashMap<String, Vec<String>>) -> anyhow::Result<Self> {
        let select = &plan.select;
        let mut doubts = Vec::new();
        let mut selectors = vec![(None, select.labels.parse()?, Vec::new())];
        for selector in &select.selectors {
            let (terms, unknown) = terms(&selector.fields);
            if !unknown.is_empty() {
                doubts.push(format!(
                    "the field selector {} of {}: events do not hold these fields, so all are counted",
                    unknown.join(","),
                    selector.resource
                ));
            }
            selectors.push((Some(&selector.resource), selector.labels.parse()?, terms));
        }
        let file = &plan.file;
        if file.noise.profile == noise::Profile::All {
            doubts.push("noise.profile = \"all\": what was left out as noise is not in history".to_owned());
        }
        Ok(Self {
            select,
            noise: noise::Recorded::new(file.noise.profile, &file.noise.ignore)?,
            selectors,
            words,
            met: vec![false; select.include.len()],
            doubts,
        })
    }

    pub(super) fn judge<'e>(&mut self, event: &'e Event) -> Fate<'e> {
        let resource = self.resource(event);
        for (met, pattern) in self.met.iter_mut().zip(&self.select.include) {
            *met = *met || pattern.fits(&resource);
        }
        if !self.watches(&resource, event) {
            return Fate::NotWatched;
        }
        if event.kind != Kind::Updated || event.changes.is_empty() {
            return Fate::Told(Cow::Borrowed(event));
        }
        let metadata_only = self.select.secrets == Secrets::Metadata && is_secret(&resource);
        let kept: Vec<bool> = event
            .changes
            .iter()
            .map(|change| {
                let unread = metadata_only && !change.path.starts_with("/metadata");
                !(unread || self.noise.hides(&resource, &change.path, change.from.as_ref(), change.to.as_ref()))
            })
            .collect();
        match kept.iter().filter(|kept| **kept).count() {
            0 => Fate::Noise,
            all if all == kept.len() => Fate::Told(Cow::Borrowed(event)),
            _ => Fate::Told(Cow::Owned(without(event, &kept))),
        }
    }

    /// What of the configuration says nothing about what is recorded.
    pub(super) fn not_replayed(&self) -> Vec<String> {
        let unmet =
            self.select.include.iter().zip(&self.met).filter(|(pattern, met)| !**met && **pattern != Pattern::all());
        let unmet =
            unmet.map(|(pattern, _)| format!("watch.include \"{pattern}\": nothing of it was recorded in this time"));
        self.doubts.iter().cloned().chain(unmet).collect()
    }

    fn watches(&self, resource: &Resource, event: &Event) -> bool {
        let place = &self.select.namespaces;
        let in_place = if resource.namespaced { place.contains(&event.resource.namespace) } else { place.is_all() };
        let selected = self.selectors.iter().filter(|(of, ..)| of.is_none_or(|pattern| pattern.fits(resource)));
        in_place
            && matches!(self.select.verdict(resource), Verdict::Read(_))
            && selected.clone().all(|(_, labels, _)| labels.matches(&event.resource.labels))
            && selected.flat_map(|(_, _, terms)| terms).all(|term| {
                let value = if term.of_name { &event.resource.name } else { &event.resource.namespace };
                (*value == term.value) == term.equal
            })
    }

    fn resource(&self, event: &Event) -> Resource {
        let r = &event.resource;
        Resource {
            group: r.group.clone(),
            version: r.version.clone(),
            plural: r.resource.clone(),
            singular: r.kind.to_lowercase(),
            kind: r.kind.clone(),
            short_names: self.words.get(&r.kind).cloned().unwrap_or_default(),
            namespaced: !r.namespace.is_empty(),
        }
    }
}

fn is_secret(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "secrets"
}

/// The terms that an event answers, and the fields of those that it does not.
fn terms(fields: &str) -> (Vec<Term>, Vec<String>) {
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for text in fields.split(',').filter(|text| !text.is_empty()) {
        let (field, value, equal) = match (text.split_once("!="), text.split_once('=')) {
            (Some((field, value)), _) => (field, value, false),
            (None, Some((field, value))) => (field, value.trim_start_matches('='), true),
            (None, None) => continue,
        };
        match field.trim() {
            name @ ("metadata.name" | "metadata.namespace") => {
                known.push(Term { of_name: name == "metadata.name", equal, value: value.trim().to_owned() });
            }
            _ => unknown.push(text.trim().to_owned()),
        }
    }
    (known, unknown)
}

/// The event with some of its changes, and with the actors that made those.
fn without(event: &Event, kept: &[bool]) -> Event {
    let mut event = event.clone();
    let mut keep = kept.iter();
    event.changes.retain(|_| keep.next().copied().unwrap_or(true));
    let place = |old: usize| kept.get(old)?.then(|| kept[..old].iter().filter(|kept| **kept).count());
    event.actors.retain_mut(|actor| {
        let all = std::mem::take(&mut actor.changes);
        actor.changes = all.iter().filter_map(|old| place(*old)).collect();
        all.is_empty() || !actor.changes.is_empty()
    });
    event
}

#[cfg(test)]
mod tests {
    use kubediff::{
        config::{Lookup, Sources},
        diff::{Change, Op},
        sink::sample,
    };
    use serde_json::json;

    use super::*;

    fn plan(text: &str) -> Plan {
        let sources = Sources { path: None, variables: Vec::new(), lookup: Lookup::Skip };
        sources.build("", text).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn event(change: impl FnOnce(&mut Event)) -> Event {
        let mut event = sample::event();
        event.resource.namespace = "shop".into();
        event.resource.labels = [("app".to_owned(), "web".to_owned())].into();
        change(&mut event);
        event
    }

    fn changed(path: &str) -> Change {
        let field = path.to_owned();
        Change { op: Op::Replace, path: path.into(), field, from: Some(json!(1)), to: Some(json!(2)), lines: None }
    }

    #[test]
    fn every_key_of_watch_and_noise_that_an_event_answers_is_heeded() {
        let secret = |event: &mut Event| {
            event.resource.group = String::new();
            event.resource.version = "v1".into();
            event.resource.resource = "secrets".into();
            event.resource.kind = "Secret".into();
            event.kind = Kind::Updated;
            event.changes = vec![changed("/data/password")];
        };
        let node = |event: &mut Event| {
            event.resource.kind = "Node".into();
            event.resource.namespace = String::new();
        };
        let scaled = |event: &mut Event| {
            event.kind = Kind::Updated;
            event.changes = vec![changed("/spec/replicas")];
        };
        for (text, event, expected) in [
            ("", event(|_| {}), "told"),
            ("[watch]\ninclude = ['Deployment']", event(|_| {}), "told"),
            ("[watch]\ninclude = ['deploy']", event(|_| {}), "told"),
            ("[watch]\ninclude = ['v1/configmaps']", event(|_| {}), "not watched"),
            ("[watch]\nexclude = ['apps/*']", event(|_| {}), "not watched"),
            ("[watch]\nnamespaces = ['sh*']", event(|_| {}), "told"),
            ("[watch]\nnamespaces = ['bank']", event(|_| {}), "not watched"),
            ("[watch]\nexclude_namespaces = ['shop']", event(|_| {}), "not watched"),
            ("[watch]\nnamespaces = ['shop']", event(node), "not watched"),
            ("[watch]\nselector = 'app=web'", event(|_| {}), "told"),
            ("[watch]\nselector = 'app=db'", event(|_| {}), "not watched"),
            ("[[watch.selectors]]\nresource = 'apps/*'\nlabels = 'app=db'", event(|_| {}), "not watched"),
            ("[[watch.selectors]]\nresource = 'v1/*'\nlabels = 'app=db'", event(|_| {}), "told"),
            (
                "[[watch.selectors]]\nresource = 'apps/*'\nfields = 'metadata.name!=web'",
                event(|e| e.resource.name = "web".into()),
                "not watched",
            ),
            (
                "[[watch.selectors]]\nresource = 'apps/*'\nfields = 'metadata.name=web'",
                event(|e| e.resource.name = "web".into()),
                "told",
            ),
            ("[watch]\nsecrets = 'off'", event(secret), "not watched"),
            ("[watch]\nsecrets = 'metadata'", event(secret), "noise"),
            ("", event(secret), "told"),
            ("[noise]\nignore = ['Deployment:/spec/replicas']", event(scaled), "noise"),
            ("[noise]\nignore = ['StatefulSet:/spec/replicas']", event(scaled), "told"),
        ] {
            let plan = plan(text);
            let words = HashMap::from([("Deployment".to_owned(), vec!["deploy".to_owned()])]);
            let mut watched = Watched::with_words(&plan, words).unwrap();
            let fate = match watched.judge(&event) {
                Fate::Told(_) => "told",
                Fate::NotWatched => "not watched",
                Fate::Noise => "noise",
            };
            assert_eq!(fate, expected, "{text}");
        }
    }

    #[test]
    fn of_an_event_that_is_noise_in_part_the_rest_is_routed() {
        let plan = plan("[noise]\nignore = ['/spec/replicas']");
        let event = event(|event| {
            event.kind = Kind::Updated;
            event.changes = vec![changed("/spec/replicas"), changed("/spec/paused")];
            let actor = event.actors[0].clone();
            let by = |manager: &str, changes: Vec<usize>| {
                let mut actor = actor.clone();
                actor.manager = manager.into();
                actor.changes = changes;
                actor
            };
            event.actors = vec![by("scaler", vec![0]), by("person", vec![1])];
        });
        let mut watched = Watched::with_words(&plan, HashMap::new()).unwrap();
        let Fate::Told(told) = watched.judge(&event) else { panic!("it is told") };
        assert_eq!(told.changes, [changed("/spec/paused")]);
        assert_eq!(
            told.actors.iter().map(|a| (a.manager.as_str(), a.changes.clone())).collect::<Vec<_>>(),
            [("person", vec![0])]
        );
    }

    #[test]
    fn what_cannot_be_replayed_is_named() {
        let text = "[watch]\ninclude = ['Deployment', 'Widget']\n[noise]\nprofile = 'all'\n\
                    [[watch.selectors]]\nresource = 'pods'\nfields = 'status.phase=Running,metadata.name!=x'\n";
        let plan = plan(text);
        let mut watched = Watched::with_words(&plan, HashMap::new()).unwrap();
        watched.judge(&event(|_| {}));
        assert_eq!(
            watched.not_replayed(),
            [
                "the field selector status.phase=Running of pods: events do not hold these fields, so all are counted",
                "noise.profile = \"all\": what was left out as noise is not in history",
                "watch.include \"Widget\": nothing of it was recorded in this time",
            ]
        );
    }
}
