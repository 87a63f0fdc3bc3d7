//! The configuration: a TOML file, the environment over it, and the checked [`Plan`] that the program runs on.
//!
//! | file | what it holds |
//! |---|---|
//! | [`mod@file`] | every table as typed, with defaults and help |
//! | [`keys`] | the form of each key |
//! | `tree`, `env` | what was written, and where |
//! | `check`, `forms`, `tried` | everything that can be wrong with it |
//! | [`problem`] | how that is said |
//! | [`secret`] | values that nobody may see |
//! | [`plan`] | what the program runs on |
//! | `changes` | what changed since the last one, and what needs a restart |
//! | [`legacy`] | the old kubediff's YAML |
//! | [`watch`] | a new plan when the file changes |
//!
//! All that can fail does so here, before anything runs.

mod changes;
mod check;
mod env;
pub mod file;
mod forms;
pub mod keys;
pub mod legacy;
pub mod plan;
pub mod problem;
pub mod secret;
#[cfg(test)]
mod tests;
mod tree;
mod tried;
pub mod watch;

use std::{
    io::Read,
    path::{Path, PathBuf},
};

pub use self::{
    changes::{AT_START, Changes},
    check::Lookup,
    file::File,
    plan::{Ha, Plan},
    problem::{Origin, Problem, Problems},
    secret::Secret,
};

/// A ConfigMap cannot be larger.
const MAX_BYTES: u64 = 1 << 20;

/// Where a configuration comes from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// A file, or a folder with `config.toml` or `config.yaml` in it. Without one, the defaults hold.
    pub path: Option<PathBuf>,
    /// The environment.
    pub variables: Vec<(String, String)>,
    pub lookup: Lookup,
}

impl Sources {
    /// With the environment of this process.
    pub fn new(path: Option<PathBuf>) -> Self {
        let variables = std::env::vars_os();
        let variables = variables.filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
        Self { path, variables: variables.collect(), lookup: Lookup::Now }
    }

    /// Reads, checks and builds. Whatever is wrong is all in the answer.
    pub fn load(&self) -> Result<Plan, Problems> {
        let Some(path) = &self.path else { return self.build("", "") };
        let path = resolve(path);
        let name = path.display().to_string();
        let text = read(&path).map_err(|message| Problems::one(&name, message))?;
        if legacy::is_legacy(&path, &text) {
            let migrated = legacy::migrate(&text).map_err(|problems| Problems::new(&name, problems))?;
            return self.build(&name, &migrated.toml).map_err(|problems| {
                Problems::new(&name, problems.list.into_iter().map(|problem| migrated.place(problem)).collect())
            });
        }
        self.build(&name, &text)
    }

    /// As [`Sources::load`], from text.
    pub fn build(&self, name: &str, text: &str) -> Result<Plan, Problems> {
        let (mut table, mut problems) = tree::parse(text);
        let torn = problems.iter().map(|problem| problem.at.clone()).min();
        let (layer, wrong) = env::collect(&self.variables, &table);
        problems.extend(wrong);
        tree::overlay(&mut table, layer);
        let mut found = check::check(&table, &self.variables, self.lookup);
        found.extend(tried::out(&table, self, &found));
        // Nothing is said of what follows a line that is not TOML: it was read as something else than it is.
        problems.extend(found.into_iter().filter(|problem| torn.as_ref().is_none_or(|torn| problem.at < *torn)));
        if !problems.is_empty() {
            return Err(Problems::new(name, problems));
        }
        let file = typed(table).map_err(|message| Problems::one(name, message))?;
        Plan::new(file, self).map_err(|wrong| {
            let list = wrong.into_iter().map(|(key, message)| Problem { at: Origin::File, key, message });
            Problems::new(name, list.collect())
        })
    }
}

/// What was written, over the defaults. The layers come here as one: the `config` crate would merge the two ways to name
/// a secret into one that names it twice.
fn typed(table: tree::Table) -> Result<File, String> {
    let built = ::config::Config::builder().add_source(Written(table)).build();
    built.and_then(::config::Config::try_deserialize).map_err(|error| error.to_string())
}

#[derive(Clone, Debug)]
struct Written(tree::Table);

impl ::config::Source for Written {
    fn clone_into_box(&self) -> Box<dyn ::config::Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<::config::Map<String, ::config::Value>, ::config::ConfigError> {
        Ok(self.0.iter().map(|(key, node)| (key.clone(), node.clone().into())).collect())
    }
}

/// The old kubediff was given a folder.
fn resolve(path: &Path) -> PathBuf {
    let names = ["config.toml", "kubediff.toml", "config.yaml", "config.yml"];
    let inside = || names.iter().map(|name| path.join(name)).find(|file| file.exists());
    if path.is_dir() { inside().unwrap_or_else(|| path.to_owned()) } else { path.to_owned() }
}

/// A file's text, of bounded size.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| format!("cannot be read: {error}"))?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| match path.is_dir() {
        true => "is a folder without config.toml or config.yaml".to_owned(),
        false => format!("cannot be read: {error}"),
    })?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err("is larger than 1 MiB, which no ConfigMap can be".to_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
        format!("line {line} is not UTF-8 text")
    })
}
