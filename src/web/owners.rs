//! Whose root owner may be named. Who may see a pod reads the owner that stands in it; whose that is stands in another
//! object, which they may not be allowed to read. What they may not is told and asked for as if nothing owned the object.

use std::{collections::BTreeSet, sync::Arc};

use super::{Server, judge::Viewer, problem::Problem};
use crate::{
    event::{Event, OwnerRef},
    history::{Filter, Row, Sight, kinds::Kinds, sight::Place},
};

/// A kind and a namespace, as owners are named by.
type Sort = (String, String);

/// Takes the owners away that somebody may not know of.
pub(super) async fn hide(server: &Server, viewer: &Viewer, rows: &mut [Row]) -> Result<(), Problem> {
    let own = |row: &Row| OwnerRef { kind: row.kind.clone(), namespace: row.namespace.clone(), name: row.name.clone() };
    let others: BTreeSet<Sort> = rows.iter().filter(|row| row.owner != own(row)).map(|row| sort(&row.owner)).collect();
    let known = known(server, viewer, others).await?;
    for row in rows.iter_mut().filter(|row| row.owner != own(row) && !known.contains(&sort(&row.owner))) {
        row.owner = own(row);
    }
    Ok(())
}

/// The same of whole events.
pub(super) async fn hide_whole(server: &Server, viewer: &Viewer, events: &mut [Arc<Event>]) -> Result<(), Problem> {
    let other = |event: &Event| event.owner.as_ref().filter(|owner| **owner != own(event)).map(sort);
    let known = known(server, viewer, events.iter().filter_map(|event| other(event)).collect()).await?;
    for event in events.iter_mut() {
        if other(event).is_some_and(|owner| !known.contains(&owner)) {
            let owner = Some(own(event));
            Arc::make_mut(event).owner = owner;
        }
    }
    Ok(())
}

/// An object that nothing owns is its own.
pub(super) fn own(event: &Event) -> OwnerRef {
    let r = &event.resource;
    OwnerRef { kind: r.kind.clone(), namespace: r.namespace.clone(), name: r.name.clone() }
}

/// A filter without the owners that somebody may not know of: nothing belongs to them.
pub(super) async fn allowed(server: &Server, viewer: &Viewer, filter: &Filter) -> Result<Filter, Problem> {
    let mut filter = filter.clone();
    if filter.owners.is_empty() || matches!(viewer, Viewer::Anyone) {
        return Ok(filter);
    }
    let named = filter.owners.any.iter().chain(&filter.owners.none).filter_map(|word| asked(word)).collect();
    let known = known(server, viewer, named).await?;
    // A pattern that is about more than names would have to be asked of every kind and namespace.
    let all = server.access.see(viewer, Vec::new(), false).await?.sight == Sight::Everything;
    let may = |word: &String| all || asked(word).is_some_and(|owner| known.contains(&owner));
    let some = !filter.owners.any.is_empty();
    filter.owners.any.retain(may);
    filter.owners.none.retain(may);
    if some && filter.owners.any.is_empty() {
        filter.owners.any.push(NOBODY.to_owned());
    }
    Ok(filter)
}

/// No object has such a kind.
const NOBODY: &str = "-/-/-";

/// The kind and namespace of a filter's owner; `None` where they are patterns.
fn asked(word: &str) -> Option<Sort> {
    let (kind, namespace) = match word.split('/').collect::<Vec<_>>()[..] {
        [kind, _] | [kind, "-", _] => (kind, ""),
        [kind, namespace, _] => (kind, namespace),
        _ => return None,
    };
    (!kind.contains('*') && !namespace.contains('*')).then(|| (kind.to_owned(), namespace.to_owned()))
}

fn sort(owner: &OwnerRef) -> Sort {
    (owner.kind.clone(), owner.namespace.clone())
}

/// Which of them somebody may list. Of a kind that is not known nobody can say who may; of one that several groups have,
/// whoever may list all of them.
async fn known(server: &Server, viewer: &Viewer, owners: BTreeSet<Sort>) -> Result<BTreeSet<Sort>, Problem> {
    if owners.is_empty() || matches!(viewer, Viewer::Anyone) {
        return Ok(owners);
    }
    let kinds = server.ask(|history| history.kinds()).await?;
    let all = owners.iter().flat_map(|owner| places(&kinds, owner)).map(|place| (place, 0)).collect();
    let sight = server.access.see(viewer, all, false).await?.sight;
    if sight == Sight::Everything {
        return Ok(owners);
    }
    let may = |place: &Place| sight.may(&place.group, &place.resource, &place.namespace);
    let known = |owner: &Sort| {
        let places = places(&kinds, owner);
        !places.is_empty() && places.iter().all(may)
    };
    Ok(owners.into_iter().filter(known).collect())
}

/// Where objects of a kind are, whatever their group.
fn places(kinds: &Kinds, (kind, namespace): &Sort) -> Vec<Place> {
    let of_kind = kinds.0.iter().filter(|resource| resource.kind.eq_ignore_ascii_case(kind));
    let place = |resource: &crate::cluster::Resource| Place {
        group: resource.group.clone(),
        resource: resource.plural.clone(),
        namespace: namespace.clone(),
    };
    of_kind.map(place).collect()
}
