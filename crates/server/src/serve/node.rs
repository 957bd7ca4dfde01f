//! The name of this machine in rows: whose disk holds layers, versions and workspaces.
//!
//! It lies in the data directory, not in the machine's host name: what it names is the disk, and a host may be renamed.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};
use stead_domain::ports::IdSource;

use super::data_directory::put;
use crate::adapters::RandomIds;

/// The name, if there is one yet.
pub(super) fn known(data: &Path) -> std::io::Result<Option<String>> {
    match std::fs::read_to_string(data.join("node")) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the name, making one on the first start.
pub(super) fn name(data: &Path) -> anyhow::Result<String> {
    let path = data.join("node");
    match known(data) {
        Ok(Some(name)) => {
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
                bail!("{} does not hold a name", path.display());
            }
            Ok(name)
        }
        Ok(None) => {
            let name = format!("node-{}", RandomIds.uuid_v7().simple());
            put(&path, &format!("{name}\n")).with_context(|| format!("failed to write {}", path.display()))?;
            Ok(name)
        }
        Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_stays_and_a_damaged_one_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let first = name(root.path()).unwrap();
        assert_eq!(name(root.path()).unwrap(), first);
        std::fs::write(root.path().join("node"), "").unwrap();
        assert!(name(root.path()).is_err());
    }
}
