//! Which events: as asked for ([`Filter`]), and ready to be asked of a row or of the search ([`Question`]).

use std::{cell::RefCell, collections::HashSet};

use jiff::Timestamp;

use super::{Error, History, group_resource, kinds::Kinds, narrow::Narrow, sight::Sight};
use crate::{
    event::{Class, Kind, Observed},
    ledger::search::{self, Said},
};

/// Values of which any will do, and values that must not be. `*` stands for anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    pub any: Vec<String>,
    pub none: Vec<String>,
}

impl Words {
    /// Takes a parameter's text: values with commas between, those to exclude with a `!` before.
    pub fn add(&mut self, text: &str) {
        for word in text.split(',').map(str::trim) {
            match word.strip_prefix('!') {
                Some(word) => self.none.push(word.to_owned()),
                None => self.any.push(word.to_owned()),
            }
        }
    }

    pub fn one(text: impl Into<String>) -> Self {
        Self { any: vec![text.into()], none: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.any.is_empty() && self.none.is_empty()
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &String> {
        self.any.iter().chain(&self.none)
    }

    pub(super) fn takes(&self, text: &str) -> bool {
        (self.any.is_empty() || self.any.iter().any(|word| like(word, text)))
            && !self.none.iter().any(|word| like(word, text))
    }

    /// Of several words one must be wanted and none unwanted.
    fn takes_any<'a>(&self, texts: &(impl Iterator<Item = &'a str> + Clone)) -> bool {
        (self.any.is_empty() || texts.clone().any(|text| self.any.iter().any(|word| like(word, text))))
            && !texts.clone().any(|text| self.none.iter().any(|word| like(word, text)))
    }
}

/// Which events are asked for. The empty one takes all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Kind, plural or short name, with a group where needed.
    pub kinds: Words,
    /// The empty name is that of cluster-scoped objects.
    pub namespaces: Words,
    pub names: Words,
    /// `Deployment/shop/web`, `Node/a`: the root owner, itself included.
    pub owners: Words,
    pub types: Words,
    pub classes: Words,
    pub managers: Words,
    pub observed: Words,
    /// Made by a person's own tool, or not.
    pub hand: Option<bool>,
    /// Words of the summary, the name or the changed fields: all of them, the last may be a beginning.
    pub text: String,
    /// Included.
    pub since: Option<Timestamp>,
    /// Not included.
    pub until: Option<Timestamp>,
}

impl History {
    /// The filter, ready, with the kinds that this ledger knows.
    pub(super) fn question(&self, filter: &Filter, sight: &Sight) -> Result<Question, Error> {
        let kinds = if filter.kinds.is_empty() { Kinds::default() } else { self.kinds()? };
        filter.question(&kinds, sight)
    }
}

impl Filter {
    /// Sets a filter by the name of its parameter in the API. `false` when there is none of that name.
    pub fn set(&mut self, parameter: &str, text: &str, now: Timestamp) -> Result<bool, Error> {
        let words = match parameter {
            "kind" => &mut self.kinds,
            "namespace" => &mut self.namespaces,
            "name" => &mut self.names,
            "owner" => &mut self.owners,
            "type" => &mut self.types,
            "class" => &mut self.classes,
            "manager" => &mut self.managers,
            "observed" => &mut self.observed,
            "hand" => {
                self.hand = match text {
                    "" => None,
                    "true" => Some(true),
                    "false" => Some(false),
                    _ => return Err(word("hand", text, "true or false")),
                };
                return Ok(true);
            }
            "q" => {
                self.text = text.to_owned();
                return Ok(true);
            }
            "since" | "until" if text.is_empty() => return Ok(true),
            "since" => {
                self.since = Some(super::when::parse("since", text, now)?);
                return Ok(true);
            }
            "until" => {
                self.until = Some(super::when::parse("until", text, now)?);
                return Ok(true);
            }
            _ => return Ok(false),
        };
        // An empty field of a form asks for nothing; of namespaces alone it is a value.
        if !text.is_empty() || parameter == "namespace" {
            words.add(text);
        }
        Ok(true)
    }

