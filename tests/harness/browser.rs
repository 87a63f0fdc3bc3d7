//! A real Chromium, driven over the DevTools protocol through a pair of pipes: JSON messages that end in a zero byte.
//!
//! Chromium ends by itself when its pipe closes, so it cannot outlive the run; dropping a [`Browser`] waits for that.

use std::{
    collections::HashMap,
    path::Path,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{Mutex as AsyncMutex, oneshot},
};

use super::{PATIENCE, guard, guard::Directory, poll};

/// The names under which distributions install it.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// One browser with one page.
pub struct Browser {
    child: Child,
    wire: Arc<Wire>,
    reader: tokio::task::JoinHandle<()>,
    /// Its profile.
    _dir: Directory,
}

/// What is said in both directions.
struct Wire {
    out: AsyncMutex<Option<ChildStdin>>,
    next: AtomicU64,
    session: Mutex<Option<String>>,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    heard: Mutex<Vec<Value>>,
}

impl Browser {
    /// Starts it with an empty page.
    pub async fn start() -> Self {
        let dir = Directory::create().unwrap();
        let program = NAMES.iter().find_map(|name| on_path(name)).expect("Chromium, which tests/run installs");
        // It takes the pipes as descriptors 3 and 4.
        let script = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>"$LOG""#;
        let mut child = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--lang=en-GB", "--window-size=1440,900"])
            .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
            .env("LOG", dir.path().join("chromium.log"))
            .env("TZ", "UTC")
            .env("HOME", dir.path())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let wire = Arc::new(Wire {
            out: AsyncMutex::new(child.stdin.take()),
            next: AtomicU64::new(1),
            session: Mutex::default(),
            waiting: Mutex::default(),
            heard: Mutex::default(),
        });
        let reader = tokio::spawn(Arc::clone(&wire).listen(child.stdout.take().unwrap()));
        let browser = Self { child, wire, reader, _dir: dir };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach).await;
        *browser.wire.session.lock().unwrap() = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        browser
    }

    /// Sends a command and waits for its answer.
    pub async fn call(&self, method: &str, params: Value) -> Value {
        let answer = tokio::time::timeout(PATIENCE, self.wire.ask(method, params)).await;
        let answer = answer.unwrap_or_else(|_| panic!("Chromium did not answer {method}")).expect("Chromium runs");
        assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// Goes to an address, and returns when the document has loaded.
    pub async fn open(&self, url: &str) {
        let answer = self.call("Page.navigate", json!({"url": url})).await;
        assert!(answer.get("errorText").is_none(), "{url}: {}", answer["errorText"]);
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'", "the page to load").await;
    }

    pub async fn reload(&self) {
        self.eval::<Value>("window.beforeReload = true").await;
        self.call("Page.reload", json!({})).await;
        self.until("!window.beforeReload && document.readyState === 'complete'", "the page to load again").await;
    }

    /// The value of an expression, which may be a promise.
    pub async fn eval<T: DeserializeOwned>(&self, expression: &str) -> T {
        self.try_eval(expression).await.unwrap_or_else(|why| panic!("{expression}: {why}"))
    }

    async fn try_eval<T: DeserializeOwned>(&self, expression: &str) -> Result<T, String> {
        let params =
            json!({"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true});
        let answer = self.call("Runtime.evaluate", params).await;
        if let Some(details) = answer.get("exceptionDetails") {
            return Err(details["exception"]["description"].to_string());
        }
        serde_json::from_value(answer["result"]["value"].clone()).map_err(|e| e.to_string())
    }

    /// Waits for an expression to be true. What it throws counts as false: a page that is still loading lacks things.
    #[track_caller]
    pub fn until(&self, expression: &str, what: &str) -> impl Future<Output = ()> {
        let condition = format!("Boolean({expression})");
        poll(PATIENCE, format!("{what}: {expression}"), async move || {
            self.try_eval::<bool>(&condition).await.unwrap_or(false).then_some(())
        })
    }

    /// The text of the first element that a selector finds, as it is seen.
    pub async fn text(&self, selector: &str) -> String {
        self.eval(&format!("document.querySelector({}).innerText", json!(selector))).await
    }

    /// The texts of all.
    pub async fn texts(&self, selector: &str) -> Vec<String> {
        self.eval(&format!("[...document.querySelectorAll({})].map(e => e.innerText)", json!(selector))).await
    }

    /// Waits for an element, scrolls to it and presses the mouse on its middle.
    pub async fn click(&self, selector: &str) {
        let (x, y) = self.middle(selector).await;
        self.mouse("mousePressed", x, y).await;
        self.mouse("mouseReleased", x, y).await;
    }

    /// Waits for an element and clicks it by script, in one step: for what may move between the look and the press, as rows
    /// do while others come.
    pub async fn activate(&self, selector: &str) {
        let find = format!("document.querySelector({})", json!(selector));
        self.until(&format!("(e => e && (e.click(), true))({find})"), "an element to click").await;
    }

    async fn middle(&self, selector: &str) -> (f64, f64) {
        let find = format!("document.querySelector({})", json!(selector));
        self.until(&find, "an element").await;
        self.eval(&format!(
            "{{ const e = {find}; e.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             const b = e.getBoundingClientRect(); [b.x + b.width / 2, b.y + b.height / 2] }}"
        ))
        .await
    }

    async fn mouse(&self, kind: &str, x: f64, y: f64) {
        let params = json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1});
        self.call("Input.dispatchMouseEvent", params).await;
    }

    /// Drags across an element, from one part of its width to another.
    pub async fn drag(&self, selector: &str, from: f64, to: f64) {
        self.middle(selector).await;
        let (x, y, width, height): (f64, f64, f64, f64) = self
            .eval(&format!(
                "{{ const b = document.querySelector({}).getBoundingClientRect(); [b.x, b.y, b.width, b.height] }}",
                json!(selector)
            ))
            .await;
        let y = y + height / 2.0;
        self.mouse("mousePressed", x + width * from, y).await;
        for part in 1..=4 {
            self.mouse("mouseMoved", x + width * (from + (to - from) * f64::from(part) / 4.0), y).await;
        }
        self.mouse("mouseReleased", x + width * to, y).await;
    }

    /// Presses a key, by the name that pages see: `j`, `Enter`, `ArrowLeft`.
    pub async fn press(&self, key: &str) {
        let text = match key {
            "Enter" => "\r",
            key if key.chars().count() == 1 => key,
            _ => "",
        };
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            _ => 0,
        };
        let down = json!({"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", down).await;
        self.call("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code})).await;
    }

    /// Writes into what has the focus.
    pub async fn write(&self, text: &str) {
        self.call("Input.insertText", json!({"text": text})).await;
    }

    /// The size of the window; below 600 it is a phone.
    pub async fn size(&self, width: u32, height: u32) {
        let phone = width < 600;
        let scale = if phone { 2 } else { 1 };
        let params = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone});
        self.call("Emulation.setDeviceMetricsOverride", params).await;
    }

    pub async fn dark(&self, dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    pub async fn screenshot(&self, file: &Path) {
        let answer = self.call("Page.captureScreenshot", json!({"format": "png"})).await;
        std::fs::write(file, BASE64_STANDARD.decode(answer["data"].as_str().unwrap()).unwrap()).unwrap();
    }

    /// Runs a script in every document that is opened from now on, before its own.
    pub async fn before_load(&self, script: &str) {
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": script})).await;
    }

    /// All messages of a sort that Chromium sent by itself so far.
    pub fn heard(&self, method: &str) -> Vec<Value> {
        let heard = self.wire.heard.lock().unwrap();
        heard.iter().filter(|one| one["method"] == method).map(|one| one["params"].clone()).collect()
    }

    /// The addresses of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        let url = |sent: &Value| sent["request"]["url"].as_str().unwrap_or_default().to_owned();
        self.heard("Network.requestWillBeSent").iter().map(url).collect()
    }

    /// Everything that a healthy page does not do: errors and warnings in the console, exceptions, dialogs, requests to
    /// other origins than `origin`, broken rules of the content security policy.
    pub fn problems(&self, origin: &str) -> Vec<String> {
        let mut found = Vec::new();
        for call in self.heard("Runtime.consoleAPICalled") {
            if call["type"] != "log" && call["type"] != "info" && call["type"] != "debug" {
                found.push(format!("console: {}", call["args"]));
            }
        }
        found.extend(
            self.heard("Runtime.exceptionThrown").iter().map(|e| format!("exception: {}", e["exceptionDetails"])),
        );
        found.extend(self.heard("Page.javascriptDialogOpening").iter().map(|dialog| format!("a dialog: {dialog}")));
        found.extend(self.heard("Log.entryAdded").iter().map(|entry| format!("log: {}", entry["entry"])));
        let elsewhere = |url: &String| !url.starts_with(origin) && !url.starts_with("data:") && url != "about:blank";
        found.extend(self.requests().into_iter().filter(elsewhere).map(|url| format!("a request to {url}")));
        found
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.reader.abort();
        if let Some(pid) = self.child.id() {
            guard::send_to_group("KILL", pid);
        }
        for _ in 0..200 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Wire {
    async fn ask(&self, method: &str, params: Value) -> Option<Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &*self.session.lock().unwrap() {
            message["sessionId"] = json!(session);
        }
        let (tell, answer) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id, tell);
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let mut out = self.out.lock().await;
        out.as_mut()?.write_all(&bytes).await.ok()?;
        drop(out);
        answer.await.ok()
    }

    async fn listen(self: Arc<Self>, input: ChildStdout) {
        let mut input = BufReader::new(input);
        let mut bytes = Vec::new();
        while input.read_until(0, &mut bytes).await.is_ok_and(|n| n > 0) {
            bytes.pop();
            let message: Value = serde_json::from_slice(&bytes).expect("Chromium speaks JSON");
            bytes.clear();
            if let Some(id) = message["id"].as_u64() {
                if let Some(tell) = self.waiting.lock().unwrap().remove(&id) {
                    let _ = tell.send(message);
                }
            } else {
                self.heard.lock().unwrap().push(message);
            }
        }
    }
}

fn on_path(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}
