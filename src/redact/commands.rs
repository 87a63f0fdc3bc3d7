//! Credentials on command lines, where flags say nothing by their names: `-p`, `-a`, `-w`, or the last of several
//! arguments. In a script, a command in a text, or a list of arguments.
//!
//! The word of a program is found first, and what follows it is read once: no further than its command goes, and than
//! [`REACH`]. One pattern for all of them would look for the end of each program's command before each match.

mod programs;

use std::sync::LazyLock;

use regex::Regex;

pub(super) use self::programs::{is_program, takes_group, takes_password};
use super::{
    Rules,
    nothing::says_nothing,
    text::{Span, groups, regex},
};

/// How far from its program a value is looked for.
const REACH: usize = 4096;

/// A user and the password behind a colon, in quotes or not. No number: `--user 1000:1000` is a user and a group.
const USER_AND_PASSWORD: &str =
    r#"(?:'[^\s:'0-9][^\s:']*:([^'\n]+)'|"[^\s:"0-9][^\s:"]*:([^"\n]+)"|["']?[^\s:"'0-9][^\s:"']*:([^\s"'|;&]+))"#;

/// Flags that say it with any program.
static USERS: LazyLock<Regex> =
    LazyLock::new(|| regex(&format!(r"\s(?:-u|--user|--proxy-user)[ =]{USER_AND_PASSWORD}")));

/// `--creds bob:x`; the line of HAProxy's configuration `stats auth bob:x`; `chpasswd` behind a pipe.
static OTHERS: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r#"\s--(?:src-|dest-)?creds[ =]["']?[^\s:"']+:([^\s"'|;&]+)|\bstats\s+auth\s+[^\s:]+:([^\s"'|;&]+)"#,
        r#"|\becho\s+(?:-\w+\s+)?["']?[\w.-]+:([^\s"'|]+)["']?\s*\|\s*(?:sudo\s+)?chpasswd"#,
    ))
});

/// Kafka and ZooKeeper name the password of a user by him.
static MODULES: LazyLock<Regex> = LazyLock::new(|| regex(r#"\buser_[\w.-]+\s*=\s*"([^"\n]+)""#));

static LITERALS: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"--from-literal[= ]["']?[^\s="']+=(?:'([^'\n]+)'|"([^"\n]+)"|([^\s"'|;&]+))"#));

/// A line of Redis' users: `user alice on >password ~* +@all`.
static LISTED: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)\b(?:set)?user\s+\S+\s[^\n]*"));
static PASSWORDS: LazyLock<Regex> = LazyLock::new(|| regex(r"\s(?:[><]([^\s\x22']+)|[#!]([0-9a-f]{64})\b)"));

impl Rules {
    pub(super) fn commands(&self, text: &str, spans: &mut Vec<Span>) {
        let mut found = self.on_command_line(text);
        // What a shell puts in its place.
        found.retain(|(start, _, _)| !text[*start..].starts_with('$') || is_literal(text, *start));
        spans.append(&mut found);
    }

    fn on_command_line(&self, text: &str) -> Vec<Span> {
        let mut found = Vec::new();
        programs::values(text, &mut found);
        for user in USERS.captures_iter(text) {
            let start = user.get(0).map_or(0, |whole| whole.start());
            let password = user.iter().skip(1).flatten().next().filter(|_| !programs::names_group(text, start));
            found.extend(password.map(|part| (part.start(), part.end(), None)));
        }
        groups(&OTHERS, text, &mut found);
        if text.contains("LoginModule") {
            groups(&MODULES, text, &mut found);
        }
        if text.contains("create secret") {
            groups(&LITERALS, text, &mut found);
        }
        if text.contains(" on >") || text.contains(" on #") {
            for line in LISTED.find_iter(text) {
                let mut passwords = Vec::new();
                groups(&PASSWORDS, line.as_str(), &mut passwords);
                found.extend(passwords.into_iter().map(|(s, e, by)| (line.start() + s, line.start() + e, by)));
            }
        }
        found.retain(|(start, end, _)| is_given(&text[*start..*end]));
        found
    }

    /// Of a command in a list of arguments, those that hold a credential: which one, and from where in it on.
    pub(super) fn arguments(&self, arguments: &[impl AsRef<str>]) -> Vec<(usize, usize)> {
        let (mut line, mut starts) = (String::new(), Vec::with_capacity(arguments.len()));
        for argument in arguments {
            starts.push(line.len());
            line.push_str(argument.as_ref());
            line.push(' ');
        }
        let place = |(start, ..): Span| {
            let which = starts.partition_point(|begin| *begin <= start) - 1;
            (which, start - starts[which])
        };
        self.on_command_line(&line).into_iter().map(place).collect()
    }
}

/// Whether it stands in single quotes, where a shell puts nothing in its place.
fn is_literal(text: &str, at: usize) -> bool {
    let word = text.as_bytes()[..at].iter().rev().take(256).take_while(|b| !b.is_ascii_whitespace());
    word.filter(|b| **b == b'\'').count() == 1
}

/// Not a variable, the next flag, or what a manual writes in its place.
pub(super) fn is_given(value: &str) -> bool {
    !says_nothing(value) && !value.starts_with(['<', '{']) && !value.starts_with("--")
}
