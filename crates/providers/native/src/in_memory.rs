//! The file systems in memory of a sandbox: which of them take nothing more, and which files there were cut off at the bound on one
//! file. Each sight has the time of the last change with it, so that what is merely still so is told from what happened again.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, fstatfs, openat, statat};
use stead_domain::environment::HOME;
use stead_domain::limit::Reached;
use stead_domain::ports::SandboxLimits;

use crate::plan::largest_file;

/// Where they lie: the last one in builds only.
const PLACES: [&str; 3] = ["/tmp", "/dev/shm", HOME];
const TMPFS_MAGIC: u64 = 0x0102_1994;
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);
/// Each level of a walk holds a descriptor, and a tenant decides how deep its tree is.
const DEEPEST: usize = 64;

/// The time of a change, in seconds and nanoseconds.
type Time = (i64, u64);

/// What is to be seen at one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sight {
    place: &'static str,
    /// Whether it is full, rather than holding a file that was cut off.
    full: bool,
    changed: Time,
}

/// What is to be seen now, each with what it means. Blocking; a place is walked only where it holds enough.
pub(crate) fn look(pid: i32, bounds: &SandboxLimits) -> Vec<(Sight, Reached)> {
    // The way to each is the launcher's own; a process that has ended has none.
    let open = |place: &str| openat(CWD, format!("/proc/{pid}/root{place}"), DIRECTORY, Mode::empty()).ok();
    PLACES.into_iter().filter_map(|place| Some((place, open(place)?))).flat_map(|one| see(one, bounds)).collect()
}

fn see((place, directory): (&'static str, OwnedFd), bounds: &SandboxLimits) -> Vec<(Sight, Reached)> {
    let Ok(system) = fstatfs(&directory) else { return Vec::new() };
    if u64::try_from(system.f_type) != Ok(TMPFS_MAGIC) {
        return Vec::new();
    }
    let (name, block) = (place.to_owned(), u64::try_from(system.f_bsize).unwrap_or(0));
    let full = match (system.f_blocks, system.f_bavail, system.f_files, system.f_ffree) {
        (1.., 0, ..) => Some(Reached::MemoryFull { place: name, bytes: system.f_blocks * block }),
        (_, _, 1.., 0) => Some(Reached::MemoryFiles { place: name, files: system.f_files }),
        _ => None,
    };
    let largest = largest_file(bounds);
    let held = system.f_blocks.saturating_sub(system.f_bfree).saturating_mul(block);
    if full.is_none() && held < largest {
        return Vec::new();
    }
    let mut walk = Walk { device: 0, largest, changed: (0, 0), cut_off: None };
    if let Ok(stat) = fstat(&directory) {
        walk.device = stat.st_dev;
        walk.count(&stat);
        walk.enter(&directory, 0);
    }
    let full = full.map(|reached| (Sight { place, full: true, changed: walk.changed }, reached));
    let cut_off = walk.cut_off.map(|changed| {
        let reached = Reached::MemoryFile { place: place.to_owned(), bytes: bounds.disk_bytes };
        (Sight { place, full: false, changed }, reached)
    });
    full.into_iter().chain(cut_off).collect()
}

struct Walk {
    device: u64,
    largest: u64,
    /// The last change of all.
    changed: Time,
    /// The last change of a file that may not grow.
    cut_off: Option<Time>,
}

impl Walk {
    /// Whatever cannot be read, or vanishes meanwhile, is left out.
    fn enter(&mut self, directory: &OwnedFd, depth: usize) {
        let Ok(entries) = Dir::read_from(directory) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if stat.st_dev != self.device {
                continue;
            }
            self.count(&stat);
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory || depth == DEEPEST {
                continue;
            }
            if let Ok(inner) = openat(directory, name, DIRECTORY, Mode::empty()) {
                self.enter(&inner, depth + 1);
            }
        }
    }

    fn count(&mut self, stat: &Stat) {
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        self.changed = self.changed.max(changed);
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if is_file && u64::try_from(stat.st_size).is_ok_and(|size| size >= self.largest) {
            self.cut_off = self.cut_off.max(Some(changed));
        }
    }
}
