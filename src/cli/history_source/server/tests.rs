//! What a server says is understood, and asked for again where it may be.

use futures::future::LocalBoxFuture;
use kubediff::history;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::cli::{
    history_source::{Source, Told, is_unknown},
    object::Target,
};

#[test]
fn that_nothing_is_known_is_an_answer_and_that_nothing_can_be_asked_is_an_error() {
    let refused = |code: &str| anyhow::Error::from(Refusal { code: code.into(), words: "no".into() });
    for unknown in [refused("not-found"), refused("gap"), history::Error::Unknown("x".into()).into()] {
        assert!(is_unknown(&unknown), "{unknown:#}");
    }
    let broken = history::Error::Sql(rusqlite::Error::InvalidQuery);
    for error in [refused("internal"), refused("unauthorized"), refused(""), broken.into(), anyhow!("cannot reach")] {
        assert!(!is_unknown(&error), "{error:#}");
    }
}

#[test]
fn server_sent_events_are_read_in_whatever_pieces_they_come() {
    let text = ": hello\nid: 3\n\nid: 4\nevent: change\ndata: {\"a\":\ndata: 1}\n\r\n: again\n\nevent: behind\ndata: {}\n\n\
                id: 1004\n\n";
    let message = |id, event: &str, data: &str| Message { id, event: event.into(), data: data.into() };
    let want = vec![
        message(Some(3), "", ""),
        message(Some(4), "change", "{\"a\":\n1}"),
        message(None, "behind", "{}"),
        message(Some(1004), "", ""),
    ];
    for size in [1, 2, 7, 1000] {
        let mut lines = Lines::default();
        let got: Vec<_> = text.as_bytes().chunks(size).flat_map(|chunk| lines.take(chunk)).collect();
        assert_eq!(got, want, "pieces of {size}");
    }
}

struct Nobody;

impl Told for Nobody {
    fn tell(&mut self, _: Row) -> LocalBoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn a_stream_that_broke_off_goes_on_from_the_number_that_was_told_last_also_without_a_change() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server::new(&format!("http://{}", listener.local_addr().unwrap()), None, None).unwrap();
    let asked = async {
        let mut asked = Vec::new();
        for said in [": open\nid: 7\n\nid: 5000\n\n", ""] {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                socket.read_buf(&mut request).await.unwrap();
            }
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            socket.write_all(format!("{answer}{said}").as_bytes()).await.unwrap();
            asked.push(String::from_utf8(request).unwrap().lines().next().unwrap().to_owned());
        }
        asked
    };
    let query = vec![("namespace", "quiet".to_owned())];
    let mut told = Nobody;
    let asked = tokio::select! {
        asked = asked => asked,
        ended = server.follow(&query, 7, &mut told) => panic!("{ended:?}"),
    };
    for (line, after) in asked.iter().zip(["after=7 ", "after=5000 "]) {
        assert!(line.contains(after), "{asked:?}");
    }
}

#[tokio::test]
async fn what_is_asked_for_is_found_behind_pages_that_are_empty() {
    let row = json!({"seq": 7, "id": "7f0c1a2b3c", "time": "2026-11-16T11:42:17Z", "type": "updated", "observed": "live",
        "group": "acme.example", "version": "v1", "resource": "gadgets", "kind": "Gadget", "namespace": "shop",
        "name": "g", "owner": {"kind": "Gadget", "namespace": "shop", "name": "g"}, "managers": [], "hand": false,
        "classes": ["spec"], "summary": ""});
    let informer = json!({"group": "", "version": "v1", "resource": "widgets", "kind": "Widget", "shortNames": ["wg"]});
    let server = scripted::server(move |path| match path {
        path if path.contains("/status") => json!({"informers": [informer]}),
        path if path.contains("/objects") => json!({"objects": []}),
        path if !path.contains("kind=gadget") => json!({"events": []}),
        path if path.contains("cursor=") => json!({"events": [row]}),
        _ => json!({"events": [], "next": "9"}),
    })
    .await;
    let source = Source::Server(server);
    assert_eq!(source.newest(&vec![("kind", "gadget".into())]).await.unwrap().map(|row| row.seq), Some(7));
    assert_eq!(source.kind("gadget").await.unwrap().as_deref(), Some("Gadget"));
    let target = Target { kind: "gadget".into(), name: Some("g".into()) };
    assert_eq!(Object::find(&source, &target, None).await.unwrap().title(), "Gadget shop/g");

    // What it watches, what it has events of, what every cluster has, and patterns are known.
    for kinds in ["widget", "wg", "gadget", "deploy", "nosuch*", "!gadget,Widgets.v1", ""] {
        source.check_kinds(kinds).await.unwrap_or_else(|error| panic!("{kinds}: {error:#}"));
    }
    for (wrong, said) in [
        ("deplyo", "no kind \"deplyo\" is known here; did you mean `deploy`?"),
        ("gadget,wdget", "no kind \"wdget\" is known here; did you mean `widget`?"),
        ("!nosuchkind", "no kind \"nosuchkind\" is known here"),
    ] {
        let error = source.check_kinds(wrong).await.unwrap_err();
        assert_eq!(error.to_string(), said);
        assert!(!error.is::<Usage>(), "it may be one that comes later: it failed, and was not typed wrong");
    }
    let target = Target { kind: "deplyo".into(), name: Some("web".into()) };
    assert!(Object::find(&source, &target, None).await.unwrap_err().to_string().contains("did you mean `deploy`?"));
}

#[test]
fn an_address_that_is_none_is_wrong_usage() {
    for url in ["", "8080", "localhost:8080", "ftp://x"] {
        assert!(Server::new(url, None, None).err().unwrap().is::<Usage>(), "{url}");
    }
    assert!(Server::new("http://127.0.0.1:8080/kubediff/", None, None).is_ok());
}
