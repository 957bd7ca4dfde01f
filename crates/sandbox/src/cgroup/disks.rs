//! The bound on reading and writing, which version 2 wants for each disk by its number.

use std::fs;
use std::path::Path;

use super::CgroupError;
use super::files::write;

const BLOCK_DEVICES: &str = "/sys/block";

/// Bounds what the group may read from, and write to, each disk in a second. Devices that take no bound are passed over unless
/// they are all there is.
pub(super) fn bound(directory: &Path, bytes_per_second: u64) -> Result<(), CgroupError> {
    let file = directory.join("io.max");
    let (mut taken, mut refused) = (false, None);
    for disk in disks(Path::new(BLOCK_DEVICES)) {
        match write(&file, &format!("{disk} rbps={bytes_per_second} wbps={bytes_per_second}")) {
            Ok(()) => taken = true,
            Err(error) => refused = Some(error),
        }
    }
    refused.filter(|_| !taken).map_or(Ok(()), Err)
}

/// Numbers (`major:minor`) of the whole disks that hold something; partitions are bounded with their disk.
fn disks(block_devices: &Path) -> Vec<String> {
    let read = |path: &Path| fs::read_to_string(path).map(|text| text.trim().to_string()).unwrap_or_default();
    let entries = fs::read_dir(block_devices).into_iter().flatten().flatten();
    let mut found: Vec<String> = entries
        .map(|entry| entry.path())
        .filter(|disk| !matches!(read(&disk.join("size")).as_str(), "" | "0"))
        .map(|disk| read(&disk.join("dev")))
        .filter(|number| !number.is_empty())
        .collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_disk_that_holds_something_is_bounded() {
        let block_devices = tempfile::tempdir().unwrap();
        for (name, size, number) in [("vda", "100\n", "254:0\n"), ("loop0", "0\n", "7:0\n"), ("sdb", "7\n", "8:16\n")] {
            let disk = block_devices.path().join(name);
            fs::create_dir(&disk).unwrap();
            fs::write(disk.join("size"), size).unwrap();
            fs::write(disk.join("dev"), number).unwrap();
        }
        assert_eq!(disks(block_devices.path()), ["254:0", "8:16"]);

        let group = tempfile::tempdir().unwrap();
        if disks(Path::new(BLOCK_DEVICES)).is_empty() {
            println!("skipped: no disk here");
            return;
        }
        assert!(bound(group.path(), 5 << 20).is_err(), "no disk took the bound");
        fs::write(group.path().join("io.max"), "").unwrap();
        bound(group.path(), 5 << 20).unwrap();
        let written = fs::read_to_string(group.path().join("io.max")).unwrap();
        assert!(written.contains(" rbps=5242880 wbps=5242880"), "{written}");
    }
}
