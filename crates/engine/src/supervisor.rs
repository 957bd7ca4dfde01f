//! The one place that spawns tasks: a panic is logged, and a stop waits for what is at work.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Owns the engine's background tasks.
#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    tracker: TaskTracker,
    stopping: CancellationToken,
}

impl Supervisor {
    /// Runs a task to its end.
    pub(crate) fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let watched = self.tracker.spawn(task);
        self.tracker.spawn(async move {
            if let Err(error) = watched.await
                && error.is_panic()
            {
                tracing::error!(task = name, "a task panicked");
            }
        });
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
