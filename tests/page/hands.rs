//! Without a mouse, on a phone, by a screen reader; and the health page.

use serde_json::{Value, json};

use super::Look;
use crate::harness;

#[tokio::test]
async fn the_page_works_by_keyboard_on_a_phone_and_by_a_screen_reader() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("hands").await;
    let ns = namespace.name();
    let look = Look::of(cluster, &namespace).await;
    let browser = &look.browser;
    look.open_live("").await;
    let long = format!("--from-literal=a-key-with-a-long-name={}", "long-value-".repeat(40));
    for name in ["one", "two", "three"] {
        cluster.kubectl(&["create", "configmap", name, "-n", ns, &long]).await;
        look.row(&[name]).await;
    }

    browser.press("j").await;
    let focused = "document.activeElement.closest('.ev')?.innerText ?? ''";
    browser.until(&format!("({focused}).includes('three')"), "the newest to have the focus").await;
    browser.press("j").await;
    browser.until(&format!("({focused}).includes('two')"), "the next to have it").await;
    browser.press("k").await;
    browser.until(&format!("({focused}).includes('three')"), "the one before again").await;
    browser.press("Enter").await;
    browser.until("document.querySelector('.ev.open .diff')", "it to open").await;
    names_of_all_controls(&look).await;
    browser.press("Escape").await;
    browser.until("!document.querySelector('.ev.open')", "it to close").await;
    browser.press("?").await;
    browser.until("document.querySelector('dialog.help[open]')", "the help").await;
    browser.press("Escape").await;
    browser.until("!document.querySelector('dialog')", "the help to go").await;
    browser.press("o").await;
    browser.until("document.querySelector('.object-view .blame')", "the object").await;
    names_of_all_controls(&look).await;
    browser.press("t").await;
    browser.until("document.querySelector('.timeline-view')", "the timeline").await;
    let before: String = browser.eval("getComputedStyle(document.body).backgroundColor").await;
    browser.press("d").await;
    let after: String = browser.eval("getComputedStyle(document.body).backgroundColor").await;
    assert_ne!(before, after, "dark is not light");
    browser.press("d").await;

    for dark in [false, true] {
        browser.dark(dark).await;
        for query in ["", "?view=health", &format!("?object=core/v1/configmaps/{ns}/one")] {
            look.open(query).await;
            browser.until("document.querySelector('.ev, .health-view table, .blame .l')", "the view").await;
            if query.is_empty() {
                look.open_row(&["one"]).await;
                browser.until("document.querySelector('.ev.open .diff')", "the diff").await;
            }
            let pale: Vec<String> = browser.eval(PALE).await;
            assert_eq!(pale, Vec::<String>::new(), "dark: {dark}, {query}");
        }
    }
    browser.dark(false).await;
    look.open_live("").await;

    // What the list says to those who do not see it.
    browser
        .until("document.querySelector('[role=feed] [aria-posinset=\"1\"][aria-setsize]')", "places in the feed")
        .await;
    cluster.kubectl(&["create", "configmap", "four", "-n", ns]).await;
    browser
        .until("document.querySelector('#announcer[aria-live=polite]').textContent.includes('four')", "it to be said")
        .await;

    // On a phone nothing is cut off at the side, also when a row is open.
    browser.size(380, 800).await;
    for query in ["", "?view=health", &format!("?object=core/v1/configmaps/{ns}/one")] {
        look.open(query).await;
        browser.until("document.querySelector('.ev, .health-view table, .blame .l')", "the view").await;
        if query.is_empty() {
            look.open_row(&["one"]).await;
            browser.until("document.querySelector('.ev.open .diff')", "the diff").await;
        }
        let width: u32 = browser.eval("document.documentElement.scrollWidth").await;
        assert!(width <= 380, "{query}: {width} pixels wide");
    }
    look.is_well();
}

/// Texts whose colour differs too little from what is behind them: WCAG wants 4.5 to 1, of large ones 3 to 1.
const PALE: &str = r#"{
    const channels = (text) => { const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number); return {r, g, b, a}; };
    const light = ({r, g, b}) => {
        const [x, y, z] = [r, g, b].map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = channels(getComputedStyle(at).backgroundColor);
            if (colour.a === 1) return colour;
        }
        return {r: 255, g: 255, b: 255};
    };
    const pale = new Set();
    for (const element of document.querySelectorAll('body *')) {
        const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
        const style = getComputedStyle(element);
        const hidden = !element.checkVisibility() || element.closest('[aria-hidden=true], .sr, :disabled, svg');
        if (!own || hidden || style.color.startsWith('color(')) continue;
        const [text, ground] = [light(channels(style.color)), light(behind(element))];
        const ratio = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
        const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 700);
        if (ratio < (large ? 3 : 4.5)) pale.add(`${ratio.toFixed(1)} ${element.className || element.tagName}: ${element.textContent.slice(0, 30)}`);
    }
    [...pale].slice(0, 20)
}"#;

/// Every control has a name that a screen reader can say.
async fn names_of_all_controls(look: &Look) {
    let tree = look.browser.call("Accessibility.getFullAXTree", json!({})).await;
    let mut controls = 0;
    for node in tree["nodes"].as_array().unwrap() {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        if node["ignored"] == true
            || !["button", "link", "tab", "slider", "searchbox", "textbox", "article"].contains(&role)
        {
            continue;
        }
        controls += 1;
        assert!(
            !node["name"]["value"].as_str().unwrap_or_default().trim().is_empty(),
            "a {role} without a name: {node}"
        );
    }
    assert!(controls > 10, "{controls} controls");
}

#[tokio::test]
async fn the_health_page_has_what_is_wrong_on_top_with_the_reason_and_what_to_do() {
    use crate::harness::{Fault, Matching, Proxy};
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("health").await;
    let proxy = Proxy::start(cluster.access());
    proxy.fault(Matching::lists("secrets"), Fault::answer(403));
    proxy.fault(Matching::watches("secrets"), Fault::answer(403));
    let ns = namespace.name();
    let kubeconfig = proxy.kubeconfig(cluster.dir());
    let watch = format!("namespaces = [\"{ns}\"]\ninclude = [\"v1/configmaps\", \"v1/secrets\"]");
    let look = Look::with(&kubeconfig, &watch, "[sinks.log]\ntype = \"stdout\"\n").await;
    let browser = &look.browser;
    look.open("").await;
    browser.until("document.querySelector('#health .bad')", "the header to say that something is wrong").await;
    browser.press("h").await;
    browser.until("document.querySelector('.wrongs li')", "what is wrong").await;
    let wrong = browser.text(".wrongs li").await;
    assert!(wrong.contains("secrets") && wrong.contains("since"), "{wrong}");
    assert!(!browser.text(".wrongs .remedy").await.is_empty(), "{wrong}");
    let rows = browser.texts(".health-view table").await;
    assert!(
        rows.iter().any(|table| table.contains("ConfigMap")) && rows.iter().any(|table| table.contains("log")),
        "{rows:?}"
    );

    // It heals by itself, and the page says so by itself.
    proxy.heal();
    browser.eval::<Value>("window.since = 1").await;
    browser.until("!document.querySelector('.wrongs') && window.since === 1", "all to be well").await;
    assert!(browser.text("h1").await.contains("All is well"));
}
