//! Which of several managers made which of the changes. Most events have one manager and need none of this.

use std::cell::Cell;

use super::{Entry, STEPS, parse, split};
use crate::event::{Actor, path::Spot};

/// Says for each of several actors which changes it made, by the entries that it has for them: of what is there in the
/// newer `managedFields`, of what was taken away in the older ones. A change that none of them has is nobody's.
pub(crate) fn share(actors: &mut [Actor], before: &[u8], after: &[u8], spots: &[Spot<'_>]) {
    if actors.len() < 2 {
        return;
    }
    let budget = Cell::new(STEPS);
    let of_actors = |text| -> Vec<(usize, Entry<'_>)> {
        let entries = split(text).into_iter().filter_map(parse);
        let known = entries.filter_map(|entry| {
            let same = |actor: &Actor| {
                actor.manager == entry.manager
                    && actor.operation == entry.operation
                    && actor.subresource == entry.subresource
            };
            actors.iter().position(same).map(|actor| (actor, entry))
        });
        known.collect()
    };
    let (older, newer) = (of_actors(before), of_actors(after));
    let mut made = vec![Vec::new(); actors.len()];
    for (change, spot) in spots.iter().enumerate() {
        let entries = if spot.removed() { &older } else { &newer };
        let depths =
            entries.iter().filter_map(|(actor, entry)| Some((entry.depth(spot, &budget)?, entry.time, *actor)));
        // The one that knows most of the place; of several the one that wrote last.
        if let Some((_, _, actor)) = depths.max() {
            made[actor].push(change);
        }
    }
    for (actor, changes) in actors.iter_mut().zip(made) {
        actor.changes = changes;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{diff, event::actors::of_update};

    fn entry(manager: &str, subresource: &str, second: u8, fields: &Value) -> Value {
        json!({"manager": manager, "operation": "Update", "subresource": subresource, "apiVersion": "apps/v1",
               "time": format!("2026-11-16T10:00:{second:02}Z"), "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    #[test]
    fn each_change_is_the_one_managers_that_owns_the_place() {
        let container = |image: &str| json!({"name": "web", "image": image});
        let old =
            json!({"spec": {"replicas": 1, "paused": true, "containers": [container("1")]}, "status": {"ready": 1}});
        let new = json!({"spec": {"replicas": 3, "containers": [container("2")]}, "status": {"ready": 3}});
        let image = json!({"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {"f:image": {}}}}});
        let scale = json!({"f:spec": {"f:replicas": {}}});
        let scaled = json!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
        let status = json!({"f:status": {"f:ready": {}}});
        let before = json!([
            entry("helm", "", 1, &image),
            entry("kubectl-scale", "", 1, &scaled),
            entry("kcm", "status", 1, &status)
        ]);
        let after = json!([
            entry("helm", "", 5, &image),
            entry("kubectl-scale", "", 6, &scale),
            entry("kcm", "status", 7, &status)
        ]);
        let (before, after) = (before.to_string(), after.to_string());
        let found = diff::diff(&old, &new, &diff::Keys::default());
        let spots = Spot::locate_all(&found.changes, &old, &new);
        let mut actors = of_update(before.as_bytes(), after.as_bytes(), &spots);
        assert_eq!(actors.len(), 3);
        share(&mut actors, before.as_bytes(), after.as_bytes(), &spots);
        let of = |manager: &str| {
            let actor = actors.iter().find(|actor| actor.manager == manager).unwrap();
            let mut paths: Vec<&str> =
                actor.changes.iter().map(|change| found.changes[*change].path.as_str()).collect();
            paths.sort_unstable();
            paths
        };
        assert_eq!(of("helm"), ["/spec/containers/0/image"]);
        assert_eq!(of("kubectl-scale"), ["/spec/paused", "/spec/replicas"]);
        assert_eq!(of("kcm"), ["/status/ready"]);
        actors.truncate(1);
        actors[0].changes.clear();
        share(&mut actors, before.as_bytes(), after.as_bytes(), &spots);
        assert!(actors[0].changes.is_empty(), "one alone made all of them");
    }
}
