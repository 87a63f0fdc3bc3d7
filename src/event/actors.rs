//! Who: the field managers that made a change, by comparing `metadata.managedFields` before and after and matching what
//! differs to the paths that changed.
//!
//! What the API server records, and so what can be known:
//! - an Update or Apply that sets a field makes its manager the field's owner and renews the time of its entry, which has
//!   a resolution of a second: two updates in one second may leave the entries equal;
//! - an Update that takes a field away leaves no trace of itself; the field only leaves the sets that held it;
//! - an Apply always renews its own time, so an Apply entry that shrank at an unchanged time was shrunk by someone else;
//! - who deleted an object, or asked to, is not recorded: such events name nobody.

mod share;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, cell::Cell};

use jiff::Timestamp;
use serde::{Deserialize, de::Deserializer};
use serde_json::{Value, value::RawValue};

pub(super) use self::share::share;
use super::{
    Actor,
    path::{Spot, Step},
};
use crate::diff::{Change, Op};

/// Field managers that are a person's own tools. A manager belongs to the list when its name is one of these or goes on
/// after it with something that is no letter: `kubectl-edit`, `python-requests`, `Mozilla/5.0`.
pub const BY_HAND: &[&str] = &[
    // Command lines. `kubectl` alone is `kubectl apply --server-side`.
    "kubectl",
    "oc",
    "k9s",
    "kubecolor",
    "k3s-kubectl",
    "istioctl",
    "virtctl",
    "cmctl",
    "calicoctl",
    "argo",
    "argocd-cli",
    // Desktop programs and dashboards; `node-fetch` is what Lens calls itself.
    "lens",
    "openlens",
    "freelens",
    "node-fetch",
    "headlamp",
    "dashboard",
    "octant",
    "aptakube",
    "monokle",
    "seabird",
    "kubenav",
    "mozilla",
    // Scripts and plain HTTP.
    "curl",
    "wget",
    "httpie",
    "postmanruntime",
    "insomnia",
    "powershell",
    "python",
    "python3",
    "python-requests",
    "openapi-generator",
    "ipython",
    "ruby",
    "perl",
];

/// How much is read of sets for one event, in names and in [`STEP`] bytes. A change of a thousand fields by a manager that
/// owns a thousand others would cost a million; what is not matched by then is told by the times of the entries.
const STEPS: u32 = 400_000;
const STEP: usize = 32;

/// Whether the manager is a program that people use directly, and no controller, GitOps agent or helm.
pub fn by_hand(manager: &str) -> bool {
    let manager = manager.as_bytes();
    BY_HAND.iter().any(|tool| {
        manager.len() >= tool.len()
            && manager[..tool.len()].eq_ignore_ascii_case(tool.as_bytes())
            && manager.get(tool.len()).is_none_or(|next| !next.is_ascii_alphanumeric())
    }) && !manager.ends_with(b"-controller")
}

/// The managers of an object's first version.
pub fn of_created(managed_fields: &[u8]) -> Vec<Actor> {
    let entries: Vec<Entry> = split(managed_fields).into_iter().filter_map(parse).collect();
    finish(entries.iter().collect())
}

/// The managers that made an update. `before` and `after` are the JSON text of the two `managedFields` arrays; only
/// entries whose text differs are looked into.
pub(super) fn of_update(before: &[u8], after: &[u8], spots: &[Spot<'_>]) -> Vec<Actor> {
    let (old_raw, new_raw) = (split(before), split(after));
    let differs = |raw: &&str, others: &[&str]| !others.contains(raw);
    let old: Vec<Entry> = old_raw.iter().copied().filter(|raw| differs(raw, &new_raw)).filter_map(parse).collect();
    let new: Vec<Entry> = new_raw.iter().copied().filter(|raw| differs(raw, &old_raw)).filter_map(parse).collect();

    let budget = Cell::new(STEPS);
    let (set, unset): (Vec<&Spot>, Vec<&Spot>) = spots.iter().partition(|spot| !spot.removed());
    let before = |entry: &Entry| old.iter().find(|o| o.same_manager(entry));
    let renewed = |entry: &Entry| before(entry).is_none_or(|o| o.time != entry.time);
    // Who sets a field is renewed, or gains it within the second of its last change. An entry that only lost something
    // did nothing.
    let (acting, idle): (Vec<Entry>, Vec<Entry>) = new
        .into_iter()
        .partition(|entry| renewed(entry) || before(entry).is_some_and(|o| entry.fields().beyond(o.fields(), &budget)));
    let mut actors = owners(&acting.iter().collect::<Vec<_>>(), &set, &budget);
    for entry in acting.iter().filter(|entry| renewed(entry)) {
        let dropped = || before(entry).is_some_and(|o| unset.iter().any(|spot| o.depth(spot, &budget).is_some()));
        if !actors.iter().any(|actor| std::ptr::eq(*actor, entry)) && dropped() {
            actors.push(entry);
        }
    }
    if actors.is_empty() {
        actors = acting.iter().filter(|entry| renewed(entry)).collect();
    }
    if !actors.is_empty() {
        return finish(actors);
    }
    // Something was only taken away. The manager whose Update entry lost it, or which is gone with all it had, is the one
    // that most likely did it.
    if set.is_empty() {
        let lost: Vec<&Entry> = old.iter().filter(|o| o.operation != "Apply").collect();
        let removed = owners(&lost, &unset, &budget);
        if !removed.is_empty() || !idle.is_empty() {
            return finish(removed);
        }
    }
    // No entry moved: its last change was made in the same second. Whoever owns what changed did it.
    let all: Vec<Entry> = new_raw.into_iter().filter_map(parse).collect();
    let mut owners = owners(&all.iter().collect::<Vec<_>>(), &set, &budget);
    let newest = owners.iter().filter_map(|entry| entry.time).max();
    owners.retain(|entry| entry.time == newest);
    finish(owners)
}

/// The entries of `managedFields`, to be asked who owns what.
#[derive(Debug)]
pub struct Managed<'a>(Vec<Entry<'a>>);

