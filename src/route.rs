//! Filters, routes and silences: an event in, the sinks that get it out, and on request why.
//!
//! Routes are asked in their order. The first that takes an event ends the search, unless it says `continue`; one with
//! routes of its own hands the event to them first and keeps it for itself when none takes it. A route with `drop`
//! ends the search with a named reason. Without any route, everything goes to every sink.
//!
//! Pure: no I/O, and the clock's reading comes in with [`Context`].

mod clock;
mod explain;
mod matcher;
mod pattern;
mod silence;
pub(crate) mod spell;
#[cfg(test)]
mod tests;
mod when;

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::{
    clock::ClockError,
    explain::{Explanation, Step, Verdict},
    matcher::{Match, MatchError, Test},
    pattern::PatternError,
    silence::{Silence, SilenceError, Silencing, Window},
    when::{Failure, WhenError},
};
use self::{
    matcher::{Facts, Matcher},
    when::Needs,
};
use crate::event::{Event, Kind};

pub(crate) mod parts {
    //! For the configuration's checks: each matcher by itself, so that every mistake has its own line.
    pub(crate) use super::{
        clock::Hours,
        pattern::{Owners, Paths, Patterns},
        when::When,
    };
}

/// Nested deeper, nobody understands it.
pub const MAX_DEPTH: usize = 8;
/// On an object or its namespace, with the value `true`: nothing about it is sent.
pub const IGNORE: &str = "kubediff.io/ignore";
/// On an object or its namespace: the sinks that get its events, by name, in place of the routes.
pub const SINKS: &str = "kubediff.io/sinks";

/// A route as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Route {
    /// For explanations; the place in the list stands in for a name.
    pub name: String,
    #[serde(rename = "match")]
    pub matching: Match,
    /// Who gets what it takes. Empty: who gets what the route around it takes.
    pub sinks: Vec<String>,
    /// Nobody gets what it takes, for this reason.
    pub drop: Option<String>,
    /// The routes after it are asked too.
    #[serde(rename = "continue")]
    pub go_on: bool,
    pub routes: Vec<Self>,
}

/// What a table is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// The names of all sinks there are, in the order in which they are told.
    pub sinks: Vec<String>,
    pub routes: Vec<Route>,
    /// Who gets what no route took.
    pub default_sinks: Vec<String>,
    pub silences: Vec<Silence>,
    /// Whether the annotations [`IGNORE`] and [`SINKS`] are heeded.
    pub annotations: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("route {route}: {source}")]
    Match { route: String, source: MatchError },
    #[error("{place}: there is no sink `{sink}`")]
    Sink { place: String, sink: String },
    #[error("route {0} lies more than {MAX_DEPTH} routes deep")]
    Deep(String),
    #[error(transparent)]
    Silence(#[from] SilenceError),
}

/// What is known of an event's surroundings when it is routed.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub now: Timestamp,
    /// Of the object as it is now, or as it was last seen.
    pub annotations: &'a BTreeMap<String, String>,
    pub namespace_labels: &'a BTreeMap<String, String>,
    pub namespace_annotations: &'a BTreeMap<String, String>,
    /// Those that were made while kubediff ran, beside the ones of the configuration.
    pub silences: &'a [Silencing],
}

static NONE: BTreeMap<String, String> = BTreeMap::new();

impl Context<'_> {
    /// A moment, and nothing known of labels and annotations.
    pub fn at(now: Timestamp) -> Self {
        Self { now, annotations: &NONE, namespace_labels: &NONE, namespace_annotations: &NONE, silences: &[] }
    }
}

/// Where an event goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub sinks: Vec<Arc<str>>,
    /// Why it goes nowhere, when it does not.
    pub dropped: Option<Dropped>,
    /// Sinks that would have got it, and the silence that keeps it from them.
    pub silenced: Vec<(Arc<str>, Arc<str>)>,
    /// Routes whose `when` gave no answer. They did not take the event.
    pub failures: Vec<(Arc<str>, Failure)>,
    /// Names in a [`SINKS`] annotation that no sink has.
    pub unknown_sinks: Vec<String>,
}

/// Why an event goes nowhere. The names are those of the configuration, so they are few.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dropped {
    /// A route with `drop` took it; this is its reason.
    Filter(Arc<str>),
    /// Silenced for every sink, by this silence.
    Silenced(Arc<str>),
    /// The annotation [`IGNORE`] is on the object or its namespace.
    Ignored,
    /// No route took it, and there is no default.
    NoRoute,
    /// The route that took it names no sink.
    NoSink,
}

impl Dropped {
    /// For a metric's label.
    pub fn reason(&self) -> &str {
        match self {
            Self::Filter(reason) => reason,
            Self::Silenced(_) => "silenced",
            Self::Ignored => "ignored",
            Self::NoRoute => "no_route",
            Self::NoSink => "no_sink",
        }
    }
}

