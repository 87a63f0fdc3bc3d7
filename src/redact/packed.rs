//! base64 within a text: keys, texts that hold a secret themselves, and gzip. In one run, or in lines as `base64` wraps
//! them.

use std::{ops::Range, sync::LazyLock};

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use regex::Regex;

use super::{
    Rules,
    mark::LEVELS,
    text::{Span, key_blocks, regex},
};

/// base64 with or without padding, standard and URL-safe.
const ENGINES: [GeneralPurpose; 2] = {
    let lenient = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    [GeneralPurpose::new(&alphabet::STANDARD, lenient), GeneralPurpose::new(&alphabet::URL_SAFE, lenient)]
};

/// How private keys begin that have no PEM around them, wherever in the run: RSA by PKCS #8 and #1, EC by SEC 1 and
/// PKCS #8, Ed25519.
const KEYS: &[&str] = &["IBADANBgkqhkiG9w0BAQEFAAS", "IBAAKC", "MHcCAQEEI", "AgEAMBMGByqGSM49AgEG", "MC4CAQAwBQYDK2Vw"];

/// Shorter runs hold nothing.
const SHORT: usize = 16;

/// Lines of a length that `base64` and PEM wrap at, up to one that is shorter; or a single run.
static RUNS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        concat!(r"(?:[A-Za-z0-9+/]{60,76}\r?\n[ \t]*)+[A-Za-z0-9+/]+={0,2}\r?(?m:$)", r"|[A-Za-z0-9+/_-]{11,}={0,2}",),
    )
});

impl Rules {
    /// Masks the runs that hold something secret.
    pub(super) fn packed(&self, text: &str, level: u8, spans: &mut Vec<Span>) {
        for run in RUNS.find_iter(text) {
            let Range { start, mut end } = run.range();
            while text.as_bytes()[end - 1].is_ascii_whitespace() {
                end -= 1;
            }
            if self.packs(&text[start..end], level) {
                spans.push((start, end, None));
            }
        }
    }

    fn packs(&self, run: &str, level: u8) -> bool {
        if run.starts_with("H4sI") {
            return run.len() >= 64;
        }
        if KEYS.iter().any(|sign| run.contains(sign)) {
            return run.len() >= 40;
        }
        if run.starts_with("LS0tLS1CRUdJTi") {
            return decoded(run).is_none_or(|bytes| {
                let mut inner = Vec::new();
                key_blocks(&String::from_utf8_lossy(&bytes), &mut inner);
                !inner.is_empty()
            });
        }
        let json = run.starts_with("eyJ");
        if level >= LEVELS || (run.len() < SHORT && !json) {
            return false;
        }
        let Some(bytes) = decoded(run) else { return false };
        // What is no UTF-8, or was cut, still holds what it holds.
        let inner = String::from_utf8_lossy(&bytes);
        (json || is_text(&inner)) && self.text(&inner, level + 1).is_some()
    }
}

/// Whether the first line is one as `base64` wraps them: what the text holds is torn there, and has no sign.
pub(super) fn begins_in_lines(text: &str) -> bool {
    let Some(rest) = text.as_bytes().get(60..) else { return false };
    let Some(more) = rest.iter().take(17).position(|b| matches!(b, b'\r' | b'\n')) else { return false };
    text.bytes().take(60 + more).all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

/// Most words and paths are base64 as well, of bytes that are no text.
fn is_text(inner: &str) -> bool {
    let odd = |c: &char| *c == char::REPLACEMENT_CHARACTER || (c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
    inner.chars().filter(odd).count() * 8 <= inner.len()
}

/// The bytes of a run, of which the lines are put together.
pub(super) fn decoded(run: &str) -> Option<Vec<u8>> {
    let lines: String;
    let run = if run.contains('\n') {
        lines = run.split_ascii_whitespace().collect();
        &lines
    } else {
        run
    };
    // A last letter too many stands for less than a byte.
    let run = run.trim_end_matches('=');
    let run = if run.len() % 4 == 1 { run.get(..run.len() - 1)? } else { run };
    ENGINES.iter().find_map(|engine| engine.decode(run).ok())
}
