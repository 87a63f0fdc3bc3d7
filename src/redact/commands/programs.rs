//! Which programs take a credential as an argument, and which of their arguments it is.

use std::sync::LazyLock;

use regex::Regex;

use super::{
    super::text::{Span, regex},
    REACH, USER_AND_PASSWORD,
};

/// How the names of programs begin, and what stands from there to the value. `…` is for any arguments of the same
/// command, over lines that go on.
const PROGRAMS: &[(&[&str], &str)] = &[
    (&["mysql", "mariadb"], r"\S*\s…-p"),
    (&["sshpass"], r"\s+-p\s*"),
    (&["redis-cli", "valkey-cli"], r"\s…-a\s+"),
    (&["mongo"], r"\w*\s…-p\s+"),
    (&["cqlsh"], r"\s…-p\s+"),
    (&["ldap"], r"[a-z]+\s…-w\s+"),
    (&["docker", "podman", "nerdctl", "buildah", "skopeo", "crane", "oras", "helm", "az"], r"\s…login\s…-p\s+"),
    (&["mc"], r"\s+(?:alias\s+set|config\s+host\s+add)\s+\S+\s+\S+\s+\S+\s+"),
    (&["aws"], r"\s+configure\s+set\s+\S*(?:secret_access_key|session_token)\s+"),
    (&["htpasswd"], r"\s+-\w*b\w*\s+(?:-\S+\s+)*\S+\s+\S+\s+"),
    (&["rabbitmqctl"], r"\s…(?:add_user|change_password)\s+\S+\s+"),
    (&["smbclient"], r"\s…-U\s*[\x22']?[^\s%\x22']+%"),
    (&["curl"], r"\s…-u"),
    (&["sqlplus"], r"\s…[\w$#]+/"),
];

/// What the value looks like where it is not a word, by the first of its programs' names.
fn value(program: &str) -> &'static str {
    match program {
        "curl" => USER_AND_PASSWORD,
        "sqlplus" => r#"([^\s/@"']+)@"#,
        _ => r#"(?:'([^'\n]+)'|"([^"\n]+)"|([^\s"'|;&]+))"#,
    }
}

static NAMES: LazyLock<Regex> = LazyLock::new(|| {
    let names: Vec<&str> = PROGRAMS.iter().flat_map(|(names, _)| names.iter().copied()).collect();
    regex(&format!(r"\b(?:{})", names.join("|")))
});

static ARGUMENTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let pattern = |(names, before): &(&[&str], &str)| {
        let before = before.replace('…', r#"(?:(?:[^|;&\n]|\\\n|'[^'\n]*'|"[^"\n]*")*?\s)?"#);
        regex(&format!("^(?:{}){before}{}", names.join("|"), value(names[0])))
    };
    PROGRAMS.iter().map(pattern).collect()
});

/// The values on the command lines of all programs in the text.
pub(super) fn values(text: &str, spans: &mut Vec<Span>) {
    // Up to where there is nothing more to be found for each of them: its command is over, or was read to its value.
    let mut read = [0; PROGRAMS.len()];
    let mut command = 0;
    for name in NAMES.find_iter(text) {
        let Some(which) = PROGRAMS.iter().position(|(names, _)| names.contains(&name.as_str())) else { continue };
        let at = name.start();
        if at < read[which] {
            continue;
        }
        let mut reach = (at + REACH).min(text.len());
        while !text.is_char_boundary(reach) {
            reach -= 1;
        }
        let found = ARGUMENTS[which].captures(&text[at..reach]);
        if let Some(value) = found.iter().flat_map(|found| found.iter().skip(1)).flatten().next() {
            spans.push((at + value.start(), at + value.end(), None));
            read[which] = at + value.end();
        } else if PROGRAMS[which].1.contains('…') {
            if command <= at {
                command = end_of_command(text, at);
            }
            read[which] = command.min(reach);
        }
    }
}

fn end_of_command(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    let ends = |&at: &usize| match bytes[at] {
        b'|' | b';' | b'&' => true,
        b'\n' => bytes[at - 1] != b'\\',
        _ => false,
    };
    (from + 1..bytes.len()).find(ends).unwrap_or(bytes.len())
}

/// Whether the first of a list of arguments may be one of the programs.
pub(in super::super) fn is_program(first: &str) -> bool {
    let name = base(first);
    name == "kubectl" || PROGRAMS.iter().any(|(names, _)| names.iter().any(|program| name.starts_with(program)))
}

/// Programs whose `--user` is a user and a group.
const GROUPED: &[&str] =
    &["docker", "podman", "nerdctl", "docker-compose", "chown", "chroot", "setpriv", "runuser", "su", "sudo"];

/// Programs whose `--user` is not, and which others may run.
const CLIENTS: &[&str] = &["curl", "wget", "http", "https", "xh"];

pub(in super::super) fn takes_group(program: &str) -> bool {
    GROUPED.contains(&base(program))
}

/// Whether its `--user` is a user and his password, whichever program runs it.
pub(in super::super) fn takes_password(program: &str) -> bool {
    CLIENTS.contains(&base(program))
}

/// Whether what a flag at this place takes is a user and a group, by the last program before it.
pub(super) fn names_group(text: &str, at: usize) -> bool {
    let mut from = at.saturating_sub(256);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let near = &text[from..at];
    let command = near.rsplit(['|', ';', '&']).next().unwrap_or(near);
    let of = |word: &str| if takes_group(word) { Some(true) } else { takes_password(word).then_some(false) };
    command.split_ascii_whitespace().rev().find_map(of).unwrap_or(false)
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
