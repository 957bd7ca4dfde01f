//! The data directory and the file system that it lies on.

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Finding;
use crate::console::size;

/// A build of a large project needs about as much.
const ENOUGH_BYTES: u64 = 2 << 30;
/// A project with its packages has about as many files.
const ENOUGH_FILES: u64 = 200_000;

/// A start closes it to others, and refuses one that is another user's.
fn of_its_own(path: &Path) -> Finding {
    let name = "data directory";
    let Ok(metadata) = std::fs::metadata(path) else {
        return Finding::missing(name, true, format!("{} cannot be looked at", path.display()), None);
    };
    let (owner, user, mode) = (metadata.uid(), rustix::process::geteuid().as_raw(), metadata.mode() & 0o777);
    if owner != user {
        let text = format!("{} belongs to user {owner}, and this is user {user}", path.display());
        return Finding::missing(name, true, text, Some("start the server as its owner".to_owned()));
    }
    if mode & 0o077 != 0 {
        let text = format!("{} is open to others (mode {mode:03o}), to whom a start closes it", path.display());
        return Finding::partial(name, text, Some(format!("chmod 700 {}", path.display())));
    }
    Finding::good(name, format!("{} can be written", path.display()))
}

/// Looks at the data directory without making it, and says where its file system can be tried.
pub(super) fn findings(path: &Path) -> (PathBuf, Vec<Finding>) {
    let existing = path.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(Path::new("/")).to_owned();
    let name = "data directory";
    let access = rustix::fs::access(&existing, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    let mut findings = vec![match access {
        Ok(()) if existing == path => of_its_own(path),
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

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::commands::doctor::Standing;

    #[test]
    fn a_directory_that_others_can_enter_is_told() {
        let root = tempfile::tempdir().unwrap();
        for (mode, standing) in [(0o711, Standing::Partial), (0o755, Standing::Partial), (0o700, Standing::Good)] {
            std::fs::set_permissions(root.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(findings(root.path()).1[0].standing, standing, "{mode:o}");
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(root.path(), Some(54_321), None).unwrap();
            assert_eq!(findings(root.path()).1[0].standing, Standing::Missing);
        }
    }
}
