//! The data directory and the file system that it lies on.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::Finding;
use crate::console::size;

/// A build of a large project needs about as much.
const ENOUGH_BYTES: u64 = 2 << 30;
/// A project with its packages has about as many files.
const ENOUGH_FILES: u64 = 200_000;

/// Looks at the data directory without making it, and says where its file system can be tried.
pub(super) fn findings(path: &Path) -> (PathBuf, Vec<Finding>) {
    let existing = path.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(Path::new("/")).to_owned();
    let name = "data directory";
    let access = rustix::fs::access(&existing, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    let mut findings = vec![match access {
        Ok(()) if existing == path => Finding::good(name, format!("{} can be written", path.display())),
        Ok(()) => Finding::good(name, format!("{} will be made", path.display())),
        Err(error) => {
            let fix = Some(format!("chown \"$(id -u)\" {}, or name another with --data", existing.display()));
            Finding::missing(name, true, format!("{} cannot be written: {error}", existing.display()), fix)
        }
    }];
    if let Ok(space) = rustix::fs::statvfs(&existing) {
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let mut text = format!("{} are free there", size(free));
        // Some file systems have no number of files.
        let few = space.f_files > 0 && space.f_favail < ENOUGH_FILES;
        if few {
            let _ = write!(text, ", and {} files", space.f_favail);
        }
        findings.push(if free >= ENOUGH_BYTES && !few {
            Finding::good("disk space", text)
        } else {
            Finding::partial("disk space", text + "; builds of large projects need more", None)
        });
    }
    (existing, findings)
}
