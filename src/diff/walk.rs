//! The walk over both documents, and what it leaves behind.

use std::rc::Rc;

use json_patch::{
    AddOperation, MoveOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation, jsonptr::PointerBuf,
};
use serde_json::{Map, Value};

use super::{
    Change, Diff, Keys, Op, lines,
    path::{Path, Side, Step},
    size,
};
use crate::redact::pair::holds_mark;

pub(super) fn walk(old: &Value, new: &Value, keys: &Keys) -> Diff {
    let mut walk = Walk::new(keys);
    walk.value(old, new);
    walk.finish()
}

/// `None` when an operation or a change holds a mark, or hangs on one.
pub(super) fn walk_marked(old: &Value, new: &Value, keys: &Keys) -> Option<Diff> {
    let mut walk = Walk::new(keys);
    walk.value(old, new);
    let of_ops = walk.patch.ops.iter().chain(&walk.inverse.ops).filter_map(Draft::value);
    let of_changes = walk.changes.iter().flat_map(|change| change.from.iter().chain(&change.to));
    if walk.inexact || of_ops.chain(of_changes).any(holds_mark) { None } else { Some(walk.finish()) }
}

impl<'a> Walk<'a> {
    fn new(keys: &'a Keys) -> Self {
        let (patch, inverse) = (Ops::default(), Ops::default());
        Self { keys, path: Path::default(), patch, inverse, changes: Vec::new(), inexact: false }
    }

    fn finish(self) -> Diff {
        let patch = self.patch.ops.into_iter().map(Draft::operation).collect();
        let inverse = self.inverse.ops.into_iter().rev().map(Draft::operation).collect();
        Diff { patch: Patch(patch), inverse: Patch(inverse), changes: self.changes }
    }
}

/// Every operation goes to both patches at once, and the inverse is turned round at the end: its operations undo those
/// of the patch, the last one first.
///
/// Operations on a list come before those inside its items. So a path inside an item always has the item's index in
/// the new list, and the operations of one subtree stand together, with nothing above it changing between them. That is
/// why [`Walk::shorten`] may replace them by one, in either patch for itself.
pub(super) struct Walk<'a> {
    pub(super) keys: &'a Keys,
    pub(super) path: Path<'a>,
    patch: Ops<'a>,
    inverse: Ops<'a>,
    pub(super) changes: Vec<Change>,
    /// A mark stood where it matters what it stands for.
    pub(super) inexact: bool,
}

/// Operations, and their length as JSON text.
#[derive(Default)]
struct Ops<'a> {
    ops: Vec<Draft<'a>>,
    bytes: usize,
}

