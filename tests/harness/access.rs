//! How a client gets at an API server, directly or through the fault proxy.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::certs::CA;

/// An address and a token; the certificate is always of the harness's authority.
#[derive(Clone)]
pub struct Access {
    /// `https://127.0.0.1:23456`
    pub url: String,
    pub token: String,
}

impl Access {
    /// The same server as another user.
    pub fn with_token(&self, token: impl Into<String>) -> Self {
        Self { url: self.url.clone(), token: token.into() }
    }

    pub fn kubeconfig(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "kubediff-test",
            "clusters": [{"name": "kubediff-test", "cluster": {
                "server": self.url, "certificate-authority-data": BASE64_STANDARD.encode(&CA.pem)}}],
            "users": [{"name": "kubediff-test", "user": {"token": self.token}}],
            "contexts": [{"name": "kubediff-test",
                "context": {"cluster": "kubediff-test", "user": "kubediff-test", "namespace": "default"}}],
        })
    }

    /// Writes the kubeconfig as `<dir>/<name>`.
    pub fn write_kubeconfig(&self, dir: &Path, name: &str) -> PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, serde_json::to_vec_pretty(&self.kubeconfig()).expect("JSON")).expect("a writable folder");
        path
    }

    pub async fn config(&self) -> kube::Config {
        super::install_tls_provider();
        let kubeconfig: Kubeconfig = serde_json::from_value(self.kubeconfig()).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a usable kubeconfig")
    }

    /// A new client. It lives in the runtime that makes it: each test makes its own.
    pub async fn client(&self) -> kube::Client {
        kube::Client::try_from(self.config().await).expect("a client")
    }

    /// A plain HTTP client that trusts the server; the caller adds the token ([`Access::get`] does).
    pub fn http(&self) -> reqwest::Client {
        self.http_builder().build().expect("an HTTP client")
    }

    pub fn http_builder(&self) -> reqwest::ClientBuilder {
        super::install_tls_provider();
        let builder = reqwest::Client::builder().tls_certs_only([CA.reqwest()]).no_proxy();
        builder.redirect(reqwest::redirect::Policy::none()).connect_timeout(Duration::from_secs(2))
    }

    /// A raw request as this user: `get("/api/v1/configmaps?watch=1")`.
    pub fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.request(reqwest::Method::GET, path)
    }

    pub fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        self.request_by(&self.http(), method, path)
    }

    /// The same over a client that keeps its connections: for many requests.
    pub fn request_by(&self, http: &reqwest::Client, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token)
    }
}
