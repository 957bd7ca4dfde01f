//! Builds: admitted, worked on, watched, cancelled; and the versions they make.

mod admit;
mod log;
mod step;
mod work;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use stead_domain::ProjectId;
use tokio_util::sync::CancellationToken;

pub use self::log::LogStream;
pub(crate) use self::work::layout_failed;

/// The builds that a task of this process works on.
#[derive(Debug, Default)]
pub(crate) struct RunningBuilds(Mutex<HashMap<(ProjectId, u32), CancellationToken>>);

/// Held while a task works on a build.
pub(crate) struct Working<'a> {
    builds: &'a RunningBuilds,
    key: (ProjectId, u32),
    /// Cancelled when the build shall end.
    pub(crate) cancel: CancellationToken,
}

impl RunningBuilds {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(ProjectId, u32), CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, project: ProjectId, number: u32) -> Option<Working<'_>> {
        let cancel = CancellationToken::new();
        let mut builds = self.lock();
        if builds.contains_key(&(project, number)) {
            return None;
        }
        builds.insert((project, number), cancel.clone());
        Some(Working { builds: self, key: (project, number), cancel })
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
