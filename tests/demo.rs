//! `kubediff demo`: the README's first command, on a machine that has nothing but the program.

mod clone;

use std::{collections::HashSet, path::Path};

use serde_json::Value;

use crate::harness::{PATIENCE, guard::Daemon, install_tls_provider, poll};

/// The demo in an empty environment: no variable but where its home and temporary folder are, both empty, as is the
/// folder that it is started in; no PATH, no kubeconfig, no proxy. What it prints is in files.
pub struct Demo {
    pub daemon: Daemon,
    dir: tempfile::TempDir,
}

impl Demo {
    pub fn start(args: &[&str]) -> Self {
        Self::of(Path::new(env!("CARGO_BIN_EXE_kubediff")), args)
    }

    /// The demo of a program that was built elsewhere.
    fn of(program: &Path, args: &[&str]) -> Self {
        Self::by("env -i \"$@\"", program, args)
    }

    /// The same in a terminal, by the program of util-linux that makes one. It dies with its terminal, also where SIGHUP is
    /// ignored.
    fn in_terminal(args: &[&str]) -> Self {
        let how = "env -i /usr/bin/script -qefc \"exec setpriv --pdeathsig KILL env $*\" /dev/null";
        Self::by(how, Path::new(env!("CARGO_BIN_EXE_kubediff")), args)
    }

    /// `how`: a line of shell, with what to start as its parameters.
    fn by(how: &str, program: &Path, args: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = |name: &str| {
            let folder = dir.path().join(name);
            std::fs::create_dir(&folder).expect("a folder");
            folder.display().to_string()
        };
        let [home, tmp, _] = FOLDERS.map(folder);
        let (home, tmp) = (format!("HOME={home}"), format!("TMPDIR={tmp}"));
        let how = format!("cd here && exec {how} >../stdout 2>../stderr");
        let mut all = vec!["-c", &how, "env", &home, &tmp, "TZ=UTC"];
        all.extend([program.to_str().expect("a path"), "demo"]);
        all.extend(args);
        let daemon = Daemon::start("kubediff", dir.path(), Path::new("/bin/sh"), all).expect("sh runs");
        Self { daemon, dir }
    }

    pub fn stdout(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("stdout")).unwrap_or_default()
    }

    pub fn stderr(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("stderr")).unwrap_or_default()
    }

    pub fn events(&self) -> Vec<Value> {
        let text = self.stdout();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("an event a line")).collect()
    }

    async fn says(&self, what: &str) {
        poll(PATIENCE, format!("the demo to say {what:?}"), async || self.stdout().contains(what).then_some(())).await;
    }

    /// Ctrl-C, after which nothing of it may be left.
    pub async fn interrupt(&mut self) {
        self.daemon.signal("INT");
        let ended = poll(PATIENCE, "the demo to end", async || self.daemon.exited()).await;
        assert!(ended.success(), "{ended}: {}", self.stderr());
        for folder in FOLDERS {
            let left: Vec<_> = std::fs::read_dir(self.dir.path().join(folder)).expect("its folder").collect();
            assert!(left.is_empty(), "{folder}: {left:?}");
        }
    }

    /// The addresses of other machines that it has a socket to. Looks at what the kernel knows of its open files.
    fn others(&self) -> Vec<String> {
        let process = Path::new("/proc").join(self.daemon.pid().to_string());
        let files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let open: HashSet<String> = files
            .filter_map(|file| {
                std::fs::read_link(file.path()).ok()?.to_str()?.strip_prefix("socket:[").map(str::to_owned)
            })
            .map(|inode| inode.trim_end_matches(']').to_owned())
            .collect();
        let mut others = Vec::new();
        for table in ["tcp", "tcp6", "udp", "udp6"] {
            let table = std::fs::read_to_string(process.join("net").join(table)).unwrap_or_default();
            for line in table.lines().skip(1) {
                let columns: Vec<&str> = line.split_whitespace().collect();
                let (Some(remote), Some(inode)) = (columns.get(2), columns.get(9)) else { continue };
                // None, 127.0.0.0/8 and ::1, as the kernel writes them.
                let address = remote.split(':').next().unwrap_or_default();
                let near = address.chars().all(|c| c == '0')
                    || (address.len() == 8 && address.ends_with("7F"))
                    || address == "00000000000000000000000001000000"
                    || address.starts_with("0000000000000000FFFF0000") && address.ends_with("7F");
                if open.contains(*inode) && !near {
                    others.push((*remote).to_owned());
                }
            }
        }
        others
    }
}

