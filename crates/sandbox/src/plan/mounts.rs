//! Kinds of mounts and entries a plan can ask for.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// One entry of the sandbox's file tree. Every `target` is absolute inside the sandbox, has no `..`
/// and crosses no symbolic link; missing directories on the way are made when what holds them is
/// writable. Sources are host paths whose last component is not followed if it is a link.
///
/// No mount honours set-uid bits, and none but the fixed `/dev` nodes honours devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Mount {
    /// A host file or directory (with what is mounted beneath it), read-only from its first instant.
    BindReadOnly {
        /// Host path.
        source: PathBuf,
        /// Path inside.
        target: PathBuf,
    },
    /// A host file or directory that may be written, as far as its owner and mode allow the mapped ids.
    BindWritable {
        /// Host path.
        source: PathBuf,
        /// Path inside.
        target: PathBuf,
    },
    /// Several host directories seen as one, read-only. The first listed wins.
    OverlayReadOnly {
        /// Host directories, topmost first.
        lowers: Vec<PathBuf>,
        /// Path inside.
        target: PathBuf,
    },
    /// Several host directories seen as one, whose changes go to `upper`. Mounted `volatile`: whoever
    /// keeps `upper` makes it durable.
    Overlay {
        /// Host directories, topmost first; never written.
        lowers: Vec<PathBuf>,
        /// Host directory that receives the changes; owned by the mapped user who is to write.
        upper: PathBuf,
        /// Empty host directory on the file system of `upper`.
        work: PathBuf,
        /// Path inside.
        target: PathBuf,
        /// Show the lowers' files of host user 0 (the service) as owned by the run user, so that a
        /// program may change what it was given; the lowers themselves stay untouched. Needs a
        /// kernel and file system with id-mapped mounts.
        lowers_as_run_user: bool,
    },
    /// A memory file system owned by the run user.
    Tmpfs {
        /// Path inside.
        target: PathBuf,
        /// Bytes of content.
        size_bytes: u64,
        /// Number of files.
        inodes: u64,
        /// Mode of its root directory.
        mode: u32,
    },
    /// A file of our own making, owned by the sandbox's root.
    File {
        /// Path inside.
        target: PathBuf,
        /// Text of the file.
        contents: String,
        /// Mode of the file.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// Path inside.
        target: PathBuf,
        /// What the link says, resolved inside.
        to: PathBuf,
    },
    /// A directory owned by the sandbox's root, for mount points.
    Directory {
        /// Path inside.
        target: PathBuf,
        /// Mode of the directory.
        mode: u32,
    },
}

impl Mount {
    /// Where the entry appears inside the sandbox.
    pub fn target(&self) -> &Path {
        match self {
            Self::BindReadOnly { target, .. }
            | Self::BindWritable { target, .. }
            | Self::OverlayReadOnly { target, .. }
            | Self::Overlay { target, .. }
            | Self::Tmpfs { target, .. }
            | Self::File { target, .. }
            | Self::Symlink { target, .. }
            | Self::Directory { target, .. } => target,
        }
    }

    /// Host paths the entry names.
    pub fn sources(&self) -> Vec<&Path> {
        match self {
            Self::BindReadOnly { source, .. } | Self::BindWritable { source, .. } => vec![source],
            Self::OverlayReadOnly { lowers, .. } => lowers.iter().map(PathBuf::as_path).collect(),
            Self::Overlay { lowers, upper, work, .. } => {
                let mut sources: Vec<&Path> = lowers.iter().map(PathBuf::as_path).collect();
                sources.extend([upper.as_path(), work.as_path()]);
                sources
            }
            Self::Tmpfs { .. } | Self::File { .. } | Self::Symlink { .. } | Self::Directory { .. } => Vec::new(),
        }
    }

    /// Whether the program may write beneath the target.
    pub fn is_writable(&self) -> bool {
        matches!(self, Self::BindWritable { .. } | Self::Overlay { .. } | Self::Tmpfs { .. })
    }
}
