//! The name of this machine in rows: whose disk holds layers, versions and workspaces.
//!
//! It lies in the data directory, not in the machine's host name: what it names is the disk, and a host may be renamed.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};
use stead_domain::ports::IdSource;

use super::data_directory::{ENVIRONMENTS, has_environments, put};
use crate::adapters::RandomIds;

/// The name, if there is one yet.
pub(super) fn known(data: &Path) -> std::io::Result<Option<String>> {
    match std::fs::read_to_string(data.join("node")) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the name, making one on the first start. Under another name than its rows have, everything that lies here would belong to
/// nobody and be removed: a name that is gone is taken from what the provider has noted, and one that is another is refused.
pub(super) fn name(data: &Path) -> anyhow::Result<String> {
    let path = data.join("node");
    let found = known(data).with_context(|| format!("failed to read {}", path.display()))?;
    let noted = stead_provider_native::noted_node(data).context("failed to read where the data directory was")?;
    let name = match (found, noted) {
        (Some(name), _) if !is_sound(&name) => bail!("{} does not hold a name", path.display()),
        (Some(name), Some(noted)) if name != noted => bail!(
            "{} says `{name}`, but the sessions' files of this data directory belong to `{noted}` and would be removed: write that \
             into it, or restore the whole directory",
            path.display()
        ),
        (Some(name), _) => return Ok(name),
        (None, Some(noted)) if is_sound(&noted) => {
            tracing::warn!("{} was gone; it is written again as the environments' place says", path.display());
            noted
        }
        (None, _) if has_environments(data) => bail!(
            "{} is gone, without which the sessions' files of this data directory would be taken for nobody's and be removed: restore \
             it from a backup, or remove {} if they may go",
            path.display(),
            data.join(ENVIRONMENTS).display()
        ),
        (None, _) => format!("node-{}", RandomIds.uuid_v7().simple()),
    };
    put(&path, &format!("{name}\n")).with_context(|| format!("failed to write {}", path.display()))?;
    Ok(name)
}

fn is_sound(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
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

    #[test]
    fn no_new_name_is_made_where_there_are_files_of_sessions() {
        let root = tempfile::tempdir().unwrap();
        let (data, file) = (root.path(), root.path().join("node"));
        let first = name(data).unwrap();
        std::fs::create_dir_all(data.join("environments/0123")).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(name(data).unwrap_err().to_string().contains("is gone"));
        let place = serde_json::json!({"data": data, "node": first, "uid_base": null});
        std::fs::write(data.join("environments/place.json"), place.to_string()).unwrap();
        assert_eq!(name(data).unwrap(), first);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{first}\n"));
        std::fs::write(&file, "node-another\n").unwrap();
        assert!(name(data).unwrap_err().to_string().contains(&format!("belong to `{first}`")));
        // A copy that gives up what its sessions hold.
        std::fs::remove_file(&file).unwrap();
        std::fs::remove_dir_all(data.join("environments")).unwrap();
        assert_ne!(name(data).unwrap(), first);
    }
}
