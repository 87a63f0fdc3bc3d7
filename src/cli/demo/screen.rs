//! What the demo says around its events: a greeting, the names of its parts, a progress line, and the end.

use std::{
    env,
    io::{self, IsTerminal, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use kubediff::{
    cluster::source::recording::{Player, Recording},
    diff::Change,
    event::{Event, Kind},
    sink::stdout::ERASE,
};

/// How often the progress line is drawn.
const TICK: Duration = Duration::from_millis(50);
const BAR: usize = 24;
/// The name of a part stands above what happens in it, also where that is told at once.
const AHEAD: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug)]
pub(super) struct Screen {
    /// Only events are printed, for machines.
    silent: bool,
    /// A person looks at it: there is a progress line.
    live: bool,
    colour: bool,
}

impl Screen {
    pub(super) fn new(silent: bool) -> Self {
        let live = !silent && io::stdout().is_terminal() && io::stderr().is_terminal();
        let colour = io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { silent, live, colour }
    }

    pub(super) fn is_live(self) -> bool {
        self.live
    }

    pub(super) fn greet(self, recording: &Recording, page: Option<SocketAddr>) -> io::Result<()> {
        if self.silent {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "A recording of a real cluster, played through all of kubediff: {} objects, {} changes in {}.",
            recording.objects(),
            recording.changes(),
            clock(recording.length())
        )?;
        if let Some(page) = page {
            writeln!(out, "The same in a browser: http://{page}/")?;
        }
        writeln!(out, "Ctrl-C ends it.")
    }

    /// Names the parts as they come and draws how far it is, until it is dropped.
    pub(super) async fn show(self, player: Arc<Player>, page: Option<SocketAddr>, again: bool) {
        let mut marks = player.recording().marks.iter().peekable();
        let mut part = "";
        let mut ended = false;
        let length = player.recording().length();
        loop {
            let at = player.position().unwrap_or_default();
            while let Some((_, text)) = marks.next_if(|(due, _)| *due <= at + AHEAD) {
                part = text;
                self.heading(text);
            }
            if at > length + Duration::from_secs(1) && !ended {
                ended = true;
                if !again {
                    let look = page.map_or(String::new(), |page| format!(" Look around at http://{page}/."));
                    self.heading(&format!("That was all of it.{look} Ctrl-C ends the demo."));
                }
            }
            self.progress(at.min(length), length, if ended { "the end" } else { part });
            tokio::time::sleep(TICK).await;
        }
    }

    /// A reader that is gone ends the demo by its events.
    fn heading(self, text: &str) {
        if self.silent {
            return;
        }
        let erase = if self.live { ERASE } else { "" };
        let (bold, plain) = if self.colour { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let mut out = io::stdout().lock();
        let _ = write!(out, "{erase}\n{bold}# {text}{plain}\n").and_then(|()| out.flush());
    }

    /// Stays in its line: what is printed next takes its place.
    fn progress(self, at: Duration, length: Duration, part: &str) {
        if !self.live {
            return;
        }
        let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
        let line = line(at, length, part, width.saturating_sub(1));
        let (dim, plain) = if self.colour { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        let mut out = io::stderr().lock();
        let _ = write!(out, "{ERASE}{dim}{line}{plain}\r").and_then(|()| out.flush());
    }

    pub(super) fn clear(self) {
        if self.live {
            let _ = write!(io::stderr(), "{ERASE}");
        }
    }
}

fn line(at: Duration, length: Duration, part: &str, width: usize) -> String {
    let share = if length.is_zero() { 1.0 } else { at.as_secs_f64() / length.as_secs_f64() };
    let done = ((share * BAR as f64) as usize).min(BAR);
    let text = format!("{}{} {} of {}  {part}", "━".repeat(done), "─".repeat(BAR - done), clock(at), clock(length));
    text.chars().take(width).collect()
}

/// `1:05`
fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

/// Whether a person who looks on would want to read it: what somebody did, and what went wrong, but not how controllers
/// carry it out.
pub(super) fn is_story(event: &Event) -> bool {
    match event.resource.kind.as_str() {
        "Node" => true,
        "Pod" => event.kind == Kind::Updated && event.summary.contains(" cannot "),
        _ => !event.is_child() && (event.kind != Kind::Updated || !event.changes.iter().all(is_bookkeeping)),
    }
}

/// What controllers note on the objects that they work for.
fn is_bookkeeping(change: &Change) -> bool {
    change.path.starts_with("/status") || change.path.contains("deployment.kubernetes.io~1revision")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_tells_how_far_it_is_and_fits() {
        let (half, all) = (Duration::from_secs(31), Duration::from_secs(62));
        let text = line(half, all, "A rollout", 80);
        assert_eq!(text, "━━━━━━━━━━━━──────────── 0:31 of 1:02  A rollout");
        assert_eq!(line(half, all, "A rollout", 30).chars().count(), 30);
        assert!(line(Duration::ZERO, Duration::ZERO, "", 80).starts_with("━━"), "an empty recording is over");
    }
}
