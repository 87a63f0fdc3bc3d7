//! Slack's words for what is wrong, in words that say what to do, and whether trying again can help.
//!
//! The words are those of <https://docs.slack.dev/reference/methods/chat.postMessage>,
//! <https://docs.slack.dev/reference/methods/chat.update>,
//! <https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks> and
//! <https://api.slack.com/changelog/2016-05-17-changes-to-errors-for-incoming-webhooks>; `cannot_reply_to_message`,
//! `thread_not_found` and `msg_blocks_too_long` are on none of these pages and come all the same.

use std::time::Duration;

use super::super::{Failed, Outcome};

/// What an error of Slack's means. What a person can mend (a token, a channel) is tried again, so that nothing is lost
/// until it is mended; what is wrong with the message itself is not.
pub(super) fn meaning(error: &str, details: &str, after: Option<Duration>) -> Failed {
    let said = if details.is_empty() { error.to_owned() } else { format!("{error}: {details}") };
    let retry = |what: &str| Failed::Outcome(Outcome::Retry { after, reason: format!("{what} (Slack said {said})") });
    let reject = |what: &str| Failed::Outcome(Outcome::Reject { reason: format!("{what} (Slack said {said})") });
    match error {
        "message_not_found"
        | "cant_update_message"
        | "edit_window_closed"
        | "cannot_reply_to_message"
        | "thread_not_found"
        | "restricted_action_non_threadable_channel" => Failed::Gone,

        "ratelimited" | "rate_limited" | "message_limit_exceeded" => retry("Slack asks to wait"),
        "channel_not_found" => retry("the channel does not exist, or is private and the bot is not in it"),
        "not_in_channel" => retry("the bot is not in the channel: /invite it there"),
        "is_archived" | "channel_is_archived" | "is_inactive" => retry("the channel is archived"),
        "restricted_action"
        | "restricted_action_read_only_channel"
        | "restricted_action_thread_only_channel"
        | "action_prohibited"
        | "posting_to_general_channel_denied" => retry("the workspace does not let the bot post in this channel"),
        "invalid_auth" | "not_authed" => retry("the token is not accepted: check that it is a bot token (xoxb-…)"),
        "token_revoked" => retry("the token was revoked: install the app again and give the new token"),
        "token_expired" => retry("the token has expired"),
        "account_inactive" => retry("the token belongs to a deleted user or workspace"),
        "missing_scope" | "no_permission" | "not_allowed_token_type" => {
            retry("the token may not do this: it needs the scope chat:write")
        }
        "access_denied"
        | "accesslimited"
        | "ekm_access_denied"
        | "enterprise_is_restricted"
        | "team_access_not_granted"
        | "two_factor_setup_required" => retry("the workspace's administrators do not let the app do this"),
        "no_service" | "no_service_id" | "no_active_hooks" | "no_team" | "team_disabled" | "invalid_token"
        | "user_not_found" => retry("the webhook does not exist any more: make a new one"),
        "internal_error"
        | "fatal_error"
        | "service_unavailable"
        | "request_timeout"
        | "rollup_error"
        | "update_failed"
        | "external_channel_migrating"
        | "org_login_required"
        | "team_added_to_org" => retry("Slack has a problem of its own"),

        "msg_too_long" | "msg_blocks_too_long" => reject("the message is too long"),
        "invalid_blocks" | "invalid_blocks_format" | "invalid_attachments" | "too_many_attachments" => {
            reject("Slack does not understand the message's blocks")
        }
        "no_text" | "invalid_payload" | "invalid_arguments" | "invalid_json" | "invalid_post_type"
        | "invalid_form_data" => reject("Slack does not understand the message"),
        _ => retry("Slack does not take the message"),
    }
}
