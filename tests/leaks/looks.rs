//! What can be asked of a running kubediff and of its commands, all of it, as bytes to be searched.

use std::{
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;

/// A look at the page's API and the probes of one kubediff.
pub struct Looks {
    page: String,
    probes: String,
    http: reqwest::Client,
}

/// What was seen where.
pub type Seen = Vec<(String, Vec<u8>)>;

impl Looks {
    pub fn at(page: u16, probes: u16) -> Self {
        let of = |port: u16| format!("http://127.0.0.1:{port}");
        Self { page: of(page), probes: of(probes), http: reqwest::Client::new() }
    }

    pub fn server(&self) -> &str {
        &self.page
    }

    /// The live stream, from now on: what came of it so far.
    pub async fn follow(&self) -> Arc<Mutex<Vec<u8>>> {
        let came = Arc::new(Mutex::new(Vec::new()));
        let url = format!("{}/api/v1/stream", self.page);
        let mut answer = self.http.get(url).send().await.expect("the stream");
        assert!(answer.status().is_success(), "{}", answer.status());
        let into = came.clone();
        tokio::spawn(async move {
            while let Ok(Some(chunk)) = answer.chunk().await {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk);
            }
        });
        came
    }

    async fn get(&self, url: String, gone: bool, seen: &mut Seen) -> Vec<u8> {
        let answer = self.http.get(&url).send().await.expect("an answer");
        let code = answer.status();
        let body = answer.bytes().await.expect("a body").to_vec();
        assert!(code.is_success() || (gone && code == 404), "{url}: {code} {}", String::from_utf8_lossy(&body));
        seen.push((url, body.clone()));
        body
    }

    /// Every answer of the API about these events and objects, and the probes. `gone`: the objects are deleted.
    pub async fn everything(&self, events: &[Value], objects: &[String], gone: bool) -> Seen {
        let mut seen = Vec::new();
        for path in ["/metrics", "/readyz?verbose", "/livez"] {
            self.get(format!("{}{path}", self.probes), false, &mut seen).await;
        }
        for path in ["status", "facets", "density", "objects?limit=1000", "silences", "whoami", "openapi.json"] {
            self.get(format!("{}/api/v1/{path}", self.page), false, &mut seen).await;
        }
        let mut told = 0;
        let mut cursor = String::new();
        loop {
            let body = self.get(format!("{}/api/v1/events?limit=100{cursor}", self.page), false, &mut seen).await;
            let rows: Value = serde_json::from_slice(&body).expect("JSON");
            told += rows["events"].as_array().map_or(0, Vec::len);
            match rows["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert!(told >= events.len(), "{told} of {} events", events.len());
        for event in events {
            let id = event["id"].as_str().expect("an id");
            self.get(format!("{}/api/v1/events/{id}", self.page), false, &mut seen).await;
        }
        for object in objects {
            for part in ["", "/blame", "/history"] {
                self.get(format!("{}/api/v1/objects/{object}{part}", self.page), gone, &mut seen).await;
            }
        }
        seen
    }
}

/// What a command prints, on both of its outputs. It has to succeed where `fine` says so.
pub fn command(args: &[&str], fine: impl Fn(i32) -> bool) -> (String, Vec<u8>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubediff"));
    for name in ["KUBEDIFF_LOG", "KUBEDIFF_CONFIG", "KUBEDIFF_SERVER", "KUBEDIFF_TOKEN", "KUBECONFIG"] {
        command.env_remove(name);
    }
    let output = command.args(args).env("TZ", "UTC").stdin(Stdio::null()).output().expect("it runs");
    let line = format!("kubediff {}", args.join(" "));
    let said = [output.stdout, output.stderr].concat();
    let code = output.status.code().unwrap_or(-1);
    assert!(fine(code), "{line}: {code} {}", String::from_utf8_lossy(&said));
    (line, said)
}