/// An operation that may yet be dropped for a shorter one, so it owns nothing. Both patches share its paths.
enum Draft<'a> {
    Add(Rc<str>, &'a Value),
    Remove(Rc<str>),
    Replace(Rc<str>, &'a Value),
    Move(Rc<str>, Rc<str>),
}

impl<'a> Draft<'a> {
    fn value(&self) -> Option<&'a Value> {
        match self {
            Self::Add(_, value) | Self::Replace(_, value) => Some(value),
            Self::Remove(_) | Self::Move(..) => None,
        }
    }

    fn operation(self) -> PatchOperation {
        // Path makes nothing else.
        let pointer = |path: &str| PointerBuf::parse(path).expect("tokens that begin with a slash and are escaped");
        match self {
            Self::Add(path, value) => PatchOperation::Add(AddOperation { path: pointer(&path), value: value.clone() }),
            Self::Remove(path) => PatchOperation::Remove(RemoveOperation { path: pointer(&path) }),
            Self::Replace(path, value) => {
                PatchOperation::Replace(ReplaceOperation { path: pointer(&path), value: value.clone() })
            }
            Self::Move(from, path) => {
                PatchOperation::Move(MoveOperation { from: pointer(&from), path: pointer(&path) })
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    patch: OpsMark,
    inverse: OpsMark,
    pub(super) changes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct OpsMark {
    ops: usize,
    bytes: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn value(&mut self, old: &'a Value, new: &'a Value) {
        match (old, new) {
            (Value::Object(from), Value::Object(to)) => {
                let before = self.mark();
                self.object(from, to);
                self.shorten(before, old, new);
            }
            (Value::Array(from), Value::Array(to)) => {
                let before = self.mark();
                self.list(from, to);
                self.shorten(before, old, new);
            }
            _ if old == new => {}
            _ => self.replace(old, new),
        }
    }

    fn object(&mut self, old: &'a Map<String, Value>, new: &'a Map<String, Value>) {
        let (mut olds, mut news) = (old.iter(), new.iter());
        // Most objects have the same members before and after, in the same order.
        loop {
            match (olds.next(), news.next()) {
                (None, None) => return,
                (Some((name, from)), Some((other, to))) if name == other => self.member(name, from, to),
                (from, to) => {
                    for (name, from) in from.into_iter().chain(olds) {
                        match new.get(name) {
                            Some(to) => self.member(name, from, to),
                            None => self.at(Step::Member(name), |walk| walk.remove(from)),
                        }
                    }
                    for (name, to) in to.into_iter().chain(news) {
                        if !old.contains_key(name) {
                            self.at(Step::Member(name), |walk| walk.add(to));
                        }
                    }
                    return;
                }
            }
        }
    }

    fn member(&mut self, name: &'a str, old: &'a Value, new: &'a Value) {
        let same = match (old, new) {
            (Value::String(old), Value::String(new)) => old == new,
            (Value::Object(_), Value::Object(_)) | (Value::Array(_), Value::Array(_)) => false,
            _ => old == new,
        };
        if !same {
            self.at(Step::Member(name), |walk| walk.value(old, new));
        }
    }

    pub(super) fn at(&mut self, step: Step<'a>, there: impl FnOnce(&mut Self)) {
        self.path.push(step);
        there(self);
        self.path.pop();
    }

    fn add(&mut self, value: &'a Value) {
        let path = self.path.pointer(Side::New).into();
        self.insert(path, value);
        self.added(value);
    }

    fn remove(&mut self, value: &'a Value) {
        let path = self.path.pointer(Side::New).into();
        self.take_out(path, value);
        self.removed(value);
    }

    fn replace(&mut self, old: &'a Value, new: &'a Value) {
        let path: Rc<str> = self.path.pointer(Side::New).into();
        self.inverse.replace(path.clone(), old);
        self.patch.replace(path, new);
        self.replaced(old, new);
    }

    pub(super) fn insert(&mut self, path: Rc<str>, value: &'a Value) {
        self.inverse.remove(path.clone());
        self.patch.add(path, value);
    }

    pub(super) fn take_out(&mut self, path: Rc<str>, value: &'a Value) {
        self.inverse.add(path.clone(), value);
        self.patch.remove(path);
    }

    pub(super) fn relocate(&mut self, from: Rc<str>, to: Rc<str>) {
        self.inverse.relocate(to.clone(), from.clone());
        self.patch.relocate(from, to);
    }

    pub(super) fn added(&mut self, value: &Value) {
        self.change(Op::Add, Side::New, None, Some(value.clone()));
    }

    pub(super) fn removed(&mut self, value: &Value) {
        self.change(Op::Remove, Side::Old, Some(value.clone()), None);
    }

    pub(super) fn moved(&mut self, from: usize, to: usize) {
        self.change(Op::Move, Side::New, Some(from.into()), Some(to.into()));
    }

    pub(super) fn replaced(&mut self, old: &Value, new: &Value) {
        if let (Value::String(from), Value::String(to)) = (old, new)
            && lines::are_worth_it(from, to)
        {
            self.change(Op::Replace, Side::New, None, None);
            if let Some(change) = self.changes.last_mut() {
                change.lines = Some(lines::unified(from, to));
            }
        } else {
            self.change(Op::Replace, Side::New, Some(old.clone()), Some(new.clone()));
        }
    }

    fn change(&mut self, op: Op, side: Side, from: Option<Value>, to: Option<Value>) {
        let (path, field) = (self.path.pointer(side).to_owned(), self.path.field(side).to_owned());
        self.changes.push(Change { op, path, field, from, to, lines: None });
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { patch: self.patch.mark(), inverse: self.inverse.mark(), changes: self.changes.len() }
    }

    /// Whether the patch got just one operation since then, on the place where the walk is.
    pub(super) fn is_one_replace(&mut self, since: Mark) -> bool {
        match &self.patch.ops[since.patch.ops..] {
            [Draft::Replace(path, _)] => **path == *self.path.pointer(Side::New),
            _ => false,
        }
    }

    /// Replaces the container where the walk is by its new value, if that is shorter than what was done inside it.
    fn shorten(&mut self, since: Mark, old: &'a Value, new: &'a Value) {
        if self.path.is_root() || self.patch.mark() == since.patch {
            return;
        }
        self.patch.shorten(since.patch, new, &mut self.path);
        self.inverse.shorten(since.inverse, old, &mut self.path);
    }
}

impl<'a> Ops<'a> {
    fn mark(&self) -> OpsMark {
        OpsMark { ops: self.ops.len(), bytes: self.bytes }
    }

    fn add(&mut self, path: Rc<str>, value: &'a Value) {
        self.bytes += r#"{"op":"add","path":,"value":},"#.len() + size::of_str(&path) + full_size(value);
        self.ops.push(Draft::Add(path, value));
    }

    fn remove(&mut self, path: Rc<str>) {
        self.bytes += r#"{"op":"remove","path":},"#.len() + size::of_str(&path);
        self.ops.push(Draft::Remove(path));
    }

    fn replace(&mut self, path: Rc<str>, value: &'a Value) {
        self.bytes += REPLACE + size::of_str(&path) + full_size(value);
        self.ops.push(Draft::Replace(path, value));
    }

    fn relocate(&mut self, from: Rc<str>, path: Rc<str>) {
        self.bytes += r#"{"op":"move","from":,"path":},"#.len() + size::of_str(&from) + size::of_str(&path);
        self.ops.push(Draft::Move(from, path));
    }

    fn shorten(&mut self, since: OpsMark, value: &'a Value, path: &mut Path<'_>) {
        // The container of one replaced value is longer than that value.
        if let [Draft::Replace(..)] = &self.ops[since.ops..] {
            return;
        }
        let limit = (self.bytes - since.bytes).saturating_sub(REPLACE + 2);
        if size::of_value(value, limit) >= limit {
            return;
        }
        let path = path.pointer(Side::New);
        if REPLACE + size::of_str(path) + full_size(value) < self.bytes - since.bytes {
            self.ops.truncate(since.ops);
            self.bytes = since.bytes;
            self.replace(path.into(), value);
        }
    }
}

const REPLACE: usize = r#"{"op":"replace","path":,"value":},"#.len();

fn full_size(value: &Value) -> usize {
    size::of_value(value, usize::MAX)
}
