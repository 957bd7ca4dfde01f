//! Writing what a server names beneath one directory and nowhere else.
//!
//! Names come from sandboxes. Each is split into plain segments, and each segment is opened relative to the directory above
//! without following links, so that neither `..` nor a link that lies in the target leads out.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::Failure;

/// The segments of a relative path without `.`, `..`, NUL or an empty segment.
pub(crate) fn relative_path(path: &str) -> Option<Vec<&str>> {
    let segments: Vec<&str> = path.split('/').collect();
    let plain = |segment: &&str| !matches!(*segment, "" | "." | "..") && !segment.contains('\0');
    segments.iter().all(plain).then_some(segments)
}

/// A directory that files are written beneath.
pub(crate) struct Directory(OwnedFd);

impl Directory {
    /// Makes the directory unless it is there.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::io(format_args!("make the directory {}", path.display()), &error);
        std::fs::create_dir_all(path).map_err(failed)?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        openat(CWD, path, flags, Mode::empty()).map(Self).map_err(|error| failed(error.into()))
    }

    /// Makes the directory unless it is there, and finds out whether files can be written in it.
    pub(crate) fn prepare(path: &Path) -> Result<(), Failure> {
        // What was begun and never finished leaves nothing.
        let begun = Self::create(path)?.begin("probe");
        begun.map(drop).map_err(|failure| failure.said(format!("nothing can be written in {}", path.display())))
    }

    /// Begins a file at `path`; it appears there when [`Writing::finish`] is called.
    pub(crate) fn begin(&self, path: &str) -> Result<Writing, Failure> {
        let refused = || Failure::new(format!("`{}` is not a path beneath the directory", path.escape_debug()));
        let segments = relative_path(path).ok_or_else(refused)?;
        let failed = |error: Errno| Failure::io(format_args!("write `{}`", path.escape_debug()), &error.into());
        let Some((name, directories)) = segments.split_last() else { return Err(refused()) };
        let mut directory = self.0.try_clone().map_err(|error| Failure::io("keep the directory open", &error))?;
        for segment in directories {
            match mkdirat(&directory, *segment, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(failed(error)),
            }
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
            directory = openat(&directory, *segment, flags, Mode::empty()).map_err(failed)?;
        }
        let temporary = format!(".stead-{}.part", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&directory, &temporary, flags, Mode::from_raw_mode(0o666)).map_err(failed)?;
        Ok(Writing { directory, file: file.into(), temporary, name: (*name).to_owned(), finished: false })
    }
}

/// A file that is being written.
pub(crate) struct Writing {
    directory: OwnedFd,
    file: File,
    temporary: String,
    name: String,
    finished: bool,
}

impl Writing {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| Failure::io(format_args!("write `{}`", self.name), &error))
    }

    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        renameat(&self.directory, &self.temporary, &self.directory, &self.name)
            .map_err(|error| Failure::io(format_args!("write `{}`", self.name), &error.into()))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.finished {
            // Best effort: what remains is a file whose name says that it is a part.
            let _ = unlinkat(&self.directory, &self.temporary, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_land_beneath_the_directory_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let target = Directory::create(&root.path().join("out")).unwrap();
        let write = |path: &str| {
            let mut writing = target.begin(path)?;
            writing.write(b"x")?;
            writing.finish()
        };
        write("a/b/c.txt").unwrap();
        write("a/b/c.txt").unwrap();
        assert_eq!(std::fs::read(root.path().join("out/a/b/c.txt")).unwrap(), b"x");
        assert!(Directory::prepare(&root.path().join("new/deep")).is_ok());
        assert_eq!(std::fs::read_dir(root.path().join("new/deep")).unwrap().count(), 0);
        assert!(Directory::prepare(&root.path().join("out/a/b/c.txt/d")).is_err());
        for wrong in ["../x", "a/../../x", "/etc/x", "", "a//b", "a/", ".", "a/./b"] {
            assert!(write(wrong).is_err(), "{wrong}");
        }
        std::os::unix::fs::symlink(outside.path(), root.path().join("out/link")).unwrap();
        assert!(write("link/x").is_err());
        let victim = outside.path().join("victim");
        std::fs::write(&victim, "v").unwrap();
        std::os::unix::fs::symlink(&victim, root.path().join("out/file")).unwrap();
        write("file").unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"v");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}
