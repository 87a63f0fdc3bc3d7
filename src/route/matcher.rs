//! What a route or a silence asks of an event, as written ([`Match`]) and ready to be asked ([`Matcher`]).

use std::cell::OnceCell;

use cel::common::value::Val;
use serde::{Deserialize, Serialize};

use super::{
    Context,
    clock::{ClockError, Hours},
    pattern::{Owners, Paths, PatternError, Patterns},
    when::{self, Failure, Needs, Size, When, WhenError},
};
use crate::{
    cluster::store::{Selector, SelectorError},
    event::{Class, Event, Kind, Observed},
};

/// Matchers as written. All that are given must agree; the empty one takes everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Match {
    pub types: Vec<Kind>,
    pub kinds: Vec<String>,
    pub groups: Vec<String>,
    pub namespaces: Vec<String>,
    pub names: Vec<String>,
    pub labels: String,
    pub namespace_labels: String,
    pub classes: Vec<Class>,
    pub paths: Vec<String>,
    pub managers: Vec<String>,
    pub not_managers: Vec<String>,
    pub by_hand: Option<bool>,
    pub owner: Vec<String>,
    pub observed: Vec<Observed>,
    pub hours: Vec<String>,
    pub weekdays: Vec<String>,
    pub time_zone: String,
    pub when: String,
}

/// One matcher by its key in [`Match`], in the order in which they are asked: the cheap ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    Types,
    Observed,
    Namespaces,
    Kinds,
    Groups,
    Classes,
    Names,
    Owner,
    ByHand,
    Managers,
    NotManagers,
    Labels,
    NamespaceLabels,
    Paths,
    Hours,
    When,
}

impl Test {
    pub const ALL: [Self; 16] = [
        Self::Types,
        Self::Observed,
        Self::Namespaces,
        Self::Kinds,
        Self::Groups,
        Self::Classes,
        Self::Names,
        Self::Owner,
        Self::ByHand,
        Self::Managers,
        Self::NotManagers,
        Self::Labels,
        Self::NamespaceLabels,
        Self::Paths,
        Self::Hours,
        Self::When,
    ];

    /// The key that it has in a configuration.
    pub fn key(self) -> &'static str {
        match self {
            Self::Types => "types",
            Self::Observed => "observed",
            Self::Namespaces => "namespaces",
            Self::Kinds => "kinds",
            Self::Groups => "groups",
            Self::Classes => "classes",
            Self::Names => "names",
            Self::Owner => "owner",
            Self::ByHand => "by_hand",
            Self::Managers => "managers",
            Self::NotManagers => "not_managers",
            Self::Labels => "labels",
            Self::NamespaceLabels => "namespace_labels",
            Self::Paths => "paths",
            Self::Hours => "hours",
            Self::When => "when",
        }
    }
}