/// Its home, its temporary folder, and where it is started.
const FOLDERS: [&str; 3] = ["home", "tmp", "here"];

/// What the story must show, each by manager, kind, name, and what its summary says.
const STORY: [(&str, &str, &str, &str); 20] = [
    ("argocd-controller", "Deployment", "web", "2.14.0 -> registry.example.com/shop/web:2.15.0"),
    ("kubectl-set", "Deployment", "api", "3.8.1 -> registry.example.com/payments/api:3.9.0-rc1"),
    ("kubelet", "Pod", "api-", "cannot pull registry.example.com/payments/api:3.9.0-rc1"),
    ("kubectl", "Deployment", "api", "3.9.0-rc1 -> registry.example.com/payments/api:3.8.1"),
    ("kubectl-edit", "ConfigMap", "web-config", "nginx.conf"),
    ("kubectl-patch", "ConfigMap", "limits", "max-amount"),
    ("external-secrets", "Secret", "stripe", "api-key"),
    ("cert-manager-certificates-issuing", "Secret", "shop-tls", "tls.key"),
    ("kubectl-patch", "Role", "deployer", "secrets"),
    ("kubectl-create", "ClusterRoleBinding", "on-call-admin", "cluster-admin"),
    ("helm", "CustomResourceDefinition", "featureflags.shop.example.com", ""),
    ("flagctl", "FeatureFlag", "checkout-v2", "created"),
    ("flagctl", "FeatureFlag", "checkout-v2", "50"),
    ("", "Deployment", "cart", "2 -> 4"),
    ("kubelet", "Node", "worker-2", "NotReady"),
    ("kubectl", "Node", "worker-2", ""),
    ("kubectl-edit", "Deployment", "web", "LOG_LEVEL"),
    ("argocd-controller", "Deployment", "web", "LOG_LEVEL"),
    ("", "Namespace", "preview-482", "deleted"),
    ("", "Deployment", "web", "deleted"),
];

fn is(event: &Value, (manager, kind, name, summary): &(&str, &str, &str, &str)) -> bool {
    let acted = event["actors"].as_array().into_iter().flatten().any(|actor| actor["manager"] == *manager);
    (manager.is_empty() || acted)
        && event["resource"]["kind"] == *kind
        && event["resource"]["name"].as_str().is_some_and(|n| n.starts_with(name))
        && event["summary"].as_str().is_some_and(|text| text.to_lowercase().contains(&summary.to_lowercase()))
}

/// All that it has told when every part of the story was.
async fn whole_story(demo: &Demo) -> Vec<Value> {
    let began = jiff::Timestamp::now();
    let missing = || {
        let events = demo.events();
        STORY.iter().filter(|part| !events.iter().any(|event| is(event, part))).collect::<Vec<_>>()
    };
    poll(PATIENCE, "the whole story", async || {
        assert_eq!(demo.others(), Vec::<String>::new(), "it asks nobody");
        let done = missing().is_empty();
        if !done && began.duration_until(jiff::Timestamp::now()).as_secs() > 50 {
            panic!("{:?} is not told in\n{}", missing(), demo.stdout());
        }
        done.then_some(())
    })
    .await;
    demo.events()
}

#[tokio::test]
async fn the_demo_tells_its_whole_story_with_nothing_but_the_program() {
    let began = jiff::Timestamp::now();
    let mut demo = Demo::start(&["-o", "json", "--speed", "20", "--page", "127.0.0.1:0"]);
    let events = whole_story(&demo).await;
    // Within a kind they come in their order.
    let at = |part: usize| events.iter().position(|event| is(event, &STORY[part]));
    assert!(at(0) < at(1) && at(1) < at(3) && at(3) < at(16) && at(16) < at(17) && at(17) < at(19));
    for event in &events {
        assert_eq!(event["observed"], "live", "{event}");
        let now = jiff::Timestamp::now();
        for time in [&event["time"], &event["actors"][0]["time"]].into_iter().filter_map(Value::as_str) {
            let time: jiff::Timestamp = time.parse().expect("a time");
            // What was there at the beginning was made a little earlier.
            assert!(time <= now && time.duration_since(began).as_secs() > -600, "{event}");
        }
    }
    // It stays until it is told to go.
    assert!(demo.daemon.exited().is_none(), "{}", demo.stderr());
    demo.interrupt().await;
    assert_eq!(demo.stderr(), "");
}

