//! A card as a Slack message: the title as its text, the rest beside a coloured bar. Within Slack's limits for any card,
//! and nothing in it means more than its letters.

use serde_json::{Value, json};

use super::super::{link_to, rollup::Card};

/// Slack: 3,000 characters in a section, 2,000 in an element of a context, 40,000 in the text; the margins are for the
/// fences and for characters that Slack may count twice.
const SECTION: usize = 2_900;
const CONTEXT: usize = 1_900;
const TEXT: usize = 3_000;
/// Slack: 50 blocks a message.
const BLOCKS: usize = 40;

pub(super) fn message(card: &Card, page_url: Option<&str>) -> Value {
    let mut blocks = Vec::new();
    let lines: Vec<String> =
        card.lines.iter().map(|line| escape(line, SECTION)).filter(|line| !line.is_empty()).collect();
    for text in sections(&lines) {
        blocks.push(section(&text));
    }
    let diff = escape(&card.diff.replace("```", "'''"), SECTION - 8);
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
    blocks.truncate(BLOCKS);
    let title = match escape(&card.title, TEXT) {
        empty if empty.trim().is_empty() => "A change".to_owned(),
        title => title,
    };
    let mut message = json!({"text": title, "unfurl_links": false, "unfurl_media": false});
    if !blocks.is_empty() {
        message["attachments"] = json!([{"color": card.colour, "fallback": title, "blocks": blocks}]);
    }
    message
}

/// Lines put together in as few sections as they fit in.
fn sections(lines: &[String]) -> Vec<String> {
    let mut sections: Vec<String> = Vec::new();
    for line in lines {
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
