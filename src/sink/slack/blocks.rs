//! A card as a Slack message: the title as its text, the rest beside a coloured bar. Within Slack's limits for any card,
//! and nothing in it means more than its letters.

use serde_json::{Value, json};

use super::super::{link_to, rollup::Card};

/// Slack: 3,000 characters in a section, 2,000 in an element of a context, 40,000 in the text; the margins are for the
/// fences and for characters that Slack may count twice.
/// <https://docs.slack.dev/reference/block-kit/blocks/section-block>,
/// <https://docs.slack.dev/reference/block-kit/blocks/context-block>
const SECTION: usize = 2_900;
const CONTEXT: usize = 1_900;
const TEXT: usize = 3_000;
/// In all blocks together. Slack refuses some 13,200 with `msg_blocks_too_long`, and writes that down nowhere:
/// <https://github.com/slackapi/bolt-js/issues/2509>. So few characters need a handful of the 50 blocks that there may be.
const TOTAL: usize = 10_000;

pub(super) fn message(card: &Card, page_url: Option<&str>) -> Value {
    let mut blocks = Vec::new();
    let lines: Vec<String> =
        card.lines.iter().map(|line| escape(line, SECTION)).filter(|line| !line.is_empty()).collect();
    let diff = escape(&card.diff.replace("```", "'''"), SECTION - 8);
    for text in sections(&lines, TOTAL - CONTEXT - length(&diff)) {
        blocks.push(section(&text));
    }
    if !diff.trim().is_empty() {
        blocks.push(section(&format!("```{diff}```")));
    }
    let footer = [
        Some(escape(&card.footer, CONTEXT / 2)).filter(|footer| !footer.is_empty()),
        page_url.and_then(|page| link(page, card.event.as_deref())),
    ];
    let footer: Vec<String> = footer.into_iter().flatten().collect();
    if !footer.is_empty() {
        blocks.push(json!({"type": "context", "elements": [mrkdwn(&footer.join("   "))]}));
    }
    let title = match escape(&card.title, TEXT) {
        empty if empty.trim().is_empty() => "A change".to_owned(),
        title => title,
    };
    // What is no markup is no name either: `parse` of chat.update would be `client` otherwise.
    let mut message = json!({"text": title, "unfurl_links": false, "unfurl_media": false, "parse": "none",
        "link_names": false});
    if !blocks.is_empty() {
        message["attachments"] = json!([{"color": card.colour, "fallback": title, "blocks": blocks}]);
    }
    message
}

/// Lines put together in as few sections as they fit in, as many of them as have so many characters together.
fn sections(lines: &[String], total: usize) -> Vec<String> {
    let mut sections: Vec<String> = Vec::new();
    let mut used = 0;
    for line in lines {
        used += length(line) + 1;
        if used > total {
            sections.push("…".to_owned());
            break;
        }
        match sections.last_mut() {
            Some(section) if length(section) + 1 + length(line) <= SECTION => {
                section.push('\n');
                section.push_str(line);
            }
            _ => sections.push(line.clone()),
        }
    }
    sections
}

fn section(text: &str) -> Value {
    json!({"type": "section", "text": mrkdwn(text)})
}

fn mrkdwn(text: &str) -> Value {
    json!({"type": "mrkdwn", "text": text, "verbatim": true})
}

fn link(page: &str, event: Option<&str>) -> Option<String> {
    let url = link_to(page, event);
    let whole = !url.is_empty() && length(&url) < CONTEXT / 2 && !url.contains(['<', '>', '|', ' ']);
    whole.then(|| format!("<{}|Open in kubediff>", url.replace('&', "&amp;")))
}

/// `&`, `<` and `>` as Slack wants them, so that no `<!channel>` in an annotation calls anyone; at most so many UTF-16
/// units, never cut inside an entity.
pub(super) fn escape(text: &str, limit: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit * 4));
    let mut used = 0;
    for c in text.chars() {
        let mut buffer = [0; 4];
        let piece: &str = match c {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            c if c.is_control() && c != '\n' && c != '\t' => continue,
            c => c.encode_utf8(&mut buffer),
        };
        let width = length(piece);
        if used + width + 1 > limit {
            out.push('…');
            return out;
        }
        out.push_str(piece);
        used += width;
    }
    out
}

fn length(text: &str) -> usize {
    text.encode_utf16().count()
}
