//! Reading and writing the one-line files control groups consist of.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::CgroupError;

/// Writes a value; the file must exist.
pub(super) fn write(path: &Path, value: &str) -> Result<(), CgroupError> {
    OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|source| CgroupError::Io { action: "write", path: path.to_path_buf(), source })
}

/// Writes a value if this kernel has the file.
pub(super) fn write_if_there(path: &Path, value: &str) -> Result<(), CgroupError> {
    match write(path, value) {
        Err(CgroupError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// One number per line; none when there is no such file.
pub(super) fn numbers(path: &Path) -> Result<Vec<i32>, CgroupError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect()),
        // The second is what reading a group says that was removed after it was opened.
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV) => {
            Ok(Vec::new())
        }
        Err(source) => Err(CgroupError::Io { action: "read", path: path.to_path_buf(), source }),
    }
}

/// The number a file consists of.
pub(super) fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number after `key` in a file of `key number` lines.
pub(super) fn keyed(path: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}
