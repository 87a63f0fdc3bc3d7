//! For a terminal, and plain for everything else:
//!
//! ```text
//! 11:42:17 ~ Deployment shop/web   kubectl-edit
//!     spec.template.spec.containers[web].image   nginx:1.25 -> nginx:1.27
//!     spec.template.spec.containers[web].env     + LOG_LEVEL=debug
//! ```

use serde_json::Value;

use super::{Style, item, item_text, kind, lifetime, lines, managers, paint::Paint, secret_keys, words};
use crate::{
    diff::{Change, Op},
    event::{Event, Kind, Observed},
};

const INDENT: &str = "    ";
/// Between columns.
const GAP: &str = "   ";
/// No room for values is worse than a broken line.
const NARROW: usize = 20;

const DELETION: &str = "/metadata/deletionTimestamp";
const GRACE: &str = "/metadata/deletionGracePeriodSeconds";

/// One event, as lines that each end in a newline.
pub fn terminal(event: &Event, style: &Style) -> String {
    let paint = Paint(style.color);
    let mut out = header(event, style, paint);
    out.push('\n');
    for line in body(event, style, paint) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The first line alone, with its newline.
pub fn title(event: &Event, style: &Style) -> String {
    header(event, style, Paint(style.color)) + "\n"
}

fn header(event: &Event, style: &Style, paint: Paint) -> String {
    let mut line = String::new();
    if let Some(zone) = &style.zone {
        let time = event.time.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string();
        line.push_str(&paint.dim(&time));
        line.push(' ');
    }
    let glyph = event.kind.glyph().to_string();
    line.push_str(&match event.kind {
        Kind::Created => paint.added(&glyph),
        Kind::Updated => paint.modified(&glyph),
        Kind::Deleted => paint.removed(&glyph),
    });
    line.push_str(&format!(" {} {}", kind(event), paint.bold(&words::one_line(&event.resource.ns_name()))));
    let managers = managers(event);
    if !managers.is_empty() {
        line.push_str(GAP);
        // By hand stands out from what programs do all day.
        line.push_str(&if event.by_hand() { managers } else { paint.dim(&managers) });
    }
    if event.kind == Kind::Deleted
        && let Some(lifetime) = lifetime(event)
    {
        line.push_str(&format!("{GAP}{}", paint.dim(&format!("(after {lifetime})"))));
    }
    match event.observed {
        Observed::Live => {}
        Observed::Late => line.push_str(&format!("{GAP}{}", paint.dim("(while kubediff was away)"))),
        Observed::Audit => line.push_str(&format!("{GAP}{}", paint.dim("(found by audit)"))),
    }
    line
}

fn body(event: &Event, style: &Style, paint: Paint) -> Vec<String> {
    if event.kind == Kind::Created {
        let about = event.summary.split_once(" created: ").map(|(_, about)| about);
        return about.map(|about| format!("{INDENT}{}", fit(about, style, INDENT.len()))).into_iter().collect();
    }
    let mut rows: Vec<String> = Vec::new();
    for (op, names) in secret_keys(event) {
        let names = words::list(&names, 12);
        rows.push(match op {
            Op::Add => format!("{INDENT}{} {names}", paint.added("added:")),
            Op::Remove => format!("{INDENT}{} {names}", paint.removed("removed:")),
            _ => format!("{INDENT}{} {names}", paint.modified("rotated:")),
        });
    }
    rows.extend(deletion(event, paint));
    let told = |change: &&Change| super::is_secret_value(event, change) || is_deletion(change);
    let asked = |change: &Change| change.path.split('/').nth(1) != Some("status") && !is_binding(event, change);
    let changes: Vec<&Change> = event.changes.iter().filter(|change| !told(change)).collect();
    let shown: Vec<&Change> =
        if style.status { changes.clone() } else { changes.iter().copied().filter(|c| asked(c)).collect() };
    if shown.is_empty() && !changes.is_empty() && rows.is_empty() {
        return vec![format!("{INDENT}{}", fit(&event.summary, style, INDENT.len()))];
    }
    rows.extend(table(&shown, style, paint));
    rows
}

/// An object that was asked to go: when it goes is of no interest, how long it may take is.
fn deletion(event: &Event, paint: Paint) -> Option<String> {
    let find = |path: &str| event.changes.iter().find(|change| change.path == path);
    let asked = find(DELETION)?;
    let what = paint.removed(if asked.op == Op::Add { "is being deleted" } else { "is being deleted now" });
    let grace = find(GRACE).and_then(|change| change.to.as_ref()).and_then(Value::as_i64).filter(|grace| *grace > 0);
    let grace = grace.map_or(String::new(), |grace| paint.dim(&format!(" (within {grace} s)")));
    Some(format!("{INDENT}{what}{grace}"))
}

fn is_deletion(change: &Change) -> bool {
    change.path == DELETION || change.path == GRACE
}

/// The scheduler's choice, which a sentence tells better.
fn is_binding(event: &Event, change: &Change) -> bool {
    change.path == "/spec/nodeName" && event.resource.kind == "Pod" && event.resource.group.is_empty()
}

fn fit(text: &str, style: &Style, used: usize) -> String {
    if style.width == 0 { text.to_owned() } else { words::cut(text, style.width.saturating_sub(used).max(NARROW)) }
}

/// Where a change is, for the left column: the list of an item that came or went, else the field.
fn label(change: &Change) -> &str {
    match (change.op, item(&change.field)) {
        (Op::Add | Op::Remove, Some((list, _))) => list,
        _ => &change.field,
    }
}

fn table(changes: &[&Change], style: &Style, paint: Paint) -> Vec<String> {
    // The left column takes what it needs, but leaves half a line to the values.
    let in_line = changes.iter().filter(|change| lines(change).is_none());
    let widest = in_line.map(|change| label(change).chars().count()).max().unwrap_or(0);
    let limit = if style.width == 0 { 80 } else { (style.width / 2).max(NARROW) };
    let column = widest.min(limit);
    let room = if style.width == 0 {
        usize::MAX
    } else {
        style.width.saturating_sub(INDENT.len() + column + GAP.len()).max(NARROW)
    };
    let mut rows = Vec::new();
    for change in changes {
        let label = words::one_line(label(change));
        let label = if style.width == 0 { label } else { words::cut_middle(&label, column) };
        if let Some(text) = lines(change) {
            rows.push(format!("{INDENT}{label}"));
            for line in text.lines() {
                let line = words::one_line(&line.replace('\t', "    "));
                rows.push(format!("{INDENT}{INDENT}{}", paint.marked(&fit(&line, style, 2 * INDENT.len()))));
            }
            continue;
        }
        rows.push(format!("{INDENT}{label:column$}{GAP}{}", values(change, room, paint)));
    }
    rows
}

fn values(change: &Change, room: usize, paint: Paint) -> String {
    let (from, to) = (change.from.as_ref().unwrap_or(&Value::Null), change.to.as_ref().unwrap_or(&Value::Null));
    let one = |value: &Value| words::cut(&item_text(value), room.saturating_sub(2));
    match change.op {
        Op::Add => paint.added(&format!("+ {}", one(to))),
        Op::Remove => paint.removed(&format!("- {}", one(from))),
        Op::Move => paint.modified(&format!("moved {} -> {}", words::whole(from), words::whole(to))),
        Op::Replace => {
            let (was, is) = words::pair(from, to, (room.saturating_sub(4) / 2).max(8));
            if was == is {
                return paint.modified("changed (hidden)");
            }
            format!("{} -> {}", paint.removed(&was), paint.added(&is))
        }
    }
}
