//! How many bytes values and operations take as JSON text, for choosing the shorter of two patches.

use std::fmt::{self, Write};

use serde_json::Value;

use crate::redact::pair::marked;

/// The length of a value's compact JSON, or some number above `limit` when it is longer than that. Visits no more of
/// the value than it takes to know.
pub(super) fn of_value(value: &Value, limit: usize) -> usize {
    let mut count = Count { bytes: 0, limit };
    count.value(value);
    count.bytes
}

/// The length of a text as a JSON string, quotes included.
pub(super) fn of_str(text: &str) -> usize {
    // Nearly no text has any, and to see that takes little.
    let escaped = text.bytes().filter(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\').count();
    let control = if escaped == 0 { 0 } else { text.bytes().filter(|byte| is_long_escape(*byte)).count() };
    2 + text.len() + escaped + 4 * control
}

/// Whether it is written as `\u00xx` and not by a backslash and a letter.
fn is_long_escape(byte: u8) -> bool {
    byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x08 | 0x0c)
}

struct Count {
    bytes: usize,
    limit: usize,
}

impl Count {
    fn value(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(true) => self.bytes += 4,
            Value::Bool(false) => self.bytes += 5,
            Value::Number(number) if number.is_u64() => {
                let digits = number.as_u64().and_then(u64::checked_ilog10).unwrap_or(0) as usize + 1;
                self.bytes += digits;
            }
            Value::Number(number) => {
                // Counting cannot fail.
                let _ = write!(self, "{number}");
            }
            Value::String(text) => {
                self.bytes += match marked(text) {
                    Some(bytes) => bytes,
                    None if text.len() > self.limit => text.len(),
                    None => of_str(text),
                }
            }
            Value::Array(items) => {
                self.bytes += 2 + items.len().saturating_sub(1);
                for item in items {
                    if self.bytes > self.limit {
                        return;
                    }
                    self.value(item);
                }
            }
            Value::Object(members) => {
                self.bytes += 2 + members.len().saturating_sub(1);
                for (name, member) in members {
                    if self.bytes > self.limit {
                        return;
                    }
                    self.bytes += of_str(name) + 1;
                    self.value(member);
                }
            }
        }
    }
}

impl Write for Count {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_length_is_that_of_the_text() {
        for value in [
            json!(null),
            json!([true, false, 0, 9, 10, -1, 0.5, 1e300, 12_345_678_901_u64, u64::MAX]),
            json!({"a": {}, "b\"\\\n\u{1}\u{7f}é": [[], "x\ty"]}),
        ] {
            assert_eq!(of_value(&value, usize::MAX), value.to_string().len(), "{value}");
        }
    }

    #[test]
    fn counting_stops_beyond_the_limit() {
        let value = json!([["x".repeat(1000)], "y".repeat(1000)]);
        let length = of_value(&value, 10);
        assert!(length > 10 && length < 1100, "{length}");
    }
}
