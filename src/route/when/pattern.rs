//! A pattern of `matches`. On a text of some length it can be interrupted: what a pattern costs by the byte depends on
//! both, and a few KiB can take seconds.

use regex::{Regex, RegexBuilder};
use regex_automata::{Anchored, Input, hybrid::dfa::DFA};

use super::{
    WhenError,
    clock::{Clock, Late},
    last_line,
};

/// A compiled pattern; `a{1000}{1000}` would take gigabytes.
const MAX_BYTES: usize = 256 * 1024;
/// Longer texts are gone through step by step.
const LONG: usize = 4 << 10;
/// So many bytes are looked at between two looks at the clock.
const STRIDE: usize = 256;

#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// The same for long texts. It cannot look at letters that are not ASCII around a place (`\b`), which the other can;
    /// the other cannot be interrupted.
    steps: Option<std::sync::Arc<DFA>>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Self, WhenError> {
        let regex = RegexBuilder::new(text).size_limit(MAX_BYTES).build().map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => WhenError(format!("the pattern `{text}` is too large")),
            error => WhenError(format!("the pattern `{text}` is wrong: {}", last_line(&error.to_string()))),
        })?;
        let config = DFA::config().skip_cache_capacity_check(true).unicode_word_boundary(true);
        let steps = DFA::builder().configure(config).build(text).ok();
        Ok(Self { regex, steps: steps.map(std::sync::Arc::new) })
    }

    pub(super) fn is_match(&self, text: &str, clock: Option<&Clock>) -> Result<bool, Late> {
        let Some(clock) = clock.filter(|_| text.len() > LONG) else { return Ok(self.regex.is_match(text)) };
        clock.tick()?;
        let found = self.steps.as_ref().and_then(|dfa| stepwise(dfa, text.as_bytes(), clock));
        found.unwrap_or_else(|| Err(clock.give_up()))
    }
}

/// `None` when it cannot be found out in this way.
fn stepwise(dfa: &DFA, text: &[u8], clock: &Clock) -> Option<Result<bool, Late>> {
    let mut cache = dfa.create_cache();
    let input = Input::new(text).anchored(Anchored::No);
    let mut state = dfa.start_state_forward(&mut cache, &input).ok()?;
    for chunk in text.chunks(STRIDE) {
        if let Err(late) = clock.tick() {
            return Some(Err(late));
        }
        for byte in chunk {
            state = dfa.next_state(&mut cache, state, *byte).ok()?;
            if state.is_match() {
                return Some(Ok(true));
            }
            if state.is_dead() {
                return Some(Ok(false));
            }
            if state.is_quit() {
                return None;
            }
        }
    }
    Some(Ok(dfa.next_eoi_state(&mut cache, state).ok()?.is_match()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::Failure, *};

    #[test]
    fn long_texts_are_matched_as_short_ones_are() {
        let clock = Clock::new(Duration::from_secs(3_600));
        let pad = "pad ".repeat(LONG);
        let unicode = |pattern: &Pattern, text: &str| pattern.regex.as_str().contains(r"\b") && !text.is_ascii();
        for pattern in ["^pad", "web-[0-9]+$", "^web", "(?i)WEB-7", "é{2}", "a.c", "^$", "", r"\bweb\b", "x|pad pad$"]
        {
            let pattern = Pattern::new(pattern).unwrap();
            for text in ["web-7", "", "éé", "a\nc", "abc"] {
                for text in [text.to_owned(), format!("{pad}{text}"), format!("{text}{pad}")] {
                    if text.len() > LONG && unicode(&pattern, &text) {
                        continue;
                    }
                    let stepwise = pattern.is_match(&text, Some(&clock)).unwrap();
                    assert_eq!(stepwise, pattern.regex.is_match(&text), "{:?} on {} bytes", pattern.regex, text.len());
                }
            }
        }
    }

    #[test]
    fn a_pattern_that_takes_for_ever_is_interrupted() {
        let text: String = (0_u64..2 << 20)
            .map(|n| if n.wrapping_mul(0x9e37_79b9).count_ones().is_multiple_of(2) { 'a' } else { 'b' })
            .collect();
        for pattern in [r"(?s)[ab]*a[ab]{800}c", r"(?s)\b[ab]*a[ab]{800}c\b"] {
            let clock = Clock::new(Duration::from_millis(20));
            assert_eq!(Pattern::new(pattern).unwrap().is_match(&text, Some(&clock)), Err(Late), "{pattern}");
            assert_eq!(clock.failure(), Some(Failure::Late { millis: 20 }), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_that_could_not_be_interrupted_on_a_text_is_a_failure_that_says_so() {
        let clock = Clock::new(Duration::from_secs(3_600));
        let text = format!("{} é web", "pad ".repeat(LONG));
        let matched = |pattern: &str, text: &str| Pattern::new(pattern).unwrap().is_match(text, Some(&clock));
        assert_eq!(matched(r"\bweb\b", &text.replace('é', "e")), Ok(true));
        assert_eq!(matched(r"\bweb\b", "é web"), Ok(true), "a short one takes no time");
        assert_eq!(matched(r"(?-u:\b)web(?-u:\b)", &text), Ok(true));
        assert_eq!(clock.failure(), None);
        assert_eq!(matched(r"\bweb\b", &text), Err(Late));
        let failure = clock.failure().expect("a reason").to_string();
        assert!(failure.contains(r"`\b`"), "{failure}");
    }
}
