//! What a question is to the search: an expression in its language, in which beginnings of values and words are as
//! somebody found that they are best asked for.

use std::collections::{HashMap, HashSet};

use super::filter::{PLACES_IN_EXPRESSION, Question, Words};
use crate::ledger::search::{self, About};

/// How the search is asked for what begins so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// By all the words that there are. They are looked up side by side.
    Spelt(Vec<String>),
    /// As it is: the search gathers all events that have it before it gives the first.
    Gathered,
    /// Not at all: more is let through.
    LeftOut,
}

/// By the beginning, as the search has it. What is not there is gathered.
pub(super) type Beginnings = HashMap<String, Beginning>;

/// What the search is asked for, part by part, each in its language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression {
    /// All of them are wanted.
    pub(super) all: Vec<String>,
    /// None of it is; empty where nothing is unwanted.
    pub(super) none: String,
}

impl Expression {
    /// The whole of it.
    pub(super) fn text(&self) -> String {
        let all: Vec<String> = self.all.iter().map(|part| format!("({part})")).collect();
        let all = all.join(" AND ");
        if self.none.is_empty() { all } else { format!("({all}) NOT ({})", self.none) }
    }
}

impl Question {
    /// Whether the search can tell anything of it.
    pub(super) fn is_for_the_search(&self) -> bool {
        self.expression(&Beginnings::new()).is_some()
    }

    /// The beginnings that the search can be asked for, as it has them.
    pub(super) fn beginnings(&self) -> Vec<String> {
        let f = &self.filter;
        let lists = [
            (About::Namespace, &f.namespaces),
            (About::Name, &f.names),
            (About::Manager, &f.managers),
            (About::Owner, &self.owners),
        ];
        let asked = lists.into_iter().filter(|(about, _)| !self.facets_apart || !is_of_facet(*about));
        let mut all: Vec<String> =
            asked.flat_map(|(about, words)| words.each().filter_map(move |word| beginning_of(about, word))).collect();
        all.extend(self.begun_word().map(str::to_owned));
        all
    }

    /// The last word of the text, while it is not known to be whole.
    pub(super) fn begun_word(&self) -> Option<&str> {
        self.words.last().filter(|_| !self.last_is_whole).map(String::as_str)
    }

    /// What of the question the search can answer. Patterns that begin with a `*` it cannot: their rows are looked at.
    pub(super) fn expression(&self, beginnings: &Beginnings) -> Option<Expression> {
        let term = |about: About, word: &str| match word.split_once('*') {
            None => Some(quote(&search::value(about, word))),
            Some(_) => beginning(&beginning_of(about, word)?, beginnings),
        };
        let mut all = Vec::new();
        let mut none = Vec::new();
        let mut add = |about: About, words: &Words| {
            if self.facets_apart && is_of_facet(about) {
                return;
            }
            let any: Option<Vec<String>> = words.any.iter().map(|word| term(about, word)).collect();
            if let Some(any) = any.filter(|any| !any.is_empty()) {
                all.push(any.join(" OR "));
            }
            none.extend(words.none.iter().filter_map(|word| term(about, word)));
        };
        let f = &self.filter;
        for (about, words) in [
            (About::Type, &f.types),
            (About::Observed, &f.observed),
            (About::Class, &f.classes),
            (About::Manager, &f.managers),
            (About::Namespace, &f.namespaces),
            (About::Name, &f.names),
            (About::Owner, &self.owners),
        ] {
            add(about, words);
        }
        let exact = |about: About, values: &HashSet<String>| {
            let mut terms: Vec<String> = values.iter().map(|value| quote(&search::value(about, value))).collect();
            terms.sort();
            // What nothing has, for a question that nothing can answer.
            if terms.is_empty() { quote(&search::value(about, "\0")) } else { terms.join(" OR ") }
        };
        if let Some(resources) = self.resources.as_ref().filter(|_| !self.facets_apart) {
            all.push(exact(About::Resource, resources));
        }
        if !self.not_resources.is_empty() && !self.facets_apart {
            none.push(exact(About::Resource, &self.not_resources));
        }
        if let Some(hand) = f.hand {
            all.push(quote(&search::value(About::Hand, if hand { "1" } else { "0" })));
        }
        if let Some(places) = self.sight.as_ref().filter(|places| places.len() <= PLACES_IN_EXPRESSION) {
            all.push(exact(About::Access, places));
        }
        if let Some((last, others)) = self.words.split_last() {
            all.extend(others.iter().map(|word| quote(word)));
            all.extend(if self.last_is_whole { Some(quote(last)) } else { beginning(last, beginnings) });
        }
        if all.is_empty() && !none.is_empty() {
            let types = ["created", "updated", "deleted"].map(|kind| quote(&search::value(About::Type, kind)));
            all.push(types.join(" OR "));
        }
        (!all.is_empty()).then(|| Expression { all, none: none.join(" OR ") })
    }
}

/// Whether whoever counts facets asks for it itself.
fn is_of_facet(about: About) -> bool {
    matches!(about, About::Type | About::Class | About::Manager | About::Namespace)
}

/// `shop-*` as the search has it; `None` for whole values and for other patterns.
fn beginning_of(about: About, pattern: &str) -> Option<String> {
    let (start, rest) = pattern.split_once('*')?;
    (!start.is_empty() && rest.is_empty()).then(|| search::value(about, start))
}

/// What begins so; `None` where the search is not asked.
fn beginning(start: &str, beginnings: &Beginnings) -> Option<String> {
    match beginnings.get(start) {
        Some(Beginning::LeftOut) => None,
        Some(Beginning::Gathered) | None => Some(format!("{} *", quote(start))),
        // A word that nothing has, for a question that nothing can answer.
        Some(Beginning::Spelt(words)) if words.is_empty() => Some(quote(start)),
        Some(Beginning::Spelt(words)) => Some(words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" OR ")),
    }
}

fn quote(token: &str) -> String {
    format!("\"{}\"", token.replace('"', "\"\""))
}
