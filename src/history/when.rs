//! Times as people write them: RFC 3339, or an age.

use jiff::{SignedDuration, Timestamp};

use super::Error;

/// `2026-11-16T11:42:17Z`, `2026-11-16`, or an age: `90s`, `15m`, `2h`, `3d`, `1w`, several of them together.
pub fn parse(parameter: &'static str, text: &str, now: Timestamp) -> Result<Timestamp, Error> {
    let text = text.trim();
    if text == "now" {
        return Ok(now);
    }
    // In a URL a plus is a space.
    if let Ok(time) = text.replace(' ', "+").parse::<Timestamp>() {
        return Ok(time);
    }
    if let Ok(date) = text.parse::<jiff::civil::Date>()
        && let Ok(zoned) = date.to_zoned(jiff::tz::TimeZone::UTC)
    {
        return Ok(zoned.timestamp());
    }
    let wrong = || Error::Word {
        parameter,
        value: text.to_owned(),
        expected: "expected a time such as 2026-11-16T11:42:17Z, or an age such as 90s, 15m, 2h, 3d".to_owned(),
    };
    let age = duration(text).ok_or_else(wrong)?;
    now.checked_sub(age).map_err(|_| wrong())
}

/// `1h30m`; `None` for what is none.
pub fn duration(text: &str) -> Option<SignedDuration> {
    let mut total: i64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: i64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].chars().next()?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(seconds)?)?;
        rest = &rest[digits + unit.len_utf8()..];
    }
    // Longer than any file is kept.
    (total < 100 * 366 * 86_400).then(|| SignedDuration::from_secs(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_ages_are_understood_and_nonsense_is_not() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        for (text, want) in [
            ("2026-11-16T11:42:17Z", "2026-11-16T11:42:17Z"),
            ("2026-11-16T12:42:17+01:00", "2026-11-16T11:42:17Z"),
            ("2026-11-16T12:42:17 01:00", "2026-11-16T11:42:17Z"),
            ("2026-11-15", "2026-11-15T00:00:00Z"),
            ("90s", "2026-11-16T11:58:30Z"),
            ("1h30m", "2026-11-16T10:30:00Z"),
            ("3d", "2026-11-13T12:00:00Z"),
            ("now", "2026-11-16T12:00:00Z"),
        ] {
            assert_eq!(parse("since", text, now).unwrap(), want.parse::<Timestamp>().unwrap(), "{text}");
        }
        for text in ["", "2", "h", "2x", "-2h", "99999999999999999999h", "9999999d", "yesterday"] {
            assert!(parse("since", text, now).is_err(), "{text}");
        }
    }
}
