//! Listing the regular files beneath a root.

use rustix::fs::{AtFlags, Dir, FileType, OFlags};
use stead_link::{FileEntry, Reply};

use super::{FileError, Progress, beneath};
use crate::connection::Connection;

/// No page is longer than this, in bytes as JSON.
pub(super) const MAX_PAGE: usize = 64 * 1024;
/// A page is sent when it has this many bytes; one more entry (a path, each byte escaped, and numbers) still fits.
const FULL_PAGE: usize = 16 * 1024;
/// Directory entries looked at in one step.
const STEP: usize = 256;
const MAX_DEPTH: usize = 128;
const MAX_PATH: usize = 4096;
/// Entries of any kind that are looked at for each file that may be listed.
const LOOKS_PER_FILE: u64 = 16;

/// A walk: the directories from the root to where it stands.
pub(crate) struct ListJob {
    levels: Vec<Level>,
    files_left: u64,
    looks_left: u64,
    incomplete: bool,
}

struct Level {
    directory: Dir,
    /// Its path relative to the root, with a slash at the end unless it is the root.
    path: Vec<u8>,
}

impl ListJob {
    pub(crate) fn new(root: &str, max_entries: u64) -> Result<Self, FileError> {
        let fd = beneath::root(root)?;
        let directory = Dir::new(fd).map_err(|error| beneath::explain(error, "read", root))?;
        Ok(Self {
            levels: vec![Level { directory, path: Vec::new() }],
            files_left: max_entries,
            looks_left: max_entries.saturating_mul(LOOKS_PER_FILE).saturating_add(10_000),
            incomplete: false,
        })
    }

    pub(super) fn step(&mut self, connection: &mut Connection, stream: u32) -> Progress {
        if !connection.affords(stream, MAX_PAGE) {
            return Progress::Waiting;
        }
        let (mut entries, mut length) = (Vec::new(), 0);
        for _ in 0..STEP {
            if self.levels.is_empty() || length >= FULL_PAGE {
                break;
            }
            if let Some(entry) = self.look() {
                length += entry.path.len() * 6 + 200;
                entries.push(entry);
            }
        }
        if !entries.is_empty() {
            connection.send_page(stream, &Reply::Entries { entries });
        }
        if self.levels.is_empty() {
            let incomplete = self.incomplete;
            connection.end(stream, &Reply::Listed { incomplete });
            return Progress::Done;
        }
        Progress::Working
    }

    /// Looks at one directory entry.
    fn look(&mut self) -> Option<FileEntry> {
        let depth = self.levels.len();
        let level = self.levels.last_mut()?;
        let entry = match level.directory.read() {
            Some(Ok(entry)) => entry,
            Some(Err(_)) => {
                self.incomplete = true;
                self.levels.pop();
                return None;
            }
            None => {
                self.levels.pop();
                return None;
            }
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            return None;
        }
        if self.looks_left == 0 {
            self.incomplete = true;
            self.levels.clear();
            return None;
        }
        self.looks_left -= 1;
        let here = level.directory.fd().ok()?;
        let stat = rustix::fs::statat(here, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT);
        // An entry that has gone in the meantime was not there.
        let stat = stat.ok()?;
        let mut path = level.path.clone();
        path.extend_from_slice(name.to_bytes());
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                path.push(b'/');
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
                let opened = (depth < MAX_DEPTH && path.len() < MAX_PATH).then(|| beneath::open(here, name, flags));
                match opened {
                    Some(Ok(fd)) => match Dir::new(fd) {
                        Ok(directory) => self.levels.push(Level { directory, path }),
                        Err(_) => self.incomplete = true,
                    },
                    // Another file system: not part of the root.
                    Some(Err(rustix::io::Errno::XDEV | rustix::io::Errno::NOENT)) => {}
                    Some(Err(_)) | None => self.incomplete = true,
                }
                None
            }
            FileType::RegularFile if path.len() >= MAX_PATH => {
                self.incomplete = true;
                None
            }
            FileType::RegularFile if self.files_left == 0 => {
                self.incomplete = true;
                self.levels.clear();
                None
            }
            FileType::RegularFile => {
                self.files_left -= 1;
                let (path, lossy) = match String::from_utf8(path) {
                    Ok(path) => (path, false),
                    Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
                };
                let info = beneath::info(&stat);
                Some(FileEntry { path, lossy, info })
            }
            _ => None,
        }
    }
}
