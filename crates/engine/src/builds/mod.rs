//! Builds: admitted, worked on, watched, cancelled; and the versions they make.

mod admit;
mod log;
mod purge;
mod schedule;
mod step;
mod work;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stead_domain::ProjectId;
use stead_domain::build::BuildFailure;
use tokio_util::sync::CancellationToken;

pub(crate) use self::admit::build_not_found;
pub use self::log::{LogPart, LogStream};
pub(crate) use self::work::layout_failed;

/// The builds that a task of this process works on.
#[derive(Debug, Default)]
pub(crate) struct RunningBuilds {
    running: Mutex<HashMap<(ProjectId, u32), CancellationToken>>,
    closing: AtomicBool,
}

/// Held while a task works on a build.
pub(crate) struct Working<'a> {
    builds: &'a RunningBuilds,
    key: (ProjectId, u32),
    /// Cancelled when the build shall end.
    pub(crate) cancel: CancellationToken,
}

impl RunningBuilds {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(ProjectId, u32), CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, project: ProjectId, number: u32) -> Option<Working<'_>> {
        let cancel = CancellationToken::new();
        let mut builds = self.lock();
        if self.is_closing() || builds.contains_key(&(project, number)) {
            return None;
        }
        builds.insert((project, number), cancel.clone());
        Some(Working { builds: self, key: (project, number), cancel })
    }

    /// Whether the server is stopping: what is cancelled now is interrupted.
    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Interrupts every build and returns when none is at work; begins none from now on.
    pub(crate) async fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        for cancel in self.lock().values() {
            cancel.cancel();
        }
        while !self.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Why a build that was cancelled has failed.
    fn cancelled(&self) -> BuildFailure {
        if self.is_closing() { BuildFailure::interrupted() } else { BuildFailure::cancelled() }
    }

    /// Whether a build of the project waits or runs here.
    pub(crate) fn is_at_work(&self, project: ProjectId) -> bool {
        self.lock().keys().any(|(of, _)| *of == project)
    }

    fn cancel(&self, project: ProjectId, number: u32) -> bool {
        self.lock().get(&(project, number)).map(CancellationToken::cancel).is_some()
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.builds.lock().remove(&self.key);
    }
}
