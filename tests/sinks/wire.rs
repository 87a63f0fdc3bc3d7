//! What goes over the wire: signatures, compression, authentication, TLS, batches.

use std::{io::Read, sync::Arc};

use kubediff::{
    event::Redacted,
    sink::{Outcome, Secret, Sink, webhook},
};
use serde_json::Value;

use super::subject::event;
use crate::harness::{Answer, Receiver, certs::CA};

async fn send(settings: &webhook::Settings, batch: &[Arc<Redacted>]) -> Outcome {
    webhook::Webhook::new(settings).unwrap().send(batch).await
}

fn to(receiver: &Receiver) -> webhook::Settings {
    webhook::Settings { url: Secret::new(receiver.url("/hook")), ..webhook::Settings::default() }
}

#[tokio::test]
async fn a_receiver_can_check_the_signature_with_the_old_and_the_new_secret() {
    let receiver = Receiver::start();
    let secrets = ["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
    for gzip in [false, true] {
        let settings = webhook::Settings { signing_secrets: secrets.map(Secret::new).to_vec(), gzip, ..to(&receiver) };
        assert_eq!(send(&settings, &[event(0, 0)]).await, Outcome::Delivered);
    }
    for request in receiver.received() {
        let mut body = Vec::new();
        match request.header("content-encoding") {
            "gzip" => drop(flate2::read::GzDecoder::new(&request.body[..]).read_to_end(&mut body).unwrap()),
            _ => body.extend_from_slice(&request.body),
        }
        for secret in secrets {
            standardwebhooks::Webhook::new(secret).unwrap().verify(&body, &request.headers).unwrap();
        }
        let event: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(event["schema"], "kubediff.event/v1");
    }
    assert_eq!(receiver.received()[1].header("content-encoding"), "gzip");
}

#[tokio::test]
async fn headers_and_credentials_are_sent_as_configured() {
    let receiver = Receiver::start();
    let bearer = webhook::Settings {
        auth: Some(webhook::Auth::Bearer(Secret::new("t0ken"))),
        headers: [("x-team".to_owned(), Secret::new("shop"))].into(),
        ..to(&receiver)
    };
    let basic = webhook::Settings {
        auth: Some(webhook::Auth::Basic { username: "me".into(), password: Secret::new("pass") }),
        ..to(&receiver)
    };
    for settings in [bearer, basic] {
        assert_eq!(send(&settings, &[event(0, 0)]).await, Outcome::Delivered);
    }
    let [first, second] = &receiver.received()[..] else { panic!() };
    assert_eq!((first.header("authorization"), first.header("x-team")), ("Bearer t0ken", "shop"));
    assert_eq!(second.header("authorization"), "Basic bWU6cGFzcw==");
    assert!(first.header("user-agent").starts_with("kubediff/"));
}

#[tokio::test]
async fn tls_trusts_the_given_authority_and_shows_the_given_certificate() {
    let receiver = Receiver::start_mutual_tls();
    let refused = send(&to(&receiver), &[event(0, 0)]).await;
    assert!(matches!(refused, Outcome::Retry { .. }), "an unknown authority: {refused:?}");
    let without = webhook::Settings { ca: Some(CA.pem.clone()), ..to(&receiver) };
    assert!(matches!(send(&without, &[event(0, 0)]).await, Outcome::Retry { .. }), "no client certificate");
    let client = CA.client("kubediff");
    let certificate =
        webhook::ClientCertificate { certificate: client.cert_pem.clone(), key: Secret::new(client.key_pem.clone()) };
    let with = webhook::Settings { client_certificate: Some(certificate), ..without };
    assert_eq!(send(&with, &[event(0, 0)]).await, Outcome::Delivered);
    assert_eq!(receiver.accepted().len(), 1);
}

#[tokio::test]
async fn a_proxy_gets_the_request_in_its_place() {
    let proxy = Receiver::start();
    let settings = webhook::Settings {
        url: Secret::new("http://kubediff.invalid/hook"),
        proxy: Some(Secret::new(proxy.url("/"))),
        ..webhook::Settings::default()
    };
    assert_eq!(send(&settings, &[event(0, 0)]).await, Outcome::Delivered);
    assert_eq!(proxy.received()[0].header("host"), "kubediff.invalid");
}

#[tokio::test]
async fn a_batch_is_one_request() {
    let receiver = Receiver::start();
    let settings = webhook::Settings { batch: Some(3), ..to(&receiver) };
    let batch = [event(0, 0), event(0, 1), event(1, 0)];
    assert_eq!(send(&settings, &batch).await, Outcome::Delivered);
    assert_eq!(receiver.received()[0].json().as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn the_answer_says_what_to_do() {
    let receiver = Receiver::start();
    receiver.then([
        Answer::too_many_requests("7"),
        Answer::status(400).with_body("bad field"),
        Answer::status(503),
        Answer::status(410),
    ]);
    let after = Some(std::time::Duration::from_secs(7));
    let said = send(&to(&receiver), &[event(0, 0)]).await;
    assert!(matches!(&said, Outcome::Retry { after: said, .. } if *said == after), "{said:?}");
    let said = send(&to(&receiver), &[event(0, 0)]).await;
    assert!(matches!(&said, Outcome::Reject { reason } if reason.contains("bad field")), "{said:?}");
    assert!(matches!(send(&to(&receiver), &[event(0, 0)]).await, Outcome::Retry { after: None, .. }));
    assert!(matches!(send(&to(&receiver), &[event(0, 0)]).await, Outcome::Disabled { .. }));
    receiver.refuse(true);
    let Outcome::Retry { reason, .. } = send(&to(&receiver), &[event(0, 0)]).await else { panic!() };
    assert!(!reason.contains("/hook"), "{reason}");
}
