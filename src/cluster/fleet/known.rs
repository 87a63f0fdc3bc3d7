//! What is remembered of the cluster over restarts: what is not in it is new, and what is in it and gone was deleted.

use std::{collections::BTreeSet, sync::Arc};

use rusqlite::OptionalExtension;
use serde::{Deserialize, Serialize};

use super::super::{
    Feed, Resource, Scope,
    discovery::Served,
    reflector::Closed,
    select::{self, Settings},
    store::Store,
};

/// What was known of the cluster at the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    /// Whose objects are no news, by [`Resource::group_resource`].
    pub(super) resources: BTreeSet<String>,
    /// They did not answer: when their resources appear it is not because they are new.
    pub(super) unavailable_groups: BTreeSet<String>,
    /// Whose objects are no news. `None` when nobody asked which there are.
    pub(super) namespaces: Option<BTreeSet<String>>,
    /// All that was there, news or not.
    #[serde(default)]
    pub(super) last: Last,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Last {
    resources: Vec<Resource>,
    namespaces: BTreeSet<String>,
}

/// What is known of the namespaces now.
#[derive(Clone, Copy)]
pub(super) enum Names<'a> {
    /// The settings do not depend on them.
    NotAsked,
    /// The settings do, and nobody could tell yet: what was known before stays.
    Unknown,
    Are(&'a BTreeSet<String>),
}

/// Where it is kept in the store's `meta` table.
const KEY: &str = "known";

