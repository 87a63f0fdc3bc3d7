//! What kubediff says about itself: on stderr, as text for people or JSON for machines.

use std::{
    env,
    io::{self, IsTerminal},
};

use anyhow::Context;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::filter_fn,
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::cli;

/// Which levels are shown when `KUBEDIFF_LOG` does not say.
pub(crate) const DEFAULT: &str = "info";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// One readable line an event, with colours on a terminal.
    Pretty,
    /// One JSON object a line.
    Json,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// How kubediff's own log looks, on stderr
    #[arg(long, global = true, value_enum, default_value_t = Format::Pretty, env = "KUBEDIFF_LOG_FORMAT", value_name = "FORMAT")]
    pub(crate) log_format: Format,
}

/// Starts logging for the process, at `default` where `KUBEDIFF_LOG` says nothing. Fails on one that is not understood.
pub(crate) fn start(options: &Options, default: &str) -> anyhow::Result<()> {
    let wanted = env::var("KUBEDIFF_LOG").ok().filter(|wanted| !wanted.trim().is_empty());
    let filter = parse(wanted.as_deref().unwrap_or(default)).map_err(cli::Usage)?;
    let colours = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    subscriber(options.log_format, filter, colours, io::stderr).init();
    Ok(())
}

fn parse(wanted: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::builder().parse(wanted).with_context(|| {
        format!(
            "KUBEDIFF_LOG is {wanted:?}, and should be a level (error, warn, info, debug, trace) or a list of them \
             by module, as \"info,kubediff::sink=debug\""
        )
    })
}

fn subscriber<W>(format: Format, filter: EnvFilter, colours: bool, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = fmt::layer().with_writer(writer);
    let lines = match format {
        Format::Json => lines.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed(),
        Format::Pretty => lines.with_ansi(colours).with_target(false).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines.with_filter(filter_fn(is_safe)))
}

/// kube's client prints bodies that it cannot parse, which may be Secrets, below the level of errors. Whatever the
/// user asks for, those stay out.
fn is_safe(event: &Metadata<'_>) -> bool {
    !event.target().starts_with("kube_client") || *event.level() <= Level::ERROR
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What is shown of what happens in `events`.
    fn shown(format: Format, wanted: &str, events: impl FnOnce()) -> String {
        let written = Arc::new(Mutex::new(Vec::new()));
        let subscriber = subscriber(format, parse(wanted).unwrap(), false, Buffer(written.clone()));
        tracing::subscriber::with_default(subscriber, events);
        let written = written.lock().unwrap();
        String::from_utf8(written.clone()).unwrap()
    }

    #[derive(Clone)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Buffer {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn levels_can_be_set_by_module() {
        let events = || {
            tracing::debug!(target: "kubediff::sink", "from the sink");
            tracing::debug!(target: "kubediff::ledger", "from the ledger");
        };
        let said = shown(Format::Pretty, "info,kubediff::sink=debug", events);
        assert!(said.contains("from the sink") && !said.contains("from the ledger"), "{said}");
    }

    #[test]
    fn a_wrong_filter_says_what_was_expected() {
        let error = parse("kubediff=loud").unwrap_err();
        assert!(format!("{error:#}").contains("should be a level"), "{error:#}");
    }

    #[test]
    fn json_lines_hold_the_fields_of_the_event() {
        let said = shown(Format::Json, "info", || tracing::info!(sink = "ops", "delivered"));
        let line: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(
            (&line["message"], &line["sink"], &line["level"]),
            (&"delivered".into(), &"ops".into(), &"INFO".into())
        );
    }

    #[test]
    fn the_bodies_that_kube_prints_stay_out_at_every_level() {
        for wanted in ["trace", "kube_client=trace", "info,kube_client::client=debug"] {
            let said = shown(Format::Pretty, wanted, || {
                tracing::warn!(target: "kube_client::client", "a body that was not understood");
                tracing::error!(target: "kube_client::client", "an error");
            });
            assert!(said.contains("an error") && !said.contains("a body"), "{wanted}: {said}");
        }
    }
}
