//! A hundred thousand rows.

use serde_json::{Value, json};

use super::Look;
use crate::harness::{self, PATIENCE, poll};

/// Pages of made-up rows in the place of the API's, and a stream that tells of as many as `happen(n)` is asked for: making
/// so many changes takes the control plane minutes. Numbers and cursors are as the API has them.
const PAGES: &str = r#"
    const TOTAL = Number(new URLSearchParams(location.search).get("q") ?? 100000);
    const really = window.fetch;
    const began = Date.now();
    let newest = TOTAL;
    const row = (seq) => {
        const n = TOTAL - seq;
        return {
            seq, id: String(seq).padStart(32, "0"), time: new Date(n < 0 ? began - n : began - n * 12000).toISOString(),
            type: "updated", observed: "live", group: "", version: "v1", resource: "pods", kind: "Pod", namespace: "shop",
            name: n < 0 ? `new-${-n}` : `web-${n}`, owner: {kind: "Pod", namespace: "shop", name: n < 0 ? `new-${-n}` : `web-${n}`},
            managers: ["kubelet"], hand: false, classes: ["status"], summary: `restarts ${n} -> ${n + 1}`,
        };
    };
    const rows = (from, to) => Array.from({length: Math.max(0, from - to)}, (_, index) => row(from - index));
    let tell = () => {};
    window.happen = (count) => {
        const fresh = rows(newest + count, newest).reverse();
        newest += count;
        tell(fresh.map((one) => `id: ${one.seq}\nevent: change\ndata: ${JSON.stringify(one)}\n\n`).join(""));
    };
    window.fetch = (url, options) => {
        const asked = new URL(url, location.href);
        if (asked.pathname.endsWith("/api/v1/stream")) {
            const text = new ReadableStream({start(controller) {
                tell = (said) => controller.enqueue(new TextEncoder().encode(said));
                options.signal.addEventListener("abort", () => controller.error(options.signal.reason));
            }});
            return Promise.resolve(new Response(text, {headers: {"content-type": "text/event-stream"}}));
        }
        if (!asked.pathname.endsWith("/api/v1/events")) return really(url, options);
        const [cursor, limit] = ["cursor", "limit"].map(name => Number(asked.searchParams.get(name) ?? 0));
        const from = cursor ? cursor - 1 : newest;
        const to = Math.max(0, from - limit);
        const page = {events: rows(from, to), next: to > 0 ? String(to + 1) : undefined};
        return Promise.resolve(new Response(JSON.stringify(page), {headers: {"content-type": "application/json"}}));
    };
"#;

#[tokio::test]
async fn a_hundred_thousand_rows_scroll_with_few_of_them_in_the_document() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("long").await;
    let look = Look::of(cluster, &namespace).await;
    let browser = &look.browser;
    browser.before_load(PAGES).await;
    look.open("").await;
    browser.until("document.querySelectorAll('.feed .ev').length > 5", "rows").await;
    // Down to the end, some screens at a time, while rows are counted in every frame.
    browser.eval::<Value>("window.seen = {most: 0, frames: 0, began: performance.now()}, null").await;
    let measured = poll(PATIENCE * 3, "the end of the list", async || {
        let measured: Value = browser
            .eval(
                "(async () => {
                    const end = () => /100,000 changes in all/.test(document.querySelector('.end-of-feed').innerText);
                    const bottom = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
                    for (let turn = 0; turn < 100 && !(end() && bottom()); turn += 1) {
                        scrollBy(0, bottom() ? 1 : innerHeight * 20);
                        await new Promise(requestAnimationFrame);
                        seen.frames += 1;
                        seen.most = Math.max(seen.most, document.querySelectorAll('.feed > *').length);
                    }
                    return {...seen, ended: end() && bottom(), secs: (performance.now() - seen.began) / 1000};
                })()",
            )
            .await;
        (measured["ended"] == true).then_some(measured)
    })
    .await;
    harness::say(format!("100,000 rows scrolled: {measured}"));
    assert!(measured["most"].as_u64().unwrap() < 150, "{measured}");
    look.row(&["web-99999"]).await;
    // And up again, to a place in the middle that was passed on the way, which is drawn at once.
    let shown: String = browser
        .eval(
            "(async () => { scrollTo(0, document.documentElement.scrollHeight / 2);
                await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame);
                return document.elementFromPoint(innerWidth / 2, innerHeight / 2).closest('.ev')?.innerText ?? ''; })()",
        )
        .await;
    assert!(shown.contains("web-4") || shown.contains("web-5"), "{shown:?}");
}

