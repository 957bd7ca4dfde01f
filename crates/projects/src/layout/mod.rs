//! The places of projects on disk, beneath the server's data directory.
//!
//! ```text
//! projects/<workspace>/<project>/versions/<number>/source    a version's files, sealed
//! layers/<workspace>/<layer>/tree                            what one step installed, sealed; holds `.venv`, `node_modules`, …
//! builds/<workspace>/<project>/<number>/<step>               what a running build works in, removed when it ends
//! builds/imports/<name>                                      what a running import from git works in, removed when it ends
//! ```
//!
//! All of it must lie on one file system: versions share files by hard links, and a step's result becomes a layer by a
//! rename. Only the service reaches these directories by path; sandboxes see parts of them as mounts.
//!
//! **Modes.** Sealed files are the service's, carry no write bit and no set-id bit (0444, 0555). Sealed directories are 0755:
//! a later step writes over a layer through an overlay that shows it as the step's own, and without the owner's write bit
//! it could not even add a file. Nobody but the service owns them, and sessions only have read-only mounts.

mod error;
mod inventory;
mod mounts;
mod remove;
mod seal;
mod source;
mod step;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use stead_domain::{LayerId, ProjectId, WorkspaceId};

pub use error::LayoutError;
pub use remove::remove_tree;
pub use seal::{Sealed, Whiteouts, seal_tree};
pub use source::{PreviousVersion, SourceTree};
pub use step::{StepOverlay, StepPlace};

/// What an entry of a directory takes on disk at least, in bytes, whatever the file system says: an inode, a name, and their part of
/// the journal are not free even where a file is empty.
const BLOCK: u64 = 4096;

/// The places beneath a data directory. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    data: PathBuf,
}

impl Layout {
    /// The layout beneath `data`, an absolute path.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self { data: data.into() }
    }

    /// The directory of one version of a project. Removing it with [`remove_tree`] removes the version.
    pub fn version(&self, workspace: WorkspaceId, project: ProjectId, number: u32) -> PathBuf {
        self.project(workspace, project).join("versions").join(number.to_string())
    }

    /// A version's files.
    pub fn version_source(&self, workspace: WorkspaceId, project: ProjectId, number: u32) -> PathBuf {
        self.version(workspace, project, number).join("source")
    }

    /// The directory of a project with all its versions.
    pub fn project(&self, workspace: WorkspaceId, project: ProjectId) -> PathBuf {
        self.data.join("projects").join(workspace.hex()).join(project.hex())
    }

    /// The projects that have a directory here. Names that are no ids are nobody's and left alone.
    pub fn projects(&self) -> Result<Vec<(WorkspaceId, ProjectId)>, LayoutError> {
        let root = self.data.join("projects");
        let mut found = Vec::new();
        for workspace in names(&root)? {
            let Ok(id) = format!("{}_{workspace}", WorkspaceId::PREFIX).parse::<WorkspaceId>() else { continue };
            let projects = names(&root.join(&workspace))?;
            found.extend(
                projects
                    .iter()
                    .filter_map(|name| Some((id, format!("{}_{name}", ProjectId::PREFIX).parse::<ProjectId>().ok()?))),
            );
        }
        Ok(found)
    }

    /// The directory of a layer. Removing it with [`remove_tree`] removes the layer.
    pub fn layer(&self, workspace: WorkspaceId, layer: LayerId) -> PathBuf {
        self.data.join("layers").join(workspace.hex()).join(layer.hex())
    }

    /// A layer's tree, rooted at the mount: what a step kept of `.venv` lies at `tree/.venv`.
    pub fn layer_tree(&self, workspace: WorkspaceId, layer: LayerId) -> PathBuf {
        self.layer(workspace, layer).join("tree")
    }

    /// What a build works in. Removed with [`remove_tree`] when the build ends, however it ends.
    pub fn build(&self, workspace: WorkspaceId, project: ProjectId, number: u32) -> PathBuf {
        self.builds_of(workspace, project).join(number.to_string())
    }

    /// Where the builds of one project work.
    pub fn builds_of(&self, workspace: WorkspaceId, project: ProjectId) -> PathBuf {
        self.data.join("builds").join(workspace.hex()).join(project.hex())
    }

    /// Where the builds of every project work: what lies there when the server starts is left over.
    pub fn builds(&self) -> PathBuf {
        self.data.join("builds")
    }

    /// What an import from git works in. Removed with [`remove_tree`] when it ends, however it ends.
    pub fn import(&self, name: &str) -> PathBuf {
        self.builds().join("imports").join(name)
    }

    /// Where installer caches lay that outlived their builds. No step may read what another wrote there, so they go.
    pub fn kept_caches(&self) -> PathBuf {
        self.data.join("caches")
    }
}

/// The names in a directory; none when it is not there.
fn names(directory: &Path) -> Result<Vec<String>, LayoutError> {
    let failed = |source| LayoutError::io("list", directory, source);
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    entries.map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned())).collect()
}

/// Makes a directory with its parents. Its own mode is 0755 whatever the server's umask: other users see it through mounts.
pub(crate) fn make_directory(path: &Path) -> Result<(), LayoutError> {
    std::fs::create_dir_all(path).map_err(|source| LayoutError::io("make the directory", path, source))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .map_err(|source| LayoutError::io("set the mode of", path, source))
}

/// Makes everything written to the file system of `path` durable.
pub(crate) fn sync_file_system(path: &Path) -> Result<(), LayoutError> {
    let directory = std::fs::File::open(path).map_err(|source| LayoutError::io("open", path, source))?;
    rustix::fs::syncfs(&directory).map_err(|source| LayoutError::io("make durable", path, source.into()))
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), LayoutError> {
    let directory = std::fs::File::open(path).map_err(|source| LayoutError::io("open", path, source))?;
    directory.sync_all().map_err(|source| LayoutError::io("make durable", path, source))
}
