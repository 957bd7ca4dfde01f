//! How a server process ends: what asks it to, and whether what runs in sandboxes goes on.

use std::fmt;

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What becomes of the sessions when the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// They go on, and the next process takes them over.
    HandOver,
    /// They are stopped, and their tasks are interrupted.
    Everything,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HandOver => "hand-over",
            Self::Everything => "everything",
        })
    }
}

/// The signals that end the process. From the moment that this exists, none of them kills it.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> anyhow::Result<Self> {
        let terminate = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("failed to listen for SIGINT")?;
        Ok(Self { terminate, interrupt })
    }

    /// The first one: SIGTERM hands over, SIGINT ends everything.
    pub(super) async fn first(&mut self) -> Ending {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Ending::Everything,
            _ = self.terminate.recv() => Ending::HandOver,
        }
    }

    /// Another one while the process ends already: whichever it is, it means that everything shall end.
    pub(super) async fn another(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
