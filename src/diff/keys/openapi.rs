//! From an OpenAPI v3 document to a [`Schema`]: read only what concerns lists, find the branches that lead to one with
//! keys, keep those.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::Arc,
};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

use super::{Error, Kind, ListKeys, Node, Schema};

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, default)]
    components: Components<'a>,
}

#[derive(Default, Deserialize)]
struct Components<'a> {
    #[serde(borrow, default)]
    schemas: BTreeMap<Cow<'a, str>, Shape<'a>>,
}

/// The part of a schema that says where lists are and how their items are told apart.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Shape<'a> {
    #[serde(borrow, rename = "$ref")]
    reference: Option<Cow<'a, str>>,
    /// A reference with a description or a default beside it stands here, alone.
    #[serde(borrow, rename = "allOf")]
    all_of: Vec<Shape<'a>>,
    #[serde(borrow)]
    properties: BTreeMap<Cow<'a, str>, Shape<'a>>,
    #[serde(borrow, deserialize_with = "shape_or_else")]
    items: Option<Box<Shape<'a>>>,
    #[serde(borrow, rename = "additionalProperties", deserialize_with = "shape_or_else")]
    additional: Option<Box<Shape<'a>>>,
    #[serde(borrow, rename = "x-kubernetes-list-type")]
    list_type: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "x-kubernetes-list-map-keys")]
    map_keys: Vec<Cow<'a, str>>,
    #[serde(borrow, rename = "x-kubernetes-patch-merge-key")]
    merge_key: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "x-kubernetes-group-version-kind", deserialize_with = "kinds")]
    kinds: Vec<GroupVersionKind<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupVersionKind<'a> {
    #[serde(borrow)]
    group: Cow<'a, str>,
    #[serde(borrow)]
    version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

/// `additionalProperties` may be a boolean, `items` a list; only a schema is of use.
fn shape_or_else<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<Shape<'de>>>, D::Error> {
    struct OrElse;
    impl<'de> Visitor<'de> for OrElse {
        type Value = Option<Box<Shape<'de>>>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a schema, a boolean or a list")
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(None)
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            Shape::deserialize(MapAccessDeserializer::new(map)).map(|shape| Some(Box::new(shape)))
        }
    }
    deserializer.deserialize_any(OrElse)
}

/// A list of them, or one.
fn kinds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<GroupVersionKind<'de>>, D::Error> {
    struct OneOrMany;
    impl<'de> Visitor<'de> for OneOrMany {
        type Value = Vec<GroupVersionKind<'de>>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("one or more kinds")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(one) = seq.next_element()? {
                all.push(one);
            }
            Ok(all)
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            GroupVersionKind::deserialize(MapAccessDeserializer::new(map)).map(|one| vec![one])
        }
    }
    deserializer.deserialize_any(OneOrMany)
}

pub(super) fn extract(document: &[u8]) -> Result<Schema, Error> {
    let document: Document<'_> = serde_json::from_slice(document)?;
    let schemas = &document.components.schemas;
    let mut graph = Graph { schemas, named: HashMap::new(), nodes: Vec::new(), names: HashSet::new() };
    let mut roots = Vec::new();
    for (name, shape) in schemas {
        // The list of a kind is never what a diff is about.
        let is_list = shape.properties.contains_key("items") && shape.kinds.iter().all(|k| k.kind.ends_with("List"));
        if shape.kinds.is_empty() || is_list {
            continue;
        }
        let root = graph.named(name);
        for kind in &shape.kinds {
            let kind =
                Kind { group: kind.group.to_string(), version: kind.version.to_string(), kind: kind.kind.to_string() };
            roots.push((kind, root));
        }
    }
    Ok(keep(graph.nodes, roots))
}

/// Every place that the kinds reach, with keys or without.
struct Graph<'d> {
    schemas: &'d BTreeMap<Cow<'d, str>, Shape<'d>>,
    named: HashMap<&'d str, usize>,
    nodes: Vec<Place>,
    names: HashSet<Arc<str>>,
}

#[derive(Default)]
struct Place {
    fields: Vec<(Arc<str>, usize)>,
    each: Option<usize>,
    list: Option<Box<ListKeys>>,
}

