//! ConfigMap and Secret: which keys, and never a Secret's values.

use serde_json::Value;

use super::{Sentence, Update, generic, words};
use crate::diff::Op;

const MAPS: &[&str] = &["data", "binaryData", "stringData"];

/// The keys of a map that came or went as a whole.
fn keys(value: &Value) -> Vec<String> {
    value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
}

pub(super) fn config_map(update: &Update<'_>, sentence: &mut Sentence) {
    for (index, spot) in update.spots.iter().enumerate() {
        if !MAPS.contains(&spot.key(0)) {
            continue;
        }
        sentence.told[index] = true;
        if spot.len() == 1 {
            let (all, verb) = if spot.removed() { (spot.from(), "removed") } else { (spot.to(), "added") };
            sentence.say(format!("{} {verb}", words::list(&keys(all), 4)));
            continue;
        }
        let key = words::one_line(spot.key(1));
        let long = |value: &Value| words::text(value).contains('\n') || spot.key(0) == "binaryData";
        sentence.say(match (spot.change.op, &spot.change.lines) {
            (_, Some(lines)) => generic::lines_changed(&key, lines),
            (Op::Add, _) if long(spot.to()) || words::is_hidden(spot.to()) => format!("{key} added"),
            (Op::Add, _) => format!("{key}={} added", words::value(spot.to())),
            (Op::Remove, _) => format!("{key} removed"),
            _ if long(spot.to()) || long(spot.from()) => format!("{key} changed"),
            _ => words::change(&key, spot.from(), spot.to()),
        });
    }
}

pub(super) fn secret(update: &Update<'_>, sentence: &mut Sentence) {
    let (mut rotated, mut added, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    for (index, spot) in update.spots.iter().enumerate() {
        if !MAPS.contains(&spot.key(0)) {
            continue;
        }
        sentence.told[index] = true;
        let (list, all) = match spot.change.op {
            Op::Add => (&mut added, spot.to()),
            Op::Remove => (&mut removed, spot.from()),
            _ => (&mut rotated, spot.to()),
        };
        if spot.len() == 1 { list.extend(keys(all)) } else { list.push(spot.key(1).to_owned()) }
    }
    for (verb, keys) in [("rotated", rotated), ("keys added", added), ("keys removed", removed)] {
        if !keys.is_empty() {
            sentence.say(format!("Secret {verb}: {}", words::list(&keys, 6)));
        }
    }
}
