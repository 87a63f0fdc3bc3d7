//! Bodies and headers by template, and the ready ones for services that people use.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, context, value::Serde};

use super::{
    super::{BuildError, describe, format, sample},
    Content, Template,
};
use crate::event::Event;

/// The names of the ready templates, as in `template = "teams"`, with their texts.
pub const READY: &[(&str, &str)] = &[
    ("teams", include_str!("../../../templates/teams.json.jinja")),
    ("discord", include_str!("../../../templates/discord.json.jinja")),
    ("mattermost", include_str!("../../../templates/mattermost.json.jinja")),
    ("pagerduty", include_str!("../../../templates/pagerduty.json.jinja")),
    ("google-chat", include_str!("../../../templates/google-chat.json.jinja")),
];

/// The ready template for a service.
pub fn ready(name: &str) -> Option<Template> {
    let (_, body) = READY.iter().find(|(known, _)| *known == name)?;
    Some(Template { body: (*body).to_owned(), ..Template::default() })
}

/// A template that compiles, and renders the sample.
pub(super) struct Compiled {
    environment: Environment<'static>,
    headers: Vec<(HeaderName, String)>,
    vars: BTreeMap<String, String>,
    page_url: Option<String>,
    is_json: bool,
}

const BODY: &str = "body";

impl Compiled {
    pub(super) fn new(template: &Template, page_url: Option<&str>) -> Result<Self, BuildError> {
        let wrong = |part: &str, why: Error| BuildError::Template(format!("{part}: {}", chain(&why)));
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.add_filter("cut", |text: String, units: usize| cut(&text, units));
        environment.add_filter("markdown", |text: String| markdown(&text));
        environment.add_filter("html", |text: String| html(&text));
        environment.add_template_owned(BODY, template.body.clone()).map_err(|why| wrong("body", why))?;
        let mut headers = Vec::new();
        let mut is_json = true;
        for (name, text) in &template.headers {
            let header =
                HeaderName::from_bytes(name.as_bytes()).map_err(|why| BuildError::Header(format!("{name}: {why}")))?;
            if header == CONTENT_TYPE {
                is_json = text.contains("json");
            }
            let key = format!("header {name}");
            environment.add_template_owned(key.clone(), text.clone()).map_err(|why| wrong(&key, why))?;
            headers.push((header, key));
        }
        let vars = template.vars.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect();
        let compiled = Self { environment, headers, vars, page_url: page_url.map(str::to_owned), is_json };
        compiled.render(&[&sample::event()]).map_err(BuildError::Template)?;
        Ok(compiled)
    }

    /// Whether the body is made of all events of a batch, and not of the first one alone.
    pub(super) fn reads_all(&self) -> bool {
        let body = self.environment.get_template(BODY);
        body.is_ok_and(|body| body.undeclared_variables(false).contains("events"))
    }

    pub(super) fn render(&self, events: &[&Event]) -> Result<Content, String> {
        let Some(event) = events.first().copied() else { return Err("nothing to send".into()) };
        let colour = describe::colour(event);
        let context = context! {
            event => Value::from(Serde(event)),
            events => Value::from(Serde(events)),
            title => describe::title(event),
            what => describe::what(event),
            who => describe::who(event),
            object => format::object_name(event),
            diff => describe::diff(event, 20, 160),
            colour,
            colour_number => u32::from_str_radix(colour.trim_start_matches('#'), 16).unwrap_or_default(),
            link => self.page_url.as_deref().map(|page| super::super::link(page, event)),
            vars => Value::from(Serde(&self.vars)),
        };
        let render = |name: &str| {
            let template = self.environment.get_template(name).map_err(|why| chain(&why))?;
            template.render(&context).map_err(|why| self.scrub(&chain(&why)))
        };
        let body = render(BODY)?;
        if self.is_json {
            serde_json::from_str::<serde::de::IgnoredAny>(&body).map_err(|why| {
                format!("the template's result is not JSON: {why}; use the tojson filter on every value")
            })?;
        }
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        for (header, name) in &self.headers {
            let value = HeaderValue::from_str(render(name)?.trim())
                .map_err(|_| format!("{name}: the result holds characters that no header may"))?;
            headers.insert(header.clone(), value);
        }
        Ok(Content { body: body.into(), headers })
    }

    /// Takes variables, which may be keys, out of an error's text.
    fn scrub(&self, text: &str) -> String {
        self.vars
            .values()
            .filter(|value| value.len() >= 4)
            .fold(text.to_owned(), |text, value| text.replace(value.as_str(), "<secret>"))
    }
}

/// At most so many characters, the last one an ellipsis when something was cut off. What takes two of UTF-16 counts as two,
/// as some services count.
fn cut(text: &str, units: usize) -> String {
    if text.encode_utf16().count() <= units {
        return text.to_owned();
    }
    let mut left = units.saturating_sub(1);
    let fits = |c: &char| {
        let fits = c.len_utf16() <= left;
        left = left.saturating_sub(c.len_utf16());
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// Makes characters that mean something in HTML mean themselves. No others, as not everybody who reads some HTML knows
/// all of it.
fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Makes characters that mean something in Markdown mean themselves, and mentions nobody. Signs and numbers at the
/// beginning of a line would make it an item of a list, and be gone.
fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut start = Start::Blank;
    for c in text.chars() {
        let always = matches!(c, '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '<' | '>' | '#' | '|' | '~');
        let begins_item = match start {
            Start::Blank => matches!(c, '-' | '+' | '='),
            Start::Number => matches!(c, '.' | ')'),
            Start::Over => false,
        };
        if always || begins_item {
            out.push('\\');
        }
        start = match (start, c) {
            (_, '\n') => Start::Blank,
            (Start::Blank, ' ' | '\t') => Start::Blank,
            (Start::Blank | Start::Number, '0'..='9') => Start::Number,
            _ => Start::Over,
        };
        out.push(c);
        if c == '@' {
            out.push('\u{200b}');
        }
    }
    out
}

/// What of a line has been seen.
#[derive(Clone, Copy)]
enum Start {
    Blank,
    Number,
    Over,
}

fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    if error.kind() == ErrorKind::UndefinedError {
        text.push_str(" (docs/sinks.md lists what templates see)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::markdown;

    #[test]
    fn lines_that_begin_like_items_of_a_list_keep_their_signs() {
        let diff = "- image: a-b\n+ image: a+b\n  1. one\n12) two\n=\n1.5 - 2";
        assert_eq!(markdown(diff), "\\- image: a-b\n\\+ image: a+b\n  1\\. one\n12\\) two\n\\=\n1\\.5 - 2");
        assert_eq!(markdown("a_b @all"), "a\\_b @\u{200b}all");
    }
}