impl<'a> Managed<'a> {
    pub fn parse(managed_fields: &'a [u8]) -> Self {
        Self(split(managed_fields).into_iter().filter_map(parse).collect())
    }

    /// Who owns a place in the document, by its JSON pointer; of several the one that changed the object last.
    pub fn owner(&self, document: &Value, pointer: &str) -> Option<Actor> {
        let change = Change {
            op: Op::Replace,
            path: pointer.to_owned(),
            field: String::new(),
            from: None,
            to: None,
            lines: None,
        };
        let spot = Spot::locate(&change, document, document);
        let found = owners(&self.0.iter().collect::<Vec<_>>(), &[&spot], &Cell::new(STEPS));
        finish(found).into_iter().next()
    }
}

/// Those that own one of the places. Of a place in a map that one owns as such and another one owns by its key, the
/// latter is the owner: the set of a manager that lost all keys of a map reads as if it owned the whole of it.
fn owners<'e, 't>(entries: &[&'e Entry<'t>], spots: &[&Spot<'_>], budget: &Cell<u32>) -> Vec<&'e Entry<'t>> {
    let mut owns = vec![false; entries.len()];
    for spot in spots {
        let depths: Vec<Option<usize>> = entries.iter().map(|entry| entry.depth(spot, budget)).collect();
        let deepest = depths.iter().max().copied().flatten();
        for (owns, depth) in owns.iter_mut().zip(depths) {
            *owns |= deepest.is_some() && depth == deepest;
        }
    }
    entries.iter().zip(owns).filter(|(_, owns)| *owns).map(|(entry, _)| *entry).collect()
}

/// The newest first; one line per manager, operation and subresource.
fn finish(mut entries: Vec<&Entry<'_>>) -> Vec<Actor> {
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.time));
    let mut actors: Vec<Actor> = Vec::with_capacity(entries.len());
    for entry in entries {
        let actor = Actor {
            manager: entry.manager.to_string(),
            operation: entry.operation.to_string(),
            subresource: entry.subresource.to_string(),
            time: entry.time,
            changes: Vec::new(),
        };
        let same = |a: &Actor| {
            (&a.manager, &a.operation, &a.subresource) == (&actor.manager, &actor.operation, &actor.subresource)
        };
        if !actors.iter().any(same) {
            actors.push(actor);
        }
    }
    actors
}

/// The entries of the array as text; what is no array of objects has none. The door wrote it, without spaces, and
/// `fieldsV1` holds no arrays: between two entries, and nowhere else outside of strings, stands `},{`, and within a
/// string it cannot be followed by a quote.
fn split(managed_fields: &[u8]) -> Vec<&str> {
    let array = std::str::from_utf8(managed_fields).ok().and_then(|text| text.strip_prefix('[')?.strip_suffix(']'));
    let Some(entries) = array.filter(|entries| !entries.is_empty()) else { return Vec::new() };
    let (mut found, mut from) = (Vec::new(), 0);
    for at in memchr::memmem::find_iter(entries.as_bytes(), b"},{\"") {
        found.push(&entries[from..=at]);
        from = at + 2;
    }
    found.push(&entries[from..]);
    found
}

/// An entry that does not look like one is passed over: it came from outside.
fn parse(entry: &str) -> Option<Entry<'_>> {
    serde_json::from_str(entry).ok()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(borrow, default)]
    subresource: Cow<'a, str>,
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(default, deserialize_with = "lenient_time")]
    time: Option<Timestamp>,
    #[serde(borrow, default, rename = "fieldsV1")]
    fields: Option<&'a RawValue>,
}

fn lenient_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = <Option<Cow<'de, str>>>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

impl<'a> Entry<'a> {
    fn fields(&self) -> Fields<'a> {
        Fields(self.fields.map_or("", RawValue::get))
    }

    fn same_manager(&self, other: &Entry<'_>) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && self.api_version == other.api_version
    }

    /// How far down the set follows the place; `None` when it does not hold it.
    fn depth(&self, spot: &Spot<'_>, budget: &Cell<u32>) -> Option<usize> {
        let fields = self.fields();
        if fields.0.starts_with("{\"") { fields.depth(&spot.steps, budget) } else { None }
    }
}

