//! Credentials in URLs: `scheme://user:password@host`, and `https://token@host`.

use super::{mask::is_mask, nothing::says_nothing, text::Span};

/// Schemes of which a lone user is a token, if it is not one of [`USERS`].
const TOKENS: &[&str] = &["http", "https", "nats", "redis", "rediss"];

/// Who is called so everywhere, and is no token.
#[rustfmt::skip]
const USERS: &[&str] = &[
    "git", "user", "username", "admin", "root", "default", "anonymous", "oauth2", "x-access-token", "x-token-auth",
];

/// With any scheme a user of this length is a token.
const LONG: usize = 16;

/// Schemes of which the paths often hold an `@`.
const WEB: &[&str] = &["http", "https", "ws", "wss", "oci", "docker", "ssh", "git", "file"];

/// The password of every URL in the text, or the user that is a token.
pub(super) fn passwords(text: &str, spans: &mut Vec<Span>) {
    let mut from = 0;
    while let Some(sign) = text[from..].find("://").map(|at| from + at) {
        let start = sign + 3;
        from = start;
        let letters = text[..sign].bytes().rev().take(LONG).take_while(u8::is_ascii_alphanumeric).count();
        let scheme = text[sign - letters..sign].to_ascii_lowercase();
        let quote = text[..sign - letters].chars().next_back().filter(|c| "\"'`".contains(*c));
        let Some(user_info) = user_info(&text[start..], &scheme, quote).filter(|info| !is_mask(info)) else { continue };
        match user_info.split_once(':') {
            Some((user, password)) if !says_nothing(password) => {
                let at = start + user.len() + 1;
                spans.push((at, at + password.len(), None));
            }
            None if !says_nothing(user_info) => {
                let is_token = TOKENS.contains(&scheme.as_str()) && !USERS.contains(&user_info);
                if is_token || user_info.len() >= LONG {
                    spans.push((start, start + user_info.len(), None));
                }
            }
            _ => {}
        }
    }
}

/// What stands before the host. `quote`: what the URL is in.
fn user_info<'t>(rest: &'t str, scheme: &str, quote: Option<char>) -> Option<&'t str> {
    // A second URL in the same word is looked at by itself.
    let (reach, second) = rest.find("://").map_or((rest.len(), false), |next| (next, true));
    let ends = |c: char| c.is_whitespace() || "\"'<>`\\".contains(c);
    let end = rest[..reach].find(ends).unwrap_or_else(|| {
        let cut = if second { rest[..reach].rfind([',', ';', '=', '|', '?']) } else { None };
        cut.unwrap_or(reach)
    });
    let word = &rest[..end];
    let authority = &word[..word.find(['/', '?', '#']).unwrap_or(word.len())];
    let is_web = WEB.contains(&scheme);
    let is_port = |after: &str| after.bytes().all(|b| b.is_ascii_digit());
    let Some(at) = authority.rfind('@') else {
        let (user, after) = authority.split_once(':')?;
        // A password may hold a slash that nobody escaped; then the colon is not followed by a port.
        let slashed = !is_port(after) || (!is_web && authority.len() < word.len());
        let at = path(word).rfind('@').or_else(|| word.rfind('@').filter(|_| !is_port(after)));
        if let Some(at) = at.filter(|_| slashed) {
            return Some(&word[..at]);
        }
        // Or a quote, which is not the one that the URL is in.
        let open = rest[end..].chars().next().filter(|c| matches!(c, '"' | '\'') && quote != Some(*c))?;
        let more = &rest[end + open.len_utf8()..reach];
        let more = &more[..more.find(|c: char| c.is_whitespace() || "<>\\/,;".contains(c)).unwrap_or(more.len())];
        let at = more.rfind('@').filter(|_| !is_port(after) && authority.len() == word.len() && !user.is_empty())?;
        return Some(&rest[..end + open.len_utf8() + at]);
    };
    // Or an `@` and a slash. In the path of a web page there often is one; there it has to be followed by a host.
    let last = path(word).rfind('@').filter(|&last| last > at && !word[..last].ends_with('/'));
    let is_host = |host: &str| {
        let host = host.split('/').next().unwrap_or(host);
        host.starts_with(|c: char| c.is_ascii_alphabetic()) && host.contains(['.', ':'])
    };
    let last = last.filter(|&last| authority[..at].contains(':') && (!is_web || is_host(&word[last + 1..])));
    Some(&word[..last.unwrap_or(at)])
}

/// Without what is asked of the page.
fn path(word: &str) -> &str {
    &word[..word.find(['?', '#']).unwrap_or(word.len())]
}
