//! One line an event, for log collectors and people.

use std::{
    io::{self, Write},
    sync::{Arc, mpsc},
};

use futures::future::BoxFuture;
use tokio::sync::oneshot;

use super::{Outcome, Pace, Sink, describe, format};
use crate::event::Event;

/// `[sinks.NAME] type = "stdout"`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    pub format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// The event as its schema says.
    #[default]
    Json,
    /// The event for a terminal; several lines for several changes.
    Text,
    /// Elastic Common Schema, with the event under `kubediff`.
    Ecs,
    /// The old kubediff's payload.
    Legacy,
}

/// Writes from a thread of its own: a pipe that nobody reads holds up neither the runtime nor the end of the program.
pub struct Stdout {
    format: Format,
    lines: mpsc::Sender<(Vec<u8>, oneshot::Sender<io::Result<()>>)>,
}

impl Stdout {
    pub fn new(settings: Settings) -> io::Result<Self> {
        Self::to(settings, io::stdout())
    }

    /// Writes to something else that is a file in the end.
    pub fn to(settings: Settings, mut out: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, inbox) = mpsc::channel::<(Vec<u8>, oneshot::Sender<io::Result<()>>)>();
        std::thread::Builder::new().name("stdout".into()).spawn(move || {
            for (batch, reply) in inbox {
                let _ = reply.send(out.write_all(&batch).and_then(|()| out.flush()));
            }
        })?;
        Ok(Self { format: settings.format, lines })
    }
}

impl Sink for Stdout {
    fn send<'a>(&'a self, batch: &'a [Arc<Event>]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let mut lines = Vec::with_capacity(batch.len() * 1024);
            for event in batch {
                if let Err(error) = line(event, self.format, &mut lines) {
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
}

fn line(event: &Event, format: Format, out: &mut Vec<u8>) -> serde_json::Result<()> {
    match format {
        Format::Json => serde_json::to_writer(&mut *out, event)?,
        Format::Ecs => serde_json::to_writer(&mut *out, &format::ecs(event))?,
        Format::Legacy => serde_json::to_writer(&mut *out, &format::legacy(event))?,
        Format::Text => out.extend_from_slice(describe::plain(event).trim_end().as_bytes()),
    }
    out.push(b'\n');
    Ok(())
}