    fn check(&self) -> Result<(), Error> {
        for text in self.types.each() {
            if ![Kind::Created, Kind::Updated, Kind::Deleted].iter().any(|kind| kind.as_str() == text) {
                return Err(word("type", text, "created, updated or deleted"));
            }
        }
        for text in self.observed.each() {
            if ![Observed::Live, Observed::Late, Observed::Audit].iter().any(|one| one.as_str() == text) {
                return Err(word("observed", text, "live, late or audit"));
            }
        }
        for text in self.classes.each() {
            if !Class::ALL.iter().any(|class| class.as_str() == text) {
                let all: Vec<&str> = Class::ALL.iter().map(|class| class.as_str()).collect();
                return Err(word("class", text, &format!("one of {}", all.join(", "))));
            }
        }
        Ok(())
    }

    /// Ready to be asked, by somebody who sees so much.
    pub fn question(&self, kinds: &Kinds, sight: &Sight) -> Result<Question, Error> {
        self.ask(kinds, sight, false)
    }

    /// The same, but rows that only filters of facets refuse come too: whoever counts facets asks those itself.
    pub(super) fn ask_apart(&self, kinds: &Kinds, sight: &Sight) -> Result<Question, Error> {
        self.ask(kinds, sight, true)
    }

    fn ask(&self, kinds: &Kinds, sight: &Sight, facets_apart: bool) -> Result<Question, Error> {
        self.check()?;
        let find = |words: &[String]| {
            let found = words.iter().flat_map(|word| kinds.find(word));
            found.map(|resource| group_resource(&resource.group, &resource.plural)).collect::<HashSet<_>>()
        };
        let owners = |words: &[String]| words.iter().map(|word| whole_owner(word)).collect();
        Ok(Question {
            resources: (!self.kinds.any.is_empty()).then(|| find(&self.kinds.any)),
            not_resources: find(&self.kinds.none),
            owners: Words { any: owners(&self.owners.any), none: owners(&self.owners.none) },
            words: search::words(&self.text).collect(),
            last_is_whole: self.text.ends_with(char::is_whitespace),
            since: self.since.map_or(i64::MIN, ceil_ms),
            until: self.until.map_or(i64::MAX, ceil_ms),
            sight: match sight {
                Sight::Everything => None,
                Sight::Only(places) => {
                    let key = |p: &super::sight::Place| access(&p.group, &p.resource, &p.namespace);
                    Some(places.iter().map(key).collect())
                }
            },
            filter: self.clone(),
            facets_apart,
            buffer: RefCell::default(),
        })
    }
}

/// The first whole millisecond that is not before.
fn ceil_ms(time: Timestamp) -> i64 {
    let ms = time.as_millisecond();
    if time.as_nanosecond() > i128::from(ms) * 1_000_000 { ms + 1 } else { ms }
}

fn word(parameter: &'static str, value: &str, expected: &str) -> Error {
    Error::Word { parameter, value: value.to_owned(), expected: format!("expected {expected}") }
}

/// `Node/a` -> `Node//a`
fn whole_owner(text: &str) -> String {
    match text.splitn(3, '/').collect::<Vec<_>>()[..] {
        [kind, name] => format!("{kind}//{name}"),
        [kind, "-", name] => format!("{kind}//{name}"),
        _ => text.to_owned(),
    }
}

fn access(group: &str, resource: &str, namespace: &str) -> String {
    format!("{}|{namespace}", group_resource(group, resource))
}

/// Whether a text is as a pattern says, in which `*` stands for anything. Upper and lower case are the same.
pub fn like(pattern: &str, text: &str) -> bool {
    if !pattern.contains('*') {
        return pattern.eq_ignore_ascii_case(text);
    }
    let (pattern, text) = (pattern.to_ascii_lowercase(), text.to_ascii_lowercase());
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

/// A filter, ready.
#[derive(Debug)]
pub struct Question {
    pub(super) filter: Filter,
    pub(super) facets_apart: bool,
    pub(super) resources: Option<HashSet<String>>,
    pub(super) not_resources: HashSet<String>,
    pub(super) owners: Words,
    pub(super) words: Vec<String>,
    pub(super) last_is_whole: bool,
    pub(super) since: i64,
    pub(super) until: i64,
    pub(super) sight: Option<HashSet<String>>,
    buffer: RefCell<String>,
}

/// What a facet counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Facet {
    Kind,
    Namespace,
    Class,
    Manager,
    Type,
}

impl Facet {
    pub const ALL: [Self; 5] = [Self::Kind, Self::Namespace, Self::Class, Self::Manager, Self::Type];
}

/// More places than this are looked at row by row.
pub(super) const PLACES_IN_EXPRESSION: usize = 200;