/// Reads all rows there are, and stands in the middle of them.
async fn middle(look: &Look, rows: &str) {
    look.open(&format!("?q={rows}")).await;
    look.browser.until("document.querySelectorAll('.feed .ev').length > 5", "rows").await;
    poll(PATIENCE * 3, format!("{rows} rows"), async || {
        let ended: bool = look
            .browser
            .eval(
                "(async () => {
                    const end = () => / changes in all/.test(document.querySelector('.end-of-feed').innerText);
                    for (let turn = 0; turn < 200 && !end(); turn += 1) {
                        scrollTo(0, document.documentElement.scrollHeight);
                        await new Promise(requestAnimationFrame);
                    }
                    return end();
                })()",
            )
            .await;
        ended.then_some(())
    })
    .await;
    look.browser.eval::<Value>("scrollTo(0, document.documentElement.scrollHeight / 2), null").await;
}

/// Milliseconds of the page's own work in a frame of scrolling (script, style and layout), and how far frames are apart.
/// The least of several rounds: what others do on the machine comes on top.
async fn frame(look: &Look) -> (f64, Value) {
    const FRAMES: u32 = 60;
    let work = async || -> f64 {
        let metrics = look.browser.call("Performance.getMetrics", json!({})).await;
        let named = |name: &str| {
            let all = metrics["metrics"].as_array().unwrap();
            all.iter().find(|metric| metric["name"] == name).unwrap()["value"].as_f64().unwrap()
        };
        (named("ScriptDuration") + named("LayoutDuration") + named("RecalcStyleDuration")) * 1000.0
    };
    let mut least = (f64::MAX, Value::Null);
    for _ in 0..6 {
        let before = work().await;
        let apart: Value = look
            .browser
            .eval(&format!(
                "(async () => {{
                    const apart = [];
                    let last = performance.now();
                    for (let n = 0; n < {FRAMES}; n += 1) {{
                        scrollBy(0, (n % 40 < 20 ? 1 : -1) * innerHeight / 3);
                        await new Promise(requestAnimationFrame);
                        const now = performance.now();
                        apart.push(Math.round(now - last));
                        last = now;
                    }}
                    apart.sort((a, b) => a - b);
                    return {{median: apart[{FRAMES} / 2], most: apart[{FRAMES} - 1]}};
                }})()"
            ))
            .await;
        let each = (work().await - before) / f64::from(FRAMES);
        if each < least.0 {
            least = (each, apart);
        }
    }
    least
}

/// A frame, of 60 a second, in ms.
const FRAME: f64 = 16.0;

/// That it does not grow with the list holds on any machine. That it fits into a frame does with room to spare: two cores with
/// three times as much to do as they can take 6 ms for it.
#[tokio::test]
async fn a_frame_of_scrolling_costs_the_same_in_a_thousand_and_in_a_hundred_thousand_rows() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("frames").await;
    let look = Look::of(cluster, &namespace).await;
    look.browser.before_load(PAGES).await;
    look.browser.call("Performance.enable", json!({})).await;
    middle(&look, "1000").await;
    let few = frame(&look).await;
    middle(&look, "100000").await;
    let mut many = frame(&look).await;
    // A hundred times as many rows: what grows with them grows more than that. Others are on the machine, so more than once.
    let slow = |many: &(f64, Value)| many.0 > 5.0 * few.0 + 1.0 || many.0 >= FRAME;
    for _ in 0..4 {
        if slow(&many) {
            many = frame(&look).await;
        }
    }
    harness::say(format!(
        "work in a frame of scrolling: {:.1} ms in 1,000 rows, {:.1} ms in 100,000; ms between frames {} and {}",
        few.0, many.0, few.1, many.1
    ));
    assert!(!slow(&many), "{few:?} {many:?}");
}

/// What the page does with a number of new rows: milliseconds of its own work, the least of several rounds.
async fn batch(look: &Look, rows: u32) -> f64 {
    let mut least = f64::MAX;
    for _ in 0..5 {
        let took: f64 = look
            .browser
            .eval(&format!(
                "(async () => {{
                    // Rows wait 60 ms for others, and are then drawn together; other timers are not about them.
                    const settimeout = window.setTimeout;
                    let work = 0;
                    window.setTimeout = (call, wait, ...more) => settimeout(() => {{
                        const began = performance.now();
                        call(...more);
                        if (wait === 60) work += performance.now() - began;
                    }}, wait);
                    happen({rows});
                    const deadline = performance.now() + 20000;
                    while (!work && performance.now() < deadline) await new Promise(requestAnimationFrame);
                    window.setTimeout = settimeout;
                    return work;
                }})()"
            ))
            .await;
        assert!(took > 0.0, "the rows were taken");
        least = least.min(took);
    }
    least
}

