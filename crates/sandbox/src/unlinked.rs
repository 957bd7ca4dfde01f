//! Files that have no name any more but still take room, because a process holds them.
//!
//! A walk of directories ([`crate::disk`]) cannot see them, so a program could hold as much of the disk as it likes by removing
//! what it has open. What is on its way in a socket between two processes is not found here either.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::disk::Usage;

/// Memory file systems: their files are charged to the memory of whoever wrote them.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// What files without a name take of disks, each counted once, that the processes have open or mapped. Processes that end
/// meanwhile hold nothing; what cannot be looked at is not counted, which for a service that is an ordinary user includes files
/// that are mapped and no longer open: following those links takes the host's own privileges.
pub fn unlinked(processes: &[i32]) -> Usage {
    let mut found = Found::default();
    for process in processes {
        // A thread may have descriptors of its own.
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for thread in threads.flatten() {
            found.look_at(&thread.path().join("fd"));
        }
        found.look_at(Path::new(&format!("/proc/{process}/map_files")));
    }
    found.usage
}

#[derive(Default)]
struct Found {
    seen: HashSet<(u64, u64)>,
    in_memory: HashMap<u64, bool>,
    usage: Usage,
}

impl Found {
    fn look_at(&mut self, directory: &Path) {
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            // Follows the link to the file itself, whether or not a name leads there.
            let Ok(file) = fs::metadata(&path) else { continue };
            let kind = file.file_type();
            if file.nlink() > 0 || kind.is_socket() || kind.is_fifo() || file.blocks() == 0 {
                continue;
            }
            if self.is_in_memory(file.dev(), &path) || !self.seen.insert((file.dev(), file.ino())) {
                continue;
            }
            self.usage.inodes += 1;
            self.usage.bytes += file.blocks() * 512;
        }
    }

    fn is_in_memory(&mut self, device: u64, path: &Path) -> bool {
        if let Some(known) = self.in_memory.get(&device) {
            return *known;
        }
        let Ok(system) = rustix::fs::statfs(path) else { return false };
        let answer = u64::try_from(system.f_type).is_ok_and(|magic| magic == TMPFS_MAGIC);
        self.in_memory.insert(device, answer);
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_without_a_name_is_counted_once_while_it_is_held() {
        let myself = [std::process::id().cast_signed()];
        // Beneath the build's own directory: the usual place for temporary files may be in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("file");
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&vec![1; 3 << 20]).unwrap();
        file.sync_all().unwrap();
        let again = file.try_clone().unwrap();
        let before = unlinked(&myself);
        fs::remove_file(&path).unwrap();
        let held = unlinked(&myself);
        assert!(held.bytes >= before.bytes + (3 << 20) && held.bytes < before.bytes + (6 << 20), "{before:?} {held:?}");
        assert_eq!(held.inodes, before.inodes + 1);
        drop((file, again));
        assert_eq!(unlinked(&myself), before);
        assert_eq!(unlinked(&[i32::MAX]), Usage::default());
    }
}
