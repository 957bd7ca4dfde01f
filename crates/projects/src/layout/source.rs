//! Laying a source tree out: a version's own files, or the working copy of one build step.
//!
//! Every path is a [`SourcePath`] and the target is a directory that we made and nobody else writes, so plain path
//! operations stay beneath it. They go out from a descriptor of the target, so that the length of its own name does not
//! count. Files are created, never opened.

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use stead_domain::ports::{BlobFile, Blobs};
use stead_domain::source::{EntryKind, SourceEntry, add_directories};
use stead_domain::{BlobId, ProjectId, SourcePath, Timestamp, WorkspaceId};

use super::{Layout, LayoutError, make_directory, sync_file_system};
use crate::plan::InstallPlan;

/// A version of the same project that lies on disk, to share files with.
#[derive(Debug, Clone, Copy)]
pub struct PreviousVersion<'a> {
    /// Its number.
    pub number: u32,
    /// The entries it was laid out from, as [`for_build`](crate::snapshot::for_build) left them.
    pub entries: &'a [SourceEntry],
}

/// What is laid out, and as whose.
#[derive(Clone, Copy)]
pub struct SourceTree<'a> {
    /// The tenant.
    pub workspace: WorkspaceId,
    /// The project.
    pub project: ProjectId,
    /// The version that is being built.
    pub number: u32,
    /// The source as [`for_build`](crate::snapshot::for_build) left it.
    pub entries: &'a [SourceEntry],
    /// Where its bytes are.
    pub blobs: &'a dyn Blobs,
}

/// How files are put down.
#[derive(Clone, Copy)]
pub(super) enum Form<'a> {
    /// For good: no write bit, shared with an earlier version where nothing changed.
    Sealed { previous: Option<(&'a Path, &'a [SourceEntry])> },
    /// A copy that a step may change.
    Working { replaced: &'a [(SourcePath, Vec<u8>)] },
}

impl Layout {
    /// Lays a version's files out and makes them durable. A file with the same bytes and mode as in `previous` becomes a hard
    /// link to it. The directories that the plan's layers are mounted at are made, too. Whatever an interrupted build
    /// left at the place is removed first.
    pub fn lay_out_version(
        &self,
        tree: &SourceTree<'_>,
        plan: &InstallPlan,
        previous: Option<PreviousVersion<'_>>,
    ) -> Result<PathBuf, LayoutError> {
        super::remove_tree(&self.version(tree.workspace, tree.project, tree.number))?;
        let target = self.version_source(tree.workspace, tree.project, tree.number);
        let other = previous.map(|version| self.version_source(tree.workspace, tree.project, version.number));
        let previous = other.as_deref().zip(previous.map(|version| version.entries));
        let places = plan.mount_points();
        lay_out(&target, tree, tree.entries, Form::Sealed { previous }, &places)?;
        sync_file_system(&target)?;
        Ok(target)
    }
}

/// Puts `entries` down beneath `target`, which is made.
pub(super) fn lay_out(
    target: &Path,
    tree: &SourceTree<'_>,
    entries: &[SourceEntry],
    form: Form<'_>,
    mount_points: &[String],
) -> Result<(), LayoutError> {
    make_directory(target)?;
    let target = open_directory(target).map_err(|source| LayoutError::io("open", target, source.into()))?;
    let mut made = HashSet::new();
    let mut files = Vec::new();
    for entry in entries {
        add_directories(&mut made, &entry.path);
        match entry.kind {
            EntryKind::Directory => {
                made.insert(entry.path.as_str());
            }
            EntryKind::File { executable, size, blob } => files.push(Planned { entry, executable, size, blob }),
        }
    }
    let mut made: Vec<&str> = made.into_iter().collect();
    // Parents sort before what they hold.
    made.sort_unstable();
    for name in made.into_iter().chain(mount_points.iter().map(String::as_str)) {
        make_one(&target, name)?;
    }
    let old = match form {
        // A version that was removed meanwhile shares nothing.
        Form::Sealed { previous: Some((directory, entries)) } => open_directory(directory).ok().map(|directory| {
            (directory, entries.iter().map(|entry| (&entry.path, &entry.kind)).collect::<BTreeMap<_, _>>())
        }),
        _ => None,
    };
    let put = |file: &Planned<'_>| -> Result<(), LayoutError> {
        if let Some((directory, entries)) = &old {
            let path = file.entry.path.as_str();
            let same = entries.get(&file.entry.path).is_some_and(|kind| **kind == file.entry.kind);
            // Where linking fails (too many links, a version removed meanwhile) copying does as well.
            if same && rustix::fs::linkat(directory, path, &target, path, AtFlags::empty()).is_ok() {
                return Ok(());
            }
        }
        put_file(&target, tree, file, form)
    };
    // Two at a time: one waits for the disk while the other hashes or copies.
    let (one, other) = files.split_at(files.len() / 2);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| other.iter().try_for_each(put));
        let first = one.iter().try_for_each(put);
        let second = second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        first.and(second)
    })
}

