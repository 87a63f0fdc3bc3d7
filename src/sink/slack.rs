//! Messages that a person wants to read.

use std::time::Duration;

use super::Secret;

/// `[sinks.NAME] type = "slack"`
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub access: Access,
    /// Where the page is reached by those who read the message; no button without it. `page_url`
    pub page_url: Option<String>,
    /// How long a message waits for more changes of the same root owner. `group_wait_secs`
    pub group_wait: Duration,
    /// How long changes of the same root owner go into the same message, its thread with a bot token. `group_max_secs`
    pub group_max: Duration,
    /// PEM certificates that are trusted besides the system's.
    pub ca: Option<String>,
    pub proxy: Option<Secret>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// `webhook_url`: messages can be posted and not changed.
    Webhook { url: Secret },
    /// `token` and `channel`: one message per root owner and window, edited in place, its parts in the thread.
    Bot { token: Secret, channel: String, api_url: String },
}

/// Slack's own API; `api_url` names another one for tests and proxies.
pub const API_URL: &str = "https://slack.com/api/";
pub const GROUP_WAIT: Duration = Duration::from_secs(10);
pub const GROUP_MAX: Duration = Duration::from_secs(300);

impl Settings {
    pub fn new(access: Access) -> Self {
        Self { access, page_url: None, group_wait: GROUP_WAIT, group_max: GROUP_MAX, ca: None, proxy: None }
    }
}
