//! Values that nobody may see: they print as `<secret>`, and they may stand outside of the file.

use std::{fs::File, io::Read, path::PathBuf};

use serde::{Deserialize, Serialize};

pub use crate::sink::Secret;

/// As much as a ConfigMap or a Secret holds: a bundle of certificates is longer than any token. A wrong path must not fill
/// the memory.
const MAX_BYTES: u64 = 1 << 20;

mod plain {
    //! A secret in the file itself. It is never written back.
    use serde::Deserialize;

    use super::Secret;

    pub(super) fn serialize<S: serde::Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(secret)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

/// Where a secret is, as typed: in the file itself, in another file, or in an environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Source {
    Plain(#[serde(with = "plain")] Secret),
    File { file: PathBuf },
    Env { env: String },
}

impl Source {
    /// The text without the line break that editors and `echo` leave at its end.
    ///
    /// `variables` are the environment: what a value says is never looked up a second time.
    pub(super) fn read(&self, variables: &[(String, String)]) -> Result<Secret, String> {
        let text = match self {
            Self::Plain(secret) => return Ok(secret.clone()),
            Self::Env { env } => match variables.iter().find(|(name, _)| name == env) {
                Some((_, text)) => text.clone(),
                None => return Err(format!("the environment variable {env} is not set")),
            },
            Self::File { file } => {
                let mut text = String::new();
                let open = File::open(file).and_then(|open| open.take(MAX_BYTES + 1).read_to_string(&mut text));
                open.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
                if text.len() as u64 > MAX_BYTES {
                    return Err(format!("{} is longer than 1 MiB, which no Secret can be", file.display()));
                }
                text
            }
        };
        let text = text.trim_end_matches(['\r', '\n']);
        match (text.is_empty(), self) {
            (false, _) => Ok(Secret::new(text)),
            (true, Self::File { file }) => Err(format!("{} is empty", file.display())),
            (true, _) => Err("the value is empty".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_as_the_word_secret_whichever_way_it_is_printed() {
        let secret = Secret::new("xoxb-1");
        let source = Source::Plain(secret.clone());
        let shown = format!("{secret} {secret:?} {source:?} {}", serde_json::to_string(&source).unwrap());
        assert!(!shown.contains("xoxb"), "{shown}");
        assert_eq!(secret.expose(), "xoxb-1");
    }

    #[test]
    fn a_value_from_the_environment_is_not_looked_up_again() {
        let variables = [("A".to_owned(), "{ env = \"A\" }".to_owned())];
        let secret = Source::Env { env: "A".into() }.read(&variables).unwrap();
        assert_eq!(secret.expose(), "{ env = \"A\" }");
    }

    #[test]
    fn a_file_is_read_without_its_last_line_break_and_not_beyond_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("good"), "s3cret\n").unwrap();
        std::fs::write(path("empty"), "\n").unwrap();
        std::fs::write(path("bundle"), "x".repeat(300_000)).unwrap();
        std::fs::write(path("huge"), "x".repeat(1_100_000)).unwrap();
        std::os::unix::fs::symlink("loop", path("loop")).unwrap();
        let read = |name: &str| Source::File { file: path(name) }.read(&[]);
        assert_eq!(read("good").unwrap().expose(), "s3cret");
        assert_eq!(read("bundle").unwrap().expose().len(), 300_000, "certificates come in bundles");
        for (name, message) in
            [("empty", "is empty"), ("huge", "longer than 1 MiB"), ("loop", "cannot read"), ("none", "cannot read")]
        {
            assert!(read(name).unwrap_err().contains(message), "{name}");
        }
    }
}