impl Known {
    /// `news` are the feeds whose first list is news and not yet whole: until it is, they stay news over a restart.
    pub(super) fn new<'a>(
        before: Option<&Self>,
        served: &Served,
        namespaces: Names<'_>,
        news: impl Iterator<Item = &'a Feed>,
    ) -> Self {
        let mut resources: BTreeSet<String> = served.resources.keys().cloned().collect();
        let (mut old_namespaces, last_namespaces) = match (namespaces, before) {
            (Names::Are(names), _) => (Some(names.clone()), names.clone()),
            (Names::Unknown, Some(before)) => (before.namespaces.clone(), before.last.namespaces.clone()),
            (Names::Unknown, None) | (Names::NotAsked, _) => (None, BTreeSet::new()),
        };
        for feed in news {
            match (&feed.scope, &mut old_namespaces) {
                (Scope::Namespace(name), Some(namespaces)) => namespaces.remove(name),
                _ => resources.remove(&feed.resource.group_resource()),
            };
        }
        let unavailable_groups = served.silent();
        // What did not answer is not gone.
        let kept = before.into_iter().flat_map(|known| &known.last.resources).filter(|resource| {
            !served.answered(&resource.group) && !served.resources.contains_key(&resource.group_resource())
        });
        let all = served.resources.values().map(|resource| Resource::clone(resource)).chain(kept.cloned());
        let last = Last { resources: all.collect(), namespaces: last_namespaces };
        Self { resources, unavailable_groups, namespaces: old_namespaces, last }
    }

    /// What was there before is still taken to have been there last, of these groups and in all namespaces.
    pub(super) fn keep_last(&mut self, before: &Self, of: impl Fn(&str) -> bool) {
        let new: BTreeSet<String> = self.last.resources.iter().map(Resource::group_resource).collect();
        let gone = before.last.resources.iter().filter(|resource| !new.contains(&resource.group_resource()));
        let gone = gone.filter(|resource| of(&resource.group));
        self.last.resources.extend(gone.cloned());
        self.last.namespaces.extend(before.last.namespaces.iter().cloned());
    }

    /// The feeds that these settings would have asked for then.
    pub(super) fn feeds(&self, settings: &Settings) -> Vec<Feed> {
        let resources: Vec<Arc<Resource>> = self.last.resources.iter().cloned().map(Arc::new).collect();
        select::plan(settings, &resources, &self.last.namespaces).feeds
    }

    /// Whether the objects of a feed are no news. `live`: it was asked which namespaces there are.
    pub(super) fn has(&self, feed: &Feed, live: bool) -> bool {
        let resource = self.resources.contains(&feed.resource.group_resource())
            || self.unavailable_groups.contains(&feed.resource.group)
            || self.unavailable_groups.contains("*");
        let namespace = match (&feed.scope, &self.namespaces) {
            (Scope::Namespace(name), Some(namespaces)) if live => namespaces.contains(name),
            _ => true,
        };
        resource && namespace
    }

    pub(super) fn read(store: &Store) -> Result<Option<Self>, rusqlite::Error> {
        let reader = store.reader()?;
        let text: Option<String> = reader
            .connection()
            .query_row("SELECT value FROM meta WHERE key = ?1", [KEY], |row| row.get(0))
            .optional()?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    pub(super) async fn write(&self, store: &Store) -> Result<(), Closed> {
        let text = serde_json::to_string(self).unwrap_or_default();
        store
            .write(Box::new(move |transaction| {
                transaction.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", [KEY, &text]).map(drop)
            }))
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::select::Namespaces;

    fn served() -> Served {
        let resource = Arc::new(Resource::core("v1", "configmaps", "ConfigMap"));
        Served { resources: [(resource.group_resource(), resource)].into(), unavailable: Vec::new() }
    }

    fn feed(namespace: &str) -> Feed {
        Feed::new(Resource::core("v1", "configmaps", "ConfigMap"), Scope::Namespace(namespace.to_owned()))
    }

    #[test]
    fn what_is_new_stays_new_until_its_first_list_is_whole() {
        let namespaces: BTreeSet<String> = ["old", "new"].map(str::to_owned).into();
        let pending = Known::new(None, &served(), Names::Are(&namespaces), [&feed("new")].into_iter());
        assert!(pending.has(&feed("old"), true) && !pending.has(&feed("new"), true));
        let done = Known::new(Some(&pending), &served(), Names::Are(&namespaces), std::iter::empty());
        assert!(done.has(&feed("new"), true));
        let whole = Feed::new(Resource::core("v1", "configmaps", "ConfigMap"), Scope::All);
        let pending = Known::new(None, &served(), Names::NotAsked, [&whole].into_iter());
        assert!(!pending.has(&whole, false), "a resource as well as a namespace");
    }

    #[test]
    fn what_was_there_is_what_the_present_settings_would_have_asked_for() {
        let namespaces: BTreeSet<String> = ["shop", "other"].map(str::to_owned).into();
        let known = Known::new(None, &served(), Names::Are(&namespaces), std::iter::empty());
        let pattern = Namespaces { include: vec!["sh*".to_owned()], exclude: Vec::new() };
        let settings = Settings { namespaces: pattern, ..Settings::default() };
        let keys: Vec<String> = known.feeds(&settings).iter().map(Feed::key).collect();
        assert_eq!(keys, [feed("shop").key()]);
    }

    #[test]
    fn a_group_that_does_not_answer_is_not_forgotten() {
        let before = Known::new(None, &served(), Names::NotAsked, std::iter::empty());
        let silent =
            crate::cluster::source::Unavailable { group: String::new(), version: String::new(), reason: "down".into() };
        let now = Served { resources: Default::default(), unavailable: vec![silent] };
        let after = Known::new(Some(&before), &now, Names::NotAsked, std::iter::empty());
        assert_eq!(after.feeds(&Settings::default()).len(), 1);
        let gone = Known::new(Some(&before), &Served::default(), Names::NotAsked, std::iter::empty());
        assert_eq!(gone.feeds(&Settings::default()).len(), 0);
    }

    #[test]
    fn what_went_is_remembered_until_it_is_told() {
        let (old, new) = (["old"].map(str::to_owned).into(), ["new"].map(str::to_owned).into());
        let before = Known::new(None, &served(), Names::Are(&old), std::iter::empty());
        let mut after = Known::new(Some(&before), &Served::default(), Names::Are(&new), std::iter::empty());
        let mut told = after.clone();
        told.keep_last(&before, |_| false);
        assert_eq!(told.feeds(&Settings::default()).len(), 0, "its group has answered since, and it was told");
        after.keep_last(&before, |_| true);
        let all = Settings {
            namespaces: Namespaces { include: vec!["*d".to_owned(), "n*".to_owned()], exclude: Vec::new() },
            ..Settings::default()
        };
        let keys: Vec<String> = after.feeds(&all).iter().map(Feed::key).collect();
        assert_eq!(keys, [feed("new").key(), feed("old").key()]);
    }

    #[test]
    fn namespaces_that_nobody_can_tell_now_are_not_forgotten() {
        let namespaces: BTreeSet<String> = ["old"].map(str::to_owned).into();
        let before = Known::new(None, &served(), Names::Are(&namespaces), std::iter::empty());
        let after = Known::new(Some(&before), &served(), Names::Unknown, std::iter::empty());
        assert!(after == before && after.has(&feed("old"), true) && !after.has(&feed("new"), true));
        let first = Known::new(None, &served(), Names::Unknown, std::iter::empty());
        assert!(first.has(&feed("new"), true), "at the first start nothing is news");
    }
}
