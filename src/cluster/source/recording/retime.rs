//! Moves the times in the objects of a recording, as if it had been made at another time.

use std::{sync::LazyLock, time::Duration};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use regex::bytes::{Captures, Regex};

use super::{Frame, Recording};

/// A whole JSON string that is a time as Kubernetes writes it, with or without a fraction.
static TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z""#).expect("a right pattern"));

impl Recording {
    /// The same with its beginning at `began`, to be played so many times as fast. Times before the beginning keep
    /// their distance to it, later ones shrink with the speed. A recording that does not say when it began stays as it is.
    #[must_use]
    pub fn retimed(mut self, began: Timestamp, speed: f64) -> Self {
        let Some(was) = self.began.replace(began) else { return self };
        let moved = |object: &Bytes| {
            let text = TIME.replace_all(object, |found: &Captures<'_>| {
                move_one(found, was, began, speed).unwrap_or_else(|| found[0].to_vec())
            });
            Bytes::from(text.into_owned())
        };
        for object in self.served.iter_mut().flat_map(|served| served.objects.values_mut()) {
            *object = moved(object);
        }
        for change in &mut self.changes {
            if let Frame::Added(object) | Frame::Modified(object) | Frame::Deleted(object) = &mut change.frame {
                *object = moved(object);
            }
        }
        self
    }
}

fn move_one(found: &Captures<'_>, was: Timestamp, began: Timestamp, speed: f64) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(&found[0]).ok()?.trim_matches('"');
    let after = text.parse::<Timestamp>().ok()?.duration_since(was);
    let after = match Duration::try_from(after) {
        Ok(after) => SignedDuration::try_from(after.div_f64(speed)).ok()?,
        Err(_) => after,
    };
    let time = began.checked_add(after).ok()?;
    // The same precision: whole seconds stay whole.
    let text = match found.get(2).map_or(0, |fraction| fraction.len() - 1) {
        0 => time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        digits => format!("{time:.digits$}"),
    };
    Some(format!("\"{text}\"").into_bytes())
}
