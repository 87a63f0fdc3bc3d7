//! Who set each line of a document last: its patches are played onto a tree of the same shape, in which every place
//! remembers the event that wrote it. What is kept of events is what the places name: however long a life was, it takes no
//! more room than the document.

mod tree;

use std::{ops::Range, rc::Rc};

use jiff::Timestamp;
use json_patch::Patch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::tree::Node;
use super::{
    Error, History, Name,
    objects::{Life, State, What, When},
    timestamp,
};
use crate::{
    diff::Op,
    event::{Actor, actors::Managed, by_hand, render::yaml::yaml_lines},
    ledger,
};

/// A line of the document as YAML.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    pub text: String,
    /// JSON pointer.
    pub path: String,
    /// The id of the event that set it last; none where that is older than what is kept, or than the 100,000 changes of the
    /// object before.
    pub event: Option<String>,
    /// Without an event, when its owner last wrote the object, where that was before everything that is known.
    pub time: Option<Timestamp>,
    /// Without an event, the owner in the object's managedFields.
    pub manager: Option<String>,
    pub hand: bool,
}

/// An event that wrote something that is still there. Of a long life there are as many as the document has places, however
/// many events there were: one that has written nothing of what is left is gone with the last place that named it.
#[derive(Debug)]
pub(super) struct Wrote {
    pub(super) id: String,
    time: Timestamp,
    /// Who made it, without when and which changes.
    actors: Vec<Actor>,
}

/// Who wrote a place: an event, or one of several managers in it.
#[derive(Clone, Debug)]
pub(super) struct By {
    pub(super) wrote: Rc<Wrote>,
    /// Which of its actors; none where that is to be found out.
    actor: Option<usize>,
}

impl PartialEq for By {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.wrote, &other.wrote) && self.actor == other.actor
    }
}

impl By {
    fn new(event: &Played) -> Self {
        let actors = event.actors.iter().map(|actor| Actor { time: None, changes: Vec::new(), ..actor.clone() });
        let wrote = Wrote { id: event.id.clone(), time: event.time, actors: actors.collect() };
        Self { actor: (wrote.actors.len() == 1).then_some(0), wrote: Rc::new(wrote) }
    }

    fn of(&self, actor: usize) -> Self {
        Self { actor: Some(actor), ..self.clone() }
    }

    /// Who wrote a place. What the event does not say its owner today does, if that is one of them; else whoever writes
    /// that part of objects.
    fn manager(&self, path: &str, owner: impl FnOnce() -> Option<Actor>) -> Option<&str> {
        let actors = &self.wrote.actors;
        let known = self.actor.and_then(|actor| actors.get(actor));
        let owns = || {
            let owner = owner()?;
            actors.iter().find(|actor| {
                (&actor.manager, &actor.operation, &actor.subresource)
                    == (&owner.manager, &owner.operation, &owner.subresource)
            })
        };
        let in_status = path.starts_with("/status");
        let of_part = || actors.iter().find(|actor| (actor.subresource == "status") == in_status);
        let actor = known.or_else(|| if actors.is_empty() { None } else { owns() }).or_else(of_part);
        actor.or(actors.first()).map(|actor| actor.manager.as_str())
    }
}

/// What blame needs of an event: the rest is not even made of its text.
#[derive(Deserialize)]
struct Played {
    id: String,
    time: Timestamp,
    #[serde(default)]
    actors: Vec<Actor>,
    #[serde(default)]
    changes: Vec<Touched>,
    patch: Option<Patch>,
    object: Option<Value>,
}

#[derive(Deserialize)]
struct Touched {
    op: Op,
    path: String,
}