/// A matcher that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    #[error("{key}: {source}")]
    Pattern { key: &'static str, source: PatternError },
    #[error("{key}: {source}")]
    Selector { key: &'static str, source: SelectorError },
    #[error("hours: {0}")]
    Clock(#[from] ClockError),
    #[error("when: {0}")]
    When(#[from] WhenError),
}

/// Ready to be asked.
#[derive(Debug, Default)]
pub(crate) struct Matcher {
    types: Bits,
    observed: Bits,
    classes: Bits,
    namespaces: Option<Patterns>,
    kinds: Option<Patterns>,
    groups: Option<Patterns>,
    names: Option<Patterns>,
    owner: Option<Owners>,
    by_hand: Option<bool>,
    managers: Option<Patterns>,
    not_managers: Option<Patterns>,
    labels: Option<Selector>,
    namespace_labels: Option<Selector>,
    paths: Option<Paths>,
    hours: Option<Hours>,
    when: Option<When>,
    /// For explanations.
    written: Match,
}

/// A set of a few words; the empty one takes all.
#[derive(Clone, Copy, Debug, Default)]
struct Bits(u64);

impl Bits {
    fn of(bits: impl Iterator<Item = u32>) -> Self {
        Self(bits.fold(0, |all, bit| all | 1 << bit))
    }

    fn takes(self, other: Self) -> bool {
        self.0 == 0 || self.0 & other.0 != 0
    }
}

impl Matcher {
    pub(crate) fn new(written: &Match) -> Result<Self, MatchError> {
        fn some<T>(
            key: &'static str,
            list: &[String],
            build: impl Fn(&[String]) -> Result<T, PatternError>,
        ) -> Result<Option<T>, MatchError> {
            let built = (!list.is_empty()).then(|| build(list)).transpose();
            built.map_err(|source| MatchError::Pattern { key, source })
        }
        fn selector(key: &'static str, text: &str) -> Result<Option<Selector>, MatchError> {
            let built = (!text.trim().is_empty()).then(|| text.parse()).transpose();
            built.map_err(|source| MatchError::Selector { key, source })
        }
        let timed = !(written.hours.is_empty() && written.weekdays.is_empty());
        let hours = timed.then(|| Hours::new(&written.hours, &written.weekdays, &written.time_zone)).transpose()?;
        let when = (!written.when.is_empty()).then(|| When::new(&written.when)).transpose()?;
        Ok(Self {
            types: Bits::of(written.types.iter().map(|kind| *kind as u32)),
            observed: Bits::of(written.observed.iter().map(|observed| *observed as u32)),
            classes: Bits::of(written.classes.iter().map(|class| *class as u32)),
            namespaces: some("namespaces", &written.namespaces, Patterns::names)?,
            kinds: some("kinds", &written.kinds, Patterns::words)?,
            groups: some("groups", &written.groups, Patterns::names)?,
            names: some("names", &written.names, Patterns::names)?,
            owner: some("owner", &written.owner, Owners::new)?,
            by_hand: written.by_hand,
            managers: some("managers", &written.managers, Patterns::names)?,
            not_managers: some("not_managers", &written.not_managers, Patterns::names)?,
            labels: selector("labels", &written.labels)?,
            namespace_labels: selector("namespace_labels", &written.namespace_labels)?,
            paths: some("paths", &written.paths, Paths::new)?,
            hours,
            when,
            written: written.clone(),
        })
    }

    pub(crate) fn has_expression(&self) -> bool {
        self.when.is_some()
    }

    pub(crate) fn needs(&self) -> Needs {
        self.when.as_ref().map_or_else(Needs::default, When::needs)
    }

    /// The first matcher that says no, or that could not be asked.
    pub(crate) fn refusal(&self, facts: &Facts<'_>) -> Option<(Test, Option<Failure>)> {
        for test in Test::ALL {
            match self.ask(test, facts) {
                Ok(true) => {}
                Ok(false) => return Some((test, None)),
                Err(failure) => return Some((test, Some(failure))),
            }
        }
        None
    }

    fn ask(&self, test: Test, facts: &Facts<'_>) -> Result<bool, Failure> {
        fn takes<T>(matcher: &Option<T>, ask: impl FnOnce(&T) -> bool) -> bool {
            matcher.as_ref().is_none_or(ask)
        }
        let (event, resource) = (facts.event, &facts.event.resource);
        Ok(match test {
            Test::Types => self.types.takes(facts.kind),
            Test::Observed => self.observed.takes(facts.observed),
            Test::Namespaces => takes(&self.namespaces, |patterns| patterns.matches(facts.namespace)),
            Test::Kinds => takes(&self.kinds, |patterns| patterns.matches_any([&resource.kind, &resource.resource])),
            Test::Groups => takes(&self.groups, |patterns| patterns.matches(facts.group)),
            Test::Classes => self.classes.takes(facts.classes),
            Test::Names => takes(&self.names, |patterns| patterns.matches(&resource.name)),
            Test::Owner => takes(&self.owner, |owners| {
                event.owner.as_ref().is_some_and(|owner| owners.matches(&owner.kind, &owner.name))
            }),
            Test::ByHand => self.by_hand.is_none_or(|wanted| facts.by_hand() == wanted),
            Test::Managers => {
                takes(&self.managers, |patterns| event.actors.iter().any(|actor| patterns.matches(&actor.manager)))
            }
            Test::NotManagers => takes(&self.not_managers, |patterns| {
                event.actors.is_empty() || event.actors.iter().any(|actor| !patterns.matches(&actor.manager))
            }),
            Test::Labels => takes(&self.labels, |selector| selector.matches(&resource.labels)),
            Test::NamespaceLabels => {
                takes(&self.namespace_labels, |selector| selector.matches(facts.context.namespace_labels))
            }
            Test::Paths => takes(&self.paths, |paths| {
                event.changes.iter().any(|change| paths.matches(&change.path, &change.field))
            }),
            Test::Hours => takes(&self.hours, |hours| hours.contains(facts.context.now)),
            Test::When => match &self.when {
                Some(when) => facts.holds(when)?,
                None => true,
            },
        })
    }

    /// What was wanted and what the event has, for a matcher that said no.
    pub(crate) fn detail(&self, test: Test, facts: &Facts<'_>) -> String {
        let (event, resource, written) = (facts.event, &facts.event.resource, &self.written);
        let managers = || event.actors.iter().map(|actor| actor.manager.as_str()).collect::<Vec<_>>().join(", ");
        let labels = |labels: &std::collections::BTreeMap<String, String>| {
            labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
        };
        let (found, wanted) = match test {
            Test::Types => (event.kind.as_str().to_owned(), words(written.types.iter().map(|kind| kind.as_str()))),
            Test::Observed => {
                let wanted = words(written.observed.iter().map(|one| observed(*one)));
                (observed(event.observed).to_owned(), wanted)
            }
            Test::Namespaces => (facts.namespace.to_owned(), list(&written.namespaces)),
            Test::Kinds => (resource.kind.clone(), list(&written.kinds)),
            Test::Groups => (facts.group.to_owned(), list(&written.groups)),
            Test::Classes => {
                let names = |classes: &[Class]| words(classes.iter().map(|class| class.as_str()));
                (names(&event.classes), names(&written.classes))
            }
            Test::Names => (resource.name.clone(), list(&written.names)),
            Test::Owner => {
                let owner = event.owner.as_ref().map(|owner| format!("{}/{}", owner.kind, owner.name));
                (owner.unwrap_or_default(), list(&written.owner))
            }
            Test::ByHand => (facts.by_hand().to_string(), written.by_hand.unwrap_or_default().to_string()),
            Test::Managers => (managers(), list(&written.managers)),
            Test::NotManagers => (managers(), format!("someone else than {}", list(&written.not_managers))),
            Test::Labels => (labels(&resource.labels), written.labels.clone()),
            Test::NamespaceLabels => (labels(facts.context.namespace_labels), written.namespace_labels.clone()),
            Test::Paths => {
                let fields = event.changes.iter().take(5).map(|change| change.field.as_str());
                (words(fields), list(&written.paths))
            }
            Test::Hours => {
                let zone = if written.time_zone.is_empty() { "UTC" } else { &written.time_zone };
                let wanted = [list(&written.hours), list(&written.weekdays)].join(" ");
                (facts.context.now.to_string(), format!("{} {zone}", wanted.trim()))
            }
            Test::When => ("false".to_owned(), self.when.as_ref().map_or("", When::text).to_owned()),
        };
        let found = if found.is_empty() { "nothing".to_owned() } else { found };
        format!("wants {wanted}, the event has {found}")
    }
}

pub(crate) fn observed(observed: Observed) -> &'static str {
    match observed {
        Observed::Live => "live",
        Observed::Late => "late",
        Observed::Audit => "audit",
    }
}

fn list(texts: &[String]) -> String {
    words(texts.iter().map(String::as_str))
}

fn words<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join(", ")
}

/// An event with what the matchers of all routes ask for, worked out once.
pub(crate) struct Facts<'e> {
    pub(crate) event: &'e Event,
    pub(crate) context: &'e Context<'e>,
    kind: Bits,
    observed: Bits,
    classes: Bits,
    /// Of a Namespace its own name: a team's routes are about its namespace too.
    namespace: &'e str,
    /// `core` for the group without a name.
    group: &'e str,
    by_hand: OnceCell<bool>,
    needs: Needs,
    value: OnceCell<(Box<dyn Val + 'e>, Size)>,
}

impl<'e> Facts<'e> {
    /// `needs` is what all the expressions together look at.
    pub(crate) fn new(event: &'e Event, context: &'e Context<'e>, needs: Needs) -> Self {
        let resource = &event.resource;
        let is_namespace = resource.kind == "Namespace" && resource.group.is_empty();
        Self {
            event,
            context,
            kind: Bits(1 << event.kind as u32),
            observed: Bits(1 << event.observed as u32),
            classes: Bits::of(event.classes.iter().map(|class| *class as u32)),
            namespace: if is_namespace { &resource.name } else { &resource.namespace },
            group: if resource.group.is_empty() { "core" } else { &resource.group },
            by_hand: OnceCell::new(),
            needs,
            value: OnceCell::new(),
        }
    }

    fn by_hand(&self) -> bool {
        *self.by_hand.get_or_init(|| self.event.by_hand())
    }

    fn holds(&self, when: &When) -> Result<bool, Failure> {
        when.holds(self.event, || {
            let (value, size) = self.value.get_or_init(|| when::event_value(self.event, self.needs));
            (value.as_ref(), *size)
        })
    }
}
