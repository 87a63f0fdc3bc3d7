//! The wire, without a server.

use super::{
    wire::{Line, Lines, Query, page},
    *,
};
use crate::cluster::{Resource, Scope, Version};

fn deployments() -> Resource {
    Resource {
        group: "apps".into(),
        version: "v1".into(),
        plural: "deployments".into(),
        singular: "deployment".into(),
        kind: "Deployment".into(),
        short_names: vec![],
        namespaced: true,
    }
}

fn frame(line: &Bytes) -> Result<Frame, Error> {
    wire::frame(line, &Sentences::default())
}

/// The lines of chunks, as texts; `#n` for one that was too long.
fn lines(max: usize, chunks: &[&str]) -> (Vec<String>, bool) {
    let mut lines = Lines::new(max);
    let mut found = Vec::new();
    for chunk in chunks {
        lines.feed(Bytes::copy_from_slice(chunk.as_bytes()));
        while let Some(line) = lines.next() {
            found.push(match line {
                Line::Whole(line) => String::from_utf8(line.to_vec()).unwrap(),
                Line::TooLong(length) => format!("#{length}"),
            });
        }
    }
    (found, lines.torn())
}

#[test]
fn lines_are_the_same_however_the_stream_is_cut() {
    let text = "one\ntwo\n\nthree is longer\nfour\n";
    let whole = lines(100, &[text]).0;
    assert_eq!(whole, ["one", "two", "", "three is longer", "four"]);
    for first in 0..text.len() {
        for second in first..text.len() {
            let cut = lines(100, &[&text[..first], &text[first..second], &text[second..]]);
            assert_eq!(cut, (whole.clone(), false));
        }
    }
}

#[test]
fn a_line_that_is_too_long_is_skipped_and_the_rest_goes_on() {
    assert_eq!(lines(5, &["12345\n123456\n", "1234", "567", "89\nab\n"]).0, ["12345", "#6", "#9", "ab"]);
    assert_eq!(lines(5, &["a\n1234", "5\n", "6"]), (vec!["a".into(), "12345".into()], true));
    assert!(lines(5, &["1234567"]).1, "cut inside a line that is too long");
}

#[test]
fn a_query_is_escaped() {
    let mut feed = Feed::new(deployments(), Scope::Namespace("shop".into()));
    feed.labels = "app in (web, api),!x".into();
    feed.fields = "metadata.namespace!=kube-system".into();
    let mut query = Query::of(&feed);
    query.add("continue", "a+b/c==");
    assert_eq!(
        query.into_path(),
        "/apis/apps/v1/namespaces/shop/deployments?labelSelector=app%20in%20%28web%2C%20api%29%2C%21x\
         &fieldSelector=metadata.namespace%21%3Dkube-system&continue=a%2Bb%2Fc%3D%3D"
    );
}

