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

use std::{
    borrow::Cow,
    cell::{Cell, OnceCell},
    fmt,
};

use jiff::Timestamp;
use serde::{
    Deserialize,
    de::{Deserializer, IgnoredAny, MapAccess, Visitor},
};
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

/// How many names are compared for one event. A change of a thousand fields by a manager that owns a thousand others
/// would cost a million; what is not matched by then is told by the times of the entries.
const COMPARISONS: u32 = 200_000;

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

    let budget = Cell::new(COMPARISONS);
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
        let found = owners(&self.0.iter().collect::<Vec<_>>(), &[&spot], &Cell::new(COMPARISONS));
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
    text: Option<&'a RawValue>,
    /// Read when it is first asked for: of most entries nobody asks.
    #[serde(skip)]
    fields: OnceCell<Fields<'a>>,
}

fn lenient_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = <Option<Cow<'de, str>>>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

impl<'a> Entry<'a> {
    fn fields(&self) -> &Fields<'a> {
        let read = || self.text.and_then(|text| serde_json::from_str(text.get()).ok());
        self.fields.get_or_init(|| read().unwrap_or_default())
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
        if fields.0.is_empty() { None } else { fields.depth(&spot.steps, budget) }
    }
}

/// A `fieldsV1` set: `f:spec`, `k:{"name":"web"}`, `v:"x"`, `i:0` and `.` lead to the sets inside.
#[derive(Debug, Default)]
struct Fields<'a>(Vec<(Cow<'a, str>, Fields<'a>)>);

impl Fields<'_> {
    /// How many steps lead to the path, or to something inside it, or to a leaf, which owns all that is below; `None`
    /// when the set does not hold it. `.` owns that a map or an item is there, and nothing in it.
    fn depth(&self, path: &[Step<'_>], budget: &Cell<u32>) -> Option<usize> {
        let Some((step, rest)) = path.split_first() else { return Some(0) };
        if self.0.is_empty() {
            return Some(0);
        }
        let within = self.0.iter().take(budget.get() as usize);
        spend(budget, self.0.len());
        within
            .filter(|(name, _)| leads(name, step))
            .filter_map(|(_, inside)| inside.depth(rest, budget))
            .max()
            .map(|d| d + 1)
    }

    /// Whether the set holds something that the other one does not.
    fn beyond(&self, other: &Self, budget: &Cell<u32>) -> bool {
        // Sets are sorted as a rule, so that the next one is found where the last one was.
        let mut at = 0;
        self.0.iter().filter(|(name, _)| name != ".").any(|(name, inside)| {
            let from_here = (at..other.0.len()).chain(0..at).take(budget.get() as usize);
            let found = from_here.into_iter().enumerate().find(|(_, i)| other.0[*i].0 == *name);
            let Some((steps, i)) = found else {
                spend(budget, other.0.len());
                return true;
            };
            spend(budget, steps + 1);
            at = i + 1;
            inside.beyond(&other.0[i].1, budget)
        })
    }
}

fn spend(budget: &Cell<u32>, comparisons: usize) {
    budget.set(budget.get().saturating_sub(u32::try_from(comparisons).unwrap_or(u32::MAX)));
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

/// Borrowed from the text: building the set of a whole Pod costs a few microseconds.
impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Set;
        impl<'de> Visitor<'de> for Set {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a fieldsV1 set")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    fields.push((name, map.next_value()?));
                }
                Ok(Fields(fields))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Fields::default())
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Fields::default())
            }
        }
        deserializer.deserialize_any(Set)
    }
}

/// A key, borrowed where it has no escapes (`k:{\"name\":...}` has).
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
