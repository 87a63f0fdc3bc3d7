//! A real control plane on free loopback ports: etcd and kube-apiserver, and on request the controllers that make
//! Deployments roll.

use std::{
    collections::HashSet,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Mutex,
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{
    Access, PATIENCE,
    certs::{self, CA},
    controllers,
    guard::{self, Daemon, Directory},
    namespace::Namespace,
    say, tools,
};

/// How a control plane differs from the usual one.
#[derive(Clone, Debug)]
pub struct Options {
    /// Start controller-manager, scheduler and kwok with it. [`Cluster::controllers`] does so later.
    pub controllers: bool,
    /// The API server's watch cache. Without it every list and watch is answered by etcd, so that a compaction is
    /// felt at once; streaming lists are not served then.
    pub watch_cache: bool,
    /// More flags for kube-apiserver. A flag that is set already wins when it is given again.
    pub apiserver_args: Vec<String>,
    /// More flags for etcd.
    pub etcd_args: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { controllers: false, watch_cache: true, apiserver_args: Vec::new(), etcd_args: Vec::new() }
    }
}

/// A control plane. Dropping it ends its processes and removes its folder.
///
/// What breaks it (`kill`, `pause`, `restart`, `compact`) needs `&mut`, so it cannot be done to the shared one.
pub struct Cluster {
    access: Access,
    etcd_url: String,
    kubeconfig: PathBuf,
    version: String,
    options: Options,
    controllers: OnceCell<Result<[Daemon; 3], String>>,
    /// `None` while it is killed.
    apiserver: Option<Daemon>,
    etcd: Option<Daemon>,
    /// Last, so that it is removed when all that write to it are dead.
    dir: Directory,
}

impl Cluster {
    /// A control plane of the test's own.
    pub async fn start(options: Options) -> Self {
        match Self::try_start(options).await {
            Ok(cluster) => cluster,
            Err(why) => panic!("the control plane did not start: {why}"),
        }
    }

    /// Returns when the API server is ready and the namespaces that it makes by itself are there.
    pub async fn try_start(options: Options) -> Result<Self, String> {
        tools::path("etcd").await?;
        tools::path("kube-apiserver").await?;
        let began = Instant::now();
        let dir = Directory::create().map_err(|e| format!("a temporary folder: {e}"))?;
        let access = Access {
            url: format!("https://127.0.0.1:{}", free_port()),
            token: format!("{:032x}", rand::random::<u128>()),
        };
        let kubeconfig = access.write_kubeconfig(dir.path(), "kubeconfig");
        let mut cluster = Self {
            access,
            etcd_url: format!("http://127.0.0.1:{}", free_port()),
            kubeconfig,
            version: String::new(),
            options,
            controllers: OnceCell::new(),
            apiserver: None,
            etcd: None,
            dir,
        };
        cluster.write_files().map_err(|e| format!("the control plane's files: {e}"))?;
        cluster.start_etcd().await?;
        cluster.start_apiserver().await?;
        let version: Value = cluster.get_json("/version").await?;
        cluster.version = version["gitVersion"].as_str().unwrap_or("of no version").to_owned();
        say(format_args!(
            "kube-apiserver {} ready in {:.1} s at {}",
            cluster.version,
            began.elapsed().as_secs_f32(),
            cluster.access.url
        ));
        if cluster.options.controllers {
            cluster.try_controllers().await?;
        }
        Ok(cluster)
    }

    /// `v1.36.3`, as the server says it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// As cluster administrator, straight to the server.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A new client in the caller's runtime.
    pub async fn client(&self) -> kube::Client {
        self.access.client().await
    }

    /// Where etcd answers, without TLS.
    pub fn etcd_url(&self) -> &str {
        &self.etcd_url
    }

    /// A folder that goes with the cluster.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A new namespace whose name begins with `prefix`; it is deleted when it is dropped.
    pub async fn namespace(&self, prefix: &str) -> Namespace {
        Namespace::create(self.access.clone(), prefix).await
    }

    /// The processes that run now, by name.
    pub fn pids(&self) -> Vec<u32> {
        let controllers = self.controllers.get().and_then(|c| c.as_ref().ok()).into_iter().flatten();
        self.etcd.iter().chain(&self.apiserver).chain(controllers).map(Daemon::pid).collect()
    }

    /// Runs kubectl as administrator and returns what it printed; fails the test when it fails.
    pub async fn kubectl(&self, args: &[&str]) -> String {
        succeeded("kubectl", args, self.try_run("kubectl", args).await)
    }

    /// `kubectl apply -f` of a text, YAML or JSON.
    pub async fn apply(&self, namespace: &str, manifest: &str) -> String {
        let file = self.dir().join(format!("manifest-{:016x}.yaml", rand::random::<u64>()));
        std::fs::write(&file, manifest).expect("a writable folder");
        self.kubectl(&["apply", "-n", namespace, "-f", &file.to_string_lossy()]).await
    }

