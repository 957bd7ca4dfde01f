//! The first admin key, written to a file that its owner alone can read.
//!
//! The secret exists only in memory when the key is committed, so a crash between the commit and the file would lose it. A
//! marker is laid down first; a start that finds it makes another admin key. An operator who removes `admin.key` later
//! leaves no marker, and gets no key that nobody asked for.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use stead_domain::WorkspaceId;
use stead_engine::Engine;

const KEY: &str = "admin.key";
const MARKER: &str = "admin.key.pending";

/// Makes the first workspace with its admin key unless one exists, and says which it is.
pub(super) async fn ensure(engine: &Engine, data: &Path) -> anyhow::Result<WorkspaceId> {
    let (marker, key) = (data.join(MARKER), data.join(KEY));
    let interrupted = marker.exists();
    let fresh = !key.exists();
    if fresh {
        write(&marker, "").context("failed to prepare the first admin key")?;
    }
    let made = engine.bootstrap().await.context("failed to make the first workspace")?;
    let secret = match made.admin_secret {
        Some(secret) => Some(secret),
        None if interrupted && fresh => {
            Some(engine.admin_key(made.workspace).await.context("failed to make the first admin key again")?)
        }
        None => None,
    };
    if let Some(secret) = secret {
        write(&key, &format!("{secret}\n")).with_context(|| format!("failed to write {}", key.display()))?;
        tracing::info!("the first admin key is in {}", key.display());
    }
    match fs::remove_file(&marker) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context("failed to remove the key's marker")
        }
        _ => Ok(made.workspace),
    }
}

/// Writes a file that is either whole and durable or not there.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |directory| fs::File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_is_for_its_owner_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(KEY);
        write(&path, "secret\n").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&path).unwrap(), "secret\n");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
