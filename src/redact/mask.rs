//! The mask that stands for a secret value: `hmac:` and the first 12 hex digits of HMAC-SHA256 under the ledger's key.
//!
//! Equal values have equal masks, wherever they stand: the value of a Secret is hashed as its decoded bytes, so `data`
//! and `stringData`, an environment variable and a password in a URL with the same value look the same.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

pub(super) const PREFIX: &str = "hmac:";
const DIGITS: usize = 12;

#[derive(Clone)]
pub(super) struct Mask(Hmac<Sha256>);

impl Mask {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        // HMAC takes keys of any length; a fixed one cannot be refused.
        Self(Hmac::new_from_slice(key).expect("a key of 32 bytes"))
    }

    pub(super) fn of(&self, value: &[u8]) -> String {
        let mut mac = self.0.clone();
        mac.update(value);
        let digest = mac.finalize().into_bytes();
        let mut text = String::with_capacity(PREFIX.len() + DIGITS);
        text.push_str(PREFIX);
        for byte in &digest[..DIGITS / 2] {
            text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
            text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
        }
        text
    }

    /// The mask of a value that Kubernetes writes in base64, taken of the decoded bytes; of text that is no base64, of
    /// the text. What is a mask already stays as it is.
    pub(super) fn of_base64(&self, text: &str) -> String {
        if is_mask(text) {
            return text.to_owned();
        }
        match STANDARD.decode(text.trim()) {
            Ok(bytes) => self.of(&bytes),
            Err(_) => self.of(text.as_bytes()),
        }
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// Whether the whole text is a mask, which is never masked again.
pub(super) fn is_mask(text: &str) -> bool {
    text.strip_prefix(PREFIX)
        .is_some_and(|hex| hex.len() == DIGITS && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

/// Whether this part of a text is a mask or lies within one.
pub(super) fn covers(text: &str, start: usize, end: usize) -> bool {
    let len = PREFIX.len() + DIGITS;
    (start.saturating_sub(len - 1)..=start).any(|at| end <= at + len && text.get(at..at + len).is_some_and(is_mask))
}