    /// Runs helm as administrator and returns what it printed; fails the test when it fails.
    pub async fn helm(&self, args: &[&str]) -> String {
        succeeded("helm", args, self.try_run("helm", args).await)
    }

    /// Runs kubectl or helm, however it ends.
    pub async fn try_run(&self, tool: &str, args: &[&str]) -> Output {
        let program = tools::path(tool).await.unwrap_or_else(|why| panic!("{why}"));
        let mut command = Command::new(program);
        command.args(args).env("KUBECONFIG", &self.kubeconfig).env("HOME", self.dir());
        for key in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HTTPS_PROXY", "https_proxy"] {
            command.env_remove(key);
        }
        guard::run(&mut command).await.unwrap_or_else(|e| panic!("{tool}: {e}"))
    }

    /// Starts controller-manager, scheduler and kwok, once, with one fake node: from then on Deployments roll and pods
    /// become Running.
    pub async fn controllers(&self) {
        if let Err(why) = self.try_controllers().await {
            panic!("the controllers did not start: {why}");
        }
    }

    /// SIGKILL to the API server; etcd stays.
    pub fn kill(&mut self) {
        self.apiserver = None;
    }

    /// The API server hangs: it accepts connections and answers nothing, until [`Cluster::resume`].
    pub fn pause(&mut self) {
        self.apiserver.as_ref().expect("the API server runs").pause();
    }

    pub fn resume(&mut self) {
        self.apiserver.as_ref().expect("the API server runs").resume();
    }

    /// Kills the API server if it runs, starts it at the same address and waits until it is ready.
    pub async fn restart(&mut self) {
        self.kill();
        if let Err(why) = self.start_apiserver().await {
            panic!("the API server did not start again: {why}");
        }
    }

    /// Makes every version that a client can have seen too old: a watch from it, a list at exactly it, or the next page
    /// of a list that began at it gets a 410.
    ///
    /// etcd forgets its history. The newest version of all is still good after that, so two that nobody has seen are
    /// made before, by writes outside of Kubernetes' keys. The watch cache would still answer from memory, so with it the API server restarts
    /// too; without it ([`Options::watch_cache`]) open connections stay.
    pub async fn compact(&mut self) {
        let write = json!({"key": "a3ViZWRpZmYtdGVzdA==", "value": ""});
        self.etcd("kv/put", &write).await;
        let revision = self.etcd("kv/put", &write).await["header"]["revision"].clone();
        self.etcd("kv/compaction", &json!({"revision": revision, "physical": true})).await;
        if self.options.watch_cache {
            self.restart().await;
        }
    }

    /// Stops all, keeps a copy of etcd's data, and goes on. For [`Cluster::restore`].
    pub async fn backup(&mut self) -> Backup {
        let copy = self.dir().join(format!("backup-{:08x}", rand::random::<u32>()));
        self.swap_data(&self.dir().join("etcd"), &copy).await;
        Backup(copy)
    }

    /// Goes back in time: versions that clients have seen are in the server's future afterwards.
    pub async fn restore(&mut self, backup: &Backup) {
        let data = self.dir().join("etcd");
        self.swap_data(&backup.0, &data).await;
    }

    async fn swap_data(&mut self, from: &Path, to: &Path) {
        self.apiserver = None;
        self.etcd = None;
        if to.exists() {
            std::fs::remove_dir_all(to).expect("the old data can go");
        }
        let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
        assert!(copied.is_ok_and(|status| status.success()), "etcd's data is copied");
        if let Err(why) = self.start_etcd().await {
            panic!("etcd did not start again: {why}");
        }
        self.restart().await;
    }

    /// Writes an object where the API server finds it, and not through it: it takes 3 MB at most. The key is
    /// `configmaps/default/large`.
    pub async fn put(&self, key: &str, object: &str) {
        let key = BASE64_STANDARD.encode(format!("/registry/{key}"));
        self.etcd("kv/put", &json!({"key": key, "value": BASE64_STANDARD.encode(object)})).await;
    }

    /// A call of etcd's JSON gateway.
    async fn etcd(&self, call: &str, body: &Value) -> Value {
        let url = format!("{}/v3/{call}", self.etcd_url);
        let answer = self.access.http().post(url).json(body).send().await.expect("etcd answers");
        assert!(answer.status().is_success(), "etcd refused {call}: {}", answer.status());
        answer.json().await.expect("etcd answers with JSON")
    }

    pub async fn get_json(&self, path: &str) -> Result<Value, String> {
        let answer = self.access.get(path).send().await.map_err(|e| format!("GET {path}: {e}"))?;
        answer.json().await.map_err(|e| format!("GET {path}: {e}"))
    }

    /// The path of a file in its folder.
    pub fn file(&self, name: &str) -> String {
        self.dir.path().join(name).to_string_lossy().into_owned()
    }

    fn write_files(&self) -> std::io::Result<()> {
        let server = CA.server();
        std::fs::write(self.file("ca.pem"), &CA.pem)?;
        std::fs::write(self.file("server.pem"), server.cert_pem)?;
        std::fs::write(self.file("server.key"), server.key_pem)?;
        let (private, public) = certs::key_pair_pem();
        std::fs::write(self.file("service-accounts.key"), private)?;
        std::fs::write(self.file("service-accounts.pub"), public)?;
        std::fs::write(self.file("tokens.csv"), format!("{},admin,admin,system:masters\n", self.access.token))
    }

    async fn start_etcd(&mut self) -> Result<(), String> {
        let program = tools::path("etcd").await?;
        let peer = format!("http://127.0.0.1:{}", free_port());
        let mut args = flags(&[
            ("name", "etcd"),
            ("data-dir", &self.file("etcd")),
            ("listen-client-urls", &self.etcd_url),
            ("advertise-client-urls", &self.etcd_url),
            ("listen-peer-urls", &peer),
            ("initial-advertise-peer-urls", &peer),
            ("initial-cluster", &format!("etcd={peer}")),
            ("log-level", "warn"),
        ]);
        args.push("--unsafe-no-fsync".to_owned());
        args.extend(self.options.etcd_args.iter().cloned());
        let mut etcd = Daemon::start("etcd", self.dir.path(), &program, args).map_err(|e| format!("etcd: {e}"))?;
        let health = format!("{}/health", self.etcd_url);
        let http = self.access.http();
        until_ready(&mut etcd, async || http.get(&health).send().await.is_ok_and(|a| a.status().is_success())).await?;
        self.etcd = Some(etcd);
        Ok(())
    }

    async fn start_apiserver(&mut self) -> Result<(), String> {
        let program = tools::path("kube-apiserver").await?;
        let port = self.access.url.rsplit(':').next().unwrap_or_default();
        let mut args = flags(&[
            ("etcd-servers", &self.etcd_url),
            // Compaction is the test's to ask for.
            ("etcd-compaction-interval", "0"),
            ("secure-port", port),
            ("bind-address", "127.0.0.1"),
            ("advertise-address", "127.0.0.1"),
            ("endpoint-reconciler-type", "none"),
            ("tls-cert-file", &self.file("server.pem")),
            ("tls-private-key-file", &self.file("server.key")),
            ("client-ca-file", &self.file("ca.pem")),
            ("token-auth-file", &self.file("tokens.csv")),
            ("service-account-issuer", "https://kubernetes.default.svc"),
            ("service-account-key-file", &self.file("service-accounts.pub")),
            ("service-account-signing-key-file", &self.file("service-accounts.key")),
            ("service-cluster-ip-range", "10.96.0.0/16"),
            ("authorization-mode", "RBAC"),
            ("allow-privileged", "true"),
            ("watch-cache", if self.options.watch_cache { "true" } else { "false" }),
        ]);
        args.extend(self.options.apiserver_args.iter().cloned());
        let mut server = Daemon::start("kube-apiserver", self.dir.path(), &program, args)
            .map_err(|e| format!("kube-apiserver: {e}"))?;
        let access = &self.access;
        let http = access.http();
        let ok = async |path: &str| {
            let request = http.get(format!("{}{path}", access.url)).bearer_auth(&access.token);
            request.timeout(Duration::from_secs(5)).send().await.is_ok_and(|answer| answer.status().is_success())
        };
        until_ready(&mut server, async || {
            ok("/readyz").await && ok("/api/v1/namespaces/default").await && ok("/api/v1/namespaces/kube-system").await
        })
        .await?;
        self.apiserver = Some(server);
        Ok(())
    }

    async fn try_controllers(&self) -> Result<(), String> {
        let started = self.controllers.get_or_init(|| controllers::start(self)).await;
        started.as_ref().map(|_| ()).map_err(Clone::clone)
    }
}

/// A copy of etcd's data, inside the cluster's folder.
pub struct Backup(PathBuf);

fn succeeded(tool: &str, args: &[&str], output: Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {} failed: {stderr}", args.join(" "));
    String::from_utf8(output.stdout).expect("text")
}

pub fn flags(pairs: &[(&str, &str)]) -> Vec<String> {
    pairs.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

async fn until_ready(daemon: &mut Daemon, mut ready: impl AsyncFnMut() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + 2 * PATIENCE;
    while !ready().await {
        if let Some(status) = daemon.exited() {
            return Err(format!("it ended with {status}; {}", daemon.log_tail()));
        }
        if Instant::now() > deadline {
            return Err(format!("it is not ready; {}", daemon.log_tail()));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// A port on loopback that nobody listens on, given out once. Below the range from which the kernel takes the ports
/// of outgoing connections, so that a server that is killed gets its port again.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    loop {
        let port = rand::random_range(20_000..32_000);
        let mut given = GIVEN.lock().expect("no panic while it is held");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && given.get_or_insert_default().insert(port) {
            return port;
        }
    }
}
