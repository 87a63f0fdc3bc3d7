//! Markdown, for chat, tickets and mail: a line that makes sense alone, the sentence, and the change as a diff.

use super::{Event, item, item_text, kind, lines, managers, secret_keys, words};
use crate::{
    diff::{Change, Op},
    event::Kind,
};

/// More lines are counted, not shown.
const LINES: usize = 40;
/// Columns of one line.
const WIDTH: usize = 160;

/// One event.
pub fn markdown(event: &Event) -> String {
    let mut out = format!("**{}**\n", headline(event, &escape, &code));
    if event.kind == Kind::Updated {
        out.push_str(&format!("\n{}\n", escape(&event.summary)));
    } else if let Some((_, about)) = event.summary.split_once(" created: ") {
        out.push_str(&format!("\n{}\n", escape(about)));
    }
    let (lines, more) = marked(event, LINES, WIDTH);
    if !lines.is_empty() {
        let fence = fence(&lines);
        out.push_str(&format!("\n{fence}diff\n{}\n{fence}\n", lines.join("\n")));
    }
    if more > 0 {
        out.push_str(&format!("\nand {} more\n", words::count(i64::try_from(more).unwrap_or(i64::MAX), "line")));
    }
    out
}

/// `~ Deployment shop/web, prod-eu, changed by kubectl-edit (by hand)`, with the texts passed through `text` and the names
/// through `name`: chat systems escape and mark up in ways of their own.
pub fn headline(event: &Event, text: &dyn Fn(&str) -> String, name: &dyn Fn(&str) -> String) -> String {
    let verb = match event.kind {
        Kind::Created => "created",
        Kind::Updated => "changed",
        Kind::Deleted => "deleted",
    };
    let mut line = format!("{} {} {}", event.kind.glyph(), text(&kind(event)), name(&event.resource.ns_name()));
    if !event.cluster.name.is_empty() {
        line.push_str(&format!(", {}", text(&event.cluster.name)));
    }
    line.push_str(&format!(", {verb}"));
    let managers = managers(event);
    if !managers.is_empty() {
        line.push_str(&format!(" by {}", name(&managers)));
    }
    if event.by_hand() {
        line.push_str(" (by hand)");
    }
    if event.kind == Kind::Deleted
        && let Some(lifetime) = super::lifetime(event)
    {
        line.push_str(&format!(" after {lifetime}"));
    }
    line
}

/// The change as lines that begin with `- `, `+ ` or two spaces, at most `limit` of them, each cut to `width`; and how
/// many there are beyond. What changed in status alone has none: its summary says it.
pub fn marked(event: &Event, limit: usize, width: usize) -> (Vec<String>, usize) {
    let mut all = Vec::new();
    for (op, names) in secret_keys(event) {
        let names = words::list(&names, 12);
        match op {
            Op::Add => all.push(format!("+ {names}")),
            Op::Remove => all.push(format!("- {names}")),
            _ => all.push(format!("  rotated: {names}")),
        }
    }
    for change in &event.changes {
        let status = change.path.split('/').nth(1) == Some("status");
        if !status && !super::is_secret_value(event, change) {
            mark(change, width, &mut all);
        }
    }
    let more = all.len().saturating_sub(limit);
    all.truncate(limit);
    (all, more)
}

fn mark(change: &Change, width: usize, all: &mut Vec<String>) {
    let cut = |line: &str| words::cut(&words::one_line(line), width);
    if let Some(lines) = lines(change) {
        all.push(cut(&format!("  {}:", change.field)));
        all.extend(lines.lines().map(|line| {
            let (mark, text) = line.split_at_checked(1).unwrap_or((" ", line));
            if matches!(mark, "+" | "-" | " ") { cut(&format!("{mark} {text}")) } else { cut(&format!("  {line}")) }
        }));
        return;
    }
    let field = match (change.op, item(&change.field)) {
        (Op::Add | Op::Remove, Some((list, _))) => list,
        _ => &change.field,
    };
    let line = |mark: char, value: &str| cut(&format!("{mark} {field}: {value}"));
    match (change.op, &change.from, &change.to) {
        (Op::Add, _, Some(to)) => all.push(line('+', &item_text(to))),
        (Op::Remove, Some(from), _) => all.push(line('-', &item_text(from))),
        (Op::Replace, Some(from), Some(to)) => {
            let room = width.saturating_sub(field.chars().count() + 4).max(20);
            let (from, to) = words::pair(from, to, room);
            if from == to {
                all.push(line(' ', "changed (hidden)"));
            } else {
                all.push(line('-', &from));
                all.push(line('+', &to));
            }
        }
        (Op::Move, Some(from), Some(to)) => all.push(line(' ', &format!("moved {from} -> {to}"))),
        _ => {}
    }
}

/// A text in which nothing is markup.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in words::one_line(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '~' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A text as code, fenced with more backticks than it has.
fn code(text: &str) -> String {
    let text = words::one_line(text);
    let ticks = "`".repeat(longest_run(&text) + 1);
    if text.starts_with('`') || text.ends_with('`') {
        format!("{ticks} {text} {ticks}")
    } else {
        format!("{ticks}{text}{ticks}")
    }
}

fn fence(lines: &[String]) -> String {
    let longest = lines.iter().map(|line| longest_run(line)).max().unwrap_or(0);
    "`".repeat((longest + 1).max(3))
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}
