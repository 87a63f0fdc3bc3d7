//! Slack's documented limits of Block Kit: what is wrong with the blocks of a message, in Slack's way of saying it.
//!
//! They stand at <https://docs.slack.dev/reference/block-kit/blocks> (50 blocks a message) and on its pages section-block
//! (3,000 characters; 10 fields of 2,000), header-block (150) and context-block (10 elements); that an element of a
//! context has 2,000 at most is on none of them.

use std::collections::HashSet;

use serde_json::Value;

const BLOCKS: usize = 50;
const SECTION_TEXT: usize = 3_000;
const FIELDS: usize = 10;
const FIELD_TEXT: usize = 2_000;
const HEADER_TEXT: usize = 150;
const CONTEXT_ELEMENTS: usize = 10;
const CONTEXT_TEXT: usize = 2_000;
const BLOCK_ID: usize = 255;
/// Of all blocks of a message together. Written down nowhere, and measured by others:
/// <https://github.com/slackapi/bolt-js/issues/2509>.
pub const TOTAL: usize = 13_000;

/// The characters of all texts.
pub fn characters(blocks: &[Value]) -> usize {
    fn count(value: &Value) -> usize {
        match value {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(fields) => {
                let own = fields.get("text").and_then(Value::as_str).map_or(0, |text| text.chars().count());
                own + fields.values().map(count).sum::<usize>()
            }
            _ => 0,
        }
    }
    blocks.iter().map(count).sum()
}

/// Empty when the blocks are fine.
pub fn problems(blocks: &[Value]) -> Vec<String> {
    let mut problems = Vec::new();
    if blocks.len() > BLOCKS {
        problems.push(format!("[ERROR] no more than {BLOCKS} items allowed [json-pointer:/blocks]"));
    }
    let mut ids = HashSet::new();
    for (n, block) in blocks.iter().enumerate() {
        let mut check = Check { pointer: format!("/blocks/{n}"), problems: &mut problems };
        check.block(block);
        if let Some(id) = block["block_id"].as_str() {
            if id.chars().count() > BLOCK_ID {
                check.problem("/block_id", format!("must be less than {} characters", BLOCK_ID + 1));
            }
            if !ids.insert(id) {
                check.problem("/block_id", "must be unique");
            }
        }
    }
    problems
}

struct Check<'a> {
    pointer: String,
    problems: &'a mut Vec<String>,
}

impl Check<'_> {
    fn problem(&mut self, below: &str, what: impl std::fmt::Display) {
        self.problems.push(format!("[ERROR] {what} [json-pointer:{}{below}]", self.pointer));
    }

    fn block(&mut self, block: &Value) {
        match block["type"].as_str().unwrap_or_default() {
            "section" => {
                if block["text"].is_null() && block["fields"].is_null() {
                    self.problem("", "missing required field: text or fields");
                }
                if !block["text"].is_null() {
                    self.text(&block["text"], "/text", SECTION_TEXT, &["mrkdwn", "plain_text"]);
                }
                match &block["fields"] {
                    Value::Null => {}
                    Value::Array(fields) if (1..=FIELDS).contains(&fields.len()) => {
                        for (n, field) in fields.iter().enumerate() {
                            self.text(field, &format!("/fields/{n}"), FIELD_TEXT, &["mrkdwn", "plain_text"]);
                        }
                    }
                    _ => self.problem("/fields", format!("from 1 to {FIELDS} items allowed")),
                }
            }
            "header" => self.text(&block["text"], "/text", HEADER_TEXT, &["plain_text"]),
            "context" => match block["elements"].as_array() {
                Some(elements) if (1..=CONTEXT_ELEMENTS).contains(&elements.len()) => {
                    for (n, element) in elements.iter().enumerate().filter(|(_, e)| e["type"] != "image") {
                        self.text(element, &format!("/elements/{n}"), CONTEXT_TEXT, &["mrkdwn", "plain_text"]);
                    }
                }
                _ => self.problem("/elements", format!("from 1 to {CONTEXT_ELEMENTS} items allowed")),
            },
            "divider" => {}
            "image" => {
                if block["alt_text"].as_str().is_none_or(str::is_empty) {
                    self.problem("/alt_text", "missing required field");
                }
            }
            "actions" | "rich_text" | "markdown" | "table" | "video" | "file" | "input" => {}
            other => self.problem("/type", format!("unsupported type: {other}")),
        }
    }

    fn text(&mut self, text: &Value, below: &str, limit: usize, types: &[&str]) {
        if !text["type"].as_str().is_some_and(|kind| types.contains(&kind)) {
            self.problem(&format!("{below}/type"), format!("must be one of {}", types.join(", ")));
        }
        match text["text"].as_str().map(|text| text.chars().count()) {
            None => self.problem(&format!("{below}/text"), "missing required field"),
            Some(0) => self.problem(&format!("{below}/text"), "must be more than 0 characters"),
            Some(length) if length > limit => {
                self.problem(&format!("{below}/text"), format!("must be less than {} characters", limit + 1));
            }
            Some(_) => {}
        }
    }
}
