//! A change in the words and colours of chat: title, short diff, colour. Plain text; each sink escapes it its own way.

use serde_json::Value;

use super::format::object_name;
use crate::{
    diff::{Change, Op},
    event::{Class, Event, Kind, Observed},
};

/// Added green, modified amber, removed red; problems are darker, permissions violet. Never the only sign: the glyph and
/// the words say the same.
pub fn colour(event: &Event) -> &'static str {
    let is = |class: Class| event.classes.contains(&class);
    match event.kind {
        Kind::Created => "#2e9e5b",
        Kind::Deleted => "#d1383d",
        Kind::Updated if is(Class::Health) => "#b4540a",
        Kind::Updated if is(Class::Rbac) => "#8250df",
        Kind::Updated if !is(Class::Spec) && is(Class::Status) => "#9aa0a6",
        Kind::Updated => "#d99a1c",
    }
}

/// `+`, `~` or `-`
pub fn glyph(kind: Kind) -> char {
    match kind {
        Kind::Created => '+',
        Kind::Updated => '~',
        Kind::Deleted => '-',
    }
}

/// `~ Deployment shop/web, prod-eu, changed by kubectl-edit (by hand)`: makes sense alone on a phone's lock screen.
pub fn title(event: &Event) -> String {
    format!("{} {}, {}", glyph(event.kind), what(event), who(event))
}

/// `Deployment shop/web, prod-eu`
pub fn what(event: &Event) -> String {
    let mut text = format!("{} {}", event.resource.kind, object_name(event));
    if !event.cluster.name.is_empty() {
        text.push_str(", ");
        text.push_str(&event.cluster.name);
    }
    text
}

/// `changed by kubectl-edit (by hand)`
pub fn who(event: &Event) -> String {
    let verb = match event.kind {
        Kind::Created => "created",
        Kind::Updated => "changed",
        Kind::Deleted => "deleted",
    };
    let mut managers: Vec<&str> = event.actors.iter().map(|actor| actor.manager.as_str()).collect();
    managers.dedup();
    let late = match event.observed {
        Observed::Live => "",
        Observed::Late => " while kubediff was away",
        Observed::Audit => " (found by the audit)",
    };
    match managers.as_slice() {
        [] => format!("{verb}{late}"),
        [one] => format!("{verb} by {one}{}{late}", by_hand(event)),
        [one, other] => format!("{verb} by {one} and {other}{}{late}", by_hand(event)),
        [one, rest @ ..] => format!("{verb} by {one} and {} more{}{late}", rest.len(), by_hand(event)),
    }
}

fn by_hand(event: &Event) -> &'static str {
    if event.by_hand() { " (by hand)" } else { "" }
}

/// The changes as lines that begin with `-`, `+` or `~`, at most so many lines of at most so many characters. The last
/// line says how many changes are not shown.
pub fn diff(event: &Event, lines: usize, width: usize) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut shown = 0;
    for change in &event.changes {
        let of_change = change_lines(change, width);
        if !out.is_empty() && out.len() + of_change.len() > lines {
            break;
        }
        out.extend(of_change);
        shown += 1;
    }
    let cut_off = out.len().saturating_sub(lines);
    out.truncate(lines);
    let hidden = event.changes.len() - shown;
    if cut_off > 0 {
        out.push(format!("  ... {cut_off} more {}", plural(cut_off, "line", "lines")));
    }
    if hidden > 0 {
        out.push(format!("  ... {hidden} more {}", plural(hidden, "change", "changes")));
    }
    out.join("\n")
}