/// Rows as high as they are on a wide window, and what else is above and below them.
const ROW: u64 = 37;
const BESIDE: u64 = 20_000;

#[tokio::test]
async fn a_page_that_is_left_open_keeps_a_bounded_number_of_rows_and_reads_the_others_again() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("open").await;
    let look = Look::of(cluster, &namespace).await;
    let browser = &look.browser;
    browser.before_load(PAGES).await;
    look.open_live("?q=3000").await;
    look.row(&["web-0"]).await;
    let few = batch(&look, 200).await;
    let height = async || -> u64 { browser.eval("document.documentElement.scrollHeight").await };
    let before = height().await;
    let mut told = 1_000;
    while told < 30_000 {
        browser.eval::<Value>("happen(900), null").await;
        told += 900;
        browser.until(&format!("document.querySelector('.feed').innerText.includes('new-{told}')"), "the newest").await;
    }
    let most = height().await;
    assert!(most > before, "they were shown");
    assert!(most < 21_000 * ROW + BESIDE, "{told} new rows, and {most} pixels");
    let many = batch(&look, 200).await;
    harness::say(format!(
        "200 new rows take {few:.1} ms of work in a short list and {many:.1} ms in one of about 20,000"
    ));

    // What was forgotten is read again by whoever scrolls there, each once and in order.
    poll(PATIENCE * 3, "the end of the list", async || {
        let ended: bool = browser
            .eval(
                "(async () => {
                    const end = () => / changes in all/.test(document.querySelector('.end-of-feed').innerText);
                    for (let turn = 0; turn < 100 && !end(); turn += 1) {
                        scrollTo(0, document.documentElement.scrollHeight);
                        await new Promise(requestAnimationFrame);
                    }
                    return end();
                })()",
            )
            .await;
        ended.then_some(())
    })
    .await;
    let all: u64 = browser
        .eval("Number(document.querySelector('.end-of-feed').innerText.replaceAll(',', '').match(/\\d+/)[0])")
        .await;
    let happened: u64 = browser.eval("newest").await;
    assert_eq!(all, happened, "every one is there, once");
    look.is_well();
}

#[tokio::test]
async fn new_rows_do_not_move_or_grow_a_long_list_in_which_somebody_reads() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("reading").await;
    let look = Look::of(cluster, &namespace).await;
    let browser = &look.browser;
    browser.before_load(PAGES).await;
    middle(&look, "100000").await;
    let seen = "document.elementFromPoint(innerWidth / 2, innerHeight / 2).closest('.ev')?.getAttribute('aria-label')";
    browser.until(seen, "a row in the middle").await;
    let (here, height): (String, u64) = browser.eval(&format!("[{seen}, document.documentElement.scrollHeight]")).await;
    for _ in 0..50 {
        browser.eval::<Value>("happen(900), null").await;
    }
    browser.until("document.querySelector('.fresh-pill').innerText.includes('45,000 new')", "them to be counted").await;
    let now: (String, u64) = browser.eval(&format!("[{seen}, document.documentElement.scrollHeight]")).await;
    assert_eq!(now, (here, height), "nothing has moved, and nothing was added");
    browser.click(".fresh-pill").await;
    look.row(&["new-45000"]).await;
    browser.eval::<Value>("happen(1), null").await;
    look.row(&["new-45001"]).await;
    assert!(browser.eval::<u64>("document.documentElement.scrollHeight").await < height / 10, "it was read anew");

    // Paused for long, what comes is counted and not kept; after it all is there.
    browser.press("p").await;
    for _ in 0..5 {
        browser.eval::<Value>("happen(900), null").await;
    }
    browser
        .until("document.querySelector('#live').innerText.includes('paused, 4,500 new')", "them to be counted")
        .await;
    assert!(!look.rows().await.iter().any(|row| row.contains("new-49501")));
    browser.press("p").await;
    look.row(&["new-49501"]).await;
    look.row(&["new-49500"]).await;
    look.is_well();
}
