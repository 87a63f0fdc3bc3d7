//! The page, in a real Chromium, over a daemon that watches the real control plane.

mod access;
mod hands;
mod long;
mod object;
mod pictures;
mod rollups;
mod tail;

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    delivery::daemon::Kubediff,
    harness::{self, Browser, Cluster, Namespace, PATIENCE, cluster::free_port, poll},
};

/// The daemon that is looked at, and the browser that looks.
struct Look {
    kubediff: Kubediff,
    browser: Browser,
    /// `http://127.0.0.1:PORT/`
    origin: String,
}

impl Look {
    /// Watches what `watch` says (TOML), and waits until the page is served.
    async fn with(kubeconfig: &Path, watch: &str, more: &str) -> Self {
        harness::install_tls_provider();
        let port = free_port();
        let config = format!(
            "cluster = \"prod-eu\"\n[watch]\n{watch}\n[state]\npath = \"kubediff.db\"\n\
             [server]\nprobes = \"\"\npage = \"127.0.0.1:{port}\"\n{more}"
        );
        let mut kubediff = Kubediff::new(kubeconfig, &config);
        let origin = format!("http://127.0.0.1:{port}/");
        let (browser, ()) = tokio::join!(Browser::start(), kubediff.start());
        poll(PATIENCE, "the page to be served", async || {
            reqwest::get(&origin).await.ok().filter(|answer| answer.status().is_success()).map(drop)
        })
        .await;
        Self { kubediff, browser, origin }
    }

    /// The changes of one namespace, sent to one sink.
    async fn of(cluster: &Cluster, namespace: &Namespace) -> Self {
        let watch = format!("namespaces = [\"{namespace}\"]");
        Self::with(cluster.kubeconfig(), &watch, "[sinks.log]\ntype = \"stdout\"\n").await
    }

    async fn open(&self, query: &str) {
        self.browser.open(&format!("{}{query}", self.origin)).await;
    }

    async fn open_live(&self, query: &str) {
        self.open(query).await;
        self.browser.until("document.querySelector('#live').dataset.state === 'live'", "the tail to be live").await;
        self.browser.until("document.querySelector('.feed').ariaBusy === 'false'", "the list to be read").await;
    }

    /// Waits for a row that holds all of these words, and gives its text on one line.
    async fn row(&self, words: &[&str]) -> String {
        self.browser.until(&found(words), "a row").await;
        let text: String = self.browser.eval(&format!("{}.innerText", found(words))).await;
        text.replace('\n', " ")
    }

    /// Opens such a row, and waits for its diff.
    async fn open_row(&self, words: &[&str]) {
        self.browser.until(&found(words), "a row").await;
        let row = found(words);
        // By script, in one step: a row that comes moves all that are below it.
        let open = format!("(e => e.matches('.open') || e.querySelector('.row').click())({row}), null");
        self.browser.eval::<Value>(&open).await;
        self.browser.until(&format!("{row}.matches('.open:has([role=tab])')"), "that change to open").await;
    }

    async fn rows(&self) -> Vec<String> {
        let rows = self.browser.texts(".feed .ev .row").await;
        rows.into_iter().map(|row| row.replace('\n', " ")).collect()
    }

    async fn url(&self) -> String {
        let url: String = self.browser.eval("location.href").await;
        url.trim_start_matches(self.origin.as_str()).to_owned()
    }

    fn is_well(&self) {
        assert_eq!(self.browser.problems(&self.origin), Vec::<String>::new());
    }
}

fn found(words: &[&str]) -> String {
    format!(
        "[...document.querySelectorAll('.feed .ev')].find(e => {}.every(w => e.innerText.includes(w)))",
        json!(words)
    )
}

