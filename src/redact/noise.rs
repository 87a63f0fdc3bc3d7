//! What changes all the time and tells nobody anything. It is left outside with the secrets, so that an update that
//! changes nothing else leaves the document equal and is no event.
//!
//! A path is a JSON pointer (`/spec/replicas`; `~1` stands for `/` within a segment and `~0` for `~`). `*` stands for
//! any text within a segment, or for any key or list item; a segment `**` stands for any number of segments. Kinds can
//! be named before it: `Deployment:/spec/replicas`, `apps/*:/spec/replicas`, `apps/Deployment:/spec/replicas`;
//! the group `core` is the one without a name. An object of which nothing is left is left out too.

mod recorded;

use memchr::memmem;
use serde::{Deserialize, Serialize};

pub use self::recorded::Recorded;

use super::{
    Error,
    tape::{Fate, Kind, Tape},
};
use crate::cluster::Resource;

/// Which noise is left outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// All paths of [`QUIET`].
    #[default]
    Quiet,
    /// Nothing is left outside, but for `selfLink` and what never is part of a document.
    All,
}

/// The paths of [`Profile::Quiet`]. Chosen so that a person would miss none of them.
pub const QUIET: &[&str] = &[
    // Heartbeats of kubelets that report no Lease, and the probe times of conditions.
    "core/Node:/status/conditions/*/lastHeartbeatTime",
    "/status/conditions/*/lastProbeTime",
    "/status/conditions/*/lastUpdateTime",
    // The images that a node has cached: grows with every pull, shrinks with every collection.
    "core/Node:/status/images",
    // What a controller has seen of a generation that is itself no part of the document.
    "/status/**/observedGeneration",
    // Pods on their way out: each of them tells it itself, and the counts of those that stay are told.
    "apps/*:/status/terminatingReplicas",
    // Leader election from before Leases.
    "/metadata/annotations/control-plane.alpha.kubernetes.io~1leader",
    // Autoscalers' notes to themselves.
    "/metadata/annotations/autoscaling.alpha.kubernetes.io~1*",
    "/metadata/annotations/cluster-autoscaler.kubernetes.io~1last-updated",
    "/metadata/annotations/cluster-autoscaler.kubernetes.io~1scale-down-utilization",
    "core/ConfigMap:/metadata/annotations/cluster-autoscaler.kubernetes.io~1*",
    // A Deployment's scale, copied to each of its ReplicaSets.
    "apps/ReplicaSet:/metadata/annotations/deployment.kubernetes.io~1desired-replicas",
    "apps/ReplicaSet:/metadata/annotations/deployment.kubernetes.io~1max-replicas",
];

/// Paths that hold what a document is known by.
const IDENTITY: &[&str] =
    &["/apiVersion", "/kind", "/metadata", "/metadata/name", "/metadata/namespace", "/metadata/uid"];

/// The paths that are left outside, checked.
#[derive(Clone, Debug)]
pub(super) struct Paths(Vec<Path>);

#[derive(Clone, Debug)]
struct Path {
    /// Globs; `*` for all.
    group: String,
    kind: String,
    segments: Vec<Segment>,
    /// Of a path that leads anywhere: a text that an object has to hold for it to lead to something.
    needs: Option<memmem::Finder<'static>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Any,
    AnyDepth,
    /// The parts between the stars.
    Glob(Vec<String>),
}

impl Paths {
    pub(super) fn new(profile: Profile, ignore: &[String]) -> Result<Self, Error> {
        let quiet = if profile == Profile::Quiet { QUIET } else { &[] };
        let paths = quiet.iter().copied().chain(ignore.iter().map(String::as_str));
        paths.map(Path::parse).collect::<Result<_, _>>().map(Self)
    }

    /// Marks as dropped what the paths lead to, from the object at the tape's start. `metadata`: of that object, which
    /// stays, also when a path with stars leads to it: an object is known by what is in it.
    pub(super) fn drop_from(&self, tape: &mut Tape<'_>, resource: &Resource, metadata: usize) {
        for path in &self.0 {
            if path.is_for(resource) && path.may_lead_into(tape.text) {
                drop_at(tape, 0, &path.segments);
                tape.tokens[metadata].fate = Fate::Keep;
            }
        }
    }
}

