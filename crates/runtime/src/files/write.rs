//! Writing a whole file, which appears at once or not at all.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use stead_link::Reply;

use super::{FileError, beneath};

/// Numbers the temporary files of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A file that is being received, under a temporary name in its own directory. Dropping the job removes it.
pub(crate) struct WriteJob {
    directory: OwnedFd,
    temporary: String,
    name: String,
    path: String,
    file: File,
    size: u64,
    in_place: bool,
}

impl WriteJob {
    /// Makes the directories and the temporary file.
    pub(crate) fn new(root: &str, path: &str, executable: bool) -> Result<Self, FileError> {
        let mut parts: Vec<&str> = path.split('/').collect();
        if parts.iter().any(|part| matches!(*part, "" | "." | "..")) || path.contains('\0') {
            return Err(FileError::Refused(path.to_owned()));
        }
        // A split has at least one part.
        let name = parts.pop().unwrap_or_default().to_owned();
        let mut directory = beneath::root(root)?;
        for part in parts {
            directory = enter(directory, part).map_err(|error| beneath::explain(error, "enter", path))?;
        }
        let mode = Mode::from_raw_mode(if executable { 0o755 } else { 0o644 });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (temporary, file) = loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let temporary = format!(".stead-{}-{number}", rustix::process::getpid().as_raw_nonzero());
            match rustix::fs::openat(directory.as_fd(), &temporary, flags, mode) {
                Ok(file) => break (temporary, file),
                // Left behind by a runtime of the same number.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(beneath::explain(error, "create a file for", path)),
            }
        };
        let job = Self {
            directory,
            temporary,
            name,
            path: path.to_owned(),
            file: File::from(file),
            size: 0,
            in_place: false,
        };
        // Whatever the umask is, the server's word counts.
        rustix::fs::fchmod(&job.file, mode).map_err(|error| beneath::explain(error, "set the mode of", path))?;
        Ok(job)
    }

    pub(crate) fn data(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.file.write_all(bytes).map_err(|error| FileError::System {
            action: "write",
            path: self.path.clone(),
            source: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        })?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Gives the file its name.
    pub(crate) fn finish(mut self) -> Result<Reply, FileError> {
        rustix::fs::renameat(self.directory.as_fd(), &self.temporary, self.directory.as_fd(), &self.name)
            .map_err(|error| beneath::explain(error, "put in place", &self.path))?;
        self.in_place = true;
        Ok(Reply::Written { size: self.size })
    }
}

impl Drop for WriteJob {
    fn drop(&mut self) {
        if !self.in_place {
            // Code of the environment may have removed it first.
            let _ = rustix::fs::unlinkat(self.directory.as_fd(), &self.temporary, AtFlags::empty());
        }
    }
}

/// Opens a directory, making it when it is missing.
fn enter(directory: OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    match beneath::open(directory.as_fd(), name, flags) {
        Err(Errno::NOENT) => {}
        other => return other,
    }
    match rustix::fs::mkdirat(directory.as_fd(), name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => beneath::open(directory.as_fd(), name, flags),
        Err(error) => Err(error),
    }
}
