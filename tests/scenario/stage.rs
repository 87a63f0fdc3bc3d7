//! Where the scenario is played: a control plane with real controllers, and the hands that act on it.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use jiff::Timestamp;
use reqwest::Method;
use serde_json::Value;

use crate::harness::{Cluster, Options, PATIENCE, cluster::flags, guard, poll, say, tools};

pub struct Stage {
    pub cluster: Cluster,
    http: reqwest::Client,
    _controllers: [guard::Daemon; 2],
    marks: std::sync::Mutex<Vec<(Timestamp, String)>>,
}

impl Stage {
    pub async fn build() -> Self {
        let cluster = Cluster::start(Options::default()).await;
        let kubeconfig = cluster.kubeconfig().to_string_lossy().into_owned();
        let common = [("kubeconfig", &*kubeconfig), ("leader-elect", "false"), ("secure-port", "0")];
        let mut manager = flags(&common);
        manager.extend(flags(&[
            ("service-account-private-key-file", &cluster.file("service-accounts.key")),
            ("root-ca-file", &cluster.file("ca.pem")),
            // A minute is short: the autoscaler looks every other second and waits for nothing.
            ("horizontal-pod-autoscaler-sync-period", "2s"),
            ("horizontal-pod-autoscaler-initial-readiness-delay", "0s"),
            ("horizontal-pod-autoscaler-cpu-initialization-period", "0s"),
            ("horizontal-pod-autoscaler-downscale-stabilization", "2s"),
        ]));
        let start = async |name: &str, args: Vec<String>| {
            let program = tools::path(name).await.unwrap_or_else(|why| panic!("{why}"));
            guard::Daemon::start(name, cluster.dir(), &program, args).expect("it starts")
        };
        let controllers =
            [start("kube-controller-manager", manager).await, start("kube-scheduler", flags(&common)).await];
        let http = cluster.access().http();
        Self { cluster, http, _controllers: controllers, marks: std::sync::Mutex::default() }
    }

    /// Names the part that begins now.
    pub fn mark(&self, text: &str) {
        say(format_args!("# {text}"));
        self.marks.lock().expect("no panic while it is held").push((Timestamp::now(), text.to_owned()));
    }

    pub fn marks(&self) -> Vec<(Timestamp, String)> {
        self.marks.lock().expect("no panic while it is held").clone()
    }

    /// kubectl, with an editor that is a sed script.
    pub async fn kubectl_with(&self, editor: &str, args: &[&str]) -> String {
        let program = tools::path("kubectl").await.unwrap_or_else(|why| panic!("{why}"));
        let mut command = Command::new(program);
        command.args(args).env("KUBECONFIG", self.cluster.kubeconfig()).env("HOME", self.cluster.dir());
        command.env("KUBE_EDITOR", editor).stdin(Stdio::null());
        let output = guard::run(&mut command).await.expect("kubectl runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {}: {said}", args.join(" "));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// kubectl with these words, which hold no spaces.
    pub async fn kubectl(&self, words: &str) -> String {
        self.kubectl_with("false", &words.split_whitespace().collect::<Vec<_>>()).await
    }

    /// Server-side apply as this manager, which wins every conflict.
    pub async fn apply(&self, manager: &str, manifest: &str) {
        let file = self.cluster.dir().join(format!("{:016x}.yaml", rand::random::<u64>()));
        std::fs::write(&file, manifest).expect("a writable folder");
        let manager = format!("--field-manager={manager}");
        let file = file.to_string_lossy();
        let args = ["apply", "--server-side", "--force-conflicts", &manager, "-f", &file];
        self.kubectl_with("false", &args).await;
    }

    pub async fn get(&self, path: &str) -> Value {
        let answer = self.cluster.access().request_by(&self.http, Method::GET, path).send().await;
        match answer {
            Ok(answer) => answer.json().await.unwrap_or_default(),
            Err(_) => Value::Null,
        }
    }

    pub async fn send(&self, method: Method, path: &str, kind: &str, body: &Value) -> bool {
        let request = self.cluster.access().request_by(&self.http, method, path).header("Content-Type", kind);
        let Ok(answer) = request.body(body.to_string()).send().await else { return false };
        let code = answer.status().as_u16();
        // Gone or changed meanwhile: the next look finds that out.
        if !matches!(code, 200..300 | 404 | 409) {
            say(format_args!("{path}: {code} {}", answer.text().await.unwrap_or_default()));
        }
        (200..300).contains(&code)
    }

    /// A strategic merge patch as this manager.
    pub async fn patch(&self, manager: &str, path: &str, body: &Value) -> bool {
        let path = format!("{path}?fieldManager={manager}");
        self.send(Method::PATCH, &path, "application/strategic-merge-patch+json", body).await
    }

    /// Waits until a Deployment is what it should be.
    pub async fn rolled(&self, namespace: &str, name: &str) {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
        poll(PATIENCE, format!("{name} to roll"), async || {
            let all = self.get(&path).await;
            let (wanted, status) = (&all["spec"]["replicas"], &all["status"]);
            let seen = status["observedGeneration"] == all["metadata"]["generation"];
            let done = ["replicas", "updatedReplicas", "readyReplicas"].iter().all(|field| status[*field] == *wanted);
            (seen && done && !wanted.is_null()).then_some(())
        })
        .await;
    }

    pub async fn pause(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}