/// Routes, ready to be asked.
#[derive(Debug)]
pub struct Table {
    sinks: Vec<Arc<str>>,
    routes: Vec<Node>,
    default_sinks: Vec<usize>,
    silences: Vec<Silencing>,
    annotations: bool,
    needs: Needs,
}

#[derive(Debug)]
struct Node {
    name: Arc<str>,
    matcher: Matcher,
    sinks: Vec<usize>,
    drop: Option<Arc<str>>,
    go_on: bool,
    routes: Vec<Node>,
}

/// What the search for routes has found so far.
#[derive(Default)]
struct Found {
    sinks: Vec<usize>,
    filter: Option<Arc<str>>,
    taken: bool,
    failures: Vec<(Arc<str>, Failure)>,
}

/// Is told of each route that is asked: of nothing but the answer when nobody wants to know why.
trait Witness {
    fn asked(&mut self, depth: usize, node: &Node, refusal: Option<&(Test, Option<Failure>)>, facts: &Facts<'_>);
}

impl Witness for () {
    fn asked(&mut self, _: usize, _: &Node, _: Option<&(Test, Option<Failure>)>, _: &Facts<'_>) {}
}

impl Table {
    pub fn new(rules: &Rules) -> Result<Self, Error> {
        let sinks: Vec<Arc<str>> = rules.sinks.iter().map(|name| Arc::from(name.as_str())).collect();
        let routes = rules.routes.iter().enumerate();
        let routes =
            routes.map(|(at, route)| Node::new(route, &at.to_string(), &sinks, 0)).collect::<Result<Vec<_>, _>>()?;
        let silences = rules.silences.iter().map(|silence| {
            indexes("silence", &silence.sinks, &sinks)?;
            Ok::<_, Error>(Silencing::new(silence)?)
        });
        let default_sinks = match rules.routes.is_empty() && rules.default_sinks.is_empty() {
            true => (0..sinks.len()).collect(),
            false => indexes("default_sinks", &rules.default_sinks, &sinks)?,
        };
        let needs = routes.iter().map(Node::needs).fold(Needs::default(), Needs::and);
        Ok(Self {
            default_sinks,
            silences: silences.collect::<Result<_, _>>()?,
            annotations: rules.annotations,
            needs,
            sinks,
            routes,
        })
    }

    /// The routes that may have no answer for an event, by name: those with an expression.
    pub fn may_fail(&self) -> Vec<Arc<str>> {
        fn look(nodes: &[Node], found: &mut Vec<Arc<str>>) {
            for node in nodes {
                found.extend(node.matcher.has_expression().then(|| node.name.clone()));
                look(&node.routes, found);
            }
        }
        let mut found = Vec::new();
        look(&self.routes, &mut found);
        found
    }

    /// Where an event goes.
    pub fn route(&self, event: &Event, context: &Context<'_>) -> Decision {
        self.decide(event, context, &mut ())
    }

    fn decide(&self, event: &Event, context: &Context<'_>, witness: &mut dyn Witness) -> Decision {
        let silences = || self.silences.iter().chain(context.silences);
        let needs = silences().fold(self.needs, |all, one| all.and(one.needs()));
        let facts = Facts::new(event, context, needs);
        let mut decision = Decision::default();
        if self.annotations && ignored(event, context) {
            decision.dropped = Some(Dropped::Ignored);
            return decision;
        }
        let mut found = Found::default();
        let annotated = self.annotations && self.annotated(context, &mut found, &mut decision);
        if !annotated || (context.annotations.contains_key(SINKS) && puts_on(event, "/kubediff.io~1sinks")) {
            let named = std::mem::take(&mut found.sinks);
            found.taken = false;
            self.search(&self.routes, &self.default_sinks, 0, &facts, &mut found, witness);
            if !found.taken && found.filter.is_none() {
                found.sinks.clone_from(&self.default_sinks);
            }
            found.taken |= annotated;
            found.sinks.extend(named);
        }
        found.sinks.sort_unstable();
        found.sinks.dedup();
        decision.failures = found.failures;
        if found.sinks.is_empty() {
            decision.dropped = Some(match found.filter {
                Some(reason) => Dropped::Filter(reason),
                None if found.taken => Dropped::NoSink,
                None => Dropped::NoRoute,
            });
            return decision;
        }
        let silences: Vec<_> = silences().filter(|silence| silence.applies(&facts)).collect();
        for sink in found.sinks {
            let name = &self.sinks[sink];
            match silences.iter().find(|silence| silence.covers(name)) {
                Some(silence) => decision.silenced.push((name.clone(), silence.name().clone())),
                None => decision.sinks.push(name.clone()),
            }
        }
        if decision.sinks.is_empty() {
            decision.dropped = decision.silenced.first().map(|(_, silence)| Dropped::Silenced(silence.clone()));
        }
        decision
    }