impl<'d> Graph<'d> {
    /// The place of a named schema. It has its number before it is filled, so that a schema may hold itself.
    fn named(&mut self, name: &str) -> usize {
        if let Some(&at) = self.named.get(name) {
            return at;
        }
        let at = self.nodes.len();
        self.nodes.push(Place::default());
        if let Some((name, shape)) = self.schemas.get_key_value(name) {
            self.named.insert(name, at);
            self.nodes[at] = self.fill(shape);
        }
        at
    }

    fn place(&mut self, shape: &'d Shape<'d>) -> usize {
        let reference = match shape.all_of.as_slice() {
            [one] if shape.properties.is_empty() => one.reference.as_deref(),
            _ => None,
        };
        if let Some(name) =
            shape.reference.as_deref().or(reference).and_then(|r| r.strip_prefix("#/components/schemas/"))
        {
            return self.named(name);
        }
        let place = self.fill(shape);
        self.nodes.push(place);
        self.nodes.len() - 1
    }

    fn fill(&mut self, shape: &'d Shape<'d>) -> Place {
        let fields = shape.properties.iter().map(|(name, shape)| (self.name(name), self.place(shape))).collect();
        let each = shape.items.as_deref().or(shape.additional.as_deref()).map(|shape| self.place(shape));
        let set = shape.list_type.as_deref() == Some("set");
        let map: Box<[_]> = if shape.list_type.as_deref() == Some("map") {
            shape.map_keys.iter().map(|key| self.name(key)).collect()
        } else {
            Box::default()
        };
        let merge: Box<[_]> = shape.merge_key.iter().filter(|key| !key.is_empty()).map(|key| self.name(key)).collect();
        let has_keys = set || !map.is_empty() || !merge.is_empty();
        Place { fields, each, list: has_keys.then(|| Box::new(ListKeys { map, merge, set })) }
    }

    fn name(&mut self, text: &str) -> Arc<str> {
        if let Some(name) = self.names.get(text) {
            return name.clone();
        }
        let name: Arc<str> = text.into();
        self.names.insert(name.clone());
        name
    }
}

/// Keeps the places from which a list with keys can be reached, equal ones once.
fn keep(places: Vec<Place>, roots: Vec<(Kind, usize)>) -> Schema {
    let useful = leading_to_keys(&places);
    let mut kept = Kept { places, useful, numbers: HashMap::new(), nodes: Vec::new() };
    let kinds = roots.into_iter().filter_map(|(kind, root)| Some((kind, kept.keep(root)?))).collect();
    Schema { nodes: kept.nodes.into(), kinds }
}

fn leading_to_keys(places: &[Place]) -> Vec<bool> {
    let mut above: Vec<Vec<usize>> = vec![Vec::new(); places.len()];
    for (at, place) in places.iter().enumerate() {
        for below in place.fields.iter().map(|(_, below)| *below).chain(place.each) {
            above[below].push(at);
        }
    }
    let mut useful = vec![false; places.len()];
    let mut open: Vec<usize> = (0..places.len()).filter(|&at| places[at].list.is_some()).collect();
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut useful[at], true) {
            open.extend(&above[at]);
        }
    }
    useful
}

struct Kept {
    places: Vec<Place>,
    useful: Vec<bool>,
    numbers: HashMap<usize, u32>,
    nodes: Vec<Node>,
}

impl Kept {
    fn keep(&mut self, at: usize) -> Option<u32> {
        if !self.useful[at] {
            return None;
        }
        if let Some(&number) = self.numbers.get(&at) {
            return Some(number);
        }
        let number = u32::try_from(self.nodes.len()).ok()?;
        self.numbers.insert(at, number);
        self.nodes.push(Node::default());
        let place = std::mem::take(&mut self.places[at]);
        let fields = place.fields.into_iter().filter_map(|(name, below)| Some((name, self.keep(below)?))).collect();
        let each = place.each.and_then(|below| self.keep(below));
        self.nodes[number as usize] = Node { fields, each, list: place.list };
        Some(number)
    }
}
