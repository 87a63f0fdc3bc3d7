//! An event as the expression sees it: every field is there, empty where the event has none, and texts are borrowed.

use std::collections::{BTreeMap, HashMap};

use cel::common::{
    types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt},
    value::Val,
};
use serde_json::Value as Json;

use crate::{
    diff::{Change, Op},
    event::{Event, Kind},
};

type Boxed<'e> = Box<dyn Val + 'e>;

/// Which of the costly parts an expression looks at; the others are left empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// `from`, `to` and `lines` of changes.
    pub(crate) values: bool,
    pub(crate) patch: bool,
    pub(crate) object: bool,
}

impl Needs {
    pub(crate) const ALL: Self = Self { values: true, patch: true, object: true };

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            values: self.values || other.values,
            patch: self.patch || other.patch,
            object: self.object || other.object,
        }
    }
}

/// How much there is to look through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Items of the widest list or map.
    pub(crate) width: usize,
    /// Bytes of the texts that may be long.
    pub(crate) text: usize,
}

impl Size {
    fn widen(&mut self, items: usize) {
        self.width = self.width.max(items);
    }
}

/// The event, and its size.
pub(crate) fn event(event: &Event, needs: Needs) -> (Boxed<'_>, Size) {
    let resource = &event.resource;
    let mut size = Size::default();
    [event.changes.len(), event.actors.len(), event.classes.len(), resource.labels.len()]
        .into_iter()
        .for_each(|items| size.widen(items));
    size.text = event.summary.len() + resource.name.len() + resource.namespace.len();
    let owner = event.owner.as_ref();
    let owner = [
        ("kind", text(owner.map_or("", |o| &o.kind))),
        ("namespace", text(owner.map_or("", |o| &o.namespace))),
        ("name", text(owner.map_or("", |o| &o.name))),
    ];
    let actors = event.actors.iter().map(|actor| {
        map([
            ("manager", text(&actor.manager)),
            ("operation", text(&actor.operation)),
            ("subresource", text(&actor.subresource)),
            ("time", owned(actor.time.map_or_else(String::new, |time| time.to_string()))),
        ])
    });
    let patch = match (&event.patch, needs.patch) {
        (Some(patch), true) => {
            size.widen(patch.0.len());
            serde_json::to_value(patch).map_or_else(|_| null(), |value| json_owned(value, &mut size))
        }
        _ => list([]),
    };
    let object = match (&event.object, needs.object) {
        (Some(object), true) => json(object, &mut size),
        _ => map([]),
    };
    let changes = list(event.changes.iter().map(|change| self::change(change, needs.values, &mut size)));
    let value = map([
        ("schema", text(&event.schema)),
        ("id", text(&event.id)),
        ("time", owned(event.time.to_string())),
        ("observed", text(crate::route::matcher::observed(event.observed))),
        ("type", text(event.kind.as_str())),
        ("cluster", map([("name", text(&event.cluster.name)), ("uid", text(&event.cluster.uid))])),
        (
            "resource",
            map([
                ("group", text(&resource.group)),
                ("version", text(&resource.version)),
                ("resource", text(&resource.resource)),
                ("kind", text(&resource.kind)),
                ("namespace", text(&resource.namespace)),
                ("name", text(&resource.name)),
                ("uid", text(&resource.uid)),
                ("resourceVersion", text(&resource.resource_version)),
                ("previousResourceVersion", text(resource.previous_resource_version.as_deref().unwrap_or_default())),
                ("generation", Box::new(CelInt::from(resource.generation.unwrap_or_default()))),
                ("labels", texts(&resource.labels)),
            ]),
        ),
        ("owner", map(owner)),
        ("actors", list(actors)),
        ("classes", list(event.classes.iter().map(|class| text(class.as_str())))),
        ("summary", text(&event.summary)),
        ("changes", changes),
        ("patch", patch),
        ("object", object),
    ]);
    (value, size)
}

pub(super) fn op(op: Op) -> &'static str {
    match op {
        Op::Add => "add",
        Op::Remove => "remove",
        Op::Replace => "replace",
        Op::Move => "move",
    }
}

fn change<'e>(change: &'e Change, values: bool, size: &mut Size) -> Boxed<'e> {
    let lines = change.lines.as_deref().unwrap_or_default();
    size.text += change.path.len() + change.field.len() + lines.len();
    let mut value = |value: &'e Option<Json>| match value {
        Some(value) if values => json(value, size),
        _ => null(),
    };
    map([
        ("op", text(op(change.op))),
        ("path", text(&change.path)),
        ("field", text(&change.field)),
        ("from", value(&change.from)),
        ("to", value(&change.to)),
        ("lines", text(lines)),
    ])
}

