//! Credentials on command lines, where flags say nothing by their names: `-p`, `-a`, `-w`, or the last of several
//! arguments. In a script, a command in a text, or a list of arguments.

use std::sync::LazyLock;

use regex::Regex;

use super::{
    Rules,
    nothing::says_nothing,
    text::{Span, groups, regex},
};

/// What stands before the value. `…` is for any arguments of the same command, over lines that go on.
const BEFORE: &[&str] = &[
    r"\b(?:mysql|mariadb)\S*\s…-p",
    r"\bsshpass\s+-p\s*",
    r"\b(?:redis|valkey)-cli\s…-a\s+",
    r"\bmongo\w*\s…-p\s+",
    r"\bcqlsh\s…-p\s+",
    r"\bldap[a-z]+\s…-w\s+",
    r"\b(?:docker|podman|nerdctl|buildah|skopeo|crane|oras|helm|az)\s…login\s…-p\s+",
    r"\s--(?:src-|dest-)?creds[ =][\x22']?[^\s:\x22']+:",
    r"\bmc\s+(?:alias\s+set|config\s+host\s+add)\s+\S+\s+\S+\s+\S+\s+",
    r"\baws\s+configure\s+set\s+\S*(?:secret_access_key|session_token)\s+",
    r"\bhtpasswd\s+-\w*b\w*\s+(?:-\S+\s+)*\S+\s+\S+\s+",
    r"\brabbitmqctl\s…(?:add_user|change_password)\s+\S+\s+",
    r"\bsmbclient\s…-U\s*[\x22']?[^\s%\x22']+%",
    // No number: `--user 1000:1000` is a user and a group.
    r"\s(?:-u|--user|--proxy-user)[ =][\x22']?[^\s:\x22'0-9][^\s:\x22']*:",
    // Not a command, but the same in haproxy's configuration.
    r"\bstats\s+auth\s+[^\s:]+:",
];

static COMMANDS: LazyLock<Regex> = LazyLock::new(|| {
    let before = BEFORE.join("|").replace('…', r"(?:(?:[^|;&\n]|\\\n)*?\s)?");
    regex(&format!(r#"(?:{before})(?:'([^'\n]+)'|"([^"\n]+)"|([^\s"'|;&]+))"#))
});

/// `sqlplus bob/password@db`, and `chpasswd` behind a pipe.
static OTHERS: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"\bsqlplus\s(?:[^|;&\n]*?\s)?[\w$#]+/([^\s/@\x22']+)@",
        r#"|\becho\s+(?:-\w+\s+)?["']?[\w.-]+:([^\s"'|]+)["']?\s*\|\s*(?:sudo\s+)?chpasswd"#,
    ))
});

/// Kafka and ZooKeeper name the password of a user by him.
static MODULES: LazyLock<Regex> = LazyLock::new(|| regex(r#"\buser_[\w.-]+\s*=\s*"([^"\n]+)""#));

static LITERALS: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"--from-literal[= ]["']?[^\s="']+=(?:'([^'\n]+)'|"([^"\n]+)"|([^\s"'|;&]+))"#));

/// A line of Redis' users: `user alice on >password ~* +@all`.
static USERS: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)\b(?:set)?user\s+\S+\s[^\n]*"));
static PASSWORDS: LazyLock<Regex> = LazyLock::new(|| regex(r"\s(?:[><]([^\s\x22']+)|[#!]([0-9a-f]{64})\b)"));

impl Rules {
    pub(super) fn commands(&self, text: &str, spans: &mut Vec<Span>) {
        let mut found = self.on_command_line(text);
        // What a shell puts in its place.
        found.retain(|(start, _, _)| !text[*start..].starts_with('$'));
        spans.append(&mut found);
    }

    fn on_command_line(&self, text: &str) -> Vec<Span> {
        let mut found = Vec::new();
        groups(&COMMANDS, text, &mut found);
        groups(&OTHERS, text, &mut found);
        if text.contains("LoginModule") {
            groups(&MODULES, text, &mut found);
        }
        if text.contains("create secret") {
            groups(&LITERALS, text, &mut found);
        }
        if text.contains(" on >") || text.contains(" on #") {
            for line in USERS.find_iter(text) {
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

/// Whether the first of a list of arguments is one of the programs.
pub(super) fn is_program(first: &str) -> bool {
    let name = first.rsplit('/').next().unwrap_or(first);
    PROGRAMS.contains(&name) || ["mysql", "mariadb", "mongo", "ldap"].iter().any(|start| name.starts_with(start))
}

#[rustfmt::skip]
const PROGRAMS: &[&str] = &[
    "sshpass", "redis-cli", "valkey-cli", "cqlsh", "docker", "podman", "nerdctl", "buildah", "skopeo", "crane", "oras",
    "helm", "az", "mc", "aws", "htpasswd", "rabbitmqctl", "smbclient", "sqlplus", "kubectl",
];

/// Not a variable, the next flag, or what a manual writes in its place.
pub(super) fn is_given(value: &str) -> bool {
    !says_nothing(value) && !value.starts_with(['<', '{']) && !value.starts_with("--")
}