impl History {
    /// The lines of an object as it is or was at a time, and that state. No lines when it did not exist.
    pub fn blame(&mut self, name: &Name, when: When) -> Result<(Vec<Line>, State), Error> {
        let (state, tree, now) = self.at_once(|history| {
            let life = history.life(name)?;
            let k = life.up_to(when)?;
            let state = history.state(&life, k, when)?;
            // What did not exist has no lines.
            let tree = state.object.as_ref().map(|object| history.authors(&life, k, object)).transpose()?;
            Ok((state, tree, life.now))
        })?;
        let (Some(document), Some(tree)) = (&state.object, tree) else { return Ok((Vec::new(), state)) };
        let managed = now.as_ref().map(|(value, managed)| (value, Managed::parse(managed)));
        // What it was then is asked of the owners of today where it still is the same.
        let owner = |path: &str| {
            let (now, managed) = managed.as_ref()?;
            let same = now.pointer(path)? == document.pointer(path)?;
            if same { managed.owner(now, path) } else { None }
        };
        let lines = yaml_lines(document).into_iter().map(|(text, path)| match tree.find(&path) {
            Some(by) => {
                let manager = by.manager(&path, || owner(&path)).map(str::to_owned);
                let (event, time) = (Some(by.wrote.id.clone()), timestamp(by.wrote.time.as_millisecond()));
                let hand = manager.as_deref().is_some_and(by_hand);
                Line { text, path, event, time: Some(time), manager, hand }
            }
            None => {
                let owner = owner(&path);
                let hand = owner.as_ref().is_some_and(|owner| by_hand(&owner.manager));
                // A later write of the owner is known here, and was of other lines.
                let time = owner.as_ref().and_then(|owner| owner.time).filter(|time| *time < state.since);
                Line { text, path, event: None, time, manager: owner.map(|owner| owner.manager), hand }
            }
        });
        let lines = lines.collect();
        Ok((lines, state))
    }

    /// The tree of the document that the first `k` events led to.
    pub(super) fn authors(&self, life: &Life, k: usize, wanted: &Value) -> Result<Node<By>, Error> {
        let gap = || Error::Gap(life.name.to_string());
        // Half as many as are played to find out what it was, from where this begins.
        let most = self.most_played / 2;
        let created = (0..k).rev().find(|i| life.steps[*i].what == What::Created);
        if let Some(begin) = created.filter(|begin| k - begin <= most) {
            let event = self.played(life.steps[begin].seq)?.ok_or_else(gap)?;
            let by = By::new(&event);
            let document = event.object.ok_or_else(gap)?;
            let tree = Node::new(&document, Some(&by));
            if let Ok((document, tree)) = self.play(life, begin + 1..k, document, tree)
                && document == *wanted
            {
                return Ok(tree);
            }
        }
        // From the oldest state that is known without a gap, or from as far back as is played.
        let from = (k.saturating_sub(most)..k)
            .find(|i| life.steps[*i].time >= life.watched && life.has_all_from(*i))
            .unwrap_or(k);
        let document = self.document(life, from)?.ok_or_else(gap)?;
        let tree = Node::new(&document, None);
        let (document, tree) = self.play(life, from..k, document, tree)?;
        if document == *wanted { Ok(tree) } else { Err(gap()) }
    }

    fn play(
        &self,
        life: &Life,
        steps: Range<usize>,
        mut document: Value,
        mut tree: Node<By>,
    ) -> Result<(Value, Node<By>), Error> {
        let gap = || Error::Gap(life.name.to_string());
        for step in &life.steps[steps] {
            let event = self.played(step.seq)?.ok_or_else(gap)?;
            let all = By::new(&event);
            tree.play(&mut document, event.patch.as_ref().ok_or_else(gap)?, &all).ok_or_else(gap)?;
            for (actor, changes) in event.actors.iter().map(|actor| &actor.changes).enumerate() {
                // Their paths are those of the document that the event left.
                let there = changes.iter().filter_map(|at| event.changes.get(*at)).filter(|c| c.op != Op::Remove);
                there.for_each(|change| tree.hand_over(&change.path, &all, &all.of(actor)));
            }
        }
        Ok((document, tree))
    }

    fn played(&self, seq: i64) -> Result<Option<Played>, Error> {
        Ok(ledger::rows::read(self.connection(), seq)?.map(|(_, event)| event))
    }
}

/// The value at a JSON pointer.
fn lookup<'a>(document: &'a Value, pointer: &str) -> Option<&'a Value> {
    document.pointer(pointer)
}