fn text<'e>(text: &'e str) -> Boxed<'e> {
    Box::new(CelString::from(text))
}

fn owned<'e>(text: String) -> Boxed<'e> {
    Box::new(CelString::from(text))
}

fn null<'e>() -> Boxed<'e> {
    Box::new(CelNull)
}

fn map<'e, const N: usize>(entries: [(&'static str, Boxed<'e>); N]) -> Boxed<'e> {
    let entries: HashMap<CelMapKey<'e>, Boxed<'e>> =
        entries.into_iter().map(|(key, value)| (CelMapKey::from(key), value)).collect();
    Box::new(CelMap::from(entries))
}

fn texts(entries: &BTreeMap<String, String>) -> Boxed<'_> {
    let entries: HashMap<_, _> =
        entries.iter().map(|(key, value)| (CelMapKey::from(key.as_str()), text(value))).collect();
    Box::new(CelMap::from(entries))
}

fn list<'e>(items: impl IntoIterator<Item = Boxed<'e>>) -> Boxed<'e> {
    Box::new(CelList::from(items.into_iter().collect::<Vec<_>>()))
}

fn json<'e>(value: &'e Json, size: &mut Size) -> Boxed<'e> {
    match value {
        Json::Null => null(),
        Json::Bool(flag) => Box::new(CelBool::from(*flag)),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Box::new(CelInt::from(number)),
            (_, Some(number)) => Box::new(CelUInt::from(number)),
            _ => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Json::String(string) => {
            size.text += string.len();
            text(string)
        }
        Json::Array(items) => {
            size.widen(items.len());
            list(items.iter().map(|item| json(item, size)).collect::<Vec<_>>())
        }
        Json::Object(entries) => {
            size.widen(entries.len());
            let entries: HashMap<_, _> =
                entries.iter().map(|(key, value)| (CelMapKey::from(key.as_str()), json(value, size))).collect();
            Box::new(CelMap::from(entries))
        }
    }
}

fn json_owned<'e>(value: Json, size: &mut Size) -> Boxed<'e> {
    match value {
        Json::String(string) => {
            size.text += string.len();
            owned(string)
        }
        Json::Array(items) => {
            size.widen(items.len());
            list(items.into_iter().map(|item| json_owned(item, size)).collect::<Vec<_>>())
        }
        Json::Object(entries) => {
            size.widen(entries.len());
            let entries: HashMap<_, _> =
                entries.into_iter().map(|(key, value)| (CelMapKey::from(key), json_owned(value, size))).collect();
            Box::new(CelMap::from(entries))
        }
        Json::Null => null(),
        Json::Bool(flag) => Box::new(CelBool::from(flag)),
        Json::Number(number) => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
    }
}

/// An update with all its parts, a creation and a deletion without most of them.
pub(super) fn samples() -> &'static [Event] {
    static SAMPLES: std::sync::LazyLock<Vec<Event>> = std::sync::LazyLock::new(|| {
        let update = r#"{"schema":"kubediff.event/v1","id":"1","time":"2026-01-01T00:00:00Z","observed":"live",
            "type":"updated","cluster":{"name":"c","uid":"u"},"resource":{"group":"apps","version":"v1",
            "resource":"deployments","kind":"Deployment","namespace":"shop","name":"web","uid":"u",
            "resourceVersion":"2","previousResourceVersion":"1","generation":2,"labels":{"app":"web"}},
            "owner":{"kind":"Deployment","namespace":"shop","name":"web"},
            "actors":[{"manager":"kubectl-edit","operation":"Update","subresource":""}],"classes":["spec"],
            "summary":"s","changes":[{"op":"replace","path":"/spec/replicas","field":"spec.replicas","from":1,"to":2},
            {"op":"replace","path":"/spec/x","field":"spec.x","from":"a","to":"b"}],
            "patch":[{"op":"replace","path":"/spec/replicas","value":2}]}"#;
        let update: Event = serde_json::from_str(update).expect("the sample is an event");
        let object = serde_json::json!({"metadata": {"name": "web"}, "spec": {"replicas": 1}});
        let bare = |kind| Event {
            kind,
            owner: None,
            actors: Vec::new(),
            changes: Vec::new(),
            patch: None,
            object: Some(object.clone()),
            ..update.clone()
        };
        vec![bare(Kind::Created), bare(Kind::Deleted), update]
    });
    &SAMPLES
}
