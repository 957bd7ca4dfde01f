//! Whether the file system that holds workspaces can bound them itself.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Feature, State};

const FIX: &str = "on an unmounted ext4: tune2fs -O quota,project -Q prjquota DEVICE, then mount with prjquota";

/// Project quotas of the file system at `data`. They are reported only: this version bounds a
/// workspace by walking it ([`crate::disk::usage`]) and stopping the session, with or without them.
pub(super) fn project_quota(data: &Path) -> Feature {
    let options = fs::metadata(data).ok().and_then(|found| {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        options_of(&mounts, rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()))
    });
    let present =
        options.is_some_and(|options| options.split(',').any(|option| matches!(option, "prjquota" | "pquota")));
    let (state, explanation, fix) = if present {
        (State::Partial, "soft accounting: the file system has project quotas, which are not used yet", None)
    } else {
        (State::Missing, "soft accounting: workspaces are measured and sessions over their quota stopped", Some(FIX))
    };
    Feature {
        name: "disk quota".to_string(),
        state,
        required: false,
        explanation: explanation.to_string(),
        fix: fix.map(ToString::to_string),
    }
}

/// Options of the mounted file system with that device number, of a `/proc/self/mountinfo`.
fn options_of(mounts: &str, major: u32, minor: u32) -> Option<String> {
    let device = format!("{major}:{minor}");
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ');
        (place.nth(2)? == device)
            .then(|| format!("{},{}", place.nth(2).unwrap_or(""), kind.rsplit(' ').next().unwrap_or("")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_the_device() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 / /data rw,noatime shared:1 - ext4 /dev/b rw,prjquota\n";
        assert_eq!(options_of(mounts, 8, 2).unwrap(), "rw,noatime,rw,prjquota");
        assert_eq!(options_of(mounts, 8, 3), None);
    }
}
