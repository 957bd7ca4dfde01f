//! Why a project cannot be planned.

use std::error::Error;

use stead_domain::build::{BuildFailure, BuildFailureKind};
use stead_domain::ports::BlobError;

/// Why a project cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A manifest is not what its name says; the source names line or encoding.
    #[error("`{file}` cannot be used")]
    Manifest {
        /// The manifest.
        file: String,
        /// What is wrong with it.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The machine lacks a tool that a manifest calls for.
    #[error("`{file}` needs {tool}, which this server does not have")]
    MissingTool {
        /// The manifest.
        file: String,
        /// The tool.
        tool: &'static str,
    },
    /// A manifest calls for Bun.
    #[error("`{file}` asks for Bun, which is not supported: {way}")]
    Bun {
        /// The manifest.
        file: String,
        /// What to do about it.
        way: &'static str,
    },
    /// A file lies where packages are installed.
    #[error("the source has a file `{path}`, where system packages are installed: rename it")]
    Occupied {
        /// The file.
        path: String,
    },
    /// A manifest's bytes cannot be had.
    #[error("failed to read `{file}` from the source")]
    Read {
        /// The manifest.
        file: String,
        /// Why.
        #[source]
        source: BlobError,
    },
}

impl PlanError {
    pub(super) fn manifest(file: impl ToString, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Manifest { file: file.to_string(), source: Box::new(source) }
    }

    /// The failure of the build, in words for the project's owner.
    pub fn failure(&self) -> BuildFailure {
        let kind = match self {
            Self::Manifest { .. } | Self::MissingTool { .. } | Self::Bun { .. } | Self::Occupied { .. } => {
                BuildFailureKind::Manifest
            }
            Self::Read { .. } => BuildFailureKind::Internal,
        };
        let mut message = self.to_string();
        let mut cause = self.source();
        // The owner wrote the manifest, so its fault is told in full; a fault of the store is the server's own business.
        while let (Some(error), BuildFailureKind::Manifest) = (cause, kind) {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        BuildFailure::new(kind, message)
    }
}
