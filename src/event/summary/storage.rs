//! PersistentVolumeClaim and PersistentVolume.

use super::{Sentence, Update, words};

pub(super) fn claim(update: &Update<'_>, sentence: &mut Sentence) {
    for (index, spot) in update.spots.iter().enumerate() {
        if spot.is(&["spec", "resources", "requests", "storage"]) {
            sentence.say(words::change("requested storage", spot.from(), spot.to()));
            sentence.told[index] = true;
        }
    }
    if update.touches(&["status", "phase"]) {
        let volume = words::text(update.is("/spec/volumeName"));
        sentence.say(match words::text(update.is("/status/phase")) {
            "Bound" if !volume.is_empty() => format!("claim bound to {}", words::one_line(volume)),
            "Lost" => "claim lost its volume".to_owned(),
            phase => format!("claim is {}", words::one_line(phase)),
        });
        sentence.tell(update, &["status"]);
        sentence.tell(update, &["spec", "volumeName"]);
        sentence.tell(update, &["metadata", "annotations"]);
    } else if update.touches(&["status", "capacity"]) {
        let (was, is) = (update.was("/status/capacity/storage"), update.is("/status/capacity/storage"));
        sentence.say(words::change("capacity", was, is));
        sentence.tell(update, &["status"]);
    }
}

pub(super) fn volume(update: &Update<'_>, sentence: &mut Sentence) {
    if update.touches(&["status", "phase"]) {
        let claim = update.is("/spec/claimRef");
        let of = match (words::text(&claim["namespace"]), words::text(&claim["name"])) {
            (_, "") => String::new(),
            (namespace, name) => format!(" ({namespace}/{name})"),
        };
        let (was, is) = (words::text(update.was("/status/phase")), words::text(update.is("/status/phase")));
        sentence.say(if was.is_empty() { format!("volume is {is}{of}") } else { format!("volume {was} -> {is}{of}") });
        sentence.tell(update, &["status"]);
        sentence.tell(update, &["spec", "claimRef"]);
    }
    for (index, spot) in update.spots.iter().enumerate() {
        if spot.is(&["spec", "persistentVolumeReclaimPolicy"]) {
            sentence.say(words::change("reclaim policy", spot.from(), spot.to()));
            sentence.told[index] = true;
        }
    }
}
