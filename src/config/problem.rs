//! What is wrong with a configuration, as a person wants to read it: where, which key, what was expected, and the
//! nearest right word. All problems are collected before any is shown.

use std::fmt;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A line of the file, counted from one.
    Line(usize),
    /// An environment variable.
    Variable(String),
    /// The file as a whole: something is missing from it, or it cannot be read.
    File,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub at: Origin,
    /// `sinks.ops.token`; empty when it is about no key.
    pub key: String,
    pub message: String,
}

/// Everything that is wrong with a configuration, in the order in which it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The file's name as it was given; empty without a file.
    pub file: String,
    pub list: Vec<Problem>,
}

/// More would scroll the first ones away.
const SHOWN: usize = 50;

impl Problems {
    pub(super) fn new(file: &str, mut list: Vec<Problem>) -> Self {
        list.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.key.cmp(&b.key)));
        list.dedup();
        Self { file: file.to_owned(), list }
    }

    pub(super) fn one(file: &str, message: String) -> Self {
        Self { file: file.to_owned(), list: vec![Problem { at: Origin::File, key: String::new(), message }] }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().take(SHOWN).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            let file = if self.file.is_empty() { "configuration" } else { &self.file };
            match &problem.at {
                Origin::Line(line) => write!(f, "{file}:{line}: ")?,
                Origin::Variable(name) => write!(f, "environment {name}: ")?,
                Origin::File => write!(f, "{file}: ")?,
            }
            if !problem.key.is_empty() {
                write!(f, "{}: ", problem.key)?;
            }
            f.write_str(&problem.message)?;
        }
        match self.list.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_problems_end_in_a_count() {
        let list = (1..=SHOWN + 7)
            .map(|line| Problem { at: Origin::Line(line), key: "k".into(), message: "m".into() })
            .collect();
        let text = Problems::new("c.toml", list).to_string();
        assert!(text.starts_with("c.toml:1: k: m\nc.toml:2: k: m\n"), "{text}");
        assert!(text.ends_with("\nand 7 more"), "{text}");
    }
}
