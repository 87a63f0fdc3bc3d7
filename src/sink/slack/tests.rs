use proptest::prelude::*;
use serde_json::Value;

use super::{super::rollup::Story, *};
use crate::{
    event::Redacted,
    sink::{rollup::Digest, sample},
};

/// What is wrong with a message by Slack's documented limits.
fn problems(message: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let units = |text: &str| text.encode_utf16().count();
    let mut check = |what: &str, text: &Value, limit: usize| {
        let text = text.as_str().unwrap_or_default();
        if text.is_empty() || units(text) > limit {
            problems.push(format!("{what} has {} units", units(text)));
        }
        let open = text.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "");
        let links = open.replace("|Open in kubediff>", "").matches('>').count();
        if open.contains('&') || links > 0 {
            problems.push(format!("{what} is not escaped: {text}"));
        }
        if text.contains("<!") || text.contains("<@") || text.contains("<#") {
            problems.push(format!("{what} mentions someone: {text}"));
        }
    };
    check("text", &message["text"], 40_000);
    let empty = Vec::new();
    let attachments = message["attachments"].as_array().unwrap_or(&empty);
    for attachment in attachments {
        let blocks = attachment["blocks"].as_array().unwrap_or(&empty);
        if blocks.is_empty() || blocks.len() > 50 {
            check("number of blocks", &Value::Null, 0);
        }
        for block in blocks {
            match block["type"].as_str() {
                Some("section") => check("section", &block["text"]["text"], 3_000),
                Some("context") => check("context", &block["elements"][0]["text"], 2_000),
                other => check(&format!("{other:?}"), &Value::Null, 0),
            }
        }
    }
    let texts = attachments.iter().flat_map(|attachment| attachment["blocks"].as_array().unwrap_or(&empty));
    let texts = texts.map(|block| block["text"]["text"].as_str().or(block["elements"][0]["text"].as_str()));
    let total: usize = texts.map(|text| units(text.unwrap_or_default())).sum();
    if total > 13_000 {
        problems.push(format!("{total} units in all blocks"));
    }
    if message["parse"] != "none" || message["link_names"] != false {
        problems.push("names in it may be looked for".to_owned());
    }
    problems
}

fn message_of(story: &Story) -> Value {
    blocks::message(&story.card(), Some("https://kubediff.example"))
}

#[test]
fn a_change_reads_as_a_person_would_write_it() {
    let mut story = Story::default();
    story.take(&sample::event());
    insta::assert_snapshot!(serde_json::to_string_pretty(&message_of(&story)).unwrap());
}

#[test]
fn a_megabyte_of_diff_and_five_hundred_changes_stay_within_the_limits() {
    let mut event = sample::event();
    let change = event.changes[0].clone();
    event.changes = (0..500)
        .map(|n| {
            let mut change = change.clone();
            change.field = format!("spec.template.spec.containers[web].env[{n}]");
            change.to = Some(Value::from("<!channel> & 🦀 ``` ".repeat(2_000)));
            change
        })
        .collect();
    event.summary = "<!channel> & <@U123> ".repeat(500);
    let mut story = Story::default();
    for n in 0..50 {
        story.take(&event);
        // Every kind of child has a line of its own.
        let mut child = event.clone();
        child.resource.kind = format!("Gadget{n}{}", "🦀<".repeat(100));
        child.resource.name = format!("of-{n}");
        story.take(&child);
    }
    let message = message_of(&story);
    assert!(message.to_string().len() > 5_000);
    assert_eq!(problems(&message), Vec::<String>::new());
    assert!(message.to_string().contains("&lt;!channel&gt; &amp;"));
}

/// Texts with everything that could mean something to Slack.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        any::<String>(),
        Just("<!channel>".to_owned()),
        Just("<@U123|x>".to_owned()),
        Just("&amp;".to_owned()),
        Just("```".to_owned()),
        Just("🦀".repeat(700)),
        Just("x".repeat(5_000)),
        Just(String::new()),
        Just("\u{0}\u{7}\n\n".to_owned()),
    ];
    proptest::collection::vec(pieces, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn no_event_whatsoever_breaks_slacks_limits(
        summary in texts(), name in texts(), cluster in texts(), field in texts(), from in texts(), to in texts(),
        manager in texts(), changes in 0..40usize, events in 1..30usize,
    ) {
        let mut event = sample::event();
        event.summary = summary;
        event.resource.name = name;
        event.cluster.name = cluster;
        event.actors[0].manager = manager;
        let mut change = event.changes[0].clone();
        change.field = field;
        change.from = Some(from.into());
        change.to = Some(Value::from(to));
        event.changes = vec![change; changes];
        let (mut story, mut digest) = (Story::default(), Digest::default());
        for n in 0..events {
            event.resource.kind = format!("{}{}", event.resource.kind.chars().take(50).collect::<String>(), n);
            story.take(&event);
            digest.add(&Redacted::invented(event.clone()));
        }
        prop_assert_eq!(problems(&message_of(&story)), Vec::<String>::new());
        prop_assert_eq!(problems(&blocks::message(&digest.card(), None)), Vec::<String>::new());
    }
}

#[test]
fn every_refusal_of_slack_has_a_reason_of_its_own() {
    let reason = |error: &str| match answer::meaning(error, "", None) {
        Failed::Outcome(Outcome::Retry { reason, .. } | Outcome::Reject { reason }) => reason,
        other => panic!("{error}: {other:?}"),
    };
    let errors = [
        "channel_not_found",
        "not_in_channel",
        "is_archived",
        "invalid_auth",
        "token_revoked",
        "account_inactive",
        "missing_scope",
        "ekm_access_denied",
        "restricted_action_read_only_channel",
        "no_active_hooks",
        "internal_error",
        "ratelimited",
        "msg_too_long",
        "invalid_blocks",
        "something_new",
    ];
    let reasons: std::collections::BTreeSet<String> = errors.iter().map(|error| reason(error)).collect();
    assert_eq!(reasons.len(), errors.len());
    assert!(errors.iter().all(|error| reason(error).contains(error)));
    assert_eq!(answer::meaning("message_not_found", "", None), Failed::Gone);
    assert!(matches!(answer::meaning("msg_too_long", "", None), Failed::Outcome(Outcome::Reject { .. })));
    assert!(matches!(answer::meaning("token_revoked", "", None), Failed::Outcome(Outcome::Retry { .. })));
}