impl Path {
    fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |reason: &str| Error::Path { path: text.to_owned(), reason: reason.to_owned() };
        let (kinds, pointer) = match text.find('/') {
            Some(0) => ("", text),
            _ => text.split_once(':').ok_or_else(|| {
                wrong("expected a path such as /spec/replicas, or kinds and a path such as Deployment:/spec/replicas")
            })?,
        };
        if !pointer.starts_with('/') || pointer.len() < 2 {
            return Err(wrong("the path has to begin with / and name a field"));
        }
        if IDENTITY.contains(&pointer) {
            return Err(wrong("an object is known by this field, it cannot be left out"));
        }
        let (group, kind) = match kinds.split_once('/') {
            Some((group, kind)) => (group, kind),
            None if kinds.is_empty() && text.starts_with('/') => ("*", "*"),
            None => ("*", kinds),
        };
        if group.is_empty() || kind.is_empty() || kind.contains('/') {
            return Err(wrong(
                "before the colon there has to be a kind such as Deployment or apps/Deployment or apps/*",
            ));
        }
        let segments: Option<Vec<Segment>> = pointer[1..].split('/').map(Segment::parse).collect();
        let segments = segments.ok_or_else(|| wrong("~ has to be followed by 0 (for ~) or 1 (for /)"))?;
        if segments.iter().all(|segment| matches!(segment, Segment::Any | Segment::AnyDepth)) {
            return Err(wrong("it would leave out everything"));
        }
        if segments.last() == Some(&Segment::AnyDepth) {
            return Err(wrong("** has to be followed by a field"));
        }
        let group = if group == "core" { String::new() } else { group.to_owned() };
        let needs = match segments.last() {
            Some(Segment::Literal(field)) if segments.contains(&Segment::AnyDepth) && is_plain(field) => {
                Some(memmem::Finder::new(field).into_owned())
            }
            _ => None,
        };
        Ok(Self { group, kind: kind.to_owned(), segments, needs })
    }

    fn may_lead_into(&self, text: &str) -> bool {
        self.needs.as_ref().is_none_or(|field| field.find(text.as_bytes()).is_some())
    }

    fn is_for(&self, resource: &Resource) -> bool {
        let all = |glob: &str, text: &str| {
            glob == "*" || glob == text || (glob.contains(['*', '?', '[', '{']) && glob_match::glob_match(glob, text))
        };
        all(&self.kind, &resource.kind) && all(&self.group, &resource.group)
    }
}

/// A name that no server writes with escapes.
fn is_plain(field: &str) -> bool {
    field.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

impl Segment {
    fn parse(text: &str) -> Option<Self> {
        let mut plain = String::with_capacity(text.len());
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            plain.push(match c {
                '~' => match chars.next()? {
                    '0' => '~',
                    '1' => '/',
                    _ => return None,
                },
                other => other,
            });
        }
        Some(match plain.as_str() {
            "*" => Self::Any,
            "**" => Self::AnyDepth,
            glob if glob.contains('*') => Self::Glob(glob.split('*').map(str::to_owned).collect()),
            _ => Self::Literal(plain),
        })
    }

    fn matches_index(&self, index: usize) -> bool {
        matches!(self, Self::Any | Self::AnyDepth) || self.matches(&index.to_string())
    }

    fn matches(&self, key: &str) -> bool {
        match self {
            Self::Literal(literal) => literal == key,
            Self::Any | Self::AnyDepth => true,
            Self::Glob(parts) => {
                let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
                let Some(mut rest) = key.strip_prefix(first.as_str()).and_then(|rest| rest.strip_suffix(last.as_str()))
                else {
                    return false;
                };
                parts[1..parts.len() - 1].iter().all(|part| match rest.find(part.as_str()) {
                    Some(at) => {
                        rest = &rest[at + part.len()..];
                        true
                    }
                    None => false,
                })
            }
        }
    }
}

fn drop_at(tape: &mut Tape<'_>, at: usize, segments: &[Segment]) {
    if tape.tokens[at].fate == Fate::Drop {
        return;
    }
    let Some((segment, rest)) = segments.split_first() else {
        return tape.drop_at(at);
    };
    if *segment == Segment::AnyDepth {
        drop_at(tape, at, rest);
    }
    let end = tape.next(at);
    let mut child = at + 1;
    let mut index = 0usize;
    while child < end {
        let (matches, value) = match tape.kind(at) {
            Kind::Object => (segment.matches(&tape.string(child)), child + 1),
            _ => (segment.matches_index(index), child),
        };
        if matches && *segment == Segment::AnyDepth {
            if matches!(tape.kind(value), Kind::Object | Kind::Array) {
                drop_at(tape, value, segments);
            }
        } else if matches {
            drop_at(tape, value, rest);
        }
        child = tape.next(value);
        index += 1;
    }
}