#[test]
fn a_page_is_cut_into_items_that_share_its_memory() {
    let body = Bytes::from_static(
        br#"{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"next","remainingItemCount":3},
            "items":[{"a" : 1e400}, {"b":[[[["x"]]]],"c":123456789012345678901234567890}]}"#,
    );
    let page = page(&body).unwrap();
    assert_eq!(page.items[0], r#"{"a" : 1e400}"#, "bytes stay as they were");
    assert!(page.items[1].ends_with(b"123456789012345678901234567890}"));
    assert!(body.as_ptr_range().contains(&page.items[1].as_ptr()));
    assert_eq!((page.version, page.continue_token.as_deref()), (Version::from("7"), Some("next")));

    let empty =
        super::wire::page(&Bytes::from_static(br#"{"items":null,"metadata":{"resourceVersion":"7","continue":""}}"#))
            .unwrap();
    assert_eq!((empty.items.len(), empty.continue_token), (0, None));
}

#[test]
fn an_event_is_read_in_any_order_of_its_keys() {
    let object = r#"{"metadata":{"name":"a"},"type":"nothing"}"#;
    for line in [format!(r#"{{"type":"ADDED","object":{object}}}"#), format!(r#"{{"object":{object},"type":"ADDED"}}"#)]
    {
        assert_eq!(frame(&line.into()).unwrap(), Frame::Added(Bytes::from(object)));
    }
    let line = r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    assert_eq!(frame(&line.into()).unwrap(), Frame::Bookmark { version: "9".into(), initial_events_end: true });
    let line = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","creationTimestamp":null}}}"#;
    assert_eq!(frame(&line.into()).unwrap(), Frame::Bookmark { version: "9".into(), initial_events_end: false });
}

#[test]
fn an_object_nested_a_million_deep_passes_as_bytes() {
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let line = Bytes::from(format!(r#"{{"type":"MODIFIED","object":{{"a":{deep}}}}}"#));
    assert!(matches!(frame(&line), Ok(Frame::Modified(object)) if object.len() > 2_000_000));
}

#[test]
fn error_events_say_what_to_do() {
    let event = |status: &str| match frame(&Bytes::from(format!(r#"{{"type":"ERROR","object":{status}}}"#))).unwrap() {
        Frame::Error(error) => error,
        other => panic!("{other:?}"),
    };
    let expired = r#"{"kind":"Status","status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}"#;
    assert_eq!(event(expired), Error::Expired("too old resource version: 1 (2)".into()));
    assert_eq!(event(r#"{"reason":"Gone"}"#), Error::Expired("Gone".into()));
    let large = r#"{"message":"Too large resource version: 9, current: 2","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]},"code":504}"#;
    assert!(matches!(event(large), Error::TooNew(_)));
    assert!(matches!(
        event(r#"{"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]},"code":504}"#),
        Error::TooNew(_)
    ));
    assert!(matches!(event(r#"{"reason":"InternalError","code":500}"#), Error::Server { code: 500, .. }));
}

#[test]
fn answers_say_what_to_do() {
    let told = |code, status: &str| {
        serde_json::from_str::<Status>(status).unwrap().into_error(code, None, &Sentences::default())
    };
    assert!(matches!(told(401, r#"{"reason":"Unauthorized"}"#), Error::Unauthorized(_)));
    assert!(matches!(told(403, "{}"), Error::Forbidden(text) if &*text == "Forbidden"));
    assert!(matches!(told(404, "{}"), Error::NotFound(_)));
    assert!(matches!(told(422, r#"{"reason":"Invalid"}"#), Error::Invalid(_)));
    assert!(matches!(told(410, r#"{"reason":"Expired"}"#), Error::Expired(_)));
    assert!(matches!(told(503, "{}"), Error::Server { code: 503, .. }));
    let busy = told(429, r#"{"details":{"retryAfterSeconds":3}}"#);
    assert_eq!(busy, Error::Busy { after: Some(Duration::from_secs(3)) });
    let busy = Status::default().into_error(429, Some(Duration::from_secs(9)), &Sentences::default());
    assert_eq!(busy, Error::Busy { after: Some(Duration::from_secs(9)) });
    assert!(told(500, &format!(r#"{{"message":"{}"}}"#, "é".repeat(1_000))).to_string().len() < 700);
}

#[test]
fn what_a_server_quotes_is_masked_by_the_patterns_of_the_user_too() {
    let sentences = Sentences::new(&[r"ACME-(\d{4})".to_owned(), "^hunter$".to_owned()]).unwrap();
    let status = r#"{"message":"cannot decode password=hunter2 of ACME-1234","code":500}"#;
    let line = Bytes::from(format!(r#"{{"type":"ERROR","object":{status}}}"#));
    let event = match wire::frame(&line, &sentences).unwrap() {
        Frame::Error(error) => error,
        other => panic!("{other:?}"),
    };
    let answer = serde_json::from_str::<Status>(status).unwrap().into_error(500, None, &sentences);
    for error in [event, answer] {
        let text = error.to_string();
        assert!(text.contains("cannot decode password=hmac:") && text.contains("ACME-hmac:"), "{text}");
        assert!(!text.contains("hunter2") && !text.contains("1234"), "{text}");
    }
}

#[test]
fn what_cannot_be_parsed_is_never_quoted() {
    for line in [
        r#"{"type":"ADDED","object":"#,
        r#"{"type":["hunter2"],"object":{}}"#,
        r#"{"type":"hunter2","object":{}}"#,
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":{"hunter2":1}}}}"#,
        r#"{"type":"BOOKMARK","object":"hunter2"}"#,
    ] {
        let error = frame(&Bytes::copy_from_slice(line.as_bytes())).unwrap_err();
        assert!(matches!(error, Error::Malformed(_)), "{line}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    assert!(!page(&Bytes::from_static(br#"{"items":"hunter2"}"#)).unwrap_err().to_string().contains("hunter2"));
}
