//! Environments, their sources and builds (UHP Environments §2 to §5).

mod build;
mod import;
mod object;
mod packages;
mod source;
mod write;

pub use build::{BuildRecord, VersionEntry, VersionList};
pub use import::{ImportResult, ImportWrite};
pub use object::{Environment, EnvironmentHarnesses, EnvironmentList, harnesses_of};
pub use packages::{PackageAnswer, Runtimes};
pub use source::{
    DirectoryWrite, DirectoryWritten, FileChange, FileChanged, FileDeleted, FileEntry, FileTree, FileTreeEnd,
    FileWritten,
};
pub use write::EnvironmentWrite;
