//! An object as kubectl lets people name it: `deploy/web`, `deployments.apps web`.

use anyhow::{anyhow, bail};
use kubediff::history::Row;

use super::{Usage, history::pages, history_source::Source};

/// Of what was there, so many of the newest changes are looked at.
const MOST_ROWS: usize = 200;

/// What was typed: a kind, and perhaps a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
}

impl Target {
    /// Reads `TYPE/NAME`, `TYPE NAME` or `TYPE` off the front of `words`, and gives what follows.
    pub(crate) fn take(words: &[String]) -> anyhow::Result<(Self, &[String])> {
        let Some((first, rest)) = words.split_first() else { bail!("name an object: deploy/web") };
        let wrong = || anyhow!("{first:?} names no object; write TYPE/NAME, such as deploy/web");
        match first.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok((Self { kind: kind.to_owned(), name: Some(name.to_owned()) }, rest))
            }
            Some(_) => Err(wrong()),
            None if first.is_empty() => Err(wrong()),
            None => Ok((Self { kind: first.clone(), name: rest.first().cloned() }, rest.get(1..).unwrap_or_default())),
        }
    }

    /// All of `words`: nothing may follow.
    pub(crate) fn of(words: &[String]) -> anyhow::Result<Self> {
        match Self::take(words) {
            Ok((target, [])) => Ok(target),
            Ok((_, [extra, ..])) => Err(Usage(anyhow!("{extra:?} is too much; one object at a time")).into()),
            Err(error) => Err(Usage(error).into()),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{}/{name}", self.kind),
            None => f.write_str(&self.kind),
        }
    }
}

/// One object, by all that the API needs to name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize)]
pub(crate) struct Object {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl From<Row> for Object {
    fn from(row: Row) -> Self {
        let Row { group, version, resource, kind, namespace, name, .. } = row;
        Self { group, version, resource, kind, namespace, name }
    }
}

impl Object {
    /// `Deployment shop/web`
    pub(crate) fn title(&self) -> String {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        format!("{} {}{slash}{}", self.kind, self.namespace, self.name)
    }

    /// The one object that is meant: among those that are, else among those that were.
    pub(crate) async fn find(source: &Source, target: &Target, namespace: Option<&str>) -> anyhow::Result<Self> {
        let Some(name) = &target.name else {
            return Err(Usage(anyhow!("which {}? Write {}/NAME", target.kind, target.kind)).into());
        };
        let mut query = vec![("kind", target.kind.clone()), ("name", name.clone())];
        if let Some(namespace) = namespace {
            // An object without a namespace is found whatever namespace people are in.
            query.push(("namespace", format!("{namespace},")));
        }
        let mut found = source.objects(&query).await?;
        if found.is_empty() {
            let ask = async |at_most, cursor: Option<&str>| source.rows(&query, at_most, cursor).await;
            pages(MOST_ROWS, ask, |row| {
                found.push(Self::from(row));
                Ok(true)
            })
            .await?;
        }
        // The same object at two versions of its group is one.
        found.sort();
        found.dedup_by(|a, b| (&a.group, &a.resource, &a.namespace) == (&b.group, &b.resource, &b.namespace));
        let place = namespace.map_or(String::new(), |namespace| format!(" in the namespace {namespace}"));
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => {
                source.check_kinds(&target.kind).await?;
                bail!("nothing is known of {target}{place}")
            }
            several => {
                let all: Vec<String> = several.iter().map(Self::title).collect();
                let remedy = if namespace.is_none() { "give -n NAMESPACE, or the group: " } else { "give the group: " };
                bail!("{target} is several objects: {}; {remedy}deployments.apps/web", all.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn objects_are_named_as_kubectl_names_them() {
        let target = |kind: &str, name: Option<&str>| Target { kind: kind.into(), name: name.map(str::to_owned) };
        for (typed, want) in [
            (vec!["deploy/web"], target("deploy", Some("web"))),
            (vec!["deploy", "web"], target("deploy", Some("web"))),
            (vec!["deployments.apps/web"], target("deployments.apps", Some("web"))),
            (vec!["nodes"], target("nodes", None)),
        ] {
            assert_eq!(Target::of(&words(&typed)).unwrap(), want);
        }
        for wrong in [vec![], vec!["/web"], vec!["deploy/"], vec!["a/b/c"], vec!["deploy/web", "db"], vec![""]] {
            assert!(Target::of(&words(&wrong)).unwrap_err().is::<Usage>(), "{wrong:?}");
        }
    }

    #[test]
    fn what_follows_an_object_is_left_to_the_command() {
        let typed = words(&["deploy/web", "10:42"]);
        assert_eq!(Target::take(&typed).unwrap().1, ["10:42"]);
        let typed = words(&["deploy", "web", "2h"]);
        assert_eq!(Target::take(&typed).unwrap().1, ["2h"]);
    }
}
