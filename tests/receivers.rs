//! The receivers answer as they are told, and the one that plays Slack keeps to Slack's limits.

use std::time::{Duration, Instant};

use reqwest::{Client, Response};
use serde_json::{Value, json};

use crate::harness::{
    Answer, PATIENCE, Receiver, Slack,
    certs::{CA, Ca},
    install_tls_provider, slack,
};

/// A client that follows nothing and trusts the harness's authority.
fn client() -> Client {
    builder().build().unwrap()
}

fn builder() -> reqwest::ClientBuilder {
    install_tls_provider();
    let builder = Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    builder.tls_certs_only([CA.reqwest()]).timeout(PATIENCE)
}

async fn post(url: String, body: &'static str) -> reqwest::Result<Response> {
    client().post(url).header("x-test", "yes").body(body).send().await
}

#[tokio::test]
async fn it_records_what_arrives_in_order() {
    let receiver = Receiver::start();
    for body in ["first", "second"] {
        assert_eq!(post(receiver.url("/hook?a=1"), body).await.unwrap().status(), 200);
    }
    let received = receiver.wait_for(2, PATIENCE).await;
    let bodies: Vec<_> = received.iter().map(|r| String::from_utf8_lossy(&r.body).into_owned()).collect();
    assert_eq!(bodies, ["first", "second"]);
    assert!(received[0].at <= received[1].at);
    assert_eq!((&*received[0].path, &*received[0].query, received[0].header("x-test")), ("/hook", "a=1", "yes"));
    assert_eq!(received[0].method, "POST");
}

#[tokio::test]
async fn it_answers_in_the_order_that_was_queued_and_then_as_usual() {
    let receiver = Receiver::start();
    receiver.then([
        Answer::status(500),
        Answer::too_many_requests(3),
        Answer::redirect(307, "http://127.0.0.1:1/elsewhere"),
        Answer::Cut,
        Answer::CutInBody,
    ]);
    receiver.answer(Answer::status(204));
    let url = || receiver.url("/");
    assert_eq!(post(url(), "").await.unwrap().status(), 500);
    let slow_down = post(url(), "").await.unwrap();
    assert_eq!((slow_down.status().as_u16(), slow_down.headers()["retry-after"].to_str().unwrap()), (429, "3"));
    let redirect = post(url(), "").await.unwrap();
    assert_eq!(redirect.headers()["location"], "http://127.0.0.1:1/elsewhere");
    assert!(post(url(), "").await.is_err(), "cut");
    let torn = post(url(), "").await.unwrap();
    assert_eq!(torn.status(), 200);
    assert!(torn.bytes().await.is_err(), "cut in the body");
    assert_eq!(post(url(), "").await.unwrap().status(), 204);
    assert_eq!((receiver.received().len(), receiver.accepted().len()), (6, 1));
}