struct Planned<'a> {
    entry: &'a SourceEntry,
    executable: bool,
    size: u64,
    blob: BlobId,
}

fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn make_one(target: &OwnedFd, path: &str) -> Result<(), LayoutError> {
    let is_directory = || {
        let stat = rustix::fs::statat(target, path, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    };
    match rustix::fs::mkdirat(target, path, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) if is_directory() => {}
        Err(error) => return Err(LayoutError::of_entry("make the directory", path, error)),
    }
    // The mode must not depend on the server's umask.
    rustix::fs::chmodat(target, path, Mode::from_raw_mode(0o755), AtFlags::empty())
        .map_err(|error| LayoutError::of_entry("set the mode of", path, error))
}

fn put_file(target: &OwnedFd, tree: &SourceTree<'_>, planned: &Planned<'_>, form: Form<'_>) -> Result<(), LayoutError> {
    let path = planned.entry.path.as_str();
    let io_error = |action| move |source| LayoutError::io(action, Path::new(path), source);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(target, path, flags, Mode::RUSR | Mode::WUSR);
    let mut file = File::from(file.map_err(|error| LayoutError::of_entry("create", path, error))?);
    let replacement = match form {
        Form::Working { replaced } => replaced.iter().find(|(path, _)| *path == planned.entry.path),
        Form::Sealed { .. } => None,
    };
    match replacement {
        Some((_, bytes)) => io::Write::write_all(&mut file, bytes).map_err(io_error("write"))?,
        None => copy_blob(&mut file, tree, planned)?,
    }
    let mode = match (form, planned.executable) {
        (Form::Sealed { .. }, false) => 0o444,
        (Form::Sealed { .. }, true) => 0o555,
        (Form::Working { .. }, false) => 0o644,
        (Form::Working { .. }, true) => 0o755,
    };
    file.set_permissions(Permissions::from_mode(mode)).map_err(io_error("set the mode of"))?;
    set_modified(&file, planned.entry.modified_at).map_err(io_error("set the time of"))
}

fn copy_blob(file: &mut File, tree: &SourceTree<'_>, planned: &Planned<'_>) -> Result<(), LayoutError> {
    let path = planned.entry.path.as_str();
    let opened = tree.blobs.open_blocking(tree.workspace, planned.blob);
    let mut reader = opened.map_err(|source| LayoutError::blob(path, source))?;
    let found = copy_bytes(&mut reader, file).map_err(|source| LayoutError::io("write", Path::new(path), source))?;
    if found == planned.size {
        return Ok(());
    }
    Err(LayoutError::Size { path: path.to_owned(), expected: planned.size, found })
}

/// Copies within the kernel where it can: a file system that shares blocks copies nothing.
fn copy_bytes(blob: &mut BlobFile, target: &mut File) -> io::Result<u64> {
    if let Some(bytes) = blob.in_memory() {
        io::Write::write_all(target, bytes)?;
        return Ok(bytes.len() as u64);
    }
    let mut copied = 0;
    if let Some((file, start)) = blob.in_file() {
        let mut offset = start;
        while copied < blob.length() {
            let left = usize::try_from(blob.length() - copied).unwrap_or(usize::MAX);
            match rustix::fs::copy_file_range(file, Some(&mut offset), &*target, None, left) {
                // The end came early, or these two files cannot be copied so; reading tells which.
                Ok(0) | Err(_) => break,
                Ok(count) => copied += count as u64,
            }
        }
    }
    io::Seek::seek(blob, io::SeekFrom::Start(copied))?;
    Ok(copied + io::copy(blob, target)?)
}

/// Tools compare times (make, incremental compilers), so a file carries the time its owner wrote it.
fn set_modified(file: &File, at: Timestamp) -> io::Result<()> {
    let micros = at.as_micros();
    let time = Timespec { tv_sec: micros.div_euclid(1_000_000), tv_nsec: micros.rem_euclid(1_000_000) * 1_000 };
    Ok(rustix::fs::futimens(file, &Timestamps { last_access: time, last_modification: time })?)
}
