use std::time::{Duration, SystemTime};

use serde_json::Value;
use standardwebhooks::Webhook as Verifier;

use super::*;
use crate::{
    event::Kind,
    sink::{sample, stdout},
};

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const OTHER: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn settings(format: Format) -> Settings {
    Settings { url: Secret::new("http://127.0.0.1:1/hook"), format, ..Settings::default() }
}

fn told(event: Event) -> Arc<Redacted> {
    Arc::new(Redacted::invented(event))
}

fn signed(signer: &sign::Signer, batch: &[Arc<Redacted>], at: SystemTime, body: &[u8]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    signer.sign(batch, at, body, &mut headers).map(|()| headers)
}

#[test]
fn a_request_is_signed_by_every_secret_as_standard_webhooks_says() {
    let signer = sign::Signer::new(&[Secret::new(SECRET), Secret::new(OTHER)]).unwrap();
    let batch = [told(sample::event())];
    let body = br#"{"a":1}"#;
    let headers = signed(&signer, &batch, SystemTime::now(), body).unwrap();
    assert_eq!(headers["webhook-id"], sample::event().id.as_str());
    for secret in [SECRET, OTHER] {
        Verifier::new(secret).unwrap().verify(body, &headers).unwrap();
    }
    assert!(Verifier::new(SECRET).unwrap().verify(b"{}", &headers).is_err());
    let again = signed(&signer, &batch, SystemTime::now() + Duration::from_secs(60), body).unwrap();
    assert_eq!(again["webhook-id"], headers["webhook-id"], "the id is the same on every attempt");
}

