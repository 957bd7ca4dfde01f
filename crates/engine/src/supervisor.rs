//! The one place that spawns tasks: a panic is logged, and a stop waits for what is at work. The log lines of a task are in a
//! span that names it, and the request that started it: a span of its own, since the task may outlive the request by hours.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, Span};

use crate::request::RequestRecord;

/// Spans of work that ends. A task that is started within one of them belongs to it.
const OF_WORK: [&str; 3] = ["turn", "build", "operation"];

/// Owns the engine's background tasks.
#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    tracker: TaskTracker,
    stopping: CancellationToken,
    ending: CancellationToken,
    answering: CancellationToken,
}

impl Supervisor {
    /// Runs a task to its end.
    pub(crate) fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let current = Span::current();
        let span = match RequestRecord::current() {
            Some(record) => {
                let span = tracing::info_span!(parent: None, "task", task = name, request.id = record.id());
                span.follows_from(&current);
                span
            }
            None if current.metadata().is_some_and(|about| OF_WORK.contains(&about.name())) => {
                tracing::info_span!(parent: &current, "task", task = name)
            }
            None => tracing::info_span!(parent: None, "task", task = name),
        };
        let watched = self.tracker.spawn(task.instrument(span));
        self.tracker.spawn(async move {
            if let Err(error) = watched.await
                && error.is_panic()
            {
                tracing::error!(task = name, "a task panicked");
            }
        });
    }

    /// From now on what ends is ended on purpose.
    pub(crate) fn end(&self) {
        self.ending.cancel();
    }

    /// Whether everything is being ended.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_cancelled()
    }

    /// Cancelled when everything is being ended.
    pub(crate) fn ending(&self) -> CancellationToken {
        self.ending.clone()
    }

    /// From now on no request waits for the end of work.
    pub(crate) fn answer(&self) {
        self.answering.cancel();
    }

    /// Cancelled when no request is to wait any longer.
    pub(crate) fn answering(&self) -> CancellationToken {
        self.answering.clone()
    }

    /// Ends when the server is told to stop.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    pub(crate) async fn stop(&self, grace: Duration) {
        self.stopping.cancel();
        self.tracker.close();
        let _ = tokio::time::timeout(grace, self.tracker.wait()).await;
    }
}
