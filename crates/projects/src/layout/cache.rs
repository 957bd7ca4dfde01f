//! Whether a project's installer cache may be used again.
//!
//! Steps write it, and it outlives them: nothing else bounds what all builds of a project leave there together, and
//! directories too deep to be measured would fail every later build for what an earlier one did. A cache that is too large or too
//! deep is begun anew.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{BLOCK, LayoutError};

/// Directories that hold each other. Walking holds a descriptor for each; installers nest a handful.
const MAX_DEPTH: usize = 64;
/// Bytes on disk.
const MAX_BYTES: u64 = 8 << 30;
/// Files, directories and links.
const MAX_ENTRIES: u64 = 500_000;

/// Looks through a cache that nothing writes meanwhile; one that is not there is fit. Links are never followed.
pub(super) fn is_fit(cache: &Path) -> Result<bool, LayoutError> {
    let failed = |error: Errno| LayoutError::io("look through", cache, error.into());
    match rustix::fs::openat(CWD, cache, FLAGS, Mode::empty()) {
        Err(Errno::NOENT) => Ok(true),
        opened => {
            let mut held = Held { bytes: 0, entries: 0 };
            held.within(&opened.map_err(failed)?, 0).map_err(failed)
        }
    }
}

/// What a cache takes on disk, as far as it can be told; none where there is none.
pub(super) fn bytes(cache: &Path) -> u64 {
    let mut held = Held { bytes: 0, entries: 0 };
    if let Ok(opened) = rustix::fs::openat(CWD, cache, FLAGS, Mode::empty()) {
        // Whatever ends it early (the bounds, an entry that went away), what was counted until then is there.
        let _ = held.within(&opened, 0);
    }
    held.bytes
}

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

struct Held {
    bytes: u64,
    entries: u64,
}

impl Held {
    /// Whether everything beneath keeps within the bounds; ends at the first that does not.
    fn within(&mut self, directory: &OwnedFd, depth: usize) -> Result<bool, Errno> {
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            self.entries += 1;
            self.bytes += (u64::try_from(stat.st_blocks).unwrap_or(0) * 512).max(BLOCK);
            if self.entries > MAX_ENTRIES || self.bytes > MAX_BYTES {
                return Ok(false);
            }
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                continue;
            }
            if depth == MAX_DEPTH {
                return Ok(false);
            }
            let inner = match rustix::fs::openat(directory, name, FLAGS, Mode::empty()) {
                // One that even its owner may not read; only a service without privileges meets it.
                Err(Errno::ACCESS) => return Ok(false),
                opened => opened?,
            };
            if !self.within(&inner, depth + 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_too_large_or_too_deep_is_not_used_again() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = scratch.path().join("cache");
        assert!(is_fit(&cache).unwrap());
        fs::create_dir_all(cache.join("wheels/a/b/c")).unwrap();
        fs::write(cache.join("wheels/a/b/c/file"), "wheel").unwrap();
        symlink("/", cache.join("link")).unwrap();
        assert!(is_fit(&cache).unwrap());

        // Takes no room, so it may be of any length: only what is allocated counts.
        fs::File::create(cache.join("sparse")).unwrap().set_len(MAX_BYTES * 2).unwrap();
        assert!(is_fit(&cache).unwrap());

        let deep = cache.join("d/".repeat(MAX_DEPTH + 2));
        fs::create_dir_all(&deep).unwrap();
        assert!(!is_fit(&cache).unwrap());
        assert!(is_fit(&scratch.path().join("cache/link")).is_err(), "the start is not followed");
    }
}
