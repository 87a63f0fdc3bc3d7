//! What routes went by when an event was recorded, as far as that is known: the object's annotations, the labels and
//! annotations of its namespace, and the silences that people had asked for.

use std::{collections::BTreeMap, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Error, History, Name,
    detail::Detail,
    objects::{When, name_of},
};
use crate::{
    ledger::{
        Around,
        silences::{self, Silence},
    },
    route::Silencing,
};

/// Of when something is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Known {
    /// As it was when the event was recorded.
    Then,
    /// As it is now: what it was then is no longer known.
    Now,
    #[default]
    Unknown,
}

impl Known {
    /// `as it was then`
    pub fn words(self) -> &'static str {
        match self {
            Self::Then => "as they were then",
            Self::Now => "as they are now",
            Self::Unknown => "not known",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Surroundings {
    /// Of when the annotations are.
    pub object: Known,
    pub annotations: BTreeMap<String, String>,
    /// Of when the namespace is; `then` for what has none.
    pub namespace: Known,
    pub namespace_labels: BTreeMap<String, String>,
    pub namespace_annotations: BTreeMap<String, String>,
    /// Those that held when it was recorded.
    pub silences: Vec<Silence>,
}

impl Surroundings {
    /// As routes ask it.
    pub fn around(&self) -> Around {
        // One that cannot be used kept nothing back then either.
        let silences = self.silences.iter().filter_map(|silence| Silencing::new(&silence.as_written()).ok());
        Around {
            annotations: self.annotations.clone(),
            namespace_labels: self.namespace_labels.clone(),
            namespace_annotations: self.namespace_annotations.clone(),
            silences: Arc::new(silences.collect()),
        }
    }
}

impl History {
    pub fn surroundings(&mut self, detail: &Detail) -> Result<Surroundings, Error> {
        let event = &detail.event;
        let (object, document) = match detail.after.as_ref().or(event.object.as_ref()) {
            Some(document) => (Known::Then, Some(document.clone())),
            None => (Known::Now, self.look_up(&name_of(event), When::Now)?),
        };
        let (object, document) = if object == Known::Then { (object, document) } else { known(document) };
        let itself = event.resource.kind == "Namespace" && event.resource.group.is_empty();
        let namespace = match event.resource.namespace.as_str() {
            // A Namespace is in itself.
            "" if itself => (object, document.clone()),
            "" => (Known::Then, None),
            name => {
                let name = Name {
                    group: String::new(),
                    resource: "namespaces".into(),
                    namespace: String::new(),
                    name: name.into(),
                };
                match self.look_up(&name, When::At(event.time))? {
                    Some(then) => (Known::Then, Some(then)),
                    None => known(self.look_up(&name, When::Now)?),
                }
            }
        };
        Ok(Surroundings {
            object,
            annotations: texts(document.as_ref(), "/metadata/annotations"),
            namespace: namespace.0,
            namespace_labels: texts(namespace.1.as_ref(), "/metadata/labels"),
            namespace_annotations: texts(namespace.1.as_ref(), "/metadata/annotations"),
            silences: silences::at(self.connection(), event.time)?,
        })
    }

    /// What is not known, or was not there, says nothing.
    pub(super) fn look_up(&mut self, name: &Name, when: When) -> Result<Option<Value>, Error> {
        match self.at(name, when) {
            Ok(state) => Ok(state.object),
            Err(Error::Unknown(_) | Error::NotKept { .. } | Error::Gap(_) | Error::TooLong { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn known(now: Option<Value>) -> (Known, Option<Value>) {
    (if now.is_some() { Known::Now } else { Known::Unknown }, now)
}

/// A map of texts within a document: `/metadata/labels`.
pub fn texts(document: Option<&Value>, pointer: &str) -> BTreeMap<String, String> {
    let found = document.and_then(|document| document.pointer(pointer)?.as_object()).into_iter().flatten();
    found.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
