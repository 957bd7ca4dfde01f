//! Builds: admitted, worked on, watched, cancelled; and the versions they make.

mod admit;
mod log;
mod purge;
mod reason;
mod refused;
mod schedule;
mod step;
mod work;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stead_domain::ProjectId;
use stead_domain::build::BuildFailure;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::request::RequestRecord;

pub(crate) use self::admit::build_not_found;
pub use self::log::{LogPart, LogStream};
pub(crate) use self::work::layout_failed;

/// The builds that a task of this process works on.
#[derive(Debug, Default)]
pub(crate) struct RunningBuilds {
    running: Mutex<HashMap<(ProjectId, u32), AtWork>>,
    /// None begins any more.
    closing: AtomicBool,
    /// What is cancelled now is interrupted.
    interrupting: AtomicBool,
}

#[derive(Debug)]
struct AtWork {
    cancel: CancellationToken,
    /// It has a slot.
    begun: bool,
    /// What becomes of it is decided: its end is being committed.
    settled: bool,
    /// The request that cancels it: its end is that request's doing.
    cancelled_by: Option<Arc<RequestRecord>>,
}

/// What became of the wish to cancel a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cancelling {
    /// Its task ends it.
    Told,
    /// Its end is being committed.
    TooLate,
    /// No task works on it.
    Idle,
}

/// Held while a task works on a build.
pub(crate) struct Working<'a> {
    builds: &'a RunningBuilds,
    key: (ProjectId, u32),
    /// Cancelled when the build shall end.
    pub(crate) cancel: CancellationToken,
}

impl RunningBuilds {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(ProjectId, u32), AtWork>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, project: ProjectId, number: u32) -> Option<Working<'_>> {
        let cancel = CancellationToken::new();
        let mut builds = self.lock();
        if self.is_closing() || builds.contains_key(&(project, number)) {
            return None;
        }
        builds.insert(
            (project, number),
            AtWork { cancel: cancel.clone(), begun: false, settled: false, cancelled_by: None },
        );
        Some(Working { builds: self, key: (project, number), cancel })
    }

    /// Whether the server is stopping: no build begins any more.
    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Notes that a build has got its slot; false when it shall wait for the next start.
    fn has_slot(&self, project: ProjectId, number: u32) -> bool {
        let mut builds = self.lock();
        if self.is_closing() {
            return false;
        }
        if let Some(build) = builds.get_mut(&(project, number)) {
            build.begun = true;
        }
        true
    }

    /// Begins no build from now on, and gives those at work until then to end.
    pub(crate) async fn wind_down(&self, until: Instant) {
        let begun = {
            let builds = self.lock();
            self.closing.store(true, Ordering::SeqCst);
            builds.values().filter(|build| !build.begun).for_each(|build| build.cancel.cancel());
            builds.values().filter(|build| build.begun).count()
        };
        if begun > 0 {
            tracing::info!(
                builds = begun,
                "builds may end within {:?}",
                until.saturating_duration_since(Instant::now())
            );
        }
        // At the end of the time they are interrupted.
        let _ = tokio::time::timeout_at(until, self.none_at_work()).await;
    }

    /// Interrupts every build and returns when none is at work; begins none from now on.
    pub(crate) async fn close(&self) {
        {
            let builds = self.lock();
            self.closing.store(true, Ordering::SeqCst);
            self.interrupting.store(true, Ordering::SeqCst);
            builds.values().for_each(|build| build.cancel.cancel());
        }
        self.none_at_work().await;
    }

    async fn none_at_work(&self) {
        while !self.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Why a build that was cancelled has failed.
    fn cancelled(&self) -> BuildFailure {
        if self.interrupting.load(Ordering::SeqCst) { BuildFailure::interrupted() } else { BuildFailure::cancelled() }
    }

    fn cancel(&self, project: ProjectId, number: u32) -> Cancelling {
        match self.lock().get_mut(&(project, number)) {
            Some(build) if build.settled => Cancelling::TooLate,
            Some(build) => {
                if build.cancelled_by.is_none() {
                    build.cancelled_by = RequestRecord::current();
                }
                build.cancel.cancel();
                Cancelling::Told
            }
            None => Cancelling::Idle,
        }
    }

    /// The request that cancels a build.
    fn cancelled_by(&self, project: ProjectId, number: u32) -> Option<Arc<RequestRecord>> {
        self.lock().get(&(project, number)).and_then(|build| build.cancelled_by.clone())
    }

    /// Decides what becomes of a build whose work has succeeded: false when it was cancelled before this.
    fn settle(&self, project: ProjectId, number: u32) -> bool {
        match self.lock().get_mut(&(project, number)) {
            Some(build) if build.cancel.is_cancelled() => false,
            Some(build) => {
                build.settled = true;
                true
            }
            None => true,
        }
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.builds.lock().remove(&self.key);
    }
}
