//! What a running script has come to so far: its log, its text, and what readers have not seen of it.

use std::time::Duration;

use stead_domain::ports::OutputStream;
use tokio::time::Instant;

use super::output::OutputLog;
use super::pace::Pace;
use super::transcript::Transcript;

/// How long a log that does not take output is left alone.
const PAUSE: Duration = Duration::from_millis(500);

/// Output as it came.
pub(super) type Piece = (OutputStream, Vec<u8>);

/// The state of a script's output.
pub(super) struct Run {
    pub(super) log: OutputLog,
    pub(super) transcript: Transcript,
    /// Text that readers have not seen.
    pub(super) unseen: String,
    pub(super) pace: Pace,
    /// Output that the log did not take, with the instant at which it is asked again.
    waiting: Option<(Vec<Piece>, Instant)>,
}

impl Run {
    pub(super) fn new(log: OutputLog) -> Self {
        Self { log, transcript: Transcript::default(), unseen: String::new(), pace: Pace::default(), waiting: None }
    }

    /// Whether everything that was said is in the log.
    pub(super) fn is_kept(&self) -> bool {
        self.waiting.is_none()
    }

    /// Puts output into the log, and then into the text. What the log does not take waits; nothing else may be taken meanwhile.
    pub(super) async fn keep(&mut self, pieces: Vec<Piece>) {
        if let Err(error) = self.log.append(&pieces).await {
            tracing::warn!(error = %error, cause = ?error.cause, "the output log takes nothing; it is asked again");
            self.waiting = Some((pieces, Instant::now() + PAUSE));
            return;
        }
        for (stream, bytes) in &pieces {
            self.hear(*stream, bytes);
        }
        self.pace.said(Instant::now());
    }

    /// Takes output that is in the log already into the text.
    pub(super) fn hear(&mut self, stream: OutputStream, bytes: &[u8]) {
        self.unseen.push_str(&self.transcript.push(stream, bytes));
    }

    /// Returns when the log may be asked again; never when nothing waits.
    pub(super) async fn due_again(&self) {
        match &self.waiting {
            Some((_, at)) => tokio::time::sleep_until(*at).await,
            None => std::future::pending().await,
        }
    }

    /// Asks the log again.
    pub(super) async fn keep_again(&mut self) {
        if let Some((pieces, _)) = self.waiting.take() {
            self.keep(pieces).await;
        }
    }
}