#[tokio::test]
async fn it_hangs_delays_and_refuses() {
    let receiver = Receiver::start();
    let soon = Duration::from_millis(300);
    receiver.then([Answer::Hang, Answer::ok().after(soon)]);
    let hung = client().post(receiver.url("/")).timeout(soon).send().await;
    assert!(hung.unwrap_err().is_timeout());
    let began = Instant::now();
    assert_eq!(post(receiver.url("/"), "").await.unwrap().status(), 200);
    assert!(began.elapsed() >= soon);
    receiver.refuse(true);
    assert!(post(receiver.url("/"), "").await.is_err());
    receiver.refuse(false);
    assert_eq!(post(receiver.url("/"), "").await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_random_mix_is_the_same_for_the_same_seed() {
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let receiver = Receiver::start();
        receiver.random(seed, vec![(2, Answer::ok()), (1, Answer::status(500)), (1, Answer::status(503))]);
        let mut codes = Vec::new();
        for _ in 0..40 {
            codes.push(post(receiver.url("/"), "").await.unwrap().status().as_u16());
        }
        runs.push(codes);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
    for code in [200, 500, 503] {
        assert!(runs[0].contains(&code), "{code} is drawn at all");
    }
}

#[tokio::test]
async fn https_is_trusted_by_the_harness_authority_alone_and_can_ask_for_a_certificate() {
    let receiver = Receiver::start_tls();
    assert_eq!(post(receiver.url("/"), "").await.unwrap().status(), 200);
    let stranger = Client::builder().no_proxy().tls_certs_only([Ca::create().reqwest()]).build().unwrap();
    assert!(stranger.post(receiver.url("/")).send().await.is_err(), "another authority is not trusted");

    let receiver = Receiver::start_mutual_tls();
    assert!(post(receiver.url("/"), "").await.is_err(), "no client certificate");
    let shown = CA.client("kubediff");
    let identity = reqwest::Identity::from_pem(format!("{}{}", shown.cert_pem, shown.key_pem).as_bytes()).unwrap();
    let known = builder().identity(identity).build().unwrap();
    assert_eq!(known.post(receiver.url("/")).send().await.unwrap().status(), 200);
}

/// A Slack API call: the HTTP status and the answer.
async fn call(slack: &Slack, method: &str, body: &Value) -> (u16, Value) {
    let request = client().post(format!("{}{method}", slack.api_url())).bearer_auth(slack::TOKEN).json(body);
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

fn section(text: &str) -> Value {
    json!({"type": "section", "text": {"type": "mrkdwn", "text": text}})
}

#[tokio::test]
async fn slack_posts_threads_and_updates() {
    let slack = Slack::start();
    let (status, root) = call(&slack, "chat.postMessage", &json!({"channel": "#ops", "text": "root"})).await;
    assert_eq!((status, &root["ok"]), (200, &json!(true)));
    let (channel, ts) = (root["channel"].as_str().unwrap(), root["ts"].as_str().unwrap());
    let by_name = json!({"channel": "#ops", "ts": ts, "text": "edited"});
    assert_eq!(call(&slack, "chat.update", &by_name).await.1["error"], "channel_not_found");
    let by_id = json!({"channel": channel, "ts": ts, "text": "edited"});
    assert_eq!(call(&slack, "chat.update", &by_id).await.1["ok"], true);
    assert_eq!((slack.messages()[0].text.as_str(), slack.messages()[0].edits), ("edited", 1));
    let lost = json!({"channel": channel, "ts": "1.2", "text": "x"});
    assert_eq!(call(&slack, "chat.update", &lost).await.1["error"], "message_not_found");

    let reply = json!({"channel": channel, "thread_ts": ts, "text": "reply"});
    let answer = crate::harness::poll(PATIENCE, "the pace to allow a reply", async || {
        let (status, answer) = call(&slack, "chat.postMessage", &reply).await;
        (status != 429).then_some(answer)
    });
    assert_eq!(answer.await["ok"], true);
    assert_eq!(slack.messages()[1].thread_ts.as_deref(), Some(ts));
    assert_ne!(slack.messages()[1].ts, ts);
}

#[tokio::test]
async fn slack_refuses_haste_per_channel_with_429() {
    let slack = Slack::start_with_pace(PATIENCE);
    let to = |channel: &str| json!({"channel": channel, "text": "x"});
    assert_eq!(call(&slack, "chat.postMessage", &to("#a")).await.0, 200);
    let (status, answer) = call(&slack, "chat.postMessage", &to("#a")).await;
    assert_eq!((status, &answer["error"]), (429, &json!("ratelimited")));
    assert_eq!(call(&slack, "chat.postMessage", &to("#b")).await.0, 200, "another channel has its own pace");
    assert_eq!(slack.messages().len(), 2);
}

#[tokio::test]
async fn slack_refuses_what_breaks_its_limits_with_200_and_ok_false() {
    let slack = Slack::start();
    let long = |n: usize| "é".repeat(n);
    let header = |n: usize| json!({"type": "header", "text": {"type": "plain_text", "text": long(n)}});
    let field = |n: usize| json!({"type": "mrkdwn", "text": long(n)});
    let fields = |n: usize, length: usize| json!({"type": "section", "fields": vec![field(length); n]});
    let cases: [(&str, Vec<Value>, bool); 12] = [
        ("50 blocks", vec![json!({"type": "divider"}); 50], true),
        ("51 blocks", vec![json!({"type": "divider"}); 51], false),
        ("a section of 3,000", vec![section(&long(3_000))], true),
        ("a section of 3,001", vec![section(&long(3_001))], false),
        ("an empty section", vec![section("")], false),
        ("a header of 150", vec![header(150)], true),
        ("a header of 151", vec![header(151)], false),
        ("10 fields", vec![fields(10, 1_000)], true),
        ("a field of 2,000", vec![fields(1, 2_000)], true),
        ("11 fields", vec![fields(11, 5)], false),
        ("a field of 2,001", vec![fields(1, 2_001)], false),
        ("an unknown block", vec![json!({"type": "marquee"})], false),
    ];
    for (n, (what, blocks, fine)) in cases.into_iter().enumerate() {
        let body = json!({"channel": format!("#limits-{n}"), "text": "fallback", "blocks": blocks});
        let (status, answer) = call(&slack, "chat.postMessage", &body).await;
        assert_eq!((status, answer["ok"].as_bool()), (200, Some(fine)), "{what}: {answer}");
        assert!(fine || answer["error"] == "invalid_blocks", "{what}: {answer}");
    }
    let (_, answer) = call(&slack, "chat.postMessage", &json!({"channel": "#a"})).await;
    assert_eq!(answer["error"], "no_text");
    let much = json!({"channel": "#much", "text": "x", "blocks": vec![section(&long(2_900)); 5]});
    assert_eq!(call(&slack, "chat.postMessage", &much).await.1["error"], "msg_blocks_too_long");
    call(&slack, "chat.postMessage", &json!({"channel": "#long", "text": long(40_001)})).await;
    let kept = slack.messages().pop().unwrap();
    assert_eq!((kept.text.chars().count(), kept.truncated), (40_000, true));
    slack.fail_next("is_archived");
    let (status, answer) = call(&slack, "chat.postMessage", &json!({"channel": "#b", "text": "x"})).await;
    assert_eq!((status, &answer["error"]), (200, &json!("is_archived")));
    let stranger = client().post(format!("{}chat.postMessage", slack.api_url())).bearer_auth("xoxb-wrong");
    let answer: Value = stranger.json(&json!({})).send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["error"], "invalid_auth");
}

#[tokio::test]
async fn an_incoming_webhook_answers_plain_text() {
    let slack = Slack::start_with_pace(PATIENCE);
    let send = async |body: Value| {
        let answer = client().post(slack.webhook_url()).json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert_eq!(send(json!({"blocks": [section(&"x".repeat(3_001))]})).await, (400, "invalid_blocks".to_owned()));
    assert_eq!(send(json!({"text": "hello"})).await, (200, "ok".to_owned()));
    assert_eq!(send(json!({"text": "again"})).await.0, 429);
    for (word, status) in [("channel_is_archived", 410), ("action_prohibited", 403), ("channel_not_found", 404)] {
        slack.fail_next(word);
        assert_eq!(send(json!({"text": "x"})).await, (status, word.to_owned()));
    }
    let wrong = client().post(slack.receiver().url("/services/T/B/other")).json(&json!({"text": "x"})).send().await;
    assert_eq!(wrong.unwrap().status(), 404);
}