#[tokio::test]
async fn the_demo_reads_as_a_story_and_begins_again_when_asked_to() {
    let mut demo = Demo::start(&["--loop", "--speed", "60", "--no-page"]);
    let first = "A rollout: Argo CD takes shop/web to 2.15.0";
    poll(PATIENCE, "a second round", async || (demo.stdout().matches(first).count() >= 2).then_some(())).await;
    demo.says("2.14.0 -> registry.example.com/shop/web:2.15.0").await;
    let text = demo.stdout();
    assert!(text.starts_with("A recording of a real cluster"), "{text}");
    let length = text.lines().next().unwrap_or_default().rsplit(' ').next().unwrap_or_default().trim_end_matches('.');
    let (minutes, seconds) = length.split_once(':').expect("how long it is");
    let seconds = 60 * minutes.parse::<u32>().expect("minutes") + seconds.parse::<u32>().expect("seconds");
    assert!((45..=75).contains(&seconds), "about a minute, and not {length}");
    assert!(!text.contains('\u{1b}'), "no colours and no progress line in a pipe: {text}");
    assert!(text.contains("rotated: api-key, webhook-secret"), "{text}");
    assert!(text.contains("+  keepalive_timeout 15;"), "{text}");
    assert!(!text.contains("ReplicaSet shop/"), "the parts of workloads are left out: {text}");
    demo.interrupt().await;
}

#[tokio::test]
async fn in_a_terminal_the_demo_is_coloured_and_shows_how_far_it_is() {
    let demo = Demo::in_terminal(&["--speed", "30", "--no-page"]);
    // What was there is red, what is there now is green.
    demo.says("\u{1b}[31mregistry.example.com/shop/web:2.14.0").await;
    demo.says("\u{1b}[32mregistry.example.com/shop/web:2.15.0").await;
    demo.says("\u{1b}[1m# A rollout").await;
    // The line fills.
    demo.says("─ 0:").await;
    demo.says("━━━━━━━━━━━━━━━━━━━━━━━━ ").await;
    demo.says("\u{1b}[1m# That was all of it.").await;
    demo.says("  the end").await;
}

#[tokio::test]
async fn the_page_is_at_the_address_that_the_demo_says_though_the_port_is_taken() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let mut demo = Demo::start(&["--page", &address, "--speed", "30"]);
    let said = poll(PATIENCE, "the address of the page", async || {
        let text = demo.stdout();
        let (_, rest) = text.split_once("http://")?;
        Some(rest.split_once('/')?.0.to_owned())
    })
    .await;
    assert!(said.starts_with("127.0.0.1:") && said != address, "{said}");
    install_tls_provider();
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    poll(PATIENCE, "the rollout on the page", async || {
        let answer = http.get(format!("http://{said}/api/v1/events?limit=1000")).send().await.ok()?;
        answer.text().await.ok()?.contains("registry.example.com/shop/web:2.15.0").then_some(())
    })
    .await;
    let page = http.get(format!("http://{said}/")).send().await.expect("the page");
    assert!(page.status().is_success() && page.text().await.expect("text").contains("<html"));
    demo.interrupt().await;
}

#[tokio::test]
async fn what_is_no_recording_is_said_and_is_wrong_usage() {
    for file in ["/nowhere/at/all", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")] {
        let mut demo = Demo::start(&[file]);
        let ended = poll(PATIENCE, "it to end", async || demo.daemon.exited()).await;
        assert_eq!(ended.code(), Some(2), "{}", demo.stderr());
        assert!(demo.stderr().contains(file), "{}", demo.stderr());
    }
}
