//! One line an event, for log collectors and people.

/// `[sinks.NAME] type = "stdout"`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    pub format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// The event as its schema says.
    #[default]
    Json,
    /// The event for a terminal; several lines for several changes.
    Text,
    /// Elastic Common Schema, with the event under `kubediff`.
    Ecs,
    /// The old kubediff's payload.
    Legacy,
}
