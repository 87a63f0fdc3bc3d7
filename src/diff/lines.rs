//! The line diff of a long text, bounded in time and in length.

use std::{fmt::Write, ops::Range};

use similar::DiffOp;

use super::sequence;

/// Texts shorter than this, both together, are shown as they are.
const LONG: usize = 160;

/// Lines around each change.
const CONTEXT: usize = 2;

/// The diff is cut after this many bytes: the patch has the whole, this is for reading. A last line counts what is left out.
const CUT: usize = 32 * 1024;

pub(super) fn are_worth_it(old: &str, new: &str) -> bool {
    let has_lines = |text: &str| text.trim_end_matches('\n').contains('\n');
    old.len() + new.len() > LONG && (has_lines(old) || has_lines(new))
}

/// The hunks of a unified diff, without the header that names files.
pub(super) fn unified(old: &str, new: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let mut out = String::new();
    let groups = similar::group_diff_ops(ops(&old, &new), CONTEXT);
    let (mut hidden_added, mut hidden_removed) = (0usize, 0usize);
    for group in &groups {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        if hidden_added + hidden_removed == 0 {
            let old = first.old_range().start..last.old_range().end;
            let new = first.new_range().start..last.new_range().end;
            // Writing to a String cannot fail.
            let _ = writeln!(out, "@@ -{} +{} @@", Span(old), Span(new));
        }
        for op in group {
            let (removed, added) = match op {
                DiffOp::Equal { .. } => {
                    for text in &old[op.old_range()] {
                        if hidden_added + hidden_removed == 0 && out.len() + text.len() <= CUT {
                            line(&mut out, ' ', text);
                        }
                    }
                    continue;
                }
                _ => (&old[op.old_range()], &new[op.new_range()]),
            };
            let marked = removed.iter().map(|text| ('-', text)).chain(added.iter().map(|text| ('+', text)));
            for (mark, text) in marked {
                if hidden_added + hidden_removed == 0 && out.len() + text.len() <= CUT {
                    line(&mut out, mark, text);
                } else if mark == '+' {
                    hidden_added += 1;
                } else {
                    hidden_removed += 1;
                }
            }
        }
    }
    if hidden_added + hidden_removed > 0 {
        let _ = writeln!(out, "\\ {hidden_added}{ADDED}{hidden_removed}{REMOVED}");
    }
    out
}

const ADDED: &str = " more lines added, ";
const REMOVED: &str = " more removed";

/// How many lines a line diff adds and removes, those included that it was cut before.
pub(crate) fn counts(lines: &str) -> (usize, usize) {
    let (mut added, mut removed) = (0, 0);
    for line in lines.lines() {
        match line.as_bytes().first() {
            Some(b'+') => added += 1,
            Some(b'-') => removed += 1,
            _ => {}
        }
    }
    let hidden = lines.lines().next_back().and_then(|last| {
        let (added, removed) = last.strip_prefix("\\ ")?.strip_suffix(REMOVED)?.split_once(ADDED)?;
        Some((added.parse::<usize>().ok()?, removed.parse::<usize>().ok()?))
    });
    let (hidden_added, hidden_removed) = hidden.unwrap_or_default();
    (added + hidden_added, removed + hidden_removed)
}

fn line(out: &mut String, mark: char, text: &str) {
    out.push(mark);
    out.push_str(text);
    if !text.ends_with('\n') {
        out.push_str("\n\\ No newline at end of file\n");
    }
}

fn ops(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let (old_numbers, new_numbers) = sequence::numbered(old, new);
    let mut ops = Vec::new();
    let (mut old_index, mut new_index) = (0, 0);
    for (old_end, new_end) in sequence::common(&old_numbers, &new_numbers).into_iter().chain([(old.len(), new.len())]) {
        if old_index < old_end || new_index < new_end {
            let (old_len, new_len) = (old_end - old_index, new_end - new_index);
            ops.push(DiffOp::Replace { old_index, old_len, new_index, new_len });
        }
        if old_end < old.len() {
            match ops.last_mut() {
                Some(DiffOp::Equal { len, .. }) => *len += 1,
                _ => ops.push(DiffOp::Equal { old_index: old_end, new_index: new_end, len: 1 }),
            }
        }
        (old_index, new_index) = (old_end + 1, new_end + 1);
    }
    ops
}

/// A range of lines as a hunk's header has it: counted from one, an empty one by the line before it.
struct Span(Range<usize>);

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.len() {
            0 => write!(f, "{},0", self.0.start),
            1 => write!(f, "{}", self.0.start + 1),
            len => write!(f, "{},{len}", self.0.start + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_line_is_shown_with_two_lines_around_it() {
        let old: String = (0..20).map(|n| format!("line {n}\n")).collect();
        let new = old.replace("line 9\n", "line nine\n").replace("line 19\n", "line 19");
        assert_eq!(
            unified(&old, &new),
            "@@ -8,5 +8,5 @@\n line 7\n line 8\n-line 9\n+line nine\n line 10\n line 11\n\
             @@ -18,3 +18,3 @@\n line 17\n line 18\n-line 19\n+line 19\n\\ No newline at end of file\n"
        );
    }

    #[test]
    fn an_inserted_line_is_one_line() {
        assert_eq!(unified("a\nb\n", "a\nx\nb\n"), "@@ -1,2 +1,3 @@\n a\n+x\n b\n");
        assert_eq!(unified("", "x\ny\n"), "@@ -0,0 +1,2 @@\n+x\n+y\n");
    }

    #[test]
    fn a_huge_diff_is_cut_and_says_so() {
        let old: String = (0..30_000).map(|n| format!("old {n}\n")).collect();
        let new: String = (0..30_000).map(|n| format!("new {n}\n")).collect();
        let lines = unified(&old, &new);
        assert!(lines.len() < CUT + 100, "{}", lines.len());
        let last = lines.lines().last().unwrap();
        assert!(last.starts_with("\\ ") && last.ends_with(" more removed"), "{last}");
        assert_eq!(counts(&lines), (30_000, 30_000));
        // Cut in the middle of what is removed, and where nothing is.
        assert_eq!(counts(&unified(&old, "")), (0, 30_000));
        assert_eq!(counts(&unified("", &new)), (30_000, 0));
        assert_eq!(counts(&unified("a\nb\n", "a\nc\nd")), (2, 1));
    }

    #[test]
    fn short_or_single_lines_are_not_worth_a_line_diff() {
        assert!(!are_worth_it("a\nb\n", "a\nc\n"));
        assert!(!are_worth_it(&"x".repeat(500), &"y".repeat(500)));
        assert!(are_worth_it(&"x\n".repeat(100), ""));
    }
}
