//! Manifests of a project: what they declare, and which other files an installer will read because of them.
//!
//! The second question decides what a build step may see and what its layer is keyed by, so every parser errs to one
//! side: a line it does not understand means the whole source ([`Requirements::needs_whole_source`]).

mod package_json;
mod package_lock;
mod platform;
mod pnpm_lock;
mod pyproject;
mod python_lock;
mod requirements;
mod requirements_line;
mod setup_script;
mod text;
mod workspace_pattern;
mod yaml;
mod yarn_lock;
mod yarn_registry;
mod yarn_settings;

pub use package_json::{PackageJson, PackageJsonError};
pub use package_lock::{LockedPackage, MissingVariant, PackageLock};
pub use platform::Platform;
pub use pnpm_lock::{PnpmLock, PnpmWorkspace};
pub use pyproject::{Pyproject, PyprojectError};
pub use python_lock::{
    LockError, LockedRequirement, LockedSource, PipfileLock, PoetryLock, PythonLock, UvLock, dependency_name,
    pipfile_requirements, version_fits,
};
pub use requirements::{ReadPath, Requirement, Requirements};
pub use requirements_line::LineKind;
pub use setup_script::{encoding_problem, normalise_for_bash};
pub use text::{MANIFEST_MAX_BYTES, TextError, decode as decode_text};
pub use workspace_pattern::names_member;
pub use yaml::YamlError;
pub use yarn_lock::YarnLock;
pub use yarn_registry::through_registry;
pub use yarn_settings::YarnSettings;
