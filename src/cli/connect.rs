//! Which cluster is meant: `--kubeconfig` and `--context` as kubectl has them, or the pod's own service account.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kubediff::{
    cluster::source::api::{self, Api},
    redact::Sentences,
};

#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// The kubeconfig to use; without it $KUBECONFIG, ~/.kube/config, or the service account of the pod
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME", global = true)]
    context: Option<String>,
}

/// A cluster that can be asked, and what a person calls it.
pub(crate) struct Connected {
    pub(crate) api: Api,
    /// Empty inside a cluster.
    pub(crate) name: String,
}

impl Options {
    /// Whether a cluster was named on the command line.
    pub(crate) fn asked(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// `patterns`: what else is masked in what the server says in errors.
    pub(crate) async fn connect(&self, patterns: &[String]) -> anyhow::Result<Connected> {
        let sentences = Arc::new(Sentences::new(patterns)?);
        let (config, name) = self.config().await?;
        let settings = api::Settings { sentences, ..api::Settings::default() };
        let api = Api::connect(config, settings).context("cannot make a client for the API server")?;
        Ok(Connected { api, name })
    }

    /// How to reach the API server, and what a person calls the cluster; that is empty inside of one.
    pub(crate) async fn config(&self) -> anyhow::Result<(kube::Config, String)> {
        let named = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let from_file = match &self.kubeconfig {
            Some(path) => Some(
                Kubeconfig::read_from(path)
                    .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?,
            ),
            None => Kubeconfig::read().ok(),
        };
        match from_file {
            Some(file) => {
                let name = self.context.clone().or_else(|| file.current_context.clone()).unwrap_or_default();
                let config = kube::Config::from_custom_kubeconfig(file, &named).await;
                Ok((config.with_context(|| format!("the kubeconfig's context {name:?} cannot be used"))?, name))
            }
            None if self.context.is_some() => anyhow::bail!("--context needs a kubeconfig, and none was found"),
            None => {
                let config = kube::Config::incluster()
                    .context("no kubeconfig was found and this is not a pod; give --kubeconfig or set KUBECONFIG")?;
                Ok((config, String::new()))
            }
        }
    }
}