/// A `fieldsV1` set: `f:spec`, `k:{"name":"web"}`, `v:"x"`, `i:0` and `.` lead to the sets inside. It is its text, without
/// spaces as the door wrote it, and is walked at each question: to build the set of a whole Pod costs more than most
/// changes ask of it. What is no object is an empty set.
#[derive(Clone, Copy, Debug, Default)]
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    fn sets(self) -> Sets<'a> {
        Sets(self.0.strip_prefix('{').unwrap_or_default())
    }

    /// How many steps lead to the path, or to something inside it, or to a leaf, which owns all that is below; `None`
    /// when the set does not hold it, or nothing is left to look for it. `.` owns that a map or an item is there, and
    /// nothing in it.
    fn depth(self, path: &[Step<'_>], budget: &Cell<u32>) -> Option<usize> {
        let Some((step, rest)) = path.split_first() else { return Some(0) };
        let (mut sets, mut leaf, mut found) = (self.sets(), true, None);
        // To read the next one is what costs.
        while budget.get() > 0 {
            let Some((name, inside)) = sets.next() else {
                return if leaf { Some(0) } else { found.map(|depth| depth + 1) };
            };
            spend(budget, inside);
            leaf = false;
            if leads(&name, step) {
                found = found.max(inside.depth(rest, budget));
            }
        }
        found.map(|depth| depth + 1)
    }

    /// Whether the set holds something that the other one does not, as far as there is something left to look for it.
    fn beyond(self, other: Self, budget: &Cell<u32>) -> bool {
        if budget.get() == 0 {
            return false;
        }
        let others: Vec<_> = other.sets().take_while(|(_, inside)| spend(budget, *inside)).collect();
        // Sets are sorted as a rule, so that the next one is found where the last one was.
        let mut at = 0;
        self.sets().filter(|(name, _)| name != ".").any(|(name, inside)| {
            let mut from_here = (at..others.len()).chain(0..at).take_while(|_| spend(budget, Fields::default()));
            let Some(i) = from_here.find(|i| others[*i].0 == name) else { return budget.get() > 0 };
            at = i + 1;
            inside.beyond(others[i].1, budget)
        })
    }
}

/// The sets inside of one, with the names that lead there: the text from the next name on. It ends where that is not as it
/// should be.
struct Sets<'a>(&'a str);

impl<'a> Iterator for Sets<'a> {
    type Item = (Cow<'a, str>, Fields<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.0.as_bytes();
        let quoted = string_end(bytes, 0)?;
        let name = &self.0[1..quoted - 1];
        // `k:{\"name\":...}` has escapes.
        let name = match name.contains('\\') {
            true => Cow::Owned(serde_json::from_str(&self.0[..quoted]).ok()?),
            false => Cow::Borrowed(name),
        };
        let end = value_end(bytes, quoted + 1)?;
        let inside = Fields(&self.0[quoted + 1..end]);
        self.0 = if bytes.get(end) == Some(&b',') { &self.0[end + 1..] } else { "" };
        Some((name, inside))
    }
}

/// The place after the string that begins here.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The place after the value that begins here.
fn value_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    // Most sets are leaves.
    if bytes.get(at..)?.starts_with(b"{}") {
        return Some(at + 2);
    }
    let mut open = 0_usize;
    loop {
        match bytes.get(at)? {
            b'"' => at = string_end(bytes, at)? - 1,
            b'{' | b'[' => open += 1,
            b'}' | b']' if open <= 1 => return Some(at + open),
            b'}' | b']' => open -= 1,
            b',' if open == 0 => return Some(at),
            _ => {}
        }
        at += 1;
    }
}

/// Whether there is something left for another set.
fn spend(budget: &Cell<u32>, set: Fields<'_>) -> bool {
    let steps = u32::try_from(1 + set.0.len() / STEP).unwrap_or(u32::MAX);
    let left = budget.get();
    budget.set(left.saturating_sub(steps));
    left > 0
}

fn leads(name: &str, step: &Step<'_>) -> bool {
    match (name.split_once(':'), step) {
        (Some(("f", name)), Step::Key(key)) => name == key.as_ref(),
        (Some(("k", keys)), Step::Item(item)) => {
            // Most items are told apart by their name: that can be seen without parsing.
            if keys.starts_with("{\"name\":") && item["name"].as_str().is_some_and(|name| !keys.contains(name)) {
                return false;
            }
            let Ok(Value::Object(keys)) = serde_json::from_str(keys) else { return false };
            keys.iter().all(|(key, want)| item.get(key).is_none_or(|value| value == want))
        }
        (Some(("v", value)), Step::Item(item)) => serde_json::from_str::<Value>(value).is_ok_and(|v| v == **item),
        _ => false,
    }
}
