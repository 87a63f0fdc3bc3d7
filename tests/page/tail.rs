//! The live tail, over a stream that is made up.

use super::Look;
use crate::harness;

/// A stream that says how far it has come, without a change, and ends; `asked` has where each was to go on.
const STREAM: &str = r#"
    const really = window.fetch;
    window.asked = [];
    window.fetch = (url, options) => {
        if (!new URL(url, location.href).pathname.endsWith("/api/v1/stream")) return really(url, options);
        window.asked.push(options.headers["Last-Event-ID"] ?? null);
        const said = window.asked.length === 1 ? ": open\nid: 7\n\nid: 5000\n\n" : ": open\nid: 5000\n\n";
        return Promise.resolve(new Response(said, {headers: {"content-type": "text/event-stream"}}));
    };
"#;

#[tokio::test]
async fn a_tail_that_broke_off_goes_on_from_the_number_that_it_was_told_last_also_without_a_change() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("tail").await;
    let look = Look::of(cluster, &namespace).await;
    look.browser.before_load(STREAM).await;
    look.open("?namespace=quiet").await;
    look.browser.until("asked.length > 1", "the second try").await;
    let asked: Vec<Option<String>> = look.browser.eval("asked.slice(0, 2)").await;
    assert_eq!(asked, [None, Some("5000".to_owned())]);
}
