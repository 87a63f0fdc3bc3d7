//! What stands under the name of a credential and is none.

use super::{keys::is_credential, mask::is_mask};

/// What is no secret under the name of one: nothing, a switch, a mask, or something that is put in its place later.
pub(super) fn says_nothing(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || is_mask(text) || matches!(text, "true" | "false" | "null" | "?" | "%s") || is_variable(text)
}

/// `$(NAME)`, `${NAME}` and `$NAME`, `$oidc.okta.clientSecret`, `$(cat /run/name)`, `{{ .name }}`, `os.environ["NAME"]`, `name()`: without a text of
/// its own.
fn is_variable(text: &str) -> bool {
    let all = |name: &str, others: &[u8]| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || others.contains(&b))
    };
    let within = |open: &str, close: &str| text.strip_prefix(open)?.strip_suffix(close);
    if let Some(name) = within("${", "}").or_else(|| within("$(", ")")) {
        let file = name.strip_prefix("cat ").or_else(|| name.strip_prefix('<'));
        return all(name.trim_start_matches('?'), b"_-.") || file.is_some_and(|path| all(path.trim(), b"_-./"));
    }
    if let Some(name) = text.strip_prefix('$') {
        if is_place(name) {
            return true;
        }
        // A password may begin like this, in small letters.
        return name.len() > 2 && name.bytes().all(|b| matches!(b, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
    }
    if let Some(name) = within("{{", "}}") {
        return all(name.trim_matches('-').trim(), b"_-. |$()");
    }
    let looked_up = LOOKUPS.iter().find_map(|start| text.strip_prefix(start));
    looked_up.is_some_and(|name| all(name, b"_[]()\"'")) || text.strip_suffix("()").is_some_and(|name| all(name, b"_."))
}

/// Where Argo CD finds it: `oidc.okta.clientSecret` is a key of its Secret, and ends in what it holds.
fn is_place(name: &str) -> bool {
    let mut parts = name.rsplit(['.', ':']);
    let is_word = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    parts.next().is_some_and(|last| is_word(last) && is_credential(last))
        && parts.clone().count() >= 2
        && parts.all(is_word)
}

/// How programs read their environment.
#[rustfmt::skip]
const LOOKUPS: &[&str] = &[
    "process.env.", "process.env[", "os.environ[", "os.environ.get(", "os.getenv(", "os.Getenv(", "System.getenv(", "ENV[",
    "getenv(", "env(",
];
