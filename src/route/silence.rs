//! Silences: what is not told for a while, with a reason.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    clock::Hours,
    matcher::{Facts, Match, MatchError, Matcher},
    when::Needs,
};

/// A silence as written: in a configuration, or stored when someone asked for one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Silence {
    pub name: String,
    #[serde(rename = "match")]
    pub matching: Match,
    /// The sinks that are silent; empty for all.
    pub sinks: Vec<String>,
    pub reason: String,
    /// Who asked for it.
    pub by: String,
    pub from: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// Hours of the day, days of the week and their time zone: a window that comes back. Both empty for always.
    pub hours: Vec<String>,
    pub weekdays: Vec<String>,
    pub time_zone: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("silence {name}: {source}")]
pub struct SilenceError {
    name: String,
    source: MatchError,
}

/// When a silence holds.
#[derive(Clone, Debug)]
pub struct Window {
    from: Option<Timestamp>,
    until: Option<Timestamp>,
    hours: Option<Hours>,
}

impl Window {
    pub fn contains(&self, now: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= now)
            && self.until.is_none_or(|until| now < until)
            && self.hours.as_ref().is_none_or(|hours| hours.contains(now))
    }
}

/// A silence that is ready to be asked.
#[derive(Debug)]
pub struct Silencing {
    name: Arc<str>,
    matcher: Matcher,
    sinks: Vec<String>,
    window: Window,
    reason: String,
}

impl Silencing {
    pub fn new(silence: &Silence) -> Result<Self, SilenceError> {
        let wrong = |source| SilenceError { name: silence.name.clone(), source };
        let matcher = Matcher::new(&silence.matching).map_err(wrong)?;
        let timed = !(silence.hours.is_empty() && silence.weekdays.is_empty());
        let hours = timed.then(|| Hours::new(&silence.hours, &silence.weekdays, &silence.time_zone)).transpose();
        let hours = hours.map_err(|error| wrong(error.into()))?;
        let name = if silence.name.is_empty() { &silence.reason } else { &silence.name };
        Ok(Self {
            name: Arc::from(name.as_str()),
            matcher,
            sinks: silence.sinks.clone(),
            window: Window { from: silence.from, until: silence.until, hours },
            reason: silence.reason.clone(),
        })
    }

    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether it is over for good.
    pub fn over(&self, now: Timestamp) -> bool {
        self.window.until.is_some_and(|until| until <= now)
    }

    pub(super) fn covers(&self, sink: &str) -> bool {
        self.sinks.is_empty() || self.sinks.iter().any(|name| name == sink)
    }

    /// An expression that fails silences nothing.
    pub(super) fn applies(&self, facts: &Facts<'_>) -> bool {
        self.window.contains(facts.context.now) && self.matcher.refusal(facts).is_none()
    }

    pub(super) fn needs(&self) -> Needs {
        self.matcher.needs()
    }
}
