//! Who goes first when the machine has less than all want: the service before its sandboxes, and no sandbox before another.

use std::path::Path;

use super::CgroupError;
use super::files::write_if_there;

/// Version 2 weight of each sandbox among the others; the kernel's own default.
pub(super) const SANDBOX: u64 = 100;
/// The same in version 1.
pub(super) const SANDBOX_SHARES: u64 = 1024;

/// Weight of all sandboxes together, where the service has a group of its own beside them.
const TOGETHER: u64 = 100;
/// Weight of that group.
const SERVICE: u64 = 1000;
/// Weight of all sandboxes together where the service is in the group above them, beside everything else of the machine: each
/// thread there weighs as much as a group with the default, so a much lower weight would starve the sandboxes.
const TOGETHER_BENEATH: u64 = SANDBOX / 2;
/// The same in version 1.
const SHARES_TOGETHER: u64 = SANDBOX_SHARES / 2;

/// Sets the weights of a version 2 hierarchy: of the group `together` that holds the sandboxes, and of the service's own `leaf`
/// if there is one. Controllers that are missing have no file, and those a kernel was built without weigh nothing.
pub(super) fn set_unified(together: &Path, leaf: &Path) -> Result<(), CgroupError> {
    let service_is_beside = leaf.is_dir();
    if service_is_beside {
        write_if_there(&leaf.join("cpu.weight"), &SERVICE.to_string())?;
        set_io(leaf, SERVICE)?;
    }
    let weight = if service_is_beside { TOGETHER } else { TOGETHER_BENEATH };
    write_if_there(&together.join("cpu.weight"), &weight.to_string())?;
    set_io(together, weight)
}

/// Sets the share of the directory that holds the sandboxes in the version 1 hierarchy of `cpu`.
pub(super) fn set_legacy(together: &Path) -> Result<(), CgroupError> {
    write_if_there(&together.join("cpu.shares"), &SHARES_TOGETHER.to_string())
}

/// Sets the weight of a group for disks.
pub(super) fn set_io(directory: &Path, weight: u64) -> Result<(), CgroupError> {
    write_if_there(&directory.join("io.weight"), &format!("default {weight}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_service_goes_before_its_sandboxes() {
        let own = tempfile::tempdir().unwrap();
        let group = |name: &str| {
            let directory = own.path().join(name);
            fs::create_dir_all(&directory).unwrap();
            for file in ["cpu.weight", "io.weight", "cpu.shares"] {
                fs::write(directory.join(file), "").unwrap();
            }
            directory
        };
        let read = |directory: &Path, file: &str| fs::read_to_string(directory.join(file)).unwrap();
        let together = group("stead");
        let leaf = own.path().join("stead.service");
        set_unified(&together, &leaf).unwrap();
        assert_eq!(read(&together, "cpu.weight"), "50", "beside threads of the service");
        let leaf = group("stead.service");
        set_unified(&together, &leaf).unwrap();
        assert_eq!((read(&together, "cpu.weight"), read(&leaf, "cpu.weight")), ("100".into(), "1000".into()));
        assert_eq!(
            (read(&together, "io.weight"), read(&leaf, "io.weight")),
            ("default 100".into(), "default 1000".into())
        );
        set_legacy(&together).unwrap();
        assert_eq!(read(&together, "cpu.shares"), "512");
    }
}