impl Question {
    /// Whether it takes a row, but for the words of the text.
    pub(super) fn takes(&self, row: &Narrow<'_>) -> bool {
        self.sees(row)
            && self.others(row)
            && (self.facets_apart || Facet::ALL.iter().all(|facet| self.facet(*facet, row)))
    }

    /// Whether the row may be seen at all.
    pub(super) fn sees(&self, row: &Narrow<'_>) -> bool {
        let Some(places) = &self.sight else { return true };
        let mut buffer = self.buffer.borrow_mut();
        buffer.clear();
        buffer.push_str(row.resource);
        if !row.group.is_empty() {
            buffer.push('.');
            buffer.push_str(row.group);
        }
        buffer.push('|');
        buffer.push_str(row.namespace);
        places.contains(buffer.as_str())
    }

    /// Whether one of the filters that facets are about takes the row.
    pub(super) fn facet(&self, facet: Facet, row: &Narrow<'_>) -> bool {
        match facet {
            Facet::Type => self.filter.types.takes(row.event_type),
            Facet::Namespace => self.filter.namespaces.takes(row.namespace),
            Facet::Class => self.filter.classes.is_empty() || self.filter.classes.takes_any(&row.classes()),
            Facet::Manager => self.filter.managers.is_empty() || self.filter.managers.takes_any(&row.managers()),
            Facet::Kind => {
                if self.resources.is_none() && self.not_resources.is_empty() {
                    return true;
                }
                let mut buffer = self.buffer.borrow_mut();
                buffer.clear();
                buffer.push_str(row.resource);
                if !row.group.is_empty() {
                    buffer.push('.');
                    buffer.push_str(row.group);
                }
                self.resources.as_ref().is_none_or(|wanted| wanted.contains(buffer.as_str()))
                    && !self.not_resources.contains(buffer.as_str())
            }
        }
    }

    /// The filters that facets are not about.
    pub(super) fn others(&self, row: &Narrow<'_>) -> bool {
        row.time >= self.since
            && row.time < self.until
            && self.filter.names.takes(row.name)
            && self.filter.observed.takes(row.observed)
            && (self.owners.is_empty() || self.owners.takes(&row.owner()))
            && self.filter.hand.is_none_or(|hand| row.hand() == hand)
    }

    /// Whether an event has the words of the text.
    pub(super) fn has_words(&self, event: &Said) -> bool {
        let Some((last, others)) = self.words.split_last() else { return true };
        let found = event.words();
        others.iter().all(|word| found.contains(word))
            && match self.last_is_whole {
                true => found.contains(last),
                false => found.range(last.clone()..).next().is_some_and(|word| word.starts_with(last.as_str())),
            }
    }

    /// Whether it asks for more than a [profile](crate::ledger::tally) holds: names, owners or words.
    pub(super) fn asks_of_rows(&self) -> bool {
        !self.filter.names.is_empty() || !self.owners.is_empty() || !self.words.is_empty()
    }

    /// Whether the search finds just the rows that it takes, but for their time.
    pub(super) fn is_searchable(&self) -> bool {
        let f = &self.filter;
        let lists = [&f.namespaces, &f.names, &f.managers, &self.owners];
        let excludes = |words: &&Words| !words.none.is_empty();
        // What is excluded is found only by looking at all that is not.
        if lists.iter().copied().chain([&f.types, &f.observed, &f.classes, &f.kinds]).any(|words| excludes(&words)) {
            return false;
        }
        // Exact values and beginnings; facets apart are not asked of the search.
        let plain =
            |word: &String| word.split_once('*').is_none_or(|(start, rest)| !start.is_empty() && rest.is_empty());
        let few_places = self.sight.as_ref().is_none_or(|places| places.len() <= PLACES_IN_EXPRESSION);
        self.is_for_the_search()
            && !self.facets_apart
            && few_places
            && lists.iter().all(|words| words.each().all(plain))
    }

    /// Whether it takes every row of its period.
    pub(super) fn takes_all(&self) -> bool {
        let f = &self.filter;
        let words = [&f.types, &f.observed, &f.classes, &f.managers, &f.namespaces, &f.kinds];
        let facets = self.facets_apart || words.iter().all(|words| words.is_empty());
        facets && f.observed.is_empty() && f.hand.is_none() && self.sight.is_none() && !self.asks_of_rows()
    }
}