#[tokio::test]
async fn changes_appear_as_they_are_made_without_a_reload_and_open_into_their_diff() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("live").await;
    let ns = namespace.name();
    let mut look = Look::of(cluster, &namespace).await;
    look.open_live(&format!("?namespace={ns}&kind=ConfigMap")).await;
    let browser = &look.browser;
    assert!(browser.text(".empty").await.contains("No change matches"));
    browser.eval::<Value>("window.since = 'before the changes'").await;

    cluster.kubectl(&["create", "configmap", "conf", "-n", ns, "--from-literal=colour=light blue"]).await;
    look.row(&["ConfigMap", "conf", "created"]).await;
    let patch = r#"{"data":{"colour":"light green"}}"#;
    cluster.kubectl(&["patch", "configmap", "conf", "-n", ns, "-p", patch]).await;
    let row = look.row(&["light blue", "light green"]).await;
    assert!(row.contains("by hand") && row.contains("kubectl-patch"), "{row}");

    look.open_row(&["light blue", "light green"]).await;
    browser.until("document.querySelector('.ev.open .diff')", "the diff").await;
    assert!(browser.text(".ev.open .diff .l.old .c").await.contains("colour: light blue"));
    assert!(browser.text(".ev.open .diff .l.fresh .c").await.contains("colour: light green"));
    assert_eq!(browser.texts(".ev.open .diff .c b").await, ["blue", "green"], "only the word that changed is marked");
    let meta = browser.text(".ev.open .meta").await;
    assert!(meta.contains("kubectl-patch") && meta.contains("by hand") && meta.contains("log"), "{meta}");

    browser.click(".ev.open [data-tab=split]").await;
    browser.until("document.querySelector('.ev.open .diff.split .half.fresh')", "side by side").await;
    browser.click(".ev.open [data-tab=patch]").await;
    assert!(browser.text(".ev.open .panel").await.contains(r#""path": "/data/colour""#));
    browser.click(".ev.open [data-tab=object]").await;
    assert!(browser.text(".ev.open .panel").await.contains("colour: light green"));
    browser.click(".ev.open [data-tab=why]").await;
    assert!(browser.text(".ev.open .panel").await.contains("Sent to log"));

    the_buttons_copy_what_they_say(&look).await;

    // Paused, nothing moves; resumed, nothing is missing.
    browser.click(".density-head").await;
    browser.press("p").await;
    cluster.kubectl(&["create", "configmap", "while-paused", "-n", ns]).await;
    browser.until("document.querySelector('#live').innerText.includes('paused, 1 new')", "a change to wait").await;
    assert!(!look.rows().await.iter().any(|row| row.contains("while-paused")));
    browser.press("p").await;
    look.row(&["while-paused"]).await;
    look.is_well();

    // What happens while the daemon is away is there when it is back, in the same page.
    look.kubediff.kill();
    look.browser.until("document.querySelector('#live').dataset.state === 'lost'", "the loss to be seen").await;
    cluster.kubectl(&["create", "configmap", "while-away", "-n", ns]).await;
    look.kubediff.start().await;
    look.row(&["while-away"]).await;
    let since: String = look.browser.eval("window.since").await;
    assert_eq!(since, "before the changes", "the page was never loaded again");
}

/// Of the change that is open.
async fn the_buttons_copy_what_they_say(look: &Look) {
    let browser = &look.browser;
    let rights = json!({"origin": look.origin, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]});
    browser.call("Browser.grantPermissions", rights).await;
    let copied = async |button: &str, wanted: &str| -> String {
        let named = format!("[...document.querySelectorAll('.ev.open button')].find(b => b.innerText === '{button}')");
        browser.eval::<Value>(&format!("{named}.id = 'to-press', null")).await;
        browser.click("#to-press").await;
        browser.eval::<Value>("document.querySelector('#to-press').removeAttribute('id'), null").await;
        let text = format!("navigator.clipboard.readText().then(text => text.includes({}))", json!(wanted));
        poll(PATIENCE, format!("{button} to copy"), async || browser.eval::<bool>(&text).await.then_some(())).await;
        browser.eval("navigator.clipboard.readText()").await
    };
    let undo = copied("Copy undo", "kubectl patch configmaps conf").await;
    assert!(undo.contains(r#"{"op":"replace","path":"/data/colour","value":"light blue"}"#), "{undo}");
    let patch: Value = serde_json::from_str(&copied("Copy patch", "/data/colour").await).unwrap();
    assert_eq!(patch[0]["value"], "light green");
    let link = copied("Copy link", "event=").await;
    assert!(link.starts_with(&look.origin), "{link}");
    browser.until("document.querySelector('#toast').innerText === 'Copied the link'", "it to be said").await;
}

#[tokio::test]
async fn filters_live_in_the_url_and_a_reload_keeps_them() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("filters").await;
    let ns = namespace.name();
    let look = Look::of(cluster, &namespace).await;
    let browser = &look.browser;
    for name in ["red", "green"] {
        cluster.kubectl(&["create", "configmap", name, "-n", ns, "--from-literal=size=1"]).await;
        cluster.kubectl(&["patch", "configmap", name, "-n", ns, "-p", r#"{"data":{"size":"2"}}"#]).await;
    }
    cluster.kubectl(&["create", "secret", "generic", "hidden", "-n", ns, "--from-literal=a=b"]).await;
    cluster.kubectl(&["delete", "configmap", "green", "-n", ns]).await;
    look.open_live("").await;
    look.row(&["green", "deleted"]).await;

    // By the list of values.
    browser.activate("[data-facet='kind:ConfigMap']").await;
    browser.until("location.search === '?kind=ConfigMap'", "the kind in the URL").await;
    browser.until("!document.querySelector('.feed').innerText.includes('Secret')", "other kinds to go").await;
    browser.activate("[data-facet='type:updated']").await;
    browser.until("location.search === '?kind=ConfigMap&type=updated'", "the type in the URL").await;
    browser.until("document.querySelectorAll('.feed .ev').length === 2", "the two updates").await;

    // By the search box, which says the same.
    assert_eq!(browser.eval::<String>("document.querySelector('#search').value").await, "kind:ConfigMap type:updated");
    browser.press("/").await;
    browser.write(&format!("namespace:{ns} name:r* type:updated size")).await;
    browser.press("Enter").await;
    browser.until("document.querySelectorAll('.feed .ev').length === 1", "the one that is left").await;
    assert_eq!(look.url().await, format!("?namespace={ns}&name=r*&type=updated&q=size"));

    // A change that is open is part of the link, with its tab.
    look.open_row(&["red"]).await;
    browser.click(".ev.open [data-tab=patch]").await;
    let url = look.url().await;
    assert!(url.contains("&event=") && url.ends_with("&tab=patch"), "{url}");
    let rows = look.rows().await;
    browser.reload().await;
    browser.until("document.querySelector('.ev.open .panel .json')", "the same change to be open").await;
    assert_eq!(look.url().await, url);
    assert_eq!(look.rows().await, rows);

    // Back goes back, and dragging over the strip chooses a period.
    browser.click(".chips li:first-child button").await;
    browser.until("!location.search.includes('namespace')", "a filter to go").await;
    browser.eval::<Value>("history.back()").await;
    browser.until("location.search.includes('namespace')", "it to be back").await;
    // The change that was open is scrolled to: nothing may be dragged before.
    browser.until("document.querySelector('.ev.open .panel .json')", "the change to be open again").await;
    browser.drag(".strip-main .bars", 0.0, 0.5).await;
    browser.until("/since=.*until=/.test(location.search)", "the period in the URL").await;
    browser
        .until("document.querySelector('#live').dataset.state === 'past'", "the page to say that it is the past")
        .await;
    browser.reload().await;
    browser.until("document.querySelector('.strip-whole').hidden === false", "the whole period beside the part").await;
    look.is_well();
}

/// Runs as markup wherever it is taken for markup.
const MARKUP: &str = r#"<img src=x onerror="window.pwned=1;alert(1)"><script>window.pwned=1;alert(1)</script>"#;

#[tokio::test]
async fn nothing_that_the_cluster_says_becomes_markup() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("markup").await;
    let ns = namespace.name();
    let look = Look::of(cluster, &namespace).await;
    let browser = &look.browser;
    look.open_live("").await;
    let post = async |path: &str, body: Value| {
        let manager = "<svg onload=alert(1)>";
        let path =
            format!("{path}?fieldManager={}", manager.replace('<', "%3C").replace('>', "%3E").replace(' ', "%20"));
        let answer = cluster.access().request(reqwest::Method::POST, &path).json(&body).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    };
    let annotations = json!({"example.com/note": MARKUP});
    post(
        &format!("/api/v1/namespaces/{ns}/configmaps"),
        json!({"metadata": {"name": "conf", "annotations": annotations}, "data": {"text": MARKUP, "lines": format!("a\n{MARKUP}\n")}}),
    )
    .await;
    // The one kind of name that may hold almost anything.
    let name = "<img src=x onerror=alert(1)>";
    let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles");
    post(&roles, json!({"metadata": {"name": name}, "rules": []})).await;
    look.row(&["Role", name]).await;
    let patch =
        json!({"data": {"text": format!("{MARKUP}!")}, "metadata": {"annotations": {"example.com/note": "</script>"}}});
    cluster.kubectl(&["patch", "configmap", "conf", "-n", ns, "-p", &patch.to_string()]).await;
    look.row(&["ConfigMap", "conf", "<img src=x"]).await;

    look.open_row(&["ConfigMap", "conf", "<img src=x"]).await;
    for tab in ["diff", "split", "patch", "object", "why"] {
        browser.click(&format!(".ev.open [data-tab={tab}]")).await;
        let text = browser.text(".ev.open .panel").await;
        assert!(tab == "why" || text.contains("<img src=x onerror="), "{tab}: {text}");
    }
    // The object page, with the manager's name in the gutter.
    look.open(&format!("?object=core/v1/configmaps/{ns}/conf")).await;
    browser.until("document.querySelector('.blame .c')", "the blame").await;
    assert!(browser.text(".blame").await.contains("<svg onload=alert(1)>"));
    assert!(browser.text(".blame").await.contains("<img src=x onerror="));
    // What stands in the URL is no markup either.
    let hostile = "?q=%3Cimg%20src=x%20onerror=alert(1)%3E&namespace=%3Cscript%3Ealert(1)%3C/script%3E&since=%3Cb%3E";
    look.open(hostile).await;
    browser.until("document.querySelector('.trouble, .empty')", "an answer").await;
    look.open("?object=%3Cimg%20src=x%20onerror=alert(1)%3E/v1/x/y/z&at=%3Cb%3E").await;
    browser.until("document.querySelector('.trouble')", "an answer").await;

    assert!(browser.heard("Page.javascriptDialogOpening").is_empty());
    assert!(!browser.requests().iter().any(|url| url.ends_with("/x")), "an image was asked for");
    let made: u32 = browser.eval("document.querySelectorAll('img, iframe, object, embed, body script').length").await;
    assert_eq!(made, 0);
    assert_eq!(browser.eval::<Option<u32>>("window.pwned").await, None);
}
