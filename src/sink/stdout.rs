//! One line an event, for log collectors and people.

use std::{
    env,
    io::{self, IsTerminal, Write},
    sync::{Arc, mpsc},
};

use futures::future::BoxFuture;
use jiff::tz::TimeZone;
use tokio::sync::oneshot;

use super::{Outcome, Pace, Sink, format};
use crate::event::{
    Redacted,
    render::{self, Style},
};

/// `[sinks.NAME] type = "stdout"`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    pub format: Format,
    /// Somebody else draws a progress line where the next event goes: it is erased first. On a terminal alone.
    pub over_progress: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// The event as its schema says.
    #[default]
    Json,
    /// For people, by [`render::terminal()`]; a line for each change. Coloured and cut to the width on a terminal.
    Text,
    /// Elastic Common Schema, with the event under `kubediff`.
    Ecs,
    /// The old kubediff's payload.
    Legacy,
}

/// Takes away the line that the cursor is in.
pub const ERASE: &str = "\r\x1b[K";

/// Writes from a thread of its own: a pipe that nobody reads holds up neither the runtime nor the end of the program.
pub struct Stdout {
    settings: Settings,
    style: fn() -> Style,
    lines: mpsc::Sender<(Vec<u8>, oneshot::Sender<io::Result<()>>)>,
}

impl Stdout {
    pub fn new(settings: Settings) -> io::Result<Self> {
        Self::start(settings, io::stdout(), style)
    }

    /// Writes to something else that is a file in the end.
    pub fn to(settings: Settings, out: impl Write + Send + 'static) -> io::Result<Self> {
        Self::start(settings, out, plain)
    }

    fn start(settings: Settings, mut out: impl Write + Send + 'static, style: fn() -> Style) -> io::Result<Self> {
        let (lines, inbox) = mpsc::channel::<(Vec<u8>, oneshot::Sender<io::Result<()>>)>();
        std::thread::Builder::new().name("stdout".into()).spawn(move || {
            for (batch, reply) in inbox {
                let _ = reply.send(out.write_all(&batch).and_then(|()| out.flush()));
            }
        })?;
        Ok(Self { settings, style, lines })
    }
}

impl Sink for Stdout {
    fn send<'a>(&'a self, batch: &'a [Arc<Redacted>]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let mut lines = Vec::with_capacity(batch.len() * 1024);
            // Asked for each time: windows change their size.
            let style = (self.style)();
            if self.settings.over_progress && io::stdout().is_terminal() {
                lines.extend_from_slice(ERASE.as_bytes());
            }
            for event in batch {
                if let Err(error) = line(event, self.settings.format, &style, &mut lines) {
                    return Outcome::reject(format!("it cannot be written as JSON: {error}"));
                }
            }
            let (reply, written) = oneshot::channel();
            if self.lines.send((lines, reply)).is_err() {
                return Outcome::Closed;
            }
            match written.await {
                Ok(Ok(())) => Outcome::Delivered,
                Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Outcome::Closed,
                Ok(Err(error)) => Outcome::retry(format!("cannot write to stdout: {error}")),
                Err(_) => Outcome::Closed,
            }
        })
    }

    fn pace(&self) -> Pace {
        Pace { batch: 200, in_flight: 1, patient: true }
    }

    fn wants_whole(&self) -> bool {
        self.settings.format == Format::Legacy
    }
}

/// How the terminal that stdout is wants it, or plain when it is none.
fn style() -> Style {
    if !io::stdout().is_terminal() {
        return plain();
    }
    let color = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let width = terminal_size::terminal_size().map_or(0, |(width, _)| usize::from(width.0));
    Style { color, width, ..plain() }
}

fn plain() -> Style {
    Style { zone: Some(TimeZone::system()), ..Style::plain() }
}

fn line(event: &Redacted, format: Format, style: &Style, out: &mut Vec<u8>) -> serde_json::Result<()> {
    match format {
        Format::Json => out.extend_from_slice(event.json()?),
        Format::Ecs => serde_json::to_writer(&mut *out, &format::ecs(event))?,
        Format::Legacy => serde_json::to_writer(&mut *out, &format::legacy(event))?,
        Format::Text => {
            out.extend_from_slice(render::terminal(event, style).as_bytes());
            return Ok(());
        }
    }
    out.push(b'\n');
    Ok(())
}
