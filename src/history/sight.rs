//! Which resources in which namespaces somebody may see.

use std::{
    collections::{BTreeSet, HashMap},
    ops::ControlFlow,
};

use super::{
    Error, Filter, History, Words,
    narrow::Narrow,
    objects::Which,
    rows::Order,
    scan::{Limit, Range},
};
use crate::ledger::tally::{self, HOUR};

/// What permissions are about: group, resource and namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// `""` for the core group.
    pub group: String,
    pub resource: String,
    /// `""` for cluster-scoped objects.
    pub namespace: String,
}

/// What may be seen. Whatever lies outside is as if it were not there: in rows, in counts and in what is said of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    #[default]
    Everything,
    Only(BTreeSet<Place>),
}

impl Sight {
    pub fn may(&self, group: &str, resource: &str, namespace: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Only(places) => {
                // A tuple of borrowed texts would be cheaper; places are few and rows are remembered by the scan.
                places.contains(&Place {
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    namespace: namespace.to_owned(),
                })
            }
        }
    }
}

impl History {
    /// Every resource and namespace that the ledger has an event or an object of.
    pub fn places(&self) -> Result<BTreeSet<Place>, Error> {
        let mut places = self.places_of_objects(&Which::default())?;
        places.extend(self.places_of_events(&Filter::default(), false, None)?.into_iter().map(|(place, _)| place));
        Ok(places)
    }

    /// The resources and namespaces of the events that a filter may take, below a cursor; those of the newest events
    /// first, each with when the hour ends in which the newest is. `apart`: without the filters that facets are about.
    pub fn places_of_events(
        &self,
        filter: &Filter,
        apart: bool,
        cursor: Option<i64>,
    ) -> Result<Vec<(Place, i64)>, Error> {
        let _moment = self.connection().unchecked_transaction()?;
        let kinds = self.kinds()?;
        let ask = |filter: &Filter| match apart {
            true => filter.ask_apart(&kinds, &Sight::Everything),
            false => filter.question(&kinds, &Sight::Everything),
        };
        let question = ask(filter)?;
        // Of names, owners and words a profile says nothing: events of any may be among its own.
        let of_profiles =
            ask(&Filter { names: Words::default(), owners: Words::default(), text: String::new(), ..filter.clone() })?;
        let mut places: HashMap<Place, usize> = HashMap::new();
        let mut newest: Vec<i64> = Vec::new();
        let mut number = |row: &Narrow<'_>, at: i64| {
            let place =
                Place { group: row.group.into(), resource: row.resource.into(), namespace: row.namespace.into() };
            let number = *places.entry(place).or_insert_with(|| {
                newest.push(i64::MIN);
                newest.len() - 1
            });
            newest[number] = newest[number].max(at);
            number
        };
        let tail = Range { from: tally::counted(self.connection())?.saturating_add(1), to: cursor.unwrap_or(i64::MAX) };
        self.scan(&question, tail, Order::Asc, Limit::NONE, |row| {
            number(row, i64::MAX);
            ControlFlow::Continue(())
        })?;
        // The place of a profile, by its id.
        let mut of_profile: Vec<Option<usize>> = Vec::new();
        tally::profiles(self.connection(), |id, profile, _| {
            let (Ok(id), row) = (usize::try_from(id), of_profiles.row_of(profile)) else { return };
            if of_profiles.takes(&row) {
                of_profile.resize(of_profile.len().max(id + 1), None);
                of_profile[id] = Some(number(&row, i64::MIN));
            }
        })?;
        let mut missing = newest.iter().filter(|newest| **newest == i64::MIN).count();
        self.hours_back(question.period(), cursor, |tally| {
            tally.profiles(|id, _| {
                let Some(place) = of_profile.get(id).copied().flatten() else { return };
                if newest[place] == i64::MIN {
                    newest[place] = tally.start.saturating_add(HOUR);
                    missing -= 1;
                }
            });
            if missing == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let mut found: Vec<(Place, i64)> =
            places.into_iter().map(|(place, n)| (place, newest[n])).filter(|(_, at)| *at > i64::MIN).collect();
        found.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(found)
    }

    /// The resources and namespaces of the objects that there are.
    pub fn places_of_objects(&self, which: &Which) -> Result<BTreeSet<Place>, Error> {
        let mut places = BTreeSet::new();
        let stored: Vec<(String, String)> = self
            .connection()
            .prepare_cached(
                "WITH RECURSIVE place (f, n) AS (
                   SELECT * FROM (SELECT feed, namespace FROM objects INDEXED BY objects_by_key
                                  ORDER BY feed, namespace LIMIT 1)
                   UNION ALL
                   SELECT o.feed, o.namespace FROM place JOIN objects o ON o.id = coalesce(
                     (SELECT id FROM objects INDEXED BY objects_by_key WHERE feed = f AND namespace > n
                      ORDER BY feed, namespace LIMIT 1),
                     (SELECT id FROM objects INDEXED BY objects_by_key WHERE feed > f ORDER BY feed, namespace LIMIT 1)))
                 SELECT resource, n FROM place JOIN feeds ON feeds.id = f",
            )?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let kinds = which.resources(&self.kinds()?);
        for (name, namespace) in stored {
            if !kinds.takes(&name) || !which.namespaces.takes(&namespace) {
                continue;
            }
            let (resource, group) = split(&name);
            places.insert(Place { group: group.to_owned(), resource: resource.to_owned(), namespace });
        }
        Ok(places)
    }
}

/// `deployments.apps` -> resource and group.
pub(super) fn split(group_resource: &str) -> (&str, &str) {
    group_resource.split_once('.').unwrap_or((group_resource, ""))
}