fn change_lines(change: &Change, width: usize) -> Vec<String> {
    // A key of a map may hold anything.
    let field = short_field(&change.field).replace('\n', "⏎");
    if let Some(lines) = &change.lines {
        let body = lines.lines().filter(|line| !line.starts_with("@@") && !line.starts_with("---"));
        let body = body.filter(|line| !line.starts_with("+++"));
        return std::iter::once(format!("~ {field}:")).chain(body.map(|line| cut(line, width))).collect();
    }
    let (from, to) = (change.from.as_ref().map(value), change.to.as_ref().map(value));
    let (from, to) = match (from, to) {
        (Some(from), Some(to)) => {
            let (from, to) = around_the_change(&from, &to, width.saturating_sub(field.chars().count() + 4));
            (Some(from), Some(to))
        }
        other => other,
    };
    let line = |sign: char, value: &str| cut(&format!("{sign} {field}: {value}"), width);
    match change.op {
        Op::Move => vec![cut(&format!("~ {field}: moved"), width)],
        _ => from.iter().map(|value| line('-', value)).chain(to.iter().map(|value| line('+', value))).collect(),
    }
}

/// `spec.template.spec.containers[web].image` -> `containers[web].image`
pub fn short_field(field: &str) -> &str {
    for prefix in ["spec.template.spec.", "spec.jobTemplate.spec.template.spec.", "spec.", "metadata."] {
        if let Some(rest) = field.strip_prefix(prefix).filter(|rest| !rest.is_empty()) {
            return rest;
        }
    }
    field
}

pub fn value(value: &Value) -> String {
    match value {
        Value::String(text) => text.replace('\n', "⏎"),
        other => other.to_string(),
    }
}

/// Two long values without most of what they have in common, so that what differs stays in sight.
fn around_the_change(from: &str, to: &str, width: usize) -> (String, String) {
    const KEPT: usize = 12;
    if from.chars().count().max(to.chars().count()) <= width {
        return (from.to_owned(), to.to_owned());
    }
    let common = from.chars().zip(to.chars()).take_while(|(a, b)| a == b).count();
    let skip = common.saturating_sub(KEPT);
    if skip < 2 {
        return (from.to_owned(), to.to_owned());
    }
    let tail = |text: &str| std::iter::once('…').chain(text.chars().skip(skip)).collect::<String>();
    (tail(from), tail(to))
}

/// At most so many characters, the last one an ellipsis when something was cut off.
pub fn cut(text: &str, chars: usize) -> String {
    if text.chars().nth(chars).is_none() {
        return text.to_owned();
    }
    text.chars().take(chars.saturating_sub(1)).chain(['…']).collect()
}

pub fn plural<'a>(n: usize, one: &'a str, many: &'a str) -> &'a str {
    if n == 1 { one } else { many }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::sample;

    /// Type and class can be told apart by colour, by glyph and by words.
    #[test]
    fn what_was_done_and_what_sort_of_change_it_was_have_their_own_colours_and_words() {
        let of = |kind, classes: &[Class]| {
            let event = Event { kind, classes: classes.to_vec(), ..sample::event() };
            (colour(&event), glyph(kind), who(&event).split(' ').next().unwrap_or_default().to_owned())
        };
        let all = [
            (of(Kind::Created, &[Class::Lifecycle]), ("#2e9e5b", '+', "created")),
            (of(Kind::Deleted, &[Class::Lifecycle]), ("#d1383d", '-', "deleted")),
            (of(Kind::Updated, &[Class::Spec, Class::Image]), ("#d99a1c", '~', "changed")),
            (of(Kind::Updated, &[Class::Status, Class::Health]), ("#b4540a", '~', "changed")),
            (of(Kind::Updated, &[Class::Rbac]), ("#8250df", '~', "changed")),
            (of(Kind::Updated, &[Class::Status]), ("#9aa0a6", '~', "changed")),
            (of(Kind::Updated, &[Class::Status, Class::Spec]), ("#d99a1c", '~', "changed")),
            (of(Kind::Created, &[Class::Rbac]), ("#2e9e5b", '+', "created")),
        ];
        for ((colour, glyph, word), expected) in &all {
            assert_eq!((*colour, *glyph, word.as_str()), *expected);
        }
    }
}
