//! Two documents as one YAML text with marks: what is equal is folded, but the keys that lead to a change stay.

use serde_json::Value;
use similar::{Algorithm, ChangeTag, DiffOp, TextDiff};

use super::{Style, paint::Paint, words, yaml::yaml};

/// Equal lines around a change.
const CONTEXT: usize = 2;
/// A fold takes a line itself: fewer are shown as they are.
const FOLD: usize = 2;

struct Line<'a> {
    mark: char,
    text: &'a str,
    shown: bool,
}

/// Nothing when the documents are equal.
pub fn unified(old: &Value, new: &Value, style: &Style) -> String {
    let text = |value: &Value| if value.is_null() { String::new() } else { yaml(value) };
    let (old, new) = (text(old), text(new));
    if old == new {
        return String::new();
    }
    let diff = TextDiff::configure().algorithm(Algorithm::Patience).diff_lines(old.as_str(), new.as_str());
    let mut lines: Vec<Line<'_>> = Vec::new();
    for op in diff.ops() {
        let start = lines.len();
        for change in diff.iter_changes(op) {
            let mark = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            lines.push(Line { mark, text: change.value().trim_end_matches('\n'), shown: mark != ' ' });
        }
        if matches!(op, DiffOp::Replace { .. }) {
            interleave(&mut lines, start);
        }
    }
    show(&mut lines);
    fold(&lines, style)
}

/// Where the same keys have new values, each old line stands over its new one.
fn interleave(lines: &mut Vec<Line<'_>>, start: usize) {
    let half = (lines.len() - start) / 2;
    let key = |line: &Line<'_>| line.text.split_once(':').map(|(key, _)| key.to_owned());
    let (removed, added) = lines[start..].split_at(half);
    let pairs = removed.len() == added.len()
        && removed
            .iter()
            .zip(added)
            .all(|(r, a)| r.mark == '-' && a.mark == '+' && key(r).is_some() && key(r) == key(a));
    if pairs {
        let added = lines.split_off(start + half);
        let removed = lines.split_off(start);
        lines.extend(removed.into_iter().zip(added).flat_map(|(removed, added)| [removed, added]));
    }
}

/// Marks what is to be seen: two lines around each change, and the keys that lead to it.
fn show(lines: &mut [Line<'_>]) {
    let changed: Vec<usize> = (0..lines.len()).filter(|&index| lines[index].mark != ' ').collect();
    for index in &changed {
        let around = index.saturating_sub(CONTEXT)..(index + CONTEXT + 1).min(lines.len());
        lines[around].iter_mut().for_each(|line| line.shown = true);
    }
    let mut above: Vec<(usize, usize)> = Vec::new();
    for index in 0..lines.len() {
        let depth = depth(lines[index].text);
        while above.last().is_some_and(|(other, _)| *other >= depth) {
            above.pop();
        }
        if lines[index].mark != ' ' {
            // All above an ancestor that is shown already are shown too.
            for (_, ancestor) in above.iter().rev() {
                lines[*ancestor].shown = true;
            }
        }
        above.push((depth, index));
    }
}

/// An item of a list is deeper than the key of the list, which stands in the same column.
fn depth(line: &str) -> usize {
    let text = line.trim_start_matches(' ');
    let column = line.len() - text.len();
    2 * column + usize::from(text.starts_with("- "))
}

fn fold(lines: &[Line<'_>], style: &Style) -> String {
    let paint = Paint(style.color);
    let mut out = String::new();
    let mut index = 0;
    while index < lines.len() {
        let hidden = lines[index..].iter().take_while(|line| !line.shown).count();
        if hidden > FOLD {
            let indent = " ".repeat(lines[index].text.len() - lines[index].text.trim_start_matches(' ').len());
            out.push_str(&paint.dim(&format!("  {indent}… {hidden} lines")));
            out.push('\n');
            index += hidden;
            continue;
        }
        for line in &lines[index..index + hidden.max(1)] {
            let text = words::one_line(&line.text.replace('\t', "    "));
            let text = if text.is_empty() { line.mark.to_string() } else { format!("{} {text}", line.mark) };
            let text = if style.width == 0 { text } else { words::cut(&text, style.width) };
            out.push_str(paint.marked(&text).trim_end());
            out.push('\n');
        }
        index += hidden.max(1);
    }
    out
}
