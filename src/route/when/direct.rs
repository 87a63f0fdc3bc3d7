//! The expressions that people write most, asked of the event itself: no value is made of it, nothing is allocated.
//!
//! [`lower`] takes an expression that was checked, or leaves it to the general evaluation. Both give the same answers; a
//! test compares them. `None` for an answer is CEL's error of a key that is not there, which `&&` and `||` may overrule.

mod lower;

use std::time::Duration;

use serde_json::Value as Json;

pub(super) use self::lower::lower;
use super::{Failure, clock::Clock, pattern::Pattern};
use crate::{
    diff::Change,
    event::{Actor, Event},
};

/// A truth about an event.
#[derive(Debug)]
pub(super) enum Test {
    Constant(bool),
    Not(Box<Test>),
    And(Box<Test>, Box<Test>),
    Or(Box<Test>, Box<Test>),
    Same(Text, Text),
    StartsWith(Text, Text),
    EndsWith(Text, Text),
    Contains(Text, Text),
    Matches(Text, Pattern),
    /// `'x' in event.classes`, `'x' in event.resource.labels`
    In(Text, List),
    OneOf(Text, Vec<Text>),
    Compare(Number, fn(i64, i64) -> bool, Number),
    /// `c.to == 'x'`, of the item that the loop of this depth is at.
    Value(usize, fn(&Change) -> &Option<Json>, Literal),
    Exists(List, Box<Test>),
    All(List, Box<Test>),
}

#[derive(Debug)]
pub(super) enum Text {
    Literal(Box<str>),
    Of(fn(&Event) -> &str),
    /// Of the item that the loop of this depth is at.
    OfChange(usize, fn(&Change) -> &str),
    OfActor(usize, fn(&Actor) -> &str),
    Word(usize),
    Label(Box<Text>),
}

/// What a value is compared with.
#[derive(Debug)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Text(Box<str>),
}

#[derive(Debug)]
pub(super) enum Number {
    Literal(i64),
    Generation,
    Size(List),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum List {
    Changes,
    Actors,
    Classes,
    /// Their keys.
    Labels,
}

#[derive(Clone, Copy)]
enum Item<'e> {
    Change(&'e Change),
    Actor(&'e Actor),
    Word(&'e str),
}

/// Bytes of text that are looked at between two looks at the clock.
const STRIDE: usize = 4 << 10;

/// One evaluation.
struct Walk<'e> {
    /// The items that the loops are at, from the outermost.
    items: Vec<Item<'e>>,
    /// Bytes of text that were looked at since the clock was.
    seen: usize,
    limit: Duration,
    /// Begun when there was enough to look at.
    clock: Option<Clock>,
}

type Items<'a, 'e> = &'a mut Walk<'e>;

impl<'e> Walk<'e> {
    fn get(&self, at: usize) -> Option<&Item<'e>> {
        self.items.get(at)
    }

    /// Before a text of this length is looked at. `None` when there is no time left.
    fn look_at(&mut self, bytes: usize) -> Option<()> {
        self.seen = self.seen.saturating_add(bytes);
        if self.seen < STRIDE {
            return Some(());
        }
        self.seen = 0;
        let limit = self.limit;
        self.clock.get_or_insert_with(|| Clock::new(limit)).tick().ok()
    }
}

/// Whether it holds, `false` where something is missing.
pub(super) fn holds(test: &Test, event: &Event, limit: Duration) -> Result<bool, Failure> {
    let mut walk = Walk { items: Vec::new(), seen: 0, limit, clock: None };
    let answer = test.ask(event, &mut walk);
    match walk.clock.and_then(|clock| clock.failure()) {
        Some(failure) => Err(failure),
        None => Ok(answer == Some(true)),
    }
}

impl Test {
    fn ask<'e>(&'e self, event: &'e Event, items: Items<'_, 'e>) -> Option<bool> {
        let both = |a: &'e Text, b: &'e Text, test: fn(&str, &str) -> bool, items: Items<'_, 'e>| {
            let (a, b) = (a.get(event, items)?, b.get(event, items)?);
            items.look_at(a.len())?;
            Some(test(a, b))
        };
        match self {
            Self::Constant(answer) => Some(*answer),
            Self::Not(test) => test.ask(event, items).map(|answer| !answer),
            Self::And(a, b) => fold(false, [a, b].into_iter(), |test| test.ask(event, items)),
            Self::Or(a, b) => fold(true, [a, b].into_iter(), |test| test.ask(event, items)),
            Self::Same(a, b) => both(a, b, |a, b| a == b, items),
            Self::StartsWith(a, b) => both(a, b, |a, b| a.starts_with(b), items),
            Self::EndsWith(a, b) => both(a, b, |a, b| a.ends_with(b), items),
            Self::Contains(a, b) => both(a, b, |a, b| a.contains(b), items),
            Self::Matches(text, pattern) => {
                let text = text.get(event, items)?;
                items.look_at(text.len())?;
                pattern.is_match(text, items.clock.as_ref()).ok()
            }
            Self::In(text, list) => {
                let text = text.get(event, items)?;
                Some(match list {
                    List::Labels => event.resource.labels.contains_key(text),
                    list => list.items(event).any(|item| matches!(item, Item::Word(word) if word == text)),
                })
            }
            Self::OneOf(text, all) => {
                let text = text.get(event, items)?;
                let mut found = false;
                for one in all {
                    found |= one.get(event, items)? == text;
                }
                Some(found)
            }
            Self::Compare(a, test, b) => Some(test(a.get(event), b.get(event))),
            Self::Value(at, field, literal) => match items.get(*at)? {
                Item::Change(change) => Some(literal.is(field(change).as_ref())),
                _ => None,
            },
            Self::Exists(list, test) => list.each(event, items, true, test),
            Self::All(list, test) => list.each(event, items, false, test),
        }
    }
}

