//! What is printed for people: as wide as the terminal is, in colour where that is wanted, with nothing in it that a
//! cluster could have put there to move the cursor.

use std::{
    env,
    io::{self, IsTerminal, Write},
};

use jiff::{Timestamp, tz::TimeZone};
use kubediff::event::render::Style;

/// How stdout wants it.
pub(crate) fn style() -> Style {
    let terminal = io::stdout().is_terminal();
    let color = terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let width = if terminal { terminal_size::terminal_size().map_or(0, |(width, _)| usize::from(width.0)) } else { 0 };
    Style { color, width, zone: Some(TimeZone::system()), status: true }
}

/// `2026-11-16 11:42:17`, by the reader's clock.
pub(crate) fn time(time: Timestamp, zone: &TimeZone) -> String {
    time.to_zoned(zone.clone()).strftime("%F %T").to_string()
}

/// A text without control characters: they would break the line, or the terminal.
pub(crate) fn plain(text: &str) -> String {
    let spelt = |c: char| -> String { if c.is_control() { c.escape_default().collect() } else { c.into() } };
    if text.chars().any(char::is_control) { text.chars().map(spelt).collect() } else { text.to_owned() }
}

/// Columns that are as wide as what is in them; the last one takes what is left and is cut at the terminal's edge.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    width: usize,
}

impl Table {
    /// `width` 0: never cut.
    pub(crate) fn new(head: &[&str], width: usize) -> Self {
        Self { rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()], width }
    }

    pub(crate) fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| plain(&cell)).collect());
    }

    pub(crate) fn print(&self, mut out: impl Write) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line += &format!("{cell:<width$}  ");
            }
            let line = line.trim_end();
            match line.char_indices().nth(self.width.saturating_sub(1)) {
                Some((at, _)) if self.width > 0 && line.chars().count() > self.width => {
                    writeln!(out, "{}…", &line[..at])?;
                }
                _ => writeln!(out, "{line}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(width: usize) -> String {
        let mut table = Table::new(&["ID", "SUMMARY"], width);
        table.push(["7f0c".to_owned(), "image \u{1b}[31mred\nnext".to_owned()]);
        table.push(["1".to_owned(), "ä".to_owned()]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_line_up_and_no_control_character_gets_through() {
        assert_eq!(printed(0), "ID    SUMMARY\n7f0c  image \\u{1b}[31mred\\nnext\n1     ä\n");
    }

    #[test]
    fn a_line_ends_at_the_edge_of_the_terminal() {
        assert_eq!(printed(12), "ID    SUMMA…\n7f0c  image…\n1     ä\n");
    }
}
