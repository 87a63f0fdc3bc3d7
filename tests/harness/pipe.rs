//! How the fault proxy passes an answer on, and what it does to it at the point that a rule names.

use std::{io, time::Duration};

use bytes::{Bytes, BytesMut};
use hyper::body::Frame;
use tokio::sync::{mpsc, watch};

/// A point in an answer's body.
#[derive(Clone, Copy, Debug)]
pub enum After {
    Bytes(usize),
    /// Whole lines of a watch.
    Events(usize),
}

/// What happens there.
#[derive(Clone, Debug)]
pub enum Then {
    /// Cut the connection, without an end of the body.
    Cut,
    /// End the body as if it were whole.
    End,
    /// Send these bytes and end the body as if it were whole.
    EndWith(Bytes),
    /// Send half of the next line and end the body as if it were whole.
    Tear,
    /// Send no more, and keep the connection open.
    Stall,
    /// Send no more for a while, then go on.
    Pause(Duration),
    /// Leave out this many bytes, then go on.
    Swallow(usize),
    /// Put these bytes in, then go on.
    Insert(Bytes),
}

/// What the test wants of an answer that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Open,
    Stalled,
    Cut,
}

pub type Sender = mpsc::Sender<io::Result<Frame<Bytes>>>;

/// One answer under way.
pub struct Pipe {
    to: Sender,
    flow: watch::Receiver<Flow>,
    bytes: usize,
    events: usize,
    point: Option<(After, Then)>,
    swallow: usize,
    /// The beginning of the line that will be torn.
    torn: Option<BytesMut>,
}

/// Why a pipe ends.
enum End {
    /// The body is over, or the client is gone.
    Whole,
    Cut(io::Error),
}

impl Pipe {
    pub fn new(to: Sender, flow: watch::Receiver<Flow>, point: Option<(After, Then)>) -> Self {
        Self { to, flow, bytes: 0, events: 0, point, swallow: 0, torn: None }
    }

    /// Passes the body on to its end.
    pub async fn run(mut self, mut upstream: reqwest::Response) {
        loop {
            let step = match self.at_point().await {
                Ok(()) => self.next(&mut upstream).await,
                Err(end) => Err(end),
            };
            let passed = match step {
                Ok(chunk) => self.pass(chunk).await,
                Err(end) => Err(end),
            };
            match passed {
                Ok(()) => {}
                Err(End::Whole) => return,
                Err(End::Cut(why)) => {
                    // The client may be gone, then there is nobody to tell.
                    let _ = self.to.send(Err(why)).await;
                    return;
                }
            }
        }
    }

    async fn next(&mut self, upstream: &mut reqwest::Response) -> Result<Bytes, End> {
        loop {
            tokio::select! {
                () = self.to.closed() => return Err(End::Whole),
                changed = self.flow.changed() => {
                    if changed.is_ok() && *self.flow.borrow() == Flow::Cut {
                        return Err(cut());
                    }
                }
                chunk = upstream.chunk() => match chunk {
                    Ok(Some(chunk)) => return Ok(chunk),
                    Ok(None) => return Err(End::Whole),
                    Err(e) => return Err(End::Cut(io::Error::other(e))),
                },
            }
        }
    }

    async fn pass(&mut self, mut chunk: Bytes) -> Result<(), End> {
        while !chunk.is_empty() {
            if self.swallow > 0 {
                let gone = chunk.split_to(self.swallow.min(chunk.len()));
                self.swallow -= gone.len();
                continue;
            }
            if let Some(line) = &mut self.torn {
                line.extend_from_slice(&chunk);
                let Some(length) = line.iter().position(|&b| b == b'\n') else { return Ok(()) };
                let half = line.split_to(length / 2).freeze();
                self.send(half).await?;
                return Err(End::Whole);
            }
            let piece = chunk.split_to(self.room(&chunk));
            self.bytes += piece.len();
            self.events += piece.iter().filter(|&&b| b == b'\n').count();
            self.send(piece).await?;
            self.at_point().await?;
        }
        Ok(())
    }

    /// How much of a chunk lies before the point.
    fn room(&self, chunk: &[u8]) -> usize {
        let before = match self.point {
            Some((After::Bytes(n), _)) => n - self.bytes,
            Some((After::Events(n), _)) => {
                let mut ends = chunk.iter().enumerate().filter(|&(_, &b)| b == b'\n').map(|(at, _)| at + 1);
                ends.nth(n - self.events - 1).unwrap_or(chunk.len())
            }
            None => chunk.len(),
        };
        before.min(chunk.len())
    }

    async fn at_point(&mut self) -> Result<(), End> {
        let (bytes, events) = (self.bytes, self.events);
        let reached = self.point.take_if(|(after, _)| match after {
            After::Bytes(n) => *n == bytes,
            After::Events(n) => *n == events,
        });
        let Some((_, then)) = reached else { return Ok(()) };
        match then {
            Then::Cut => return Err(cut()),
            Then::End => return Err(End::Whole),
            Then::EndWith(bytes) => {
                self.send(bytes).await?;
                return Err(End::Whole);
            }
            Then::Stall => {
                let over =
                    async |flow: &mut watch::Receiver<Flow>| flow.wait_for(|flow| *flow == Flow::Cut).await.is_ok();
                tokio::select! {
                    () = self.to.closed() => return Err(End::Whole),
                    true = over(&mut self.flow) => return Err(cut()),
                }
            }
            Then::Tear => self.torn = Some(BytesMut::new()),
            Then::Pause(pause) => tokio::time::sleep(pause).await,
            Then::Swallow(n) => self.swallow = n,
            Then::Insert(bytes) => self.send(bytes).await?,
        }
        Ok(())
    }

    async fn send(&mut self, bytes: Bytes) -> Result<(), End> {
        let flow = tokio::select! {
            () = self.to.closed() => return Err(End::Whole),
            flow = self.flow.wait_for(|flow| *flow != Flow::Stalled) => flow.map_or(Flow::Cut, |flow| *flow),
        };
        if flow == Flow::Cut {
            return Err(cut());
        }
        self.to.send(Ok(Frame::data(bytes))).await.map_err(|_| End::Whole)
    }
}

fn cut() -> End {
    End::Cut(io::Error::other("told to cut it"))
}