/// `||` when `decides` is true, `&&` when it is false: one such answer is enough, whatever is missing elsewhere.
fn fold<T>(decides: bool, all: impl Iterator<Item = T>, mut ask: impl FnMut(T) -> Option<bool>) -> Option<bool> {
    let mut answer = Some(!decides);
    for one in all {
        match ask(one) {
            Some(said) if said == decides => return Some(decides),
            Some(_) => {}
            None => answer = None,
        }
    }
    answer
}

impl Text {
    fn get<'e>(&'e self, event: &'e Event, items: &Walk<'e>) -> Option<&'e str> {
        Some(match self {
            Self::Literal(text) => text,
            Self::Of(field) => field(event),
            Self::OfChange(at, field) => match items.get(*at)? {
                Item::Change(change) => field(change),
                _ => return None,
            },
            Self::OfActor(at, field) => match items.get(*at)? {
                Item::Actor(actor) => field(actor),
                _ => return None,
            },
            Self::Word(at) => match items.get(*at)? {
                Item::Word(word) => word,
                _ => return None,
            },
            Self::Label(key) => event.resource.labels.get(key.get(event, items)?)?,
        })
    }
}

impl Literal {
    /// Values of different types are different; numbers are equal by what they are worth.
    fn is(&self, value: Option<&Json>) -> bool {
        match (self, value.unwrap_or(&Json::Null)) {
            (Self::Null, Json::Null) => true,
            (Self::Bool(wanted), Json::Bool(found)) => wanted == found,
            (Self::Text(wanted), Json::String(found)) => **wanted == **found,
            (Self::Int(wanted), Json::Number(found)) => match (found.as_i64(), found.is_f64()) {
                (Some(found), _) => *wanted == found,
                (None, true) => found.as_f64() == Some(*wanted as f64),
                (None, false) => false,
            },
            _ => false,
        }
    }
}

impl Number {
    fn get(&self, event: &Event) -> i64 {
        match self {
            Self::Literal(number) => *number,
            Self::Generation => event.resource.generation.unwrap_or_default(),
            Self::Size(list) => i64::try_from(list.len(event)).unwrap_or(i64::MAX),
        }
    }
}

impl List {
    fn len(self, event: &Event) -> usize {
        match self {
            Self::Changes => event.changes.len(),
            Self::Actors => event.actors.len(),
            Self::Classes => event.classes.len(),
            Self::Labels => event.resource.labels.len(),
        }
    }

    fn items(self, event: &Event) -> impl Iterator<Item = Item<'_>> {
        let changes = matches!(self, Self::Changes).then_some(event.changes.iter().map(Item::Change));
        let actors = matches!(self, Self::Actors).then_some(event.actors.iter().map(Item::Actor));
        let classes = event.classes.iter().map(|class| Item::Word(class.as_str()));
        let classes = matches!(self, Self::Classes).then_some(classes);
        let labels = event.resource.labels.keys().map(|key| Item::Word(key));
        let labels = matches!(self, Self::Labels).then_some(labels);
        let rest = classes.into_iter().flatten().chain(labels.into_iter().flatten());
        changes.into_iter().flatten().chain(actors.into_iter().flatten()).chain(rest)
    }

    fn each<'e>(self, event: &'e Event, items: Items<'_, 'e>, decides: bool, test: &'e Test) -> Option<bool> {
        fold(decides, self.items(event), |item| {
            items.items.push(item);
            let answer = test.ask(event, items);
            items.items.pop();
            answer
        })
    }
}

/// The width of the lists that an event has before its values are looked at.
pub(super) fn width(event: &Event) -> usize {
    [List::Changes, List::Actors, List::Classes, List::Labels]
        .map(|list| list.len(event))
        .into_iter()
        .max()
        .unwrap_or(0)
}