#[test]
fn a_signature_is_the_one_that_the_specification_gives_as_its_example() {
    let mut event = sample::event();
    event.id = "msg_p5jXN8AQM9LWM0D4loKWxJek".into();
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_614_265_330);
    let signer = sign::Signer::new(&[Secret::new(OTHER)]).unwrap();
    let headers = signed(&signer, &[told(event)], at, br#"{"test": 2432232314}"#).unwrap();
    assert_eq!(headers["webhook-signature"], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[test]
fn a_secret_that_is_none_is_refused_and_not_repeated() {
    for wrong in ["not base64!", "whsec_abcd"] {
        let error = sign::Signer::new(&[Secret::new(wrong)]).err().unwrap().to_string();
        assert!(!error.contains("abcd") && !error.contains("not base64!"), "{error}");
    }
}

fn body(format: Format, event: Event) -> Value {
    let webhook = Webhook::new(&settings(format)).unwrap();
    serde_json::from_slice(&webhook.content(&[told(event)]).unwrap().body).unwrap()
}

#[test]
fn the_formats_are_what_others_expect() {
    let mut created = sample::event();
    created.kind = Kind::Created;
    created.object = Some(serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment"}));
    let mut all = Vec::new();
    for event in [sample::event(), created] {
        all.push(("cloudevents", body(Format::CloudEvents, event.clone())));
        all.push(("legacy", body(Format::Legacy, event.clone())));
        all.push(("ecs", format::ecs(&event)));
    }
    let text: Vec<String> =
        all.iter().map(|(name, value)| format!("{name}: {}", serde_json::to_string_pretty(value).unwrap())).collect();
    insta::assert_snapshot!(text.join("\n\n"));
}

#[test]
fn a_cloud_event_stays_under_64_kib_and_says_that_it_was_cut() {
    let mut event = sample::event();
    event.kind = Kind::Created;
    event.object = Some(Value::from("x".repeat(200_000)));
    let whole = body(Format::CloudEvents, event.clone());
    assert!(serde_json::to_vec(&whole).unwrap().len() <= 64 * 1024);
    assert_eq!(whole["kubedifftruncated"], true);
    event.object = None;
    event.patch = None;
    event.changes = vec![event.changes[0].clone(); 2_000];
    let whole = body(Format::CloudEvents, event);
    assert!(serde_json::to_vec(&whole).unwrap().len() <= 64 * 1024);
    assert!(whole["data"]["changes"].as_array().unwrap().len() > 100, "as much as fits is kept");
}

#[test]
fn a_batch_is_an_array_and_a_cloud_events_batch_says_so() {
    let batch = [told(sample::event()), told(sample::event())];
    let webhook = Webhook::new(&Settings { batch: Some(10), ..settings(Format::CloudEvents) }).unwrap();
    let content = webhook.content(&batch).unwrap();
    assert_eq!(content.headers[CONTENT_TYPE], "application/cloudevents-batch+json; charset=UTF-8");
    assert_eq!(serde_json::from_slice::<Value>(&content.body).unwrap().as_array().unwrap().len(), 2);
}

/// Texts of which each is the worst for somebody: what is escaped, what takes many bytes, what calls people.
const NASTY: &[&str] = &[
    "\"}{{ }} @everyone <b> ``` | \n \u{1f980} ",
    "<",
    "&",
    "\"",
    "'",
    "\\",
    "/",
    "_",
    "\n",
    "```",
    "\u{1f980}",
    "\u{7}",
    "@everyone @channel @here <!channel> <@U123> <users/all> <at>all</at> ",
];

/// An event with such a text wherever there can be one: 500 changes, and a diff of a megabyte.
fn nasty(text: &str, bytes: usize) -> Event {
    let mut event = sample::event();
    let text = text.repeat(bytes / text.len() + 1);
    event.summary = text.clone();
    event.resource.name = text.clone();
    event.cluster.name = text.clone();
    event.actors[0].manager = text.clone();
    event.changes[0].field = text.clone();
    event.changes[0].to = Some(text.into());
    event.changes = vec![event.changes[0].clone(); 500];
    event
}

fn ready_body(name: &str, event: &Event) -> (Value, usize) {
    let compiled = template::Compiled::new(&ready(name).unwrap(), Some("https://kubediff.example")).unwrap();
    let content = compiled.render(&[event]).unwrap();
    (serde_json::from_slice(&content.body).unwrap(), content.body.len())
}

fn worst() -> impl Iterator<Item = Event> {
    let nasty = NASTY.iter().flat_map(|text| [nasty(text, 30), nasty(text, 2_000)]);
    nasty.chain([sample::event(), nasty_once(1 << 20)])
}

/// One change, of a megabyte.
fn nasty_once(bytes: usize) -> Event {
    let mut event = nasty(NASTY[0], bytes);
    event.changes.truncate(1);
    event
}

/// As the strictest would count: UTF-16 units.
fn units(value: &Value) -> usize {
    value.as_str().unwrap().encode_utf16().count()
}

/// The limits are those that each template names the page of.
#[test]
fn the_ready_templates_keep_to_the_limits_of_their_services() {
    for event in worst() {
        let (teams, bytes) = ready_body("teams", &event);
        assert!(bytes <= 28_000, "Teams: {bytes}");
        assert_eq!(teams["attachments"][0]["content"]["type"], "AdaptiveCard");

        let (discord, _) = ready_body("discord", &event);
        let embed = &discord["embeds"][0];
        let (title, description, footer) =
            (units(&embed["title"]), units(&embed["description"]), units(&embed["footer"]["text"]));
        assert!(title <= 256 && description <= 4_096 && footer <= 2_048, "Discord: {title} {description} {footer}");
        assert!(title + description + footer <= 6_000 && title > 0);

        let (mattermost, bytes) = ready_body("mattermost", &event);
        assert!(units(&mattermost["attachments"][0]["text"]) <= 16_383 && bytes <= 64 * 1024);

        let (pagerduty, bytes) = ready_body("pagerduty", &event);
        assert!(units(&pagerduty["payload"]["summary"]) <= 1_024 && bytes <= 512 * 1024);
        assert!(!pagerduty["payload"]["source"].as_str().unwrap().is_empty());

        let (google, bytes) = ready_body("google-chat", &event);
        assert!(bytes <= 32_000, "Google Chat: {bytes}");
        assert_eq!(google["cardsV2"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn the_ready_templates_mention_nobody() {
    /// Every text in it.
    fn texts(value: &Value, out: &mut Vec<String>) {
        match value {
            Value::String(text) => out.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| texts(item, out)),
            Value::Object(fields) => fields.values().for_each(|field| texts(field, out)),
            _ => {}
        }
    }
    for event in worst() {
        let (discord, _) = ready_body("discord", &event);
        assert_eq!(discord["allowed_mentions"], serde_json::json!({"parse": []}));
        assert!(discord.get("content").is_none(), "only what is no embed can mention");
        let (teams, _) = ready_body("teams", &event);
        assert_eq!(teams["attachments"][0]["content"]["msteams"], serde_json::json!({"width": "Full"}));
        let (mattermost, _) = ready_body("mattermost", &event);
        let mut found = Vec::new();
        texts(&mattermost, &mut found);
        for text in found {
            assert_eq!(text.matches('@').count(), text.matches("@\u{200b}").count(), "{text}");
        }
        let (google, _) = ready_body("google-chat", &event);
        assert!(!google["fallbackText"].as_str().unwrap().contains("<users/"));
        for widget in google["cardsV2"][0]["card"]["sections"][0]["widgets"].as_array().unwrap() {
            let text = widget["textParagraph"]["text"].as_str().unwrap_or_default();
            let text = text.replace("</font>", "").replace("<br>", "");
            let own = ["#d1383d", "#2e9e5b", "#5f6368"].map(|colour| format!("<font color=\"{colour}\">"));
            let rest = own.iter().fold(text, |text, tag| text.replace(tag.as_str(), ""));
            assert!(!rest.contains(['<', '>']), "{rest}");
        }
    }
}

#[test]
fn a_template_sees_the_event_and_its_variables_and_a_wrong_one_is_refused_at_once() {
    let template = |text: &str| Template {
        body: text.into(),
        headers: [("x-kind".to_owned(), "{{ event.resource.kind }}".to_owned())].into(),
        vars: [("key".to_owned(), Secret::new("s3cret"))].into(),
    };
    let good = template(
        r#"{"what": {{ event.summary | tojson }}, "n": {{ events | length }}, "key": {{ vars.key | tojson }}}"#,
    );
    let content = Webhook::new(&settings(Format::Template(good))).unwrap().content(&[told(sample::event())]).unwrap();
    assert_eq!(content.headers["x-kind"], "Deployment");
    let body: Value = serde_json::from_slice(&content.body).unwrap();
    assert_eq!((&body["n"], &body["key"]), (&Value::from(1), &Value::from("s3cret")));
    for (wrong, says) in [
        ("{{ event.summary", "body"),
        ("{{ evnt.summary | tojson }}", "undefined"),
        (r#"{"a": {{ event.summary }}}"#, "not JSON"),
        ("{{ event.summary | nothing }}", "nothing"),
    ] {
        let error = Webhook::new(&settings(Format::Template(template(wrong)))).err().unwrap().to_string();
        assert!(error.contains(says) && !error.contains("s3cret"), "{wrong}: {error}");
    }
}

#[test]
fn settings_that_cannot_work_are_refused_without_repeating_the_url() {
    for url in ["", "example.com/hook-secret", "ftp://example.com/hook-secret"] {
        let error = Webhook::new(&Settings { url: Secret::new(url), ..Settings::default() }).err();
        let error = error.unwrap_or_else(|| panic!("{url} is taken")).to_string();
        assert!(!error.contains("hook-secret"), "{error}");
    }
    let broken = Settings { ca: Some("-----BEGIN NOTHING-----".into()), ..settings(Format::Json) };
    assert!(Webhook::new(&broken).err().unwrap().to_string().contains("ca"));
    assert!(!format!("{:?}", settings(Format::Json)).contains("hook"), "the URL prints as a secret");
}

#[test]
fn stdout_writes_one_line_an_event() {
    use std::sync::{Arc, Mutex};
    #[derive(Clone, Default)]
    struct Out(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Out {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for format in [stdout::Format::Json, stdout::Format::Ecs, stdout::Format::Legacy] {
        let out = Out::default();
        let sink = stdout::Stdout::to(stdout::Settings { format, over_progress: false }, out.clone()).unwrap();
        let batch = vec![told(sample::event()), told(sample::event())];
        assert_eq!(runtime.block_on(sink.send(&batch)), Outcome::Delivered);
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    }
}

#[test]
fn a_batch_goes_only_to_a_template_that_reads_all_of_it() {
    let with = |template: Template, batch| {
        Webhook::new(&Settings { batch: Some(batch), ..settings(Format::Template(template)) })
    };
    let own = |body: &str| Template { body: body.to_owned(), ..Template::default() };
    let vars = BTreeMap::from([("routing_key".to_owned(), Secret::new("key"))]);
    for (name, _) in READY {
        let template = Template { vars: vars.clone(), ..ready(name).unwrap() };
        assert!(with(template.clone(), 1).is_ok(), "{name}");
        assert!(matches!(with(template, 2), Err(BuildError::Batch(2))), "{name}");
    }
    for alone in ["{{ event.id | tojson }}", "{% set events = [event] %}{{ events | length }}"] {
        assert!(matches!(with(own(alone), 2), Err(BuildError::Batch(2))), "{alone}");
    }
    let all = with(own("[{% for e in events %}{{ e.id | tojson }}{{ ',' if not loop.last }}{% endfor %}]"), 2).unwrap();
    let batch = ["a", "b"].map(|id| told(Event { id: id.into(), ..sample::event() }));
    assert_eq!(all.content(&batch).unwrap().body, br#"["a","b"]"#.as_slice());
}
