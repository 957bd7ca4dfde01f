//! Locks of Python tools: the list of packages that each comes to, in one form, whatever the tool.
//!
//! A lock is turned into lines of a requirements file that name one version and its hashes. Conditions on the machine
//! (markers) stay in the lines: whether they hold is the installer's judgement. What a parser here does not know is refused
//! by name and never guessed, because a package that is left out is found missing only when the project runs.

mod canonical_json;
mod dependency;
mod error;
mod pipfile;
mod poetry;
mod poetry_fit;
mod poetry_walk;
mod reach;
mod requirement;
mod uv;
mod uv_fit;
mod versions;

pub use dependency::dependency_name;
pub use error::LockError;
pub use pipfile::{PipfileLock, pipfile_requirements};
pub use poetry::PoetryLock;
pub use requirement::{LockedRequirement, LockedSource};
pub use uv::UvLock;
pub use versions::version_fits;

/// What a lock comes to: its packages for running the project, without development groups and extras.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PythonLock {
    /// The packages in the order of their names. Those of the source itself are among them, the project is not.
    pub packages: Vec<LockedRequirement>,
    /// Whether the project itself is a package that is to be installed, according to the lock.
    pub installs_root: bool,
    /// The versions of Python that it is good for.
    pub requires_python: Option<String>,
}

impl PythonLock {
    fn sorted(mut self) -> Self {
        self.packages.sort_unstable();
        self.packages.dedup();
        self
    }
}
