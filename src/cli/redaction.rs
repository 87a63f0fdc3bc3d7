//! `--pattern`: what is masked beyond what always is, for commands that read no configuration.

use kubediff::redact::{Sentences, Settings};

#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Redaction {
    /// Mask also what matches this regular expression: the value of a field whose name does, of a text the part that
    /// does; give it again for several. As redact.patterns of a configuration
    #[arg(long = "pattern", value_name = "REGEX")]
    patterns: Vec<String>,
}

impl Redaction {
    /// The error says what is wrong with a pattern.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        // Its text has the cause in it already.
        Sentences::new(&self.patterns).map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(Settings { patterns: self.patterns.clone(), ..Settings::default() })
    }
}
