//! Times as people type them: of the day, with a date, or an age.

use jiff::{
    Timestamp, Zoned,
    civil::{DateTime, Time},
};
use kubediff::history::when;

/// `10:42`, `10:42:17` (the last time it was that late), `2026-11-16 10:42`, `2026-11-16T10:42:17Z`, `2h` (ago), `now`.
/// What has no zone is by `now`'s.
pub(crate) fn parse(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    let text = text.trim();
    let local = |at: DateTime| at.to_zoned(now.time_zone().clone()).map(|at| at.timestamp()).ok();
    let day = || -> Option<Timestamp> {
        // Without this `10` would be ten o'clock and `2026` a time.
        let time: Time = text.contains(':').then(|| text.parse().ok())??;
        let today = local(now.date().to_datetime(time))?;
        if today <= now.timestamp() { Some(today) } else { local(now.date().yesterday().ok()?.to_datetime(time)) }
    };
    let found = text.parse::<Timestamp>().ok().or_else(|| match text.contains('-') {
        true => text.parse::<DateTime>().ok().and_then(local),
        false => day(),
    });
    match found {
        Some(time) => Ok(time),
        None => when::parse("time", text, now.timestamp()).map_err(|_| {
            format!("{text:?} is no time; write 10:42, 2026-11-16 10:42, 2026-11-16T10:42:17Z, or an age such as 2h")
        }),
    }
}

/// For clap: by this machine's clock.
pub(crate) fn argument(text: &str) -> Result<Timestamp, String> {
    parse(text, &Zoned::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_readers_clock() {
        let now: Zoned = "2026-11-16T11:00:00+01:00[Europe/Berlin]".parse().unwrap();
        for (text, want) in [
            ("10:42", "2026-11-16T09:42:00Z"),
            ("10:42:17", "2026-11-16T09:42:17Z"),
            ("11:30", "2026-11-15T10:30:00Z"),
            ("2026-11-01 10:42", "2026-11-01T09:42:00Z"),
            ("2026-11-01T10:42:05", "2026-11-01T09:42:05Z"),
            ("2026-11-01", "2026-10-31T23:00:00Z"),
            ("2026-11-01T10:42:05Z", "2026-11-01T10:42:05Z"),
            ("2h", "2026-11-16T08:00:00Z"),
            ("1h30m", "2026-11-16T08:30:00Z"),
            ("now", "2026-11-16T10:00:00Z"),
        ] {
            assert_eq!(parse(text, &now), Ok(want.parse().unwrap()), "{text}");
        }
        for text in ["", "10", "25:00", "yesterday", "2026-13-01"] {
            assert!(parse(text, &now).unwrap_err().contains("10:42"), "{text}");
        }
    }
}