    /// Asks routes in order. False when a filter has ended the search.
    fn search(
        &self,
        routes: &[Node],
        inherited: &[usize],
        depth: usize,
        facts: &Facts<'_>,
        found: &mut Found,
        witness: &mut dyn Witness,
    ) -> bool {
        for node in routes {
            let refusal = node.matcher.refusal(facts);
            witness.asked(depth, node, refusal.as_ref(), facts);
            match refusal {
                Some((_, Some(failure))) => found.failures.push((node.name.clone(), failure)),
                Some((_, None)) => {}
                None if node.drop.is_some() => {
                    found.filter.clone_from(&node.drop);
                    return false;
                }
                None => {
                    let sinks = if node.sinks.is_empty() { inherited } else { &node.sinks };
                    found.taken = false;
                    if !self.search(&node.routes, sinks, depth + 1, facts, found, witness) {
                        return false;
                    }
                    if !found.taken {
                        found.sinks.extend_from_slice(sinks);
                    }
                    found.taken = true;
                    if !node.go_on {
                        return true;
                    }
                }
            }
        }
        true
    }

    /// Takes the sinks from the annotation, the object's before its namespace's. False when there is none that names
    /// a sink there is.
    fn annotated(&self, context: &Context<'_>, found: &mut Found, decision: &mut Decision) -> bool {
        let Some(names) = context.annotations.get(SINKS).or_else(|| context.namespace_annotations.get(SINKS)) else {
            return false;
        };
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match self.sinks.iter().position(|sink| **sink == *name) {
                Some(sink) => found.sinks.push(sink),
                None => decision.unknown_sinks.push(name.to_owned()),
            }
        }
        found.taken = !found.sinks.is_empty();
        found.taken
    }
}

/// The silence among those of the context that keeps an event from a sink, by name.
pub fn silenced(event: &Event, context: &Context<'_>, sink: &str) -> Option<Arc<str>> {
    if context.silences.is_empty() {
        return None;
    }
    let needs = context.silences.iter().fold(Needs::default(), |all, one| all.and(one.needs()));
    let facts = Facts::new(event, context, needs);
    let silence = context.silences.iter().find(|silence| silence.covers(sink) && silence.applies(&facts))?;
    Some(silence.name().clone())
}

/// Whether an event brings an annotation, which is still told as if it were not there: else it would be an easy way to
/// hide.
fn puts_on(event: &Event, annotation: &str) -> bool {
    let here = |path: &str| match path.strip_prefix("/metadata/annotations") {
        Some(rest) => rest.is_empty() || rest == annotation,
        None => path == "/metadata",
    };
    event.kind == Kind::Created || event.changes.iter().any(|change| here(&change.path))
}

fn ignored(event: &Event, context: &Context<'_>) -> bool {
    let on = |annotations: &BTreeMap<String, String>| annotations.get(IGNORE).is_some_and(|value| value == "true");
    if on(context.annotations) {
        return !puts_on(event, "/kubediff.io~1ignore");
    }
    on(context.namespace_annotations)
}

fn indexes(place: &str, names: &[String], sinks: &[Arc<str>]) -> Result<Vec<usize>, Error> {
    let index = |name: &String| {
        let found = sinks.iter().position(|sink| **sink == **name);
        found.ok_or_else(|| Error::Sink { place: place.to_owned(), sink: name.clone() })
    };
    names.iter().map(index).collect()
}

impl Node {
    fn new(route: &Route, place: &str, sinks: &[Arc<str>], depth: usize) -> Result<Self, Error> {
        let name = if route.name.is_empty() { format!("routes[{place}]") } else { route.name.clone() };
        if depth >= MAX_DEPTH {
            return Err(Error::Deep(name));
        }
        let matcher = Matcher::new(&route.matching).map_err(|source| Error::Match { route: name.clone(), source })?;
        let children = route.routes.iter().enumerate();
        let children = children.map(|(at, child)| Self::new(child, &format!("{place}.{at}"), sinks, depth + 1));
        Ok(Self {
            matcher,
            sinks: indexes(&name, &route.sinks, sinks)?,
            drop: route.drop.as_deref().map(Arc::from),
            go_on: route.go_on,
            routes: children.collect::<Result<_, _>>()?,
            name: Arc::from(name),
        })
    }

    fn needs(&self) -> Needs {
        self.routes.iter().map(Self::needs).fold(self.matcher.needs(), Needs::and)
    }
}
