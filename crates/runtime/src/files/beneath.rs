//! Opening paths that the kernel keeps beneath a root.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use stead_link::FileInfo;

use super::FileError;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Opens the root of an operation: an absolute path without links in it. Mounts above it are the environment's own.
pub(super) fn root(path: &str) -> Result<OwnedFd, FileError> {
    if !path.starts_with('/') {
        return Err(FileError::Refused(path.to_owned()));
    }
    let open = || {
        rustix::fs::openat2(
            rustix::fs::CWD,
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        )
    };
    let opened = match open() {
        // A command took its own directory's permissions away. It is ours, and what comes next needs it.
        Err(Errno::ACCESS) => rustix::fs::chmod(path, Mode::RWXU).and_then(|()| open()),
        other => other,
    };
    opened.map_err(|error| explain(error, "open the directory", path))
}

/// Opens something beneath a directory. The kernel may report a rename under way; that is tried again a few times.
pub(super) fn open(
    directory: BorrowedFd<'_>,
    path: impl rustix::path::Arg + Copy,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let mut attempts = 0;
    loop {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        match rustix::fs::openat2(directory, path, flags, Mode::empty(), BENEATH) {
            Err(Errno::AGAIN | Errno::INTR) if attempts < 16 => attempts += 1,
            other => return other,
        }
    }
}

/// Opens a regular file for reading. A pipe or device is neither waited for nor read.
pub(super) fn regular(root: BorrowedFd<'_>, path: &str) -> Result<(OwnedFd, FileInfo), FileError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = open(root, path, flags).map_err(|error| explain(error, "open", path))?;
    let stat = rustix::fs::fstat(file.as_fd()).map_err(|error| explain(error, "look at", path))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(FileError::Kind(path.to_owned(), "a regular file"));
    }
    Ok((file, info(&stat)))
}

pub(super) fn explain(error: Errno, action: &'static str, path: &str) -> FileError {
    match error {
        Errno::LOOP | Errno::XDEV => FileError::Refused(path.to_owned()),
        source => FileError::System { action, path: path.to_owned(), source },
    }
}

pub(super) fn info(stat: &Stat) -> FileInfo {
    FileInfo {
        size: stat.st_size.unsigned_abs(),
        mtime_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
        ctime_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        inode: stat.st_ino,
        nlink: stat.st_nlink,
        executable: stat.st_mode & 0o100 != 0,
    }
}

fn nanoseconds(seconds: i64, nanoseconds: u64) -> i64 {
    let whole = seconds.saturating_mul(1_000_000_000);
    whole.saturating_add(i64::try_from(nanoseconds).unwrap_or(0))
}
